//! In: a record that is a `tf.train.Example`, and the name of one of its features.
//! Out: what the feature holds: where its bytes lie, or its integer.
//! Never: looks at other features than by their names.

use framespool::error::Result;

use crate::blocks::Blocks;
use crate::proto::{Fields, Stretch, Value};

/// What a feature holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The example has none of this name, or one that holds nothing.
    Missing,
    /// Strings of bytes, and where the last one lies.
    Bytes { count: u64, begin: u64, end: u64 },
    /// Integers, and the last one.
    Whole { count: u64, value: i64 },
    /// Floats.
    Real,
}

/// The feature of this name; of several, which writers do not make, the last one counts, as the format says.
///
/// In `Example` the features are field 1, in `SequenceExample` those of its context are; they are a map, so pairs of key
/// (field 1) and value (field 2), each a field 1.
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

/// Whether a stretch holds this text.
fn is(blocks: &mut Blocks, (begin, end): Stretch, text: &str) -> Result<bool> {
    Ok(end - begin == text.len() as u64 && blocks.get(begin, text.len())? == text.as_bytes())
}

/// What a feature holds: a list of bytes (field 1), of floats (2) or of integers (3).
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

/// One integer more.
fn whole(found: Feature, number: u64) -> Feature {
    let before = if let Feature::Whole { count, .. } = found { count } else { 0 };
    Feature::Whole { count: before + 1, value: number as i64 }
}
