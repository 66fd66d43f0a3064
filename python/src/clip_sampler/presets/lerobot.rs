//! Converts the options of the preset "lerobot" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::lerobot::DeltaTimestamps;
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

pub fn delta_timestamps(args: &Args) -> Result<Sampling> {
    let (deltas, fps) = (args.numbers("delta_timestamps")?, args.number_if_given("fps")?);
    Ok(Arc::new(DeltaTimestamps::new(deltas, fps, args.number("tolerance_s")?)?))
}
