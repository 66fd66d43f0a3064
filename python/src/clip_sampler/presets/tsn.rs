//! Converts the options of the preset "tsn" to the engine's sampler.
//! Options have TSN's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::tsn::TsnDataSet;
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

pub fn segments(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let (segments, length) = (args.get_u32("num_segments")?, args.get_u32("new_length")?);
    Ok(Arc::new(TsnDataSet::new(
        segments,
        length,
        args.get_bool("random_shift")?,
        args.get_bool("test_mode")?,
    )?))
}
