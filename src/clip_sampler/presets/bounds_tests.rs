//! Tests that all presets based on times or windows keep their invariants with small, large and invalid
//! options.
//! The exact frames are tested by tests/python/test_presets_*.py against the published formulas.

use super::common::MAX;
use super::cosmos_curate::SampleClosest;
use super::dali::{Sequences, UniformSample, Version};
use super::hf::{self, Function, SampleFrames};
use super::lerobot::DeltaTimestamps;
use super::pytorchvideo::{Clips, Sampler};
use super::qwen_vl::{self, QwenVl};
use super::tests::{made, Extreme};
use super::torchcodec::{Indices, IndicesOptions, Policy, Starts, Timestamps, TimestampsOptions};
use super::torchvision::{self, VideoClips};
use super::Seconds;
use crate::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use crate::clip_sampler::{ClipSampler, Pad, RandomSource, Sampling, VideoTiming};

/// Every preset in every form, with `a` frames at distance `b`, `c` clips and `t` seconds.
fn all(a: u32, b: u32, c: u32, t: f64) -> Vec<Sampling> {
    let mut rules = Vec::new();
    let both = [false, true];
    for policy in [Policy::RepeatLast, Policy::Wrap, Policy::Error] {
        for end in [None, Some(i64::from(b)), Some(-1), Some(i64::MIN), Some(i64::MAX)] {
            for (start, random) in [0, -3, i64::from(b), i64::MIN].into_iter().zip([false, true, true, false])
            {
                rules.push(made(Indices::new(IndicesOptions {
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
            for starts in [Starts::Random(c), Starts::Regular(t)] {
                rules.push(made(Timestamps::new(TimestampsOptions {
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
        for sampler in
            [torchvision::Sampler::All, torchvision::Sampler::Uniform(c), torchvision::Sampler::Random(c)]
        {
            rules.push(made(VideoClips::new(a, b, rate, sampler)));
        }
        for frames in [hf::Frames::All, hf::Frames::Number(a), hf::Frames::Rate(rate.unwrap_or(t))] {
            rules.push(made(SampleFrames::new(Function::SampleFrames, frames)));
            rules.push(made(SampleFrames::new(Function::DefaultSampleIndicesFn, frames)));
        }
        let fps = rate.unwrap_or(t);
        for max_frames in [None, Some(c)] {
            let frames = qwen_vl::Frames::Rate { fps, min_frames: a, max_frames };
            rules.push(made(QwenVl::new(frames, rate, Some(t))));
            rules.push(made(QwenVl::new(frames, None, None)));
        }
        rules.push(made(QwenVl::new(qwen_vl::Frames::Number(a), rate, None)));
        rules.push(made(DeltaTimestamps::new(vec![0.0, -t, t], rate, t)));
        for endpoint in both {
            rules.push(made(SampleClosest::new(fps, None, rate, endpoint)));
            rules.push(made(SampleClosest::new(fps, rate, None, endpoint)));
        }
    }
    let fraction = Seconds::Ratio(i64::from(a), 30);
    for duration in
        [Seconds::Float(t), fraction, Seconds::Ratio(i64::MAX, i64::MAX - 1), Seconds::Ratio(1, 0)]
    {
        for samples in [None, Some(a)] {
            let mut add = |sampler| rules.push(made(Clips::new(sampler, duration, samples)));
            add(Sampler::Random);
            add(Sampler::RandomMulti { num_clips: c });
            add(Sampler::ConstantClipsPerVideo { clips_per_video: c, augs_per_clip: b });
            for stride in
                [None, Some(fraction), Some(Seconds::Float(t / 3.0)), Some(Seconds::Float(f64::NAN))]
            {
                for backpad_last in both {
                    add(Sampler::Uniform { stride, backpad_last });
                }
            }
        }
    }
    for pad in [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect101, Pad::Reflect1001] {
        for step in [None, Some(c)] {
            rules.push(made(Sequences::new(a, b, step, pad, Version::V2_4)));
            rules.push(made(Sequences::new(a, b, step, pad, Version::Main)));
        }
    }
    rules.push(made(UniformSample::new(a)));
    rules.into_iter().flatten().collect()
}

/// Checks the clips that a clip sampler yields and returns how many were checked.
fn check(rule: &Sampling, video: &dyn VideoTiming, most_clips: u64) -> usize {
    let (frames, clips) = (video.num_frames(), rule.clips_in(video));
    assert!(frames > 0 || clips == 0, "{rule:?}");
    assert!(rule.clips_each().is_none_or(|n| frames == 0 || n == clips), "{rule:?} {frames}");
    assert!(rule.clip(video, clips, &mut Extreme(false)).is_err(), "{rule:?} {frames}");
    let wanted = (0..clips.min(most_clips)).chain(clips.checked_sub(1));
    let mut given = 0;
    for (clip, most) in wanted.flat_map(|clip| [(clip, false), (clip, true)]) {
        let Ok(sample) = rule.clip(video, clip, &mut Extreme(most)) else { continue };
        given += 1;
        let place = || format!("{rule:?} {frames} {clip} {sample:?}");
        assert!(!sample.indices.is_empty(), "{}", place());
        assert!(rule.sequence_length().is_none_or(|n| n as usize == sample.indices.len()), "{}", place());
        assert_eq!(sample.mask.len(), sample.indices.len(), "{}", place());
        assert!(sample.indices.iter().all(|&at| at < frames), "{}", place());
    }
    given
}

#[test]
fn every_clip_of_every_preset_has_its_length_and_stays_inside_the_video() {
    let options = [(1, 1, 1, 0.5), (4, 2, 3, 0.2), (5, 3, 5, 1.0), (16, 1, 4, 0.04), (3, 7, 12, 2.0)];
    let mut clips = 0;
    for rule in options.into_iter().flat_map(|(a, b, c, t)| all(a, b, c, t)) {
        for frames in (0..20).chain([63, 64, 100]) {
            clips += check(&rule, &ConstantFrameRate { num_frames: frames, fps: 29.97 }, 6);
            let begins: Vec<f64> = (0..frames).map(|i| 0.1 + f64::from(i * i) / 200.0).collect();
            let end = begins.last().map_or(0.0, |last| last + 0.1);
            clips += check(&rule, &FrameTimestamps::new(begins, end).unwrap(), 6);
        }
    }
    assert!(clips > 50_000, "{clips}");
}

#[test]
fn numbers_that_make_no_sense_are_refused_and_large_ones_do_no_harm() {
    assert!(all(0, 1, 1, 1.0).iter().all(|rule| rule.sequence_length() != Some(0)));
    assert!(all(1, 1, 0, 1.0).iter().all(|rule| rule.clips_each() != Some(0)));
    for huge in [u32::MAX, MAX + 1] {
        assert!(all(huge, 1, 1, 1.0).iter().all(|rule| rule.sequence_length().is_none_or(|n| n <= MAX)));
        assert!(all(1, 1, huge, 1.0)
            .iter()
            .all(|rule| rule.clips_each().is_none_or(|n| n <= u64::from(MAX))));
    }
    for t in [1e-3, 1e6] {
        for rule in all(2, MAX, 2, t) {
            for (frames, fps) in
                [(1, 25.0), (2, 1e-9), (u32::MAX, 1e9), (u32::MAX, 25.0), (9, 0.0), (9, f64::NAN)]
            {
                check(&rule, &ConstantFrameRate { num_frames: frames, fps }, 2);
            }
        }
    }
    for t in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, 1e-300] {
        for rule in all(2, 1, 2, t) {
            check(&rule, &ConstantFrameRate { num_frames: 30, fps: 25.0 }, 2);
        }
    }
}

#[test]
fn torchvision_picks_windows_as_the_head_of_a_permutation() {
    // Random numbers 3, 0, 2 of 5: (0 1 2 3 4) → (3 1 2 0 4) → (3 1 2 0 4) → (3 1 4 0 2).
    struct Three(Vec<u64>);
    impl RandomSource for Three {
        fn below(&mut self, n: u64) -> u64 {
            let next = self.0.remove(0);
            assert!(next < n);
            next
        }
        fn unit_f64(&mut self) -> f64 {
            unreachable!("no float is drawn")
        }
    }
    let rule = VideoClips::new(1, 1, None, torchvision::Sampler::Random(3)).unwrap();
    let video = ConstantFrameRate { num_frames: 5, fps: 25.0 };
    let first = |clip| rule.clip(&video, clip, &mut Three(vec![3, 0, 2])).unwrap().indices[0];
    assert_eq!([0, 1, 2].map(first), [3, 1, 4]);
}
