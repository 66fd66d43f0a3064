//! Joins records to samples with lists of their values, such as the boxes and actions of a key frame.

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
        lists.push((columns.iter().map(cells).collect::<Result<Vec<_>>>()?, columns, *missing));
    }
    let (mut firsts, mut places) = (Vec::new(), HashMap::new());
    let mut joined: Vec<Vec<Vec<Value>>> = vec![Vec::new(); lists.len()];
    for row in 0..records.len() {
        let key: Vec<_> = by.iter().map(|cells| cells.text(row).map(|text| text.into_owned())).collect();
        let place = *places.entry(key).or_insert_with(|| {
            firsts.push(row);
            joined.iter_mut().for_each(|list| list.push(Vec::new()));
            firsts.len() - 1
        });
        if lists.iter().all(|(cells, ..)| cells.iter().all(|cells| cells.text(row).is_none())) {
            continue;
        }
        for (list, (cells, columns, missing)) in joined.iter_mut().zip(&lists) {
            let mut values = Vec::with_capacity(cells.len());
            for (cells, column) in cells.iter().zip(*columns) {
                values.push(match (cells.value(row).into_owned(), missing) {
                    (Value::Null, Some(missing)) => Value::Integer(*missing),
                    (Value::Null, None) => {
                        return Err(records.cell_error(row, column, "is empty; write a number"))
                    }
                    (value, _) => value,
                });
            }
            list[place].push(if values.len() == 1 { values.remove(0) } else { Value::List(values) });
        }
    }
    let keys = by.iter().map(|cells| firsts.iter().map(|row| cells.value(*row).into_owned()).collect());
    let lists = joined.into_iter().map(|list| list.into_iter().map(Value::List).collect());
    Ok(Records {
        columns: keys.chain(lists).map(Cells::Values).collect(),
        names: group.by.iter().chain(group.lists.iter().map(|(name, ..)| name)).cloned().collect(),
        positions: firsts.iter().map(|row| records.positions[*row]).collect(),
        files: records.files,
        json: records.json,
    })
}
