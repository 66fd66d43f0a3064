//! Tests that all presets based on times or windows keep their invariants with small, large and invalid
//! options.
//! The exact frames are tested by tests/python/test_presets_*.py against the published formulas.

use super::common::MAX_COUNT;
use super::cosmos_curate::SampleClosest;
use super::dali::{DaliVersion, Sequences, UniformSample};
use super::hf::{self, HfSampleFrames, SampleFunction};
use super::lerobot::DeltaTimestamps;
use super::pytorchvideo::{ClipSamplerKind, LabeledVideoClips};
use super::qwen_vl::{self, QwenVl};
use super::tests::{try_new, ExtremeRng};
use super::torchcodec::{ClipStarts, Indices, IndicesOptions, Policy, Timestamps, TimestampsOptions};
use super::torchvision::{self, VideoClips};
use super::Seconds;
use crate::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use crate::clip_sampler::{ClipSampler, ClipSamplerRef, PadMode, RandomSource, VideoTiming};

/// Every preset in every form, with `a` frames at distance `b`, `c` clips and `t` seconds.
fn all(a: u32, b: u32, c: u32, t: f64) -> Vec<ClipSamplerRef> {
    let mut samplers = Vec::new();
    let both = [false, true];
    for policy in [Policy::RepeatLast, Policy::Wrap, Policy::Error] {
        for end in [None, Some(i64::from(b)), Some(-1), Some(i64::MIN), Some(i64::MAX)] {
            for (start, random) in [0, -3, i64::from(b), i64::MIN].into_iter().zip([false, true, true, false])
            {
                samplers.push(try_new(Indices::new(IndicesOptions {
                    random,
                    num_clips: c,
                    num_frames_per_clip: a,
                    num_indices_between_frames: b,
                    sampling_range_start: start,
                    sampling_range_end: end,
                    policy,
                })));
            }
        }
        for (end, between) in
            [None, Some(t), Some(-t), Some(1e300)].into_iter().zip([None, Some(t), None, Some(0.04)])
        {
            for starts in [ClipStarts::Random(c), ClipStarts::Regular(t)] {
                samplers.push(try_new(Timestamps::new(TimestampsOptions {
                    starts,
                    num_frames_per_clip: a,
                    seconds_between_frames: between,
                    sampling_range_start: between,
                    sampling_range_end: end,
                    policy,
                })));
            }
        }
    }
    for rate in [None, Some(t), Some(10.0), Some(29.97)] {
        for sampler in [
            torchvision::ClipSelection::All,
            torchvision::ClipSelection::Uniform(c),
            torchvision::ClipSelection::Random(c),
        ] {
            samplers.push(try_new(VideoClips::new(a, b, rate, sampler)));
        }
        for frames in [
            hf::FrameSelection::All,
            hf::FrameSelection::Number(a),
            hf::FrameSelection::Rate(rate.unwrap_or(t)),
        ] {
            for function in [SampleFunction::SampleFrames, SampleFunction::DefaultSampleIndicesFn] {
                for version in [hf::TransformersVersion::V4_57, hf::TransformersVersion::V5_23] {
                    samplers.push(try_new(HfSampleFrames::new(function, frames, version)));
                }
            }
        }
        let fps = rate.unwrap_or(t);
        for max_frames in [None, Some(c)] {
            let frames = qwen_vl::FrameCount::Rate { fps, min_frames: a, max_frames };
            samplers.push(try_new(QwenVl::new(frames, rate, Some(t))));
            samplers.push(try_new(QwenVl::new(frames, None, None)));
        }
        samplers.push(try_new(QwenVl::new(qwen_vl::FrameCount::Number(a), rate, None)));
        samplers.push(try_new(DeltaTimestamps::new(vec![0.0, -t, t], rate, t)));
        for endpoint in both {
            samplers.push(try_new(SampleClosest::new(fps, None, rate, endpoint)));
            samplers.push(try_new(SampleClosest::new(fps, rate, None, endpoint)));
        }
    }
    let fraction = Seconds::Ratio(i64::from(a), 30);
    for duration in
        [Seconds::Float(t), fraction, Seconds::Ratio(i64::MAX, i64::MAX - 1), Seconds::Ratio(1, 0)]
    {
        for samples in [None, Some(a)] {
            let mut add =
                |sampler| samplers.push(try_new(LabeledVideoClips::new(sampler, duration, samples)));
            add(ClipSamplerKind::Random);
            add(ClipSamplerKind::RandomMulti { num_clips: c });
            add(ClipSamplerKind::ConstantClipsPerVideo { clips_per_video: c, augs_per_clip: b });
            for stride in
                [None, Some(fraction), Some(Seconds::Float(t / 3.0)), Some(Seconds::Float(f64::NAN))]
            {
                for backpad_last in both {
                    add(ClipSamplerKind::Uniform { stride, backpad_last });
                }
            }
        }
    }
    for pad in [PadMode::None, PadMode::Constant, PadMode::Edge, PadMode::Reflect101, PadMode::Reflect1001] {
        for step in [None, Some(c)] {
            samplers.push(try_new(Sequences::new(a, b, step, pad, DaliVersion::V2_4)));
            samplers.push(try_new(Sequences::new(a, b, step, pad, DaliVersion::Main)));
        }
    }
    samplers.push(try_new(UniformSample::new(a)));
    samplers.into_iter().flatten().collect()
}

/// Checks the clips that a clip sampler yields and returns how many were checked.
fn check(sampler: &ClipSamplerRef, video: &dyn VideoTiming, most_clips: u64) -> usize {
    let (frames, clips) = (video.num_frames(), sampler.num_clips(video));
    assert!(frames > 0 || clips == 0, "{sampler:?}");
    assert!(sampler.fixed_num_clips().is_none_or(|n| frames == 0 || n == clips), "{sampler:?} {frames}");
    assert!(sampler.clip(video, clips, &mut ExtremeRng(false)).is_err(), "{sampler:?} {frames}");
    let wanted = (0..clips.min(most_clips)).chain(clips.checked_sub(1));
    let mut given = 0;
    for (clip, most) in wanted.flat_map(|clip| [(clip, false), (clip, true)]) {
        let Ok(sample) = sampler.clip(video, clip, &mut ExtremeRng(most)) else { continue };
        given += 1;
        let place = || format!("{sampler:?} {frames} {clip} {sample:?}");
        assert!(!sample.indices.is_empty(), "{}", place());
        assert!(sampler.sequence_length().is_none_or(|n| n as usize == sample.indices.len()), "{}", place());
        assert_eq!(sample.mask.len(), sample.indices.len(), "{}", place());
        assert!(sample.indices.iter().all(|&at| at < frames), "{}", place());
    }
    given
}

#[test]
fn preset_clips_have_their_length_and_stay_in_range() {
    let options = [(1, 1, 1, 0.5), (4, 2, 3, 0.2), (5, 3, 5, 1.0), (16, 1, 4, 0.04), (3, 7, 12, 2.0)];
    let mut clips = 0;
    for sampler in options.into_iter().flat_map(|(a, b, c, t)| all(a, b, c, t)) {
        for frames in (0..20).chain([63, 64, 100]) {
            clips += check(&sampler, &ConstantFrameRate { num_frames: frames, fps: 29.97 }, 6);
            let begins: Vec<f64> = (0..frames).map(|i| 0.1 + f64::from(i * i) / 200.0).collect();
            let end = begins.last().map_or(0.0, |last| last + 0.1);
            clips += check(&sampler, &FrameTimestamps::new(begins, end).unwrap(), 6);
        }
    }
    assert!(clips > 50_000, "{clips}");
}

#[test]
fn invalid_numbers_are_rejected_large_ones_accepted() {
    assert!(all(0, 1, 1, 1.0).iter().all(|sampler| sampler.sequence_length() != Some(0)));
    assert!(all(1, 1, 0, 1.0).iter().all(|sampler| sampler.fixed_num_clips() != Some(0)));
    for huge in [u32::MAX, MAX_COUNT + 1] {
        assert!(all(huge, 1, 1, 1.0)
            .iter()
            .all(|sampler| sampler.sequence_length().is_none_or(|n| n <= MAX_COUNT)));
        assert!(all(1, 1, huge, 1.0)
            .iter()
            .all(|sampler| sampler.fixed_num_clips().is_none_or(|n| n <= u64::from(MAX_COUNT))));
    }
    for t in [1e-3, 1e6] {
        for sampler in all(2, MAX_COUNT, 2, t) {
            for (frames, fps) in
                [(1, 25.0), (2, 1e-9), (u32::MAX, 1e9), (u32::MAX, 25.0), (9, 0.0), (9, f64::NAN)]
            {
                check(&sampler, &ConstantFrameRate { num_frames: frames, fps }, 2);
            }
        }
    }
    for t in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, 1e-300] {
        for sampler in all(2, 1, 2, t) {
            check(&sampler, &ConstantFrameRate { num_frames: 30, fps: 25.0 }, 2);
        }
    }
}

#[test]
fn torchvision_windows_start_a_permutation() {
    // Random numbers 3, 0, 2 of 5: (0 1 2 3 4) → (3 1 2 0 4) → (3 1 2 0 4) → (3 1 4 0 2).
    struct Three(Vec<u64>);
    impl RandomSource for Three {
        fn next_below(&mut self, n: u64) -> u64 {
            let next = self.0.remove(0);
            assert!(next < n);
            next
        }
        fn next_f64(&mut self) -> f64 {
            unreachable!("no float is drawn")
        }
    }
    let sampler = VideoClips::new(1, 1, None, torchvision::ClipSelection::Random(3)).unwrap();
    let video = ConstantFrameRate { num_frames: 5, fps: 25.0 };
    let first = |clip| sampler.clip(&video, clip, &mut Three(vec![3, 0, 2])).unwrap().indices[0];
    assert_eq!([0, 1, 2].map(first), [3, 1, 4]);
}
