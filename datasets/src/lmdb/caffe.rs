//! Parses a Caffe `Datum`, a Protocol Buffers message: the range of its encoded image, and its
//! label.

use framespool::error::Result;

use crate::NO_LABEL;
use crate::protobuf::{ByteRange, FieldValue, ProtobufReader};
use crate::range_reader::RangeReader;

/// Field numbers of a Datum.
const DATA: u64 = 4;
const LABEL: u64 = 5;
const FLOATS: u64 = 6;
const ENCODED: u64 = 7;

/// Offset and length of the image, and the label; or why the Datum cannot be used. A value that is
/// not a valid Protocol Buffers message is the outer `Err`.
#[allow(clippy::type_complexity)]
pub(crate) fn datum(
    reader: &mut RangeReader,
    value: ByteRange,
) -> Result<Result<(u64, u64, i64), String>> {
    let (mut data, mut label, mut floats, mut encoded) = (None, NO_LABEL, false, false);
    let mut fields = ProtobufReader::new(value);
    while let Some(field) = fields.next(reader)? {
        match field {
            (DATA, FieldValue::Bytes(range)) => data = Some(range),
            // An int32, which is encoded as a sign-extended 64-bit varint.
            (LABEL, FieldValue::Varint(number)) => label = i64::from(number as i32),
            (FLOATS, _) => floats = true,
            (ENCODED, FieldValue::Varint(flag)) => encoded = flag != 0,
            _ => {}
        }
    }
    Ok(match data {
        None if floats => Err("is a Datum of floats, not of an image".to_owned()),
        None => {
            Err("is a Datum without data; for values that are image files use layout=\"plain\"".to_owned())
        }
        Some(_) if !encoded => {
            Err("is a Datum of raw pixels (its flag encoded is not set), which is not supported; create the \
             database again with convert_imageset --encoded"
                .to_owned())
        }
        Some((begin, end)) => Ok((begin, end - begin, label)),
    })
}
