//! In: the options of the preset "cosmos_curate".
//! Out: the engine's rule.
//! Never: decides a default.

use std::sync::Arc;

use framespool::sampling::presets::cosmos_curate::SampleClosest;
use framespool::sampling::Sampling;
use framespool::Result;

use super::Args;

pub fn sample_closest(args: &Args) -> Result<Sampling> {
    let (start, stop) = (args.number_if_given("start")?, args.number_if_given("stop")?);
    Ok(Arc::new(SampleClosest::new(args.number("sample_rate_fps")?, start, stop, args.flag("endpoint")?)?))
}
