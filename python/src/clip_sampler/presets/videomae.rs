//! Converts the options of the presets "videomae", "videomae_pretrain" and "videomae_ssv2" to the engine's
//! samplers. Options have VideoMAE's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::videomae::{
    Finetune, FinetuneOptions, Mode, Pretrain, Ssv2, Ssv2Options, Version,
};
use framespool::clip_sampler::Sampling;
use framespool::{Error, Result};

use super::Args;

fn mode(args: &Args) -> Result<Mode> {
    let words = [("train", Mode::Train), ("validation", Mode::Validation), ("test", Mode::Test)];
    args.word("mode", &words)
}

fn version(args: &Args) -> Result<Version> {
    match args.whole("version")? {
        1 => Ok(Version::One),
        2 => Ok(Version::Two),
        other => Err(Error::Argument(format!(
            "version must be 1 or 2, got {other}; use 1 for VideoMAE, 2 for VideoMAEv2"
        ))),
    }
}

pub fn finetune(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(Finetune::new(FinetuneOptions {
        mode: mode(args)?,
        version: version(args)?,
        clip_len: args.count("clip_len")?,
        frame_sample_rate: args.count("frame_sample_rate")?,
        num_segment: args.count("num_segment")?,
        test_num_segment: args.count("test_num_segment")?,
        sparse_sample: args.flag("sparse_sample")?,
    })?))
}

pub fn ssv2(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(Ssv2::new(Ssv2Options {
        mode: mode(args)?,
        version: version(args)?,
        num_segment: args.count("num_segment")?,
        test_num_segment: args.count("test_num_segment")?,
    })?))
}

pub fn pretrain(args: &Args) -> Result<Sampling> {
    let (segments, length) = (args.count("num_segments")?, args.count("new_length")?);
    Ok(Arc::new(Pretrain::new(segments, length, args.count("new_step")?, args.flag("temporal_jitter")?)?))
}
