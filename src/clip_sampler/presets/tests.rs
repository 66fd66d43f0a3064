//! Tests of invariants of every preset, with small, large and invalid options, over short and long
//! videos. tests/python/test_presets.py compares the exact frames with recorded ones.

use serde_json::{Map, Value, json};

use super::Preset;
use super::options::MAX_COUNT;
use crate::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use crate::clip_sampler::{ClipSamplerRef, RandomSource, VideoTiming};

/// A random source that always returns the smallest (false) or the largest (true) number.
struct ExtremeRng(bool);

impl RandomSource for ExtremeRng {
    fn next_below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw from nothing");
        if self.0 { n - 1 } else { 0 }
    }

    fn next_f64(&mut self) -> f64 {
        if self.0 {
            1.0 - f64::EPSILON / 2.0
        } else {
            0.0
        }
    }
}

/// All combinations of the values of a preset's options, a list for each.
fn combinations(values: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let mut all = vec![Map::new()];
    for (name, values) in values {
        let with = |chosen: &Map<String, Value>| {
            let mut more = Vec::new();
            for value in values.as_array().unwrap() {
                more.push(chosen.clone());
                more.last_mut().unwrap().insert(name.clone(), value.clone());
            }
            more
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Every preset in every form, with `a` frames at distance `b`, `c` clips and `t` seconds. Options
/// that are rejected give none.
fn all(a: u32, b: u32, c: u32, t: f64) -> Vec<ClipSamplerRef> {
    let both = || json!([false, true]);
    let rates = || json!([null, t, 10.0, 29.97]);
    let bounds = || json!(["loop", "repeat_last"]);
    let policies = || json!(["repeat_last", "wrap", "error"]);
    let seconds = || json!([[a, 30], t, [i64::MAX, i64::MAX - 1], [1, 0], 2]);
    let grids = json!([
        {"cosmos_curate": {"sample_rate_fps": [t, 10.0], "start": [null, t], "stop": [null, 10.0], "endpoint": both()}},
        {"dali": {"sequence_length": [a], "stride": [b], "step": [-1, c], "pad_sequences": [null, true],
            "pad_mode": [null, "none", "constant", "edge", "reflect_101", "symmetric"], "version": ["2.4", "main"]}},
        {"dali_uniform_sample": {"sequence_length": [a]}},
        {"ffmpeg_fps": {"fps": [t, 10.0], "round": ["near", "zero", "up"], "eof_action": ["round", "pass"]}},
        {"hf": {"num_frames": [null, a], "fps": rates(), "version": ["4.57", "5.23"],
            "function": ["sample_frames", "default_sample_indices_fn"]}},
        {"hf_internvl": {"num_frames": [null, a], "fps": rates(), "initial_shift": [true, false, b, t]}},
        {"hf_qwen2_vl": {"num_frames": [null, a], "fps": rates(), "min_frames": [b], "max_frames": [c, 768],
            "temporal_patch_size": [1, 2, c]}},
        {"hf_qwen3_vl": {"num_frames": [null, a], "fps": rates(), "min_frames": [b], "max_frames": [c, 768]}},
        {"hf_smolvlm": {"num_frames": [a], "fps": rates(), "skip_secs": [0, t]}},
        {"internvideo2": {"num_frames": [a], "sample": ["rand", "middle", "fps2.0", "fps1e9"],
            "fix_start": [null, b], "max_num_frames": [-1, c], "trimmed30": both()}},
        {"lerobot": {"delta_timestamps": [[0.0, -t, t]], "fps": rates(), "tolerance_s": [t]}},
        {"llava_video": {"video_fps": rates(), "frames_upbound": [null, a], "force_sample": both()}},
        {"mmaction2": {"clip_len": [a], "frame_interval": [b], "num_clips": [c], "temporal_jitter": both(),
            "twice_sample": both(), "out_of_bound_opt": bounds(), "test_mode": both(), "keep_tail_frames": both(),
            "target_fps": [null, 12.5, t * 1e6]}},
        {"mmaction2_dense": {"clip_len": [a], "frame_interval": [b], "num_clips": [c], "sample_range": [20],
            "num_sample_positions": [3], "temporal_jitter": both(), "out_of_bound_opt": bounds(),
            "test_mode": both()}},
        {"mmaction2_uniform": {"clip_len": [a], "num_clips": [c], "test_mode": both()}},
        {"mmaction2_untrimmed": {"clip_len": [a], "clip_interval": [c], "frame_interval": [b]}},
        {"pytorchvideo": {"sampling_type": ["random"], "clip_duration": seconds(), "num_samples": [null, a]}},
        {"pytorchvideo": {"sampling_type": ["random_multi"], "num_clips": [c], "clip_duration": seconds(),
            "num_samples": [null, a]}},
        {"pytorchvideo": {"sampling_type": ["uniform"], "stride": [null, [a, 30], t / 3.0],
            "backpad_last": both(), "clip_duration": seconds(), "num_samples": [null, a]}},
        {"pytorchvideo": {"sampling_type": ["constant_clips_per_video"], "clips_per_video": [c],
            "augs_per_clip": [b], "clip_duration": seconds(), "num_samples": [a]}},
        {"qwen_vl": {"fps": rates(), "min_frames": [a], "max_frames": [c, 768], "video_start": rates(),
            "video_end": [null, t], "version": ["qwen_vl_utils", "sglang"]}},
        {"qwen_vl": {"nframes": [a], "video_start": rates(), "version": ["qwen_vl_utils", "sglang"]}},
        {"slowfast": {"mode": ["train", "val", "test"], "num_frames": [a], "sampling_rate": [b],
            "target_fps": [30.0], "train_jitter_fps": [0.0, 7.5], "use_offset_sampling": both(),
            "num_ensemble_views": [c]}},
        {"slowfast_ssv2": {"mode": ["train", "val"], "num_frames": [a]}},
        {"torchcodec_random_indices": {"num_clips": [c], "num_frames_per_clip": [a],
            "num_indices_between_frames": [b], "sampling_range_start": [0, -3, b, i64::MIN],
            "sampling_range_end": [null, b, -1, i64::MIN, i64::MAX], "policy": policies()}},
        {"torchcodec_regular_indices": {"num_clips": [c], "num_frames_per_clip": [a],
            "num_indices_between_frames": [b], "sampling_range_start": [0, -3, b, i64::MIN],
            "sampling_range_end": [null, b, -1, i64::MIN, i64::MAX], "policy": policies()}},
        {"torchcodec_random_timestamps": {"num_clips": [c], "num_frames_per_clip": [a],
            "seconds_between_frames": [null, t, 0.04], "sampling_range_start": [null, t],
            "sampling_range_end": [null, t, -t, 1e300], "policy": policies()}},
        {"torchcodec_regular_timestamps": {"seconds_between_clip_starts": [t], "num_frames_per_clip": [a],
            "seconds_between_frames": [null, t, 0.04], "sampling_range_start": [null, t],
            "sampling_range_end": [null, t, -t, 1e300], "policy": policies()}},
        {"torchvision": {"clip_length_in_frames": [a], "frames_between_clips": [b], "frame_rate": rates()}},
        {"torchvision": {"clip_length_in_frames": [a], "frames_between_clips": [b], "frame_rate": rates(),
            "sampler": ["uniform"], "num_clips_per_video": [c]}},
        {"torchvision": {"clip_length_in_frames": [a], "frames_between_clips": [b], "frame_rate": rates(),
            "sampler": ["random"], "max_clips_per_video": [c]}},
        {"tsn": {"num_segments": [c], "new_length": [a], "random_shift": both(), "test_mode": both()}},
        {"videomae": {"mode": ["train", "validation", "test"], "version": [1, 2], "clip_len": [a],
            "frame_sample_rate": [b], "num_segment": [c], "test_num_segment": [c], "sparse_sample": both()}},
        {"videomae_pretrain": {"num_segments": [c], "new_length": [a], "new_step": [b],
            "temporal_jitter": both()}},
        {"videomae_ssv2": {"mode": ["train", "validation", "test"], "version": [1, 2], "num_segment": [a],
            "test_num_segment": [c]}},
        {"vjepa2": {"frames_per_clip": [a], "fps": [null, b], "duration": [null, t], "frame_step": [null, b],
            "num_clips": [c], "random_clip_sampling": both(), "allow_clip_overlap": both(),
            "filter_short_videos": both()}},
        {"vllm": {"num_frames": [null, a], "fps": rates()}},
    ]);
    let mut samplers = Vec::new();
    for grid in grids.as_array().unwrap() {
        let (name, values) = grid.as_object().unwrap().iter().next().unwrap();
        for options in combinations(values.as_object().unwrap()) {
            let preset = serde_json::from_value::<Preset>(json!({ name: options }));
            samplers.extend(preset.ok().and_then(|preset| preset.build().ok()));
        }
    }
    samplers
}

/// Checks the clips that a clip sampler yields and returns how many were checked.
fn check(sampler: &ClipSamplerRef, video: &dyn VideoTiming, most_clips: u64) -> usize {
    let (frames, clips) = (video.num_frames(), sampler.num_clips(video));
    assert!(frames > 0 || clips == 0, "{sampler:?}");
    assert!(
        sampler
            .fixed_num_clips()
            .is_none_or(|n| frames == 0 || n == clips),
        "{sampler:?} {frames}"
    );
    assert!(
        sampler.clip(video, clips, &mut ExtremeRng(false)).is_err(),
        "{sampler:?} {frames}"
    );
    assert!(!sampler.min_length_hint().is_empty());
    let wanted = (0..clips.min(most_clips)).chain(clips.checked_sub(1));
    let mut given = 0;
    for (clip, most) in wanted.flat_map(|clip| [(clip, false), (clip, true)]) {
        let Ok(sample) = sampler.clip(video, clip, &mut ExtremeRng(most)) else {
            continue;
        };
        given += 1;
        let place = || format!("{sampler:?} {frames} {clip} {sample:?}");
        assert!(!sample.indices.is_empty(), "{}", place());
        assert!(
            sampler
                .sequence_length()
                .is_none_or(|n| n as usize == sample.indices.len()),
            "{}",
            place()
        );
        assert_eq!(sample.mask.len(), sample.indices.len(), "{}", place());
        assert!(sample.indices.iter().all(|&at| at < frames), "{}", place());
    }
    given
}

#[test]
fn preset_clips_have_their_length_and_stay_in_range() {
    let options = [
        (1, 1, 1, 0.5),
        (4, 2, 3, 0.2),
        (5, 3, 5, 1.0),
        (16, 1, 4, 0.04),
        (3, 7, 12, 2.0),
    ];
    let mut clips = 0;
    for sampler in options.into_iter().flat_map(|(a, b, c, t)| all(a, b, c, t)) {
        for frames in [0, 1, 2, 5, 16, 17, 64, 100] {
            clips += check(
                &sampler,
                &ConstantFrameRate {
                    num_frames: frames,
                    fps: 29.97,
                },
                2,
            );
            let begins: Vec<f64> = (0..frames)
                .map(|i| 0.1 + f64::from(i * i) / 200.0)
                .collect();
            let end = begins.last().map_or(0.0, |last| last + 0.1);
            clips += check(&sampler, &FrameTimestamps::new(begins, end).unwrap(), 2);
        }
    }
    assert!(clips > 10_000, "{clips}");
}

#[test]
fn invalid_numbers_are_rejected_large_ones_accepted() {
    assert!(
        all(0, 1, 1, 1.0)
            .iter()
            .all(|sampler| sampler.sequence_length() != Some(0))
    );
    assert!(
        all(1, 1, 0, 1.0)
            .iter()
            .all(|sampler| sampler.fixed_num_clips() != Some(0))
    );
    for huge in [u32::MAX, MAX_COUNT + 1] {
        for sampler in all(huge, 1, 1, 1.0).iter().chain(&all(1, 1, huge, 1.0)) {
            assert!(
                sampler.sequence_length().is_none_or(|n| n <= MAX_COUNT),
                "{sampler:?}"
            );
            assert!(
                sampler
                    .fixed_num_clips()
                    .is_none_or(|n| n <= u64::from(MAX_COUNT)),
                "{sampler:?}"
            );
        }
    }
    for sampler in [1e-3, 1e6]
        .into_iter()
        .flat_map(|t| all(2, MAX_COUNT, 2, t))
    {
        for (frames, fps) in [
            (1, 25.0),
            (2, 1e-9),
            (u32::MAX, 1e9),
            (u32::MAX, 25.0),
            (9, 0.0),
            (9, f64::NAN),
        ] {
            check(
                &sampler,
                &ConstantFrameRate {
                    num_frames: frames,
                    fps,
                },
                2,
            );
        }
    }
    for sampler in [0.0, -1.0, 1e300, 1e-300]
        .into_iter()
        .flat_map(|t| all(2, 1, 2, t))
    {
        check(
            &sampler,
            &ConstantFrameRate {
                num_frames: 30,
                fps: 25.0,
            },
            2,
        );
    }
}

#[test]
fn unknown_and_missing_options_are_rejected() {
    let read = |options| {
        serde_json::from_value::<Preset>(options)
            .unwrap_err()
            .to_string()
    };
    assert!(read(json!({"dali_uniform_sample": {}})).contains("sequence_length"));
    assert!(
        read(json!({"dali_uniform_sample": {"sequence_length": 4, "stride": 2}}))
            .contains("stride")
    );
}
