//! Converts the options of the presets "slowfast" and "slowfast_ssv2" to the engine's samplers.
//! Options have PySlowFast's names in lower case. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::slowfast::{Kinetics, KineticsOptions, Ssv2};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Train,
    Val,
    Test,
}

fn mode(args: &Args) -> Result<Mode> {
    args.word("mode", &[("train", Mode::Train), ("val", Mode::Val), ("test", Mode::Test)])
}

pub fn kinetics(args: &Args) -> Result<Sampling> {
    let mode = mode(args)?;
    let jitter = args.number("train_jitter_fps")?;
    Ok(Arc::new(Kinetics::new(KineticsOptions {
        random: mode != Mode::Test,
        num_frames: args.count("num_frames")?,
        sampling_rate: args.count("sampling_rate")?,
        target_fps: args.number("target_fps")?,
        train_jitter_fps: if mode == Mode::Train { jitter } else { 0.0 },
        use_offset_sampling: args.flag("use_offset_sampling")?,
        num_ensemble_views: args.count("num_ensemble_views")?,
    })?))
}

pub fn ssv2(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(Ssv2::new(args.count("num_frames")?, mode(args)? == Mode::Train)?))
}
