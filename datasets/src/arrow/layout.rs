//! Assigns the nodes and buffers of a record batch to the columns of a schema.
//! A batch lists them without names, depth first: <https://arrow.apache.org/docs/format/Columnar.html>.

use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, Field, Fields, UnionMode};

/// The nodes and buffers of a column in a record batch.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The path of names.
    pub path: Vec<&'a str>,
    pub field: &'a Field,
    /// Index of its node and of its first buffer, and its number of buffers without those of nested fields.
    pub node: usize,
    pub buffer: usize,
    pub buffers: usize,
    /// The structs that contain it: their nodes and first buffers.
    pub above: Vec<(usize, usize)>,
}

/// All columns and fields of structs, in the order of the batch. `variadic` are the buffer counts of the view
/// columns. `None` if the batch does not have a count for each of them.
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

    /// Counts the nodes and buffers of a field and all that it contains.
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

    /// Number of buffers of a type, without those of nested fields.
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
                // Up to metadata version 4, a union also has a validity bitmap.
                usize::from(self.version < MetadataVersion::V5) + 1 + usize::from(*mode == UnionMode::Dense)
            }
            _ => 2, // validity, and values or indices
        })
    }
}
