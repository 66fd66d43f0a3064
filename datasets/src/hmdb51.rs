//! Reads a split of HMDB51 from its lists.
//! There is one list per class, which marks each of its videos as training, testing or unused.

use std::fs;
use std::path::Path;

use framespool::error::{Error, Result};

use crate::column_value::shortened;
use crate::lines::{for_each_line, not_empty, site};
use crate::{Dataset, Sample};

/// Reads the files `{class}_test_split{split}.txt` in the folder `annotations`: `video.avi 1` for training,
/// `2` for testing, `0` for neither. Classes are the sorted names of these files; videos are stored in
/// `root/{class}`.
pub fn hmdb51(annotations: impl AsRef<Path>, root: &Path, split: u32, train: bool) -> Result<Dataset> {
    let annotations = annotations.as_ref();
    let ending = format!("_test_split{split}.txt");
    let failed = |e| Error::io(&site(annotations), e);
    let mut classes = Vec::new();
    for item in fs::read_dir(annotations).map_err(failed)? {
        let name = item.map_err(failed)?.file_name();
        let class = name.to_str().and_then(|name| name.strip_suffix(&ending));
        classes.extend(class.filter(|class| !class.is_empty() && !class.starts_with('.')).map(str::to_owned));
    }
    if classes.is_empty() {
        return Err(Error::Argument(format!(
            "{} has no files such as brush_hair{ending}; give the folder that testTrainMulti_7030_splits unpacks to",
            annotations.display()
        )));
    }
    classes.sort();
    let mut dataset = Dataset::default();
    for (label, class) in (0..).zip(&classes) {
        for_each_line(&annotations.join(format!("{class}{ending}")), false, |_, line| {
            let (file, kind) = line.rsplit_once(char::is_whitespace).unwrap_or((line, ""));
            let wanted = match kind {
                "0" => false,
                "1" => train,
                "2" => !train,
                _ => {
                    return Err(format!(
                        "'{}' does not end in 0, 1 or 2; write: video.avi 1",
                        shortened(line)
                    ))
                }
            };
            if wanted {
                let path = root.join(class).join(file.trim_end());
                dataset.samples.push(Sample { label_name: Some(class.clone()), ..Sample::new(path, label) });
            }
            Ok(())
        })?;
    }
    dataset.classes = classes;
    not_empty(annotations, dataset, "video.avi 1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn folder(files: &[(&str, &str)]) -> TempFolder {
        let folder = TempFolder::new();
        files.iter().for_each(|(name, text)| drop(folder.write(name, text)));
        folder
    }

    #[test]
    fn a_split_has_its_own_lists_and_kinds() {
        let lists = folder(&[
            ("wave_test_split1.txt", "a #1.avi 1 \nb.avi 2 \nc.avi 0 \n"),
            ("brush_hair_test_split1.txt", "d.avi 2\r\ne.avi 1\r\n"),
            ("wave_test_split2.txt", "c.avi 1\n"),
            ("readme.txt", "no list"),
        ]);
        let rows = |split, train| {
            let dataset = hmdb51(&lists.0, Path::new("/v"), split, train).unwrap();
            let rows = dataset.samples.iter().map(|e| format!("{} {}", e.path.display(), e.label));
            (rows.collect::<Vec<_>>(), dataset.classes.join(","))
        };
        let all = "brush_hair,wave".to_owned();
        assert_eq!(
            rows(1, true),
            (vec!["/v/brush_hair/e.avi 0".to_owned(), "/v/wave/a #1.avi 1".to_owned()], all.clone())
        );
        assert_eq!(
            rows(1, false),
            (vec!["/v/brush_hair/d.avi 0".to_owned(), "/v/wave/b.avi 1".to_owned()], all)
        );
        assert_eq!(rows(2, true), (vec!["/v/wave/c.avi 0".to_owned()], "wave".to_owned()));
    }

    #[test]
    fn errors_name_file_and_line() {
        for line in ["a.avi 3", "a.avi", "a.avi x"] {
            let lists = folder(&[("wave_test_split1.txt", &format!("ok.avi 1\n{line}\n"))]);
            let error = hmdb51(&lists.0, Path::new("/v"), 1, true).unwrap_err().to_string();
            assert!(error.contains("wave_test_split1.txt, line 2: ") && error.contains(line), "{error}");
        }
        let lists = folder(&[("wave_test_split1.txt", "a.avi 1\n")]);
        let error = |split, train| hmdb51(&lists.0, Path::new("/v"), split, train).unwrap_err().to_string();
        assert!(error(3, true).contains("brush_hair_test_split3.txt"), "{}", error(3, true));
        assert!(error(1, false).contains("lists no videos"));
        let missing = hmdb51(lists.0.join("none"), Path::new("/v"), 1, true).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }));
    }
}
