//! Assigns the nodes and buffers of a record batch to the columns of a schema. A batch lists them
//! without names, depth first: <https://arrow.apache.org/docs/format/Columnar.html>.

use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, Field, Fields, UnionMode};

/// The nodes and buffers of a column in a record batch.
#[derive(Clone, Debug)]
pub(crate) struct ColumnBuffers<'a> {
    /// The path of names.
    pub path: Vec<&'a str>,
    pub field: &'a Field,
    /// Index of its node and of its first buffer, and its number of buffers without those of nested
    /// fields.
    pub node: usize,
    pub buffer: usize,
    pub buffers: usize,
    /// The structs that contain it: their nodes and first buffers.
    pub parents: Vec<(usize, usize)>,
}

/// All columns and fields of structs, in the order of the batch. `variadic` are the buffer counts
/// of the view columns. `None` if the batch does not have a count for each of them.
pub(crate) fn assign_buffers<'a>(
    fields: &'a Fields,
    variadic: impl Iterator<Item = i64>,
    version: MetadataVersion,
) -> Option<Vec<ColumnBuffers<'a>>> {
    let mut assigner = BufferAssigner {
        variadic,
        version,
        node: 0,
        buffer: 0,
        found: Vec::new(),
    };
    for field in fields {
        assigner.column(field, &[], &[])?;
    }
    Some(assigner.found)
}

struct BufferAssigner<'a, V> {
    variadic: V,
    version: MetadataVersion,
    node: usize,
    buffer: usize,
    found: Vec<ColumnBuffers<'a>>,
}

impl<'a, V: Iterator<Item = i64>> BufferAssigner<'a, V> {
    fn column(
        &mut self,
        field: &'a Field,
        path: &[&'a str],
        parents: &[(usize, usize)],
    ) -> Option<()> {
        let path: Vec<&str> = path
            .iter()
            .copied()
            .chain([field.name().as_str()])
            .collect();
        let (node, buffer) = (self.node, self.buffer);
        let buffers = self.buffer_count(field.data_type())?;
        (self.node, self.buffer) = (node + 1, buffer.checked_add(buffers)?);
        let column = ColumnBuffers {
            path: path.clone(),
            field,
            node,
            buffer,
            buffers,
            parents: parents.to_vec(),
        };
        self.found.push(column);
        match field.data_type() {
            DataType::Struct(fields) => {
                let parents: Vec<_> = parents.iter().copied().chain([(node, buffer)]).collect();
                fields
                    .iter()
                    .try_for_each(|field| self.column(field, &path, &parents))
            }
            other => self.skip_children(other),
        }
    }

    /// Counts the nodes and buffers of a field and all that it contains.
    fn skip_field(&mut self, field: &'a Field) -> Option<()> {
        let buffers = self.buffer_count(field.data_type())?;
        (self.node, self.buffer) = (self.node + 1, self.buffer.checked_add(buffers)?);
        self.skip_children(field.data_type())
    }

    fn skip_children(&mut self, kind: &'a DataType) -> Option<()> {
        match kind {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _) => self.skip_field(field),
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.skip_field(field)),
            DataType::RunEndEncoded(ends, values) => {
                self.skip_field(ends).and_then(|()| self.skip_field(values))
            }
            DataType::Union(fields, _) => fields
                .iter()
                .try_for_each(|(_, field)| self.skip_field(field)),
            _ => Some(()),
        }
    }

    /// Number of buffers of a type, without those of nested fields.
    fn buffer_count(&mut self, kind: &DataType) -> Option<usize> {
        Some(match kind {
            DataType::Null | DataType::RunEndEncoded(..) => 0,
            DataType::Struct(_) | DataType::FixedSizeList(..) => 1,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
            DataType::ListView(_) | DataType::LargeListView(_) => 3,
            DataType::Utf8View | DataType::BinaryView => usize::try_from(self.variadic.next()?)
                .ok()?
                .checked_add(2)?,
            DataType::Union(_, mode) => {
                // Up to metadata version 4, a union also has a validity bitmap.
                usize::from(self.version < MetadataVersion::V5)
                    + 1
                    + usize::from(*mode == UnionMode::Dense)
            }
            _ => 2, // validity, and values or indices
        })
    }
}
