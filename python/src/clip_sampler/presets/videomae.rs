//! Converts the options of the presets "videomae", "videomae_pretrain" and "videomae_ssv2" to the engine's
//! samplers. Options have VideoMAE's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::videomae::{
    Finetune, FinetuneOptions, Mode, Pretrain, Ssv2, Ssv2Options, VideoMaeVersion,
};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::{Error, Result};

use super::SamplerArgs;

fn mode(args: &SamplerArgs) -> Result<Mode> {
    let words = [("train", Mode::Train), ("validation", Mode::Validation), ("test", Mode::Test)];
    args.get_choice("mode", &words)
}

fn version(args: &SamplerArgs) -> Result<VideoMaeVersion> {
    match args.get_int("version")? {
        1 => Ok(VideoMaeVersion::One),
        2 => Ok(VideoMaeVersion::Two),
        other => Err(Error::Argument(format!(
            "version must be 1 or 2, got {other}; use 1 for VideoMAE, 2 for VideoMAEv2"
        ))),
    }
}

pub fn finetune(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(Finetune::new(FinetuneOptions {
        mode: mode(args)?,
        version: version(args)?,
        clip_len: args.get_u32("clip_len")?,
        frame_sample_rate: args.get_u32("frame_sample_rate")?,
        num_segment: args.get_u32("num_segment")?,
        test_num_segment: args.get_u32("test_num_segment")?,
        sparse_sample: args.get_bool("sparse_sample")?,
    })?))
}

pub fn ssv2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(Ssv2::new(Ssv2Options {
        mode: mode(args)?,
        version: version(args)?,
        num_segment: args.get_u32("num_segment")?,
        test_num_segment: args.get_u32("test_num_segment")?,
    })?))
}

pub fn pretrain(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (segments, length) = (args.get_u32("num_segments")?, args.get_u32("new_length")?);
    Ok(Arc::new(Pretrain::new(
        segments,
        length,
        args.get_u32("new_step")?,
        args.get_bool("temporal_jitter")?,
    )?))
}
