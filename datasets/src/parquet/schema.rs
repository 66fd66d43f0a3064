//! In: what a Parquet file says of its columns. Out: columns by their names, and what kind of values they have.
//! A name may have dots of its own, or lead to a field of a group.
//! Never: looks at values.

use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use super::file::ParquetFile;
use crate::value::Value;

/// The key under which the library `datasets` says what its columns are.
const FEATURES: &str = "huggingface";

/// A column by its name: the names that lead to it, of groups inside groups.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub path_names: Vec<String>,
    kind: TypePtr,
}

impl Named {
    /// The path as the format writes it.
    pub fn path(&self) -> String {
        self.path_names.join(".")
    }

    /// A field of it, where it is a group.
    pub fn field(&self, name: &str) -> Option<Named> {
        let kind = fields(&self.kind).iter().find(|field| field.name() == name)?.clone();
        let path_names = self.path_names.iter().cloned().chain([name.to_owned()]).collect();
        Some(Named { name: format!("{}.{name}", self.name), path_names, kind })
    }

    /// Whether it is the other column, or a group that holds it.
    pub fn leads_to(&self, other: &Named) -> bool {
        other.path_names.starts_with(&self.path_names)
    }

    /// Whether a row has one text of it at most.
    pub fn is_text(&self) -> bool {
        is_text(&self.kind)
    }

    /// Whether a row has one value of it at most, as numbers, flags or text.
    pub fn is_plain(&self) -> bool {
        is_text(&self.kind)
            || self.kind.is_primitive()
                && self.kind.get_basic_info().repetition() != Repetition::REPEATED
                && match self.kind.get_physical_type() {
                    Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => true,
                    Physical::INT32 | Physical::INT64 => {
                        !matches!(
                            self.kind.get_basic_info().logical_type_ref(),
                            Some(
                                LogicalType::Date
                                    | LogicalType::Time(_)
                                    | LogicalType::Timestamp(_)
                                    | LogicalType::Decimal(_)
                            )
                        ) && matches!(
                            self.kind.get_basic_info().converted_type(),
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
                    _ => false,
                }
    }

    /// Whether a row has one byte string of it at most, which is not text.
    pub fn is_bytes(&self) -> bool {
        self.kind.is_primitive()
            && self.kind.get_physical_type() == Physical::BYTE_ARRAY
            && self.kind.get_basic_info().repetition() != Repetition::REPEATED
            && !is_text(&self.kind)
    }
}

/// Whether a type is text.
fn is_text(kind: &Type) -> bool {
    let info = kind.get_basic_info();
    kind.is_primitive()
        && kind.get_physical_type() == Physical::BYTE_ARRAY
        && info.repetition() != Repetition::REPEATED
        && (matches!(
            info.logical_type_ref(),
            Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
        ) || matches!(
            info.converted_type(),
            ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
        ))
}

/// Fields of a group.
pub fn fields(kind: &Type) -> &[TypePtr] {
    match kind {
        Type::GroupType { fields, .. } => fields,
        Type::PrimitiveType { .. } => &[],
    }
}

/// All columns of a file, as they are at the top.
pub fn top(file: &ParquetFile) -> Vec<Named> {
    let root = file.metadata().file_metadata().schema_descr().root_schema_ptr();
    let named = |kind: &TypePtr| Named {
        name: kind.name().to_owned(),
        path_names: vec![kind.name().to_owned()],
        kind: kind.clone(),
    };
    fields(&root).iter().map(named).collect()
}

/// The column of a name: one at the top, or, where the name has dots, a field of a group.
pub fn find(columns: &[Named], name: &str) -> Option<Named> {
    columns.iter().find(|column| column.name == name).cloned().or_else(|| {
        name.match_indices('.').find_map(|(dot, _)| {
            let outer = columns.iter().find(|column| column.name == name[..dot])?;
            let mut inner = Some(outer.clone());
            for part in name[dot + 1..].split('.') {
                inner = inner?.field(part);
            }
            inner
        })
    })
}

/// Names of the labels in a column, where the file says them as the library `datasets` does; else none.
pub fn class_names(path: &Path, label: &str) -> Vec<String> {
    let Ok(file) = ParquetFile::open(path) else { return Vec::new() };
    let said = file.metadata().file_metadata().key_value_metadata();
    let text = said.and_then(|pairs| pairs.iter().find(|pair| pair.key == FEATURES)?.value.as_deref());
    let names = || -> Option<Vec<String>> {
        let said: Value = serde_json::from_str(text?).ok()?;
        let Value::List(names) = said.get("info")?.get("features")?.get(label)?.get("names")? else {
            return None;
        };
        let text = |name: &Value| if let Value::Text(name) = name { Some(name.clone()) } else { None };
        names.iter().map(text).collect()
    };
    names().unwrap_or_default()
}
