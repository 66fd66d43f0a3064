//! Arguments of clip samplers and properties of a video, most of them invalid: clips of existing
//! frames with the reported length, the same each time, or an error. Which frames are selected is
//! tested next to the samplers.

mod rules;

use framespool::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use framespool::clip_sampler::{ClipSamplerRef, VideoTiming};
use framespool::rng::{Purpose, RngKey};

use super::{MIB, Target, USUAL, check_error};
use crate::fuzz_input::FuzzInput;

pub const SAMPLING: Target = Target {
    name: "sampling",
    about: "clip sampler and preset arguments",
    seeds: |_| {
        let spread = |n: u8| {
            (0..48u8)
                .map(|at| at.wrapping_mul(29).wrapping_add(n.wrapping_mul(13)))
                .collect()
        };
        let small = |n: u8| [&[n][..], &[3, 2, 1, 4, 5, 6, 7, 8, 1, 0, 1, 0, 30, 25]].concat();
        (0..40).map(spread).chain((0..40).map(small)).collect()
    },
    run,
    longest: 300,
    memory_bytes: 128 * MIB,
    replayed: 20_000,
    ..USUAL
};

/// Maximum number of frames of a clip: longer ones run no other code and take proportionally long.
const MAX_CLIP_LENGTH: u64 = 1 << 16;

fn run(input: &[u8]) {
    let mut case = FuzzInput::new(input);
    let Ok(clip_sampler) = check_error(rules::clip_sampler(&mut case)) else {
        return;
    };
    assert!(
        clip_sampler.sequence_length() != Some(0) && !clip_sampler.min_length_hint().is_empty()
    );
    let Some(video) = video(&mut case) else {
        return;
    };
    check(&clip_sampler, &*video, &mut case);
}

fn video(case: &mut FuzzInput<'_>) -> Option<Box<dyn VideoTiming>> {
    let num_frames = match case.next_below(8) {
        0..5 => case.byte().into(),
        5 | 6 => case.count(),
        _ => 0,
    };
    match case.next_below(3) {
        0 => Some(Box::new(ConstantFrameRate {
            num_frames,
            fps: case.number(),
        })),
        1 => Some(Box::new(ConstantFrameRate {
            num_frames,
            fps: 25.0,
        })),
        _ => {
            let mut begins = case.some(40, FuzzInput::number);
            begins.sort_by(f64::total_cmp);
            let end = begins.last().map_or(0.0, |last| last + case.number().abs());
            let timed = check_error(FrameTimestamps::new(begins, end)).ok()?;
            Some(Box::new(timed))
        }
    }
}

fn check(clip_sampler: &ClipSamplerRef, video: &dyn VideoTiming, case: &mut FuzzInput<'_>) {
    let (frames, clips) = (video.num_frames(), clip_sampler.num_clips(video));
    assert!(
        frames > 0 || clips == 0,
        "{clip_sampler:?}: {clips} clips of no frames"
    );
    assert!(
        clip_sampler
            .fixed_num_clips()
            .is_none_or(|each| frames == 0 || each == clips),
        "{clip_sampler:?} {frames}: {clips}"
    );
    let length = clip_sampler
        .sequence_length()
        .map_or(frames.into(), u64::from);
    if length > MAX_CLIP_LENGTH || u64::from(frames).max(length) > 1 << 24 {
        return;
    }
    let key = |clip| RngKey {
        seed: case_seed(clips),
        epoch: 0,
        clip,
        occurrence: 0,
    };
    let drawn = |clip: u64| {
        let clip_key = if clip_sampler.shares_rng_per_video() {
            0
        } else {
            clip
        };
        clip_sampler.clip(video, clip, &mut key(clip_key).rng(Purpose::Sampling))
    };
    assert!(
        check_error(drawn(clips)).is_err(),
        "{clip_sampler:?}: a clip after the last of {clips}"
    );
    for clip in [0, clips / 2, clips.saturating_sub(1), case.long()] {
        let Ok(sample) = check_error(drawn(clip)) else {
            continue;
        };
        assert!(clip < clips, "{clip_sampler:?}: clip {clip} of {clips}");
        let place = || format!("{clip_sampler:?}, clip {clip} of {frames} frames: {sample:?}");
        assert!(
            !sample.indices.is_empty() && sample.mask.len() == sample.indices.len(),
            "{}",
            place()
        );
        assert!(
            clip_sampler
                .sequence_length()
                .is_none_or(|n| n as usize == sample.indices.len()),
            "{}",
            place()
        );
        assert!(sample.indices.iter().all(|&at| at < frames), "{}", place());
        assert_eq!(drawn(clip).ok().as_ref(), Some(&sample), "{}", place());
    }
}

/// Any seed that is a function of the numbers.
fn case_seed(clips: u64) -> u64 {
    clips ^ 0x5eed
}
