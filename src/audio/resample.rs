//! Band-limited resampling between two integer sample rates, on a grid fixed to the start of the
//! stream: output sample `m` lies at input position `m * in_rate / out_rate`, and its value depends
//! only on `m` and the input. A window is therefore bit for bit the cut of the whole stream.
//!
//! `y[m] = sum over k of h(position - k) * x[k]`, with a sinc limited by a Kaiser window as `h`
//! (J. O. Smith, "Digital Audio Resampling"; J. F. Kaiser, "Nonrecursive digital filter design
//! using the I0-sinh window function", 1974). Only additions, multiplications and divisions are
//! used, in a fixed order, so all machines compute the same bits.

use std::ops::Range;

/// Highest rate, in Hz.
pub(crate) const MAX_RATE: u32 = 768_000;

/// Largest ratio of the input rate to the output rate. It limits the length of the filter.
pub(crate) const MAX_DECIMATION: u32 = 1024;

/// Half length of the filter in samples of the lower rate.
const ZERO_CROSSINGS: u32 = 79;

/// Center of the transition band, relative to the Nyquist frequency of the lower rate.
const CUTOFF: f64 = 0.956;

/// Shape of the Kaiser window: 104 dB.
const BETA: f64 = 10.5;

/// Largest coefficient table with one row for each phase. Rates that need more use interpolation.
const MAX_PHASES_BYTES: u64 = 1 << 20;

/// Rows per sample of the lower rate, for interpolation. The cubic's error is below 3e-8.
const INTERPOLATION_ROWS: u32 = 64;

/// Partial sums of a dot product; all rows are a multiple of this long.
const LANES: usize = 16;

/// Resamples one channel. Building the coefficients takes about a millisecond; channels and
/// windows can share them.
#[derive(Debug)]
pub(crate) struct Resampler {
    /// Input and output rate, divided by their greatest common divisor.
    input: u32,
    output: u32,
    /// Coefficients per output sample; 0 if the rates are equal.
    taps: usize,
    /// Rows per input sample if coefficients are interpolated; otherwise there is one row for each
    /// of the `output` phases.
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
        // One sample more on each side, for rows outside of 0..1 that interpolation uses.
        let half = (ZERO_CROSSINGS * input.max(output)).div_ceil(output) as usize + 1;
        let taps = (2 * half).next_multiple_of(LANES);
        let fits = u64::from(output) * taps as u64 * 4 <= MAX_PHASES_BYTES;
        let interpolation =
            (!fits).then(|| (INTERPOLATION_ROWS * output).div_ceil(input.max(output)));
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

    /// Length of the whole stream after resampling: the outputs whose position is before the end.
    pub(crate) fn output_len(&self, input_len: u64) -> u64 {
        let len = (u128::from(input_len) * u128::from(self.output)).div_ceil(self.input.into());
        u64::try_from(len).unwrap_or(u64::MAX)
    }

    /// Input samples that these output samples need. May begin before 0 and end after the stream.
    pub(crate) fn input_range(&self, output: Range<i64>) -> Range<i64> {
        if self.taps == 0 || output.is_empty() {
            return output.start..output.end.max(output.start);
        }
        let first = self.first_tap(self.position(output.start));
        let last = self.first_tap(self.position(output.end - 1)) + self.taps as i128;
        saturate(first)..saturate(last)
    }

    /// Computes the samples from `output_begin` on. `input` begins at sample `input_begin`;
    /// samples outside of it count as zero.
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
        let mut at_edge = vec![0.0; self.taps];
        let mut position = self.position(output_begin);
        for sample in output {
            let offset = self.first_tap(position) - i128::from(input_begin);
            let inside = usize::try_from(offset)
                .ok()
                .and_then(|offset| input.get(offset..)?.get(..self.taps));
            let taps = inside.unwrap_or_else(|| {
                copy(input, offset, &mut at_edge);
                &at_edge
            });
            *sample = self.output_sample(position.phase, taps);
            position = self.next(position);
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

    fn next(&self, position: Position) -> Position {
        let phase = position.phase + self.input % self.output;
        let wraps = phase >= self.output;
        Position {
            whole: position.whole + i128::from(self.input / self.output) + i128::from(wraps),
            phase: if wraps { phase - self.output } else { phase },
        }
    }

    fn first_tap(&self, position: Position) -> i128 {
        position.whole - (self.taps / 2 - 1) as i128
    }

    fn output_sample(&self, phase: u32, input: &[f32]) -> f32 {
        let Some(density) = self.interpolation else {
            return dot(&self.rows[phase as usize * self.taps..][..self.taps], input);
        };
        let scaled = u64::from(phase) * u64::from(density);
        let row = (scaled / u64::from(self.output)) as usize;
        let fraction = (scaled % u64::from(self.output)) as f64 / f64::from(self.output);
        let rows = &self.rows[row * self.taps..][..4 * self.taps];
        dot_between(rows, cubic(fraction), input)
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

/// Copies `input[offset..]`, with zeros where there is none.
fn copy(input: &[f32], offset: i128, output: &mut [f32]) {
    output.fill(0.0);
    let begin = offset.clamp(0, input.len() as i128);
    let end = (offset + output.len() as i128).clamp(begin, input.len() as i128);
    if begin < end {
        let length = (end - begin) as usize;
        output[(begin - offset) as usize..][..length]
            .copy_from_slice(&input[begin as usize..][..length]);
    }
}

/// Sum of products in `LANES` partial sums.
fn dot(coefficients: &[f32], input: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (coefficients, _) = coefficients.as_chunks::<LANES>();
    let (input, _) = input.as_chunks::<LANES>();
    for (coefficients, input) in coefficients.iter().zip(input) {
        for lane in 0..LANES {
            sums[lane] += coefficients[lane] * input[lane];
        }
    }
    sum(sums)
}

/// The dot product with the weighted sum of four rows, which are stored one after the other.
fn dot_between(rows: &[f32], weights: [f32; 4], input: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (input, _) = input.as_chunks::<LANES>();
    let (rows, _) = rows.as_chunks::<LANES>();
    let (low, high) = rows.split_at(rows.len() / 2);
    let ((row0, row1), (row2, row3)) = (low.split_at(low.len() / 2), high.split_at(high.len() / 2));
    let rows = row0.iter().zip(row1).zip(row2).zip(row3);
    for ((((row0, row1), row2), row3), input) in rows.zip(input) {
        for lane in 0..LANES {
            let middle = weights[1] * row1[lane] + weights[2] * row2[lane];
            let outer = weights[0] * row0[lane] + weights[3] * row3[lane];
            sums[lane] += (middle + outer) * input[lane];
        }
    }
    sum(sums)
}

/// Adds the lanes in groups of four, the width of the smallest vector registers.
fn sum(sums: [f32; LANES]) -> f32 {
    let mut quarters = [0.0; 4];
    for lane in 0..4 {
        quarters[lane] = (sums[lane] + sums[lane + 4]) + (sums[lane + 8] + sums[lane + 12]);
    }
    ((quarters[0] + quarters[1]) + quarters[2]) + quarters[3]
}

/// Lagrange weights of the points -1, 0, 1 and 2 at `x`.
fn cubic(x: f64) -> [f32; 4] {
    let (before, after, far) = (x + 1.0, x - 1.0, x - 2.0);
    [
        (-x * after * far / 6.0) as f32,
        (before * after * far / 2.0) as f32,
        (-before * x * far / 2.0) as f32,
        (before * x * after / 6.0) as f32,
    ]
}

/// Rows of coefficients at the positions `row / density`, each with sum 1.
fn coefficients(input: u32, output: u32, taps: usize, density: u32, rows: Range<i64>) -> Vec<f32> {
    // In units of 1 / (density * longer): integers, so that the filter is exactly symmetric.
    let longer = f64::from(input.max(output));
    let scale = f64::from(output) / (f64::from(density) * longer);
    let length = (f64::from(ZERO_CROSSINGS) / scale) as usize + 1;
    let half: Vec<f64> = (0..length)
        .map(|n| impulse_response(n as f64 * scale))
        .collect();
    let center = taps as i64 / 2 - 1;
    let mut table = Vec::with_capacity((rows.end - rows.start) as usize * taps);
    let mut row_values = vec![0.0; taps];
    for row in rows {
        for (tap, value) in row_values.iter_mut().enumerate() {
            let distance = (tap as i64 - center) * i64::from(density) - row;
            *value = half
                .get(distance.unsigned_abs() as usize)
                .copied()
                .unwrap_or(0.0);
        }
        let gain: f64 = row_values.iter().sum();
        table.extend(row_values.iter().map(|value| (value / gain) as f32));
    }
    table
}

/// The filter at a distance in samples of the lower rate, before normalization.
fn impulse_response(distance: f64) -> f64 {
    let x = distance / f64::from(ZERO_CROSSINGS);
    let inside = 1.0 - x * x;
    if inside <= 0.0 {
        return 0.0;
    }
    let sinc = match CUTOFF * distance {
        0.0 => 1.0,
        x => sin_pi(x) / x,
    };
    sinc * bessel_i0_of_root(BETA * BETA * inside)
}

/// The modified Bessel function I0 of `sqrt(square)`, by its power series.
fn bessel_i0_of_root(square: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..=40 {
        term *= square / f64::from(4 * k * k);
        sum += term;
    }
    sum
}

/// `sin(pi * x) / pi` by its Taylor series; the standard library's sine differs between systems.
fn sin_pi(x: f64) -> f64 {
    let turn = x - 2.0 * (x / 2.0).round(); // -1..=1
    let x = if turn.abs() > 0.5 {
        turn.signum() - turn
    } else {
        turn
    };
    let square = (std::f64::consts::PI * x) * (std::f64::consts::PI * x);
    let (mut term, mut sum) = (x, x);
    for k in 1..=11 {
        term *= -square / f64::from(2 * k * (2 * k + 1));
        sum += term;
    }
    sum
}
