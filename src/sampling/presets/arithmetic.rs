//! In: numbers. Out: what NumPy, PyTorch and Python make of them, to the last bit.
//! Sampling code truncates what comes out, so that one bit decides which frame is shown.
//! Never: contracts a product and a sum where the original rounds twice, or rounds twice where it contracts.

/// `torch.linspace(start, stop, n)` in float32: the lower half counted from `start`, the upper half from `stop`, each
/// with one rounding (a fused multiply-add, as PyTorch is built for x86 with AVX2 and for Arm).
pub fn torch_linspace(start: f64, stop: f64, n: u32) -> Vec<f32> {
    (0..n).map(|i| torch_linspace_at(start, stop, n, i)).collect()
}

/// Value number `i` of [`torch_linspace`].
pub fn torch_linspace_at(start: f64, stop: f64, n: u32, i: u32) -> f32 {
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

/// Value number `i` of `torch.linspace(start, stop, n, dtype=torch.int)`: the same in float64, cut towards zero.
pub fn torch_linspace_int_at(start: i64, stop: i64, n: u32, i: u32) -> i64 {
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

/// How many values `arange(start, stop, step)` has, in NumPy and in PyTorch: a rounded quotient, rounded up. That can
/// be one more than there should be: `arange(0, 17, 17 / 7)` has 8 values.
pub fn arange_count(start: f64, stop: f64, step: f64) -> u64 {
    ((stop - start) / step).ceil().max(0.0) as u64
}

/// Value number `i` of `count` of `torch.arange(start, …, step, dtype=torch.float64)`, for up to 32,768 values (more
/// are shared out among threads).
pub fn torch_arange_f64(start: f64, step: f64, count: u64, i: u64) -> f64 {
    torch_arange(start, step, count, i, 4, |base| base)
}

/// Value number `i` of `count` of `torch.arange(start, …, step)` in float32; as for [`torch_arange_f64`].
pub fn torch_arange_f32(start: f64, step: f64, count: u64, i: u64) -> f32 {
    torch_arange(start, step, count, i, 8, |base| f64::from(base as f32)) as f32
}

/// PyTorch fills a register of `lanes` numbers at a time, counted from the register's first one, which is rounded to
/// the type of the result; two registers at a time, and what is left one by one (ATen's `RangeFactoriesKernel.cpp` and
/// `Loops.h`, with AVX2, which CPUs with AVX-512 use as well).
fn torch_arange(start: f64, step: f64, count: u64, i: u64, lanes: u64, narrow: impl Fn(f64) -> f64) -> f64 {
    if i >= count / (2 * lanes) * (2 * lanes) {
        return step.mul_add(i as f64, start);
    }
    let lane = i % lanes;
    step.mul_add(lane as f64, narrow(step.mul_add((i - lane) as f64, start)))
}

/// `round` of Python, `torch.round`, `numpy.round`: half to even.
pub fn round(value: f64) -> f64 {
    value.round_ties_even()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torch_counts_its_upper_half_from_the_end() {
        let frames: Vec<i64> = torch_linspace(0.0, 63.0, 16).iter().map(|&v| v as i64).collect();
        assert_eq!(frames, [0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 42, 46, 50, 54, 58, 63]);
        assert_eq!((torch_linspace(0.5, 9.0, 1), torch_linspace(0.5, 9.0, 0)), (vec![0.5], vec![]));
        // Recorded from torch 2.15 with AVX2; with two roundings, as without it, 1298.2856 and 1541.7144.
        let values = torch_linspace(0.0, 1704.0, 64);
        assert_eq!((values[48], values[57]), (1_298.285_8, 1_541.714_2));
    }

    #[test]
    fn whole_numbers_are_cut() {
        // torch.linspace(0, 10, 20, dtype=torch.int), as torchcodec's source quotes it.
        let values: Vec<i64> = (0..20).map(|i| torch_linspace_int_at(0, 10, 20, i)).collect();
        assert_eq!(values, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10]);
    }

    #[test]
    fn a_range_can_have_one_value_too_many() {
        assert_eq!(arange_count(0.0, 17.0, 17.0 / 7.0), 8);
        assert_eq!(torch_arange_f32(0.0, 17.0 / 7.0, 8, 7), 17.0);
        assert_eq!(
            [(0.0, 1.0, 0.25), (0.0, 1.0, 0.3), (1.0, 0.0, 0.5)].map(|(a, b, s)| arange_count(a, b, s)),
            [4, 4, 0]
        );
    }
}
