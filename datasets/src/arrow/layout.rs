//! In: the types of a table's columns. Out: which of a batch's nodes and buffers are whose.
//! A batch lists them without names, depth first: <https://arrow.apache.org/docs/format/Columnar.html>.
//! Never: looks at values.

use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, Field, Fields, UnionMode};

/// Where a column lies in a batch's lists.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The names that lead to it.
    pub path: Vec<&'a str>,
    pub field: &'a Field,
    /// Number of its node and of its first buffer, and how many buffers are its own.
    pub node: usize,
    pub buffer: usize,
    pub buffers: usize,
    /// The structs that it is in: their nodes and first buffers.
    pub above: Vec<(usize, usize)>,
}

/// All columns, and fields of structs, in the order of the lists. `variadic`: how many buffers of values the columns of views
/// have. `None` where a batch does not say so of all.
pub fn places<'a>(
    fields: &'a Fields,
    variadic: impl Iterator<Item = i64>,
    version: MetadataVersion,
) -> Option<Vec<Place<'a>>> {
    let mut walk = Walk { variadic, version, node: 0, buffer: 0, found: Vec::new() };
    for field in fields {
        walk.column(field, &[], &[])?;
    }
    Some(walk.found)
}

struct Walk<'a, V> {
    variadic: V,
    version: MetadataVersion,
    node: usize,
    buffer: usize,
    found: Vec<Place<'a>>,
}

impl<'a, V: Iterator<Item = i64>> Walk<'a, V> {
    fn column(&mut self, field: &'a Field, path: &[&'a str], above: &[(usize, usize)]) -> Option<()> {
        let path: Vec<&str> = path.iter().copied().chain([field.name().as_str()]).collect();
        let (node, buffer) = (self.node, self.buffer);
        let buffers = self.own(field.data_type())?;
        (self.node, self.buffer) = (node + 1, buffer.checked_add(buffers)?);
        let place = Place { path: path.clone(), field, node, buffer, buffers, above: above.to_vec() };
        self.found.push(place);
        match field.data_type() {
            DataType::Struct(fields) => {
                let above: Vec<_> = above.iter().copied().chain([(node, buffer)]).collect();
                fields.iter().try_for_each(|field| self.column(field, &path, &above))
            }
            other => self.inside(other),
        }
    }

    /// Counts a field and all that is inside it.
    fn whole(&mut self, field: &'a Field) -> Option<()> {
        let buffers = self.own(field.data_type())?;
        (self.node, self.buffer) = (self.node + 1, self.buffer.checked_add(buffers)?);
        self.inside(field.data_type())
    }

    fn inside(&mut self, kind: &'a DataType) -> Option<()> {
        match kind {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _) => self.whole(field),
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.whole(field)),
            DataType::RunEndEncoded(ends, values) => self.whole(ends).and_then(|()| self.whole(values)),
            DataType::Union(fields, _) => fields.iter().try_for_each(|(_, field)| self.whole(field)),
            _ => Some(()),
        }
    }

    /// How many buffers a type has, without those of what is inside it.
    fn own(&mut self, kind: &DataType) -> Option<usize> {
        Some(match kind {
            DataType::Null | DataType::RunEndEncoded(..) => 0,
            DataType::Struct(_) | DataType::FixedSizeList(..) => 1,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
            DataType::ListView(_) | DataType::LargeListView(_) => 3,
            DataType::Utf8View | DataType::BinaryView => {
                usize::try_from(self.variadic.next()?).ok()?.checked_add(2)?
            }
            DataType::Union(_, mode) => {
                // Until version 4 with a map of what is there.
                usize::from(self.version < MetadataVersion::V5) + 1 + usize::from(*mode == UnionMode::Dense)
            }
            _ => 2, // what is there, and values or indices
        })
    }
}
