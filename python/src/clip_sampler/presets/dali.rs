//! Converts the options of the presets "dali" and "dali_uniform_sample" to the engine's samplers.
//! The old option `pad_sequences` and the new option `pad_mode` exclude each other.

use std::sync::Arc;

use framespool::clip_sampler::presets::dali::{DaliVersion, Sequences, UniformSample};
use framespool::clip_sampler::{ClipSamplerRef, PadMode};
use framespool::{Error, Result};

use super::{only_for, SamplerArgs};

const PAD_MODES: [(&str, PadMode); 8] = [
    ("none", PadMode::None),
    ("constant", PadMode::Constant),
    ("edge", PadMode::Edge),
    ("repeat", PadMode::Edge),
    ("reflect_1001", PadMode::Reflect1001),
    ("symmetric", PadMode::Reflect1001),
    ("reflect_101", PadMode::Reflect101),
    ("reflect", PadMode::Reflect101),
];

pub fn sequences(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let pad = match args.contains("pad_sequences") && args.get_bool("pad_sequences")? {
        true => {
            only_for(args, "pad_sequences=False", &["pad_mode"])?;
            PadMode::Constant
        }
        false if args.contains("pad_mode") => args.get_choice("pad_mode", &PAD_MODES)?,
        false => PadMode::None,
    };
    let version = args.get_choice("version", &[("2.4", DaliVersion::V2_4), ("main", DaliVersion::Main)])?;
    let step = match args.get_int("step")? {
        ..=0 => None,
        step => Some(u32::try_from(step).map_err(|_| {
            Error::Argument(format!("step must be at most {}, got {step}; use a smaller one", u32::MAX))
        })?),
    };
    let (length, stride) = (args.get_u32("sequence_length")?, args.get_u32("stride")?);
    Ok(Arc::new(Sequences::new(length, stride, step, pad, version)?))
}

pub fn uniform_sample(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(UniformSample::new(args.get_u32("sequence_length")?)?))
}
