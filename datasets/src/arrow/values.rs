//! Maps Arrow types to column kinds, and Arrow arrays to values: numbers, bools, text and lists of
//! them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, Schema};
use framespool::error::{Error, Result, Site};

use crate::column_value::Value;
use crate::columnar::{ColumnKind, TableColumn};

/// The top-level columns of a schema.
pub(crate) fn top_level_columns(schema: &Schema) -> Vec<TableColumn> {
    schema
        .fields()
        .iter()
        .map(|field| TableColumn::top_level(field.name(), column_kind(field.data_type())))
        .collect()
}

/// The kind of the values of a column of this type.
fn column_kind(of: &DataType) -> ColumnKind {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnKind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ColumnKind::Bytes,
        DataType::FixedSizeBinary(_) => ColumnKind::FixedBytes,
        DataType::Null | DataType::Boolean => ColumnKind::Primitive,
        number if number.is_integer() || number.is_floating() => ColumnKind::Primitive,
        // Values stored once and referred to by index.
        DataType::Dictionary(_, value) => match column_kind(value) {
            plain @ (ColumnKind::Text | ColumnKind::Primitive) => plain,
            _ => ColumnKind::Other(of.to_string()),
        },
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            ColumnKind::List(Vec::new())
        }
        DataType::Struct(fields) => ColumnKind::Group(
            fields
                .iter()
                .map(|field| (field.name().clone(), column_kind(field.data_type())))
                .collect(),
        ),
        other => ColumnKind::Other(other.to_string()),
    }
}

/// The values of an array, or the first type in it that is not supported.
pub(super) fn values(array: &dyn Array) -> Result<Vec<Value>, DataType> {
    let or_missing = |value: Option<Value>| value.unwrap_or(Value::Null);
    macro_rules! each {
        ($iter:expr, $make:expr) => {
            $iter.map(|item| or_missing(item.map($make))).collect()
        };
    }
    Ok(match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => each!(array.as_boolean().iter(), Value::Bool),
        DataType::Int8 => each!(array.as_primitive::<Int8Type>().iter(), |n| Value::Integer(
            n.into()
        )),
        DataType::Int16 => each!(
            array.as_primitive::<Int16Type>().iter(),
            |n| Value::Integer(n.into())
        ),
        DataType::Int32 => each!(
            array.as_primitive::<Int32Type>().iter(),
            |n| Value::Integer(n.into())
        ),
        DataType::Int64 => each!(array.as_primitive::<Int64Type>().iter(), Value::Integer),
        DataType::UInt8 => each!(
            array.as_primitive::<UInt8Type>().iter(),
            |n| Value::Integer(n.into())
        ),
        DataType::UInt16 => each!(array.as_primitive::<UInt16Type>().iter(), |n| {
            Value::Integer(n.into())
        }),
        DataType::UInt32 => each!(array.as_primitive::<UInt32Type>().iter(), |n| {
            Value::Integer(n.into())
        }),
        DataType::UInt64 => each!(array.as_primitive::<UInt64Type>().iter(), |n| {
            i64::try_from(n).map_or(Value::Unsigned(n), Value::Integer)
        }),
        DataType::Float16 => each!(
            array.as_primitive::<Float16Type>().iter(),
            |n| Value::Float(n.into())
        ),
        DataType::Float32 => each!(
            array.as_primitive::<Float32Type>().iter(),
            |n| Value::Float(n.into())
        ),
        DataType::Float64 => each!(array.as_primitive::<Float64Type>().iter(), Value::Float),
        DataType::Utf8 => each!(array.as_string::<i32>().iter(), |text| Value::Text(
            text.to_owned()
        )),
        DataType::LargeUtf8 => each!(array.as_string::<i64>().iter(), |text| Value::Text(
            text.to_owned()
        )),
        DataType::Utf8View => each!(array.as_string_view().iter(), |text| Value::Text(
            text.to_owned()
        )),
        DataType::List(_) => lists(array.as_list::<i32>().iter())?,
        DataType::LargeList(_) => lists(array.as_list::<i64>().iter())?,
        DataType::FixedSizeList(..) => lists(array.as_fixed_size_list().iter())?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let named = values(dictionary.values())?;
            let at = |key: Value| match key {
                Value::Integer(key) => usize::try_from(key)
                    .ok()
                    .and_then(|key| named.get(key))
                    .cloned()
                    .unwrap_or(Value::Null),
                _ => Value::Null,
            };
            values(dictionary.keys())?.into_iter().map(at).collect()
        }
        other => return Err(other.clone()),
    })
}

fn lists(rows: impl Iterator<Item = Option<ArrayRef>>) -> Result<Vec<Value>, DataType> {
    rows.map(|row| match row {
        Some(items) => values(&*items).map(Value::List),
        None => Ok(Value::Null),
    })
    .collect()
}

/// Calls the library and converts its errors. The library panics on some damage, which becomes an
/// error too.
pub(crate) fn catch_panic<T>(
    site: &Site,
    work: impl FnOnce() -> Result<T, ArrowError>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| Error::malformed(site, error.to_string())),
        Err(_) => Err(Error::malformed(site, "contains invalid Arrow data")),
    }
}
