//! Converts the options of the preset "torchvision" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::torchvision::{Sampler, VideoClips};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::{only_for, Args};

pub fn video_clips(args: &Args) -> Result<Sampling> {
    let own = match args.has("sampler") {
        true => {
            args.word("sampler", &[("uniform", "num_clips_per_video"), ("random", "max_clips_per_video")])?
        }
        false => "",
    };
    let others: Vec<&str> =
        ["num_clips_per_video", "max_clips_per_video"].into_iter().filter(|option| *option != own).collect();
    only_for(args, "another sampler", &others)?;
    let sampler = match own {
        "" => Sampler::All,
        "num_clips_per_video" => Sampler::Uniform(args.count(own)?),
        _ => Sampler::Random(args.count(own)?),
    };
    let (length, apart) = (args.count("clip_length_in_frames")?, args.count("frames_between_clips")?);
    Ok(Arc::new(VideoClips::new(length, apart, args.number_if_given("frame_rate")?, sampler)?))
}
