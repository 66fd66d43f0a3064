//! Reproduces the frame indices of VideoMAE's datasets (MCG-NJU/VideoMAE: kinetics.py, ssv2.py;
//! OpenGVLab/VideoMAEv2: dataset/datasets.py, dataset/pretrain_datasets.py). The original shows
//! each temporal view of a test through `test_num_crop` crops (ThreeCrop). Short videos are not
//! replaced by another video.

use serde::Deserialize;

use super::arithmetic::linspace;
use super::formula::{Formula, Shape, draw, draw_sorted, with_padding};
use super::options::{Count, check_product};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The purpose of a dataset.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Train,
    Validation,
    Test,
}

/// Which of the two repositories.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "u32")]
enum Version {
    /// MCG-NJU/VideoMAE
    One,
    /// OpenGVLab/VideoMAEv2
    Two,
}

impl TryFrom<u32> for Version {
    type Error = &'static str;

    fn try_from(version: u32) -> std::result::Result<Self, Self::Error> {
        match version {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            _ => Err("1 for VideoMAE or 2 for VideoMAEv2"),
        }
    }
}

/// `count` frames of `start..end`, by `linspace` over both ends with the last one moved back
/// inside: the mean distance is slightly more than `(end - start) / count`. V-JEPA 2 does the same.
pub(super) fn window(start: u64, end: u64, count: Count) -> impl Iterator<Item = u64> {
    linspace(start as f64, end as f64, count.0)
        .into_iter()
        .map(move |at| at.min((end - 1) as f64) as u64)
}

/// A part of `length` frames from frame `first` of the video that is shorter than a clip: `length /
/// step` frames by the same `linspace`, then its last frame repeated up to `count`. For an empty
/// part the original requests frame -1, which is the video's last frame in decord.
pub(super) fn padded(
    first: u64,
    length: u32,
    step: u32,
    (count, num_frames): (Count, u32),
) -> ClipIndices {
    let last = match length {
        0 => num_frames - 1,
        _ => first as u32 + length - 1,
    };
    let real = (length / step).min(count.0);
    let spread = linspace(0.0, f64::from(length), real)
        .into_iter()
        .map(|at| (first as u32 + at as u32).min(last));
    with_padding(spread, std::iter::repeat_n(last, (count.0 - real) as usize))
}

/// Frames `view`, `view + views`, … of the sorted union of `frames` evenly spread frames for each
/// view.
fn interleaved(num_frames: u32, frames: Count, views: Count, view: u64) -> Vec<u32> {
    let tick = f64::from(num_frames) / frames.f64();
    let at = |t: u32, x: u32| (f64::from(t) * tick / views.f64() + tick * f64::from(x)) as u32;
    let mut all: Vec<u32> = (0..views.0)
        .flat_map(|t| (0..frames.0).map(move |x| at(t, x)))
        .collect();
    all.sort_unstable();
    all.into_iter()
        .skip(view as usize)
        .step_by(views.0 as usize)
        .collect()
}

/// `VideoClsDataset`. In training and validation one clip is one of the original's `num_segment`
/// (usually 1), which it returns in one item: a window of a part of the video. In test one of its
/// `test_num_segment` views.
///
/// Random numbers in training (and VideoMAE's validation), shared by all clips of a video:
/// `next_below(part - clip_len * frame_sample_rate)` for each part, in order; none if parts are no
/// longer than that.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoClsDataset {
    mode: Mode,
    /// VideoMAEv2's validation takes the middle window instead of a random one.
    version: Version,
    clip_len: Count,
    frame_sample_rate: Count,
    /// Number of equal parts of the video; with `sparse_sample` in test, the number of frames of a
    /// view.
    num_segment: Count,
    test_num_segment: Count,
    /// VideoMAEv2: views in test are spread over the whole video.
    sparse_sample: bool,
}

impl VideoClsDataset {
    /// A window of part `number`.
    fn segment(&self, num_frames: u32, number: u64, rng: &mut dyn RandomSource) -> ClipIndices {
        let part = num_frames / self.num_segment.0;
        let first = number * u64::from(part);
        let span = self.clip_len.u64() * self.frame_sample_rate.u64();
        let Some(room) = u64::from(part).checked_sub(span).filter(|&room| room > 0) else {
            return padded(
                first,
                part,
                self.frame_sample_rate.0,
                (self.clip_len, num_frames),
            );
        };
        let start = match (self.mode, self.version) {
            (Mode::Validation, Version::Two) => (span + u64::from(part)) / 2 - span,
            _ => draw(rng, room, self.num_segment.u64())[number as usize],
        };
        ClipIndices::unpadded(
            window(start, start + span, self.clip_len)
                .map(|at| (first + at) as u32)
                .collect(),
        )
    }

    /// View `view` of the test: consecutive frames of the video reduced to every
    /// `frame_sample_rate`-th frame.
    fn dense_view(&self, num_frames: u32, view: u64) -> ClipIndices {
        let step = self.frame_sample_rate.0;
        let decoded = num_frames.div_ceil(step);
        let room = decoded.saturating_sub(self.clip_len.0);
        let start = (view as f64 * (f64::from(room) / (self.test_num_segment.f64() - 1.0))) as u32;
        let end = start + self.clip_len.0;
        let real = (start..end.min(decoded)).map(|i| i * step);
        with_padding(
            real,
            (decoded.max(start)..end).map(|_| (decoded - 1) * step),
        )
    }
}

impl Formula for VideoClsDataset {
    fn check(&self) -> Result<()> {
        if self.mode == Mode::Test && self.sparse_sample {
            return check_product(
                "num_segment * test_num_segment",
                &[self.num_segment, self.test_num_segment],
            );
        }
        if self.mode == Mode::Test && self.test_num_segment.0 == 1 {
            return Err(Error::Argument(
                "test_num_segment must be at least 2, got 1; the original divides by test_num_segment - 1"
                    .into(),
            ));
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(
                if self.mode == Mode::Test {
                    self.test_num_segment
                } else {
                    self.num_segment
                }
                .u64(),
            ),
            length: Some(
                if self.mode == Mode::Test && self.sparse_sample {
                    self.num_segment
                } else {
                    self.clip_len
                }
                .0,
            ),
            draws_together: true,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let frames = video.num_frames();
        Ok(match self.mode {
            Mode::Train | Mode::Validation => self.segment(frames, clip, rng),
            Mode::Test if self.sparse_sample => ClipIndices::unpadded(interleaved(
                frames,
                self.num_segment,
                self.test_num_segment,
                clip,
            )),
            Mode::Test => self.dense_view(frames, clip),
        })
    }
}

/// `SSVideoClsDataset`, `RawFrameClsDataset`: one clip of a video with one frame from each of
/// `num_segment` equal parts, or `test_num_segment` views in test.
///
/// Random numbers in training (and VideoMAE's validation): `next_below(part)` for each part; none
/// for a video with fewer frames than parts, of which VideoMAE then shows only the first frame.
///
/// VideoMAE's test takes every second frame from a list that is intended for two views. More views
/// are reproduced as in the original: overlapping, and of different lengths.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssv2 {
    mode: Mode,
    /// VideoMAEv2's validation takes the middle of each part instead of a random frame, its test
    /// supports any number of views, and its short videos repeat the first frame and then show all
    /// frames.
    version: Version,
    num_segment: Count,
    test_num_segment: Count,
}

impl Ssv2 {
    fn segments(&self, num_frames: u32, rng: &mut dyn RandomSource) -> Vec<u32> {
        let segments = self.num_segment.0;
        let part = num_frames / segments;
        match (self.version, self.mode) {
            (Version::One, _) if part == 0 => vec![0; segments as usize],
            (Version::Two, _) if part == 0 => (0..segments)
                .map(|i| i.saturating_sub(segments - num_frames))
                .collect(),
            (Version::Two, Mode::Validation) => {
                (0..segments).map(|i| i * part + part / 2).collect()
            }
            _ => (0..segments)
                .map(|i| i * part + rng.next_below(part.into()) as u32)
                .collect(),
        }
    }

    fn view(&self, num_frames: u32, view: u64) -> Vec<u32> {
        if self.version == Version::Two {
            return interleaved(num_frames, self.num_segment, self.test_num_segment, view);
        }
        let tick = f64::from(num_frames) / self.num_segment.f64();
        let from = |offset: f64| {
            (0..self.num_segment.0).map(move |x| (offset + tick * f64::from(x)) as u32)
        };
        let mut all: Vec<u32> = from(tick / 2.0).chain(from(0.0)).collect();
        let last = all[all.len() - 1];
        all.resize(
            all.len()
                .max((self.num_segment.0 * self.test_num_segment.0) as usize),
            last,
        );
        all.sort_unstable();
        all.into_iter().skip(view as usize).step_by(2).collect()
    }
}

impl Formula for Ssv2 {
    fn check(&self) -> Result<()> {
        check_product(
            "num_segment * test_num_segment",
            &[self.num_segment, self.test_num_segment],
        )
    }

    fn shape(&self) -> Shape {
        let is_test = self.mode == Mode::Test;
        let has_equal_views =
            !is_test || self.version == Version::Two || self.test_num_segment.0 <= 2;
        Shape {
            clips: Some(if is_test {
                self.test_num_segment.u64()
            } else {
                1
            }),
            length: has_equal_views.then_some(self.num_segment.0),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        Ok(ClipIndices::unpadded(match self.mode {
            Mode::Test => self.view(video.num_frames(), clip),
            Mode::Train | Mode::Validation => self.segments(video.num_frames(), rng),
        }))
    }
}

/// Pre-training dataset `VideoMAE`, the same in both repositories: one clip is one of the
/// original's `num_segments` (which is 1: its views hold one segment), `new_length` frames from a
/// random position of a part of the video. A step that would leave the video is skipped.
///
/// Random numbers, shared by all clips of a video: `next_below(part)` for each part; or
/// `next_below(frames - new_length
/// * new_step + 1)` for each, sorted, if parts would be empty; or none for a short video. Then with
/// `temporal_jitter` `next_below(new_step)` for each frame of a clip, the same for all clips.
///
/// Reproduced from the original: stepping stops one frame early, so the last frame of the video is
/// shown only by jitter or as a start.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pretrain {
    num_segments: Count,
    new_length: Count,
    new_step: Count,
    temporal_jitter: bool,
}

impl Pretrain {
    /// The start of each clip.
    fn starts(&self, frames: i64, rng: &mut dyn RandomSource) -> Vec<i64> {
        let segments = self.num_segments.i64();
        let span = self.new_length.i64() * self.new_step.i64();
        let starts = frames - span + 1;
        let part = starts.div_euclid(segments);
        if part > 0 {
            return (0..segments)
                .map(|i| i * part + rng.next_below(part as u64) as i64)
                .collect();
        }
        if frames > segments.max(span) {
            return draw_sorted(rng, starts as u64, segments as u64)
                .into_iter()
                .map(|start| start as i64)
                .collect();
        }
        vec![0; segments as usize]
    }
}

impl Formula for Pretrain {
    fn check(&self) -> Result<()> {
        check_product(
            "num_segments * new_length",
            &[self.num_segments, self.new_length],
        )
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(self.num_segments.u64()),
            length: Some(self.new_length.0),
            draws_together: true,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (frames, step) = (i64::from(video.num_frames()), self.new_step.i64());
        let start = self.starts(frames, rng)[clip as usize];
        let mut at = start;
        let mut sample = ClipIndices::default();
        for i in 0..self.new_length.i64() {
            let jitter = if self.temporal_jitter {
                rng.next_below(self.new_step.u64()) as i64
            } else {
                0
            };
            sample.indices.push(if at + jitter < frames {
                at + jitter
            } else {
                at
            } as u32);
            sample.mask.push(start + i * step < frames);
            if at + 1 + step < frames {
                at += step;
            }
        }
        Ok(sample)
    }
}
