//! Reads the JSON annotations and labels of Something-Something V2.
//! The class of a video is its template without brackets, as the labels have it.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::column_value::{shortened, ColumnsBuilder, Value};
use crate::lines::{not_empty, read_json};
use crate::{Dataset, ImageSequencePattern, Sample, NO_LABEL};

/// Where a dataset stores its numbered videos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberedVideos {
    /// In files with the number as name and this extension.
    Files(String),
    /// In folders with the number as name, with these frames.
    Folders(ImageSequencePattern),
}

impl NumberedVideos {
    /// The sample for the video with this number.
    pub(crate) fn sample(&self, root: &Path, id: &str, label: i64) -> Result<Sample, String> {
        if id.is_empty() || id.starts_with('.') || id.contains(['/', '\\']) {
            return Err(format!("id '{}' cannot be a file's name", shortened(id)));
        }
        Ok(match self {
            NumberedVideos::Files(extension) => Sample::new(root.join(format!("{id}{extension}")), label),
            NumberedVideos::Folders(frames) => {
                Sample { image_sequence: Some(frames.clone()), ..Sample::new(root.join(id), label) }
            }
        })
    }
}

/// Reads `[{"id": …, "template": …}, …]` and `{"class": "number", …}`: Something-Something V2.
///
/// The class of a video is its template without `[` and `]`. Videos without a template, such as those of the
/// test split, have label -1. All keys of the annotations, including `id` and `template`, become columns.
pub fn something_something(
    annotations: impl AsRef<Path>,
    labels: impl AsRef<Path>,
    root: &Path,
    videos: &NumberedVideos,
) -> Result<Dataset> {
    let (path, labels) = (annotations.as_ref(), labels.as_ref());
    let classes = classes(labels)?;
    let Value::List(found) = read_json(path)? else {
        return Err(Error::Argument(format!(
            "{} is not a list of videos; write [{{\"id\": …}}, …]",
            path.display()
        )));
    };
    let (mut dataset, mut columns) = (Dataset::default(), ColumnsBuilder::default());
    for (number, video) in found.into_iter().enumerate() {
        let id = match video.get("id") {
            Some(Value::Text(id)) => id.clone(),
            Some(Value::Integer(id)) => id.to_string(),
            other => {
                let shown = other.map_or("nothing".to_owned(), Value::shown);
                let text = format!("{}, video {number}: id is {shown}, not text or a number", path.display());
                return Err(Error::Argument(text));
            }
        };
        let wrong =
            |reason| Error::Argument(format!("{}, video {number} (id {id}): {reason}", path.display()));
        let name = match video.get("template") {
            None => None,
            Some(Value::Text(template)) => Some(template.replace(['[', ']'], "")),
            Some(other) => return Err(wrong(format!("template is {}, not text", other.shown()))),
        };
        let label = name.as_deref().map_or(Ok(NO_LABEL), |name| classes.label(name));
        let label = label.map_err(|reason| wrong(format!("{reason} of {}", labels.display())))?;
        let sample = videos.sample(root, &id, label).map_err(wrong)?;
        dataset.samples.push(Sample { label_name: name, ..sample });
        if let Value::Map(items) = video {
            items
                .into_iter()
                .try_for_each(|(name, value)| columns.set(number, &name, value))
                .map_err(wrong)?;
        }
    }
    dataset.columns = columns.finish(dataset.samples.len());
    dataset.classes = classes.names;
    not_empty(path, dataset, "{\"id\": …}")
}

/// The classes by number. The numbers must be consecutive from 0.
fn classes(path: &Path) -> Result<Classes> {
    let wrong = |reason: String| {
        Error::Argument(format!(
            "{}: {reason}; write {{\"name of a class\": \"0\", …}}, numbered from 0 on",
            path.display()
        ))
    };
    let Value::Map(items) = read_json(path)? else { return Err(wrong("is not an object".to_owned())) };
    let mut names: Vec<Option<String>> = vec![None; items.len()];
    for (name, value) in items {
        let number = match &value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        let shown = || format!("class '{}' has number {}", shortened(&name), value.shown());
        let place = number.and_then(|number| names.get_mut(number)).ok_or_else(|| wrong(shown()))?;
        if place.is_some() {
            return Err(wrong(format!("{}, which another class has too", shown())));
        }
        *place = Some(name);
    }
    // There are as many slots as names and no duplicate numbers, so all slots are filled.
    Ok(Classes::numbered(names.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    const LABELS: &str = r#"{"Holding something next to something": "1", "Closing something": "0"}"#;

    fn read(videos: &str, labels: &str, numbered: &NumberedVideos) -> Result<Dataset> {
        let folder = TempFolder::new();
        something_something(
            folder.write("train.json", videos),
            folder.write("labels.json", labels),
            Path::new("/v"),
            numbered,
        )
    }

    fn files() -> NumberedVideos {
        NumberedVideos::Files(".webm".to_owned())
    }

    #[test]
    fn classes_are_templates_without_brackets() {
        let videos = r#"[
            {"id": "78687", "label": "holding potato next to bottle", "template": "Holding [something] next to [something]",
             "placeholders": ["potato", "bottle"]},
            {"id": 42326, "template": "Closing [something]"}, {"id": "7"}]"#;
        let dataset = read(videos, LABELS, &files()).unwrap();
        let rows: Vec<_> = dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label)).collect();
        assert_eq!(rows, [("/v/78687.webm", 1), ("/v/42326.webm", 0), ("/v/7.webm", NO_LABEL)]);
        assert_eq!(dataset.classes, ["Closing something", "Holding something next to something"]);
        assert_eq!(dataset.samples[0].label_name.as_deref(), Some("Holding something next to something"));
        let names: Vec<&str> = dataset.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["id", "label", "template", "placeholders"]);
        assert_eq!(dataset.columns[0].values[1], Value::Integer(42326));
        assert_eq!(dataset.columns[3].values[1..], [Value::Null, Value::Null]);
    }

    #[test]
    fn videos_may_be_folders_of_frames() {
        let frames =
            ImageSequencePattern { pattern: "{:05}.jpg".to_owned(), first: 1, count: None, fps: (12, 1) };
        let dataset = read(r#"[{"id": "7"}]"#, LABELS, &NumberedVideos::Folders(frames.clone())).unwrap();
        assert_eq!(
            (dataset.samples[0].path.to_str(), &dataset.samples[0].image_sequence),
            (Some("/v/7"), &Some(frames))
        );
    }

    #[test]
    fn errors_name_file_and_video() {
        for (videos, labels, part) in [
            (
                r#"[{"id": "7"}, {"id": "8", "template": "Opening [something]"}]"#,
                LABELS,
                "train.json, video 1 (id 8): 'Opening something' is not one of the 2 classes",
            ),
            (r#"[{"template": "Closing [something]"}]"#, LABELS, "train.json, video 0: id is nothing"),
            (r#"[{"id": "../7"}]"#, LABELS, "cannot be a file's name"),
            (r#"[{"id": "7", "template": 3}]"#, LABELS, "template is 3, not text"),
            ("[7]", LABELS, "video 0: id is nothing"),
            ("{}", LABELS, "is not a list of videos"),
            ("[]", LABELS, "lists no videos"),
            ("[{\"id\": \"7\"},\n]", LABELS, "train.json, line 2: is not JSON"),
            ("[]", r#"{"a": "0", "b": "2"}"#, "labels.json: class 'b' has number '2'"),
            ("[]", r#"{"a": "0", "b": "0"}"#, "which another class has too"),
            ("[]", r#"["a"]"#, "is not an object"),
        ] {
            let error = read(videos, labels, &files()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
