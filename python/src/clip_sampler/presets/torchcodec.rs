//! Converts the options of the presets "torchcodec_…" to the engine's samplers.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::torchcodec::{
    Indices, IndicesOptions, Policy, Starts, Timestamps, TimestampsOptions,
};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

fn policy(args: &Args) -> Result<Policy> {
    let words = [("repeat_last", Policy::RepeatLast), ("wrap", Policy::Wrap), ("error", Policy::Error)];
    args.word("policy", &words)
}

pub fn indices(args: &Args, random: bool) -> Result<Sampling> {
    Ok(Arc::new(Indices::new(IndicesOptions {
        random,
        num_clips: args.count("num_clips")?,
        num_frames_per_clip: args.count("num_frames_per_clip")?,
        num_indices_between_frames: args.count("num_indices_between_frames")?,
        sampling_range_start: args.whole("sampling_range_start")?,
        sampling_range_end: args
            .has("sampling_range_end")
            .then(|| args.whole("sampling_range_end"))
            .transpose()?,
        policy: policy(args)?,
    })?))
}

pub fn timestamps(args: &Args, random: bool) -> Result<Sampling> {
    let starts = match random {
        true => Starts::Random(args.count("num_clips")?),
        false => Starts::Regular(args.number("seconds_between_clip_starts")?),
    };
    Ok(Arc::new(Timestamps::new(TimestampsOptions {
        starts,
        num_frames_per_clip: args.count("num_frames_per_clip")?,
        seconds_between_frames: args.number_if_given("seconds_between_frames")?,
        sampling_range_start: args.number_if_given("sampling_range_start")?,
        sampling_range_end: args.number_if_given("sampling_range_end")?,
        policy: policy(args)?,
    })?))
}
