//! Converts the options of the preset "hf" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::hf::{FrameSelection, HfSampleFrames, SampleFunction};
use framespool::clip_sampler::ClipSamplerRef;
use framespool::Result;

use super::{only_for, SamplerArgs};

const FUNCTIONS: [(&str, SampleFunction); 2] = [
    ("sample_frames", SampleFunction::SampleFrames),
    ("default_sample_indices_fn", SampleFunction::DefaultSampleIndicesFn),
];

pub fn sample_frames(args: &SamplerArgs) -> Result<ClipSamplerRef> {
    let frames = match (args.get_opt_u32("num_frames")?, args.get_opt_float("fps")?) {
        (Some(frames), _) => {
            only_for(args, "sampling without num_frames", &["fps"])?;
            FrameSelection::Number(frames)
        }
        (None, Some(fps)) => FrameSelection::Rate(fps),
        (None, None) => FrameSelection::All,
    };
    Ok(Arc::new(HfSampleFrames::new(args.get_choice("function", &FUNCTIONS)?, frames)?))
}
