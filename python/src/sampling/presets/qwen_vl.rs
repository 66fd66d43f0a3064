//! In: the options of the preset "qwen_vl".
//! Out: the engine's rule.
//! Never: mixes the two ways of saying how many frames; the defaults of one are no options of the other.

use std::sync::Arc;

use framespool::sampling::presets::qwen_vl::{Frames, QwenVl};
use framespool::sampling::Sampling;
use framespool::Result;

use super::{only_for, Args};

pub fn qwen_vl(args: &Args) -> Result<Sampling> {
    let frames = match args.count_if_given("nframes")? {
        Some(frames) => {
            only_for(args, "sampling by fps, without nframes", &["fps", "min_frames", "max_frames"])?;
            Frames::Number(frames)
        }
        None => Frames::Rate {
            fps: args.number_if_given("fps")?.unwrap_or(2.0),
            min_frames: args.count_if_given("min_frames")?.unwrap_or(4),
            max_frames: args.count_if_given("max_frames")?,
        },
    };
    let (start, end) = (args.number_if_given("video_start")?, args.number_if_given("video_end")?);
    Ok(Arc::new(QwenVl::new(frames, start, end)?))
}
