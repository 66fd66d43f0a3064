//! Lists the columns of a Parquet schema with the kinds of their values, and the class names
//! written by `datasets`.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use super::file::ParquetFile;
use crate::columnar::{ColumnKind, FEATURES_KEY, TableColumn, class_names_from_features};

/// The top-level columns of a file.
pub(crate) fn top_level_columns(file: &ParquetFile) -> Vec<TableColumn> {
    let root = file
        .metadata()
        .file_metadata()
        .schema_descr()
        .root_schema_ptr();
    fields(&root)
        .iter()
        .map(|of| TableColumn::top_level(of.name(), column_kind(of)))
        .collect()
}

/// The fields of a group.
pub(super) fn fields(kind: &Type) -> &[TypePtr] {
    match kind {
        Type::GroupType { fields, .. } => fields,
        Type::PrimitiveType { .. } => &[],
    }
}

/// The kind of the values of a column of this type.
fn column_kind(of: &Type) -> ColumnKind {
    let info = of.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    if !of.is_primitive() {
        let fields = fields(of)
            .iter()
            .map(|field| (field.name().to_owned(), column_kind(field)))
            .collect();
        let is_list = info.converted_type() == ConvertedType::LIST
            || matches!(info.logical_type_ref(), Some(LogicalType::List));
        return match is_repeated || is_list {
            true => ColumnKind::List(fields),
            false => ColumnKind::Group(fields),
        };
    }
    let kind = match of.get_physical_type() {
        Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => ColumnKind::Primitive,
        Physical::INT32 | Physical::INT64 if is_number(of) => ColumnKind::Primitive,
        Physical::FIXED_LEN_BYTE_ARRAY
            if matches!(info.logical_type_ref(), Some(LogicalType::Float16)) =>
        {
            ColumnKind::Primitive
        }
        Physical::BYTE_ARRAY if is_text(of) => ColumnKind::Text,
        _ => match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::Decimal(_)), _) | (_, ConvertedType::DECIMAL) => {
                ColumnKind::Other("decimal".to_owned())
            }
            (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => {
                ColumnKind::Other("date".to_owned())
            }
            _ => match of.get_physical_type() {
                Physical::BYTE_ARRAY => ColumnKind::Bytes,
                Physical::FIXED_LEN_BYTE_ARRAY => ColumnKind::FixedBytes,
                _ => ColumnKind::Other("time".to_owned()),
            },
        },
    };
    match is_repeated {
        true => ColumnKind::List(vec![(of.name().to_owned(), kind)]),
        false => kind,
    }
}

/// Whether a byte-array column is text.
fn is_text(of: &Type) -> bool {
    let info = of.get_basic_info();
    matches!(
        info.logical_type_ref(),
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
    ) || matches!(
        info.converted_type(),
        ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
    )
}

/// Whether an integer column is plain numbers, and not dates, times or decimals.
fn is_number(of: &Type) -> bool {
    let info = of.get_basic_info();
    !matches!(
        info.logical_type_ref(),
        Some(
            LogicalType::Date
                | LogicalType::Time(_)
                | LogicalType::Timestamp(_)
                | LogicalType::Decimal(_)
        )
    ) && matches!(
        info.converted_type(),
        ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
            | ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    )
}

/// Names of the labels in a column, if the file has them in the form that the library `datasets`
/// writes.
pub(crate) fn class_names(file: &ParquetFile, label: &str) -> Vec<String> {
    let said = file.metadata().file_metadata().key_value_metadata();
    let text = said.and_then(|pairs| {
        pairs
            .iter()
            .find(|pair| pair.key == FEATURES_KEY)?
            .value
            .as_deref()
    });
    text.map(|text| class_names_from_features(text, label))
        .unwrap_or_default()
}
