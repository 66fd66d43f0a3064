//! In: numbers that the caller says were drawn.
//! Out: these, in their order, to a rule that draws.
//! Never: makes a number up: what is missing, too large or left over is an error.

use framespool::sampling::Draw;
use framespool::{Error, Result};
use pyo3::prelude::*;

/// One draw: a whole number below what the rule asks for, or a float from 0 up to 1.
#[derive(FromPyObject, Clone, Copy, Debug)]
pub enum Drawn {
    #[pyo3(transparent)]
    Whole(u64),
    #[pyo3(transparent)]
    Unit(f64),
}

/// Draws by script.
pub struct Script {
    draws: std::vec::IntoIter<Drawn>,
    used: usize,
    trouble: Option<String>,
}

impl Script {
    pub fn new(draws: Vec<Drawn>) -> Self {
        Self { draws: draws.into_iter(), used: 0, trouble: None }
    }

    /// # Errors
    /// `Argument` where the draws were not those that the rule asked for.
    pub fn verdict(self) -> Result<()> {
        let trouble = self.trouble.or_else(|| match self.draws.len() {
            0 => None,
            left => Some(format!("{left} are left over after {}", self.used)),
        });
        trouble.map_or(Ok(()), |what| Err(Error::Argument(format!("draws do not fit: {what}"))))
    }

    fn next(&mut self, wanted: &str) -> Option<Drawn> {
        let next = self.draws.next();
        if next.is_none() {
            self.blame(format!("the rule draws {wanted} after the last of {}", self.used));
        }
        self.used += 1;
        next
    }

    fn blame(&mut self, what: String) {
        self.trouble.get_or_insert(what);
    }
}

impl Draw for Script {
    fn below(&mut self, n: u64) -> u64 {
        match self.next(&format!("a whole number below {n}")) {
            Some(Drawn::Whole(value)) if value < n.max(1) => value,
            Some(other) => {
                self.blame(format!("number {} is {other:?}, the rule draws below {n}", self.used));
                0
            }
            None => 0,
        }
    }

    fn unit_f64(&mut self) -> f64 {
        match self.next("a float from 0 up to 1") {
            Some(Drawn::Unit(value)) if (0.0..1.0).contains(&value) => value,
            Some(Drawn::Whole(0)) | None => 0.0,
            Some(other) => {
                self.blame(format!(
                    "number {} is {other:?}, the rule draws a float from 0 up to 1",
                    self.used
                ));
                0.0
            }
        }
    }
}
