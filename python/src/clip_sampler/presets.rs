//! Converts a preset's name and options to the engine's sampler. The options have the names of the codebase
//! that the preset reproduces; the Python package chooses most defaults.

mod cosmos_curate;
mod dali;
mod hf;
mod internvideo2;
mod lerobot;
mod mmaction2;
mod pytorchvideo;
mod qwen_vl;
mod slowfast;
mod torchcodec;
mod torchvision;
mod tsn;
mod videomae;
mod vjepa2;

use framespool::clip_sampler::ClipSamplerRef;
use framespool::{Error, Result};

use super::args::SamplerArgs;

/// Returns the sampler of a preset.
pub fn build_preset(name: &str, args: &SamplerArgs) -> Result<ClipSamplerRef> {
    match name {
        "cosmos_curate" => cosmos_curate::sample_closest(args),
        "dali" => dali::sequences(args),
        "dali_uniform_sample" => dali::uniform_sample(args),
        "hf" => hf::sample_frames(args),
        "internvideo2" => internvideo2::read_frames(args),
        "lerobot" => lerobot::delta_timestamps(args),
        "mmaction2" => mmaction2::sample_frames(args),
        "mmaction2_dense" => mmaction2::dense(args),
        "mmaction2_uniform" => mmaction2::uniform(args),
        "mmaction2_untrimmed" => mmaction2::untrimmed(args),
        "pytorchvideo" => pytorchvideo::clips(args),
        "qwen_vl" => qwen_vl::qwen_vl(args),
        "slowfast" => slowfast::kinetics(args),
        "slowfast_ssv2" => slowfast::ssv2(args),
        "torchcodec_random_indices" => torchcodec::indices(args, true),
        "torchcodec_random_timestamps" => torchcodec::timestamps(args, true),
        "torchcodec_regular_indices" => torchcodec::indices(args, false),
        "torchcodec_regular_timestamps" => torchcodec::timestamps(args, false),
        "torchvision" => torchvision::video_clips(args),
        "tsn" => tsn::segments(args),
        "videomae" => videomae::finetune(args),
        "videomae_pretrain" => videomae::pretrain(args),
        "videomae_ssv2" => videomae::ssv2(args),
        "vjepa2" => vjepa2::video_dataset(args),
        _ => Err(Error::Argument(format!("unknown preset {name:?}"))),
    }
}

/// Returns an error for options that belong to another form of the preset.
fn only_for(args: &SamplerArgs, form: &str, options: &[&str]) -> Result<()> {
    match options.iter().find(|option| args.contains(option)) {
        Some(option) => {
            Err(Error::Argument(format!("{option} must be omitted, got a value; it belongs to {form}")))
        }
        None => Ok(()),
    }
}
