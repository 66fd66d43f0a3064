//! Converts the options of the preset "lerobot" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::lerobot::DeltaTimestamps;
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

pub fn delta_timestamps(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (deltas, fps) = (args.get_floats("delta_timestamps")?, args.get_opt_float("fps")?);
    Ok(Arc::new(DeltaTimestamps::new(deltas, fps, args.get_float("tolerance_s")?)?))
}
