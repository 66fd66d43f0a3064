//! Arguments of a sampling rule, from a name and a dict in Python, read by name and type.
//! An argument of a wrong type is an error that names the argument and its value.

use std::collections::HashMap;
use std::sync::Arc;

use framespool::clip_sampler::presets::Seconds;
use framespool::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The values that arguments of rules can have. The order of the variants matters: Python's `True` is an
/// `int`, an `int` has a numerator and a denominator, and all of these convert to `float`.
#[derive(FromPyObject, Clone, Debug)]
enum Value {
    #[pyo3(transparent)]
    Flag(bool),
    #[pyo3(transparent)]
    Whole(i64),
    Ratio {
        numerator: i64,
        denominator: i64,
    },
    #[pyo3(transparent)]
    Number(f64),
    #[pyo3(transparent)]
    Text(String),
    #[pyo3(transparent)]
    Wholes(Vec<i64>),
    #[pyo3(transparent)]
    Numbers(Vec<f64>),
    #[pyo3(transparent)]
    Callable(Callable),
}

/// A Python function. All clones share one Python reference, so that Python's garbage collector can account
/// for it.
#[derive(Clone, Debug)]
pub struct Callable(pub Arc<Py<PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Callable {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_callable() {
            return Ok(Self(Arc::new(object.to_owned().unbind())));
        }
        Err(PyTypeError::new_err("not callable"))
    }
}

/// The name and arguments of a rule; arguments that are `None` in Python are absent.
#[derive(Debug)]
pub struct Args {
    rule: String,
    values: HashMap<String, Value>,
}

impl<'py> FromPyObject<'_, 'py> for Args {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (rule, values) = object.extract()?;
        Ok(Self { rule, values })
    }
}

impl Args {
    /// The name of the rule.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Result<T> {
        let got = match self.values.get(name) {
            None => "nothing".to_owned(),
            Some(Value::Flag(value)) => value.to_string(),
            Some(Value::Whole(value)) => value.to_string(),
            Some(Value::Ratio { numerator, denominator }) => format!("{numerator}/{denominator}"),
            Some(Value::Number(value)) => value.to_string(),
            Some(Value::Text(value)) => format!("{value:?}"),
            Some(Value::Wholes(values)) => format!("{values:?}"),
            Some(Value::Numbers(values)) => format!("{values:?}"),
            Some(Value::Callable(_)) => "something callable".to_owned(),
        };
        Err(Error::Argument(format!("{name} must be {wanted}, got {got}")))
    }

    /// Returns whether an argument is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Reads a signed integer.
    pub fn whole(&self, name: &str) -> Result<i64> {
        match self.values.get(name) {
            Some(Value::Whole(value)) => Ok(*value),
            _ => self.wrong(name, "a whole number"),
        }
    }

    /// Reads an integer from 0 to 2^32 - 1; the rule itself rejects 0 where it needs at least 1.
    pub fn count(&self, name: &str) -> Result<u32> {
        match u32::try_from(self.whole(name)?) {
            Ok(count) => Ok(count),
            Err(_) => self.wrong(name, &format!("from 0 to {}", u32::MAX)),
        }
    }

    /// Reads the same if given.
    pub fn count_if_given(&self, name: &str) -> Result<Option<u32>> {
        self.has(name).then(|| self.count(name)).transpose()
    }

    /// Reads a finite number.
    pub fn number(&self, name: &str) -> Result<f64> {
        match self.values.get(name) {
            Some(Value::Number(value)) if value.is_finite() => Ok(*value),
            Some(Value::Whole(value)) => Ok(*value as f64),
            Some(Value::Ratio { numerator, denominator }) => Ok(*numerator as f64 / *denominator as f64),
            _ => self.wrong(name, "a finite number"),
        }
    }

    /// Reads the same if given.
    pub fn number_if_given(&self, name: &str) -> Result<Option<f64>> {
        self.has(name).then(|| self.number(name)).transpose()
    }

    /// Reads a time: a float, an integer or a `fractions.Fraction`; the last two stay exact.
    pub fn seconds(&self, name: &str) -> Result<Seconds> {
        match self.values.get(name) {
            Some(Value::Whole(value)) => Ok(Seconds::Ratio(*value, 1)),
            Some(Value::Ratio { numerator, denominator }) => Ok(Seconds::Ratio(*numerator, *denominator)),
            _ => Ok(Seconds::Float(self.number(name)?)),
        }
    }

    /// Reads `True` or `False`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.values.get(name) {
            Some(Value::Flag(value)) => Ok(*value),
            _ => self.wrong(name, "True or False"),
        }
    }

    /// Reads a callable.
    pub fn callable(&self, name: &str) -> Result<Callable> {
        match self.values.get(name) {
            Some(Value::Callable(value)) => Ok(value.clone()),
            _ => self.wrong(name, "callable"),
        }
    }

    /// Returns all callables among the arguments.
    pub fn callables(&self) -> impl Iterator<Item = &Callable> {
        self.values.values().filter_map(|value| match value {
            Value::Callable(value) => Some(value),
            _ => None,
        })
    }

    /// Reads a string.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.values.get(name) {
            Some(Value::Text(text)) => Ok(text),
            _ => self.wrong(name, "text"),
        }
    }

    /// Reads one of the given names and returns its value.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let given = match self.values.get(name) {
            Some(Value::Text(word)) => words.iter().find(|(known, _)| known == word),
            _ => None,
        };
        match given {
            Some((_, value)) => Ok(*value),
            None => {
                let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
                self.wrong(name, &format!("one of {}", known.join(", ")))
            }
        }
    }

    /// Reads a list of integers.
    pub fn wholes(&self, name: &str) -> Result<Vec<i64>> {
        match self.values.get(name) {
            Some(Value::Wholes(values)) => Ok(values.clone()),
            _ => self.wrong(name, "a list of whole numbers"),
        }
    }

    /// Reads a list of finite numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        match self.values.get(name) {
            Some(Value::Numbers(values)) if values.iter().all(|v| v.is_finite()) => Ok(values.clone()),
            Some(Value::Wholes(values)) => Ok(values.iter().map(|&v| v as f64).collect()),
            _ => self.wrong(name, "a list of finite numbers"),
        }
    }
}
