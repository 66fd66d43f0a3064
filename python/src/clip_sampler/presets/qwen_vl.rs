//! Converts the options of the preset "qwen_vl" to the engine's sampler. The number of frames is given either
//! directly or by a rate; the options of the two ways exclude each other.

use std::sync::Arc;

use framespool::clip_sampler::presets::qwen_vl::{Frames, QwenVl};
use framespool::clip_sampler::Sampling;
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
