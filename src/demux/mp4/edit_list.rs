//! Applies an edit list: converts samples from media time to presentation time, and marks hidden
//! packets. Supports one start delay and one cut; other lists are left to libavformat.

use mp4_atom::{Atom, Elst};

use super::Mp4Sample;
use crate::demux::PacketInfo;
use crate::units::TimeBase;

/// A start delay and one visible range of the media.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditList {
    /// Added to every media time.
    shift: i64,
    /// Media times `from..to` are shown.
    from: i64,
    to: i64,
}

/// The body of an `elst` box with the number of entries that its size allows: libavformat ignores
/// the stated number.
fn with_true_count(body: &[u8]) -> Option<Vec<u8>> {
    let entry_bytes = if *body.first()? == 1 { 20 } else { 12 };
    let count = u32::try_from(body.len().checked_sub(8)? / entry_bytes).ok()?;
    let mut body = body[..8 + count as usize * entry_bytes].to_vec();
    body[4..8].copy_from_slice(&count.to_be_bytes());
    Some(body)
}

impl EditList {
    /// `None` for lists that are not supported.
    pub(super) fn parse(
        elst: Option<&[u8]>,
        movie_scale: u32,
        media_scale: u32,
        fragmented: bool,
    ) -> Option<Self> {
        let mut this = Self {
            shift: 0,
            from: i64::MIN,
            to: i64::MAX,
        };
        let Some(body) = elst else { return Some(this) };
        let list = Elst::decode_body(&mut &with_true_count(body)?[..]).ok()?;
        let (movie, media) = (
            TimeBase::new(1, movie_scale)?,
            TimeBase::new(1, media_scale)?,
        );
        let mut cut = false;
        for entry in &list.entries {
            let length = movie.rescale(i64::try_from(entry.segment_duration).ok()?, media);
            match entry.media_time {
                None if cut => return None, // a gap in the middle
                None => this.shift = this.shift.checked_add(length)?,
                Some(_) if cut => return None, // several cuts
                Some(start) => {
                    let start = i64::try_from(start).ok()?;
                    this.shift = this.shift.checked_sub(start)?;
                    // Fragments are written after the list, so it cannot define which of their
                    // samples are hidden.
                    if !fragmented {
                        this.from = start;
                        if length > 0 {
                            this.to = start.checked_add(length)?;
                        }
                    }
                    cut = true;
                }
            }
        }
        Some(this)
    }

    /// Converts samples to packets in presentation time. Where the cut falls within a frame's
    /// duration, that frame is hidden and the first visible one moves to the start, as in
    /// libavformat.
    pub(super) fn apply(&self, samples: Vec<Mp4Sample>) -> Vec<PacketInfo> {
        let visible = |s: &&Mp4Sample| s.cts >= self.from && s.cts < self.to;
        let late = match samples.iter().filter(visible).map(|s| s.cts).min() {
            Some(first) if self.from > i64::MIN => first - self.from,
            _ => 0,
        };
        samples
            .into_iter()
            .map(|s| self.packet_info(s, late))
            .collect()
    }

    fn packet_info(&self, s: Mp4Sample, late: i64) -> PacketInfo {
        let shift = self.shift.saturating_sub(late);
        PacketInfo {
            offset: Some(s.offset),
            size: s.size,
            pts: Some(s.cts.saturating_add(shift)),
            dts: Some(s.dts.saturating_add(shift)),
            duration: s.duration,
            key: s.key,
            discard: s.cts < self.from || s.cts >= self.to,
            corrupt: false,
            cut: false,
            after_gap: false,
        }
    }
}
