//! Values that a list gives for its samples besides source and label, and columns of them. A column
//! is as long as its dataset, with [`Value::Null`] where a sample has no value. The order of keys
//! is kept.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Maximum number of columns. Objects whose keys are data would make one column each, as long as
/// the dataset.
pub(crate) const MAX_COLUMNS: usize = 1024;
/// Number of keys of an object that are compared with each other; more are put in a set.
const MAX_COMPARED_KEYS: usize = 16;

/// A value in a list: the JSON types, with object keys in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value, or JSON's `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    Integer(i64),
    /// An integer beyond [`i64::MAX`].
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    Text(String),
    /// Several values.
    List(Vec<Value>),
    /// Named values, without duplicate names.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The value of a name, unless it is absent or [`Value::Null`].
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let Value::Map(items) = self else { return None };
        items
            .iter()
            .find(|(key, value)| key == name && *value != Value::Null)
            .map(|(_, value)| value)
    }

    /// Any numeric value as a float.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Integer(number) => Some(number as f64),
            Value::Unsigned(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    /// A number that can be looked up: the same number of another type has an equal one.
    fn number_key(&self) -> Option<NumberKey> {
        match *self {
            Value::Integer(number) => Some(NumberKey::Integer(number.into())),
            Value::Unsigned(number) => Some(NumberKey::Integer(number.into())),
            // Integers are compared as such: a float has not all digits of them.
            Value::Float(number) if number.fract() == 0.0 && number.abs() <= u64::MAX as f64 => {
                Some(NumberKey::Integer(number as i128))
            }
            Value::Float(number) => Some(NumberKey::Float(number.to_bits())),
            _ => None,
        }
    }

    /// A list of integers.
    pub(crate) fn integers(numbers: impl IntoIterator<Item = i64>) -> Self {
        Value::List(numbers.into_iter().map(Value::Integer).collect())
    }

    /// A short form of the value for error messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Unsigned(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"), // 1.0 is no integer
            Value::Text(text) => format!("'{}'", shortened(text)),
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Map(items) => format!("an object of {} keys", items.len()),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum NumberKey {
    Integer(i128),
    Float(u64),
}

/// Values in which others are looked up. Numbers of different types are equal if they are the same
/// number.
pub(crate) struct ValueSet<'a> {
    numbers: HashSet<NumberKey>,
    texts: HashSet<&'a str>,
    others: Vec<&'a Value>,
}

impl<'a> ValueSet<'a> {
    pub(crate) fn new(values: &'a [Value]) -> Self {
        let (mut numbers, mut texts, mut others) = (HashSet::new(), HashSet::new(), Vec::new());
        for value in values {
            match (value, value.number_key()) {
                (_, Some(number)) => drop(numbers.insert(number)),
                (Value::Text(text), None) => drop(texts.insert(text.as_str())),
                (other, None) => others.push(other),
            }
        }
        Self {
            numbers,
            texts,
            others,
        }
    }

    pub(crate) fn contains(&self, value: &Value) -> bool {
        match (value, value.number_key()) {
            (_, Some(number)) => self.numbers.contains(&number),
            (Value::Text(text), None) => self.texts.contains(text.as_str()),
            (other, None) => self.others.contains(&other),
        }
    }
}

/// The first 80 characters of a text, for error messages.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Unsigned(number), Value::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (mut map, mut names): (Vec<(String, Value)>, _) = (Vec::new(), HashSet::new());
        while let Some((name, value)) = items.next_entry::<String, Value>()? {
            // The objects of a list have few keys: comparing these takes less time than a set for
            // each object.
            let is_repeated = if map.len() < MAX_COMPARED_KEYS {
                map.iter().any(|(known, _)| *known == name)
            } else {
                if names.is_empty() {
                    names.extend(map.iter().map(|(known, _)| known.clone()));
                }
                !names.insert(name.clone())
            };
            // Most parsers keep the last value of a duplicate key and lose the others.
            if is_repeated {
                return Err(A::Error::custom(format!(
                    "key \"{}\" appears twice",
                    shortened(&name)
                )));
            }
            map.push((name, value));
        }
        Ok(Value::Map(map))
    }
}

/// The values of all samples under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name as given in the file.
    pub name: String,
    /// One value per sample.
    pub values: Vec<Value>,
}

impl Column {
    /// A column of text fields. They become integers, numbers or (with `lists`) lists of integers
    /// if all non-empty fields are such, and text otherwise; an empty field is missing. A column
    /// named as an id stays text.
    pub(crate) fn of_fields<'a>(
        name: &str,
        fields: impl Iterator<Item = &'a str> + Clone,
        lists: bool,
    ) -> Self {
        let id = name == "id" || name.ends_with("_id");
        let kinds: [fn(&str) -> Option<Value>; 3] = [integer, number, integer_list];
        let kinds = &kinds[..if id { 0 } else { 2 + usize::from(lists) }];
        let values_of = |kind: fn(&str) -> Option<Value>| {
            let mut values = Vec::with_capacity(fields.size_hint().0);
            for field in fields.clone() {
                values.push(if field.is_empty() {
                    Value::Null
                } else {
                    kind(field)?
                });
            }
            Some(values)
        };
        let values = kinds.iter().find_map(|kind| values_of(*kind));
        let values = values.or_else(|| values_of(|field| Some(Value::Text(field.to_owned()))));
        Column {
            name: name.to_owned(),
            values: values.unwrap_or_default(),
        }
    }
}

/// An integer; "12.0" is one, since spreadsheets and data frames write integers as floats.
pub(crate) fn integer_of(text: &str) -> Option<i64> {
    without_zero_fraction(text).parse().ok()
}

/// Whether a text is an integer and no name: "12" and "12.0", but not "012".
pub(crate) fn is_integer(text: &str) -> bool {
    integer(without_zero_fraction(text)).is_some()
}

/// Whether a text is a number and no name.
pub(crate) fn is_number(text: &str) -> bool {
    number(text).is_some()
}

fn without_zero_fraction(text: &str) -> &str {
    text.split_once('.')
        .filter(|(_, rest)| rest.bytes().all(|b| b == b'0'))
        .map_or(text, |(digits, _)| digits)
}

/// An integer in canonical form: "007" is a name.
fn integer(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = !digits.starts_with(['0', '+']) || text == "0";
    text.parse()
        .ok()
        .filter(|_| is_canonical)
        .map(Value::Integer)
}

/// A finite decimal number, excluding the other forms that Rust parses ("inf", "nan").
fn number(text: &str) -> Option<Value> {
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let padded = text
        .trim_start_matches('-')
        .strip_prefix('0')
        .is_some_and(|t| t.starts_with(|c: char| c.is_ascii_digit()));
    // A float would not keep all digits of a long number, such as a hash.
    let fits = |number: i64| number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
    let long = !text.contains(['.', 'e', 'E']) && !text.parse().is_ok_and(fits);
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number
        .filter(|_| plain && !padded && !long)
        .map(Value::Float)
}

fn integer_list(text: &str) -> Option<Value> {
    serde_json::from_str::<Vec<i64>>(text)
        .ok()
        .map(Value::integers)
}

/// Columns that are filled sample by sample. A name may first occur late, and may be absent in some
/// samples.
#[derive(Default)]
pub(crate) struct ColumnsBuilder {
    columns: Vec<Column>,
    positions: HashMap<String, usize>,
    /// Position after the last one: most samples have the same names in the same order.
    next: usize,
}

impl ColumnsBuilder {
    /// Continues these columns.
    pub(crate) fn with_columns(columns: Vec<Column>) -> Self {
        let positions = columns
            .iter()
            .enumerate()
            .map(|(position, column)| (column.name.clone(), position))
            .collect();
        Self {
            columns,
            positions,
            next: 0,
        }
    }

    /// Sets the value of a sample under `name`; sample numbers must not decrease.
    pub(crate) fn set(&mut self, sample: usize, name: &str, value: Value) -> Result<(), String> {
        let is_next = self
            .columns
            .get(self.next)
            .is_some_and(|column| column.name == name);
        let known = if is_next {
            Some(self.next)
        } else {
            self.positions.get(name).copied()
        };
        let position = match known {
            Some(position) => position,
            None if self.columns.len() == MAX_COLUMNS => {
                return Err(format!(
                    "'{}' would be column {}, and a dataset has at most {MAX_COLUMNS}; put keys that differ \
                     from sample to sample under one key",
                    shortened(name),
                    MAX_COLUMNS + 1
                ));
            }
            None => {
                self.columns.push(Column {
                    name: name.to_owned(),
                    values: Vec::new(),
                });
                self.positions
                    .insert(name.to_owned(), self.columns.len() - 1);
                self.columns.len() - 1
            }
        };
        self.next = if position + 1 < self.columns.len() {
            position + 1
        } else {
            0
        };
        let values = &mut self.columns[position].values;
        values.resize(sample, Value::Null);
        values.push(value);
        Ok(())
    }

    /// The columns, padded to the length of the dataset.
    pub(crate) fn finish(mut self, samples: usize) -> Vec<Column> {
        self.columns
            .iter_mut()
            .for_each(|column| column.values.resize(samples, Value::Null));
        self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, fields: &[&str]) -> Vec<Value> {
        Column::of_fields(name, fields.iter().copied(), true).values
    }

    #[test]
    fn keys_keep_their_order_and_may_not_repeat() {
        let value: Value =
            serde_json::from_str(r#"{"b": [1, -2, 2.5], "a": null, "c": 18446744073709551615}"#)
                .unwrap();
        let Value::Map(items) = &value else {
            panic!("{value:?}")
        };
        assert_eq!(
            items
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["b", "a", "c"]
        );
        assert_eq!(
            items[0].1,
            Value::List(vec![
                Value::Integer(1),
                Value::Integer(-2),
                Value::Float(2.5)
            ])
        );
        assert_eq!(
            (value.get("a"), value.get("c")),
            (None, Some(&Value::Unsigned(u64::MAX)))
        );
        let error = serde_json::from_str::<Value>(r#"{"a": 1, "a": 2}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("\"a\" appears twice"), "{error}");
        let many: Vec<String> = (0..2 * MAX_COMPARED_KEYS)
            .map(|key| format!("\"{key}\": 1"))
            .collect();
        for key in [1, MAX_COMPARED_KEYS, 2 * MAX_COMPARED_KEYS - 1] {
            let text = format!("{{{}, \"{key}\": 1}}", many.join(", "));
            let error = serde_json::from_str::<Value>(&text)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(&format!("\"{key}\" appears twice")),
                "{error}"
            );
        }
    }

    #[test]
    fn fields_are_numbers_where_all_of_them_are() {
        assert_eq!(
            column("n", &["1", "", "-3"]),
            [Value::Integer(1), Value::Null, Value::Integer(-3)]
        );
        assert_eq!(
            column("n", &["1", "2.5"]),
            [Value::Float(1.0), Value::Float(2.5)]
        );
        assert_eq!(
            column("n", &["[3]", "[1, 2]"]),
            [Value::integers([3]), Value::integers([1, 2])]
        );
        for text in [
            "007",
            "nan",
            "inf",
            "['door']",
            "00.5",
            "1e999",
            "1,2",
            "true",
            "99999999999999999999",
        ] {
            assert_eq!(column("n", &[text]), [Value::Text(text.to_owned())]);
        }
        assert_eq!(column("video_id", &["12"]), [Value::Text("12".to_owned())]);
        // No float is this number.
        let long = ["9007199254740993", "0.5"];
        assert_eq!(column("n", &long), long.map(|n| Value::Text(n.to_owned())));
    }

    #[test]
    fn sets_compare_numbers_exactly() {
        let large = (1i64 << 53) + 1;
        let values = [
            Value::Integer(large),
            Value::Unsigned(u64::MAX),
            Value::Float(2.0),
            Value::Float(0.5),
            Value::Text("3".to_owned()),
            Value::Null,
            Value::Bool(true),
        ];
        let set = ValueSet::new(&values);
        for value in values.iter().chain(&[Value::Integer(2)]) {
            assert!(set.contains(value), "{value:?}");
        }
        for other in [
            Value::Integer(large - 1),
            Value::Float(large as f64),
            Value::Float(u64::MAX as f64),
            Value::Integer(3),
            Value::Integer(1),
            Value::Bool(false),
            Value::Float(f64::NAN),
            Value::List(Vec::new()),
        ] {
            assert!(!set.contains(&other), "{other:?}");
        }
    }

    #[test]
    fn late_or_short_columns_are_filled() {
        let mut columns = ColumnsBuilder::default();
        columns.set(0, "a", Value::Integer(1)).unwrap();
        columns.set(2, "b", Value::Integer(2)).unwrap();
        let columns = columns.finish(4);
        assert_eq!(
            columns[0].values,
            [Value::Integer(1), Value::Null, Value::Null, Value::Null]
        );
        assert_eq!(columns[1].values[1..3], [Value::Null, Value::Integer(2)]);
    }

    #[test]
    fn unbounded_keys_do_not_fill_memory() {
        let mut columns = ColumnsBuilder::default();
        for name in 0..MAX_COLUMNS {
            columns.set(name, &name.to_string(), Value::Null).unwrap();
        }
        assert!(
            columns
                .set(0, "more", Value::Null)
                .unwrap_err()
                .contains("1025")
        );
    }
}
