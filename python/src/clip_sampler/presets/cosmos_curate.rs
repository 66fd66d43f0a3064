//! Converts the options of the preset "cosmos_curate" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::cosmos_curate::SampleClosest;
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

pub fn sample_closest(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (start, stop) = (args.get_opt_float("start")?, args.get_opt_float("stop")?);
    Ok(Arc::new(SampleClosest::new(
        args.get_float("sample_rate_fps")?,
        start,
        stop,
        args.get_bool("endpoint")?,
    )?))
}
