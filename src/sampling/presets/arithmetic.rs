//! In: numbers. Out: what NumPy, PyTorch and Python make of them, to the last bit.
//! Sampling code truncates what comes out, so that one bit decides which frame is shown.
//! Never: contracts a product and a sum where the original rounds twice, or rounds twice where it contracts.

/// `numpy.linspace(start, stop, n)` in float64: `i * step + start`, and the last one is `stop` itself.
pub fn linspace(start: f64, stop: f64, n: u32) -> Vec<f64> {
    let (intervals, delta) = (f64::from(n.saturating_sub(1)), stop - start);
    let step = delta / intervals;
    let at = |i: u32| match i {
        _ if n == 1 => start,
        _ if i == n - 1 => stop,
        // A step that underflows would lose the distance: NumPy then divides last.
        _ if step == 0.0 => f64::from(i) / intervals * delta + start,
        _ => f64::from(i) * step + start,
    };
    (0..n).map(at).collect()
}

/// `torch.linspace(start, stop, n)` in float32: the lower half counted from `start`, the upper half from `stop`, each
/// with one rounding (a fused multiply-add, as PyTorch is built for x86 with AVX2 and for Arm).
pub fn torch_linspace(start: f64, stop: f64, n: u32) -> Vec<f32> {
    let (start, stop) = (start as f32, stop as f32);
    if n == 1 {
        return vec![start];
    }
    let step = (stop - start) / n.saturating_sub(1) as f32;
    let at = |i: u32| match i < n / 2 {
        true => step.mul_add(i as f32, start),
        false => (-step).mul_add((n - 1 - i) as f32, stop),
    };
    (0..n).map(at).collect()
}

/// `numpy.arange(start, stop, step)` in float64: how many, and which. All are finite and `step` is above 0.
/// The distance is that of the first two values, as rounded, not `step`.
pub fn arange(start: f64, stop: f64, step: f64) -> (u64, impl Fn(u64) -> f64) {
    let count = ((stop - start) / step).ceil().max(0.0) as u64;
    let distance = (start + step) - start;
    (count, move |i| match i {
        1 => start + step,
        _ => start + i as f64 * distance,
    })
}

/// `a // b` of two floats in Python and NumPy, for `b` above 0.
pub fn floor_div(a: f64, b: f64) -> f64 {
    let rest = a % b;
    let towards_zero = (a - rest) / b;
    let quotient = if rest < 0.0 { towards_zero - 1.0 } else { towards_zero };
    let floor = quotient.floor();
    if quotient - floor > 0.5 {
        return floor + 1.0;
    }
    floor
}

/// `round`, `numpy.round`, `numpy.around`: half to even.
pub fn round(value: f64) -> f64 {
    value.round_ties_even()
}

/// `int(value)`: towards zero.
pub fn int(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linspace_ends_at_stop_and_counts_from_start() {
        assert_eq!(linspace(0.0, 63.0, 4), [0.0, 21.0, 42.0, 63.0]);
        assert_eq!((linspace(3.0, 9.0, 1), linspace(3.0, 9.0, 0)), (vec![3.0], vec![]));
        // 0.1 * 3 is not 0.3 in binary: i * step says so, the last value does not.
        assert_eq!(linspace(0.0, 0.5, 6), [0.0, 0.1, 0.2, 0.1 * 3.0, 0.4, 0.5]);
        assert_eq!(linspace(2.0, 2.0, 3), [2.0; 3]);
    }

    #[test]
    fn torch_counts_its_upper_half_from_the_end() {
        // 63 / 15 = 4.2 is not a float32; from the start 5 * 4.2 rounds to 21, from the end 63 - 2 * 4.2 to 54.6.
        let values = torch_linspace(0.0, 63.0, 16);
        let frames: Vec<i64> = values.iter().map(|&v| v as i64).collect();
        assert_eq!(frames, [0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 42, 46, 50, 54, 58, 63]);
        assert_eq!((torch_linspace(0.5, 9.0, 1), torch_linspace(0.5, 9.0, 0)), (vec![0.5], vec![]));
    }

    #[test]
    fn arange_stops_before_stop() {
        let (count, at) = arange(0.25, 10.25, 0.5);
        assert_eq!((count, at(0), at(1), at(19)), (20, 0.25, 0.75, 9.75));
        assert_eq!(arange(0.5, 0.5, 1.0).0, 0);
        assert_eq!(arange(0.5, 0.4, 1.0).0, 0);
    }

    #[test]
    fn floats_divide_and_round_as_in_python() {
        assert_eq!([7.3, -7.3, 6.0, -0.5, 0.0].map(|a| floor_div(a, 3.0)), [2.0, -3.0, 2.0, -1.0, 0.0]);
        assert_eq!([0.5, 1.5, 2.5, 2.500001].map(round), [0.0, 2.0, 2.0, 3.0]);
        assert_eq!([2.9, -2.9, f64::NAN].map(int), [2, -2, 0]);
    }
}
