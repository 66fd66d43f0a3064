//! In: a sampling rule as the Python package hands it down.
//! Out: the engine's rule.
//! Never: decides a default; the Python package states them all.

use framespool::sampling::{Pad, Random, Sampling, Short, Windows};
use framespool::{Error, Result};
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// A rule: its name, its numbers, and what it does at the end of a video.
pub type Rule = (String, Vec<i64>, String);

/// The engine's rule.
pub fn sampling((name, numbers, end): &Rule) -> Result<Sampling> {
    let count = |what: &str, value: i64| {
        u32::try_from(value).map_err(|_| Error::Argument(format!("{what} must be at least 1, got {value}")))
    };
    match (name.as_str(), &numbers[..]) {
        ("windows", &[length, stride, step]) => {
            let pad = match end.as_str() {
                "none" => Pad::None,
                "constant" => Pad::Constant,
                "edge" => Pad::Edge,
                "reflect_101" => Pad::Reflect101,
                "reflect_1001" => Pad::Reflect1001,
                other => {
                    let known = "\"none\", \"constant\", \"edge\", \"reflect_101\" or \"reflect_1001\"";
                    return Err(Error::Argument(format!("pad_mode must be {known}, got {other:?}")));
                }
            };
            // 0 stands for "not given".
            let step = if step == 0 { None } else { Some(count("step", step)?) };
            let rule = Windows::new(count("sequence_length", length)?, count("stride", stride)?, step, pad)?;
            Ok(Sampling::Windows(rule))
        }
        ("random", &[length, stride, clips]) => {
            let short = match end.as_str() {
                "repeat" => Short::Repeat,
                "loop" => Short::Loop,
                "error" => Short::Error,
                other => {
                    return Err(Error::Argument(format!(
                        "short must be \"repeat\", \"loop\" or \"error\", got {other:?}"
                    )))
                }
            };
            let (length, stride) = (count("sequence_length", length)?, count("stride", stride)?);
            Ok(Sampling::Random(Random::new(length, stride, count("clips_per_video", clips)?, short)?))
        }
        _ => Err(Error::Argument(format!("unknown sampling rule {name:?}"))),
    }
}

#[pyfunction]
pub fn clips_in(py: Python<'_>, rule: Rule, num_frames: u32) -> PyResult<u64> {
    Ok(sampling(&rule).or_raise(py)?.clips_in(num_frames))
}
