//! Bit-exact versions of NumPy, PyTorch and Python functions, including where they use fused
//! multiply-adds. Sampling code truncates the results, so a difference of one bit can select
//! another frame. `value as i64` is Python's `int(value)`, `f64::round_ties_even` the `round` of
//! Python, NumPy and PyTorch.

/// `numpy.linspace(start, stop, n)` in float64: `i * step + start`, and the last value is `stop`
/// itself.
pub(crate) fn linspace(start: f64, stop: f64, n: u32) -> Vec<f64> {
    let (intervals, delta) = (f64::from(n.saturating_sub(1)), stop - start);
    let step = delta / intervals;
    let at = |i: u32| match i {
        _ if n == 1 => start,
        _ if i == n - 1 => stop,
        // An underflowing step would lose the distance: NumPy then divides before it multiplies.
        _ if step == 0.0 => f64::from(i) / intervals * delta + start,
        _ => f64::from(i) * step + start,
    };
    (0..n).map(at).collect()
}

/// `numpy.arange(start, stop, step)` in float64: the number of values, and each value. All
/// arguments are finite and `step` is positive. The distance is the rounded difference of the first
/// two values, not `step`.
pub(crate) fn arange(start: f64, stop: f64, step: f64) -> (u64, impl Fn(u64) -> f64) {
    let count = arange_count(start, stop, step);
    let distance = (start + step) - start;
    (count, move |i| match i {
        1 => start + step,
        _ => start + i as f64 * distance,
    })
}

/// `a // b` of two floats in Python and NumPy, for positive `b`.
pub(crate) fn floor_div(a: f64, b: f64) -> f64 {
    let rest = a % b;
    let towards_zero = (a - rest) / b;
    let quotient = if rest < 0.0 {
        towards_zero - 1.0
    } else {
        towards_zero
    };
    let floor = quotient.floor();
    if quotient - floor > 0.5 {
        return floor + 1.0;
    }
    floor
}

/// `torch.linspace(start, stop, n)` in float32: the lower half is computed from `start`, the upper
/// half from `stop`, each with one rounding (a fused multiply-add, as in PyTorch builds for x86
/// with AVX2 and for Arm).
pub(crate) fn torch_linspace(start: f64, stop: f64, n: u32) -> Vec<f32> {
    (0..n)
        .map(|i| torch_linspace_at(start, stop, n, i))
        .collect()
}

/// Value number `i` of [`torch_linspace`].
pub(crate) fn torch_linspace_at(start: f64, stop: f64, n: u32, i: u32) -> f32 {
    let (start, stop) = (start as f32, stop as f32);
    if n <= 1 {
        return start;
    }
    let step = (stop - start) / (n - 1) as f32;
    match i < n / 2 {
        true => step.mul_add(i as f32, start),
        false => (-step).mul_add((n - 1 - i) as f32, stop),
    }
}

/// Value number `i` of `torch.linspace(start, stop, n, dtype=torch.int)`: the same in float64,
/// truncated toward zero.
pub(crate) fn torch_linspace_int_at(start: i64, stop: i64, n: u32, i: u32) -> i64 {
    if n <= 1 {
        return start;
    }
    let (start, stop) = (start as f64, stop as f64);
    let step = (stop - start) / f64::from(n - 1);
    let value = match i < n / 2 {
        true => step.mul_add(f64::from(i), start),
        false => (-step).mul_add(f64::from(n - 1 - i), stop),
    };
    value as i64
}

/// Number of values of `arange(start, stop, step)` in NumPy and in PyTorch: a rounded quotient,
/// rounded up. This can be one too many: `arange(0, 17, 17 / 7)` has 8 values.
pub(crate) fn arange_count(start: f64, stop: f64, step: f64) -> u64 {
    ((stop - start) / step).ceil().max(0.0) as u64
}

/// Value number `i` of `count` of `torch.arange(start, …, step, dtype=torch.float64)`, for up to
/// 32,768 values (PyTorch divides more values between threads).
pub(crate) fn torch_arange_f64(start: f64, step: f64, count: u64, i: u64) -> f64 {
    torch_arange(start, step, count, i, 4, |base| base)
}

/// Value number `i` of `count` of `torch.arange(start, …, step)` in float32, with the same limit as
/// [`torch_arange_f64`].
pub(crate) fn torch_arange_f32(start: f64, step: f64, count: u64, i: u64) -> f32 {
    torch_arange(start, step, count, i, 8, |base| f64::from(base as f32)) as f32
}

/// PyTorch fills a vector register of `lanes` numbers at a time, computed from the register's first
/// number, which is rounded to the result type. It fills two registers per step and computes the
/// remaining values one by one (ATen's `RangeFactoriesKernel.cpp` and `Loops.h`, with AVX2, which
/// CPUs with AVX-512 use as well).
fn torch_arange(
    start: f64,
    step: f64,
    count: u64,
    i: u64,
    lanes: u64,
    narrow: impl Fn(f64) -> f64,
) -> f64 {
    if i >= count / (2 * lanes) * (2 * lanes) {
        return step.mul_add(i as f64, start);
    }
    let lane = i % lanes;
    step.mul_add(lane as f64, narrow(step.mul_add((i - lane) as f64, start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linspace_ends_at_stop_and_counts_from_start() {
        assert_eq!(linspace(0.0, 63.0, 4), [0.0, 21.0, 42.0, 63.0]);
        assert_eq!(
            (linspace(3.0, 9.0, 1), linspace(3.0, 9.0, 0)),
            (vec![3.0], vec![])
        );
        // 0.1 * 3 is not 0.3 in binary: `i * step` shows this error, the last value does not.
        assert_eq!(linspace(0.0, 0.5, 6), [0.0, 0.1, 0.2, 0.1 * 3.0, 0.4, 0.5]);
        assert_eq!(linspace(2.0, 2.0, 3), [2.0; 3]);
    }

    #[test]
    fn torch_counts_its_upper_half_from_the_end() {
        let frames: Vec<i64> = torch_linspace(0.0, 63.0, 16)
            .iter()
            .map(|&v| v as i64)
            .collect();
        assert_eq!(
            frames,
            [0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 42, 46, 50, 54, 58, 63]
        );
        assert_eq!(
            (torch_linspace(0.5, 9.0, 1), torch_linspace(0.5, 9.0, 0)),
            (vec![0.5], vec![])
        );
        // Recorded from torch 2.15 with AVX2; with two roundings, as without AVX2, the values are
        // 1298.2856 and 1541.7144.
        let values = torch_linspace(0.0, 1704.0, 64);
        assert_eq!((values[48], values[57]), (1_298.285_8, 1_541.714_2));
    }

    #[test]
    fn arange_stops_before_stop() {
        let (count, at) = arange(0.25, 10.25, 0.5);
        assert_eq!((count, at(0), at(1), at(19)), (20, 0.25, 0.75, 9.75));
        assert_eq!(arange(0.5, 0.5, 1.0).0, 0);
        assert_eq!(arange(0.5, 0.4, 1.0).0, 0);
    }

    #[test]
    fn floats_divide_as_in_python() {
        assert_eq!(
            [7.3, -7.3, 6.0, -0.5, 0.0].map(|a| floor_div(a, 3.0)),
            [2.0, -3.0, 2.0, -1.0, 0.0]
        );
    }

    #[test]
    fn integers_are_truncated() {
        // torch.linspace(0, 10, 20, dtype=torch.int), as quoted in torchcodec's source.
        let values: Vec<i64> = (0..20)
            .map(|i| torch_linspace_int_at(0, 10, 20, i))
            .collect();
        assert_eq!(
            values,
            [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10]
        );
    }

    #[test]
    fn a_range_can_have_one_value_too_many() {
        assert_eq!(arange_count(0.0, 17.0, 17.0 / 7.0), 8);
        assert_eq!(torch_arange_f32(0.0, 17.0 / 7.0, 8, 7), 17.0);
        assert_eq!(
            [(0.0, 1.0, 0.25), (0.0, 1.0, 0.3), (1.0, 0.0, 0.5)]
                .map(|(a, b, s)| arange_count(a, b, s)),
            [4, 4, 0]
        );
    }
}
