//! In: options by TSN's names.
//! Out: the engine's rule for its dataset.
//! Never: decides a default.

use std::sync::Arc;

use framespool::sampling::presets::tsn::Segments;
use framespool::sampling::Sampling;
use framespool::Result;

use super::Args;

pub fn segments(args: &Args) -> Result<Sampling> {
    let (segments, length) = (args.count("num_segments")?, args.count("new_length")?);
    Ok(Arc::new(Segments::new(segments, length, args.flag("random_shift")?, args.flag("test_mode")?)?))
}
