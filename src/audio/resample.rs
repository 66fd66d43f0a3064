//! Band-limited resampling between two integer sample rates, on a grid fixed to the start of the
//! stream: output sample `m` is at input position `m * in_rate / out_rate`, and its value depends
//! only on `m` and the input. A window is therefore bit for bit the cut of the whole stream.
//!
//! `y[m] = sum over k of h(position - k) * x[k]`, with a sinc limited by a Kaiser window as `h`
//! (J. O. Smith, "Digital Audio Resampling"; J. F. Kaiser, "Nonrecursive digital filter design
//! using the I0-sinh window function", 1974). The pass band is flat within 0.01 dB up to 0.913 of
//! the Nyquist frequency of the lower rate. From that Nyquist frequency on, the filter attenuates
//! by at least 100 dB.
//!
//! All machines compute the same bits: only additions, multiplications and divisions are used, in
//! a fixed order.

use std::f64::consts::PI;
use std::ops::Range;

/// Highest rate, in Hz.
pub(crate) const MAX_RATE: u32 = 768_000;

/// Largest ratio of the input rate to the output rate. It limits the length of the filter.
pub(crate) const MAX_DECIMATION: u32 = 1024;

/// Half length of the filter in samples of the lower rate.
const ZERO_CROSSINGS: u32 = 69;

/// Middle of the transition band, relative to the Nyquist frequency of the lower rate.
const CUTOFF: f64 = 0.953;

/// Shape of the Kaiser window.
const BETA: f64 = 10.15;

/// Largest table with one row of coefficients for each phase. Above it, rows are interpolated.
const MAX_PHASES_BYTES: u64 = 1 << 20;

/// Rows per sample of the lower rate for interpolation. The cubic's error is below 3e-8.
const INTERPOLATION_ROWS: u32 = 64;

/// Partial sums of a dot product. The length of a row is a multiple of this.
const LANES: usize = 16;

/// Resamples one channel. Building the coefficients takes up to a few milliseconds; channels and
/// windows can share them.
#[derive(Debug)]
pub(crate) struct Resampler {
    /// Input and output rate, divided by their greatest common divisor.
    input: u32,
    output: u32,
    /// Coefficients per output sample; 0 if the rates are equal.
    taps: usize,
    /// Rows per input sample if rows are interpolated. Otherwise there is one row for each phase.
    interpolation: Option<u32>,
    /// Rows of `taps` coefficients, by ascending phase.
    rows: Vec<f32>,
}

/// Input position of an output sample: `whole + phase / output`.
#[derive(Clone, Copy)]
struct Position {
    whole: i128,
    phase: u32,
}

impl Resampler {
    /// `None` if a rate is 0 or above `MAX_RATE`, or the ratio is above `MAX_DECIMATION`.
    pub(crate) fn new(in_rate: u32, out_rate: u32) -> Option<Self> {
        let valid = 1..=MAX_RATE;
        if !valid.contains(&in_rate) || !valid.contains(&out_rate) {
            return None;
        }
        if u64::from(in_rate) > u64::from(out_rate) * u64::from(MAX_DECIMATION) {
            return None;
        }
        let divisor = greatest_common_divisor(in_rate, out_rate);
        let (input, output) = (in_rate / divisor, out_rate / divisor);
        if input == output {
            return Some(Self {
                input,
                output,
                taps: 0,
                interpolation: None,
                rows: Vec::new(),
            });
        }
        let longer = input.max(output);
        // One more on each side, because interpolation uses rows outside of 0..1.
        let half = (ZERO_CROSSINGS * longer).div_ceil(output) as usize + 1;
        let taps = (2 * half).next_multiple_of(LANES);
        let fits = u64::from(output) * taps as u64 * size_of::<f32>() as u64 <= MAX_PHASES_BYTES;
        let interpolation = (!fits).then(|| (INTERPOLATION_ROWS * output).div_ceil(longer));
        let rows = match interpolation {
            None => coefficients(input, output, taps, output, 0..i64::from(output)),
            Some(density) => coefficients(input, output, taps, density, -1..i64::from(density) + 2),
        };
        Some(Self {
            input,
            output,
            taps,
            interpolation,
            rows,
        })
    }

    /// Length of the whole stream after resampling: the number of samples that lie before its end.
    pub(crate) fn output_len(&self, input_len: u64) -> u64 {
        let len = (u128::from(input_len) * u128::from(self.output)).div_ceil(self.input.into());
        u64::try_from(len).unwrap_or(u64::MAX)
    }

    /// Input samples that these output samples need. The range may begin before 0, end after the
    /// stream, and is limited to what an `i64` can hold.
    pub(crate) fn input_range(&self, output: Range<i64>) -> Range<i64> {
        if self.taps == 0 || output.is_empty() {
            return output.start..output.end.max(output.start);
        }
        let first = self.first_tap(self.position(output.start));
        let last = self.first_tap(self.position(output.end - 1)) + self.taps as i128;
        saturate(first)..saturate(last)
    }

    /// Computes the samples from `output_begin` on. `input` begins at sample `input_begin` of the
    /// stream; samples outside of it count as zero.
    pub(crate) fn run(
        &self,
        input: &[f32],
        input_begin: i64,
        output_begin: i64,
        output: &mut [f32],
    ) {
        if self.taps == 0 {
            return copy(
                input,
                i128::from(output_begin) - i128::from(input_begin),
                output,
            );
        }
        self.filter(input, input_begin, output_begin, output);
    }

    fn filter(&self, input: &[f32], input_begin: i64, output_begin: i64, output: &mut [f32]) {
        let mut padded = [vec![0.0; self.taps], vec![0.0; self.taps]];
        let [padded, other_padded] = &mut padded;
        let mut position = self.position(output_begin);
        if let Some(density) = self.interpolation {
            for sample in output {
                let offset = self.first_tap(position) - i128::from(input_begin);
                let (rows, weights) = self.neighbors(position.phase, density);
                *sample = dot_interpolated(rows, weights, window(input, offset, padded));
                position = self.next(position);
            }
            return;
        }
        // Outputs that are one period apart have the same phase: two share the loads of a row.
        let period = self.output as usize;
        for pair in output.chunks_mut(2 * period) {
            let (first, second) = pair.split_at_mut(period.min(pair.len()));
            for (i, sample) in first.iter_mut().enumerate() {
                let offset = self.first_tap(position) - i128::from(input_begin);
                let taps = window(input, offset, padded);
                let row = &self.rows[position.phase as usize * self.taps..][..self.taps];
                if let Some(other) = second.get_mut(i) {
                    let offset = offset + i128::from(self.input);
                    let other_taps = window(input, offset, other_padded);
                    [*sample, *other] = dot_pair(row, taps, other_taps);
                } else {
                    *sample = dot(row, taps);
                }
                position = self.next(position);
            }
            position.whole += i128::from(self.input);
        }
    }

    fn position(&self, output: i64) -> Position {
        let numerator = i128::from(output) * i128::from(self.input);
        let phases = i128::from(self.output);
        Position {
            whole: numerator.div_euclid(phases),
            phase: numerator.rem_euclid(phases) as u32,
        }
    }

    /// Position of the next output sample.
    fn next(&self, position: Position) -> Position {
        let phase = position.phase + self.input % self.output;
        let wraps = phase >= self.output;
        Position {
            whole: position.whole + i128::from(self.input / self.output + u32::from(wraps)),
            phase: if wraps { phase - self.output } else { phase },
        }
    }

    fn first_tap(&self, position: Position) -> i128 {
        position.whole - center(self.taps) as i128
    }

    /// The four rows around a phase and their weights.
    fn neighbors(&self, phase: u32, density: u32) -> (&[f32], [f32; 4]) {
        let scaled = u64::from(phase) * u64::from(density);
        let row = (scaled / u64::from(self.output)) as usize;
        let fraction = (scaled % u64::from(self.output)) as f64 / f64::from(self.output);
        (
            &self.rows[row * self.taps..][..4 * self.taps],
            cubic(fraction),
        )
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

fn saturate(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Index of the tap at the position's whole part.
fn center(taps: usize) -> usize {
    taps / 2 - 1
}

/// Copies `input[offset..]`, with zeros where there is none.
fn copy(input: &[f32], offset: i128, output: &mut [f32]) {
    output.fill(0.0);
    let begin = offset.clamp(0, input.len() as i128);
    let end = (offset + output.len() as i128).clamp(begin, input.len() as i128);
    if begin < end {
        let input = &input[begin as usize..end as usize];
        output[(begin - offset) as usize..][..input.len()].copy_from_slice(input);
    }
}

/// `input[offset..]` of the length of `padded`, which receives a copy if a part is missing.
#[inline(always)]
fn window<'a>(input: &'a [f32], offset: i128, padded: &'a mut [f32]) -> &'a [f32] {
    let inside = usize::try_from(offset)
        .ok()
        .and_then(|offset| input.get(offset..));
    if let Some(inside) = inside.and_then(|input| input.get(..padded.len())) {
        return inside;
    }
    copy(input, offset, padded);
    padded
}

#[inline(always)]
fn dot(row: &[f32], input: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (row, input) in chunks(row).zip(chunks(input)) {
        add_products(&mut sums, row, input);
    }
    sum(sums)
}

/// Dot products of one row with two inputs.
#[inline(always)]
fn dot_pair(row: &[f32], first: &[f32], second: &[f32]) -> [f32; 2] {
    let (mut sums, mut second_sums) = ([0.0; LANES], [0.0; LANES]);
    for ((row, first), second) in chunks(row).zip(chunks(first)).zip(chunks(second)) {
        add_products(&mut sums, row, first);
        add_products(&mut second_sums, row, second);
    }
    [sum(sums), sum(second_sums)]
}

/// Dot product with the weighted sum of four consecutive rows.
#[inline(always)]
fn dot_interpolated(rows: &[f32], weights: [f32; 4], input: &[f32]) -> f32 {
    let [row0, row1, row2, row3] =
        [0, 1, 2, 3].map(|row| chunks(&rows[row * input.len()..][..input.len()]));
    let mut sums = [0.0; LANES];
    for ((((row0, row1), row2), row3), input) in
        row0.zip(row1).zip(row2).zip(row3).zip(chunks(input))
    {
        let mut row = [0.0; LANES];
        for lane in 0..LANES {
            let outer = weights[0] * row0[lane] + weights[3] * row3[lane];
            let inner = weights[1] * row1[lane] + weights[2] * row2[lane];
            row[lane] = outer + inner;
        }
        add_products(&mut sums, &row, input);
    }
    sum(sums)
}

#[inline(always)]
fn chunks(samples: &[f32]) -> std::slice::Iter<'_, [f32; LANES]> {
    samples.as_chunks().0.iter()
}

#[inline(always)]
fn add_products(sums: &mut [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) {
    for lane in 0..LANES {
        sums[lane] += a[lane] * b[lane];
    }
}

/// Not inlined: the compiler would arrange the lanes of the loops above for this sum, which makes
/// them three times slower.
#[inline(never)]
fn sum(lanes: [f32; LANES]) -> f32 {
    let mut quarters = [0.0; 4];
    for (i, quarter) in quarters.iter_mut().enumerate() {
        *quarter = (lanes[i] + lanes[i + 4]) + (lanes[i + 8] + lanes[i + 12]);
    }
    let [a, b, c, d] = quarters;
    (a + b) + (c + d)
}

/// Lagrange weights of the points -1, 0, 1 and 2 at `x`.
fn cubic(x: f64) -> [f32; 4] {
    let (next, previous, far) = (x + 1.0, x - 1.0, x - 2.0);
    [
        -x * previous * far / 6.0,
        next * previous * far / 2.0,
        -next * x * far / 2.0,
        next * x * previous / 6.0,
    ]
    .map(|weight| weight as f32)
}

/// Rows of coefficients for the positions `row / density`. The sum of each row is 1.
fn coefficients(input: u32, output: u32, taps: usize, density: u32, rows: Range<i64>) -> Vec<f32> {
    // Distances are integers in units of `scale`, so that the filter is exactly symmetric.
    let scale = f64::from(output) / (f64::from(density) * f64::from(input.max(output)));
    let length = (f64::from(ZERO_CROSSINGS) / scale) as usize + 1;
    let half: Vec<f64> = (0..length)
        .map(|n| impulse_response(n as f64 * scale))
        .collect();
    let center = center(taps) as i64;
    let mut table = Vec::with_capacity((rows.end - rows.start) as usize * taps);
    let mut values = vec![0.0; taps];
    for row in rows {
        for (tap, value) in (0..).zip(&mut values) {
            let distance = (tap - center) * i64::from(density) - row;
            *value = half
                .get(distance.unsigned_abs() as usize)
                .copied()
                .unwrap_or(0.0);
        }
        let gain: f64 = values.iter().sum();
        table.extend(values.iter().map(|value| (value / gain) as f32));
    }
    table
}

/// The filter at a distance in samples of the lower rate, not normalized.
fn impulse_response(distance: f64) -> f64 {
    let edge = distance / f64::from(ZERO_CROSSINGS);
    if edge >= 1.0 {
        return 0.0;
    }
    let phase = CUTOFF * distance;
    let sinc = if phase == 0.0 {
        1.0
    } else {
        sin_pi(phase) / (PI * phase)
    };
    sinc * bessel_i0(BETA * BETA * (1.0 - edge * edge))
}

/// The modified Bessel function I0 of the square root, by its power series.
fn bessel_i0(square: f64) -> f64 {
    const FACTORS: [f64; 28] = factors(0);
    nested(square, &FACTORS)
}

/// `sin(pi * x)` by its Taylor series: the result of `f64::sin` depends on the system.
fn sin_pi(x: f64) -> f64 {
    const FACTORS: [f64; 12] = factors(1);
    let x = x - 2.0 * (x / 2.0).round(); // -1..=1
    let x = PI * if x.abs() > 0.5 { x.signum() - x } else { x };
    x * nested(-x * x, &FACTORS)
}

/// Ratios of successive terms of both series: `1 / (2k * (2k + odd))`, from k = 1 on.
const fn factors<const N: usize>(odd: usize) -> [f64; N] {
    let mut factors = [0.0; N];
    let mut i = 0;
    while i < N {
        let twice = 2 * (i + 1);
        factors[i] = 1.0 / (twice * (twice + odd)) as f64;
        i += 1;
    }
    factors
}

/// `1 + x * f[0] * (1 + x * f[1] * (1 + ...))`.
fn nested(x: f64, factors: &[f64]) -> f64 {
    factors
        .iter()
        .rev()
        .fold(1.0, |sum, factor| 1.0 + x * factor * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates with few phases, with many, with interpolation, and both directions of each.
    const RATES: [(u32, u32); 12] = [
        (44_100, 16_000),
        (44_100, 48_000),
        (48_000, 44_100),
        (44_100, 22_051),
        (22_051, 44_100),
        (8_000, 48_000),
        (96_000, 16_000),
        (16_000, 16_000),
        (768_000, 750),
        (768_000, 767_999),
        (1, 768_000),
        (11_025, 11_026),
    ];

    fn resampler(in_rate: u32, out_rate: u32) -> Resampler {
        Resampler::new(in_rate, out_rate).unwrap()
    }

    /// A linear congruential generator.
    fn random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    fn noise(len: usize) -> Vec<f32> {
        let mut state = 1;
        (0..len)
            .map(|_| random(&mut state) as f32 / (1u32 << 30) as f32 - 1.0)
            .collect()
    }

    fn whole(resampler: &Resampler, input: &[f32]) -> Vec<f32> {
        let mut output = vec![0.0; resampler.output_len(input.len() as u64) as usize];
        resampler.run(input, 0, 0, &mut output);
        output
    }

    fn bits(samples: &[f32]) -> Vec<u32> {
        samples.iter().map(|sample| sample.to_bits()).collect()
    }

    /// Largest difference from a sine of the same frequency, in dB, away from the ends.
    fn sine_error(in_rate: u32, out_rate: u32, frequency: f64, gain: f64) -> f64 {
        let sine = |n: usize, rate: u32| {
            // An exact fraction of a turn, because a large argument of sin() would be inexact.
            (2.0 * PI * (n as f64 * frequency / f64::from(rate)).fract()).sin()
        };
        let resampler = resampler(in_rate, out_rate);
        let margin = resampler.taps * out_rate as usize / in_rate as usize + 1;
        let input_len = 6 * resampler.taps + 1000;
        let input: Vec<f32> = (0..input_len).map(|n| sine(n, in_rate) as f32).collect();
        let output = whole(&resampler, &input);
        let inner = margin..output.len() - margin;
        let error = inner.map(|m| (f64::from(output[m]) - gain * sine(m, out_rate)).abs());
        20.0 * error.fold(0.0, f64::max).log10()
    }

    #[test]
    fn a_window_is_the_cut_of_the_whole_stream_bit_for_bit() {
        let mut state = 7;
        for (in_rate, out_rate) in RATES.into_iter().filter(|&(_, out)| out < 700_000) {
            let resampler = resampler(in_rate, out_rate);
            let input = noise(20 * resampler.taps.min(3000) + 3000);
            let whole = whole(&resampler, &input);
            for _ in 0..60 {
                let begin = random(&mut state) as usize % whole.len();
                let end = begin + 1 + random(&mut state) as usize % (whole.len() - begin);
                let needed = resampler.input_range(begin as i64..end as i64);
                let first = needed.start.clamp(0, input.len() as i64);
                let last = needed.end.clamp(first, input.len() as i64);
                let mut window = vec![0.0; end - begin];
                let slice = &input[first as usize..last as usize];
                resampler.run(slice, first, begin as i64, &mut window);
                assert_eq!(
                    bits(&window),
                    bits(&whole[begin..end]),
                    "{in_rate} {out_rate} {begin}"
                );
            }
        }
    }

    #[test]
    fn output_equals_the_formula() {
        for (in_rate, out_rate) in [(44_100, 16_000), (48_000, 44_100), (44_100, 22_051), (3, 7)] {
            let resampler = resampler(in_rate, out_rate);
            let input = noise(2000);
            let output = whole(&resampler, &input);
            let scale = f64::from(out_rate.min(in_rate)) / f64::from(in_rate);
            for m in (0..output.len()).step_by(37) {
                let position = m as f64 * f64::from(in_rate) / f64::from(out_rate);
                let first = position.floor() as i64 - (resampler.taps as i64);
                let taps = first..first + 2 * resampler.taps as i64;
                let weighted = taps.map(|k| {
                    let weight = impulse_response((position - k as f64).abs() * scale);
                    let sample = usize::try_from(k).ok().and_then(|k| input.get(k));
                    (weight, weight * f64::from(sample.copied().unwrap_or(0.0)))
                });
                let (gain, sum) = weighted.fold((0.0, 0.0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
                assert!(
                    (sum / gain - f64::from(output[m])).abs() < 1e-6,
                    "{in_rate} {out_rate} {m}"
                );
            }
        }
    }

    #[test]
    fn the_series_equal_the_functions() {
        for n in -4000..4000 {
            let x = f64::from(n) / 97.0;
            assert!((sin_pi(x) - (PI * x).sin()).abs() < 1e-13);
        }
        // Abramowitz and Stegun, table 9.8: exp(-x) I0(x) at 1, 5 and 10.
        for (x, expected) in [
            (1.0_f64, 0.465_759_6),
            (5.0, 0.183_540_8),
            (10.0, 0.127_833_3),
        ] {
            assert!(((-x).exp() * bessel_i0(x * x) - expected).abs() < 1e-7);
        }
    }

    #[test]
    fn a_constant_keeps_its_value() {
        for (in_rate, out_rate) in RATES {
            let resampler = resampler(in_rate, out_rate);
            let mut output = [0.0; 1000];
            let needed = resampler.input_range(5000..6000);
            let input = vec![1.0; (needed.end - needed.start) as usize];
            resampler.run(&input, needed.start, 5000, &mut output);
            for value in output {
                assert!((value - 1.0).abs() < 1e-6, "{in_rate} {out_rate} {value}");
            }
        }
    }

    #[test]
    fn the_pass_band_is_flat_within_a_hundredth_of_a_decibel() {
        for (in_rate, out_rate) in [(44_100, 16_000), (44_100, 48_000), (44_100, 22_051)] {
            for (part, limit) in [(0.05, -110.0), (0.5, -110.0), (0.8, -100.0), (0.912, -58.8)] {
                let frequency = part * f64::from(out_rate.min(in_rate)) / 2.0;
                let error = sine_error(in_rate, out_rate, frequency, 1.0);
                assert!(error < limit, "{in_rate} {out_rate} {part} {error}"); // 0.01 dB is -58.8 dB
            }
        }
    }

    #[test]
    fn aliases_are_100_db_down() {
        for (in_rate, out_rate) in [(44_100, 16_000), (96_000, 16_000), (44_100, 22_051)] {
            for part in [1.001, 1.01, 1.1, 1.5, 2.0] {
                let frequency = part * f64::from(out_rate) / 2.0;
                let error = sine_error(in_rate, out_rate, frequency, 0.0);
                assert!(error < -100.0, "{in_rate} {out_rate} {part} {error}");
            }
        }
    }

    #[test]
    fn the_response_to_an_impulse_is_symmetric() {
        for (in_rate, out_rate) in [(8_000, 48_000), (44_100, 48_000), (44_101, 48_000)] {
            let resampler = resampler(in_rate, out_rate);
            let impulse = i64::from(in_rate); // at output sample `out_rate`
            let (mut before, mut after) = ([0.0; 700], [0.0; 700]);
            resampler.run(&[1.0], impulse, i64::from(out_rate) - 699, &mut before);
            resampler.run(&[1.0], impulse, i64::from(out_rate), &mut after);
            before.reverse();
            for (before, after) in before.into_iter().zip(after) {
                assert!(
                    (before - after).abs() <= 3e-8,
                    "{in_rate} {out_rate} {before} {after}"
                );
            }
            assert!(after[0] > 0.9 && after[1..].iter().all(|&value| value < after[0]));
        }
    }

    #[test]
    fn samples_outside_of_the_input_count_as_zero() {
        for (in_rate, out_rate) in [(44_100, 16_000), (8_000, 48_000), (44_100, 22_051), (5, 5)] {
            let resampler = resampler(in_rate, out_rate);
            let input = noise(500);
            let mut padded = vec![0.0; 3000];
            padded[1000..1500].copy_from_slice(&input);
            let begin = resampler.output_len(1000) as i64 - 200;
            let (mut expected, mut output) = ([0.0; 1200], [1.0; 1200]);
            resampler.run(&padded, 0, begin, &mut expected);
            resampler.run(&input, 1000, begin, &mut output);
            assert_eq!(output, expected);
        }
        let mut output = [1.0; 3];
        resampler(44_100, 16_000).run(&[], 0, 0, &mut output);
        assert_eq!(output, [0.0; 3]);
    }

    #[test]
    fn the_grid_continues_before_the_start() {
        for (in_rate, out_rate) in [(441, 160), (160, 441), (44_100, 22_051)] {
            let resampler = resampler(in_rate, out_rate);
            let input = noise(500);
            let (mut expected, mut output) = ([0.0; 300], [0.0; 300]);
            for (periods, output) in [(3, &mut expected), (-3, &mut output)] {
                let (input_begin, begin) = (periods * i64::from(in_rate), i64::from(out_rate));
                resampler.run(&input, input_begin, periods * begin - 50, output);
            }
            assert_eq!(bits(&output), bits(&expected), "{in_rate} {out_rate}");
        }
    }

    #[test]
    fn equal_rates_copy() {
        let resampler = resampler(48_000, 48_000);
        let input = [0.1, f32::NAN, -0.3];
        assert_eq!(
            (resampler.output_len(3), resampler.input_range(-2..9)),
            (3, -2..9)
        );
        let mut output = [9.0; 4];
        resampler.run(&input, 10, 11, &mut output);
        assert!(output[0].is_nan());
        assert_eq!(output[1..], [-0.3, 0.0, 0.0]);
    }

    #[test]
    fn the_stream_ends_with_the_last_output_before_its_end() {
        assert_eq!(resampler(44_100, 16_000).output_len(441), 160);
        assert_eq!(resampler(44_100, 16_000).output_len(442), 161);
        assert_eq!(resampler(8_000, 48_000).output_len(1), 6);
        assert_eq!(resampler(8_000, 48_000).output_len(0), 0);
        assert_eq!(resampler(1, 768_000).output_len(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_input_range_has_half_a_filter_on_each_side() {
        let resampler = resampler(44_100, 16_000);
        assert_eq!(resampler.taps, 384);
        assert_eq!(resampler.input_range(160..161), 441 - 191..441 + 193);
        assert_eq!(resampler.input_range(-160..161), -441 - 191..441 + 193);
        assert_eq!(resampler.input_range(4..4), 4..4);
    }

    #[test]
    fn extreme_rates_and_positions_do_not_overflow() {
        assert!(Resampler::new(0, 8000).is_none());
        assert!(Resampler::new(8000, 0).is_none());
        assert!(Resampler::new(8000, MAX_RATE + 1).is_none());
        assert!(Resampler::new(MAX_RATE, 749).is_none());
        let mut output = [0.0; 3];
        for (in_rate, out_rate) in RATES {
            let resampler = resampler(in_rate, out_rate);
            for begin in [i64::MIN, -(1 << 53), -1, 1 << 53, i64::MAX - 2] {
                let needed = resampler.input_range(begin..begin.saturating_add(3));
                assert!(needed.start <= needed.end);
                for input_begin in [i64::MIN, begin, needed.start, i64::MAX] {
                    resampler.run(&[1.0; 4000], input_begin, begin, &mut output);
                }
            }
        }
    }
}
