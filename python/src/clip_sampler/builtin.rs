//! Converts the name and arguments of one of framespool's own clip samplers to the engine's clip sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::{
    ClipSamplerRef, Delta, Dense, ExplicitFrames, PadMode, PaddingPolicy, Random, SegmentMode, Segments,
    Spacing, StartSampling, Uniform, Windows,
};
use framespool::{Error, Result};

use super::args::SamplerArgs;
use super::callback_sampler::CallbackSampler;

/// Returns the clip sampler for a name and its arguments.
pub fn build_builtin(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(match args.sampler_name() {
        "windows" => Arc::new(windows(args)?),
        "random" => Arc::new(random(args)?),
        "uniform" => {
            let (length, spacing) = (args.get_u32("sequence_length")?, spacing(args)?);
            Arc::new(Uniform::new(length, spacing, args.get_u32("clips_per_video")?, padding_policy(args)?)?)
        }
        "segments" => {
            let snippet = (args.get_u32("frames_per_segment")?, args.get_u32("stride")?);
            let modes = [("random", SegmentMode::Random), ("middle", SegmentMode::Middle)];
            let (segments, mode) = (args.get_u32("num_segments")?, args.get_choice("mode", &modes)?);
            Arc::new(Segments::new(
                segments,
                snippet,
                mode,
                args.get_u32("clips_per_video")?,
                padding_policy(args)?,
            )?)
        }
        "dense" => {
            let frames = (args.get_u32("sequence_length")?, args.get_u32("stride")?);
            let (clips, range) = (args.get_u32("clips_per_video")?, args.get_u32("sample_range")?);
            Arc::new(Dense::new(
                frames,
                clips,
                range,
                args.get_opt_u32("num_positions")?,
                padding_policy(args)?,
            )?)
        }
        "indices" => {
            Arc::new(ExplicitFrames::frames(lists(args, args.get_ints("indices")?)?, padding_policy(args)?)?)
        }
        "seconds" => Arc::new(ExplicitFrames::seconds(
            lists(args, args.get_floats("seconds")?)?,
            padding_policy(args)?,
        )?),
        "delta" => {
            let (deltas, tolerance) =
                (args.get_floats("deltas_seconds")?, args.get_float("tolerance_seconds")?);
            Arc::new(Delta::new(deltas, tolerance, args.get_u32("step")?)?)
        }
        "custom" => {
            let (function, clips) = (args.get_callable("function")?, args.get_u32("clips_per_video")?);
            Arc::new(CallbackSampler::new(function, clips, args.get_opt_u32("sequence_length")?)?)
        }
        other => return Err(Error::Argument(format!("unknown clip sampler {other:?}"))),
    })
}

fn windows(args: &SamplerArgs) -> Result<Windows> {
    let pads = [
        ("none", PadMode::None),
        ("constant", PadMode::Constant),
        ("edge", PadMode::Edge),
        ("reflect_101", PadMode::Reflect101),
        ("reflect_1001", PadMode::Reflect1001),
    ];
    let (length, pad) = (args.get_u32("sequence_length")?, args.get_choice("pad_mode", &pads)?);
    match spacing(args)? {
        Spacing::Stride(stride) => Windows::new(length, stride, args.get_opt_u32("step")?, pad),
        Spacing::Fps(fps) => Windows::by_seconds(length, fps, args.get_opt_float("step_seconds")?, pad),
    }
}

fn random(args: &SamplerArgs) -> Result<Random> {
    let (length, clips) = (args.get_u32("sequence_length")?, args.get_u32("clips_per_video")?);
    let groups = [("independent", StartSampling::Independent), ("partitioned", StartSampling::Stratified)];
    let random = Random::new(length, spacing(args)?, clips, padding_policy(args)?)?;
    let random = random
        .with_start_sampling(args.get_choice("group", &groups)?)
        .with_frame_jitter(args.get_bool("frame_jitter")?)
        .with_reverse(args.get_float("reverse")?)?;
    match args.contains("speed").then(|| args.get_floats("speed")).transpose()?.as_deref() {
        None => Ok(random),
        Some(&[low, high]) => random.with_speed((low, high)),
        Some(other) => Err(Error::Argument(format!("speed must be two numbers, got {other:?}"))),
    }
}

fn spacing(args: &SamplerArgs) -> Result<Spacing> {
    if let Some(fps) = args.get_opt_float("fps")? {
        return Ok(Spacing::Fps(fps));
    }
    match args.get_opt_float("duration_seconds")? {
        Some(seconds) => Spacing::duration(args.get_u32("sequence_length")?, seconds),
        None => Ok(Spacing::Stride(args.get_u32("stride")?)),
    }
}

fn padding_policy(args: &SamplerArgs) -> Result<PaddingPolicy> {
    let words = [
        ("repeat", PaddingPolicy::Repeat),
        ("loop", PaddingPolicy::Loop),
        ("wrap", PaddingPolicy::Wrap),
        ("clamp", PaddingPolicy::Clamp),
        ("blank", PaddingPolicy::Blank),
        ("drop", PaddingPolicy::Drop),
        ("error", PaddingPolicy::Error),
    ];
    args.get_choice("short", &words)
}

/// Splits concatenated lists by the argument `lengths`.
fn lists<T: Clone>(args: &SamplerArgs, flat: Vec<T>) -> Result<Vec<Vec<T>>> {
    let mut rest = &flat[..];
    let mut lists = Vec::new();
    for length in args.get_ints("lengths")? {
        let cut = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((list, others)) = cut else {
            return Err(Error::Argument("lengths must add up to the number of samples".into()));
        };
        lists.push(list.to_vec());
        rest = others;
    }
    Ok(lists)
}
