//! Reads an annotation table of Kinetics and looks up its clips, labeled by class.
//! Clips have the file names that the usual downloads give them, in either of two folder structures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::column_value::shortened;
use crate::csv;
use crate::file_lookup::{FileLookup, MissingFilePolicy, MissingFiles};
use crate::lines::line_error;
use crate::{Dataset, Sample, NO_LABEL};

/// One row of the table.
struct Clip {
    line: u64,
    label: String,
    file: String,
    wanted: bool,
}

/// Reads `label,youtube_id,time_start,time_end,split`, the tables of Kinetics-400, -600 and -700.
///
/// - A clip is the file `{youtube_id}_{time_start:06}_{time_end:06}{extension}` in `root`, or in the folder
///   of its class in `root`, whose name has spaces or underscores. Each of these folders is listed once.
/// - Labels are indices in the sorted names of all classes of the table, or in `classes`. In a table without
///   a column `label`, such as that of a test split, all labels are -1.
/// - `split` keeps the rows with this value in the column `split`. The classes are still those of the whole
///   table.
/// - All columns except `label` become columns of the dataset.
pub fn kinetics(
    annotations: impl AsRef<Path>,
    root: &Path,
    extension: &str,
    split: Option<&str>,
    classes: Option<&[String]>,
    missing: MissingFilePolicy,
) -> Result<Dataset> {
    let path = annotations.as_ref();
    let (mut clips, mut splits) = (Vec::new(), BTreeSet::new());
    let mut columns = csv::read(path, &["youtube_id", "time_start", "time_end"], |row| {
        let (start, end) = (row.integer("time_start")?, row.integer("time_end")?);
        let id = row.get("youtube_id");
        if id.is_empty() || id.contains(['/', '\\']) {
            return Err(format!("youtube_id '{}' cannot be part of a file's name", shortened(id)));
        }
        if start < 0 || end < start {
            return Err(format!("a clip from {start} s to {end} s is empty"));
        }
        let file = format!("{id}_{start:06}_{end:06}{extension}");
        if splits.len() < 16 {
            splits.insert(row.get("split").to_owned());
        }
        let wanted = split.is_none_or(|split| row.get("split") == split);
        // Some tables quote labels twice.
        let label = row.get("label").trim_matches('"').to_owned();
        clips.push(Clip { line: row.line, label, file, wanted });
        Ok(true)
    })?;
    if let (Some(split), false) = (split, clips.iter().any(|clip| clip.wanted)) {
        let splits: Vec<String> = splits.into_iter().collect();
        let text = format!("{} has no rows of split '{split}', it has {splits:?}", path.display());
        return Err(Error::Argument(text));
    }
    let names = clips.iter().map(|clip| clip.label.as_str()).filter(|label| !label.is_empty());
    let classes = Classes::given_or(classes, names)?;
    let (mut lookup, mut missing_files, mut samples) =
        (FileLookup::default(), MissingFiles::default(), Vec::new());
    let mut kept = vec![false; clips.len()];
    for (clip, kept) in clips.iter().zip(&mut kept).filter(|(clip, _)| clip.wanted) {
        let folder = match find_folder(&mut lookup, root, clip)? {
            Some(folder) => folder,
            None => {
                let looked =
                    || format!("no file {} in {} or in its class folder there", clip.file, root.display());
                missing_files.add(Some(clip.line), looked);
                continue;
            }
        };
        let name = Some(clip.label.clone()).filter(|label| !label.is_empty());
        let label = name.as_deref().map_or(Ok(NO_LABEL), |name| classes.label(name));
        let label = label.map_err(|reason| line_error(path, clip.line, &reason))?;
        samples.push(Sample { label_name: name, ..Sample::new(folder.join(&clip.file), label) });
        *kept = true;
    }
    let notes: Vec<String> = missing_files.report(path, missing, samples.len())?.into_iter().collect();
    if samples.is_empty() {
        return Err(Error::Argument(format!("{} has a header and no rows", path.display())));
    }
    columns.retain(|column| column.name != "label");
    columns.iter_mut().for_each(|column| column.filter(&kept));
    Ok(Dataset { samples, classes: classes.names, columns, notes })
}

/// The folder that contains a clip.
fn find_folder(lookup: &mut FileLookup, root: &Path, clip: &Clip) -> Result<Option<PathBuf>> {
    if lookup.contains(root, &clip.file)? {
        return Ok(Some(root.to_owned()));
    }
    // A label must not lead out of the root.
    if clip.label.is_empty() || clip.label.starts_with('.') || clip.label.contains(['/', '\\']) {
        return Ok(None);
    }
    for class in [clip.label.clone(), clip.label.replace(' ', "_")] {
        let folder = root.join(class);
        if lookup.contains(&folder, &clip.file)? {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column_value::Value;
    use crate::tests::TempFolder;

    const HEADER: &str = "label,youtube_id,time_start,time_end,split,is_cc\n";

    fn rooted(files: &[&str], table: &str) -> (TempFolder, PathBuf) {
        let root = TempFolder::new();
        files.iter().for_each(|file| drop(root.write(file, "")));
        let table = root.write("t.csv", table);
        (root, table)
    }

    fn rows(root: &TempFolder, dataset: &Dataset) -> Vec<(String, i64)> {
        let below = |e: &Sample| e.path.strip_prefix(&root.0).unwrap().to_str().unwrap().to_owned();
        dataset.samples.iter().map(|e| (below(e), e.label)).collect()
    }

    #[test]
    fn clips_are_found_in_each_layout() {
        let table = format!("{HEADER}\"zumba, slow\",-a_1,2,12,train,0\nair drumming,b,1003,1013,train,1\nair drumming,c,7,17,val,0\n");
        let files = [
            "-a_1_000002_000012.mp4",
            "air_drumming/b_001003_001013.mp4",
            "air drumming/c_000007_000017.mp4",
        ];
        let (root, path) = rooted(&files, &table);
        let dataset = kinetics(&path, &root.0, ".mp4", None, None, MissingFilePolicy::Error).unwrap();
        let expected = [(files[0], 1), (files[1], 0), (files[2], 0)];
        assert_eq!(rows(&root, &dataset), expected.map(|(file, label)| (file.to_owned(), label)));
        assert_eq!(dataset.classes, ["air drumming", "zumba, slow"]);
        let names: Vec<&str> = dataset.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["youtube_id", "time_start", "time_end", "split", "is_cc"]);
        assert_eq!(dataset.columns[1].values[1], Value::Integer(1003));
        let split = kinetics(&path, &root.0, ".mp4", Some("train"), None, MissingFilePolicy::Error).unwrap();
        assert_eq!(
            (rows(&root, &split).len(), split.classes.len(), split.columns[0].values.len()),
            (2, 2, 2)
        );
        let given = ["x".to_owned(), "zumba, slow".to_owned(), "air drumming".to_owned()];
        let dataset = kinetics(&path, &root.0, ".mp4", None, Some(&given), MissingFilePolicy::Error).unwrap();
        assert_eq!((dataset.samples[1].label, dataset.classes), (2, given.to_vec()));
    }

    #[test]
    fn a_table_without_labels_gives_none() {
        let (root, path) =
            rooted(&["a_000000_000010.webm"], "youtube_id,time_start,time_end,split\na,0.0,10.0,test\n");
        let dataset =
            kinetics(&path, &root.0, ".webm", Some("test"), None, MissingFilePolicy::Error).unwrap();
        assert_eq!(rows(&root, &dataset), [("a_000000_000010.webm".to_owned(), NO_LABEL)]);
        assert!(dataset.classes.is_empty() && dataset.samples[0].label_name.is_none());
    }

    #[test]
    fn missing_clips_are_an_error_or_noted() {
        let table = format!("{HEADER}x,a,0,10,train,0\ny,b,0,10,train,0\n");
        let (root, path) = rooted(&["b_000000_000010.mp4"], &table);
        let read = |missing| kinetics(&path, &root.0, ".mp4", None, None, missing);
        let error = read(MissingFilePolicy::Error).unwrap_err().to_string();
        assert!(
            error.contains("t.csv, line 2: no file a_000000_000010.mp4") && error.contains("skip"),
            "{error}"
        );
        let dataset = read(MissingFilePolicy::Skip).unwrap();
        assert_eq!(rows(&root, &dataset), [("b_000000_000010.mp4".to_owned(), 1)]);
        assert_eq!((dataset.classes.len(), dataset.columns[0].values.len()), (2, 1));
        assert!(dataset.notes[0].contains("1 of 2 samples are skipped"), "{:?}", dataset.notes);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (row, part) in [
            ("x,a,zero,10,train,0", "time_start 'zero' is not an integer"),
            ("x,a,0.5,10,train,0", "'0.5'"),
            ("x,a,10,0,train,0", "from 10 s to 0 s"),
            ("x,../a,0,10,train,0", "'../a'"),
            ("x,,0,10,train,0", "youtube_id ''"),
            ("x,y,a,0,10,train,0", "has 7 fields"),
        ] {
            let (root, path) =
                rooted(&["ok_000000_000010.mp4"], &format!("{HEADER}x,ok,0,10,train,0\n{row}\n"));
            let error = kinetics(&path, &root.0, ".mp4", None, None, MissingFilePolicy::Error)
                .unwrap_err()
                .to_string();
            assert!(error.contains("t.csv, line 3: ") && error.contains(part), "{error}");
        }
        let (root, path) = rooted(&["ok_000000_000010.mp4"], &format!("{HEADER}x,ok,0,10,train,0\n"));
        let error = kinetics(&path, &root.0, ".mp4", Some("valid"), None, MissingFilePolicy::Error)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no rows of split 'valid', it has [\"train\"]"), "{error}");
        let other = ["y".to_owned()];
        let error = kinetics(&path, &root.0, ".mp4", None, Some(&other), MissingFilePolicy::Error)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2: 'x' is not one of the 1 classes"), "{error}");
        assert!(
            kinetics(root.write("e.csv", HEADER), &root.0, "", None, None, MissingFilePolicy::Skip).is_err()
        );
    }

    #[test]
    fn label_cannot_escape_the_root() {
        let (root, path) =
            rooted(&["k/t.csv", "b_000000_000010.mp4"], &format!("{HEADER}..,b,0,10,train,0\n"));
        let error =
            kinetics(&path, &root.0.join("k"), ".mp4", None, None, MissingFilePolicy::Error).unwrap_err();
        assert!(error.to_string().contains("none of 1 files exists"), "{error}");
    }
}
