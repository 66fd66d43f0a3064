//! Reads lists in the format of DALI's video readers: `file label [start [end]]`. Seconds become
//! segments in seconds or, if a frame rate is given, the frames to which DALI rounds them.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::column_value::shortened;
use crate::lines::{for_each_line, not_empty, resolve_path, root_of};
use crate::{Dataset, Sample, SegmentBounds};

/// Longer times (over a century) are typing errors. Up to this, the products in nanoseconds do not
/// overflow.
const MAX_SECONDS: f64 = 4e9;
const NANOS: f64 = 1e9;

/// The unit of start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaliUnit {
    /// Frame numbers; negative ones count from the end.
    Frames,
    /// Seconds of presentation time.
    Seconds,
    /// Seconds, converted to frames at a constant rate.
    Rounded {
        /// Round the start up to the next frame instead of down.
        start_up: bool,
        /// Round the end up instead of down.
        end_up: bool,
        /// Frames per second: numerator, denominator.
        fps: (u32, u32),
    },
}

/// Reads `file label [start [end]]` per line, separated by white space, like DALI's `readers.video`
/// and `experimental.readers.video`: names contain no spaces, and the end is exclusive.
///
/// - A line whose start equals its end, or whose segment is empty after rounding, is skipped, as in
///   DALI: the clip order of DALI depends on the number of samples. A note has the number of
///   skipped lines.
/// - Rounding is exact for times with up to nine decimals, where DALI uses floating point.
/// - Blank lines and lines that begin with `#` are skipped. Relative paths are relative to `root`,
///   or else to the folder of the list.
pub fn dali_file_list(
    path: impl AsRef<Path>,
    root: Option<&Path>,
    unit: DaliUnit,
) -> Result<Dataset> {
    let path = path.as_ref();
    if let DaliUnit::Rounded {
        fps: fps @ ((0, _) | (_, 0)),
        ..
    } = unit
    {
        return Err(Error::Argument(format!("fps must be above 0, got {fps:?}")));
    }
    let root = root_of(path, root);
    let (mut dataset, mut empty): (Dataset, Vec<u64>) = (Dataset::default(), Vec::new());
    for_each_line(path, true, |number, line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (name, label, bounds) = match fields[..] {
            [name, label] => (name, label, None),
            [name, label, start] => (name, label, Some((start, None))),
            [name, label, start, end] => (name, label, Some((start, Some(end)))),
            _ => {
                return Err(format!(
                    "has {} fields; write: file label [start [end]], no spaces in names",
                    fields.len()
                ));
            }
        };
        let label = label.parse().map_err(|_| {
            let shown = shortened(label);
            format!("label '{shown}' is not an integer; write: file label [start [end]], no spaces in names")
        })?;
        let segment = match bounds {
            None => None,
            Some((start, end)) => match bounds_of(start, end, unit)? {
                Some(bounds) => Some(bounds),
                None => {
                    empty.push(number);
                    return Ok(());
                }
            },
        };
        dataset.samples.push(Sample {
            segment,
            ..Sample::new(resolve_path(root, name), label)
        });
        Ok(())
    })?;
    if let Some(first) = empty.first() {
        dataset.notes.push(format!(
            "{}: {} lines are skipped, as in DALI, because their segments have no frames; the first is line {first}",
            path.display(),
            empty.len()
        ));
    }
    not_empty(path, dataset, "file label [start [end]]")
}

/// The segment, or `None` if it contains no frames.
fn bounds_of(
    start: &str,
    end: Option<&str>,
    unit: DaliUnit,
) -> Result<Option<SegmentBounds>, String> {
    match unit {
        DaliUnit::Frames => {
            let (start, end) = (frame(start)?, end.map(frame).transpose()?);
            // If only one of them counts from the end, their order depends on the length of the
            // video.
            match end.filter(|end| (start < 0) == (*end < 0)) {
                Some(end) if end < start => Err(format!(
                    "the segment starts at frame {start} and ends at {end}"
                )),
                Some(end) if end == start => Ok(None),
                _ => Ok(Some(SegmentBounds::Frames { start, end })),
            }
        }
        DaliUnit::Seconds | DaliUnit::Rounded { .. } => {
            let (start, end) = (seconds(start)?, end.map(seconds).transpose()?);
            match end {
                Some(end) if end < start => {
                    return Err(format!(
                        "the segment starts at {start} s and ends at {end} s"
                    ));
                }
                Some(end) if end == start => return Ok(None),
                _ => {}
            }
            let DaliUnit::Rounded {
                start_up,
                end_up,
                fps,
            } = unit
            else {
                return Ok(Some(SegmentBounds::Seconds {
                    start: Some(start),
                    end,
                }));
            };
            let (start, end) = (
                rounded(start, fps, start_up),
                end.map(|end| rounded(end, fps, end_up)),
            );
            Ok(end
                .is_none_or(|end| start < end)
                .then_some(SegmentBounds::Frames { start, end }))
        }
    }
}

fn frame(text: &str) -> Result<i64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|frame: &i64| frame.unsigned_abs() <= u64::from(u32::MAX));
    number.ok_or_else(|| {
        format!(
            "frame '{}' is not a 32-bit integer; are these seconds?",
            shortened(text)
        )
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .parse()
        .ok()
        .filter(|seconds: &f64| seconds.abs() <= MAX_SECONDS)
        .ok_or_else(|| {
            format!(
                "time '{}' is not a number of seconds up to {MAX_SECONDS}",
                shortened(text)
            )
        })?;
    if number < 0.0 {
        return Err(format!(
            "time {number} is before the video; count seconds from its start"
        ));
    }
    Ok(number)
}

/// The frame number of a time at a constant rate.
fn rounded(seconds: f64, (num, den): (u32, u32), up: bool) -> i64 {
    // In integer nanoseconds, so that 0.1 s at 30 fps is exactly frame 3.
    let ticks = (seconds * NANOS).round() as i128 * i128::from(num);
    let tick = i128::from(den) * NANOS as i128;
    let frame = if up {
        (ticks + tick - 1) / tick
    } else {
        ticks / tick
    };
    i64::try_from(frame).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn read(text: &str, unit: DaliUnit) -> Result<Dataset> {
        let folder = TempFolder::new();
        dali_file_list(folder.write("list.txt", text), Some(Path::new("/r")), unit)
    }

    fn parts(dataset: &Dataset) -> Vec<Option<SegmentBounds>> {
        dataset.samples.iter().map(|e| e.segment).collect()
    }

    #[test]
    fn a_line_is_a_video_or_a_part_of_one() {
        let dataset = read(
            "a.mp4 3\nb/c.mp4\t4  1.5\n/d.mp4 5 0 2.25\n",
            DaliUnit::Seconds,
        )
        .unwrap();
        let paths: Vec<_> = dataset
            .samples
            .iter()
            .map(|e| (e.path.to_str().unwrap(), e.label))
            .collect();
        assert_eq!(paths, [("/r/a.mp4", 3), ("/r/b/c.mp4", 4), ("/d.mp4", 5)]);
        let seconds = |start, end| {
            Some(SegmentBounds::Seconds {
                start: Some(start),
                end,
            })
        };
        assert_eq!(
            parts(&dataset),
            [None, seconds(1.5, None), seconds(0.0, Some(2.25))]
        );
        let dataset = read("a 0 5\na 0 -10 -5\na 0 3 -1\n", DaliUnit::Frames).unwrap();
        let frames = |start, end| Some(SegmentBounds::Frames { start, end });
        assert_eq!(
            parts(&dataset),
            [frames(5, None), frames(-10, Some(-5)), frames(3, Some(-1))]
        );
    }

    #[test]
    fn empty_segments_are_skipped_with_a_note() {
        for (text, unit) in [
            ("a 0\na 1 2 2\na 2 0.5 0.5\n", DaliUnit::Seconds),
            ("a 0\na 1 2 2\na 2 -3 -3\n", DaliUnit::Frames),
        ] {
            let dataset = read(text, unit).unwrap();
            assert_eq!(dataset.samples.len(), 1);
            let [note] = &dataset.notes[..] else {
                panic!("{:?}", dataset.notes)
            };
            assert!(
                note.contains("2 lines are skipped") && note.ends_with("line 2"),
                "{note}"
            );
        }
        let error = read("a 1 2 2\n", DaliUnit::Frames).unwrap_err().to_string();
        assert!(
            error.contains("lists no videos (") && error.contains("1 lines are skipped"),
            "{error}"
        );
    }

    #[test]
    fn times_are_rounded_by_the_given_rate() {
        let round = |text: &str, start_up, end_up, fps| {
            read(
                text,
                DaliUnit::Rounded {
                    start_up,
                    end_up,
                    fps,
                },
            )
            .map(|dataset| parts(&dataset)[0])
        };
        let frames = |start, end| {
            Some(SegmentBounds::Frames {
                start,
                end: Some(end),
            })
        };
        // 0.51 s is frame 12.75, 1.01 s is frame 25.25.
        assert_eq!(
            round("a 0 0.51 1.01", false, true, (25, 1)).unwrap(),
            frames(12, 26)
        );
        assert_eq!(
            round("a 0 0.51 1.01", true, false, (25, 1)).unwrap(),
            frames(13, 25)
        );
        assert_eq!(
            round("a 0 0.51 1.01", true, true, (25, 1)).unwrap(),
            frames(13, 26)
        );
        assert_eq!(
            round("a 0 0.51 1.01", false, false, (25, 1)).unwrap(),
            frames(12, 25)
        );
        // Times of whole frames give exactly that frame, although 0.1 and 4.3 are inexact floats.
        assert_eq!(
            round("a 0 0.1 4.3", true, false, (30, 1)).unwrap(),
            frames(3, 129)
        );
        assert_eq!(
            round("a 0 0.1 4.3", false, true, (30, 1)).unwrap(),
            frames(3, 129)
        );
        assert_eq!(
            round("a 0 1 2", true, false, (30000, 1001)).unwrap(),
            frames(30, 59)
        );
        assert!(
            round("a 0 0.51 0.55", true, false, (25, 1))
                .unwrap_err()
                .to_string()
                .contains("skipped")
        );
        assert!(
            round("a 0 1 2", true, false, (0, 1))
                .unwrap_err()
                .to_string()
                .contains("fps")
        );
    }

    #[test]
    fn errors_name_file_and_line() {
        use DaliUnit::{Frames, Seconds};
        for (line, unit, part) in [
            ("a.mp4", Seconds, "has 1 fields"),
            ("a.mp4 0 1 2 3", Seconds, "has 5 fields"),
            ("my video.mp4 0", Seconds, "label 'video.mp4'"),
            ("a.mp4 0 2 1", Seconds, "starts at 2 s and ends at 1 s"),
            ("a.mp4 0 -2", Seconds, "time -2 is before the video"),
            ("a.mp4 0 nan", Seconds, "time 'nan'"),
            ("a.mp4 0 0 1e300", Seconds, "time '1e300'"),
            ("a.mp4 0 1.5", Frames, "frame '1.5'"),
            ("a.mp4 0 5 3", Frames, "starts at frame 5 and ends at 3"),
            ("a.mp4 0 -3 -5", Frames, "starts at frame -3 and ends at -5"),
            ("a.mp4 0 4294967296", Frames, "frame '4294967296'"),
        ] {
            let error = read(&format!("ok 1\n\n{line}\n"), unit)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("list.txt, line 3: ") && error.contains(part),
                "{line}: {error}"
            );
        }
    }
}
