//! The tables of a LeRobot dataset: states, actions and other numbers of each frame.

use std::path::Path;

use framespool::error::Result;

use super::parquet_files_below;
use crate::column_value::Value;
use crate::parquet::for_each_row;

/// Folder of the tables.
const DATA: &str = "data";

/// Type of the numbers of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// 32-bit floating point.
    Float32,
    /// 64-bit floating point.
    Float64,
    /// 64-bit integers.
    Int64,
    /// Bytes that are 0 or 1.
    Bool,
}

impl NumberType {
    /// Appends a number; the reason if the value is none of this type.
    fn push(self, value: &Value, bytes: &mut Vec<u8>) -> Result<(), String> {
        let wrong = || format!("is {}", value.shown());
        match (self, value) {
            (Self::Float32, value) => {
                bytes.extend((value.as_f64().ok_or_else(wrong)? as f32).to_ne_bytes())
            }
            (Self::Float64, value) => bytes.extend(value.as_f64().ok_or_else(wrong)?.to_ne_bytes()),
            (Self::Int64, Value::Integer(number)) => bytes.extend(number.to_ne_bytes()),
            (Self::Bool, Value::Bool(set)) => bytes.push(u8::from(*set)),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Appends all numbers of nested lists; returns how many there are.
    fn push_all(self, value: &Value, bytes: &mut Vec<u8>) -> Result<usize, String> {
        match value {
            Value::List(values) => values.iter().map(|value| self.push_all(value, bytes)).sum(),
            single => self.push(single, bytes).map(|()| 1),
        }
    }
}

/// Reads features of all frames from the tables under `data`: for each feature its numbers, row
/// after row, in the order of the column `index`, which must count from 0. `features` are names,
/// types and numbers of values per row.
///
/// # Errors
/// `Argument` for a row that does not have what `features` states, with file and row, and for rows
/// that are missing; the errors of reading Parquet files.
pub fn lerobot_tables(
    root: &Path,
    features: &[(String, NumberType, usize)],
) -> Result<Vec<Vec<u8>>> {
    let mut needed: Vec<String> = features.iter().map(|(name, ..)| name.clone()).collect();
    needed.push("index".to_owned());
    let mut found = vec![Vec::new(); features.len()];
    let mut next = 0;
    for file in parquet_files_below(&root.join(DATA))? {
        for_each_row(&file, &needed, &[], |_, values| {
            if values.last() != Some(&Value::Integer(next)) {
                let index = values.last().map_or_else(String::new, Value::shown);
                return Err(format!(
                    "index is {index}, expected {next}: files are missing or not in order"
                ));
            }
            next += 1;
            for (((name, kind, width), value), bytes) in
                features.iter().zip(&values).zip(&mut found)
            {
                let count = kind
                    .push_all(value, bytes)
                    .map_err(|reason| format!("{name} {reason}"))?;
                if count != *width {
                    return Err(format!(
                        "{name} has {count} numbers, info.json says {width}"
                    ));
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}
