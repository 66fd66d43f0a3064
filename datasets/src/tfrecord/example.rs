//! Looks up a feature by name in a serialized `tf.train.Example`: the range of its bytes, or its
//! integer.

use framespool::error::Result;

use crate::protobuf::{ByteRange, FieldValue, ProtobufReader};
use crate::range_reader::RangeReader;

/// The value of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// The example has no feature of this name, or an empty one.
    Absent,
    /// Byte strings: how many, and the range of the last one.
    Bytes {
        count: u64,
        begin: u64,
        end: u64,
    },
    /// Integers: how many, and the last one.
    Int64 {
        count: u64,
        value: i64,
    },
    Float,
}

/// Returns the feature of this name. If there are several, which no known writer produces, the last
/// one counts, as Protocol Buffers specifies for maps.
///
/// In `Example`, field 1 is the features; in `SequenceExample`, field 1 is the context, which has
/// the same type. Features are a map: each of its entries is a field 1 with a key (field 1) and a
/// value (field 2).
pub(crate) fn find_feature(
    reader: &mut RangeReader,
    record: ByteRange,
    name: &str,
) -> Result<Feature> {
    let mut found = Feature::Absent;
    let mut example = ProtobufReader::new(record);
    while let Some(field) = example.next(reader)? {
        let (1, FieldValue::Bytes(features)) = field else {
            continue;
        };
        let mut features = ProtobufReader::new(features);
        while let Some(field) = features.next(reader)? {
            let (1, FieldValue::Bytes(pair)) = field else {
                continue;
            };
            let mut pair = ProtobufReader::new(pair);
            let (mut named, mut value) = (name.is_empty(), None);
            while let Some(field) = pair.next(reader)? {
                match field {
                    (1, FieldValue::Bytes(key)) => named = bytes_equal(reader, key, name)?,
                    (2, FieldValue::Bytes(feature)) => value = Some(feature),
                    _ => {}
                }
            }
            if named {
                found = value.map_or(Ok(Feature::Absent), |value| feature_value(reader, value))?;
            }
        }
    }
    Ok(found)
}

/// Whether a range contains this text.
fn bytes_equal(reader: &mut RangeReader, (begin, end): ByteRange, text: &str) -> Result<bool> {
    Ok(end - begin == text.len() as u64 && reader.get(begin, text.len())? == text.as_bytes())
}

/// The value of a feature: a list of byte strings (field 1), of floats (2) or of integers (3).
fn feature_value(reader: &mut RangeReader, feature: ByteRange) -> Result<Feature> {
    let mut found = Feature::Absent;
    let mut lists = ProtobufReader::new(feature);
    while let Some((kind, value)) = lists.next(reader)? {
        let FieldValue::Bytes(list) = value else {
            continue;
        };
        let mut values = ProtobufReader::new(list);
        while let Some(field) = values.next(reader)? {
            let (1, value) = field else { continue };
            found = match (kind, value) {
                (1, FieldValue::Bytes((begin, end))) => {
                    let before = if let Feature::Bytes { count, .. } = found {
                        count
                    } else {
                        0
                    };
                    Feature::Bytes {
                        count: before + 1,
                        begin,
                        end,
                    }
                }
                (3, FieldValue::Varint(number)) => add_integer(found, number),
                (3, FieldValue::Bytes(packed)) => {
                    let mut numbers = ProtobufReader::new(packed);
                    while !numbers.is_empty() {
                        found = add_integer(found, numbers.varint(reader)?);
                    }
                    found
                }
                (2, _) => Feature::Float,
                _ => found,
            };
        }
    }
    Ok(found)
}

/// Adds one integer.
fn add_integer(found: Feature, number: u64) -> Feature {
    let before = if let Feature::Int64 { count, .. } = found {
        count
    } else {
        0
    };
    Feature::Int64 {
        count: before + 1,
        value: number as i64,
    }
}
