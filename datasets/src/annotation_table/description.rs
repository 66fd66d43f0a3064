//! Descriptions of annotation tables, as `python/framespool/datasets/_annotation_table.py` defines
//! and documents them. All fields are given there, so that a default has one place.

use std::path::PathBuf;

use serde::Deserialize;

use crate::column_value::Value;
use crate::file_lookup::MissingFilePolicy;

/// Samples that are folders of images: pattern of the names, number of the first file, number of
/// files, and frames per second as a fraction.
type NumberedFrames = (String, u32, Option<u32>, (u32, u32));

/// How annotation files become a dataset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    pub(super) layout: TableLayout,
    pub(super) file_column: Option<(String, String)>,
    pub(super) types: Vec<(String, ColumnType)>,
    pub(super) infer_lists: bool,
    pub(super) group: Option<Group>,
    pub(super) path: Option<String>,
    pub(super) templates: Vec<String>,
    pub(super) template_columns: Vec<String>,
    pub(super) frames: Option<NumberedFrames>,
    pub(super) missing: Option<MissingFilePolicy>,
    pub(super) label: Option<Label>,
    pub(super) segment: Option<Segment>,
    pub(super) filters: Vec<Filter>,
    pub(super) keep: Option<Vec<String>>,
    pub(super) drop: Vec<String>,
    pub(super) arguments: Vec<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableLayout {
    pub delimiter: Option<char>,
    pub split: Split,
    pub names: Option<Vec<String>>,
    pub min_fields: usize,
    pub json: Option<JsonLayout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Split {
    Quoted,
    Left,
    Right,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonLayout {
    pub record: String,
    pub at: Option<String>,
    pub keyed: bool,
    pub id: String,
    pub value: Option<String>,
    pub parts: Option<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ColumnType {
    Integer,
    Number,
    OneOf(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub by: Vec<String>,
    pub lists: Vec<(String, Vec<String>, Option<i64>)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
    pub column: String,
    pub content: LabelContent,
    pub remove: String,
    pub classes: Option<Vec<String>>,
    pub class_file: Option<ClassFile>,
    pub number: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LabelContent {
    Names,
    Numbers,
    Folder,
    NamesOrNumbers,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassFile {
    pub path: PathBuf,
    pub layout: TableLayout,
    pub name: String,
    pub number: Option<String>,
    pub first: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Segment {
    pub start: String,
    pub end: String,
    pub unit: SegmentUnit,
    pub required: bool,
    pub skip_empty: bool,
    pub around: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SegmentUnit {
    Seconds,
    Clock,
    Frames,
    FramesFrom1,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    pub argument: String,
    pub column: String,
    pub values: Vec<Value>,
}
