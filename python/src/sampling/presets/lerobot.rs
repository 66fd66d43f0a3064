//! In: the options of the preset "lerobot".
//! Out: the engine's rule.
//! Never: decides a default.

use std::sync::Arc;

use framespool::sampling::presets::lerobot::DeltaTimestamps;
use framespool::sampling::Sampling;
use framespool::Result;

use super::Args;

pub fn delta_timestamps(args: &Args) -> Result<Sampling> {
    let (deltas, fps) = (args.numbers("delta_timestamps")?, args.number_if_given("fps")?);
    Ok(Arc::new(DeltaTimestamps::new(deltas, fps, args.number("tolerance_s")?)?))
}
