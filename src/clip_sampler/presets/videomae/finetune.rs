//! Reproduces `VideoClsDataset`: windows of equal parts of the video in training and validation, views spread
//! over the video in test. Short videos repeat their last frame; they are not replaced by another video.

use super::super::common::{check_count, check_product, clips_unless_empty, sample_integers};
use super::{at_least_two_views, padded, window, Mode, VideoMaeVersion};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// Options of `VideoClsDataset`, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinetuneOptions {
    /// Training, validation or test.
    pub mode: Mode,
    /// VideoMAE or VideoMAEv2: the latter's validation takes the middle window instead of a random one.
    pub version: VideoMaeVersion,
    /// Frames of a clip.
    pub clip_len: u32,
    /// Distance between frames of a clip.
    pub frame_sample_rate: u32,
    /// Number of equal parts of the video; with `sparse_sample` in test, the number of frames of a view.
    pub num_segment: u32,
    /// Views of a video in test.
    pub test_num_segment: u32,
    /// VideoMAEv2: views in test are spread over the whole video.
    pub sparse_sample: bool,
}

/// `VideoClsDataset`. In training and validation one clip is one of the original's `num_segment` (usually 1),
/// which it returns in one item; in test one of its `test_num_segment` views.
///
/// Random numbers in training (and VideoMAE's validation), shared by all clips of a video: `next_below(part -
/// clip_len * frame_sample_rate)` for each part, in order; none if parts are no longer than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finetune(FinetuneOptions);

impl Finetune {
    /// Checks the options.
    pub fn new(options: FinetuneOptions) -> Result<Self> {
        check_count("clip_len", options.clip_len)?;
        check_count("frame_sample_rate", options.frame_sample_rate)?;
        check_count("num_segment", options.num_segment)?;
        check_count("test_num_segment", options.test_num_segment)?;
        if options.mode == Mode::Test && options.sparse_sample {
            check_product(
                "num_segment * test_num_segment",
                &[options.num_segment, options.test_num_segment],
            )?;
        } else if options.mode == Mode::Test {
            at_least_two_views(options.test_num_segment)?;
        }
        Ok(Self(options))
    }

    fn clips(&self) -> u32 {
        match self.0.mode {
            Mode::Test => self.0.test_num_segment,
            Mode::Train | Mode::Validation => self.0.num_segment,
        }
    }

    /// A window of part `number`.
    fn segment(&self, num_frames: u32, number: u64, rng: &mut dyn RandomSource) -> ClipIndices {
        let FinetuneOptions { clip_len, frame_sample_rate, num_segment, .. } = self.0;
        let part = num_frames / num_segment;
        let first = number as i64 * i64::from(part);
        let span = u64::from(clip_len) * u64::from(frame_sample_rate);
        let Some(room) = u64::from(part).checked_sub(span).filter(|&room| room > 0) else {
            return padded(first, part, frame_sample_rate, (clip_len, num_frames));
        };
        let start = match (self.0.mode, self.0.version) {
            (Mode::Validation, VideoMaeVersion::Two) => (span + u64::from(part)) / 2 - span,
            _ => sample_integers(rng, room, u64::from(num_segment))[number as usize],
        };
        let (start, end) = (start as i64, (start + span) as i64);
        ClipIndices::unpadded(
            window(start, end, clip_len).into_iter().map(|at| (first + at) as u32).collect(),
        )
    }

    /// View `view` of the test: consecutive frames of the video reduced to every `frame_sample_rate`-th
    /// frame.
    fn dense_view(&self, num_frames: u32, view: u64) -> ClipIndices {
        let FinetuneOptions { clip_len, frame_sample_rate, test_num_segment, .. } = self.0;
        let decoded = num_frames.div_ceil(frame_sample_rate);
        let room = decoded.saturating_sub(clip_len);
        let start = (view as f64 * (f64::from(room) / f64::from(test_num_segment - 1))) as u64;
        let last = u64::from(decoded.saturating_sub(1));
        let at =
            (start..start + u64::from(clip_len)).map(|i| (i.min(last) as u32 * frame_sample_rate, i <= last));
        let (indices, mask) = at.unzip();
        ClipIndices { indices, mask }
    }

    /// View `view` of the sparse test: every `test_num_segment`-th of evenly spread frames.
    fn sparse_view(&self, num_frames: u32, view: u64) -> ClipIndices {
        let tick = f64::from(num_frames) / f64::from(self.0.num_segment);
        ClipIndices::unpadded(interleaved(tick, self.0.num_segment, self.0.test_num_segment, view))
    }
}

/// Frames `view`, `view + views`, … of the sorted union of `frames` evenly spread frames for each view.
pub(super) fn interleaved(tick: f64, frames: u32, views: u32, view: u64) -> Vec<u32> {
    let at = |t: u32, x: u32| (f64::from(t) * tick / f64::from(views) + tick * f64::from(x)) as u32;
    let mut all: Vec<u32> = (0..views).flat_map(|t| (0..frames).map(move |x| at(t, x))).collect();
    all.sort_unstable();
    all.into_iter().skip(view as usize).step_by(views as usize).collect()
}

impl ClipSampler for Finetune {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.clips())
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.clips()))
    }

    fn sequence_length(&self) -> Option<u32> {
        match self.0.mode {
            Mode::Test if self.0.sparse_sample => Some(self.0.num_segment),
            _ => Some(self.0.clip_len),
        }
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = video.num_frames();
        Ok(match self.0.mode {
            Mode::Train | Mode::Validation => self.segment(frames, number, rng),
            Mode::Test if self.0.sparse_sample => self.sparse_view(frames, number),
            Mode::Test => self.dense_view(frames, number),
        })
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
