//! Converts the options of the preset "vjepa2" to the engine's sampler.
//! Options have V-JEPA 2's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::vjepa2::{Pace, VideoDataset, VideoDatasetOptions};
use framespool::clip_sampler::Sampling;
use framespool::{Error, Result};

use super::Args;

fn pace(args: &Args) -> Result<Pace> {
    match (args.has("fps"), args.has("duration"), args.has("frame_step")) {
        (true, false, false) => Ok(Pace::Fps(args.count("fps")?)),
        (false, true, false) => Ok(Pace::Duration(args.number("duration")?)),
        (false, false, true) => Ok(Pace::FrameStep(args.count("frame_step")?)),
        given => {
            let given = u8::from(given.0) + u8::from(given.1) + u8::from(given.2);
            Err(Error::Argument(format!(
                "exactly one of fps, duration and frame_step must be given, got {given}; frame_step is 4 \
                 unless frame_step=None is given beside the one that you want"
            )))
        }
    }
}

pub fn video_dataset(args: &Args) -> Result<Sampling> {
    Ok(Arc::new(VideoDataset::new(VideoDatasetOptions {
        frames_per_clip: args.count("frames_per_clip")?,
        pace: pace(args)?,
        num_clips: args.count("num_clips")?,
        random_clip_sampling: args.flag("random_clip_sampling")?,
        allow_clip_overlap: args.flag("allow_clip_overlap")?,
        filter_short_videos: args.flag("filter_short_videos")?,
    })?))
}
