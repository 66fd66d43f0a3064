//! The labels of records, and the names of their classes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use framespool::error::{Error, Result};
use framespool::source::display_name;

use super::description::{ClassFile, Label, LabelContent};
use super::read_records;
use super::records::{Cells, Records};
use crate::NO_LABEL;
use crate::classes::Classes;
use crate::column_value::{is_integer, is_number, shortened};

/// The labels of all records.
pub(super) struct Labels {
    pub labels: Vec<i64>,
    pub classes: Vec<String>,
    /// Labels are numbers with a fraction, which stay a column.
    pub is_column: bool,
}

impl Label {
    /// The text without the characters of `remove`.
    pub(super) fn without_removed<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        let is_removed = |c: char| self.remove.contains(c);
        if text.contains(is_removed) {
            Cow::Owned(text.replace(is_removed, ""))
        } else {
            text
        }
    }
}

/// Numbers the labels of the records.
pub(super) fn number(records: &Records, label: &Label) -> Result<Labels> {
    let given = label
        .classes
        .as_deref()
        .map(|names| Classes::given_or(Some(names), [].into_iter()))
        .transpose()?;
    let known = match (given, &label.class_file) {
        (None, Some(file)) => Some(read_classes(file)?),
        (given, _) => given,
    };
    let unlabeled = vec![NO_LABEL; records.len()];
    let Some(cells) = records.column(&label.column) else {
        let classes = known.map_or(Vec::new(), |known| known.names);
        return Ok(Labels {
            labels: unlabeled,
            classes,
            is_column: false,
        });
    };
    let content = match label.content {
        LabelContent::NamesOrNumbers => kind_of(records, cells, known.as_ref()),
        content => Some(content),
    };
    match content {
        None => Ok(Labels {
            labels: unlabeled,
            classes: Vec::new(),
            is_column: true,
        }),
        Some(LabelContent::Numbers) => numbers(records, label, cells, known),
        Some(_) => names(records, label, cells, known),
    }
}

/// Whether labels are names or numbers, regardless of the name of their column; `None` for numbers
/// with a fraction.
fn kind_of(records: &Records, cells: &Cells, known: Option<&Classes>) -> Option<LabelContent> {
    let all = |is: &dyn Fn(&str) -> bool| {
        (0..records.len())
            .filter_map(|row| cells.text(row))
            .all(|text| is(&text))
    };
    match known {
        Some(known) if all(&|text| known.label(text).is_ok()) => Some(LabelContent::Names),
        _ if all(&is_integer) => Some(LabelContent::Numbers),
        None if all(&is_number) => None,
        _ => Some(LabelContent::Names),
    }
}

fn numbers(
    records: &Records,
    label: &Label,
    cells: &Cells,
    known: Option<Classes>,
) -> Result<Labels> {
    let number = |row: usize| {
        let Some(text) = cells.text(row) else {
            return Ok(NO_LABEL);
        };
        let wrong = |reason: String| records.cell_error(row, &label.column, &reason);
        let number = cells.integer(row);
        let number =
            number.ok_or_else(|| wrong(format!("'{}' is not an integer", shortened(&text))))?;
        match &known {
            Some(known)
                if number != NO_LABEL && !(0..known.names.len() as i64).contains(&number) =>
            {
                Err(wrong(format!(
                    "{number} is not the number of one of the {} classes{}",
                    known.names.len(),
                    of_file(label)
                )))
            }
            _ => Ok(number),
        }
    };
    let labels = (0..records.len()).map(number).collect::<Result<_>>()?;
    Ok(Labels {
        labels,
        classes: known.map_or(Vec::new(), |known| known.names),
        is_column: false,
    })
}

fn names(
    records: &Records,
    label: &Label,
    cells: &Cells,
    known: Option<Classes>,
) -> Result<Labels> {
    let is_folder = label.content == LabelContent::Folder;
    let text = |row: usize| match cells.text(row)? {
        Cow::Borrowed(text) if is_folder => Some(Cow::Borrowed(
            text.split_once('/').map_or("", |(folder, _)| folder),
        )),
        text => Some(text),
    };
    let name = |text| {
        let name = if is_folder {
            text
        } else {
            label.without_removed(text)
        };
        Some(name).filter(|name| !name.is_empty() || is_folder)
    };
    let classes = match known {
        Some(known) => known,
        None => {
            let texts: HashSet<_> = (0..records.len()).filter_map(text).collect();
            let found: Vec<_> = texts.into_iter().filter_map(name).collect();
            Classes::sorted(found.iter().map(|name| &**name))
        }
    };
    let numbers = label
        .number
        .as_deref()
        .and_then(|name| Some((name, records.column(name)?)));
    let mut number_of: HashMap<Cow<'_, str>, i64> = HashMap::new();
    let labels = (0..records.len()).map(|row| {
        let Some(text) = text(row) else {
            return Ok(NO_LABEL);
        };
        let wrong = |column: &str, reason: String| records.cell_error(row, column, &reason);
        let number = match number_of.get(&text) {
            Some(number) => *number,
            None => {
                let Some(name) = name(text.clone()) else {
                    return Ok(NO_LABEL);
                };
                if name.is_empty() {
                    let path = cells.text(row).unwrap_or_default();
                    let reason = format!(
                        "'{}' has no class folder; write Class/video.avi",
                        shortened(&path)
                    );
                    return Err(wrong(&label.column, reason));
                }
                let number = classes.label(&name);
                let number = number.map_err(|reason| {
                    wrong(&label.column, format!("{reason}{}", of_file(label)))
                })?;
                *number_of.entry(text).or_insert(number)
            }
        };
        let Some((column, text)) =
            numbers.and_then(|(column, cells)| Some((column, cells.text(row)?)))
        else {
            return Ok(number);
        };
        let in_file = number + label.class_file.as_ref().map_or(0, |file| file.first);
        if text.parse() == Ok(in_file) {
            return Ok(number);
        }
        let (name, file, text) = (
            &classes.names[number as usize],
            of_file(label),
            shortened(&text),
        );
        let reason = "the lists do not belong together";
        Err(wrong(
            column,
            format!("class {name} is number {in_file}{file}, but the line has {text}; {reason}"),
        ))
    });
    Ok(Labels {
        labels: labels.collect::<Result<_>>()?,
        classes: classes.names,
        is_column: false,
    })
}

/// The file of the classes, for messages.
fn of_file(label: &Label) -> String {
    match (&label.class_file, &label.classes) {
        (Some(file), None) => format!(" of {}", display_name(&file.path)),
        _ => String::new(),
    }
}

/// The classes of a file. Their numbers must be consecutive.
fn read_classes(file: &ClassFile) -> Result<Classes> {
    let records = read_records(std::slice::from_ref(&file.path), &file.layout, None)?;
    let cells = records.needed(&file.name)?;
    let mut rows: Vec<(i64, usize)> = (file.first..).zip(0..records.len()).collect();
    if let Some(column) = &file.number {
        let cells = records.needed(column)?;
        for (number, row) in &mut rows {
            let text = cells.text(*row).unwrap_or_default();
            let reason = || {
                format!(
                    "'{}' is not the number of a class; write {} and so on",
                    shortened(&text),
                    file.first
                )
            };
            *number = cells
                .integer(*row)
                .ok_or_else(|| records.cell_error(*row, column, &reason()))?;
        }
        rows.sort_unstable();
        for (expected, (number, row)) in (file.first..).zip(&rows) {
            if *number != expected {
                let reason = format!(
                    "found class {number}, expected class {expected}; number classes from {}",
                    file.first
                );
                return Err(records.cell_error(*row, column, &reason));
            }
        }
    }
    let name = |(_, row): &(i64, usize)| {
        let name = cells.text(*row).map(Cow::into_owned);
        name.ok_or_else(|| {
            records.cell_error(*row, &file.name, "is empty; write the name of a class")
        })
    };
    let names = rows.iter().map(name).collect::<Result<Vec<_>>>()?;
    Classes::given_or(Some(&names), [].into_iter())
        .map_err(|error| Error::Argument(format!("{}: {error}", display_name(&file.path))))
}
