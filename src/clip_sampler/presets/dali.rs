//! Reproduces the sequences of DALI's video readers, in the same order; uses no random numbers.
//! Formulas: NVIDIA/DALI, `operators/video/reader/video_reader_decoder_op.h`,
//! `operators/video/legacy/reader/video_loader.h`.

use super::common::{check_count, clips_unless_empty};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, PadMode, RandomSource, VideoTiming, Windows};
use crate::error::Result;

/// Which DALI version determines the number of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DaliVersion {
    /// `experimental.readers.video` of 2.4: a sequence needs `sequence_length * stride` frames, which is
    /// `stride - 1` more than it spans; with a pad mode, one padded sequence follows at the end.
    V2_4,
    /// The same reader in later versions, and `readers.video` of all versions: a sequence needs the frames
    /// that it spans; with a pad mode, every start inside the video gives a sequence.
    #[default]
    Main,
}

/// Sequences of frames at a constant stride.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequences {
    windows: Windows,
    step: u64,
    pad_mode: PadMode,
    needed: u64,
    version: DaliVersion,
}

impl Sequences {
    /// `step` is the distance between the starts of sequences; `None` is `sequence_length * stride`.
    pub fn new(
        sequence_length: u32,
        stride: u32,
        step: Option<u32>,
        pad_mode: PadMode,
        version: DaliVersion,
    ) -> Result<Self> {
        check_count("sequence_length", sequence_length)?;
        check_count("stride", stride)?;
        let windows = Windows::new(sequence_length, stride, step, pad_mode)?;
        let needed = u64::from(sequence_length) * u64::from(stride);
        Ok(Self { windows, step: step.map_or(needed, u64::from), pad_mode, needed, version })
    }
}

impl ClipSampler for Sequences {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        if self.version == DaliVersion::Main {
            return self.windows.num_clips(video);
        }
        let (frames, step) = (u64::from(video.num_frames()), self.step);
        let full = frames.checked_sub(self.needed).map_or(0, |last| last / step + 1);
        let tail = self.pad_mode != PadMode::None && full * step < frames;
        full + u64::from(tail)
    }

    fn sequence_length(&self) -> Option<u32> {
        self.windows.sequence_length()
    }

    /// The starts of 2.4 are a prefix of those of later versions.
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        self.windows.clip(video, number, rng)
    }

    fn pads_with_zeros(&self) -> bool {
        self.windows.pads_with_zeros()
    }

    fn min_length_hint(&self) -> String {
        match self.version {
            DaliVersion::V2_4 => format!("{} frames", self.needed),
            DaliVersion::Main => self.windows.min_length_hint(),
        }
    }
}

/// One sequence per video, spread from its first frame to its last (`uniform_sample=True`); frames repeat in
/// a video with fewer frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformSample {
    sequence_length: u32,
}

impl UniformSample {
    /// Checks the length.
    pub fn new(sequence_length: u32) -> Result<Self> {
        Ok(Self { sequence_length: check_count("sequence_length", sequence_length)? })
    }
}

impl ClipSampler for UniformSample {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.sequence_length)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let last = f64::from(video.num_frames() - 1);
        let intervals = f64::from((self.sequence_length - 1).max(1));
        // Both C++'s std::round and Rust's round halves away from zero.
        let frame = |i: u32| (f64::from(i) / intervals * last).round() as u32;
        Ok(ClipIndices::unpadded((0..self.sequence_length).map(frame).collect()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
