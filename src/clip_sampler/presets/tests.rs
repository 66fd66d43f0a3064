//! Tests of invariants of every preset, in every form, over short and long videos.
//! The Python tests check the exact frames against the original formulas written in NumPy.

use std::sync::Arc;

use super::internvideo2::{ReadFrames, ReadFramesOptions, SampleMode};
use super::mmaction2::{
    DenseSampleFrames, DenseSampleFramesOptions, MmactionUniformSample, OutOfBound, SampleFrames,
    SampleFramesOptions, UntrimmedSampleFrames,
};
use super::slowfast::{Kinetics, KineticsOptions};
use super::videomae::{Finetune, FinetuneOptions, Mode, Pretrain, Ssv2Options, VideoMaeVersion};
use super::vjepa2::{FrameStepOption, VideoDataset, VideoDatasetOptions};
use super::{slowfast, tsn, videomae};
use crate::clip_sampler::video_timing::ConstantFrameRate;
use crate::clip_sampler::{ClipSampler, ClipSamplerRef, RandomSource};
use crate::error::Result;

/// A random source that always returns the smallest (false) or the largest (true) number.
pub(super) struct ExtremeRng(pub bool);

impl RandomSource for ExtremeRng {
    fn next_below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw from nothing");
        if self.0 {
            n - 1
        } else {
            0
        }
    }

    fn next_f64(&mut self) -> f64 {
        if self.0 {
            1.0 - f64::EPSILON / 2.0
        } else {
            0.0
        }
    }
}

/// The clip sampler, unless its options are rejected.
pub(super) fn try_new(sampler: Result<impl ClipSampler + 'static>) -> Option<ClipSamplerRef> {
    sampler.ok().map(|sampler| Arc::new(sampler) as ClipSamplerRef)
}

/// Every preset in every form, with `a` frames at distance `b` and `c` clips.
fn all(a: u32, b: u32, c: u32) -> Vec<ClipSamplerRef> {
    let mut samplers = Vec::new();
    let both = [false, true];
    let rates = [None, Some(12.5), Some(30.0), Some(f64::from(b) * 1e6), Some(f64::NAN)];
    for (i, target_fps) in (0..32).flat_map(|i| rates.map(|rate| (i, rate))) {
        let flag = |bit: u32| i >> bit & 1 == 1;
        let out_of_bound_opt = if flag(0) { OutOfBound::Loop } else { OutOfBound::RepeatLast };
        let (temporal_jitter, test_mode) = (flag(1), flag(2));
        samplers.push(try_new(SampleFrames::new(SampleFramesOptions {
            clip_len: a,
            frame_interval: b,
            num_clips: c,
            temporal_jitter,
            twice_sample: flag(3),
            out_of_bound_opt,
            test_mode,
            keep_tail_frames: flag(4),
            target_fps,
        })));
        samplers.push(try_new(DenseSampleFrames::new(DenseSampleFramesOptions {
            clip_len: a,
            frame_interval: b,
            num_clips: c,
            sample_range: 20,
            num_sample_positions: 3,
            temporal_jitter,
            out_of_bound_opt,
            test_mode,
        })));
    }
    for on in both {
        samplers.push(try_new(MmactionUniformSample::new(a, c, on)));
        samplers.push(try_new(slowfast::Ssv2::new(a, on)));
        samplers.push(try_new(Pretrain::new(c, a, b, on)));
        for random in both {
            samplers.push(try_new(tsn::TsnDataSet::new(c, a, random, on)));
            samplers.push(try_new(Kinetics::new(KineticsOptions {
                random,
                num_frames: a,
                sampling_rate: b,
                target_fps: 30.0,
                train_jitter_fps: 7.5,
                use_offset_sampling: on,
                num_ensemble_views: c,
            })));
            for (frame_step, filter) in [
                FrameStepOption::Fps(b),
                FrameStepOption::FrameStep(b),
                FrameStepOption::Duration(f64::from(b) / 8.0),
            ]
            .into_iter()
            .flat_map(|frame_step| both.map(|filter| (frame_step, filter)))
            {
                samplers.push(try_new(VideoDataset::new(VideoDatasetOptions {
                    frames_per_clip: a,
                    frame_step,
                    num_clips: c,
                    random_clip_sampling: random,
                    allow_clip_overlap: on,
                    filter_short_videos: filter,
                })));
            }
        }
        for sample in [SampleMode::Rand, SampleMode::Middle, SampleMode::Fps(2.0), SampleMode::Fps(1e9)] {
            let fix_start = on.then_some(b);
            samplers.push(try_new(ReadFrames::new(ReadFramesOptions {
                num_frames: a,
                sample,
                fix_start,
                max_num_frames: Some(c),
                trimmed30: on,
            })));
        }
        for mode in [Mode::Train, Mode::Validation, Mode::Test] {
            for version in [VideoMaeVersion::One, VideoMaeVersion::Two] {
                samplers.push(try_new(Finetune::new(FinetuneOptions {
                    mode,
                    version,
                    clip_len: a,
                    frame_sample_rate: b,
                    num_segment: c,
                    test_num_segment: c,
                    sparse_sample: on,
                })));
                let options = Ssv2Options { mode, version, num_segment: a, test_num_segment: c };
                samplers.push(try_new(videomae::Ssv2::new(options)));
            }
        }
    }
    samplers.push(try_new(UntrimmedSampleFrames::new(a, c, b)));
    samplers.into_iter().flatten().collect()
}

#[test]
fn preset_clips_have_their_length_and_stay_in_range() {
    let options = [(1, 1, 1), (1, 3, 2), (4, 1, 1), (4, 2, 3), (5, 3, 5), (8, 4, 2), (3, 7, 12), (16, 1, 4)];
    let mut clips = 0;
    for sampler in options.into_iter().flat_map(|(a, b, c)| all(a, b, c)) {
        for frames in (0..40).chain([63, 64, 65, 100, 777]) {
            let video = &ConstantFrameRate { num_frames: frames, fps: 29.97 };
            let count = sampler.num_clips(video);
            assert!(
                sampler.fixed_num_clips().is_none_or(|n| frames == 0 || n == count),
                "{sampler:?} {frames}"
            );
            for (clip, most) in (0..count).flat_map(|clip| [(clip, false), (clip, true)]) {
                let Ok(sample) = sampler.clip(video, clip, &mut ExtremeRng(most)) else { continue };
                clips += 1;
                let place = format!("{sampler:?} {frames} {clip} {sample:?}");
                assert!(!sample.indices.is_empty(), "{place}");
                assert!(
                    sampler.sequence_length().is_none_or(|n| n as usize == sample.indices.len()),
                    "{place}"
                );
                assert_eq!(sample.mask.len(), sample.indices.len(), "{place}");
                assert!(sample.indices.iter().all(|&at| at < frames), "{place}");
            }
            assert!(sampler.clip(video, count, &mut ExtremeRng(false)).is_err());
        }
    }
    assert!(clips > 100_000, "{clips}");
}

#[test]
fn invalid_numbers_are_rejected_large_ones_accepted() {
    assert_eq!(all(0, 1, 1).iter().filter(|sampler| sampler.sequence_length() == Some(0)).count(), 0);
    for huge in [u32::MAX, shared_most() + 1] {
        assert!(all(huge, 1, 1).iter().all(|sampler| sampler.sequence_length().is_none_or(|n| n < huge)));
        assert!(all(1, 1, huge)
            .iter()
            .all(|sampler| sampler.fixed_num_clips().is_none_or(|n| n < u64::from(huge))));
    }
    for sampler in all(2, shared_most(), 2) {
        for (frames, fps) in
            [(1, 25.0), (2, 1e-9), (u32::MAX, 1e9), (u32::MAX, 25.0), (9, 0.0), (9, f64::NAN)]
        {
            let video = &ConstantFrameRate { num_frames: frames, fps };
            for clip in 0..sampler.num_clips(video).min(3) {
                for most in [false, true] {
                    if let Ok(sample) = sampler.clip(video, clip, &mut ExtremeRng(most)) {
                        assert!(
                            sample.indices.iter().all(|&at| at < frames),
                            "{sampler:?} {frames} {sample:?}"
                        );
                    }
                }
            }
        }
    }
}

fn shared_most() -> u32 {
    super::common::MAX_COUNT
}

#[test]
fn same_arguments_differ_between_codebases() {
    // Sixteen frames at distance four, from frame 0.
    let first = |sampler: Option<ClipSamplerRef>, num_frames| {
        let video = &ConstantFrameRate { num_frames, fps: 30.0 };
        sampler.unwrap().clip(video, 0, &mut ExtremeRng(false)).unwrap().indices
    };
    let mmaction2 = SampleFrames::new(SampleFramesOptions {
        clip_len: 16,
        frame_interval: 4,
        num_clips: 1,
        temporal_jitter: false,
        twice_sample: false,
        out_of_bound_opt: OutOfBound::Loop,
        test_mode: false,
        keep_tail_frames: false,
        target_fps: None,
    });
    let slowfast = Kinetics::new(KineticsOptions {
        random: true,
        num_frames: 16,
        sampling_rate: 4,
        target_fps: 30.0,
        train_jitter_fps: 0.0,
        use_offset_sampling: false,
        num_ensemble_views: 10,
    });
    let videomae = Finetune::new(FinetuneOptions {
        mode: Mode::Train,
        version: VideoMaeVersion::One,
        clip_len: 16,
        frame_sample_rate: 4,
        num_segment: 1,
        test_num_segment: 10,
        sparse_sample: false,
    });
    let vjepa2 = VideoDataset::new(VideoDatasetOptions {
        frames_per_clip: 16,
        frame_step: FrameStepOption::FrameStep(4),
        num_clips: 1,
        random_clip_sampling: true,
        allow_clip_overlap: false,
        filter_short_videos: false,
    });
    let fours = [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60];
    let spread = [0, 4, 8, 12, 17, 21, 25, 29, 34, 38, 42, 46, 51, 55, 59, 63];
    assert_eq!(first(try_new(mmaction2), 100), fours);
    let frames = [0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 42, 46, 50, 54, 58, 63];
    assert_eq!(first(try_new(slowfast), 100), frames);
    assert_eq!(first(try_new(videomae), 100), spread);
    assert_eq!(first(try_new(vjepa2), 100), spread);
}
