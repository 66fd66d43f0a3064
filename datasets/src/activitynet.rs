//! Reads JSON annotations in the format of ActivityNet: one sample per segment.
//! HACS, THUMOS and FineAction use the same format. Segments that are skipped are reported in a note.

use std::collections::BTreeSet;
use std::path::Path;

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::column_value::{shortened, ColumnsBuilder, Value};
use crate::file_lookup::{FileLookup, MissingFilePolicy, MissingFiles};
use crate::lines::{not_empty, read_json};
use crate::path_pattern::PathPattern;
use crate::{Dataset, Sample, SegmentBounds, NO_LABEL};

/// Reads `{"database": {id: {"subset": …, "annotations": [{"segment": [start, end], "label": …}, …]}, …}}`.
///
/// - A segment in seconds is a segment of its video. A video without annotations, such as those of a test split,
///   is a whole, unlabeled sample.
/// - `file` is the path of a video below `root`, with `{id}`. If it ends in `.*`, the folder is listed to
///   find the extension.
/// - Labels are indices in the sorted names of all classes of the file, or in `classes`. `subset` keeps the
///   videos of one subset; the classes are still those of the whole file.
/// - The keys of a video, with its `id`, and those of its segment become columns. If both have the same key,
///   that of the segment becomes `annotation_…`.
/// - Segments that end at or before their start are skipped, with a note.
pub fn activitynet(
    annotations: impl AsRef<Path>,
    root: &Path,
    subset: Option<&str>,
    file: &str,
    classes: Option<&[String]>,
    missing: MissingFilePolicy,
) -> Result<Dataset> {
    let path = annotations.as_ref();
    let pattern = PathPattern::parse(file, &["id"])?;
    let document = read_json(path)?;
    let Some(Value::Map(videos)) = document.get("database") else {
        let text =
            format!("{} has no \"database\" of videos; give a file in ActivityNet's format", path.display());
        return Err(Error::Argument(text));
    };
    let classes = Classes::given_or(classes, videos.iter().flat_map(|(_, video)| labels(video)))?;
    let (mut dataset, mut columns) = (Dataset::default(), ColumnsBuilder::default());
    let (mut lookup, mut missing_files, mut present) = (FileLookup::default(), MissingFiles::default(), 0);
    let (mut empty, mut wanted) = (Vec::new(), 0);
    for (id, video) in videos {
        if subset.is_some_and(|subset| text(video.get("subset")) != Some(subset)) {
            continue;
        }
        wanted += 1;
        let wrong =
            |reason| Error::Argument(format!("{}, video '{}': {reason}", path.display(), shortened(id)));
        let name = pattern.expand(|_| Some(id.clone())).map_err(wrong)?;
        let Some(file) = pattern.resolve(root, &name, &mut lookup)? else {
            missing_files.add(None, || pattern.not_found_message(root, &name));
            continue;
        };
        present += 1;
        let found = match video.get("annotations") {
            None => &[][..],
            Some(Value::List(found)) => &found[..],
            Some(other) => return Err(wrong(format!("annotations are {}, not a list", other.shown()))),
        };
        if found.is_empty() {
            set(&mut columns, dataset.samples.len(), id, video, &Value::Null).map_err(wrong)?;
            dataset.samples.push(Sample::new(file, NO_LABEL));
            continue;
        }
        for (number, annotation) in found.iter().enumerate() {
            let wrong = |reason| wrong(format!("annotation {number}: {reason}"));
            let Some(segment) = parse_segment(annotation).map_err(wrong)? else {
                empty.push(format!("annotation {number} of video '{}'", shortened(id)));
                continue;
            };
            let name = text(annotation.get("label")).map(str::to_owned);
            let label = name.as_deref().map_or(Ok(NO_LABEL), |name| classes.label(name)).map_err(wrong)?;
            set(&mut columns, dataset.samples.len(), id, video, annotation).map_err(wrong)?;
            dataset.samples.push(Sample {
                label_name: name,
                segment: Some(segment),
                ..Sample::new(file.clone(), label)
            });
        }
    }
    if let (Some(subset), 0) = (subset, wanted) {
        let subsets: BTreeSet<&str> =
            videos.iter().filter_map(|(_, video)| text(video.get("subset"))).collect();
        let text = format!("{} has no videos of subset '{subset}', it has {subsets:?}", path.display());
        return Err(Error::Argument(text));
    }
    dataset.notes.extend(missing_files.report(path, missing, present)?);
    if let Some(first) = empty.first() {
        dataset.notes.push(format!(
            "{}: {} segments whose end is not after their start are skipped; the first is {first}",
            path.display(),
            empty.len()
        ));
    }
    dataset.classes = classes.names;
    dataset.columns = columns.finish(dataset.samples.len());
    not_empty(path, dataset, "{\"database\": {…}}")
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// The class names of a video's segments.
fn labels(video: &Value) -> impl Iterator<Item = &str> {
    let found = match video.get("annotations") {
        Some(Value::List(found)) => &found[..],
        _ => &[],
    };
    found.iter().filter_map(|annotation| text(annotation.get("label")))
}

/// The bounds of a segment, or `None` if it is empty.
fn parse_segment(annotation: &Value) -> Result<Option<SegmentBounds>, String> {
    let pair = match annotation.get("segment") {
        Some(Value::List(pair)) => pair.iter().filter_map(Value::as_f64).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let [start, end] = pair[..] else {
        return Err("segment is not [start, end] in seconds".to_owned());
    };
    Ok((start < end).then_some(SegmentBounds::Seconds { start: Some(start), end: Some(end) }))
}

/// Sets the column values of a sample.
fn set(
    columns: &mut ColumnsBuilder,
    sample: usize,
    id: &str,
    video: &Value,
    annotation: &Value,
) -> Result<(), String> {
    columns.set(sample, "id", Value::Text(id.to_owned()))?;
    let said = |value: &Value| match value {
        Value::Map(items) => items.clone(),
        _ => Vec::new(),
    };
    for (name, value) in said(video) {
        if !["annotations", "id"].contains(&name.as_str()) {
            columns.set(sample, &name, value)?;
        }
    }
    for (name, value) in said(annotation) {
        let taken = name == "id" || video.get(&name).is_some();
        if !["segment", "label"].contains(&name.as_str()) {
            columns.set(sample, &if taken { format!("annotation_{name}") } else { name }, value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    const DATABASE: &str = r#"{"version": "1.3", "database": {
        "zz": {"duration": 82.5, "subset": "training", "annotations": [
            {"segment": [6.19, 17.37], "label": "Surfing", "score": 1}, {"segment": [20, 30.5], "label": "Archery"}]},
        "aa": {"duration": 10, "subset": "validation", "annotations": [{"segment": [0, 99], "label": "Surfing"}]},
        "bb": {"duration": 11, "subset": "testing", "annotations": []}}}"#;

    fn read(
        document: &str,
        subset: Option<&str>,
        file: &str,
        files: &[&str],
        missing: MissingFilePolicy,
    ) -> Result<Dataset> {
        let root = TempFolder::new();
        files.iter().for_each(|name| drop(root.write(name, "")));
        let path = root.write("t.json", document);
        let mut dataset = activitynet(path, &root.0, subset, file, None, missing)?;
        for sample in &mut dataset.samples {
            sample.path = sample.path.strip_prefix(&root.0).unwrap().to_owned();
        }
        Ok(dataset)
    }

    fn fixed(document: &str, subset: Option<&str>) -> Result<Dataset> {
        read(document, subset, "v_{id}.mp4", &[], MissingFilePolicy::Error)
    }

    #[test]
    fn segments_are_parts_in_the_order_of_the_file() {
        let dataset = fixed(DATABASE, None).unwrap();
        let rows: Vec<_> =
            dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label, e.segment)).collect();
        let segment = |start, end| Some(SegmentBounds::Seconds { start: Some(start), end: Some(end) });
        let expected = [
            ("v_zz.mp4", 1, segment(6.19, 17.37)),
            ("v_zz.mp4", 0, segment(20.0, 30.5)),
            ("v_aa.mp4", 1, segment(0.0, 99.0)),
            ("v_bb.mp4", NO_LABEL, None),
        ];
        assert_eq!(rows, expected);
        assert_eq!(dataset.classes, ["Archery", "Surfing"]);
        let names: Vec<&str> = dataset.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["id", "duration", "subset", "score"]);
        assert_eq!(dataset.columns[3].values[..2], [Value::Integer(1), Value::Null]);
        let validation = fixed(DATABASE, Some("validation")).unwrap();
        assert_eq!(
            (validation.samples.len(), validation.samples[0].label, validation.classes.len()),
            (1, 1, 2)
        );
    }

    #[test]
    fn missing_files_are_reported() {
        let any = |files: &[&str], missing| read(DATABASE, None, "v_{id}.*", files, missing);
        let dataset = any(&["v_zz.mkv", "v_aa.mp4", "v_bb.webm"], MissingFilePolicy::Error).unwrap();
        assert_eq!(dataset.samples[0].path, Path::new("v_zz.mkv"));
        let error = any(&["v_zz.mkv"], MissingFilePolicy::Error).unwrap_err().to_string();
        assert!(error.contains("v_aa.*; 2 of 3 are missing"), "{error}");
        let dataset = any(&["v_zz.mkv"], MissingFilePolicy::Skip).unwrap();
        assert_eq!((dataset.samples.len(), dataset.columns[0].values.len()), (2, 2));
        assert!(dataset.notes[0].contains("2 of 3 samples are skipped"), "{:?}", dataset.notes);
    }

    #[test]
    fn empty_segments_are_skipped_with_a_note() {
        let document = DATABASE.replace("[20, 30.5]", "[20, 20]");
        let dataset = fixed(&document, None).unwrap();
        assert_eq!((dataset.samples.len(), dataset.columns[0].values.len()), (3, 3));
        assert!(
            dataset.notes[0].contains("1 segments")
                && dataset.notes[0].contains("annotation 1 of video 'zz'")
        );
    }

    #[test]
    fn errors_name_file_and_video() {
        for (document, part) in [
            (r#"{"videos": {}}"#.to_owned(), "t.json has no \"database\""),
            (r#"{"database": {}}"#.to_owned(), "lists no videos"),
            (
                DATABASE.replace("[20, 30.5]", "[20]"),
                "t.json, video 'zz': annotation 1: segment is not [start, end]",
            ),
            (DATABASE.replace("[20, 30.5]", "[\"20\", 30]"), "annotation 1: segment"),
            (DATABASE.replace("\"zz\"", "\"../zz\""), "id '../zz' cannot be part"),
            (DATABASE.replace("\"annotations\": []", "\"annotations\": 3"), "video 'bb': annotations are 3"),
            (DATABASE.replace("\"bb\"", "\"aa\""), "appears twice"),
        ] {
            let error = fixed(&document, None).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = fixed(DATABASE, Some("train")).unwrap_err().to_string();
        assert!(
            error.contains(r#"no videos of subset 'train', it has {"testing", "training", "validation"}"#),
            "{error}"
        );
    }
}
