//! Looks up a feature by name in a serialized `tf.train.Example`: the range of its bytes, or its integer.

use framespool::error::Result;

use crate::blocks::Blocks;
use crate::proto::{Fields, Stretch, Value};

/// The value of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The example has no feature of this name, or an empty one.
    Missing,
    /// Byte strings: how many, and the range of the last one.
    Bytes { count: u64, begin: u64, end: u64 },
    /// Integers: how many, and the last one.
    Whole { count: u64, value: i64 },
    /// Floats.
    Real,
}

/// Returns the feature of this name. If there are several, which no known writer produces, the last one
/// counts, as Protocol Buffers specifies for maps.
///
/// In `Example`, field 1 is the features; in `SequenceExample`, field 1 is the context, which has the same
/// type. Features are a map: each of its entries is a field 1 with a key (field 1) and a value (field 2).
pub fn feature(blocks: &mut Blocks, record: Stretch, name: &str) -> Result<Feature> {
    let mut found = Feature::Missing;
    let mut example = Fields::of(record);
    while let Some(field) = example.next(blocks)? {
        let (1, Value::Bytes(features)) = field else { continue };
        let mut features = Fields::of(features);
        while let Some(field) = features.next(blocks)? {
            let (1, Value::Bytes(pair)) = field else { continue };
            let mut pair = Fields::of(pair);
            let (mut named, mut value) = (name.is_empty(), None);
            while let Some(field) = pair.next(blocks)? {
                match field {
                    (1, Value::Bytes(key)) => named = is(blocks, key, name)?,
                    (2, Value::Bytes(feature)) => value = Some(feature),
                    _ => {}
                }
            }
            if named {
                found = value.map_or(Ok(Feature::Missing), |value| held(blocks, value))?;
            }
        }
    }
    Ok(found)
}

/// Whether a range contains this text.
fn is(blocks: &mut Blocks, (begin, end): Stretch, text: &str) -> Result<bool> {
    Ok(end - begin == text.len() as u64 && blocks.get(begin, text.len())? == text.as_bytes())
}

/// The value of a feature: a list of byte strings (field 1), of floats (2) or of integers (3).
fn held(blocks: &mut Blocks, feature: Stretch) -> Result<Feature> {
    let mut found = Feature::Missing;
    let mut lists = Fields::of(feature);
    while let Some((kind, value)) = lists.next(blocks)? {
        let Value::Bytes(list) = value else { continue };
        let mut values = Fields::of(list);
        while let Some(field) = values.next(blocks)? {
            let (1, value) = field else { continue };
            found = match (kind, value) {
                (1, Value::Bytes((begin, end))) => {
                    let before = if let Feature::Bytes { count, .. } = found { count } else { 0 };
                    Feature::Bytes { count: before + 1, begin, end }
                }
                (3, Value::Number(number)) => whole(found, number),
                (3, Value::Bytes(packed)) => {
                    let mut numbers = Fields::of(packed);
                    while !numbers.is_empty() {
                        found = whole(found, numbers.number(blocks)?);
                    }
                    found
                }
                (2, _) => Feature::Real,
                _ => found,
            };
        }
    }
    Ok(found)
}

/// Adds one integer.
fn whole(found: Feature, number: u64) -> Feature {
    let before = if let Feature::Whole { count, .. } = found { count } else { 0 };
    Feature::Whole { count: before + 1, value: number as i64 }
}
