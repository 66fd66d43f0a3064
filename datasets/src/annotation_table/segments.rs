//! The segment of its video that a record selects.

use super::description::{Segment, SegmentUnit};
use super::records::{Cells, Records};
use crate::SegmentBounds;
use crate::column_value::{Value, shortened};

/// Over a century: longer times are typing errors, and half a span added to them would have no
/// effect.
const MAX_SECONDS: f64 = 4e9;

/// A segment, or why there is none.
pub(super) enum Found {
    /// The whole video.
    Whole,
    Bounds(SegmentBounds),
    /// The end is not after the start: this is the reason for an error.
    Empty(String),
}

/// A column and what is wrong with its value.
type Wrong = (String, String);

impl Segment {
    /// The segment of a record.
    pub(super) fn of(&self, records: &Records, row: usize) -> Result<Found, Wrong> {
        let (start, end) = (records.column(&self.start), records.column(&self.end));
        let is_missing = |cells: Option<&Cells>| cells.is_none_or(|cells| cells.is_missing(row));
        if is_missing(start) && is_missing(end) {
            let is_whole = records.json.is_some() && records.positions[row].part.is_none();
            let is_pair = self.start == self.end && self.around.is_none();
            return match (self.required && !is_whole, is_pair) {
                (false, _) => Ok(Found::Whole),
                (true, true) => Err((
                    self.start.clone(),
                    "is not [start, end] in seconds".to_owned(),
                )),
                (true, false) => Err((
                    self.start.clone(),
                    "is empty; write the start of a segment".to_owned(),
                )),
            };
        }
        if let Some((span_seconds, begin)) = self.around {
            let second = seconds(start, row, &self.start)?.unwrap_or_default();
            if second.abs() > MAX_SECONDS {
                return Err((
                    self.start.clone(),
                    format!("{second} is out of range; at most {MAX_SECONDS} is accepted"),
                ));
            }
            let (middle, half) = (second - begin, span_seconds / 2.0);
            if middle + half <= 0.0 {
                let reason = format!(
                    "second {second} is before the start of the file at second {begin}; correct begin_seconds"
                );
                return Err((self.start.clone(), reason));
            }
            let (start, end) = ((middle - half).max(0.0), middle + half);
            return Ok(Found::Bounds(SegmentBounds::Seconds {
                start: Some(start),
                end: Some(end),
            }));
        }
        match self.unit {
            SegmentUnit::Seconds if self.start == self.end => {
                let pair: Option<Vec<f64>> = match start.map(|cells| cells.value(row)).as_deref() {
                    Some(Value::List(pair)) => pair.iter().map(Value::as_f64).collect(),
                    _ => None,
                };
                let Some(&[start, end]) = pair.as_deref() else {
                    return Err((
                        self.start.clone(),
                        "is not [start, end] in seconds".to_owned(),
                    ));
                };
                Ok(self.in_seconds(Some(start), Some(end)))
            }
            SegmentUnit::Seconds => Ok(self.in_seconds(
                seconds(start, row, &self.start)?,
                seconds(end, row, &self.end)?,
            )),
            SegmentUnit::Clock => {
                let time = |cells: Option<&Cells>, name: &String| {
                    let text = cells.and_then(|cells| cells.text(row)).unwrap_or_default();
                    let reason =
                        || format!("'{}' is not a time; write 00:01:02.34", shortened(&text));
                    clock(&text)
                        .map(Some)
                        .ok_or_else(|| (name.clone(), reason()))
                };
                Ok(self.in_seconds(time(start, &self.start)?, time(end, &self.end)?))
            }
            SegmentUnit::Frames | SegmentUnit::FramesFrom1 => {
                let from_1 = self.unit == SegmentUnit::FramesFrom1;
                let (first, last) = (frame(start, row, &self.start)?, frame(end, row, &self.end)?);
                if let (true, Some((name, _))) = (
                    from_1,
                    [(&self.start, first), (&self.end, last)]
                        .iter()
                        .find(|(_, frame)| frame.is_none()),
                ) {
                    return Err((
                        (*name).clone(),
                        "is empty; write the number of a frame".to_owned(),
                    ));
                }
                // Frames are numbered from 1, but a few tables have actions that begin at 0.
                let start = if from_1 {
                    first.unwrap_or(1).max(1) - 1
                } else {
                    first.unwrap_or(0)
                };
                if last.is_some_and(|end| end <= start) {
                    return Ok(self.empty(first.unwrap_or(0), last.unwrap_or(0)));
                }
                Ok(Found::Bounds(SegmentBounds::Frames { start, end: last }))
            }
        }
    }

    fn in_seconds(&self, start: Option<f64>, end: Option<f64>) -> Found {
        match (start, end) {
            (Some(start), Some(end)) if end <= start => self.empty(start, end),
            _ => Found::Bounds(SegmentBounds::Seconds { start, end }),
        }
    }

    fn empty(&self, start: impl std::fmt::Display, end: impl std::fmt::Display) -> Found {
        match self.start == self.end {
            true => Found::Empty(format!("the end {end} is not after the start {start}")),
            false => Found::Empty(format!(
                "{end} is not after '{}', which is {start}",
                self.start
            )),
        }
    }
}

fn seconds(cells: Option<&Cells>, row: usize, name: &str) -> Result<Option<f64>, Wrong> {
    let Some(cells) = cells.filter(|cells| !cells.is_missing(row)) else {
        return Ok(None);
    };
    let text = || shortened(&cells.text(row).unwrap_or_default());
    let reason = || format!("'{}' is not a number of seconds", text());
    cells
        .number(row)
        .map(Some)
        .ok_or_else(|| (name.to_owned(), reason()))
}

fn frame(cells: Option<&Cells>, row: usize, name: &str) -> Result<Option<i64>, Wrong> {
    let Some(cells) = cells.filter(|cells| !cells.is_missing(row)) else {
        return Ok(None);
    };
    let text = || shortened(&cells.text(row).unwrap_or_default());
    let frame = cells
        .integer(row)
        .filter(|frame| (0..=i64::from(u32::MAX)).contains(frame));
    let reason = || {
        format!(
            "'{}' is not the number of a frame, which is an integer of at least 0",
            text()
        )
    };
    frame.map(Some).ok_or_else(|| (name.to_owned(), reason()))
}

/// Parses `01:02:03.45` into seconds.
fn clock(text: &str) -> Option<f64> {
    let mut fields = text.split(':');
    let (hours, minutes, seconds) = (fields.next()?, fields.next()?, fields.next()?);
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if fields.next().is_some() || ![hours, minutes, seconds].into_iter().all(plain) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    (minutes < 60 && seconds < 60.0)
        .then(|| f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds)
}
