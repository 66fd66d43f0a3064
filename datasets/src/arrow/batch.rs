//! Reads record batches: the byte range of each row for a column of bytes, and the values of other
//! wanted columns. Every offset is checked before it is used. Columns that are not wanted are not
//! read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use framespool::error::{Error, Result, Site};
use framespool::limits::{Limits, check_allocatable, reserve};

use super::layout::{ColumnBuffers, assign_buffers};
use super::message_reader::{Message, MessageReader};
use super::values::{catch_panic, values};
use crate::column_value::Value;
use crate::columnar::{CellLocation, TableColumn};

/// Size of a view: a length, then either the value or where it is stored.
const VIEW_BYTES: usize = 16;
/// Maximum length of a value that is stored in its view.
const MAX_INLINE_BYTES: u32 = 12;

/// The state needed to read the batches of a file: its schema, and the dictionaries read so far.
pub(crate) struct BatchReader<'a> {
    schema: &'a Schema,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            dictionaries: HashMap::new(),
        }
    }

    /// Number of rows of a message; `None` if it is not a record batch.
    pub(super) fn rows(&self, messages: &MessageReader, message: &Message) -> Result<Option<u64>> {
        let Some(batch) = message.header.as_ref().header_as_record_batch() else {
            return Ok(None);
        };
        match u64::try_from(batch.length()) {
            Ok(rows) => Ok(Some(rows)),
            Err(_) => Err(Error::malformed(
                &messages.site(message.at),
                "a record batch with a negative number of rows",
            )),
        }
    }

    /// Stores the dictionary in a message, if it has one and a wanted column uses it.
    pub(crate) fn store_dictionary(
        &mut self,
        messages: &MessageReader,
        message: &Message,
        wanted: &[TableColumn],
    ) -> Result<()> {
        let header = message.header.as_ref();
        let Some(dictionary) = header.header_as_dictionary_batch() else {
            return Ok(());
        };
        let all_columns =
            assign_buffers(self.schema.fields(), std::iter::repeat(0), header.version())
                .unwrap_or_default();
        let needs = |buffers: &&ColumnBuffers| {
            dictionary_id(buffers.field) == Some(dictionary.id())
                && wanted
                    .iter()
                    .any(|column| column.path_names == buffers.path)
        };
        let Some(buffers) = all_columns.iter().find(needs) else {
            return Ok(());
        };
        let DataType::Dictionary(_, kind) = buffers.field.data_type() else {
            return Ok(());
        };
        let site = messages.site(message.at);
        if dictionary.isDelta() {
            let what = format!(
                "column '{}' with a delta dictionary",
                buffers.path.join(".")
            );
            return Err(Error::Unsupported { site, what });
        }
        // Even if this dictionary cannot be read, the rows that follow must not use the previous
        // one.
        self.dictionaries.remove(&dictionary.id());
        let data = dictionary
            .data()
            .ok_or_else(|| Error::malformed(&site, "a dictionary without values"))?;
        let field = Field::new(buffers.field.name(), (**kind).clone(), true);
        let open = Batch::new(messages, message, data, &self.dictionaries)?;
        let fields = [Arc::new(field)].into_iter().collect();
        let own = assign_buffers(&fields, open.variadic(), header.version());
        let own = own
            .as_ref()
            .and_then(|own| own.first())
            .ok_or_else(|| open.malformed())?;
        self.dictionaries.insert(dictionary.id(), open.array(own)?);
        Ok(())
    }

    /// Opens the record batch in a message.
    pub(super) fn open<'b>(
        &'b self,
        messages: &'b MessageReader,
        message: &'b Message,
    ) -> Result<LocatedBatch<'b>> {
        let header = message.header.as_ref();
        let rows = header.header_as_record_batch();
        let rows = rows.ok_or_else(|| {
            Error::malformed(
                &messages.site(message.at),
                "a message without a record batch",
            )
        })?;
        let batch = Batch::new(messages, message, rows, &self.dictionaries)?;
        let columns = assign_buffers(self.schema.fields(), batch.variadic(), header.version());
        Ok(LocatedBatch {
            columns: columns.ok_or_else(|| batch.malformed())?,
            batch,
        })
    }
}

/// The dictionary id of a column.
#[allow(deprecated)] // there is no other access to the id in the file
fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// A batch whose columns have been located.
pub(crate) struct LocatedBatch<'a> {
    batch: Batch<'a>,
    columns: Vec<ColumnBuffers<'a>>,
}

impl LocatedBatch<'_> {
    fn column(&self, column: &TableColumn) -> Result<&ColumnBuffers<'_>> {
        let buffers = self
            .columns
            .iter()
            .find(|buffers| column.path_names == buffers.path);
        buffers.ok_or_else(|| self.batch.malformed())
    }

    /// The values of a column, one per row.
    pub(super) fn values(&self, column: &TableColumn) -> Result<Vec<Value>> {
        let buffers = self.column(column)?;
        let array = self.batch.array(buffers)?;
        check_allocatable::<Value>(&self.batch.site, array.len())?;
        let found = catch_panic(&self.batch.site, || Ok(values(&*array)))?;
        let mut found = found.map_err(|kind| self.batch.unsupported_type(buffers, &kind))?;
        self.batch.check_rows(found.len())?;
        for parent in &buffers.parents {
            let validity = self.batch.validity(*parent)?;
            for (row, value) in found.iter_mut().enumerate() {
                if !validity.is_valid(row) {
                    *value = Value::Null;
                }
            }
        }
        Ok(found)
    }

    /// Where the bytes of each row are stored.
    pub(crate) fn cell_locations(&self, column: &TableColumn) -> Result<Vec<CellLocation>> {
        let (batch, buffers) = (&self.batch, self.column(column)?);
        let (rows, _) = batch.node(buffers.node)?;
        batch.check_rows(rows)?;
        let mut validity = vec![batch.validity((buffers.node, buffers.buffer))?];
        for parent in &buffers.parents {
            validity.push(batch.validity(*parent)?);
        }
        let ends = match buffers.field.data_type() {
            _ if rows == 0 => return Ok(Vec::new()),
            DataType::Binary => {
                self.offsets::<4>(buffers, rows, |bytes| i64::from(i32::from_le_bytes(bytes)))?
            }
            DataType::LargeBinary => self.offsets::<8>(buffers, rows, i64::from_le_bytes)?,
            _ => return self.views(buffers, rows, &validity),
        };
        let (begin, len) = batch.buffer_range(buffers.buffer + 2)?;
        let mut found = Vec::new();
        reserve(&batch.site, &mut found, rows)?;
        for (row, pair) in ends.windows(2).enumerate() {
            let &[from, to] = pair else { continue };
            if from < 0 || to < from || to as u64 > len {
                let reason = format!("row {row} of the batch is at bytes {from}..{to} of {len}");
                return Err(Error::malformed(&batch.site, reason));
            }
            let cell = CellLocation::Range(begin + from as u64, (to - from) as u64);
            found.push(if validity.iter().all(|map| map.is_valid(row)) {
                cell
            } else {
                CellLocation::Null
            });
        }
        Ok(found)
    }

    /// The start offset of each row, and the end offset of the last one.
    fn offsets<const N: usize>(
        &self,
        buffers: &ColumnBuffers,
        rows: usize,
        number: fn([u8; N]) -> i64,
    ) -> Result<Vec<i64>> {
        let bytes = self.batch.bytes(buffers.buffer + 1)?;
        let ends: Vec<i64> = bytes
            .as_chunks::<N>()
            .0
            .iter()
            .take(rows + 1)
            .map(|&bytes| number(bytes))
            .collect();
        if ends.len() <= rows {
            return Err(Error::malformed(
                &self.batch.site,
                format!("{} offsets for {rows} rows", ends.len()),
            ));
        }
        Ok(ends)
    }

    fn views(
        &self,
        buffers: &ColumnBuffers,
        rows: usize,
        validity: &[Validity],
    ) -> Result<Vec<CellLocation>> {
        let batch = &self.batch;
        let (begin, _) = batch.buffer_range(buffers.buffer + 1)?;
        let bytes = batch.bytes(buffers.buffer + 1)?;
        let mut found = Vec::new();
        reserve(&batch.site, &mut found, rows.min(bytes.len() / VIEW_BYTES))?;
        for (row, view) in bytes
            .as_chunks::<VIEW_BYTES>()
            .0
            .iter()
            .take(rows)
            .enumerate()
        {
            let [a, b, c, d, _, _, _, _, e, f, g, h, i, j, k, l] = *view;
            let [len, buffer, offset] =
                [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes);
            if !validity.iter().all(|map| map.is_valid(row)) {
                found.push(CellLocation::Null);
            } else if len <= MAX_INLINE_BYTES {
                found.push(CellLocation::Range(
                    begin + (row * VIEW_BYTES) as u64 + 4,
                    len.into(),
                ));
            } else {
                let own = usize::try_from(buffer)
                    .ok()
                    .filter(|buffer| *buffer < buffers.buffers.saturating_sub(2));
                let own = own.ok_or_else(|| batch.malformed())?;
                let (begin, held) = batch.buffer_range(buffers.buffer + 2 + own)?;
                if u64::from(offset) + u64::from(len) > held {
                    let reason = format!(
                        "row {row} of the batch has {len} bytes at offset {offset}, of {held} bytes"
                    );
                    return Err(Error::malformed(&batch.site, reason));
                }
                found.push(CellLocation::Range(begin + u64::from(offset), len.into()));
            }
        }
        batch.check_rows(found.len())?;
        Ok(found)
    }
}

/// A record batch as stored in a message.
struct Batch<'a> {
    messages: &'a MessageReader,
    body: (u64, u64),
    data: RecordBatch<'a>,
    dictionaries: &'a HashMap<i64, ArrayRef>,
    site: Site,
}

/// Which rows have a value; `None` means all of them.
struct Validity(Option<Buffer>);

impl Validity {
    fn is_valid(&self, row: usize) -> bool {
        self.0.as_ref().is_none_or(|bits| {
            bits.get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1)
        })
    }
}

impl<'a> Batch<'a> {
    fn new(
        messages: &'a MessageReader,
        message: &Message,
        data: RecordBatch<'a>,
        dictionaries: &'a HashMap<i64, ArrayRef>,
    ) -> Result<Self> {
        let site = messages.site(message.at);
        if data.compression().is_some() {
            return Err(Error::Unsupported {
                site,
                what: "a compressed Arrow file (write it with compression=None, or as Parquet)"
                    .to_owned(),
            });
        }
        Ok(Self {
            messages,
            body: message.body,
            data,
            dictionaries,
            site,
        })
    }

    fn malformed(&self) -> Error {
        Error::malformed(
            &self.site,
            "a batch that does not match the schema of its file",
        )
    }

    fn unsupported_type(&self, buffers: &ColumnBuffers, kind: &DataType) -> Error {
        Error::Unsupported {
            site: self.site.clone(),
            what: format!(
                "column '{}' of type {kind} (numbers, booleans, text and lists of them are read; omit it \
                 from columns=)",
                buffers.path.join(".")
            ),
        }
    }

    fn variadic(&self) -> impl Iterator<Item = i64> + use<'a> {
        self.data.variadicBufferCounts().into_iter().flatten()
    }

    fn check_rows(&self, found: usize) -> Result<()> {
        match i64::try_from(found) == Ok(self.data.length()) {
            true => Ok(()),
            false => Err(Error::malformed(
                &self.site,
                format!(
                    "a column of {found} rows in a batch of {}",
                    self.data.length()
                ),
            )),
        }
    }

    /// Length of a column, and how many of its values are missing.
    fn node(&self, number: usize) -> Result<(usize, usize)> {
        let nodes = self.data.nodes().filter(|nodes| number < nodes.len());
        let node = nodes.ok_or_else(|| self.malformed())?.get(number);
        let (Ok(len), Ok(missing)) = (
            usize::try_from(node.length()),
            usize::try_from(node.null_count()),
        ) else {
            return Err(self.malformed());
        };
        Ok((len, missing))
    }

    /// Offset in the file, and length, of a buffer.
    fn buffer_range(&self, number: usize) -> Result<(u64, u64)> {
        let buffers = self.data.buffers().filter(|buffers| number < buffers.len());
        let buffer = buffers.ok_or_else(|| self.malformed())?.get(number);
        let (Ok(offset), Ok(len)) = (
            u64::try_from(buffer.offset()),
            u64::try_from(buffer.length()),
        ) else {
            return Err(self.malformed());
        };
        if offset.checked_add(len).is_none_or(|end| end > self.body.1) {
            let reason = format!(
                "a buffer of {len} bytes at offset {offset} in a body of {} bytes",
                self.body.1
            );
            return Err(Error::malformed(&self.site, reason));
        }
        Ok((self.body.0 + offset, len))
    }

    fn bytes(&self, number: usize) -> Result<Buffer> {
        let (offset, len) = self.buffer_range(number)?;
        Limits::check(
            &self.site,
            "bytes of a column in a batch",
            len,
            Limits::default().header_bytes,
        )?;
        self.messages.bytes(offset, len)
    }

    /// Which rows of a node have a value, from its validity bitmap.
    fn validity(&self, (node, buffer): (usize, usize)) -> Result<Validity> {
        let (_, missing) = self.node(node)?;
        Ok(Validity(if missing > 0 {
            Some(self.bytes(buffer)?)
        } else {
            None
        }))
    }

    /// A column of a supported type.
    fn array(&self, buffers: &ColumnBuffers) -> Result<ArrayRef> {
        let mut at = (buffers.node, buffers.buffer);
        let own = buffers.field.data_type();
        let data = self
            .data_of(buffers.field, buffers.buffers, &mut at)
            .and_then(|data| match data {
                Some(data) => Ok(data),
                None => Err(self.unsupported_type(buffers, own)),
            })?;
        Ok(make_array(data))
    }

    /// The data of a field, or `None` for an unsupported type. `at` is the next node and the next
    /// buffer.
    fn data_of(
        &self,
        field: &Field,
        buffers: usize,
        at: &mut (usize, usize),
    ) -> Result<Option<ArrayData>> {
        let (number, first) = *at;
        let (len, missing) = self.node(number)?;
        // A type without buffers has a length that the file size does not bound.
        Limits::check(
            &self.site,
            "values of a column in a batch",
            len as u64,
            crate::columnar::MAX_ROWS,
        )?;
        let kind = field.data_type();
        let (own, inside) = match kind {
            DataType::Null => (0, None),
            DataType::Utf8 | DataType::LargeUtf8 => (3, None),
            DataType::Utf8View => (buffers, None),
            DataType::List(field) | DataType::LargeList(field) => (2, Some(field)),
            DataType::FixedSizeList(field, _) => (1, Some(field)),
            DataType::Boolean | DataType::Dictionary(..) => (2, None),
            number if number.is_integer() || number.is_floating() => (2, None),
            _ => return Ok(None),
        };
        *at = (number + 1, first + own);
        let mut builder = ArrayData::builder(kind.clone()).len(len);
        if *kind != DataType::Null {
            let bits = if missing > 0 {
                Some(self.bytes(first)?)
            } else {
                None
            };
            builder = builder.null_count(missing).null_bit_buffer(bits);
        }
        for number in first + 1..first + own {
            builder = builder.add_buffer(self.bytes(number)?);
        }
        if let Some(field) = inside {
            let views = matches!(field.data_type(), DataType::Utf8View); // these need a buffer count
            let Some(data) = (if views {
                None
            } else {
                self.data_of(field, 0, at)?
            }) else {
                return Ok(None);
            };
            builder = builder.add_child_data(data);
        }
        if let (DataType::Dictionary(_, kind), Some(id)) = (kind, dictionary_id(field)) {
            let held = self.dictionaries.get(&id);
            builder = builder.add_child_data(match held {
                Some(names) => names.to_data(),
                None => ArrayData::new_empty(kind), // the dictionary may be absent if all rows are missing
            });
        }
        catch_panic(&self.site, || builder.align_buffers(true).build()).map(Some)
    }
}
