//! Python functions for the counters of a loader: their table, and their values as a dict.

use framespool::loader::stats::{COUNTERS, Merge, Stats, Value};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Group, name, meaning, and how values of several engines merge.
type CounterTuple = (&'static str, &'static str, &'static str, &'static str);

/// Returns the table of counters, in the order of `Loader.stats()`.
#[pyfunction]
pub(crate) fn counters() -> Vec<CounterTuple> {
    let merge = |merge| match merge {
        Merge::Sum => "sum",
        Merge::Max => "max",
        Merge::First => "first",
    };
    COUNTERS
        .iter()
        .map(|c| (c.group, c.name, c.meaning, merge(c.merge)))
        .collect()
}

/// Converts the counters to a dict by name.
pub(crate) fn stats_to_dict(py: Python<'_>, stats: Stats) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (counter, value) in COUNTERS.iter().zip(stats.into_values()) {
        match value {
            Value::Count(count) => dict.set_item(counter.name, count)?,
            Value::Seconds(seconds) => dict.set_item(counter.name, seconds)?,
            Value::ByReason(counts) => dict.set_item(counter.name, counts)?,
            Value::Text(text) => dict.set_item(counter.name, text)?,
        }
    }
    Ok(dict)
}
