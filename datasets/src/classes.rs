//! Numbers class names: those that were found, in sorted order, or those of a given list.
//! Names are sorted byte by byte, so labels are the same on every machine and in every locale.
//! A name that is not in a given list is an error.

use std::collections::{BTreeSet, HashMap};

use framespool::error::{Error, Result};

use crate::column_value::shortened;

/// Class names in the order of their labels, and the label of each name.
pub(crate) struct Classes {
    pub names: Vec<String>,
    labels: HashMap<String, i64>,
}

impl Classes {
    /// Sorts these names and removes duplicates.
    pub(crate) fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<String> = names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(str::to_owned)
            .collect();
        Self::numbered(names)
    }

    /// The given names in their order, or else the found ones, sorted.
    pub(crate) fn given_or<'a>(
        given: Option<&[String]>,
        found: impl Iterator<Item = &'a str>,
    ) -> Result<Self> {
        let Some(given) = given else {
            return Ok(Self::sorted(found));
        };
        let classes = Self::numbered(given.to_vec());
        let repeated = given
            .iter()
            .zip(0..)
            .find(|(name, place)| classes.labels.get(*name) != Some(place));
        if let Some((name, _)) = repeated {
            return Err(Error::Argument(format!(
                "classes must be distinct, got '{}' twice",
                shortened(name)
            )));
        }
        Ok(classes)
    }

    /// These names in their order, the first with label 0.
    pub(crate) fn numbered(names: Vec<String>) -> Self {
        let labels = names.iter().cloned().zip(0..).collect();
        Self { names, labels }
    }

    /// The label of a name.
    pub(crate) fn label(&self, name: &str) -> Result<i64, String> {
        self.labels.get(name).copied().ok_or_else(|| {
            format!(
                "'{}' is not one of the {} classes",
                shortened(name),
                self.names.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_indices_in_sorted_order_by_default() {
        let classes = Classes::sorted(["b", "Z", "b", "a"].into_iter());
        assert_eq!(
            (classes.names.join(" "), classes.label("b")),
            ("Z a b".to_owned(), Ok(2))
        );
        let given = ["b".to_owned(), "a".to_owned()];
        let classes = Classes::given_or(Some(&given), ["a"].into_iter()).unwrap();
        assert_eq!(
            (
                classes.label("b"),
                classes.label("c").unwrap_err().contains("'c'")
            ),
            (Ok(0), true)
        );
        assert!(
            Classes::given_or(Some(&[given[0].clone(), given[0].clone()]), [].into_iter()).is_err()
        );
    }
}
