//! What an annotation table looks like, and what its columns mean.
//! The Python package has the defaults (`python/framespool/datasets/_annotation_table.py`).

use std::path::PathBuf;

use serde::Deserialize;

use crate::column_value::Value;
use crate::file_lookup::MissingFilePolicy;

/// How an annotation file becomes a dataset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    /// Where the records and their columns are.
    pub layout: TableLayout,
    /// A further column with the name of the file, and the ending of the name that is removed.
    pub file_column: Option<(String, String)>,
    /// Columns whose values are checked. The fields of others become numbers if all of them are.
    pub types: Vec<(String, ColumnType)>,
    /// Whether a column whose fields are all lists of integers has lists.
    pub infer_lists: bool,
    /// Records that are joined to one sample.
    pub group: Option<Group>,
    /// The column of the paths or URLs; `None` if they are made by `templates`.
    pub path: Option<String>,
    /// Paths below the root, see [`crate::path_pattern`]. If there are several, the first file that exists is taken.
    pub templates: Vec<String>,
    /// The columns that `templates` may contain.
    pub template_columns: Vec<String>,
    /// Pattern, first number, count and rate of frames, if a path is a folder of frames.
    pub frames: Option<(String, u32, Option<u32>, (u32, u32))>,
    /// How to handle files that do not exist, if the user can choose.
    pub missing: Option<MissingFilePolicy>,
    /// Where the label is.
    pub label: Option<Label>,
    /// Which segment of its video a sample is.
    pub segment: Option<Segment>,
    /// Which records are samples. Classes are those of all records.
    pub filters: Vec<Filter>,
    /// The columns of the dataset; `None` for all except those of `drop`.
    pub keep: Option<Vec<String>>,
    /// See `keep`.
    pub drop: Vec<String>,
    /// Columns that the user names, which must exist, and the arguments; empty for a published dataset.
    pub arguments: Vec<(String, String)>,
}

/// Where the records of a file are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLayout {
    /// Separates fields; `None` is white space.
    pub delimiter: Option<char>,
    /// How a record is split into fields.
    pub split: Split,
    /// Names of the columns; `None` if the first record has them.
    pub names: Option<Vec<String>>,
    /// Minimum number of fields of a record, if `names` has the columns.
    pub min_fields: usize,
    /// The file is a JSON document, and the other fields do not apply.
    pub json: Option<JsonLayout>,
}

/// How a record is split into fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// At every delimiter; fields may be quoted as in RFC 4180.
    Quoted,
    /// From the left; the last field may contain delimiters.
    Left,
    /// From the right; the first field may contain delimiters. An optional last field is a number.
    Right,
}

/// Where the records of a JSON document are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonLayout {
    /// What a record is called in messages.
    pub record: String,
    /// The key of the records; `None` if they are the document.
    pub at: Option<String>,
    /// The records are the values of an object, and their keys become the column `id`; otherwise they are a list.
    pub keyed: bool,
    /// The column that identifies a record.
    pub id: String,
    /// The column of records that are no objects; `None` if all must be objects.
    pub value: Option<String>,
    /// The key of a list of parts, each of which is a record with the columns of both, and the name of a part. A
    /// column of a part that the record has too begins with that name.
    pub parts: Option<(String, String)>,
}

/// The values of a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Integers.
    Integer,
    /// Finite numbers.
    Number,
    /// One of these words.
    OneOf(Vec<String>),
}

/// Records that are joined to one sample, in the order of the first records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The columns that are equal in all records of a sample.
    pub by: Vec<String>,
    /// Columns with a list per sample: name, columns whose values a record adds (as a list, if several), and the
    /// value for an empty field, if it may be empty. A record in which all of them are empty adds nothing.
    pub lists: Vec<(String, Vec<String>, Option<i64>)>,
}

/// Where the label is, and how classes are numbered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The column. If it does not exist, samples have no labels.
    pub column: String,
    /// What the column contains.
    pub content: LabelContent,
    /// Characters that are removed from names.
    pub remove: String,
    /// Names in the order of their labels; `None` for those of `class_file`, or else the sorted names of all records.
    pub classes: Option<Vec<String>>,
    /// The file with the names.
    pub class_file: Option<ClassFile>,
    /// A column that repeats the number of the class in `class_file`.
    pub number: Option<String>,
}

/// What a column of labels contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelContent {
    /// Names.
    Names,
    /// Labels.
    Numbers,
    /// Paths that begin with the name as a folder.
    Folder,
    /// Names if one of them is not a number, or all are classes of the user. Numbers with a fraction become a column.
    NamesOrNumbers,
}

/// A file with the names of classes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFile {
    /// The file.
    pub path: PathBuf,
    /// Where the records are.
    pub layout: TableLayout,
    /// The column of the names.
    pub name: String,
    /// The column of the numbers; `None` if classes are in their order.
    pub number: Option<String>,
    /// The number of the first class.
    pub first: i64,
}

/// Which segment of its video a sample is. A record without values is the whole video.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The column of the start. If it is also that of the end, its values are lists of both.
    pub start: String,
    /// The column of the end.
    pub end: String,
    /// The columns, and their values, must exist; a record without parts has none.
    pub required: bool,
    /// The unit of both.
    pub unit: SegmentUnit,
    /// A segment whose end is not after its start is skipped, with a note, and otherwise an error.
    pub skip_empty: bool,
    /// `start` is the second in the middle of the segment.
    pub around: Option<Around>,
}

/// A segment around a second.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// Length of a segment.
    pub span_seconds: f64,
    /// The second at which the file begins.
    pub begin_seconds: f64,
}

/// The unit of the bounds of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentUnit {
    /// Seconds.
    Seconds,
    /// Times such as `01:02:03.45`.
    Clock,
    /// Frames from 0, without the end.
    Frames,
    /// Frames from 1, with the end.
    FramesFrom1,
}

/// Records to keep: those with one of the values in a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The argument of the user.
    pub argument: String,
    /// The column.
    pub column: String,
    /// The values.
    pub values: Vec<Value>,
}
