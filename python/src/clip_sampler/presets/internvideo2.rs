//! Converts the options of the preset "internvideo2" to the engine's sampler.
//! Options have InternVideo2's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::internvideo2::{Pick, ReadFrames, ReadFramesOptions};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::Args;

pub fn read_frames(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(ReadFrames::new(ReadFramesOptions {
        num_frames: args.count("num_frames")?,
        sample: Pick::parse(args.text("sample")?)?,
        fix_start: args.count_if_given("fix_start")?,
        max_num_frames: match args.whole("max_num_frames")? {
            ..=0 => None, // the original uses -1, and checks whether the value is above 0
            _ => Some(args.count("max_num_frames")?),
        },
        trimmed30: args.flag("trimmed30")?,
    })?))
}
