//! In: a preset's name and options, by the names of the codebase that it reproduces.
//! Out: the engine's rule.
//! Never: decides a default; the Python package states them all.

use framespool::sampling::Sampling;
use framespool::{Error, Result};

use super::args::Args;

/// The rule of a preset.
pub fn preset(name: &str, args: &Args) -> Result<Sampling> {
    let _ = args;
    Err(Error::Argument(format!("unknown preset {name:?}")))
}
