//! Converts the options of the preset "pytorchvideo" to the engine's sampler.
//! An option that the chosen clip sampler does not have is an error.

use std::sync::Arc;

use framespool::clip_sampler::presets::pytorchvideo::{ClipSamplerKind, LabeledVideoClips};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::{only_for, SamplerArgs};

/// Options that only some clip samplers have.
const OWN: [&str; 5] = ["num_clips", "stride", "backpad_last", "clips_per_video", "augs_per_clip"];

pub fn clips(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let samplers: [(&str, &[&str]); 4] = [
        ("random", &[]),
        ("random_multi", &OWN[..1]),
        ("uniform", &OWN[1..3]),
        ("constant_clips_per_video", &OWN[3..]),
    ];
    let own = args.get_choice("sampling_type", &samplers)?;
    let others: Vec<&str> = OWN.into_iter().filter(|option| !own.contains(option)).collect();
    only_for(args, "another sampling_type", &others)?;
    let sampler = match own.first() {
        Some(&"num_clips") => ClipSamplerKind::RandomMulti { num_clips: args.get_u32("num_clips")? },
        Some(&"stride") => ClipSamplerKind::Uniform {
            stride: args.contains("stride").then(|| args.get_seconds("stride")).transpose()?,
            backpad_last: args.contains("backpad_last") && args.get_bool("backpad_last")?,
        },
        Some(_) => ClipSamplerKind::ConstantClipsPerVideo {
            clips_per_video: args.get_u32("clips_per_video")?,
            augs_per_clip: args.get_opt_u32("augs_per_clip")?.unwrap_or(1),
        },
        None => ClipSamplerKind::Random,
    };
    Ok(Arc::new(LabeledVideoClips::new(
        sampler,
        args.get_seconds("clip_duration")?,
        args.get_opt_u32("num_samples")?,
    )?))
}
