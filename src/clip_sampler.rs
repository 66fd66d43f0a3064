//! Clip samplers: how many clips a video yields, and which frames each clip has. They have no state
//! and open no video; all randomness comes from the stream that the caller passes. To add a clip
//! sampler, implement [`ClipSampler`] for a type in a new file.

pub mod audio_windows;
mod clip_spec;
mod delta;
mod dense;
mod explicit;
mod frame_position;
mod longest;
mod padding;
mod per_sample;
pub mod presets;
mod random;
mod segments;
mod uniform;
pub mod video_timing;
mod views;
mod windows;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;

pub use crate::rng::RandomSource;
pub use clip_spec::{ClipSpec, MAX_FRAMES, Spacing};
pub use delta::Delta;
pub use dense::Dense;
pub use explicit::ExplicitFrames;
pub use frame_position::{FramePosition, OutOfRange};
pub use longest::LongestFit;
pub use padding::PaddingPolicy;
pub use per_sample::PerSample;
pub use random::{Random, StartSampling};
pub use segments::{SegmentMode, Segments};
pub use uniform::Uniform;
pub use video_timing::VideoTiming;
pub use views::{SamplerOfView, Views};
pub use windows::{PadMode, Windows};

/// A shared clip sampler.
pub type ClipSamplerRef = Arc<dyn ClipSampler>;

/// Samples clips from videos. Pure: the same video timing, clip number and random numbers give the
/// same frames.
pub trait ClipSampler: Debug + Send + Sync {
    /// Number of clips that a video yields. A video that is too short yields 0 clips, not an error.
    fn num_clips(&self, video: &dyn VideoTiming) -> u64;

    /// The number of clips, if it is the same for all videos with at least one frame: then no video
    /// must be opened to count its clips.
    fn fixed_num_clips(&self) -> Option<u64> {
        None
    }

    /// Frames per clip; `None` if it depends on the video.
    fn sequence_length(&self) -> Option<u32>;

    /// Whether the clips of one video share a random stream: then `rng` is the same stream for all
    /// of them, keyed by the video, and each call samples all clips and returns one. Otherwise each
    /// clip has its own stream.
    fn shares_rng_per_video(&self) -> bool {
        false
    }

    /// The frames of clip `clip`, which must be below [`num_clips`](Self::num_clips).
    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices>;

    /// Whether frames past the end are blank (where [`ClipIndices::mask`] is false) instead of
    /// repeated frames.
    fn pads_with_zeros(&self) -> bool {
        false
    }

    /// What a video must have to yield a clip, for messages: "61 frames", "2.5 seconds".
    fn min_length_hint(&self) -> String;

    /// The clip sampler of one sample of a dataset, if samples differ in it.
    fn for_sample(&self, _sample: u32) -> Option<&ClipSamplerRef> {
        None
    }
}

/// The frames of one clip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClipIndices {
    /// Presentation indices, each below the number of frames of the video, in the order of the
    /// clip.
    pub indices: Vec<u32>,
    /// As long as `indices`: true for a real frame, false for one that replaces a frame past the
    /// end.
    pub mask: Vec<bool>,
}

impl ClipIndices {
    /// A clip of real frames only.
    pub fn unpadded(indices: Vec<u32>) -> Self {
        Self {
            mask: vec![true; indices.len()],
            indices,
        }
    }
}

/// Argument checks shared by all clip samplers.
mod common {
    use super::VideoTiming;
    use crate::error::{Error, Result};

    /// Rejects a count of zero.
    pub(crate) fn check_nonzero(name: &str, value: u32, hint: &str) -> Result<u32> {
        if value == 0 {
            return Err(Error::Argument(format!(
                "{name} must be at least 1, got 0; {hint}"
            )));
        }
        Ok(value)
    }

    /// Rejects a clip number that the video does not have.
    pub(crate) fn check_clip_index(clip: u64, clips: u64, video: &dyn VideoTiming) -> Result<()> {
        if clip < clips {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "clip {clip} was requested, but a video of {} frames yields {clips} clips; request a clip below that",
            video.num_frames()
        )))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::video_timing::{ConstantFrameRate, FrameTimestamps};
    use super::*;
    use crate::rng::{Purpose, RngKey};

    /// Returns the numbers of a list, so that a test specifies the random numbers.
    pub(super) struct ScriptedRng<'a>(pub &'a [u64]);

    impl RandomSource for ScriptedRng<'_> {
        fn next_below(&mut self, n: u64) -> u64 {
            let (&first, rest) = self
                .0
                .split_first()
                .expect("drew more often than the test expects");
            self.0 = rest;
            assert!(
                first < n,
                "the test draws {first}, the rule requests 0..{n}"
            );
            first
        }

        fn next_f64(&mut self) -> f64 {
            unreachable!("no rule draws a float")
        }
    }

    /// A video of `num_frames` frames at 25 frames per second.
    pub(super) fn video(num_frames: u32) -> ConstantFrameRate {
        ConstantFrameRate {
            num_frames,
            fps: 25.0,
        }
    }

    const PADDING_POLICIES: [PaddingPolicy; 7] = [
        PaddingPolicy::Repeat,
        PaddingPolicy::Loop,
        PaddingPolicy::Wrap,
        PaddingPolicy::Edge,
        PaddingPolicy::Blank,
        PaddingPolicy::Drop,
        PaddingPolicy::Error,
    ];
    const PAD_MODES: [PadMode; 5] = [
        PadMode::Drop,
        PadMode::Blank,
        PadMode::Edge,
        PadMode::Reflect101,
        PadMode::Reflect1001,
    ];

    /// One value for each kind of parameter of the clip samplers.
    #[derive(Clone, Copy, Debug)]
    struct Numbers {
        length: u32,
        stride: u32,
        fps: f64,
        clips: u32,
        step: u32,
        seconds: f64,
        at: i64,
        jitter: bool,
    }

    /// Every clip sampler that can be constructed with these values.
    fn samplers(n: Numbers) -> Vec<ClipSamplerRef> {
        let mut samplers: Vec<ClipSamplerRef> = Vec::new();
        let Numbers {
            length,
            stride,
            fps,
            clips,
            step,
            seconds,
            at,
            jitter,
        } = n;
        let mut add = |sampler: Result<ClipSamplerRef>| samplers.extend(sampler);
        for pad in PAD_MODES {
            add(Windows::new(length, stride, Some(step), pad)
                .map(|r| Arc::new(r) as ClipSamplerRef));
            add(Windows::by_seconds(length, fps, Some(seconds), pad)
                .map(|r| Arc::new(r) as ClipSamplerRef));
        }
        for padding in PADDING_POLICIES {
            for spacing in [Spacing::Stride(stride), Spacing::Fps(fps)] {
                for group in [StartSampling::Independent, StartSampling::Stratified] {
                    let random = Random::new(length, spacing, clips, padding);
                    let random =
                        random.map(|r| r.with_start_sampling(group).with_frame_jitter(jitter));
                    add(random.map(|r| Arc::new(r) as ClipSamplerRef));
                }
                add(Uniform::new(length, spacing, clips, padding)
                    .map(|r| Arc::new(r) as ClipSamplerRef));
            }
            for mode in [SegmentMode::Random, SegmentMode::Middle] {
                let segments = Segments::new(length, (stride.min(3), step), mode, clips, padding);
                add(segments.map(|r| Arc::new(r) as ClipSamplerRef));
            }
            for positions in [None, Some(clips)] {
                let dense = Dense::new((length, stride), clips, step, positions, padding);
                add(dense.map(|r| Arc::new(r) as ClipSamplerRef));
            }
            add(
                ExplicitFrames::frames(vec![vec![at, 0], vec![-1, at]], padding)
                    .map(|r| Arc::new(r) as ClipSamplerRef),
            );
            add(
                ExplicitFrames::seconds(vec![vec![seconds, -0.1], vec![0.0, fps]], padding)
                    .map(|r| Arc::new(r) as ClipSamplerRef),
            );
        }
        add(Delta::new(vec![0.0, -seconds, fps], seconds, step)
            .map(|r| Arc::new(r) as ClipSamplerRef));
        samplers
    }

    /// Checks the invariants of every clip of a clip sampler.
    fn check(sampler: &ClipSamplerRef, video: &dyn VideoTiming) {
        let (frames, clips) = (video.num_frames(), sampler.num_clips(video));
        let what = || format!("{sampler:?} of {frames} frames");
        assert!(frames > 0 || clips == 0, "{}", what());
        assert!(
            sampler
                .fixed_num_clips()
                .is_none_or(|n| frames == 0 || n == clips),
            "{}",
            what()
        );
        for clip in [0, 1, clips / 2, clips.wrapping_sub(1), clips, u64::MAX] {
            let key = RngKey {
                seed: 1,
                epoch: 0,
                clip,
                occurrence: 0,
            };
            let sample = sampler.clip(video, clip, &mut key.rng(Purpose::Sampling));
            if clip >= clips {
                assert!(sample.is_err(), "{}", what());
            }
            let Ok(sample) = sample else { continue };
            assert_eq!(sample.mask.len(), sample.indices.len());
            assert!(
                sample.indices.iter().all(|&i| i < frames),
                "{} {sample:?}",
                what()
            );
            let length = sampler.sequence_length();
            assert!(
                length.is_none_or(|n| n as usize == sample.indices.len()),
                "{}",
                what()
            );
        }
    }

    #[test]
    fn sampler_clips_have_their_length_and_stay_in_range() {
        let numbers = [
            Numbers {
                length: 4,
                stride: 3,
                fps: 10.0,
                clips: 3,
                step: 5,
                seconds: 0.3,
                at: 7,
                jitter: false,
            },
            Numbers {
                length: 1,
                stride: 1,
                fps: 25.0,
                clips: 1,
                step: 1,
                seconds: 0.04,
                at: -3,
                jitter: true,
            },
            Numbers {
                length: 7,
                stride: 2,
                fps: 60.0,
                clips: 2,
                step: 9,
                seconds: 1.0,
                at: 20,
                jitter: true,
            },
        ];
        for numbers in numbers {
            for sampler in samplers(numbers) {
                for frames in 0..40 {
                    check(&sampler, &video(frames));
                    let mut times: Vec<f64> = (0..frames)
                        .map(|i| 3.0 + f64::from(i * i % 97 + 9 * i) / 90.0)
                        .collect();
                    times.sort_by(f64::total_cmp);
                    let end = times.last().copied().unwrap_or(3.0);
                    check(&sampler, &FrameTimestamps::new(times, end).unwrap());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_arguments_make_a_sampler_panic(
            length in prop_oneof![0..40u32, Just(u32::MAX), Just(1 << 31)],
            stride in prop_oneof![0..40u32, any::<u32>()],
            fps in prop_oneof![0.01..1e3f64, any::<f64>()],
            clips in prop_oneof![0..9u32, any::<u32>()],
            step in prop_oneof![0..40u32, any::<u32>()],
            seconds in prop_oneof![0.0..9.0f64, any::<f64>()],
            at in prop_oneof![-99..99i64, any::<i64>()],
            jitter in any::<bool>(),
            frames in prop_oneof![0..99u32, any::<u32>()],
            rate in prop_oneof![1.0..99.0f64, 1e-300..1e300f64],
            mut times in prop::collection::vec(prop_oneof![0.0..9.0f64, -1e300..1e300f64], 1..30),
        ) {
            times.sort_by(f64::total_cmp);
            let end = times.pop().unwrap();
            let timed = FrameTimestamps::new(times, end).unwrap();
            for sampler in samplers(Numbers { length, stride, fps, clips, step, seconds, at, jitter }) {
                check(&sampler, &ConstantFrameRate { num_frames: frames, fps: rate });
                check(&sampler, &timed);
            }
        }
    }

    #[test]
    fn the_span_of_the_largest_clip_does_not_overflow() {
        let sampler = Windows::new(u32::MAX, u32::MAX, None, PadMode::Drop).unwrap();
        let span = u64::from(u32::MAX - 1) * u64::from(u32::MAX) + 1;
        assert_eq!(sampler.min_length_hint(), format!("{span} frames"));
        assert_eq!(sampler.num_clips(&video(u32::MAX)), 0);
    }
}
