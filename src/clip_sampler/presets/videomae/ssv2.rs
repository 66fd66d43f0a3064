//! Reproduces VideoMAE's `SSVideoClsDataset` and VideoMAEv2's `RawFrameClsDataset`: one frame from each of
//! `num_segment` equal parts of the video.
//! Short videos are not replaced by another video.

use super::super::common::{check_count, check_product, clips_unless_empty, sample_integers};
use super::finetune::interleaved;
use super::{Mode, VideoMaeVersion};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// Options of the two datasets, with their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssv2Options {
    /// Training, validation or test.
    pub mode: Mode,
    /// VideoMAE or VideoMAEv2. The latter's validation takes the middle of each part instead of a random
    /// frame, its test supports any number of views, and its short videos repeat the first frame and then
    /// show all frames.
    pub version: VideoMaeVersion,
    /// Frames of a clip, each from its own part.
    pub num_segment: u32,
    /// Views of a video in test.
    pub test_num_segment: u32,
}

/// `SSVideoClsDataset`, `RawFrameClsDataset`: one clip of a video, or `test_num_segment` views in test.
///
/// Random numbers in training (and VideoMAE's validation): `next_below(part)` for each part; none for a video with
/// fewer frames than parts, of which VideoMAE then shows only the first frame.
///
/// VideoMAE's test takes every second frame from a list that is intended for two views. More views are
/// reproduced as in the original: overlapping, and of different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssv2(Ssv2Options);

impl Ssv2 {
    /// Checks the options.
    pub fn new(options: Ssv2Options) -> Result<Self> {
        check_count("num_segment", options.num_segment)?;
        check_count("test_num_segment", options.test_num_segment)?;
        check_product("num_segment * test_num_segment", &[options.num_segment, options.test_num_segment])?;
        Ok(Self(options))
    }

    fn clips(&self) -> u32 {
        if self.0.mode == Mode::Test {
            self.0.test_num_segment
        } else {
            1
        }
    }

    fn segments(&self, num_frames: u32, rng: &mut dyn RandomSource) -> Vec<u32> {
        let segments = self.0.num_segment;
        let part = num_frames / segments;
        match (self.0.version, self.0.mode) {
            (VideoMaeVersion::One, _) if part == 0 => vec![0; segments as usize],
            (VideoMaeVersion::Two, _) if part == 0 => {
                let repeated = segments - num_frames;
                (0..segments).map(|i| i.saturating_sub(repeated)).collect()
            }
            (VideoMaeVersion::Two, Mode::Validation) => (0..segments).map(|i| i * part + part / 2).collect(),
            _ => {
                let drawn = sample_integers(rng, u64::from(part), u64::from(segments));
                (0..segments).zip(drawn).map(|(i, drawn)| i * part + drawn as u32).collect()
            }
        }
    }

    fn view(&self, num_frames: u32, view: u64) -> Vec<u32> {
        let Ssv2Options { version, num_segment, test_num_segment, .. } = self.0;
        let tick = f64::from(num_frames) / f64::from(num_segment);
        if version == VideoMaeVersion::Two {
            return interleaved(tick, num_segment, test_num_segment, view);
        }
        let middle = (0..num_segment).map(|x| (tick / 2.0 + tick * f64::from(x)) as u32);
        let begin = (0..num_segment).map(|x| (tick * f64::from(x)) as u32);
        let mut all: Vec<u32> = middle.chain(begin).collect();
        let wanted = num_segment as usize * test_num_segment as usize;
        if let Some(&last) = all.last() {
            all.resize(all.len().max(wanted), last);
        }
        all.sort_unstable();
        all.into_iter().skip(view as usize).step_by(2).collect()
    }
}

impl ClipSampler for Ssv2 {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.clips())
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.clips()))
    }

    fn sequence_length(&self) -> Option<u32> {
        let has_equal_segments = self.0.mode != Mode::Test
            || self.0.version == VideoMaeVersion::Two
            || self.0.test_num_segment <= 2;
        has_equal_segments.then_some(self.0.num_segment)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = video.num_frames();
        Ok(ClipIndices::unpadded(match self.0.mode {
            Mode::Test => self.view(frames, number),
            Mode::Train | Mode::Validation => self.segments(frames, rng),
        }))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
