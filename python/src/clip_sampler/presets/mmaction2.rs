//! Converts the options of the presets "mmaction2", "mmaction2_dense", "mmaction2_uniform" and
//! "mmaction2_untrimmed" to the engine's samplers. Options have mmaction2's names. It sets no defaults: the
//! Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::mmaction2::{
    DenseSampleFrames, DenseSampleFramesOptions, MmactionUniformSample, OutOfBound, SampleFrames,
    SampleFramesOptions, UntrimmedSampleFrames,
};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

fn out_of_bound(args: &SamplerArgs) -> Result<OutOfBound> {
    args.get_choice(
        "out_of_bound_opt",
        &[("loop", OutOfBound::Loop), ("repeat_last", OutOfBound::RepeatLast)],
    )
}

pub fn sample_frames(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(SampleFrames::new(SampleFramesOptions {
        clip_len: args.get_u32("clip_len")?,
        frame_interval: args.get_u32("frame_interval")?,
        num_clips: args.get_u32("num_clips")?,
        temporal_jitter: args.get_bool("temporal_jitter")?,
        twice_sample: args.get_bool("twice_sample")?,
        out_of_bound_opt: out_of_bound(args)?,
        test_mode: args.get_bool("test_mode")?,
        keep_tail_frames: args.get_bool("keep_tail_frames")?,
        target_fps: args.get_opt_float("target_fps")?,
    })?))
}

pub fn dense(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(DenseSampleFrames::new(DenseSampleFramesOptions {
        clip_len: args.get_u32("clip_len")?,
        frame_interval: args.get_u32("frame_interval")?,
        num_clips: args.get_u32("num_clips")?,
        sample_range: args.get_u32("sample_range")?,
        num_sample_positions: args.get_u32("num_sample_positions")?,
        temporal_jitter: args.get_bool("temporal_jitter")?,
        out_of_bound_opt: out_of_bound(args)?,
        test_mode: args.get_bool("test_mode")?,
    })?))
}

pub fn uniform(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (length, clips) = (args.get_u32("clip_len")?, args.get_u32("num_clips")?);
    Ok(Arc::new(MmactionUniformSample::new(length, clips, args.get_bool("test_mode")?)?))
}

pub fn untrimmed(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (length, between) = (args.get_u32("clip_len")?, args.get_u32("clip_interval")?);
    Ok(Arc::new(UntrimmedSampleFrames::new(length, between, args.get_u32("frame_interval")?)?))
}
