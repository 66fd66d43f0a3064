//! Converts the options of the preset "cosmos_curate" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::cosmos_curate::SampleClosest;
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

pub fn sample_closest(args: &Args) -> Result<Sampling> {
    let (start, stop) = (args.number_if_given("start")?, args.number_if_given("stop")?);
    Ok(Arc::new(SampleClosest::new(args.number("sample_rate_fps")?, start, stop, args.flag("endpoint")?)?))
}
