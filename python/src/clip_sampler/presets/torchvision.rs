//! Converts the options of the preset "torchvision" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::torchvision::{ClipSelection, VideoClips};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::{only_for, SamplerArgs};

pub fn video_clips(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let own = match args.contains("sampler") {
        true => args.get_choice(
            "sampler",
            &[("uniform", "num_clips_per_video"), ("random", "max_clips_per_video")],
        )?,
        false => "",
    };
    let others: Vec<&str> =
        ["num_clips_per_video", "max_clips_per_video"].into_iter().filter(|option| *option != own).collect();
    only_for(args, "another sampler", &others)?;
    let sampler = match own {
        "" => ClipSelection::All,
        "num_clips_per_video" => ClipSelection::Uniform(args.get_u32(own)?),
        _ => ClipSelection::Random(args.get_u32(own)?),
    };
    let (length, apart) = (args.get_u32("clip_length_in_frames")?, args.get_u32("frames_between_clips")?);
    Ok(Arc::new(VideoClips::new(length, apart, args.get_opt_float("frame_rate")?, sampler)?))
}
