//! Reads the values of selected columns of a Parquet file, row by row.
//! Numbers, bools and text keep their types; dates, times and decimals become text.

use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::source::check_interrupt;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};

use super::file::{ParquetFile, catch_panic};
use super::page_reader::CheckedRowGroup;
use super::page_scan::scan_pages;
use super::schema::fields;
use crate::column_value::{Value, shortened};
use crate::columnar::TableColumn;
use crate::range_reader::RangeReader;

/// Calls `take` with the number of each row of a group and its values of the wanted columns, in
/// their order.
pub(super) fn read(
    file: &ParquetFile,
    reader: &mut RangeReader,
    group: usize,
    wanted: &[TableColumn],
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
        let of = |named: &TableColumn| {
            path == named.path() || path.starts_with(&format!("{}.", named.path()))
        };
        if wanted.iter().any(of) {
            file.check_codec(chunk)?;
            let (from, len) = chunk.byte_range();
            begin = from;
            *found = scan_pages(reader, (from, from + len))?; // checks their sizes
        }
    }
    let site = file.site(begin);
    let root = file
        .metadata()
        .file_metadata()
        .schema_descr()
        .root_schema_ptr();
    let paths: Vec<&[String]> = wanted.iter().map(|named| &named.path_names[..]).collect();
    let projection = catch_panic(&site, || project(&root, &paths))?;
    let projection = Arc::unwrap_or_clone(projection);
    let row_group = CheckedRowGroup {
        file,
        meta,
        pages: found,
    };
    let mut iter = catch_panic(&site, || {
        RowIter::from_row_group(Some(projection), &row_group)
    })?;
    for row in 0..rows {
        check_interrupt()?;
        let Some(fields) = catch_panic(&site, || iter.next().transpose())? else {
            return Err(Error::malformed(
                &site,
                format!("a group of {rows} rows ends after {row}"),
            ));
        };
        let items = map_of(fields);
        let values = wanted
            .iter()
            .map(|named| value_at(&items, &named.path_names));
        take(row, values.collect())?;
    }
    Ok(())
}

/// The group with only those of its fields that the paths select.
fn project(group: &TypePtr, paths: &[&[String]]) -> parquet::errors::Result<TypePtr> {
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
            false => kept.push(project(field, &below)?),
        }
    }
    let mut builder = Type::group_type_builder(group.name()).with_fields(kept);
    if group.get_basic_info().has_repetition() {
        builder = builder.with_repetition(group.get_basic_info().repetition());
    }
    Ok(Arc::new(builder.build()?))
}

fn value_at(items: &[(String, Value)], path: &[String]) -> Value {
    let Some((first, rest)) = path.split_first() else {
        return Value::Null;
    };
    match items.iter().find(|(name, _)| name == first) {
        Some((_, value)) if rest.is_empty() => value.clone(),
        Some((_, Value::Map(inner))) => value_at(inner, rest),
        _ => Value::Null,
    }
}

fn map_of(row: Row) -> Vec<(String, Value)> {
    row.into_columns()
        .into_iter()
        .map(|(name, field)| (name, value_of(field)))
        .collect()
}

fn value_of(field: Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => Value::Bool(flag),
        Field::Byte(number) => Value::Integer(number.into()),
        Field::Short(number) => Value::Integer(number.into()),
        Field::Int(number) => Value::Integer(number.into()),
        Field::Long(number) => Value::Integer(number),
        Field::UByte(number) => Value::Integer(number.into()),
        Field::UShort(number) => Value::Integer(number.into()),
        Field::UInt(number) => Value::Integer(number.into()),
        Field::ULong(number) => {
            i64::try_from(number).map_or(Value::Unsigned(number), Value::Integer)
        }
        Field::Float16(number) => Value::Float(number.into()),
        Field::Float(number) => Value::Float(number.into()),
        Field::Double(number) => Value::Float(number),
        Field::Str(text) => Value::Text(text),
        Field::Bytes(bytes) => Value::Text(format!("{} bytes", bytes.len())),
        Field::Group(row) => Value::Map(map_of(row)),
        Field::ListInternal(list) => {
            Value::List(list.elements().iter().cloned().map(value_of).collect())
        }
        Field::MapInternal(map) => Value::Map(
            map.entries()
                .iter()
                .map(|(key, item)| (key_text(value_of(key.clone())), value_of(item.clone())))
                .collect(),
        ),
        other => Value::Text(other.to_string()),
    }
}

/// Converts a key of a map to text.
fn key_text(key: Value) -> String {
    match key {
        Value::Text(text) => text,
        other => shortened(&other.shown()),
    }
}
