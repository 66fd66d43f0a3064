//! Reproduces the sequences of DALI's video readers, in the same order; uses no random numbers.
//! Formulas: NVIDIA/DALI, `operators/video/reader/video_reader_decoder_op.h`,
//! `operators/video/legacy/reader/video_loader.h`.

use serde::Deserialize;

use super::formula::{Formula, Shape};
use super::options::{Count, only_for};
use crate::clip_sampler::{ClipIndices, ClipSampler, PadMode, RandomSource, VideoTiming, Windows};
use crate::error::{Error, Result};

/// Which DALI version determines the number of sequences.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Version {
    /// `experimental.readers.video` of 2.4: a sequence needs `sequence_length * stride` frames,
    /// which is `stride - 1` more than it spans; with a pad mode, one padded sequence follows at
    /// the end.
    #[serde(rename = "2.4")]
    V2_4,
    /// The same reader in later versions, and `readers.video` of all versions: a sequence needs the
    /// frames that it spans; with a pad mode, every start inside the video gives a sequence.
    #[serde(rename = "main")]
    Main,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Padding {
    None,
    Constant,
    Edge,
    Repeat,
    #[serde(rename = "reflect_1001")]
    Reflect1001,
    Symmetric,
    #[serde(rename = "reflect_101")]
    Reflect101,
    Reflect,
}

/// Sequences of frames at a constant stride, starting every `step` frames; a `step` of 0 or less is
/// `sequence_length * stride`. `pad_sequences` is the old name of `pad_mode` "constant".
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequences {
    sequence_length: Count,
    step: i64,
    stride: Count,
    pad_mode: Option<Padding>,
    pad_sequences: Option<bool>,
    version: Version,
}

impl Sequences {
    fn pad_mode(&self) -> PadMode {
        match self.pad_mode {
            None if self.pad_sequences == Some(true) => PadMode::Blank,
            None | Some(Padding::None) => PadMode::Drop,
            Some(Padding::Constant) => PadMode::Blank,
            Some(Padding::Edge | Padding::Repeat) => PadMode::Edge,
            Some(Padding::Reflect1001 | Padding::Symmetric) => PadMode::Reflect1001,
            Some(Padding::Reflect101 | Padding::Reflect) => PadMode::Reflect101,
        }
    }

    fn windows(&self) -> Result<Windows> {
        let step = match self.step {
            ..=0 => None,
            step => Some(u32::try_from(step).map_err(|_| {
                Error::Argument(format!(
                    "step must be at most {}, got {step}; use a smaller one",
                    u32::MAX
                ))
            })?),
        };
        Windows::new(self.sequence_length.0, self.stride.0, step, self.pad_mode())
    }

    fn needed(&self) -> u64 {
        self.sequence_length.u64() * self.stride.u64()
    }
}

impl Formula for Sequences {
    fn check(&self) -> Result<()> {
        if self.pad_sequences == Some(true) {
            only_for(
                "pad_sequences=False",
                &[("pad_mode", self.pad_mode.is_some())],
            )?;
        }
        self.windows().map(drop)
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: None,
            length: Some(self.sequence_length.0),
            draws_together: false,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        if self.version == Version::Main {
            return self.windows().map_or(0, |windows| windows.num_clips(video));
        }
        let (frames, needed) = (u64::from(video.num_frames()), self.needed());
        let step = if self.step > 0 {
            self.step as u64
        } else {
            needed
        };
        let full = frames.checked_sub(needed).map_or(0, |last| last / step + 1);
        let tail = self.pad_mode() != PadMode::Drop && full * step < frames;
        full + u64::from(tail)
    }

    /// The starts of 2.4 are a prefix of those of later versions.
    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        self.windows()?.clip(video, clip, rng)
    }

    fn pads_with_zeros(&self) -> bool {
        self.pad_mode() == PadMode::Blank
    }

    fn min_length_hint(&self) -> String {
        match (self.version, self.windows()) {
            (Version::Main, Ok(windows)) => windows.min_length_hint(),
            _ => format!("{} frames", self.needed()),
        }
    }
}

/// One sequence per video, spread from its first frame to its last (`uniform_sample=True`); frames
/// repeat in a video with fewer frames.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformSample {
    sequence_length: Count,
}

impl Formula for UniformSample {
    fn shape(&self) -> Shape {
        Shape {
            clips: Some(1),
            length: Some(self.sequence_length.0),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let last = f64::from(video.num_frames() - 1);
        let intervals = (self.sequence_length.f64() - 1.0).max(1.0);
        // Both C++'s std::round and Rust's round halves away from zero.
        let frame = |i: u32| (f64::from(i) / intervals * last).round() as u32;
        Ok(ClipIndices::unpadded(
            (0..self.sequence_length.0).map(frame).collect(),
        ))
    }
}
