//! Converts the options of the presets "torchcodec_…" to the engine's samplers.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::torchcodec::{
    ClipStarts, Indices, IndicesOptions, Policy, Timestamps, TimestampsOptions,
};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

fn policy(args: &SamplerArgs) -> Result<Policy> {
    let words = [("repeat_last", Policy::RepeatLast), ("wrap", Policy::Wrap), ("error", Policy::Error)];
    args.get_choice("policy", &words)
}

pub fn indices(args: &SamplerArgs, random: bool) -> Result<ClipSamplerRef> {
    Ok(Arc::new(Indices::new(IndicesOptions {
        random,
        num_clips: args.get_u32("num_clips")?,
        num_frames_per_clip: args.get_u32("num_frames_per_clip")?,
        num_indices_between_frames: args.get_u32("num_indices_between_frames")?,
        sampling_range_start: args.get_int("sampling_range_start")?,
        sampling_range_end: args
            .contains("sampling_range_end")
            .then(|| args.get_int("sampling_range_end"))
            .transpose()?,
        policy: policy(args)?,
    })?))
}

pub fn timestamps(args: &SamplerArgs, random: bool) -> Result<ClipSamplerRef> {
    let starts = match random {
        true => ClipStarts::Random(args.get_u32("num_clips")?),
        false => ClipStarts::Regular(args.get_float("seconds_between_clip_starts")?),
    };
    Ok(Arc::new(Timestamps::new(TimestampsOptions {
        starts,
        num_frames_per_clip: args.get_u32("num_frames_per_clip")?,
        seconds_between_frames: args.get_opt_float("seconds_between_frames")?,
        sampling_range_start: args.get_opt_float("sampling_range_start")?,
        sampling_range_end: args.get_opt_float("sampling_range_end")?,
        policy: policy(args)?,
    })?))
}
