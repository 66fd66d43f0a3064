//! Converts the options of the presets "mmaction2", "mmaction2_dense", "mmaction2_uniform" and
//! "mmaction2_untrimmed" to the engine's samplers. Options have mmaction2's names. It sets no defaults: the
//! Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::mmaction2::{
    Dense, DenseOptions, OutOfBound, SampleFrames, SampleFramesOptions, Uniform, Untrimmed,
};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

fn out_of_bound(args: &Args) -> Result<OutOfBound> {
    args.word("out_of_bound_opt", &[("loop", OutOfBound::Loop), ("repeat_last", OutOfBound::RepeatLast)])
}

pub fn sample_frames(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(SampleFrames::new(SampleFramesOptions {
        clip_len: args.count("clip_len")?,
        frame_interval: args.count("frame_interval")?,
        num_clips: args.count("num_clips")?,
        temporal_jitter: args.flag("temporal_jitter")?,
        twice_sample: args.flag("twice_sample")?,
        out_of_bound_opt: out_of_bound(args)?,
        test_mode: args.flag("test_mode")?,
        keep_tail_frames: args.flag("keep_tail_frames")?,
        target_fps: args.number_if_given("target_fps")?,
    })?))
}

pub fn dense(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(Dense::new(DenseOptions {
        clip_len: args.count("clip_len")?,
        frame_interval: args.count("frame_interval")?,
        num_clips: args.count("num_clips")?,
        sample_range: args.count("sample_range")?,
        num_sample_positions: args.count("num_sample_positions")?,
        temporal_jitter: args.flag("temporal_jitter")?,
        out_of_bound_opt: out_of_bound(args)?,
        test_mode: args.flag("test_mode")?,
    })?))
}

pub fn uniform(args: &Args) -> Result<Sampling> {
    let (length, clips) = (args.count("clip_len")?, args.count("num_clips")?);
    Ok(Arc::new(Uniform::new(length, clips, args.flag("test_mode")?)?))
}

pub fn untrimmed(args: &Args) -> Result<Sampling> {
    let (length, between) = (args.count("clip_len")?, args.count("clip_interval")?);
    Ok(Arc::new(Untrimmed::new(length, between, args.count("frame_interval")?)?))
}
