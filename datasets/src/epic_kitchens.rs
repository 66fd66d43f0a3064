//! Reads an annotation table of EPIC-KITCHENS: one segment of a video per action.
//! Actions are bounded in seconds for video files, and in frames for folders of frames.
//! Actions that are skipped are reported in a note.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::classes::Classes;
use crate::column_value::shortened;
use crate::csv;
use crate::file_lookup::FileLookup;
use crate::lines::{line_error, not_empty};
use crate::path_pattern::PathPattern;
use crate::{Dataset, ImageSequencePattern, Sample, SegmentBounds, NO_LABEL};

/// Options for a table of EPIC-KITCHENS, and where its videos are stored.
#[derive(Clone, Debug)]
pub struct EpicKitchensOptions<'a> {
    /// The folder of the videos.
    pub root: &'a Path,
    /// Path of a video below `root`, with `{participant_id}` and `{video_id}`.
    pub file: &'a str,
    /// `verb` or `noun`: which class is the label.
    pub label: Option<&'a str>,
    /// The table of these classes, `id,key,…`.
    pub classes: Option<&'a Path>,
    /// Actions are bounded in frames, not in seconds.
    pub in_frames: bool,
    /// Videos are folders with these frames.
    pub frames: Option<&'a ImageSequencePattern>,
}

/// Reads `narration_id,participant_id,video_id,…,start_timestamp,stop_timestamp,start_frame,stop_frame,…`.
///
/// - In seconds, an action is `start_timestamp..stop_timestamp`, without the end. In frames, which the table
///   counts from 1, it is `start_frame..=stop_frame`, with the end.
/// - The label is `verb_class` or `noun_class`, and -1 if neither is requested or the table has none, as for
///   a test split.
/// - All columns of the table become columns of the dataset.
/// - Actions that end at or before their start are skipped, with a note.
pub fn epic_kitchens(annotations: impl AsRef<Path>, options: &EpicKitchensOptions<'_>) -> Result<Dataset> {
    let path = annotations.as_ref();
    let pattern = PathPattern::parse(options.file, &["participant_id", "video_id"])?;
    let class = options.label.map(|label| format!("{label}_class"));
    let bounds =
        if options.in_frames { ["start_frame", "stop_frame"] } else { ["start_timestamp", "stop_timestamp"] };
    let (mut dataset, mut empty, mut names) = (Dataset::default(), Vec::new(), Vec::new());
    dataset.columns = csv::read(path, &["participant_id", "video_id", bounds[0], bounds[1]], |row| {
        let Some(segment) = (if options.in_frames { frames(row, bounds)? } else { seconds(row, bounds)? })
        else {
            empty.push(row.line);
            return Ok(false);
        };
        let label = match &class {
            Some(class) if !row.get(class).is_empty() => row.integer(class)?,
            _ => NO_LABEL,
        };
        names.push((row.line, pattern.expand(|key| Some(row.get(key).to_owned()))?));
        let sample = Sample::new(options.root.to_owned(), label);
        dataset.samples.push(Sample {
            segment: Some(segment),
            image_sequence: options.frames.cloned(),
            ..sample
        });
        Ok(true)
    })?;
    let mut lookup = FileLookup::default();
    for (sample, (line, name)) in dataset.samples.iter_mut().zip(&names) {
        let found = pattern.resolve(options.root, name, &mut lookup)?;
        sample.path =
            found.ok_or_else(|| line_error(path, *line, &pattern.not_found_message(options.root, name)))?;
    }
    if let Some(first) = empty.first() {
        dataset.notes.push(format!(
            "{}: {} actions whose end is not after their start are skipped; the first is on line {first}",
            path.display(),
            empty.len()
        ));
    }
    if let Some(classes) = options.classes {
        name_labels(classes, &mut dataset)?;
    }
    not_empty(path, dataset, "narration_id,participant_id,video_id,…")
}

fn frames(row: &csv::CsvRow<'_>, [start, stop]: [&str; 2]) -> Result<Option<SegmentBounds>, String> {
    let (start, stop) = (row.integer(start)?, row.integer(stop)?);
    if start < 0 || stop > i64::from(u32::MAX) {
        return Err(format!(
            "an action from frame {start} to {stop} is out of range; frames are counted from 1"
        ));
    }
    // Frames are numbered from 1, but a few tables have actions that begin at 0.
    let bounds = SegmentBounds::Frames { start: start.max(1) - 1, end: Some(stop) };
    Ok((start.max(1) <= stop).then_some(bounds))
}

fn seconds(row: &csv::CsvRow<'_>, [start, stop]: [&str; 2]) -> Result<Option<SegmentBounds>, String> {
    let time = |name: &str| {
        let text = row.get(name);
        clock(text).ok_or_else(|| format!("{name} '{}' is not a time; write 00:01:02.34", shortened(text)))
    };
    let (start, stop) = (time(start)?, time(stop)?);
    Ok((start < stop).then_some(SegmentBounds::Seconds { start: Some(start), end: Some(stop) }))
}

/// Parses `01:02:03.45` into seconds.
fn clock(text: &str) -> Option<f64> {
    let mut fields = text.split(':');
    let (hours, minutes, seconds) = (fields.next()?, fields.next()?, fields.next()?);
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if fields.next().is_some() || ![hours, minutes, seconds].into_iter().all(plain) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    (minutes < 60 && seconds < 60.0).then(|| f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds)
}

/// Sets the label names from a table of classes.
fn name_labels(path: &Path, dataset: &mut Dataset) -> Result<()> {
    let mut names = Vec::new();
    csv::read(path, &["id", "key"], |row| {
        if row.integer("id")? != names.len() as i64 {
            return Err(format!("found class {}, expected class {}", row.get("id"), names.len()));
        }
        names.push(row.get("key").to_owned());
        Ok(false)
    })?;
    let classes = Classes::numbered(names);
    for sample in dataset.samples.iter_mut().filter(|sample| sample.label != NO_LABEL) {
        let name = usize::try_from(sample.label).ok().and_then(|label| classes.names.get(label));
        sample.label_name =
            Some(name.cloned().ok_or_else(|| {
                Error::Argument(format!("{} has no class {}", path.display(), sample.label))
            })?);
    }
    dataset.classes = classes.names;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column_value::Value;
    use crate::tests::TempFolder;

    const HEADER: &str = "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,verb_class,noun_class,all_noun_classes\n";
    const ROWS: &str = "P01_01_0,P01,P01_01,00:00:00.14,00:01:03.37,8,202,3,5,\"[5, 7]\"\nP01_01_1,P01,P01_01,01:00:04.5,01:00:06.17,262,370,6,114,[114]\n";

    fn options(root: &Path) -> EpicKitchensOptions<'_> {
        let file = "{participant_id}/videos/{video_id}.MP4";
        EpicKitchensOptions { root, file, label: Some("verb"), classes: None, in_frames: false, frames: None }
    }

    fn read(rows: &str, options: &EpicKitchensOptions<'_>) -> Result<Dataset> {
        let folder = TempFolder::new();
        epic_kitchens(folder.write("t.csv", format!("{HEADER}{rows}")), options)
    }

    #[test]
    fn actions_are_segments_in_seconds_or_frames() {
        let root = Path::new("/v");
        let dataset = read(ROWS, &options(root)).unwrap();
        let sample = &dataset.samples[0];
        assert_eq!((sample.path.to_str(), sample.label), (Some("/v/P01/videos/P01_01.MP4"), 3));
        assert_eq!(sample.segment, Some(SegmentBounds::Seconds { start: Some(0.14), end: Some(63.37) }));
        assert_eq!(
            dataset.samples[1].segment,
            Some(SegmentBounds::Seconds { start: Some(3604.5), end: Some(3606.17) })
        );
        let lists = dataset.columns.iter().find(|c| c.name == "all_noun_classes").unwrap();
        assert_eq!(lists.values, [Value::integers([5, 7]), Value::integers([114])]);
        assert_eq!(dataset.columns.len(), 10);

        let frames = ImageSequencePattern {
            pattern: "frame_{:010}.jpg".to_owned(),
            first: 1,
            count: None,
            fps: (60, 1),
        };
        let file = "{participant_id}/{video_id}";
        let dataset = read(
            ROWS,
            &EpicKitchensOptions {
                file,
                label: Some("noun"),
                in_frames: true,
                frames: Some(&frames),
                ..options(root)
            },
        )
        .unwrap();
        let sample = &dataset.samples[1];
        assert_eq!(
            (sample.path.to_str(), sample.label, &sample.image_sequence),
            (Some("/v/P01/P01_01"), 114, &Some(frames.clone()))
        );
        assert_eq!(sample.segment, Some(SegmentBounds::Frames { start: 261, end: Some(370) }));
    }

    #[test]
    fn tables_without_classes_have_no_labels() {
        let folder = TempFolder::new();
        let test =
            "participant_id,video_id,start_timestamp,stop_timestamp\nP01,P01_11,00:00:00.00,00:00:01.89\n";
        let dataset = epic_kitchens(folder.write("test.csv", test), &options(&folder.0)).unwrap();
        assert_eq!(dataset.samples[0].label, NO_LABEL);
        let classes = folder.write(
            "verbs.csv",
            "id,key,instances\n0,take,\"['take', 'grab']\"\n1,put,['put']\n2,wash,x\n3,open,x\n",
        );
        let row = ROWS.lines().next().unwrap();
        let dataset =
            read(row, &EpicKitchensOptions { classes: Some(&classes), ..options(&folder.0) }).unwrap();
        assert_eq!((dataset.classes.len(), dataset.samples[0].label_name.as_deref()), (4, Some("open")));
        let error = read(ROWS, &EpicKitchensOptions { classes: Some(&classes), ..options(&folder.0) })
            .unwrap_err()
            .to_string();
        assert!(error.contains("verbs.csv has no class 6"), "{error}");
    }

    #[test]
    fn empty_actions_are_skipped_with_a_note() {
        let rows = format!("{ROWS}a,P01,P01_01,00:00:05.00,00:00:05.00,9,8,1,1,[1]\n");
        for in_frames in [false, true] {
            let dataset =
                read(&rows, &EpicKitchensOptions { in_frames, ..options(Path::new("/v")) }).unwrap();
            assert_eq!((dataset.samples.len(), dataset.columns[0].values.len()), (2, 2));
            assert!(
                dataset.notes[0].contains("1 actions") && dataset.notes[0].ends_with("line 4"),
                "{:?}",
                dataset.notes
            );
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let row = |start, stop, frame, id| format!("a,P01,{id},{start},{stop},{frame},9,1,1,[1]\n");
        for (row, in_frames, part) in [
            (row("5", "00:00:06", "1", "x"), false, "start_timestamp '5' is not a time"),
            (row("00:00:05", "00:61:00", "1", "x"), false, "stop_timestamp '00:61:00'"),
            (row("00:00:05", "00:00:-6", "1", "x"), false, "'00:00:-6'"),
            (row("", "", "one", "x"), true, "start_frame 'one'"),
            (row("", "", "-1", "x"), true, "from frame -1"),
            (row("00:00:05", "00:00:06", "1", "../x"), false, "video_id '../x'"),
        ] {
            let error =
                read(&format!("{ROWS}{row}"), &EpicKitchensOptions { in_frames, ..options(Path::new("/v")) })
                    .unwrap_err()
                    .to_string();
            assert!(error.contains("t.csv, line 4: ") && error.contains(part), "{error}");
        }
        let error = read(ROWS, &EpicKitchensOptions { file: "{video_id}.*", ..options(Path::new("/none")) })
            .unwrap_err()
            .to_string();
        assert!(error.contains("t.csv, line 2: no video /none/P01_01.*"), "{error}");
    }
}
