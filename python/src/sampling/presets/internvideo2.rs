//! In: options by InternVideo2's names.
//! Out: the engine's rule for its frame reading.
//! Never: decides a default.

use std::sync::Arc;

use framespool::sampling::presets::internvideo2::{Pick, ReadFrames, ReadFramesOptions};
use framespool::sampling::Sampling;
use framespool::Result;

use super::Args;

pub fn read_frames(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(ReadFrames::new(ReadFramesOptions {
        num_frames: args.count("num_frames")?,
        sample: Pick::parse(args.text("sample")?)?,
        fix_start: args.count_if_given("fix_start")?,
        max_num_frames: match args.whole("max_num_frames")? {
            ..=0 => None, // -1 in the original, which asks whether it is above 0
            _ => Some(args.count("max_num_frames")?),
        },
        trimmed30: args.flag("trimmed30")?,
    })?))
}
