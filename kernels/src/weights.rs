//! In: one axis of a geometry (crop, resized, window) and how much coarser than luma the samples are.
//! Out: for each output position the first sample and the 14-bit weights of the samples from there on.
//! Never: uses floating point, so host and device tables cannot differ.

/// Weights are in units of 1 / 2^14 and sum to exactly 2^14.
pub(crate) const WEIGHT_BITS: u32 = 14;

/// The horizontal loop reads whole groups of this many taps.
const TAP_GROUP: usize = 8;

/// One axis of a geometry, in luma pixels of the stored picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub crop_start: u32,
    pub crop_length: u32,
    pub resized: u32,
    pub window_start: u32,
    pub window_length: u32,
}

/// The taps of every output position of an axis.
#[derive(Clone, Debug)]
pub(crate) struct AxisTable {
    /// Nothing is resized: position i is the sample of luma pixel `first_luma + i`, alone.
    pub repeat: Option<Repeat>,
    /// First sample of position i.
    pub starts: Vec<u32>,
    /// Samples of position i.
    counts: Vec<u32>,
    /// `taps` weights per position, zero after the position's own.
    pub weights: Vec<i16>,
    /// Room for weights per position: a multiple of 8.
    pub taps: usize,
    /// The samples that any position needs: `first..end`.
    pub first: u32,
    /// See `first`.
    pub end: u32,
}

/// See [`AxisTable::repeat`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Repeat {
    pub first_luma: u32,
    pub log2: u8,
}

impl AxisTable {
    /// The table for samples that each cover `2^log2` luma pixels.
    pub fn new(axis: Axis, log2: u8) -> Self {
        let lists: Vec<_> = (0..axis.window_length)
            .map(|position| folded(axis, axis.window_start + position, log2))
            .collect();
        let longest = lists.iter().map(|(_, weights)| weights.len()).max().unwrap_or(1);
        let taps = longest.next_multiple_of(TAP_GROUP);
        let mut table = Self {
            repeat: (axis.crop_length == axis.resized)
                .then_some(Repeat { first_luma: axis.crop_start + axis.window_start, log2 }),
            starts: lists.iter().map(|&(start, _)| start).collect(),
            counts: lists.iter().map(|(_, weights)| weights.len() as u32).collect(),
            weights: vec![0; taps * lists.len()],
            taps,
            // The triangle moves forward, so the first position starts first and the last ends last.
            first: lists.first().map_or(0, |&(start, _)| start),
            end: lists.last().map_or(0, |(start, weights)| start + weights.len() as u32),
        };
        for (row, (_, weights)) in table.weights.chunks_exact_mut(taps).zip(&lists) {
            row[..weights.len()].copy_from_slice(weights);
        }
        table
    }

    /// First sample and weights of a position.
    pub fn taps_at(&self, position: usize) -> (usize, &[i16]) {
        let weights = &self.weights[position * self.taps..][..self.counts[position] as usize];
        (self.starts[position] as usize, weights)
    }

    /// Samples between the first and the last that are needed.
    pub fn span(&self) -> usize {
        (self.end - self.first) as usize
    }
}

/// Luma weights of a position, summed over the luma pixels that each sample covers:
/// exactly "repeat the sample, then resize", in one step.
fn folded(axis: Axis, position: u32, log2: u8) -> (u32, Vec<i16>) {
    let (first, luma) = luma_weights(axis.crop_length, axis.resized, position);
    let first_luma = axis.crop_start + first;
    let start = first_luma >> log2;
    let end = (first_luma + luma.len() as u32 - 1) >> log2;
    let mut weights = vec![0i16; (end - start + 1) as usize];
    for (luma_index, weight) in (first_luma..).zip(luma) {
        weights[((luma_index >> log2) - start) as usize] += weight;
    }
    (start, weights)
}

/// The triangle filter in integers: pixel x of the crop weighs max(0, 2 max(n, m) - |(2x + 1) m - (2 position + 1) n|)
/// for n pixels resized to m. Weights become 14-bit by rounding their running sum, so they add up by construction
/// and thousands of small ones lose nothing.
fn luma_weights(crop_length: u32, resized: u32, position: u32) -> (u32, Vec<i16>) {
    let (n, m) = (i64::from(crop_length), i64::from(resized));
    let reach = 2 * n.max(m);
    let centre = (2 * i64::from(position) + 1) * n;
    let first = ((centre - reach - m).div_euclid(2 * m) + 1).max(0);
    let end = (-(-(centre + reach - m)).div_euclid(2 * m)).min(n);
    let raw = |x: i64| reach - ((2 * x + 1) * m - centre).abs();
    let total: i64 = (first..end).map(raw).sum();
    let rounded = |sum: i64| ((sum << (WEIGHT_BITS + 1)) + total) / (2 * total);
    let mut sum = 0;
    let weights = (first..end)
        .map(|x| {
            let before = rounded(sum);
            sum += raw(x);
            (rounded(sum) - before) as i16
        })
        .collect();
    (first as u32, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(crop_start: u32, crop_length: u32, resized: u32) -> Axis {
        Axis { crop_start, crop_length, resized, window_start: 0, window_length: resized }
    }

    #[test]
    fn weights_of_every_position_sum_to_one() {
        for (n, m) in
            [(1, 1), (7, 3), (3, 7), (1920, 455), (65_535, 1), (1, 300), (4096, 2), (65_535, 65_534)]
        {
            for log2 in 0..3 {
                let table = AxisTable::new(axis(5, n, m), log2);
                for position in 0..m as usize {
                    let (_, weights) = table.taps_at(position);
                    assert_eq!(
                        weights.iter().map(|&w| i32::from(w)).sum::<i32>(),
                        1 << 14,
                        "{n}->{m} at {position}"
                    );
                    assert!(weights.iter().all(|&w| w >= 0));
                }
            }
        }
    }

    #[test]
    fn halving_weighs_one_three_three_one() {
        let table = AxisTable::new(axis(0, 8, 4), 0);
        assert_eq!(table.taps_at(1), (1, &[2048, 6144, 6144, 2048][..]));
    }

    #[test]
    fn same_size_is_one_tap_and_chroma_repeats() {
        let table = AxisTable::new(axis(3, 6, 6), 1);
        assert_eq!(table.repeat, Some(Repeat { first_luma: 3, log2: 1 }));
        let starts: Vec<_> = (0..6).map(|i| table.taps_at(i)).collect();
        assert!(starts.iter().all(|(_, weights)| *weights == [16_384]));
        assert_eq!(starts.iter().map(|&(start, _)| start).collect::<Vec<_>>(), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn no_tap_lies_outside_the_crop() {
        for (n, m) in [(9, 4), (4, 9), (100, 7), (2, 2)] {
            let table = AxisTable::new(axis(10, n, m), 0);
            assert!(table.first >= 10 && table.end <= 10 + n);
            let ends = (0..m as usize).map(|i| table.taps_at(i).0 + table.taps_at(i).1.len());
            assert_eq!(ends.max(), Some(table.end as usize));
        }
    }
}
