//! Arguments of a clip sampler, from a name and a dict in Python, read by name and type.
//! An argument of a wrong type is an error that names the argument and its value.

use std::collections::HashMap;
use std::sync::Arc;

use framespool::clip_sampler::presets::Seconds;
use framespool::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The values that arguments of clip samplers can have. The order of the variants matters: Python's `True` is an
/// `int`, an `int` has a numerator and a denominator, and all of these convert to `float`.
#[derive(FromPyObject, Clone, Debug)]
enum SamplerValue {
    #[pyo3(transparent)]
    Bool(bool),
    #[pyo3(transparent)]
    Int(i64),
    Ratio {
        numerator: i64,
        denominator: i64,
    },
    #[pyo3(transparent)]
    Float(f64),
    #[pyo3(transparent)]
    Str(String),
    #[pyo3(transparent)]
    Ints(Vec<i64>),
    #[pyo3(transparent)]
    Floats(Vec<f64>),
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

/// The name and arguments of a clip sampler; arguments that are `None` in Python are absent.
#[derive(Debug)]
pub struct SamplerArgs {
    name: String,
    values: HashMap<String, SamplerValue>,
}

impl<'py> FromPyObject<'_, 'py> for SamplerArgs {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (name, values) = object.extract()?;
        Ok(Self { name, values })
    }
}

impl SamplerArgs {
    /// The name of the clip sampler.
    pub fn sampler_name(&self) -> &str {
        &self.name
    }

    fn type_error<T>(&self, name: &str, wanted: &str) -> Result<T> {
        let got = match self.values.get(name) {
            None => "nothing".to_owned(),
            Some(SamplerValue::Bool(value)) => value.to_string(),
            Some(SamplerValue::Int(value)) => value.to_string(),
            Some(SamplerValue::Ratio { numerator, denominator }) => format!("{numerator}/{denominator}"),
            Some(SamplerValue::Float(value)) => value.to_string(),
            Some(SamplerValue::Str(value)) => format!("{value:?}"),
            Some(SamplerValue::Ints(values)) => format!("{values:?}"),
            Some(SamplerValue::Floats(values)) => format!("{values:?}"),
            Some(SamplerValue::Callable(_)) => "something callable".to_owned(),
        };
        Err(Error::Argument(format!("{name} must be {wanted}, got {got}")))
    }

    /// Returns whether an argument is given.
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Reads a signed integer.
    pub fn get_int(&self, name: &str) -> Result<i64> {
        match self.values.get(name) {
            Some(SamplerValue::Int(value)) => Ok(*value),
            _ => self.type_error(name, "an int"),
        }
    }

    /// Reads an integer from 0 to 2^32 - 1; the clip sampler itself rejects 0 where it needs at least 1.
    pub fn get_u32(&self, name: &str) -> Result<u32> {
        match u32::try_from(self.get_int(name)?) {
            Ok(count) => Ok(count),
            Err(_) => self.type_error(name, &format!("from 0 to {}", u32::MAX)),
        }
    }

    /// Reads the same if given.
    pub fn get_opt_u32(&self, name: &str) -> Result<Option<u32>> {
        self.contains(name).then(|| self.get_u32(name)).transpose()
    }

    /// Reads a finite number.
    pub fn get_float(&self, name: &str) -> Result<f64> {
        match self.values.get(name) {
            Some(SamplerValue::Float(value)) if value.is_finite() => Ok(*value),
            Some(SamplerValue::Int(value)) => Ok(*value as f64),
            Some(SamplerValue::Ratio { numerator, denominator }) => {
                Ok(*numerator as f64 / *denominator as f64)
            }
            _ => self.type_error(name, "a finite number"),
        }
    }

    /// Reads the same if given.
    pub fn get_opt_float(&self, name: &str) -> Result<Option<f64>> {
        self.contains(name).then(|| self.get_float(name)).transpose()
    }

    /// Reads a time: a float, an integer or a `fractions.Fraction`; the last two stay exact.
    pub fn get_seconds(&self, name: &str) -> Result<Seconds> {
        match self.values.get(name) {
            Some(SamplerValue::Int(value)) => Ok(Seconds::Ratio(*value, 1)),
            Some(SamplerValue::Ratio { numerator, denominator }) => {
                Ok(Seconds::Ratio(*numerator, *denominator))
            }
            _ => Ok(Seconds::Float(self.get_float(name)?)),
        }
    }

    /// Reads `True` or `False`.
    pub fn get_bool(&self, name: &str) -> Result<bool> {
        match self.values.get(name) {
            Some(SamplerValue::Bool(value)) => Ok(*value),
            _ => self.type_error(name, "True or False"),
        }
    }

    /// Reads a callable.
    pub fn get_callable(&self, name: &str) -> Result<Callable> {
        match self.values.get(name) {
            Some(SamplerValue::Callable(value)) => Ok(value.clone()),
            _ => self.type_error(name, "callable"),
        }
    }

    /// Returns all callables among the arguments.
    pub fn callables(&self) -> impl Iterator<Item = &Callable> {
        self.values.values().filter_map(|value| match value {
            SamplerValue::Callable(value) => Some(value),
            _ => None,
        })
    }

    /// Reads a string.
    pub fn get_str(&self, name: &str) -> Result<&str> {
        match self.values.get(name) {
            Some(SamplerValue::Str(text)) => Ok(text),
            _ => self.type_error(name, "text"),
        }
    }

    /// Reads one of the given names and returns its value.
    pub fn get_choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let given = match self.values.get(name) {
            Some(SamplerValue::Str(word)) => words.iter().find(|(known, _)| known == word),
            _ => None,
        };
        match given {
            Some((_, value)) => Ok(*value),
            None => {
                let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
                self.type_error(name, &format!("one of {}", known.join(", ")))
            }
        }
    }

    /// Reads a list of integers.
    pub fn get_ints(&self, name: &str) -> Result<Vec<i64>> {
        match self.values.get(name) {
            Some(SamplerValue::Ints(values)) => Ok(values.clone()),
            _ => self.type_error(name, "a list of ints"),
        }
    }

    /// Reads a list of finite numbers.
    pub fn get_floats(&self, name: &str) -> Result<Vec<f64>> {
        match self.values.get(name) {
            Some(SamplerValue::Floats(values)) if values.iter().all(|v| v.is_finite()) => Ok(values.clone()),
            Some(SamplerValue::Ints(values)) => Ok(values.iter().map(|&v| v as f64).collect()),
            _ => self.type_error(name, "a list of finite numbers"),
        }
    }
}
