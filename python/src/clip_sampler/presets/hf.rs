//! Converts the options of the preset "hf" to the engine's sampler.
//! It sets no defaults: the Python package passes them all.

use std::sync::Arc;

use framespool::clip_sampler::presets::hf::{Frames, Function, SampleFrames};
use framespool::clip_sampler::Sampling;
use framespool::Result;

use super::{only_for, Args};

const FUNCTIONS: [(&str, Function); 2] = [
    ("sample_frames", Function::SampleFrames),
    ("default_sample_indices_fn", Function::DefaultSampleIndicesFn),
];

pub fn sample_frames(args: &Args) -> Result<Sampling> {
    let frames = match (args.count_if_given("num_frames")?, args.number_if_given("fps")?) {
        (Some(frames), _) => {
            only_for(args, "sampling without num_frames", &["fps"])?;
            Frames::Number(frames)
        }
        (None, Some(fps)) => Frames::Rate(fps),
        (None, None) => Frames::All,
    };
    Ok(Arc::new(SampleFrames::new(args.word("function", &FUNCTIONS)?, frames)?))
}
