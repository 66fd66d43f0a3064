//! The records of annotation files, column by column, and their positions for messages.
//! A column of text is one string: a million records take no allocation each.

use std::borrow::Cow;
use std::path::PathBuf;

use framespool::error::{Error, Result};
use framespool::source::display_name;

use super::description::ColumnType;
use crate::column_value::{Column, Value, integer_of, shortened};

/// Records of one or several files.
#[derive(Default)]
pub(super) struct Records {
    pub files: Vec<PathBuf>,
    pub positions: Vec<Position>,
    pub names: Vec<String>,
    pub columns: Vec<Cells>,
    /// For records of JSON documents: what a record and a part of it are called, and the column
    /// that identifies it.
    pub json: Option<(String, String, String)>,
}

/// Where a record is: the file, the line from 1 (of a JSON document, the record from 0), and the
/// part of the record.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub file: u32,
    pub number: u64,
    pub part: Option<u32>,
}

/// The cells of a column.
pub(super) enum Cells {
    Text(TextCells),
    Values(Vec<Value>),
}

/// Fields of a text file, one after another. An empty field is a missing value.
#[derive(Default)]
pub(super) struct TextCells {
    text: String,
    ends: Vec<usize>,
}

impl TextCells {
    pub(super) fn push(&mut self, field: &str) {
        self.text.push_str(field);
        self.ends.push(self.text.len());
    }

    fn get(&self, row: usize) -> &str {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[row]]
    }

    fn typed(&self, name: &str, infer_lists: bool) -> Vec<Value> {
        Column::of_fields(name, self.iter(), infer_lists).values
    }

    fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.ends.len()).map(|row| self.get(row))
    }
}

impl Cells {
    /// The text of a cell; `None` if it has no value.
    pub(super) fn text(&self, row: usize) -> Option<Cow<'_, str>> {
        match self {
            Cells::Text(cells) => Some(cells.get(row))
                .filter(|text| !text.is_empty())
                .map(Cow::Borrowed),
            Cells::Values(values) => match &values[row] {
                Value::Null => None,
                Value::Text(text) => Some(Cow::Borrowed(text)),
                Value::Float(number) => Some(Cow::Owned(number.to_string())),
                other => Some(Cow::Owned(other.shown())),
            },
        }
    }

    /// Equal for cells with the same text: the text, or the bits of a number, which take less time.
    pub(super) fn key(&self, row: usize) -> Result<Option<Cow<'_, str>>, u64> {
        if let Cells::Values(values) = self
            && let Value::Float(number) = values[row]
        {
            return Err(number.to_bits());
        }
        Ok(self.text(row))
    }

    /// Whether a cell has no value.
    pub(super) fn is_missing(&self, row: usize) -> bool {
        match self {
            Cells::Text(cells) => cells.get(row).is_empty(),
            Cells::Values(values) => values[row] == Value::Null,
        }
    }

    /// The value of a cell as it is in the file.
    pub(super) fn value(&self, row: usize) -> Cow<'_, Value> {
        match self {
            Cells::Values(values) => Cow::Borrowed(&values[row]),
            Cells::Text(_) => Cow::Owned(
                self.text(row)
                    .map_or(Value::Null, |text| Value::Text(text.into())),
            ),
        }
    }

    /// The number in a cell.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        let number = match self {
            Cells::Text(cells) => cells.get(row).parse().ok(),
            Cells::Values(values) => values[row].as_f64(),
        };
        number.filter(|number: &f64| number.is_finite())
    }

    /// The values of a column, as numbers if all of its fields are numbers.
    pub(crate) fn into_typed(self, name: &str, infer_lists: bool) -> Vec<Value> {
        match self {
            Cells::Values(values) => values,
            Cells::Text(cells) => cells.typed(name, infer_lists),
        }
    }

    /// The integer in a cell; "12.0" is one.
    pub(super) fn integer(&self, row: usize) -> Option<i64> {
        match self {
            Cells::Values(values) => match values[row] {
                Value::Integer(number) => Some(number),
                Value::Text(ref text) => integer_of(text),
                _ => None,
            },
            Cells::Text(cells) => integer_of(cells.get(row)),
        }
    }
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn column(&self, name: &str) -> Option<&Cells> {
        self.names
            .iter()
            .position(|known| known == name)
            .map(|place| &self.columns[place])
    }

    /// The cells of a column, or an error with the columns that exist.
    pub(super) fn needed(&self, name: &str) -> Result<&Cells> {
        self.column(name).ok_or_else(|| self.no_column(name))
    }

    pub(crate) fn no_column(&self, name: &str) -> Error {
        let (source, names) = (self.source(), self.shown_names());
        Error::Argument(format!(
            "{source} has no column '{}'; it has {names}",
            shortened(name)
        ))
    }

    /// Adds the name of a file as the last cell of the records from `begin` on.
    pub(crate) fn push_file_name(&mut self, name: &str, begin: usize) {
        if self.columns.len() == self.names.len() {
            self.columns.push(Cells::Text(TextCells::default()));
        }
        if let Some(Cells::Text(cells)) = self.columns.last_mut() {
            (begin..self.positions.len()).for_each(|_| cells.push(name));
        }
    }

    /// The values of a column, as numbers if all of its fields are numbers.
    pub(super) fn typed(&self, name: &str, infer_lists: bool) -> Option<Cow<'_, [Value]>> {
        Some(match self.column(name)? {
            Cells::Values(values) => Cow::Borrowed(values),
            Cells::Text(cells) => Cow::Owned(cells.typed(name, infer_lists)),
        })
    }

    /// Converts the values of a column.
    pub(super) fn convert(&mut self, name: &str, kind: &ColumnType) -> Result<()> {
        let Some(place) = self.names.iter().position(|known| known == name) else {
            return Ok(());
        };
        let cells = &self.columns[place];
        let value = |row: usize| {
            let Some(text) = cells.text(row) else {
                return match kind {
                    ColumnType::OneOf(words) => Err(self.cell_error(
                        row,
                        name,
                        &format!("is empty; write {}", words.join(" or ")),
                    )),
                    _ => Ok(Value::Null),
                };
            };
            let found = match kind {
                ColumnType::Integer => cells.integer(row).map(Value::Integer),
                ColumnType::Number => cells.number(row).map(Value::Float),
                ColumnType::OneOf(words) => words
                    .iter()
                    .find(|word| **word == text)
                    .map(|word| Value::Text(word.clone())),
            };
            found.ok_or_else(|| {
                let expected = match kind {
                    ColumnType::Integer => "an integer".to_owned(),
                    ColumnType::Number => "a number".to_owned(),
                    ColumnType::OneOf(words) => words.join(" or "),
                };
                let reason = format!("'{}' is not {expected}", shortened(&text));
                self.cell_error(row, name, &reason)
            })
        };
        let mut values = Vec::with_capacity(self.len());
        for row in 0..self.len() {
            values.push(value(row)?);
        }
        self.columns[place] = Cells::Values(values);
        Ok(())
    }

    /// Where a record is, for messages.
    pub(super) fn place(&self, row: usize) -> String {
        let file = display_name(&self.files[self.positions[row].file as usize]);
        format!("{file}, {}", self.place_in_file(row))
    }

    /// Where in its file a record is.
    pub(crate) fn place_in_file(&self, row: usize) -> String {
        let Position { number, part, .. } = self.positions[row];
        let Some((record, part_name, id)) = &self.json else {
            return format!("line {number}");
        };
        let id = self.column(id).and_then(|cells| cells.text(row));
        let id = id.map_or(String::new(), |id| format!(" (id {})", shortened(&id)));
        let part = part.map_or(String::new(), |part| format!(", {part_name} {part}"));
        format!("{record} {number}{id}{part}")
    }

    pub(crate) fn cell_error(&self, row: usize, column: &str, reason: &str) -> Error {
        Error::Argument(format!(
            "{}, column '{}': {reason}",
            self.place(row),
            shortened(column)
        ))
    }

    /// The files, for messages about all of them.
    pub(super) fn source(&self) -> String {
        match &self.files[..] {
            [first, .., last] => format!("{} to {}", display_name(first), display_name(last)),
            [one] => display_name(one).to_string(),
            [] => "no file".to_owned(),
        }
    }

    /// The names of the columns, for messages.
    pub(crate) fn shown_names(&self) -> String {
        shortened(
            &self
                .names
                .iter()
                .map(|name| format!("'{name}'"))
                .collect::<Vec<_>>()
                .join(", "),
        )
    }
}
