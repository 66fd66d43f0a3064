//! Converts the options of the preset "vjepa2" to the engine's sampler.
//! Options have V-JEPA 2's names. It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::vjepa2::{FrameStepOption, VideoDataset, VideoDatasetOptions};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::{Error, Result};

use super::SamplerArgs;

fn frame_step(args: &SamplerArgs) -> Result<FrameStepOption> {
    match (args.contains("fps"), args.contains("duration"), args.contains("frame_step")) {
        (true, false, false) => Ok(FrameStepOption::Fps(args.get_u32("fps")?)),
        (false, true, false) => Ok(FrameStepOption::Duration(args.get_float("duration")?)),
        (false, false, true) => Ok(FrameStepOption::FrameStep(args.get_u32("frame_step")?)),
        given => {
            let given = u8::from(given.0) + u8::from(given.1) + u8::from(given.2);
            Err(Error::Argument(format!(
                "exactly one of fps, duration and frame_step must be given, got {given}; frame_step is 4 \
                 unless frame_step=None is given along with another one"
            )))
        }
    }
}

pub fn video_dataset(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    Ok(Arc::new(VideoDataset::new(VideoDatasetOptions {
        frames_per_clip: args.get_u32("frames_per_clip")?,
        frame_step: frame_step(args)?,
        num_clips: args.get_u32("num_clips")?,
        random_clip_sampling: args.get_bool("random_clip_sampling")?,
        allow_clip_overlap: args.get_bool("allow_clip_overlap")?,
        filter_short_videos: args.get_bool("filter_short_videos")?,
    })?))
}
