//! Reads the records of a JSON document: a list of objects, or an object of them, each with a list
//! of parts or not.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Formatter;
use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::display_name;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::description::JsonLayout;
use super::records::{Cells, Position, Records};
use crate::column_value::{Column, ColumnsBuilder, Value, shortened};
use crate::lines::{parse_json, read_text};

type Items = Vec<(String, Value)>;

/// Reads the records of a file.
pub(super) fn read(path: &Path, layout: &JsonLayout, records: &mut Records) -> Result<()> {
    let JsonLayout {
        record,
        at,
        keyed,
        id,
        value,
        parts,
    } = layout;
    let file = display_name(path);
    let part_name = parts.as_ref().map_or("", |(_, part)| part);
    // The records of a further file continue the columns.
    let names = std::mem::take(&mut records.names);
    let before = names
        .into_iter()
        .zip(std::mem::take(&mut records.columns))
        .map(|(name, cells)| {
            let values = cells.into_typed(&name, false);
            Column { name, values }
        });
    let (mut columns, mut count) = (
        ColumnsBuilder::with_columns(before.collect()),
        records.len(),
    );
    let mut add_record = |number: u64, key: Option<&str>, item: Value| {
        let wrong = |reason: String| {
            let name = key.map_or(String::new(), |key| format!(" (id {})", shortened(key)));
            Error::Argument(format!("{file}, {record} {number}{name}{reason}"))
        };
        let mut own: Items = match (item, value) {
            (Value::Map(items), _) => items,
            (item, Some(name)) => vec![(name.clone(), item)],
            (item, None) => return Err(wrong(format!(": is {}, not an object", item.shown()))),
        };
        if let Some(key) = key {
            own.retain(|(name, _)| name != id);
            own.insert(0, (id.clone(), Value::Text(key.to_owned())));
        }
        let mut add =
            |part: Option<u32>, items: &mut dyn Iterator<Item = (Cow<'_, str>, Value)>| {
                for (name, value) in items {
                    columns
                        .set(count, &name, value)
                        .map_err(|reason| wrong(format!(": {reason}")))?;
                }
                records.positions.push(Position {
                    file: records.files.len() as u32,
                    number,
                    part,
                });
                count += 1;
                Ok::<(), Error>(())
            };
        let place_of_parts = parts
            .as_ref()
            .and_then(|(key, _)| own.iter().position(|(name, _)| name == key));
        let found = match (parts, place_of_parts.map(|place| own.remove(place).1)) {
            (Some(_), Some(Value::List(found))) => found,
            (Some((key, _)), Some(other)) if other != Value::Null => {
                return Err(wrong(format!(
                    ", \"{key}\": is {}, not a list",
                    other.shown()
                )));
            }
            _ => Vec::new(),
        };
        if found.is_empty() {
            return add(
                None,
                &mut own
                    .into_iter()
                    .map(|(name, value)| (Cow::Owned(name), value)),
            );
        }
        for (number, item) in (0..).zip(found) {
            let Value::Map(items) = item else {
                return Err(wrong(format!(
                    ", {part_name} {number}: is {}, not an object",
                    item.shown()
                )));
            };
            let renamed = items.into_iter().map(|(name, value)| {
                let is_taken = own.iter().any(|(own, _)| *own == name);
                (
                    Cow::Owned(if is_taken {
                        format!("{part_name}_{name}")
                    } else {
                        name
                    }),
                    value,
                )
            });
            let copied = own
                .iter()
                .map(|(name, value)| (Cow::Borrowed(name.as_str()), value.clone()));
            add(Some(number), &mut copied.chain(renamed))?;
        }
        Ok(())
    };
    let (mut number, mut added) = (0, Ok(()));
    let mut add_next = |key: Option<&str>, item: Value| {
        if added.is_ok() {
            added = add_record(number, key, item);
            number += 1;
        }
    };
    let text = read_text(path)?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let document = Document {
        at: at.as_deref(),
        keyed: *keyed,
        add: &mut add_next,
    };
    if document
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .is_err()
    {
        // An error of the JSON text comes first, wherever it is.
        let document = parse_json(path, &text)?;
        let (form, example) = match keyed {
            true => ("an object with a key", format!("{{\"{id}\": …, …}}")),
            false => ("a list with an object", format!("[{{\"{id}\": …}}, …]")),
        };
        let (found, example) = match at {
            Some(at) => (
                format!("has no \"{at}\" that is"),
                format!("{{\"{at}\": {example}}}"),
            ),
            None => (format!("is {}, not", document.shown()), example),
        };
        let text = format!("{file} {found} {form} for each {record}; write {example}");
        return Err(Error::Argument(text));
    }
    added?;
    let columns = columns.finish(count);
    records.names = columns.iter().map(|column| column.name.clone()).collect();
    records.columns = columns
        .into_iter()
        .map(|column| Cells::Values(column.values))
        .collect();
    records.json = Some((record.clone(), part_name.to_owned(), id.clone()));
    Ok(())
}

/// Adds the records of a document while it is parsed: as values of one list, they would take
/// several times the memory of the columns, and most of the time. Errors only state that there is
/// one: [`parse_json`] finds it again, with its place.
struct Document<'a> {
    at: Option<&'a str>,
    keyed: bool,
    add: &'a mut dyn FnMut(Option<&str>, Value),
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.keyed || self.at.is_some() {
            true => deserializer.deserialize_map(self),
            false => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.add)(None, item);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Document { at, keyed, add } = self;
        let mut names = HashSet::new();
        while let Some(name) = items.next_key::<String>()? {
            match at {
                None => add(Some(&name), items.next_value()?),
                Some(at) if at == name => items.next_value_seed(Document {
                    at: None,
                    keyed,
                    add: &mut *add,
                })?,
                Some(_) => drop(items.next_value::<Value>()?),
            }
            if !names.insert(name) {
                return Err(A::Error::duplicate_field("key"));
            }
        }
        match at {
            Some(at) if !names.contains(at) => Err(A::Error::missing_field("records")),
            _ => Ok(()),
        }
    }
}
