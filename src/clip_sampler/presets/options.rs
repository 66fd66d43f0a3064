//! Types of options that only accept values with which a formula can be computed.
//! The texts of their errors complete the sentence "OPTION must be …".

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::{Error, Result};

/// Maximum number of frames of a clip and of clips of a video: a larger option is a mistake and
/// would exhaust memory.
pub(crate) const MAX_COUNT: u32 = 1 << 20;
/// Maximum count of numbers that one call may sample or compute.
pub(crate) const MAX_PRODUCT: u64 = 1 << 24;

/// A number from 1 to [`MAX_COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Count(pub u32);

impl Count {
    pub(super) fn u64(self) -> u64 {
        self.0.into()
    }

    pub(super) fn i64(self) -> i64 {
        self.0.into()
    }

    pub(super) fn f64(self) -> f64 {
        self.0.into()
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)?.as_u64() {
            Some(count @ 1..=0x10_0000) => Ok(Self(count as u32)),
            _ => Err(D::Error::custom(format_args!(
                "an int from 1 to {MAX_COUNT}"
            ))),
        }
    }
}

/// A rate or a duration: positive, and in a range that keeps sums finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Positive(pub f64);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)?.as_f64() {
            Some(number) if (1e-6..=1e9).contains(&number) => Ok(Self(number)),
            _ => Err(D::Error::custom("a number from 0.000001 to 1000000000")),
        }
    }
}

/// Rejects numbers whose product exceeds [`MAX_PRODUCT`].
pub(crate) fn check_product(names: &str, values: &[Count]) -> Result<()> {
    let product = values
        .iter()
        .fold(1u64, |all, value| all.saturating_mul(value.u64()));
    if product <= MAX_PRODUCT {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "{names} must be at most {MAX_PRODUCT}, got {product}; use fewer clips or frames"
    )))
}

/// Rejects options that belong to another form of the preset.
pub(crate) fn only_for(form: &str, options: &[(&str, bool)]) -> Result<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::Argument(format!(
            "{option} must be omitted, got a value; it belongs to {form}"
        ))),
        None => Ok(()),
    }
}

/// The value of an option that this form of the preset needs.
pub(super) fn needed<T: Copy>(name: &str, form: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::Argument(format!("{name} must be given with {form}, got None")))
}
