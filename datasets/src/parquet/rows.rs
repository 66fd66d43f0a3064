//! Reads the values of selected columns of a Parquet file, row by row.
//! Numbers, bools and text keep their types; dates, times and decimals become text.

use std::sync::Arc;

use framespool::error::{Error, Result};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};

use super::checked::Group;
use super::file::{guarded, ParquetFile};
use super::pages::pages;
use super::schema::fields;
use crate::blocks::Blocks;
use crate::packed::Watch;
use crate::tabular::Named;
use crate::value::{shortened, Value};

/// Calls `take` with the number of each row of a group and its values of the wanted columns, in their order.
pub fn read(
    file: &ParquetFile,
    blocks: &mut Blocks,
    group: usize,
    wanted: &[Named],
    go_on: Watch,
    mut take: impl FnMut(u64, Vec<Value>) -> Result<()>,
) -> Result<()> {
    let meta = file.metadata().row_group(group);
    let rows = u64::try_from(meta.num_rows()).unwrap_or(0);
    if wanted.is_empty() {
        return (0..rows).try_for_each(|row| take(row, Vec::new()));
    }
    let (mut begin, mut found) = (0, vec![Vec::new(); meta.num_columns()]);
    for (chunk, found) in meta.columns().iter().zip(&mut found) {
        let path = chunk.column_path().string();
        let of = |named: &Named| path == named.path() || path.starts_with(&format!("{}.", named.path()));
        if wanted.iter().any(of) {
            file.check_codec(chunk)?;
            let (from, len) = chunk.byte_range();
            begin = from;
            *found = pages(blocks, (from, from + len), go_on)?; // checks their sizes
        }
    }
    let site = file.site(begin);
    let root = file.metadata().file_metadata().schema_descr().root_schema_ptr();
    let paths: Vec<&[String]> = wanted.iter().map(|named| &named.path_names[..]).collect();
    let projection = guarded(&site, || projected(&root, &paths))?;
    let projection = Arc::unwrap_or_clone(projection);
    let reader = Group { file, meta, pages: found };
    let mut iter = guarded(&site, || RowIter::from_row_group(Some(projection), &reader))?;
    for row in 0..rows {
        go_on()?;
        let Some(fields) = guarded(&site, || iter.next().transpose())? else {
            return Err(Error::malformed(&site, format!("a group of {rows} rows ends after {row}")));
        };
        let items = group_of(fields);
        let values = wanted.iter().map(|named| at(&items, &named.path_names));
        take(row, values.collect())?;
    }
    Ok(())
}

/// The group with only those of its fields that the paths select.
fn projected(group: &TypePtr, paths: &[&[String]]) -> parquet::errors::Result<TypePtr> {
    let mut kept = Vec::new();
    for field in fields(group) {
        let below: Vec<&[String]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter_map(|(first, rest)| (first == field.name()).then_some(rest))
            .collect();
        match below.is_empty() {
            true => {}
            false if below.iter().any(|rest| rest.is_empty()) => kept.push(field.clone()),
            false => kept.push(projected(field, &below)?),
        }
    }
    let mut builder = Type::group_type_builder(group.name()).with_fields(kept);
    if group.get_basic_info().has_repetition() {
        builder = builder.with_repetition(group.get_basic_info().repetition());
    }
    Ok(Arc::new(builder.build()?))
}

fn at(items: &[(String, Value)], path: &[String]) -> Value {
    let Some((first, rest)) = path.split_first() else { return Value::Missing };
    match items.iter().find(|(name, _)| name == first) {
        Some((_, value)) if rest.is_empty() => value.clone(),
        Some((_, Value::Map(inner))) => at(inner, rest),
        _ => Value::Missing,
    }
}

fn group_of(row: Row) -> Vec<(String, Value)> {
    row.into_columns().into_iter().map(|(name, field)| (name, value(field))).collect()
}

fn value(field: Field) -> Value {
    match field {
        Field::Null => Value::Missing,
        Field::Bool(flag) => Value::Flag(flag),
        Field::Byte(number) => Value::Integer(number.into()),
        Field::Short(number) => Value::Integer(number.into()),
        Field::Int(number) => Value::Integer(number.into()),
        Field::Long(number) => Value::Integer(number),
        Field::UByte(number) => Value::Integer(number.into()),
        Field::UShort(number) => Value::Integer(number.into()),
        Field::UInt(number) => Value::Integer(number.into()),
        Field::ULong(number) => i64::try_from(number).map_or(Value::Large(number), Value::Integer),
        Field::Float16(number) => Value::Number(number.into()),
        Field::Float(number) => Value::Number(number.into()),
        Field::Double(number) => Value::Number(number),
        Field::Str(text) => Value::Text(text),
        Field::Bytes(bytes) => Value::Text(format!("{} bytes", bytes.len())),
        Field::Group(row) => Value::Map(group_of(row)),
        Field::ListInternal(list) => Value::List(list.elements().iter().cloned().map(value).collect()),
        Field::MapInternal(map) => Value::Map(
            map.entries()
                .iter()
                .map(|(key, item)| (shown(value(key.clone())), value(item.clone())))
                .collect(),
        ),
        other => Value::Text(other.to_string()),
    }
}

/// Converts a key of a map to text.
fn shown(key: Value) -> String {
    match key {
        Value::Text(text) => text,
        other => shortened(&other.shown()),
    }
}
