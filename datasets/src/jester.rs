//! Reads the lists of Jester, `id;label`, with their label names.
//! The videos are published as folders of images, and also exist as files.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::lines::{for_each_line, not_empty};
use crate::something_something::NumberedVideos;
use crate::{Dataset, Sample, NO_LABEL};

/// Reads `id;label` per line, or `id` alone (label -1), and the names of the labels, one per line, the first
/// of which has label 0. Jester and Something-Something V1 use this format.
pub fn jester(
    list: impl AsRef<Path>,
    labels: impl AsRef<Path>,
    root: &Path,
    videos: &NumberedVideos,
) -> Result<Dataset> {
    let (path, labels) = (list.as_ref(), labels.as_ref());
    let mut names = Vec::new();
    for_each_line(labels, false, |_, line| {
        names.push(line.to_owned());
        Ok(())
    })?;
    let classes = Classes::given_or(Some(&names), [].into_iter())
        .map_err(|error| Error::Argument(format!("{}: {error}", labels.display())))?;
    let mut dataset = Dataset::default();
    for_each_line(path, false, |_, line| {
        let (id, name) = match line.split_once(';') {
            Some((id, name)) => (id.trim(), Some(name.trim()).filter(|name| !name.is_empty())),
            None => (line, None),
        };
        let label = name.map_or(Ok(NO_LABEL), |name| classes.label(name));
        let label = label.map_err(|reason| format!("{reason} of {}; write: id;label", labels.display()))?;
        let sample = videos.sample(root, id, label)?;
        dataset.samples.push(Sample { label_name: name.map(str::to_owned), ..sample });
        Ok(())
    })?;
    dataset.classes = names;
    not_empty(path, dataset, "id;label")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn read(list: &str, labels: &str) -> Result<Dataset> {
        let folder = TempFolder::new();
        let videos = NumberedVideos::Files(".mp4".to_owned());
        jester(folder.write("train.csv", list), folder.write("labels.csv", labels), Path::new("/v"), &videos)
    }

    #[test]
    fn labels_are_indices_in_the_label_list() {
        let dataset =
            read("34870;Drumming Fingers\r\n9;Swiping Left\r\n10\r\n", "Swiping Left\nDrumming Fingers\n")
                .unwrap();
        let rows: Vec<_> = dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label)).collect();
        assert_eq!(rows, [("/v/34870.mp4", 1), ("/v/9.mp4", 0), ("/v/10.mp4", NO_LABEL)]);
        assert_eq!(dataset.classes, ["Swiping Left", "Drumming Fingers"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, labels, part) in [
            ("8;Waving", "Swiping Left\n", "train.csv, line 2: 'Waving' is not one of the 1 classes"),
            (";Swiping Left", "Swiping Left\n", "train.csv, line 2: id ''"),
            ("../8", "Swiping Left\n", "id '../8'"),
            ("8", "a\na\n", "labels.csv: classes must be distinct, got 'a' twice"),
        ] {
            let error = read(&format!("7\n{line}\n"), labels).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(read("\n", "a\n").unwrap_err().to_string().contains("id;label"));
    }
}
