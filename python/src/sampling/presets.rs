//! In: a preset's name and options, by the names of the codebase that it reproduces.
//! Out: the engine's rule.
//! Never: decides a default; the Python package states them all.

mod cosmos_curate;
mod dali;
mod hf;
mod lerobot;
mod pytorchvideo;
mod qwen_vl;
mod torchcodec;
mod torchvision;

use framespool::sampling::Sampling;
use framespool::{Error, Result};

use super::args::Args;

/// The rule of a preset.
pub fn preset(name: &str, args: &Args) -> Result<Sampling> {
    match name {
        "cosmos_curate" => cosmos_curate::sample_closest(args),
        "dali" => dali::sequences(args),
        "dali_uniform_sample" => dali::uniform_sample(args),
        "hf" => hf::sample_frames(args),
        "lerobot" => lerobot::delta_timestamps(args),
        "pytorchvideo" => pytorchvideo::clips(args),
        "qwen_vl" => qwen_vl::qwen_vl(args),
        "torchcodec_random_indices" => torchcodec::indices(args, true),
        "torchcodec_regular_indices" => torchcodec::indices(args, false),
        "torchcodec_random_timestamps" => torchcodec::timestamps(args, true),
        "torchcodec_regular_timestamps" => torchcodec::timestamps(args, false),
        "torchvision" => torchvision::video_clips(args),
        _ => Err(Error::Argument(format!("unknown preset {name:?}"))),
    }
}

/// Refuses options that belong to another form of the preset.
fn only_for(args: &Args, form: &str, options: &[&str]) -> Result<()> {
    match options.iter().find(|option| args.has(option)) {
        Some(option) => {
            Err(Error::Argument(format!("{option} must be left out, got a value; it belongs to {form}")))
        }
        None => Ok(()),
    }
}
