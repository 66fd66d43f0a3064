//! Converts the options of the preset "tsn" to the engine's sampler.
//! Options have TSN's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::tsn::Segments;
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

pub fn segments(args: &Args) -> Result<Sampling> {
    let (segments, length) = (args.count("num_segments")?, args.count("new_length")?);
    Ok(Arc::new(Segments::new(segments, length, args.flag("random_shift")?, args.flag("test_mode")?)?))
}
