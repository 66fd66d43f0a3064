//! Creates clip samplers and presets of every kind from random, often invalid arguments;
//! constructors may reject them.

use std::sync::Arc;

use framespool::clip_sampler::presets::Preset;
use framespool::clip_sampler::{
    ClipSampler, ClipSamplerRef, Delta, Dense, ExplicitFrames, PadMode, PaddingPolicy, Random,
    SegmentMode, Segments, Spacing, StartSampling, Uniform, Windows,
};
use framespool::{Error, Result};
use serde_json::{Map, Value, json};

use crate::fuzz_input::FuzzInput;

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
/// The presets, and for each option what is drawn: `n` a count, `i` an int, `f` a number, `b` a
/// bool, `t` seconds, `l` a list of numbers, or one of several words or numbers. `?` options may be
/// absent.
const PRESETS: [(&str, &str); 25] = [
    (
        "cosmos_curate",
        "sample_rate_fps:f start:?f stop:?f endpoint:b",
    ),
    (
        "dali",
        "sequence_length:n step:i stride:n pad_mode:?none|constant|edge|symmetric|reflect pad_sequences:?b \
         version:2.4|main",
    ),
    ("dali_uniform_sample", "sequence_length:n"),
    (
        "ffmpeg_fps",
        "fps:f round:zero|inf|down|up|near eof_action:round|pass",
    ),
    (
        "hf",
        "num_frames:?n fps:?f function:sample_frames|default_sample_indices_fn version:4.57|5.23",
    ),
    (
        "internvideo2",
        "num_frames:n sample:rand|middle|fps1|fps1e-7|fps1e9 fix_start:?n max_num_frames:i trimmed30:b",
    ),
    ("lerobot", "delta_timestamps:l fps:?f tolerance_s:f"),
    (
        "mmaction2",
        "clip_len:n frame_interval:n num_clips:n temporal_jitter:b twice_sample:b out_of_bound_opt:loop|repeat_last \
         test_mode:b keep_tail_frames:b target_fps:?f",
    ),
    (
        "mmaction2_dense",
        "clip_len:n frame_interval:n num_clips:n sample_range:n num_sample_positions:n temporal_jitter:b \
         out_of_bound_opt:loop|repeat_last test_mode:b",
    ),
    ("mmaction2_uniform", "clip_len:n num_clips:n test_mode:b"),
    (
        "mmaction2_untrimmed",
        "clip_len:n clip_interval:n frame_interval:n",
    ),
    (
        "pytorchvideo",
        "sampling_type:random|random_multi|uniform|constant_clips_per_video clip_duration:t num_samples:?n \
         num_clips:?n stride:?t backpad_last:?b clips_per_video:?n augs_per_clip:?n",
    ),
    (
        "qwen_vl",
        "fps:?f nframes:?n min_frames:?n max_frames:?n video_start:?f video_end:?f",
    ),
    (
        "slowfast",
        "mode:train|val|test num_frames:n sampling_rate:n target_fps:f train_jitter_fps:f use_offset_sampling:b \
         num_ensemble_views:n",
    ),
    ("slowfast_ssv2", "mode:train|val|test num_frames:n"),
    ("torchcodec_random_indices", INDICES),
    ("torchcodec_random_timestamps", TIMESTAMPS),
    ("torchcodec_regular_indices", INDICES),
    ("torchcodec_regular_timestamps", TIMESTAMPS),
    (
        "torchvision",
        "clip_length_in_frames:n frames_between_clips:n frame_rate:?f sampler:?uniform|random num_clips_per_video:?n \
         max_clips_per_video:?n",
    ),
    (
        "tsn",
        "num_segments:n new_length:n random_shift:b test_mode:b",
    ),
    (
        "videomae",
        "mode:train|validation|test version:1|2 clip_len:n frame_sample_rate:n num_segment:n test_num_segment:n \
         sparse_sample:b",
    ),
    (
        "videomae_pretrain",
        "num_segments:n new_length:n new_step:n temporal_jitter:b",
    ),
    (
        "videomae_ssv2",
        "mode:train|validation|test version:1|2 num_segment:n test_num_segment:n",
    ),
    (
        "vjepa2",
        "frames_per_clip:n fps:?n duration:?f frame_step:?n num_clips:n random_clip_sampling:b allow_clip_overlap:b \
         filter_short_videos:b",
    ),
];
const INDICES: &str = "num_clips:n num_frames_per_clip:n num_indices_between_frames:n sampling_range_start:i \
                       sampling_range_end:?i policy:repeat_last|wrap|error";
const TIMESTAMPS: &str = "num_clips:?n seconds_between_clip_starts:?f num_frames_per_clip:n \
                          seconds_between_frames:?f sampling_range_start:?f sampling_range_end:?f \
                          policy:repeat_last|wrap|error";

/// A clip sampler of any kind.
pub fn clip_sampler(case: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    let kind = case.next_below(32);
    match kind {
        0..10 => own(kind, case),
        _ => preset(case),
    }
}

fn made<R: ClipSampler + 'static>(clip_sampler: Result<R>) -> Result<ClipSamplerRef> {
    clip_sampler.map(|clip_sampler| Arc::new(clip_sampler) as ClipSamplerRef)
}

fn spacing(case: &mut FuzzInput<'_>) -> Result<Spacing> {
    match case.next_below(3) {
        0 => Ok(Spacing::Stride(case.count())),
        1 => Ok(Spacing::Fps(case.number())),
        _ => Spacing::duration(case.count(), case.number()),
    }
}

fn own(kind: usize, c: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    let short = c.one_of(&PADDING_POLICIES);
    match kind {
        0 => made(Windows::new(
            c.count(),
            c.count(),
            c.maybe(FuzzInput::count),
            c.one_of(&PAD_MODES),
        )),
        1 | 2 => made(Windows::by_seconds(
            c.count(),
            c.number(),
            c.maybe(FuzzInput::number),
            c.one_of(&PAD_MODES),
        )),
        3 | 4 => {
            let clip_sampler = Random::new(c.count(), spacing(c)?, c.count(), short)?;
            let group = c.one_of(&[StartSampling::Independent, StartSampling::Stratified]);
            made(Ok(clip_sampler
                .with_start_sampling(group)
                .with_frame_jitter(c.flag())))
        }
        5 => {
            let mode = c.one_of(&[SegmentMode::Random, SegmentMode::Middle]);
            made(Segments::new(
                c.count(),
                (c.count(), c.count()),
                mode,
                c.count(),
                short,
            ))
        }
        6 => made(Uniform::new(c.count(), spacing(c)?, c.count(), short)),
        7 => made(Dense::new(
            (c.count(), c.count()),
            c.count(),
            c.count(),
            c.maybe(FuzzInput::count),
            short,
        )),
        8 => made(Delta::new(
            c.some(9, FuzzInput::number),
            c.number(),
            c.count(),
        )),
        _ if c.flag() => made(ExplicitFrames::frames(
            c.some(4, |c| c.some(6, FuzzInput::signed)),
            short,
        )),
        _ => made(ExplicitFrames::seconds(
            c.some(4, |c| c.some(6, FuzzInput::number)),
            short,
        )),
    }
}

fn preset(c: &mut FuzzInput<'_>) -> Result<ClipSamplerRef> {
    let (name, options) = c.one_of(&PRESETS);
    let mut values = Map::new();
    for option in options.split_whitespace() {
        let (option, kind) = option.split_once(':').expect("an option has a kind");
        if kind.starts_with('?') && c.flag() {
            continue;
        }
        values.insert(option.to_owned(), value(kind.trim_start_matches('?'), c));
    }
    let preset: Preset = serde_json::from_value(json!({ name: values }))
        .map_err(|error| Error::Argument(format!("{name} must be valid, got {error}")))?;
    preset.build()
}

fn value(kind: &str, c: &mut FuzzInput<'_>) -> Value {
    match kind {
        "n" => c.count().into(),
        "i" => c.signed().into(),
        "f" => c.number().into(),
        "b" => c.flag().into(),
        "l" => c.some(9, FuzzInput::number).into(),
        "t" => match c.next_below(3) {
            0 => c.signed().into(),
            1 => json!([c.signed(), c.signed()]),
            _ => c.number().into(),
        },
        words => {
            let word = c.one_of(&words.split('|').collect::<Vec<_>>());
            word.parse::<u32>()
                .map_or_else(|_| word.into(), Value::from)
        }
    }
}
