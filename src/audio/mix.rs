//! Mixes channels with the default matrices of FFmpeg's libswresample: center and surround at
//! 1/sqrt(2), no LFE. A matrix that could clip is scaled down, for every sample format;
//! libswresample does this for integers only.

use std::f32::consts::FRAC_1_SQRT_2;

use crate::ffmpeg::audio_decoder::CUSTOM_CHANNELS;

// Channels as bits of a layout mask: those of WAVE, which FFmpeg continues (`AV_CH_*`).
const FRONT_LEFT: u64 = 1 << 0;
const FRONT_RIGHT: u64 = 1 << 1;
const FRONT_CENTER: u64 = 1 << 2;
const LOW_FREQUENCY: u64 = 1 << 3;
const BACK_LEFT: u64 = 1 << 4;
const BACK_RIGHT: u64 = 1 << 5;
const FRONT_LEFT_OF_CENTER: u64 = 1 << 6;
const FRONT_RIGHT_OF_CENTER: u64 = 1 << 7;
const BACK_CENTER: u64 = 1 << 8;
const SIDE_LEFT: u64 = 1 << 9;
const SIDE_RIGHT: u64 = 1 << 10;
const TOP_FRONT_LEFT: u64 = 1 << 12;
const TOP_FRONT_RIGHT: u64 = 1 << 14;

/// Channels that a layout has both or neither of.
const PAIRS: [u64; 5] = [
    FRONT_LEFT | FRONT_RIGHT,
    BACK_LEFT | BACK_RIGHT,
    FRONT_LEFT_OF_CENTER | FRONT_RIGHT_OF_CENTER,
    SIDE_LEFT | SIDE_RIGHT,
    TOP_FRONT_LEFT | TOP_FRONT_RIGHT,
];

/// Stereo that was mixed from more channels (`DL`, `DR`).
const STEREO_DOWNMIX: u64 = 3 << 29;

/// The 22.2 layout, of which FFmpeg mixes only the first nine channels.
const LAYOUT_22_2: u64 = 0x1f8_0003_ffff;
const LAYOUT_22_2_MIXED: u64 = 0x1ff;

/// A mixing matrix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix {
    /// One row per output channel with a gain per input channel; `None` changes nothing.
    rows: Option<Vec<Vec<f32>>>,
}

impl Mix {
    /// Mixes `from` channels of a layout to mono or stereo, or to themselves. The mask 0 stands for
    /// an unknown layout: FFmpeg's default for this number of channels, up to 8.
    ///
    /// `None` if there is no standard matrix, or the mask has another number of channels.
    pub(crate) fn new(layout_mask: u64, from: u32, to: u32) -> Option<Mix> {
        if layout_mask == CUSTOM_CHANNELS {
            return (from == to && from > 0).then_some(Mix { rows: None });
        }
        if from == 0 || (layout_mask != 0 && layout_mask.count_ones() != from) {
            return None;
        }
        if from == to {
            return Some(Mix { rows: None });
        }
        let mask = match (layout_mask, from) {
            // A single channel is mono, under any name.
            (0, _) | (_, 1) => default_layout(from)?,
            (STEREO_DOWNMIX, _) => FRONT_LEFT | FRONT_RIGHT,
            _ => layout_mask,
        };
        let has_half_a_pair = PAIRS
            .into_iter()
            .any(|pair| (mask & pair).count_ones() == 1);
        if mask & (FRONT_LEFT | FRONT_CENTER) == 0 || has_half_a_pair {
            return None;
        }
        let channels = (0..u64::BITS)
            .map(|bit| 1 << bit)
            .filter(|channel| mask & channel != 0);
        let gains = channels.map(|channel| {
            let dropped = mask == LAYOUT_22_2 && channel & LAYOUT_22_2_MIXED == 0;
            if dropped {
                Gains::default()
            } else {
                Gains::of(channel)
            }
        });
        let mut rows: Vec<Vec<f32>> = match to {
            1 => vec![gains.map(|gains| gains.mono).collect()],
            2 => {
                let (left, right) = gains.map(|gains| (gains.left, gains.right)).unzip();
                vec![left, right]
            }
            _ => return None,
        };
        let largest = rows.iter().map(|row| row.iter().sum()).fold(1.0, f32::max);
        rows.iter_mut().flatten().for_each(|gain| *gain /= largest);
        Some(Mix { rows: Some(rows) })
    }

    /// Mixes planes of equal length, one per channel.
    pub(crate) fn apply(&self, planes: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
        let Some(rows) = &self.rows else {
            return planes;
        };
        let len = planes.first().map_or(0, Vec::len);
        let mix = |row: &Vec<f32>| {
            let mut mixed = vec![0.0; len];
            // A channel without gain is omitted, since it may contain infinities.
            for (&gain, plane) in row.iter().zip(&planes).filter(|(gain, _)| **gain != 0.0) {
                for (mixed, sample) in mixed.iter_mut().zip(plane) {
                    *mixed += gain * sample;
                }
            }
            mixed
        };
        rows.iter().map(mix).collect()
    }
}

/// Gains of a channel in a stereo and a mono mix.
#[derive(Clone, Copy, Default)]
struct Gains {
    left: f32,
    right: f32,
    mono: f32,
}

impl Gains {
    fn of(channel: u64) -> Self {
        let (left, right, mono) = match channel {
            FRONT_LEFT => (1.0, 0.0, FRAC_1_SQRT_2),
            FRONT_RIGHT => (0.0, 1.0, FRAC_1_SQRT_2),
            FRONT_CENTER => (FRAC_1_SQRT_2, FRAC_1_SQRT_2, 1.0),
            BACK_LEFT | SIDE_LEFT => (FRAC_1_SQRT_2, 0.0, 0.5),
            BACK_RIGHT | SIDE_RIGHT => (0.0, FRAC_1_SQRT_2, 0.5),
            BACK_CENTER => (0.5, 0.5, 0.5),
            FRONT_LEFT_OF_CENTER => (1.0, 0.0, FRAC_1_SQRT_2),
            FRONT_RIGHT_OF_CENTER => (0.0, 1.0, FRAC_1_SQRT_2),
            TOP_FRONT_LEFT => (FRAC_1_SQRT_2, 0.0, FRAC_1_SQRT_2),
            TOP_FRONT_RIGHT => (0.0, FRAC_1_SQRT_2, FRAC_1_SQRT_2),
            _ => return Self::default(),
        };
        Self { left, right, mono }
    }
}

/// FFmpeg's default layouts: mono, stereo, 2.1, 4.0, 5.0, 5.1, 6.1 and 7.1.
fn default_layout(channels: u32) -> Option<u64> {
    let stereo = FRONT_LEFT | FRONT_RIGHT;
    let surround = stereo | FRONT_CENTER | BACK_LEFT | BACK_RIGHT;
    let sides = SIDE_LEFT | SIDE_RIGHT;
    Some(match channels {
        1 => FRONT_CENTER,
        2 => stereo,
        3 => stereo | LOW_FREQUENCY,
        4 => stereo | FRONT_CENTER | BACK_CENTER,
        5 => surround,
        6 => surround | LOW_FREQUENCY,
        7 => stereo | FRONT_CENTER | LOW_FREQUENCY | BACK_CENTER | sides,
        8 => surround | LOW_FREQUENCY | sides,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEREO: u64 = FRONT_LEFT | FRONT_RIGHT;

    fn rows(layout_mask: u64, from: u32, to: u32) -> Vec<Vec<f32>> {
        Mix::new(layout_mask, from, to).unwrap().rows.unwrap()
    }

    /// Compares with gains that were read from `ffmpeg -f s16le ... -ac 1` or `-ac 2`.
    fn assert_near(row: &[f32], expected: &[f32]) {
        let near = row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(near && row.len() == expected.len(), "{row:?} {expected:?}");
    }

    #[test]
    fn mono_and_stereo() {
        assert_eq!(rows(STEREO, 2, 1), [[0.5, 0.5]]);
        assert_eq!(rows(0, 2, 1), [[0.5, 0.5]]);
        assert_eq!(rows(STEREO_DOWNMIX, 2, 1), [[0.5, 0.5]]);
        for mask in [0, FRONT_CENTER, FRONT_LEFT, LOW_FREQUENCY] {
            assert_eq!(rows(mask, 1, 2), [[FRAC_1_SQRT_2]; 2]);
        }
    }

    #[test]
    fn surround_to_mono_is_that_of_ffmpeg() {
        for (mask, expected) in [
            (0x107, vec![0.24268, 0.24268, 0.34314, 0.17157]), // 4.0
            (0x33, vec![0.29291, 0.29291, 0.20709, 0.20709]),  // quad
            (0x3f, vec![0.20709, 0.20709, 0.29291, 0.0, 0.14648, 0.14648]), // 5.1
            (
                0x60f,
                vec![0.20709, 0.20709, 0.29291, 0.0, 0.14648, 0.14648],
            ), // 5.1(side)
            // 7.1, 7.1(wide)
            (
                0x63f,
                vec![
                    0.16022, 0.16022, 0.22656, 0.0, 0.11328, 0.11328, 0.11328, 0.11328,
                ],
            ),
            (
                0xff,
                vec![
                    0.14648, 0.14648, 0.20709, 0.0, 0.10358, 0.10358, 0.14648, 0.14648,
                ],
            ),
        ] {
            assert_near(&rows(mask, expected.len() as u32, 1)[0], &expected);
        }
    }

    #[test]
    fn surround_to_stereo_is_that_of_ffmpeg() {
        for (mask, left, right) in [
            (
                0x107,
                vec![0.45312, 0.0, 0.32037, 0.22656],
                vec![0.0, 0.45312, 0.32037, 0.22656],
            ),
            (
                0x33,
                vec![0.58582, 0.0, 0.41425, 0.0],
                vec![0.0, 0.58582, 0.0, 0.41425],
            ),
            (
                0x3f,
                vec![0.41425, 0.0, 0.29291, 0.0, 0.29291, 0.0],
                vec![0.0, 0.41425, 0.29291, 0.0, 0.0, 0.29291],
            ),
            (
                0x63f,
                vec![0.32037, 0.0, 0.22656, 0.0, 0.22656, 0.0, 0.22656, 0.0],
                vec![0.0, 0.32037, 0.22656, 0.0, 0.0, 0.22656, 0.0, 0.22656],
            ),
            (
                0x503f, // 5.1.2
                vec![0.32037, 0.0, 0.22656, 0.0, 0.22656, 0.0, 0.22656, 0.0],
                vec![0.0, 0.32037, 0.22656, 0.0, 0.0, 0.22656, 0.0, 0.22656],
            ),
        ] {
            let rows = rows(mask, left.len() as u32, 2);
            assert_near(&rows[0], &left);
            assert_near(&rows[1], &right);
        }
    }

    #[test]
    fn only_the_first_nine_channels_of_22_2_are_mixed() {
        let rows = rows(LAYOUT_22_2, 24, 1);
        let gains = [
            0.13269, 0.13269, 0.18768, 0.0, 0.09387, 0.09387, 0.13269, 0.13269, 0.09387,
        ];
        assert_near(&rows[0][..9], &gains);
        assert_eq!(rows[0][9..], [0.0; 15]);
    }

    #[test]
    fn an_unknown_layout_is_the_default_of_ffmpeg() {
        assert_eq!(rows(0, 3, 2), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]); // 2.1
        for (from, mask) in [(4, 0x107), (5, 0x37), (6, 0x3f), (7, 0x70f), (8, 0x63f)] {
            assert_eq!(Mix::new(0, from, 2), Mix::new(mask, from, 2));
        }
    }

    #[test]
    fn no_mix_clips() {
        for mask in 1..1 << 15 {
            for to in [1, 2] {
                let Some(Mix { rows: Some(rows) }) = Mix::new(mask, mask.count_ones(), to) else {
                    continue;
                };
                for row in rows {
                    assert!(row.iter().sum::<f32>() < 1.000_001, "{mask:x} {row:?}");
                }
            }
        }
    }

    #[test]
    fn layouts_without_a_matrix_are_refused() {
        assert_eq!(Mix::new(0, 0, 1), None);
        assert_eq!(Mix::new(STEREO, 3, 1), None); // the mask has two channels
        assert_eq!(Mix::new(STEREO, 2, 3), None);
        assert_eq!(Mix::new(0, 16, 2), None); // may be ambisonic
        for from in [4, 64] {
            assert_eq!(Mix::new(CUSTOM_CHANNELS, from, 1), None);
            assert_eq!(Mix::new(CUSTOM_CHANNELS, from, 2), None);
            assert!(Mix::new(CUSTOM_CHANNELS, from, from).is_some());
        }
        assert_eq!(Mix::new(FRONT_LEFT | FRONT_CENTER, 2, 1), None);
        assert_eq!(Mix::new(BACK_LEFT | BACK_RIGHT, 2, 1), None);
        assert_eq!(Mix::new(STEREO | TOP_FRONT_LEFT, 3, 1), None);
    }

    #[test]
    fn apply_mixes_and_leaves_dropped_channels_out() {
        let mix = Mix::new(0, 3, 1).unwrap();
        let planes = vec![
            vec![0.5, 1.0],
            vec![-0.5, 1.0],
            vec![f32::NAN, f32::INFINITY],
        ];
        assert_eq!(mix.apply(planes), [[0.0, 1.0]]);
        let mix = Mix::new(0, 1, 2).unwrap();
        assert_eq!(
            mix.apply(vec![vec![1.0, -1.0]]),
            [[FRAC_1_SQRT_2, -FRAC_1_SQRT_2]; 2]
        );
        let planes: Vec<_> = (0..16).map(|channel| vec![channel as f32]).collect();
        assert_eq!(Mix::new(0, 16, 16).unwrap().apply(planes.clone()), planes);
        assert_eq!(Mix::new(0, 2, 1).unwrap().apply(Vec::new()), [[0.0; 0]]);
    }
}
