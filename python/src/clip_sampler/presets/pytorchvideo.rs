//! Converts the options of the preset "pytorchvideo" to the engine's sampler.
//! An option that the chosen clip sampler does not have is an error.

use std::sync::Arc;

use framespool::clip_sampler::presets::pytorchvideo::{Clips, Sampler};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::{only_for, Args};

/// Options that only some clip samplers have.
const OWN: [&str; 5] = ["num_clips", "stride", "backpad_last", "clips_per_video", "augs_per_clip"];

pub fn clips(args: &Args) -> Result<Sampling> {
    let samplers: [(&str, &[&str]); 4] = [
        ("random", &[]),
        ("random_multi", &OWN[..1]),
        ("uniform", &OWN[1..3]),
        ("constant_clips_per_video", &OWN[3..]),
    ];
    let own = args.word("sampling_type", &samplers)?;
    let others: Vec<&str> = OWN.into_iter().filter(|option| !own.contains(option)).collect();
    only_for(args, "another sampling_type", &others)?;
    let sampler = match own.first() {
        Some(&"num_clips") => Sampler::RandomMulti { num_clips: args.count("num_clips")? },
        Some(&"stride") => Sampler::Uniform {
            stride: args.has("stride").then(|| args.seconds("stride")).transpose()?,
            backpad_last: args.has("backpad_last") && args.flag("backpad_last")?,
        },
        Some(_) => Sampler::ConstantClipsPerVideo {
            clips_per_video: args.count("clips_per_video")?,
            augs_per_clip: args.count_if_given("augs_per_clip")?.unwrap_or(1),
        },
        None => Sampler::Random,
    };
    Ok(Arc::new(Clips::new(sampler, args.seconds("clip_duration")?, args.count_if_given("num_samples")?)?))
}
