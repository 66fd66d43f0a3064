//! A random source that returns the numbers that the caller gives, in their order.
//! A missing, out-of-range or unused number is an error.

use std::fmt;

use framespool::clip_sampler::RandomSource;
use framespool::{Error, Result};
use pyo3::prelude::*;

/// One drawn number: an integer below the limit that the clip sampler passes, or a float in [0, 1).
#[derive(FromPyObject, Clone, Copy, Debug)]
pub(crate) enum RandomValue {
    #[pyo3(transparent)]
    Int(u64),
    #[pyo3(transparent)]
    Float(f64),
}

impl fmt::Display for RandomValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"), // with a point: 1.0
        }
    }
}

/// A random source with predetermined numbers.
pub(super) struct ScriptedRng {
    draws: std::vec::IntoIter<RandomValue>,
    used: usize,
    mismatch: Option<String>,
}

impl ScriptedRng {
    pub(super) fn new(draws: Vec<RandomValue>) -> Self {
        Self {
            draws: draws.into_iter(),
            used: 0,
            mismatch: None,
        }
    }

    /// Checks that the clip sampler drew exactly the given numbers.
    ///
    /// # Errors
    /// `Argument` if the given numbers are not those that the clip sampler drew.
    pub(super) fn finish(self) -> Result<()> {
        let mismatch = self.mismatch.or_else(|| match self.draws.len() {
            0 => None,
            left => Some(format!("{left} are left over after {}", self.used)),
        });
        mismatch.map_or(Ok(()), |what| {
            Err(Error::Argument(format!(
                "the recorded draws do not match: {what}"
            )))
        })
    }

    fn next(&mut self, wanted: &str) -> Option<RandomValue> {
        let next = self.draws.next();
        if next.is_none() {
            self.record_mismatch(format!(
                "the clip sampler draws {wanted} after the last of {}",
                self.used
            ));
        }
        self.used += 1;
        next
    }

    fn record_mismatch(&mut self, what: String) {
        self.mismatch.get_or_insert(what);
    }
}

impl RandomSource for ScriptedRng {
    fn next_below(&mut self, n: u64) -> u64 {
        match self.next(&format!("an int below {n}")) {
            Some(RandomValue::Int(value)) if value < n.max(1) => value,
            Some(other) => {
                self.record_mismatch(format!(
                    "number {} is {other}, the clip sampler draws below {n}",
                    self.used
                ));
                0
            }
            None => 0,
        }
    }

    fn next_f64(&mut self) -> f64 {
        match self.next("a float from 0 up to 1") {
            Some(RandomValue::Float(value)) if (0.0..1.0).contains(&value) => value,
            Some(RandomValue::Int(0)) | None => 0.0,
            Some(other) => {
                self.record_mismatch(format!(
                    "number {} is {other}, the clip sampler draws a float from 0 up to 1",
                    self.used
                ));
                0.0
            }
        }
    }
}
