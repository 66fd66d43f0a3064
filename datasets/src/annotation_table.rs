//! Reads annotation tables by a description: which columns are path, label and segment, and how
//! classes are numbered. The published datasets and `datasets.csv` of the Python package are such
//! descriptions.

mod delimited;
mod description;
mod groups;
mod json_document;
mod labels;
mod records;
mod segments;

use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

pub use description::TableDescription;

use crate::column_value::{Column, Value, ValueSet, shortened};
use crate::file_lookup::{FileLookup, MissingFiles};
use crate::json_lines::local_path;
use crate::lines::{resolve_path, root_of};
use crate::path_pattern::PathPattern;
use crate::{Dataset, ImageSequencePattern, NO_LABEL, Sample};
use description::{ColumnType, Filter, TableLayout};
use records::{Cells, Records};
use segments::Found;

/// Reads the records of `files`, in their order, as samples. `root` is the base of the paths, by
/// default the folder of the file.
///
/// Whether the videos exist is checked only if that determines their paths. Records are skipped
/// with a note as the description says; all other errors name the file, the line or the record, and
/// the column.
pub fn annotation_table(
    files: &[PathBuf],
    root: Option<&Path>,
    description: &TableDescription,
) -> Result<Dataset> {
    let TableDescription {
        templates,
        template_columns,
        label,
        segment,
        ..
    } = description;
    let known: Vec<&str> = template_columns.iter().map(String::as_str).collect();
    let templates = templates
        .iter()
        .map(|text| PathPattern::parse(text, &known))
        .collect::<Result<Vec<_>>>()?;
    let mut records = read_records(files, &description.layout, description.file_column.as_ref())?;
    check_columns(&records, description, &templates)?;
    for (column, kind) in &description.types {
        records.convert(column, kind)?;
    }
    if let Some(group) = &description.group {
        records = groups::join(records, group)?;
    }
    let labels = label
        .as_ref()
        .map(|label| labels::number(&records, label))
        .transpose()?;
    let rows = filtered(&records, description)?;
    let mut paths = Paths {
        description,
        root,
        templates,
        lookup: FileLookup::default(),
    };
    let (mut samples, mut kept) = (
        Vec::with_capacity(rows.len()),
        Vec::with_capacity(rows.len()),
    );
    let (mut missing, mut empty) = (MissingFiles::default(), (0_u64, String::new()));
    for row in rows {
        let bounds = match segment
            .as_ref()
            .map_or(Ok(Found::Whole), |segment| segment.of(&records, row))
        {
            Ok(Found::Whole) => None,
            Ok(Found::Bounds(bounds)) => Some(bounds),
            Ok(Found::Empty(reason)) => {
                let column = segment.as_ref().map_or("", |segment| &segment.end);
                if !segment.as_ref().is_some_and(|segment| segment.skip_empty) {
                    return Err(records.cell_error(row, column, &reason));
                }
                if empty.0 == 0 {
                    empty.1 = records.place_in_file(row);
                }
                empty.0 += 1;
                continue;
            }
            Err((column, reason)) => return Err(records.cell_error(row, &column, &reason)),
        };
        match paths.find(&records, row)? {
            Ok(path) => {
                let label = labels
                    .as_ref()
                    .map_or(NO_LABEL, |labels| labels.labels[row]);
                let image_sequence =
                    description
                        .frames
                        .as_ref()
                        .map(|(pattern, first, count, fps)| ImageSequencePattern {
                            pattern: pattern.clone(),
                            first: *first,
                            count: *count,
                            fps: *fps,
                        });
                samples.push(Sample {
                    segment: bounds,
                    image_sequence,
                    ..Sample::new(path, label)
                });
                kept.push(row);
            }
            Err(looked_for) => missing.add(|| (records.place(row), looked_for)),
        }
    }
    let mut notes =
        Vec::from_iter(missing.report(&records.source(), description.missing, samples.len())?);
    if empty.0 > 0 {
        let (source, (count, first)) = (records.source(), empty);
        let reason = "segments whose end is not after their start are skipped; the first is";
        notes.push(format!("{source}: {count} {reason} {first}"));
    }
    if samples.is_empty() {
        return Err(nothing_in(&records, &notes));
    }
    let fraction = label
        .as_ref()
        .filter(|_| labels.as_ref().is_some_and(|labels| labels.is_column))
        .map(|label| label.column.as_str());
    if let Some(column) = fraction {
        records.convert(column, &ColumnType::Number)?;
    }
    let columns = columns(records, description, fraction, &kept);
    let classes = labels.map_or(Vec::new(), |labels| labels.classes);
    Ok(Dataset {
        samples,
        classes,
        columns,
        notes,
    })
}

/// Reads the records of all files.
fn read_records(
    files: &[PathBuf],
    layout: &TableLayout,
    file_column: Option<&(String, String)>,
) -> Result<Records> {
    let mut records = Records::default();
    if let Some(names) = &layout.names {
        delimited::set_names(&mut records, names.clone());
    }
    for path in files {
        let before = records.len();
        match &layout.json {
            Some(json) => json_document::read(path, json, &mut records)?,
            None => delimited::read(path, layout, &mut records)?,
        }
        if let Some((_, ending)) = file_column {
            let name = path
                .file_name()
                .map_or("".into(), |name| name.to_string_lossy());
            records.push_file_name(name.strip_suffix(ending.as_str()).unwrap_or(&name), before);
        }
        records.files.push(path.clone());
    }
    if let Some((name, _)) = file_column {
        records.names.push(name.clone());
    }
    match records.len() {
        0 => Err(nothing_in(&records, &[])),
        _ => Ok(records),
    }
}

fn nothing_in(records: &Records, notes: &[String]) -> Error {
    let notes = notes
        .iter()
        .map(|note| format!(" ({note})"))
        .collect::<String>();
    let names = records.shown_names();
    let expected = match &records.json {
        Some((record, ..)) => format!("{record}s"),
        None if names.is_empty() => {
            "a header with the names of the columns, and a row per sample".to_owned()
        }
        None => format!("the columns {names}"),
    };
    Error::Argument(format!(
        "{} has no rows{notes}; expected {expected}",
        records.source()
    ))
}

/// Checks that the columns exist.
fn check_columns(
    records: &Records,
    description: &TableDescription,
    templates: &[PathPattern],
) -> Result<()> {
    let TableDescription {
        path,
        segment,
        filters,
        arguments,
        ..
    } = description;
    let mut needed: Vec<(&str, &str)> = Vec::new();
    needed.extend(
        arguments
            .iter()
            .map(|(column, argument)| (column.as_str(), argument.as_str())),
    );
    needed.extend(path.iter().map(|column| (column.as_str(), "")));
    needed.extend(
        templates
            .iter()
            .take(1)
            .flat_map(PathPattern::names)
            .map(|column| (column, "")),
    );
    for segment in segment
        .iter()
        .filter(|segment| segment.required && records.json.is_none())
    {
        needed.extend([(segment.start.as_str(), ""), (&segment.end, "")]);
    }
    needed.extend(
        filters
            .iter()
            .map(|filter| (filter.column.as_str(), filter.argument.as_str())),
    );
    let Some((column, argument)) = needed
        .into_iter()
        .find(|(column, _)| records.column(column).is_none())
    else {
        return Ok(());
    };
    let argument = if argument.is_empty() {
        String::new()
    } else {
        format!("{argument}: ")
    };
    let other = match &records.names[..] {
        [one] => one.chars().find(|c| [',', ';', '\t', '|'].contains(c)),
        _ => None,
    };
    let hint = match (other, arguments.is_empty()) {
        (Some(other), false) => format!("; pass delimiter={other:?}"),
        (None, false) => String::new(),
        (_, true) if records.json.is_some() => String::new(),
        (_, true) => "; datasets.csv reads tables with other columns".to_owned(),
    };
    Err(Error::Argument(format!(
        "{argument}{}{hint}",
        records.no_column(column)
    )))
}

/// The rows that match all filters.
fn filtered(records: &Records, description: &TableDescription) -> Result<Vec<usize>> {
    let mut rows: Vec<usize> = (0..records.len()).collect();
    for Filter {
        argument,
        column,
        values: wanted,
    } in &description.filters
    {
        let values = records
            .typed(column, description.infer_lists)
            .unwrap_or_default();
        let cells = records.needed(column)?;
        // A number also matches its text: paths and names of classes are texts, also if they look
        // like numbers.
        let set = ValueSet::new(wanted);
        let is_wanted =
            |row: &&usize| set.contains(&values[**row]) || set.contains(&cells.value(**row));
        let left: Vec<usize> = rows.iter().filter(is_wanted).copied().collect();
        if left.is_empty() {
            let mut found: Vec<String> = Vec::new();
            for shown in rows.iter().map(|row| values[*row].shown()) {
                if found.len() <= 8 && !found.contains(&shown) {
                    found.push(shown);
                }
            }
            let more = if found.len() > 8 { ", …" } else { "" };
            found.truncate(8);
            let wanted: Vec<String> = wanted.iter().map(Value::shown).collect();
            return Err(Error::Argument(format!(
                "{argument}: {} has no row with {} in the column '{}'; it has {}{more}",
                records.source(),
                wanted.join(" or "),
                shortened(column),
                found.join(", ")
            )));
        }
        rows = left;
    }
    Ok(rows)
}

/// The columns of the dataset.
fn columns(
    records: Records,
    description: &TableDescription,
    fraction: Option<&str>,
    kept: &[usize],
) -> Vec<Column> {
    let TableDescription { keep, drop, .. } = description;
    let is_kept = |name: &String| {
        let is_fraction = Some(name.as_str()) == fraction;
        is_fraction
            || keep
                .as_ref()
                .map_or_else(|| !drop.contains(name), |keep| keep.contains(name))
    };
    let mut columns: Vec<(String, Cells)> =
        records.names.into_iter().zip(records.columns).collect();
    columns.retain(|(name, _)| is_kept(name));
    if let Some(keep) = keep {
        columns.sort_by_key(|(name, _)| keep.iter().position(|kept| kept == name));
    }
    let column = |(name, cells): (String, Cells)| {
        let mut values = cells.into_typed(&name, description.infer_lists);
        if kept.len() < values.len() {
            values = kept
                .iter()
                .map(|row| std::mem::replace(&mut values[*row], Value::Null))
                .collect();
        }
        Column { name, values }
    };
    columns.into_iter().map(column).collect()
}

/// Finds the paths of records.
struct Paths<'a> {
    root: Option<&'a Path>,
    description: &'a TableDescription,
    templates: Vec<PathPattern>,
    lookup: FileLookup,
}

impl Paths<'_> {
    /// The path for a record, or what was looked for without success.
    fn find(&mut self, records: &Records, row: usize) -> Result<Result<PathBuf, String>> {
        let file = &records.files[records.positions[row].file as usize];
        let root = root_of(file, self.root);
        if let Some(column) = &self.description.path {
            let wrong = |reason: &str| records.cell_error(row, column, reason);
            let cells = records.needed(column)?;
            let text = cells
                .text(row)
                .ok_or_else(|| wrong("is empty; write the path or URL of a video"))?;
            let name = local_path(&text).map_err(|reason| wrong(&reason))?;
            return Ok(Ok(resolve_path(root, Path::new(&*name))));
        }
        let mut looked_for: Vec<String> = Vec::new();
        for template in &self.templates {
            let name = match template.expand(|column| {
                let text = records.column(column)?.text(row)?;
                match self
                    .description
                    .label
                    .as_ref()
                    .filter(|label| label.column == column)
                {
                    Some(label) => Some(label.without_removed(text)),
                    None => Some(text),
                }
            }) {
                Ok(name) => name,
                // A label that cannot be the name of a folder.
                Err(_) if !looked_for.is_empty() => continue,
                Err((column, reason)) => return Err(records.cell_error(row, &column, &reason)),
            };
            let found = match self.templates.len() {
                1 => template.resolve(root, &name, &mut self.lookup)?,
                _ => self.lookup.existing(root.join(&name))?,
            };
            if let Some(path) = found {
                return Ok(Ok(path));
            }
            looked_for.push(template.shown(&name));
        }
        looked_for.dedup();
        Ok(Err(format!(
            "no file {} in {}",
            looked_for.join(" or "),
            root.display()
        )))
    }
}

#[cfg(test)]
mod tests;
