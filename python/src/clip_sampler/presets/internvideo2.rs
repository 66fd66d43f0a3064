//! Converts the options of the preset "internvideo2" to the engine's sampler.
//! Options have InternVideo2's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::internvideo2::{ReadFrames, ReadFramesOptions, SampleMode};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::SamplerArgs;

pub fn read_frames(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(ReadFrames::new(ReadFramesOptions {
        num_frames: args.get_u32("num_frames")?,
        sample: SampleMode::parse(args.get_str("sample")?)?,
        fix_start: args.get_opt_u32("fix_start")?,
        max_num_frames: match args.get_int("max_num_frames")? {
            ..=0 => None, // the original uses -1, and checks whether the value is above 0
            _ => Some(args.get_u32("max_num_frames")?),
        },
        trimmed30: args.get_bool("trimmed30")?,
    })?))
}
