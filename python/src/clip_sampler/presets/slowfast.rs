//! Converts the options of the presets "slowfast" and "slowfast_ssv2" to the engine's samplers.
//! Options have PySlowFast's names in lower case. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::slowfast::{Kinetics, KineticsOptions, Ssv2};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Train,
    Val,
    Test,
}

fn mode(args: &SamplerArgs) -> Result<Mode> {
    args.get_choice("mode", &[("train", Mode::Train), ("val", Mode::Val), ("test", Mode::Test)])
}

pub fn kinetics(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let mode = mode(args)?;
    let jitter = args.get_float("train_jitter_fps")?;
    Ok(Arc::new(Kinetics::new(KineticsOptions {
        random: mode != Mode::Test,
        num_frames: args.get_u32("num_frames")?,
        sampling_rate: args.get_u32("sampling_rate")?,
        target_fps: args.get_float("target_fps")?,
        train_jitter_fps: if mode == Mode::Train { jitter } else { 0.0 },
        use_offset_sampling: args.get_bool("use_offset_sampling")?,
        num_ensemble_views: args.get_u32("num_ensemble_views")?,
    })?))
}

pub fn ssv2(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(Ssv2::new(args.get_u32("num_frames")?, mode(args)? == Mode::Train)?))
}
