//! In: a preset's name and options, by the names of the codebase that it reproduces.
//! Out: the engine's rule.
//! Never: decides a default; the Python package states them all.

mod internvideo2;
mod mmaction2;
mod slowfast;
mod tsn;
mod videomae;
mod vjepa2;

use framespool::sampling::Sampling;
use framespool::{Error, Result};

use super::args::Args;

/// The rule of a preset.
pub fn preset(name: &str, args: &Args) -> Result<Sampling> {
    match name {
        "internvideo2" => internvideo2::read_frames(args),
        "mmaction2" => mmaction2::sample_frames(args),
        "mmaction2_dense" => mmaction2::dense(args),
        "mmaction2_uniform" => mmaction2::uniform(args),
        "mmaction2_untrimmed" => mmaction2::untrimmed(args),
        "slowfast" => slowfast::kinetics(args),
        "slowfast_ssv2" => slowfast::ssv2(args),
        "tsn" => tsn::segments(args),
        "videomae" => videomae::finetune(args),
        "videomae_pretrain" => videomae::pretrain(args),
        "videomae_ssv2" => videomae::ssv2(args),
        "vjepa2" => vjepa2::video_dataset(args),
        other => Err(Error::Argument(format!("unknown preset {other:?}"))),
    }
}
