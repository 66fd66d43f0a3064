//! Joins records to samples with lists of their values, such as the boxes and actions of a key
//! frame.

use std::collections::HashMap;

use framespool::error::Result;

use super::description::Group;
use super::records::{Cells, Records};
use crate::column_value::Value;

/// The samples as records, with the columns of `group`.
pub(super) fn join(records: Records, group: &Group) -> Result<Records> {
    let cells = |name: &String| records.needed(name);
    let by = group.by.iter().map(cells).collect::<Result<Vec<_>>>()?;
    let mut lists = Vec::new();
    for (_, columns, missing) in &group.lists {
        lists.push((
            columns.iter().map(cells).collect::<Result<Vec<_>>>()?,
            columns,
            *missing,
        ));
    }
    let (mut firsts, mut places) = (Vec::new(), HashMap::new());
    let mut joined: Vec<Vec<Vec<Value>>> = vec![Vec::new(); lists.len()];
    let mut place = 0;
    for row in 0..records.len() {
        // Records of a sample usually follow each other.
        if row == 0 || by.iter().any(|cells| cells.key(row) != cells.key(row - 1)) {
            let key: Vec<_> = by.iter().map(|cells| cells.key(row)).collect();
            place = *places.entry(key).or_insert_with(|| {
                firsts.push(row);
                joined.iter_mut().for_each(|list| list.push(Vec::new()));
                firsts.len() - 1
            });
        }
        if lists
            .iter()
            .all(|(cells, ..)| cells.iter().all(|cells| cells.is_missing(row)))
        {
            continue;
        }
        for (list, (cells, columns, missing)) in joined.iter_mut().zip(&lists) {
            let value = |(cells, column): (&&Cells, &String)| match (
                cells.value(row).into_owned(),
                missing,
            ) {
                (Value::Null, Some(missing)) => Ok(Value::Integer(*missing)),
                (Value::Null, None) => {
                    Err(records.cell_error(row, column, "is empty; write a number"))
                }
                (value, _) => Ok(value),
            };
            let mut values = cells.iter().zip(columns.iter()).map(value);
            list[place].push(match cells.len() {
                1 => values.next().transpose()?.unwrap_or(Value::Null),
                _ => Value::List(values.collect::<Result<_>>()?),
            });
        }
    }
    let keys = by.iter().map(|cells| {
        firsts
            .iter()
            .map(|row| cells.value(*row).into_owned())
            .collect()
    });
    let lists = joined
        .into_iter()
        .map(|list| list.into_iter().map(Value::List).collect());
    Ok(Records {
        columns: keys.chain(lists).map(Cells::Values).collect(),
        names: group
            .by
            .iter()
            .chain(group.lists.iter().map(|(name, ..)| name))
            .cloned()
            .collect(),
        positions: firsts.iter().map(|row| records.positions[*row]).collect(),
        files: records.files,
        json: records.json,
    })
}
