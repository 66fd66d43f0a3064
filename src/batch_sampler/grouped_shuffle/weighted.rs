//! Selects the videos of an epoch by weight: how many copies of each video, or of each clip, an
//! epoch has.
//!
//! Without replacement, points at equal distances on a line on which each video is as long as its
//! weight select the copies, from a random start: a video whose weight calls for `w` copies has `w`
//! rounded down or up, and `w` on average over epochs. With replacement every point is random.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use super::super::permutation::mix;
use super::video_clips::VideoClips;
use crate::error::{Result, invalid_argument};
use crate::rng::{Purpose, RngKey};

/// The line is about this long, so that weights keep all bits of an `f64`.
const LINE_LENGTH: f64 = (1_u64 << 62) as f64;

/// The weights of videos.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightConfig {
    /// Expected number of copies of each video, in any unit; 0 omits it.
    pub weights: Arc<[f64]>,
    /// Whether each draw is independent.
    pub replacement: bool,
    /// Clips per epoch; by default the number of all clips.
    pub epoch_clips: Option<u64>,
}

impl WeightConfig {
    pub(in super::super) fn check(&self, num_videos: u64) -> Result<()> {
        if self.weights.len() as u64 != num_videos {
            return invalid_argument(format!(
                "weights must be one for each video, got {} for {num_videos} videos; clips_per_video states which clips are \
                 of one video",
                self.weights.len()
            ));
        }
        if let Some((video, weight)) = self
            .weights
            .iter()
            .enumerate()
            .find(|(_, weight)| !weight.is_finite() || **weight < 0.0)
        {
            return invalid_argument(format!(
                "weights must be finite and at least 0, got {weight} for video {video}; 0 leaves a video out"
            ));
        }
        if self.epoch_clips == Some(0) {
            return invalid_argument(
                "epoch_clips must be at least 1, got 0; omit it for the number of all clips",
            );
        }
        Ok(())
    }
}

/// What is drawn: whole videos, or single clips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Video,
    Clip,
}

/// Weights prepared for all epochs.
#[derive(Clone, Debug)]
pub(in super::super) struct WeightedVideos {
    clips: VideoClips,
    unit: Unit,
    replacement: bool,
    /// End of each video on the line.
    ends: Arc<[u64]>,
    /// Distance of two points, such that an epoch has the requested number of clips on average.
    step: u64,
    pub epoch_clips: u64,
}

/// One copy of a video or of a clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub clips: Range<u64>,
    pub occurrence: u32,
}

impl WeightedVideos {
    /// # Errors
    /// `Argument` if no video with clips has a weight, or for a number of clips that needs points
    /// too close together.
    pub(crate) fn new(clips: VideoClips, config: &WeightConfig, unit: Unit) -> Result<Self> {
        let len = |video: usize| {
            let own = clips.clips_of(video as u64);
            own.end - own.start
        };
        let units = |video: usize| {
            if unit == Unit::Clip {
                len(video)
            } else {
                len(video).min(1)
            }
        };
        let sum: f64 = config
            .weights
            .iter()
            .enumerate()
            .map(|(video, w)| w * units(video) as f64)
            .sum();
        if sum <= 0.0 || !sum.is_finite() {
            return invalid_argument(format!(
                "weights of the videos that have clips must have a finite sum above 0, got {sum}; give at least one video a \
                 weight"
            ));
        }
        let scale = LINE_LENGTH / sum;
        let (mut end, mut clips_on_line) = (0_u64, 0_u128);
        let mut ends = Vec::with_capacity(config.weights.len());
        for (video, &weight) in config.weights.iter().enumerate() {
            let each = if weight > 0.0 {
                ((weight * scale) as u64).max(1)
            } else {
                0
            };
            let own = each.saturating_mul(units(video));
            clips_on_line += u128::from(each) * u128::from(len(video));
            end = end.saturating_add(own);
            ends.push(end);
        }
        let epoch_clips = config.epoch_clips.unwrap_or_else(|| clips.num_clips());
        let step =
            u64::try_from(clips_on_line / u128::from(epoch_clips.max(1))).unwrap_or(u64::MAX);
        if step == 0 || end > u64::MAX / 2 {
            return invalid_argument(format!(
                "epoch_clips must be at most 2^62, got {epoch_clips}"
            ));
        }
        let replacement = config.replacement;
        Ok(Self {
            clips,
            unit,
            replacement,
            ends: ends.into(),
            step,
            epoch_clips,
        })
    }

    pub(super) fn epoch(&self, key: RngKey) -> WeightedEpoch {
        let mut rng = key.rng(Purpose::GroupedWeights);
        let (start, draw_key) = (rng.next_below(self.len()), rng.next_u64());
        WeightedEpoch {
            videos: self.clone(),
            start,
            draw_key,
        }
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The expected number of delivered clips of each video.
    pub(crate) fn expected_clips(&self) -> impl Iterator<Item = f64> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter())
            .enumerate()
            .map(|(video, (start, end))| {
                let own = self.clips.clips_of(video as u64);
                let each = if self.unit == Unit::Clip {
                    1
                } else {
                    own.end - own.start
                };
                (end - start) as f64 / self.step as f64 * each as f64
            })
    }
}

/// The copies of one epoch.
#[derive(Clone, Debug)]
pub(super) struct WeightedEpoch {
    videos: WeightedVideos,
    start: u64,
    draw_key: u64,
}

impl WeightedEpoch {
    /// The copy that a point selects. Points are not limited: past the end of the line they begin
    /// again.
    pub(super) fn copy(&self, number: u64) -> Copy {
        let WeightedVideos {
            clips,
            unit,
            replacement,
            ends,
            step,
            ..
        } = &self.videos;
        let len = self.videos.len();
        let point = match replacement {
            true => (u128::from(mix(number, self.draw_key)) * u128::from(len)) >> 64,
            false => u128::from(self.start) + u128::from(number) * u128::from(*step),
        };
        let (lap, at) = (point / u128::from(len), (point % u128::from(len)) as u64);
        let video = ends.partition_point(|&end| end <= at);
        let start = video.checked_sub(1).map_or(0, |before| ends[before]);
        let own = clips.clips_of(video as u64);
        // The part of the line of this unit.
        let (own, unit_start, unit_len) = match unit {
            Unit::Video => (own, start, ends[video] - start),
            Unit::Clip => {
                let each = (ends[video] - start) / (own.end - own.start);
                let clip = (at - start) / each;
                (
                    own.start + clip..own.start + clip + 1,
                    start + clip * each,
                    each,
                )
            }
        };
        let occurrence = match replacement {
            true => number,
            false => {
                // The points before this one in the same unit, in this lap and in earlier ones.
                let points_before = |place: u128| {
                    place
                        .saturating_sub(self.start.into())
                        .div_ceil((*step).into()) as u64
                };
                let from =
                    |lap: u128| points_before(lap * u128::from(len) + u128::from(unit_start));
                let until = |lap: u128| {
                    points_before(lap * u128::from(len) + u128::from(unit_start + unit_len))
                };
                let earlier: u64 = (0..lap).map(|lap| until(lap) - from(lap)).sum();
                earlier + (number - from(lap))
            }
        };
        Copy {
            clips: own,
            occurrence: occurrence as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn config(weights: &[f64], replacement: bool, epoch_clips: Option<u64>) -> WeightConfig {
        WeightConfig {
            weights: weights.into(),
            replacement,
            epoch_clips,
        }
    }

    fn key(epoch: u64) -> RngKey {
        RngKey {
            seed: 4,
            epoch,
            clip: 0,
            occurrence: 0,
        }
    }

    #[test]
    fn videos_have_their_weight_rounded_down_or_up_and_right_on_average() {
        let clips = VideoClips::Offsets([0, 3, 6, 6, 9, 12, 15].into());
        let weights = [1.0, 2.5, 9.0, 0.0, 0.25, 1.25];
        let videos =
            WeightedVideos::new(clips, &config(&weights, false, Some(30)), Unit::Video).unwrap();
        let mut sums = [0.0; 6];
        let epochs = 400;
        for epoch in 0..epochs {
            let epoch = videos.epoch(key(epoch));
            let mut counts = [0_u32; 6];
            // 10 copies of videos of three clips; the video without clips has none.
            for copy in (0..10).map(|number| epoch.copy(number)) {
                let video = [0, 3, 999, 6, 9, 12]
                    .iter()
                    .position(|&first| first == copy.clips.start)
                    .unwrap();
                assert_eq!(
                    (copy.clips.end - copy.clips.start, copy.occurrence),
                    (3, counts[video])
                );
                counts[video] += 1;
            }
            for (video, expected) in [2.0, 5.0, 0.0, 0.0, 0.5, 2.5].into_iter().enumerate() {
                assert!(
                    (f64::from(counts[video]) - expected).abs() < 1.0,
                    "{counts:?}"
                );
                sums[video] += f64::from(counts[video]) / epochs as f64;
            }
        }
        let expected: Vec<f64> = videos.expected_clips().map(|clips| clips / 3.0).collect();
        for (found, expected) in sums.into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.12, "{found} {expected}");
        }
    }

    #[test]
    fn clips_of_a_video_have_equal_chances_and_laps_count_their_visits() {
        let clips = VideoClips::Equal {
            videos: 2,
            clips: 2,
        };
        let videos =
            WeightedVideos::new(clips, &config(&[1.0, 3.0], false, Some(800)), Unit::Clip).unwrap();
        let epoch = videos.epoch(key(1));
        let mut seen = HashMap::<u64, u32>::new();
        // Three laps.
        for copy in (0..2400).map(|number| epoch.copy(number)) {
            let count = seen.entry(copy.clips.start).or_default();
            assert_eq!(
                (copy.clips.end - copy.clips.start, copy.occurrence),
                (1, *count)
            );
            *count += 1;
        }
        for (clip, expected) in [(0, 300), (1, 300), (2, 900), (3, 900)] {
            assert!(seen[&clip].abs_diff(expected) <= 3, "{seen:?}");
        }
    }

    #[test]
    fn draws_with_replacement_follow_the_weights() {
        let clips = VideoClips::Equal {
            videos: 3,
            clips: 5,
        };
        let videos =
            WeightedVideos::new(clips, &config(&[1.0, 0.0, 3.0], true, None), Unit::Video).unwrap();
        let epoch = videos.epoch(key(0));
        let copies: Vec<Copy> = (0..4000).map(|number| epoch.copy(number)).collect();
        assert!(
            copies
                .iter()
                .enumerate()
                .all(|(number, copy)| copy.occurrence == number as u32)
        );
        let first = copies.iter().filter(|copy| copy.clips == (0..5)).count();
        let last = copies.iter().filter(|copy| copy.clips == (10..15)).count();
        // 1000 of 4000 draws; the standard deviation is 27, and the limit is five of them.
        assert!(
            first.abs_diff(1000) < 137 && first + last == 4000,
            "{first}"
        );
    }

    #[test]
    fn invalid_weights_are_named_in_the_error() {
        for (weights, videos, part) in [
            (&[1.0, 2.0][..], 3, "got 2 for 3 videos"),
            (&[1.0, -2.0], 2, "got -2 for video 1"),
            (&[f64::NAN], 1, "got NaN for video 0"),
        ] {
            let text = config(weights, false, None)
                .check(videos)
                .unwrap_err()
                .to_string();
            assert!(text.contains(part), "{text}");
        }
        let empty = VideoClips::Offsets([0, 0, 4].into());
        let text =
            WeightedVideos::new(empty, &config(&[1.0, 0.0], false, None), Unit::Video).unwrap_err();
        assert!(
            text.to_string().contains("finite sum above 0, got 0"),
            "{text}"
        );
        assert!(
            config(&[1.0], false, Some(0))
                .check(1)
                .unwrap_err()
                .to_string()
                .contains("epoch_clips")
        );
    }
}
