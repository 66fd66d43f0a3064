//! Computes, for one axis of a geometry, the first sample and the 14-bit weights of each output
//! position. No floating point is used, so host and device tables cannot differ.

use std::ops::Range;

use crate::geometry::{Filter, StoredGeometry};

/// Weights are in units of 1 / 2^14 and sum to exactly 2^14.
pub(crate) const WEIGHT_BITS: u32 = 14;

/// The horizontal loop reads complete groups of this many taps.
const TAP_GROUP: usize = 8;

/// One axis of a geometry, in the stored frame. The crop is in units of 1 / `crop_subpixels` luma
/// pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResampleAxis {
    pub filter: Filter,
    pub crop_subpixels: u32,
    pub crop_start: u32,
    pub crop_length: u32,
    pub resized: u32,
    pub window_start: u32,
    pub window_length: u32,
}

/// The taps of every output position of an axis.
#[derive(Clone, Debug)]
pub(crate) struct AxisTable {
    /// Set if there is no resizing: position i is the sample of luma pixel `first_luma + i`, alone.
    pub repeat: Option<Repeat>,
    /// First sample of position i.
    pub starts: Vec<u32>,
    /// Samples of position i.
    counts: Vec<u32>,
    /// `taps` weights per position, zero after the position's own.
    pub weights: Vec<i16>,
    /// Some weights are negative, so sums must be clamped.
    pub overshoots: bool,
    /// Allocated weights per position: a multiple of 8.
    pub taps: usize,
    /// The samples that any position needs: `first..end`.
    pub first: u32,
    /// See `first`.
    pub end: u32,
    /// The same weights for pairs of neighbors from `first`: offset and weights of position i, two
    /// per word, the first in its lower half. Empty without resizing. Only the functions for x86-64
    /// read them.
    #[cfg(target_arch = "x86_64")]
    pairs: Vec<(u32, u32)>,
    #[cfg(target_arch = "x86_64")]
    pair_weights: Vec<i32>,
}

/// See [`AxisTable::repeat`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Repeat {
    pub first_luma: u32,
    pub log2: u8,
}

impl AxisTable {
    /// The table for samples that each cover `2^log2` luma pixels.
    pub(crate) fn new(axis: ResampleAxis, log2: u8) -> Self {
        // A frame with its own crop has its own table, so memory is not allocated per position.
        let positions = axis.window_length as usize;
        let (mut starts, mut counts) =
            (Vec::with_capacity(positions), Vec::with_capacity(positions));
        let (mut luma, mut all) = (Vec::new(), Vec::new());
        for position in 0..axis.window_length {
            let first_luma = luma_weights(axis, axis.window_start + position, &mut luma);
            let before = all.len();
            starts.push(append_folded(first_luma, &luma, log2, &mut all));
            counts.push((all.len() - before) as u32);
        }
        let taps = (counts.iter().copied().max().unwrap_or(1) as usize).next_multiple_of(TAP_GROUP);
        let mut table = Self {
            repeat: axis.identity_start().map(|start| Repeat {
                first_luma: start + axis.window_start,
                log2,
            }),
            weights: vec![0; taps * positions],
            overshoots: overshoots(&all),
            taps,
            // Filters move forward, so the first position starts first and the last ends last.
            first: starts.first().copied().unwrap_or(0),
            end: starts
                .last()
                .zip(counts.last())
                .map_or(0, |(start, count)| start + count),
            starts,
            counts,
            #[cfg(target_arch = "x86_64")]
            pairs: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            pair_weights: Vec::new(),
        };
        #[cfg(target_arch = "x86_64")]
        if table.repeat.is_none() {
            table.build_pairs(&all);
        }
        let mut rest = &all[..];
        for (row, &count) in table.weights.chunks_exact_mut(taps).zip(&table.counts) {
            let (weights, behind) = rest.split_at(count as usize);
            row[..weights.len()].copy_from_slice(weights);
            rest = behind;
        }
        table
    }

    /// `all`: the weights, position by position.
    #[cfg(target_arch = "x86_64")]
    fn build_pairs(&mut self, all: &[i16]) {
        self.pairs.reserve(self.starts.len());
        self.pair_weights.reserve(all.len() / 2 + self.starts.len());
        let mut behind = all;
        for (start, &count) in self.starts.iter().zip(&self.counts) {
            let (weights, others) = behind.split_at(count as usize);
            behind = others;
            let offset = start - self.first;
            let begin = self.pair_weights.len();
            // A position that starts inside a pair leaves its first half out.
            let mut rest = weights;
            if offset % 2 == 1 {
                self.pair_weights.push(i32::from(weights[0]) << 16);
                rest = &weights[1..];
            }
            let word = |pair: &[i16]| {
                i32::from(pair[0]) & 0xFFFF
                    | pair.get(1).map_or(0, |&second| i32::from(second) << 16)
            };
            self.pair_weights.extend(rest.chunks(2).map(word));
            self.pairs.push((offset / 2, begin as u32));
        }
    }

    /// First pair and weights of a position, two in a word.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn pairs_at(&self, position: usize) -> (usize, &[i32]) {
        let (start, begin) = self.pairs[position];
        let end = self
            .pairs
            .get(position + 1)
            .map_or(self.pair_weights.len(), |&(_, next)| next as usize);
        (start as usize, &self.pair_weights[begin as usize..end])
    }

    /// First sample and weights of a position.
    pub(crate) fn taps_at(&self, position: usize) -> (usize, &[i16]) {
        let weights = &self.weights[position * self.taps..][..self.counts[position] as usize];
        (self.starts[position] as usize, weights)
    }

    /// Number of samples between the first and the last that are needed.
    pub(crate) fn sample_count(&self) -> usize {
        (self.end - self.first) as usize
    }
}

/// Whether a sum with these weights can be below 0 or above the largest value.
pub(crate) fn overshoots(weights: &[i16]) -> bool {
    weights.iter().any(|&weight| weight < 0)
}

impl ResampleAxis {
    /// The horizontal axis of the stored frame.
    pub(crate) fn columns(
        StoredGeometry {
            crop,
            crop_subpixels,
            resized,
            window,
            filter,
        }: StoredGeometry,
    ) -> Self {
        Self {
            filter,
            crop_subpixels: crop_subpixels.0,
            crop_start: crop.x,
            crop_length: crop.width,
            resized: resized.0,
            window_start: window.x,
            window_length: window.width,
        }
    }

    /// The vertical axis of the stored frame.
    pub(crate) fn rows(
        StoredGeometry {
            crop,
            crop_subpixels,
            resized,
            window,
            filter,
        }: StoredGeometry,
    ) -> Self {
        Self {
            filter,
            crop_subpixels: crop_subpixels.1,
            crop_start: crop.y,
            crop_length: crop.height,
            resized: resized.1,
            window_start: window.y,
            window_length: window.height,
        }
    }

    /// The luma pixels that any position of the window needs.
    pub(crate) fn luma_range(self) -> Range<u32> {
        let mut weights = Vec::new();
        let first = luma_weights(self, self.window_start, &mut weights);
        let start = luma_weights(
            self,
            self.window_start + self.window_length - 1,
            &mut weights,
        );
        first..start + weights.len() as u32
    }

    /// The luma pixel of position 0, if every position is exactly one pixel.
    fn identity_start(&self) -> Option<u32> {
        let same =
            u64::from(self.crop_length) == u64::from(self.resized) * u64::from(self.crop_subpixels);
        (same && self.crop_start.is_multiple_of(self.crop_subpixels))
            .then(|| self.crop_start / self.crop_subpixels)
    }
}

/// Appends the luma weights of a position, summed over the luma pixels that each sample covers:
/// exactly "repeat the sample, then resize", in one step. Returns the first sample.
fn append_folded(first_luma: u32, luma: &[i16], log2: u8, weights: &mut Vec<i16>) -> u32 {
    let start = first_luma >> log2;
    let end = (first_luma + luma.len() as u32 - 1) >> log2;
    let before = weights.len();
    weights.resize(before + (end - start + 1) as usize, 0);
    for (luma_index, weight) in (first_luma..).zip(luma) {
        weights[before + ((luma_index >> log2) - start) as usize] += weight;
    }
    start
}

/// Returns the first luma pixel with a weight; the weights from there are stored in `weights`
/// (SPEC.md, step 1). The running sum is rounded to 14 bits, so weights have the correct sum by
/// construction and thousands of small ones lose nothing.
fn luma_weights(axis: ResampleAxis, position: u32, weights: &mut Vec<i16>) -> u32 {
    weights.clear();
    let ResampleAxis {
        filter,
        crop_subpixels,
        crop_start,
        crop_length,
        resized,
        ..
    } = axis;
    let [a, n, m, g, r] =
        [crop_start, crop_length, resized, crop_subpixels, position].map(i64::from);
    // All values below are in units of 1 / (2 m g) pixel; sides and grids of 16 bits keep them
    // within 62 bits.
    let centre = 2 * a * m + (2 * r + 1) * n;
    let pixel = 2 * m * g;
    if filter == Filter::Nearest || axis.identity_start().is_some() {
        // Without resizing the weights of the other pixels are zero with every filter.
        weights.push(1 << WEIGHT_BITS);
        return (centre / pixel) as u32;
    }
    let half = m * g;
    let scale = match filter {
        Filter::Triangle | Filter::Cubic => 2 * n.max(half),
        _ => pixel,
    };
    // Weights are not zero for pixels whose center is nearer than `reach`.
    let cubic = matches!(filter, Filter::Cubic | Filter::Bicubic);
    let reach = if cubic { 2 * scale } else { scale };
    let near =
        (centre - reach - half).div_euclid(pixel) + 1..-(half - centre - reach).div_euclid(pixel);
    let crop = a / g..(a + n + g - 1) / g;
    let (first, end) = (near.start.max(crop.start), near.end.min(crop.end));
    let distance = |x: i64| ((2 * x + 1) * half - centre).abs();
    if cubic {
        let repeats = filter == Filter::Bicubic;
        let k = if repeats { 3 } else { 2 };
        let raw = |x: i64| -> i64 {
            let from = if repeats && x == crop.start {
                near.start
            } else {
                x
            };
            let to = if repeats && x == crop.end - 1 {
                near.end
            } else {
                x + 1
            };
            (from..to)
                .map(|x| cubic_weight(distance(x), scale, k))
                .sum()
        };
        let raw: Vec<i64> = (first..end).map(raw).collect();
        quantize_weights(weights, raw.iter().copied(), raw.iter().sum());
        return first as u32;
    }
    let raw = |x: i64| reach - distance(x);
    let total: i128 = (first..end).map(|x| i128::from(raw(x))).sum();
    match i64::try_from(total << (WEIGHT_BITS + 2)) {
        Ok(_) => quantize_weights(weights, (first..end).map(raw), total as i64),
        Err(_) => quantize_weights_i128(weights, (first..end).map(raw), total),
    }
    first as u32
}

/// The cubic kernel with a = -k/4 at `distance / scale`, in units of 2^-30. The sum of the weights
/// of 2^16 pixels has 46 bits.
fn cubic_weight(distance: i64, scale: i64, k: i64) -> i64 {
    let u = (distance << 16) / scale;
    let (squared, cubed) = ((u * u) << 16, u * u * u);
    let sum = if u <= 1 << 16 {
        (8 - k) * cubed - (12 - k) * squared + (1 << 50)
    } else {
        k * (5 * squared - cubed - (u << 35) + (1 << 50))
    };
    sum >> 20
}

/// Rounds the running sum of raw weights to 14 bits.
fn quantize_weights(weights: &mut Vec<i16>, raw: impl Iterator<Item = i64>, total: i64) {
    let (mut sum, mut before) = (0, 0);
    for weight in raw {
        sum += weight;
        // Cubic sums may be negative.
        let up_to = ((sum << (WEIGHT_BITS + 1)) + total).div_euclid(2 * total);
        weights.push((up_to - before) as i16);
        before = up_to;
    }
}

/// [`quantize_weights`] for sums beyond 64 bits: crops of long sides on fine grids.
fn quantize_weights_i128(weights: &mut Vec<i16>, raw: impl Iterator<Item = i64>, total: i128) {
    let (mut sum, mut before) = (0i128, 0);
    for weight in raw {
        sum += i128::from(weight);
        let up_to = ((sum << (WEIGHT_BITS + 1)) + total) / (2 * total);
        weights.push((up_to - before) as i16);
        before = up_to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTERS: [Filter; 5] = [
        Filter::Triangle,
        Filter::Cubic,
        Filter::Bilinear,
        Filter::Bicubic,
        Filter::Nearest,
    ];

    fn axis(crop_start: u32, crop_length: u32, resized: u32) -> ResampleAxis {
        ResampleAxis {
            filter: Filter::Triangle,
            crop_subpixels: 1,
            crop_start,
            crop_length,
            resized,
            window_start: 0,
            window_length: resized,
        }
    }

    #[test]
    fn weights_of_every_position_sum_to_one() {
        for (n, m) in [
            (1, 1),
            (7, 3),
            (3, 7),
            (1920, 455),
            (65_535, 1),
            (1, 300),
            (4096, 2),
            (65_535, 65_534),
        ] {
            for (filter, log2) in FILTERS
                .into_iter()
                .flat_map(|filter| (0..3).map(move |log2| (filter, log2)))
            {
                let table = AxisTable::new(
                    ResampleAxis {
                        filter,
                        ..axis(5, n, m)
                    },
                    log2,
                );
                for position in 0..m as usize {
                    let weights = table.taps_at(position).1.iter().map(|&w| i32::from(w));
                    assert_eq!(
                        weights.clone().sum::<i32>(),
                        1 << 14,
                        "{filter:?} {n}->{m} at {position}"
                    );
                    // Sums of 16-bit samples fit 32 bits: see SPEC.md.
                    let cubic = matches!(filter, Filter::Cubic | Filter::Bicubic);
                    let most = if cubic { 22_609 } else { 1 << 14 };
                    assert!(
                        weights.map(i32::abs).sum::<i32>() <= most,
                        "{filter:?} {n}->{m} at {position}"
                    );
                }
            }
        }
    }

    #[test]
    fn cubic_weights_are_those_of_the_kernel() {
        // Distances of 1/4, 3/4, 5/4 and 7/4.
        let double = ResampleAxis {
            filter: Filter::Cubic,
            ..axis(0, 8, 16)
        };
        assert_eq!(
            AxisTable::new(double, 0).taps_at(5),
            (1, &[-1152, 14_208, 3712, -384][..])
        );
        // Twice as wide when halving: 1/4 to 7/4 again, half as large.
        let half = ResampleAxis {
            filter: Filter::Cubic,
            ..axis(0, 16, 8)
        };
        let weights = [-192, -576, 1856, 7104, 7104, 1856, -576, -192];
        assert_eq!(AxisTable::new(half, 0).taps_at(3), (3, &weights[..]));
        // At the edge the others are divided by their sum.
        let edge =
            [7104.0, 7104.0, 1856.0, -576.0, -192.0].map(|weight| weight * 16_384.0 / 15_296.0);
        let table = AxisTable::new(half, 0);
        let (start, weights) = table.taps_at(0);
        assert_eq!((start, weights.len()), (0, 5));
        assert!(
            weights
                .iter()
                .zip(edge)
                .all(|(&got, exact)| (f64::from(got) - exact).abs() <= 1.0)
        );
    }

    #[test]
    fn bicubic_repeats_the_edge_of_the_crop() {
        let table = AxisTable::new(
            ResampleAxis {
                filter: Filter::Bicubic,
                ..axis(4, 8, 4)
            },
            0,
        );
        assert_eq!(table.taps_at(0), (4, &[8192, 9728, -1536][..]));
        assert_eq!(table.taps_at(1), (5, &[-1536, 9728, 9728, -1536][..]));
        assert_eq!(table.taps_at(3), (9, &[-1536, 9728, 8192][..]));
    }

    #[test]
    fn halving_weighs_one_three_three_one() {
        let table = AxisTable::new(axis(0, 8, 4), 0);
        assert_eq!(table.taps_at(1), (1, &[2048, 6144, 6144, 2048][..]));
    }

    #[test]
    fn same_size_is_one_tap_and_chroma_repeats() {
        for filter in FILTERS {
            let table = AxisTable::new(
                ResampleAxis {
                    filter,
                    ..axis(3, 6, 6)
                },
                1,
            );
            assert_eq!(
                table.repeat,
                Some(Repeat {
                    first_luma: 3,
                    log2: 1
                })
            );
            let starts: Vec<_> = (0..6).map(|i| table.taps_at(i)).collect();
            assert!(starts.iter().all(|(_, weights)| *weights == [16_384]));
            assert_eq!(
                starts.iter().map(|&(start, _)| start).collect::<Vec<_>>(),
                [1, 2, 2, 3, 3, 4]
            );
        }
    }

    #[test]
    fn no_tap_lies_outside_the_crop() {
        for (n, m) in [(9, 4), (4, 9), (100, 7), (2, 2)] {
            for filter in FILTERS {
                let table = AxisTable::new(
                    ResampleAxis {
                        filter,
                        ..axis(10, n, m)
                    },
                    0,
                );
                assert!(table.first >= 10 && table.end <= 10 + n);
                let ends = (0..m as usize).map(|i| table.taps_at(i).0 + table.taps_at(i).1.len());
                assert_eq!(ends.max(), Some(table.end as usize));
            }
        }
    }

    #[test]
    fn a_grid_of_whole_pixels_changes_nothing() {
        for filter in FILTERS {
            for (start, n, m) in [(3, 50, 17), (0, 9, 9), (7, 5, 40)] {
                let plain = ResampleAxis {
                    filter,
                    ..axis(start, n, m)
                };
                let fine = ResampleAxis {
                    crop_subpixels: 12,
                    crop_start: 12 * start,
                    crop_length: 12 * n,
                    ..plain
                };
                let (plain, fine) = (AxisTable::new(plain, 1), AxisTable::new(fine, 1));
                assert_eq!(
                    (plain.repeat, &plain.starts, &plain.weights),
                    (fine.repeat, &fine.starts, &fine.weights)
                );
            }
        }
    }

    #[test]
    fn a_crop_between_pixels_weighs_both() {
        // From 1/2 to 2 1/2 at full scale: each position is midway between two pixels.
        let table = AxisTable::new(
            ResampleAxis {
                crop_subpixels: 2,
                ..axis(1, 4, 2)
            },
            0,
        );
        assert_eq!(table.repeat, None);
        assert_eq!(table.taps_at(0), (0, &[8192, 8192][..]));
        assert_eq!(table.taps_at(1), (1, &[8192, 8192][..]));
    }

    #[test]
    fn wide_and_narrow_sums_agree() {
        let raw: Vec<i64> = (1..900).map(|i| i * 7919 % 10_007).collect();
        let total: i64 = raw.iter().sum();
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        quantize_weights(&mut narrow, raw.iter().copied(), total);
        quantize_weights_i128(&mut wide, raw.iter().copied(), i128::from(total));
        assert_eq!(narrow, wide);
        // The largest possible values.
        for (filter, resized) in FILTERS
            .into_iter()
            .flat_map(|filter| [1, 3].map(|m| (filter, m)))
        {
            let huge = ResampleAxis {
                crop_subpixels: 65_535,
                crop_length: 65_535 * 65_535,
                ..axis(0, 1, resized)
            };
            let mut weights = Vec::new();
            luma_weights(ResampleAxis { filter, ..huge }, resized / 2, &mut weights);
            assert_eq!(
                weights.iter().map(|&w| i32::from(w)).sum::<i32>(),
                1 << 14,
                "{filter:?}"
            );
        }
    }
}
