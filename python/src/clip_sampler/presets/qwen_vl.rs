//! Converts the options of the preset "qwen_vl" to the engine's sampler. The number of frames is given either
//! directly or by a rate; the options of the two ways exclude each other.

use std::sync::Arc;

use framespool::clip_sampler::presets::qwen_vl::{FrameCount, QwenVl};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::{only_for, SamplerArgs};

pub fn qwen_vl(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let frames = match args.get_opt_u32("nframes")? {
        Some(frames) => {
            only_for(args, "sampling by fps, without nframes", &["fps", "min_frames", "max_frames"])?;
            FrameCount::Number(frames)
        }
        None => FrameCount::Rate {
            fps: args.get_opt_float("fps")?.unwrap_or(2.0),
            min_frames: args.get_opt_u32("min_frames")?.unwrap_or(4),
            max_frames: args.get_opt_u32("max_frames")?,
        },
    };
    let (start, end) = (args.get_opt_float("video_start")?, args.get_opt_float("video_end")?);
    Ok(Arc::new(QwenVl::new(frames, start, end)?))
}
