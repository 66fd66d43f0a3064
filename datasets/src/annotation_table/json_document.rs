//! Reads the records of a JSON document: a list of objects, or an object of them, each with a list of parts or not.

use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::display_name;

use super::description::JsonLayout;
use super::records::{Cells, Position, Records};
use crate::column_value::{shortened, ColumnsBuilder, Value};
use crate::lines::read_json;

type Items = Vec<(String, Value)>;

/// Reads the records of a file.
pub(super) fn read(path: &Path, layout: &JsonLayout, records: &mut Records) -> Result<()> {
    let JsonLayout { record, at, keyed, id, value, parts } = layout;
    let file = display_name(path);
    let document = read_json(path)?;
    let found = match at {
        Some(at) => document.get(at).cloned().unwrap_or(Value::Null),
        None => document,
    };
    let items: Vec<(Option<String>, Value)> = match (found, keyed) {
        (Value::Map(items), true) => items.into_iter().map(|(key, item)| (Some(key), item)).collect(),
        (Value::List(items), false) => items.into_iter().map(|item| (None, item)).collect(),
        (other, _) => {
            let (form, example) = match keyed {
                true => ("an object with a key", format!("{{\"{id}\": …, …}}")),
                false => ("a list with an object", format!("[{{\"{id}\": …}}, …]")),
            };
            let (found, example) = match at {
                Some(at) => (format!("has no \"{at}\" that is"), format!("{{\"{at}\": {example}}}")),
                None => (format!("is {}, not", other.shown()), example),
            };
            let text = format!("{file} {found} {form} for each {record}; write {example}");
            return Err(Error::Argument(text));
        }
    };
    let (mut columns, mut count) = (ColumnsBuilder::default(), 0);
    for (number, (key, item)) in (0..).zip(items) {
        let name = key.as_deref().map_or(String::new(), |key| format!(" (id {})", shortened(key)));
        let place = format!("{file}, {record} {number}{name}");
        let wrong = |reason: String| Error::Argument(format!("{place}{reason}"));
        let mut own: Items = key.map(|key| (id.clone(), Value::Text(key))).into_iter().collect();
        match (item, value) {
            (Value::Map(items), _) => {
                let taken = own.len();
                own.extend(items.into_iter().filter(|(name, _)| taken == 0 || name != id));
            }
            (item, Some(name)) => own.push((name.clone(), item)),
            (item, None) => return Err(wrong(format!(": is {}, not an object", item.shown()))),
        }
        let mut add = |part: Option<u32>, items: &mut dyn Iterator<Item = (String, Value)>| {
            for (name, value) in items {
                columns.set(count, &name, value).map_err(|reason| wrong(format!(": {reason}")))?;
            }
            records.positions.push(Position { file: records.files.len() as u32, number, part });
            count += 1;
            Ok::<(), Error>(())
        };
        let place_of_parts = parts.as_ref().and_then(|(key, _)| own.iter().position(|(name, _)| name == key));
        let found = match (parts, place_of_parts.map(|place| own.remove(place).1)) {
            (Some((_, part)), Some(Value::List(found))) => {
                found.into_iter().map(|item| (part, item)).collect()
            }
            (Some((key, _)), Some(other)) if other != Value::Null => {
                return Err(wrong(format!(", \"{key}\": is {}, not a list", other.shown())))
            }
            _ => Vec::new(),
        };
        if found.is_empty() {
            add(None, &mut own.into_iter())?;
            continue;
        }
        for (number, (part, item)) in (0..).zip(found) {
            let Value::Map(items) = item else {
                return Err(wrong(format!(", {part} {number}: is {}, not an object", item.shown())));
            };
            let renamed = items.into_iter().map(|(name, value)| {
                let is_taken = own.iter().any(|(own, _)| *own == name);
                (if is_taken { format!("{part}_{name}") } else { name }, value)
            });
            add(Some(number), &mut own.iter().cloned().chain(renamed))?;
        }
    }
    let columns = columns.finish(count);
    records.names = columns.iter().map(|column| column.name.clone()).collect();
    records.columns = columns.into_iter().map(|column| Cells::Values(column.values)).collect();
    let part = parts.as_ref().map_or(String::new(), |(_, part)| part.clone());
    records.json = Some((record.clone(), part, id.clone()));
    Ok(())
}
