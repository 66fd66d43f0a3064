//! Reads a split of UCF101 from its lists.
//! The lists number classes from 1; labels count from 0. A class number that disagrees with the folder is an
//! error.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::column_value::shortened;
use crate::lines::{for_each_line, line_error, not_empty};
use crate::{Dataset, Sample};

/// Reads `classInd.txt` (`1 Name`) and, for split 1, 2 or 3, `trainlist01.txt` (`Class/video.avi 1`) or
/// `testlist01.txt` (`Class/video.avi`) in the folder `annotations`. The class is that of the folder, and a
/// number after the path must agree with it.
pub fn ucf101(annotations: impl AsRef<Path>, root: &Path, split: u32, train: bool) -> Result<Dataset> {
    let annotations = annotations.as_ref();
    let index = annotations.join("classInd.txt");
    let classes = classes(&index)?;
    let list = annotations.join(format!("{}list{split:02}.txt", if train { "train" } else { "test" }));
    let mut dataset = Dataset { classes: classes.names.clone(), ..Dataset::default() };
    for_each_line(&list, false, |_, line| {
        let (file, number) = match line.rsplit_once(char::is_whitespace) {
            Some((file, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                (file.trim_end(), Some(number))
            }
            _ => (line, None),
        };
        let (class, _) = file.split_once('/').ok_or_else(|| {
            format!("'{}' has no class folder; write Class/video.avi, followed by a number", shortened(file))
        })?;
        let label = classes.label(class).map_err(|reason| format!("{reason} of {}", index.display()))?;
        if let Some(number) = number.filter(|number| number.parse::<i64>() != Ok(label + 1)) {
            return Err(format!(
                "class {class} is number {} in {}, but the line says {number}; the lists do not belong together",
                label + 1,
                index.display()
            ));
        }
        let name = Some(class.to_owned());
        dataset.samples.push(Sample { label_name: name, ..Sample::new(root.join(file), label) });
        Ok(())
    })?;
    not_empty(&list, dataset, "Class/video.avi 1")
}

/// The classes by number. The numbers must be consecutive from 1.
fn classes(index: &Path) -> Result<Classes> {
    let mut found: Vec<(u64, i64, String)> = Vec::new();
    for_each_line(index, false, |line, text| {
        let pair = text.split_once(char::is_whitespace).map(|(number, name)| (number.parse(), name.trim()));
        let Some((Ok(number), name)) = pair else {
            return Err(format!(
                "'{}' is not a class; write a number and a name: 1 ApplyEyeMakeup",
                shortened(text)
            ));
        };
        found.push((line, number, name.to_owned()));
        Ok(())
    })?;
    found.sort_by_key(|(_, number, _)| *number);
    for (place, (line, number, _)) in (1..).zip(&found) {
        if *number != place {
            let reason = format!("found class {number}, expected class {place}; number classes from 1");
            return Err(line_error(index, *line, &reason));
        }
    }
    let names: Vec<String> = found.into_iter().map(|(_, _, name)| name).collect();
    Classes::given_or(Some(&names), [].into_iter())
        .map_err(|error| Error::Argument(format!("{}: {error}", index.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn read(files: &[(&str, &str)], split: u32, train: bool) -> Result<Dataset> {
        let folder = TempFolder::new();
        files.iter().for_each(|(name, text)| drop(folder.write(name, text)));
        ucf101(&folder.0, Path::new("/v"), split, train)
    }

    const CLASSES: (&str, &str) = ("classInd.txt", "1 ApplyEyeMakeup\r\n2 Archery\r\n");

    #[test]
    fn splits_are_read_with_labels_from_0() {
        let train = ("trainlist02.txt", "Archery/v_Archery_g08_c01.avi 2\r\nApplyEyeMakeup/v.avi 1\r\n");
        let test = ("testlist02.txt", "ApplyEyeMakeup/w.avi\r\nArchery/x.avi\r\n");
        let dataset = read(&[CLASSES, train, test], 2, true).unwrap();
        assert_eq!(dataset.classes, ["ApplyEyeMakeup", "Archery"]);
        let rows = |dataset: &Dataset| {
            dataset.samples.iter().map(|e| (e.path.to_str().unwrap().to_owned(), e.label)).collect::<Vec<_>>()
        };
        assert_eq!(
            rows(&dataset),
            [("/v/Archery/v_Archery_g08_c01.avi".to_owned(), 1), ("/v/ApplyEyeMakeup/v.avi".to_owned(), 0)]
        );
        assert_eq!(dataset.samples[0].label_name.as_deref(), Some("Archery"));
        let dataset = read(&[CLASSES, train, test], 2, false).unwrap();
        assert_eq!(
            rows(&dataset),
            [("/v/ApplyEyeMakeup/w.avi".to_owned(), 0), ("/v/Archery/x.avi".to_owned(), 1)]
        );
    }

    #[test]
    fn contradictory_lists_name_file_and_line() {
        let list = |text| ("trainlist01.txt", text);
        for (files, part) in [
            (
                [CLASSES, list("Archery/v.avi 2\nArchery/v.avi 1\n")],
                "trainlist01.txt, line 2: class Archery is number 2",
            ),
            (
                [CLASSES, list("Bowling/v.avi 2\n")],
                "trainlist01.txt, line 1: 'Bowling' is not one of the 2 classes",
            ),
            ([CLASSES, list("v.avi 1\n")], "'v.avi' has no class folder"),
            ([CLASSES, list("\n")], "lists no videos"),
            (
                [("classInd.txt", "1 A\n3 B\n"), list("A/v.avi 1\n")],
                "classInd.txt, line 2: found class 3, expected class 2",
            ),
            ([("classInd.txt", "A 1\n"), list("A/v.avi 1\n")], "classInd.txt, line 1: 'A 1' is not a class"),
            ([("classInd.txt", "1 A\n2 A\n"), list("A/v.avi 1\n")], "got 'A' twice"),
        ] {
            let error = read(&files, 1, true).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = read(&[CLASSES], 4, true).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }) && error.to_string().contains("trainlist04.txt"));
    }
}
