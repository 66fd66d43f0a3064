//! Converts the options of the presets "dali" and "dali_uniform_sample" to the engine's samplers.
//! The old option `pad_sequences` and the new option `pad_mode` exclude each other.

use std::sync::Arc;

use framespool::clip_sampler::presets::dali::{Sequences, UniformSample, Version};
use framespool::clip_sampler::{Pad, Sampling};
use framespool::{Error, Result};

use super::{only_for, Args};

const PAD_MODES: [(&str, Pad); 8] = [
    ("none", Pad::None),
    ("constant", Pad::Constant),
    ("edge", Pad::Edge),
    ("repeat", Pad::Edge),
    ("reflect_1001", Pad::Reflect1001),
    ("symmetric", Pad::Reflect1001),
    ("reflect_101", Pad::Reflect101),
    ("reflect", Pad::Reflect101),
];

pub fn sequences(args: &Args) -> Result<Sampling> {
    let pad = match args.has("pad_sequences") && args.flag("pad_sequences")? {
        true => {
            only_for(args, "pad_sequences=False", &["pad_mode"])?;
            Pad::Constant
        }
        false if args.has("pad_mode") => args.word("pad_mode", &PAD_MODES)?,
        false => Pad::None,
    };
    let version = args.word("version", &[("2.4", Version::V2_4), ("main", Version::Main)])?;
    let step = match args.whole("step")? {
        ..=0 => None,
        step => Some(u32::try_from(step).map_err(|_| {
            Error::Argument(format!("step must be at most {}, got {step}; use a smaller one", u32::MAX))
        })?),
    };
    let (length, stride) = (args.count("sequence_length")?, args.count("stride")?);
    Ok(Arc::new(Sequences::new(length, stride, step, pad, version)?))
}

pub fn uniform_sample(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(UniformSample::new(args.count("sequence_length")?)?))
}
