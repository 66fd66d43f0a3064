//! Converts the name and arguments of one of framespool's own sampling rules to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::{
    Delta, Dense, ExplicitFrames, Group, Pad, PaddingPolicy, Random, Sampling, SegmentMode, Segments,
    Spacing, Uniform, Windows,
};
use framespool::{Error, Result};

use super::args::Args;
use super::custom::Custom;

/// Returns the sampler of a rule.
pub fn rule(args: &Args) -> Result<Sampling> {
    Ok(match args.rule() {
        "windows" => Arc::new(windows(args)?),
        "random" => Arc::new(random(args)?),
        "uniform" => {
            let (length, spacing) = (args.count("sequence_length")?, spacing(args)?);
            Arc::new(Uniform::new(length, spacing, args.count("clips_per_video")?, short(args)?)?)
        }
        "segments" => {
            let snippet = (args.count("frames_per_segment")?, args.count("stride")?);
            let modes = [("random", SegmentMode::Random), ("middle", SegmentMode::Middle)];
            let (segments, mode) = (args.count("num_segments")?, args.word("mode", &modes)?);
            Arc::new(Segments::new(segments, snippet, mode, args.count("clips_per_video")?, short(args)?)?)
        }
        "dense" => {
            let frames = (args.count("sequence_length")?, args.count("stride")?);
            let (clips, range) = (args.count("clips_per_video")?, args.count("sample_range")?);
            Arc::new(Dense::new(frames, clips, range, args.count_if_given("num_positions")?, short(args)?)?)
        }
        "indices" => Arc::new(ExplicitFrames::frames(lists(args, args.wholes("indices")?)?, short(args)?)?),
        "seconds" => Arc::new(ExplicitFrames::seconds(lists(args, args.numbers("seconds")?)?, short(args)?)?),
        "delta" => {
            let (deltas, tolerance) = (args.numbers("deltas_seconds")?, args.number("tolerance_seconds")?);
            Arc::new(Delta::new(deltas, tolerance, args.count("step")?)?)
        }
        "custom" => {
            let (function, clips) = (args.callable("function")?, args.count("clips_per_video")?);
            Arc::new(Custom::new(function, clips, args.count_if_given("sequence_length")?)?)
        }
        other => return Err(Error::Argument(format!("unknown sampling rule {other:?}"))),
    })
}

fn windows(args: &Args) -> Result<Windows> {
    let pads = [
        ("none", Pad::None),
        ("constant", Pad::Constant),
        ("edge", Pad::Edge),
        ("reflect_101", Pad::Reflect101),
        ("reflect_1001", Pad::Reflect1001),
    ];
    let (length, pad) = (args.count("sequence_length")?, args.word("pad_mode", &pads)?);
    match spacing(args)? {
        Spacing::Stride(stride) => Windows::new(length, stride, args.count_if_given("step")?, pad),
        Spacing::Fps(fps) => Windows::by_seconds(length, fps, args.number_if_given("step_seconds")?, pad),
    }
}

fn random(args: &Args) -> Result<Random> {
    let (length, clips) = (args.count("sequence_length")?, args.count("clips_per_video")?);
    let groups = [("independent", Group::Independent), ("partitioned", Group::Partitioned)];
    let random = Random::new(length, spacing(args)?, clips, short(args)?)?;
    Ok(random.with_group(args.word("group", &groups)?).with_frame_jitter(args.flag("frame_jitter")?))
}

fn spacing(args: &Args) -> Result<Spacing> {
    if let Some(fps) = args.number_if_given("fps")? {
        return Ok(Spacing::Fps(fps));
    }
    match args.number_if_given("duration_seconds")? {
        Some(seconds) => Spacing::duration(args.count("sequence_length")?, seconds),
        None => Ok(Spacing::Stride(args.count("stride")?)),
    }
}

fn short(args: &Args) -> Result<PaddingPolicy> {
    let words = [
        ("repeat", PaddingPolicy::Repeat),
        ("loop", PaddingPolicy::Loop),
        ("wrap", PaddingPolicy::Wrap),
        ("clamp", PaddingPolicy::Clamp),
        ("blank", PaddingPolicy::Blank),
        ("drop", PaddingPolicy::Drop),
        ("error", PaddingPolicy::Error),
    ];
    args.word("short", &words)
}

/// Splits concatenated lists by the argument `lengths`.
fn lists<T: Clone>(args: &Args, flat: Vec<T>) -> Result<Vec<Vec<T>>> {
    let mut rest = &flat[..];
    let mut lists = Vec::new();
    for length in args.wholes("lengths")? {
        let cut = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((list, others)) = cut else {
            return Err(Error::Argument("lengths must add up to the number of entries".into()));
        };
        lists.push(list.to_vec());
        rest = others;
    }
    Ok(lists)
}
