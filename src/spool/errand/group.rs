//! In: the tickets that wait for one video.
//! Out: those that the most urgent one's decoding passes by anyway, with the runs that serve them all.
//! Never: takes on a clip that there is no memory to keep.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use super::super::desk::{Desk, Group, Ticket};
use super::super::library::Library;
use super::super::stats::Meter;
use super::{Clip, ClipFacts, Errand, Error, PartCanvas, Place, Reserved, Result};
use crate::index::VideoIndex;
use crate::order::rng::Key;
use crate::order::Slot;
use crate::pixels::{ClipShape, Painter};
use crate::plan::{runs, Run};
use crate::sampling::Sample;
use crate::units::{DecodeIndex, DisplayIndex};
use crate::video::GrowingCanvas;

/// Pictures that one errand may pass: clips that overlap can chain a whole film together.
const REACH: u64 = 4096;

/// What is the same for all errands.
pub(in super::super) struct Rules<'a> {
    pub library: &'a Library,
    pub seed: u64,
    /// Frames past the end are blank.
    pub leaves_blank: bool,
    /// The shape of all clips, where they are alike.
    pub shape: Option<ClipShape>,
    /// The same for clips that wait for their turn.
    pub kept_shape: Option<ClipShape>,
}

/// What a group of tickets came to.
pub(in super::super) struct Planned {
    pub errand: Option<Box<Errand>>,
    /// Not worth making now.
    pub returned: Vec<Ticket>,
    /// To be made by themselves: they cannot be planned, which will say why.
    pub alone: Vec<Ticket>,
}

/// A ticket whose frames are known.
struct Wish {
    ticket: Ticket,
    key: Key,
    sample: Sample,
    frames: Vec<DisplayIndex>,
    spans: Vec<(DecodeIndex, DecodeIndex)>,
}

/// Chooses what to make of one video in one go. The first ticket is made in any case, and all that are due and on its
/// way; others as far as the budget allows.
pub(in super::super) fn plan(
    group: Group,
    rules: &Rules<'_>,
    painter: &mut Painter,
    desk: &Desk,
    meter: &Meter,
    watch: &dyn Fn() -> Result<()>,
) -> Result<Planned> {
    let Group { generation, epoch, video, tickets, .. } = group;
    let mut planned = Planned { errand: None, returned: Vec::new(), alone: Vec::new() };
    let opened = match catch_unwind(AssertUnwindSafe(|| rules.library.open(video, meter, watch))) {
        Ok(Ok(opened)) => opened,
        Ok(Err(Error::Interrupted)) => return Err(Error::Interrupted),
        // Each clip by itself will say what is wrong.
        Ok(Err(_)) | Err(_) => {
            let (due, later) = tickets.into_iter().partition(|t| t.due);
            (planned.alone, planned.returned) = (due, later);
            return Ok(planned);
        }
    };
    let index = opened.index().clone();
    let mut choice =
        Choice { rules, index: &index, desk, reach: Reach::default(), chosen: Vec::new(), full: false };
    let mut elsewhere = Vec::new();
    for ticket in tickets {
        if choice.full && !ticket.due {
            planned.returned.push(ticket);
            continue;
        }
        match wish(rules, &index, epoch, ticket) {
            Ok(wish) => elsewhere.extend(choice.take(wish, painter)),
            Err(ticket) if ticket.due => planned.alone.push(ticket),
            Err(ticket) => planned.returned.push(ticket),
        }
    }
    // What was taken may have brought others within reach.
    loop {
        let before = choice.chosen.len();
        elsewhere = elsewhere.into_iter().filter_map(|wish| choice.take(wish, painter)).collect();
        if choice.chosen.len() == before {
            break;
        }
    }
    planned.returned.extend(elsewhere.into_iter().map(|w| w.ticket));
    let chosen = choice.chosen;
    if chosen.is_empty() {
        return Ok(planned);
    }
    let mut clips = Vec::with_capacity(chosen.len());
    let mut wanted: HashMap<DecodeIndex, Vec<(usize, usize)>> = HashMap::new();
    let mut all = Vec::new();
    for (number, (wish, reserved)) in chosen.into_iter().enumerate() {
        for (t, frame) in wish.frames.iter().enumerate() {
            wanted.entry(index.frames[frame.at()].packet).or_default().push((number, t));
        }
        all.extend_from_slice(&wish.frames);
        clips.push(Some(wish.into_clip(rules, &index, desk, reserved)));
    }
    let urgency = |run: &Run| {
        let takers = run.wanted.iter().flat_map(|at| &wanted[at]).map(|w| w.0);
        takers.filter_map(|c| clips[c].as_ref()).map(|c| c.position).min()
    };
    let mut runs: Vec<Run> = runs(&index, &all);
    runs.sort_by_key(|run| (urgency(run), run.start));
    planned.errand = Some(Box::new(Errand {
        generation,
        epoch,
        reader: rules.library.reader(&opened),
        bytes_counted: 0,
        index,
        decoder: None,
        runs: runs.into(),
        current: None,
        clips,
        wanted,
        blank: rules.leaves_blank,
        parked: None,
    }));
    Ok(planned)
}

/// What one errand takes on.
struct Choice<'a> {
    rules: &'a Rules<'a>,
    index: &'a Arc<VideoIndex>,
    desk: &'a Desk,
    reach: Reach,
    chosen: Vec<(Wish, Option<Reserved>)>,
    /// There is no memory for more: later tickets get none either, since all that is held is due before them.
    full: bool,
}

impl Choice<'_> {
    /// Takes a clip on if it is on the way and can be kept; else it comes back.
    fn take(&mut self, wish: Wish, painter: &mut Painter) -> Option<Wish> {
        let near = self.reach.touches(&wish.spans) && self.reach.with(&wish.spans) <= REACH;
        if !near && !self.chosen.is_empty() {
            return Some(wish);
        }
        let mut reserved = None;
        if !wish.ticket.due {
            if self.full {
                return Some(wish);
            }
            let Some(bytes) = clip_bytes(self.rules, self.index, painter, &wish) else { return Some(wish) };
            reserved = self.desk.reserve(bytes, wish.ticket.position);
            if reserved.is_none() {
                self.full = true;
                return Some(wish);
            }
        }
        self.reach.add(&wish.spans);
        self.chosen.push((wish, reserved));
        None
    }
}

/// The facts of a clip.
pub(in super::super) fn facts(
    index: &VideoIndex,
    library: &Library,
    slot: Slot,
    clip_id: u64,
    sample: Sample,
) -> ClipFacts {
    let (video, view_id) = library.locate(clip_id);
    let seconds = |&i: &u32| index.pts_seconds(DisplayIndex(i));
    ClipFacts {
        clip_id,
        requested_id: slot.clip,
        video_id: video,
        view_id,
        label: library.label(video),
        pts_seconds: sample.indices.iter().map(seconds).collect(),
        indices: sample.indices.into_iter().map(i64::from).collect(),
        mask: sample.mask,
        size: index.info.shown_size(),
        padding: slot.padding,
    }
}

fn wish(rules: &Rules<'_>, index: &Arc<VideoIndex>, epoch: u64, ticket: Ticket) -> Result<Wish, Ticket> {
    let Slot { clip, visit, .. } = ticket.slot;
    let key = Key { seed: rules.seed, epoch, clip, visit };
    // A panic is this clip's own affair too: those that are planned with it are not to be lost by it.
    let sampled = catch_unwind(AssertUnwindSafe(|| rules.library.sample(index, key)));
    let Ok(Ok(sample)) = sampled else { return Err(ticket) };
    let frames: Vec<DisplayIndex> = sample.indices.iter().map(|&i| DisplayIndex(i)).collect();
    let spans = runs(index, &frames).iter().map(|r| (r.start, r.end)).collect();
    Ok(Wish { ticket, key, sample, frames, spans })
}

impl Wish {
    fn into_clip(
        self,
        rules: &Rules<'_>,
        index: &VideoIndex,
        desk: &Desk,
        reserved: Option<Reserved>,
    ) -> Clip {
        let Ticket { position, slot, part, due } = self.ticket;
        let place = match part.zip(rules.shape) {
            Some((part, shape)) => Place::Batch(PartCanvas { part, shape }),
            None => Place::Own(GrowingCanvas::of(desk.waiting.clone()), reserved),
        };
        let mut packets: Vec<_> = self.frames.iter().map(|f| index.frames[f.at()].packet).collect();
        packets.sort_unstable();
        packets.dedup();
        let missing = self.frames.len();
        let facts = facts(index, rules.library, slot, slot.clip, self.sample);
        Clip { position, slot, due, key: self.key, facts, place, shape: None, missing, packets }
    }
}

/// Bytes that a clip will take; `None` where that cannot be told.
fn clip_bytes(rules: &Rules<'_>, index: &VideoIndex, painter: &mut Painter, wish: &Wish) -> Option<usize> {
    if let Some(shape) = rules.kept_shape {
        return shape.bytes();
    }
    painter.begin(wish.key);
    let params = &index.info.params;
    let size = painter.size_of((params.width, params.height), index.info.turn).ok()?;
    painter.shape(wish.frames.len(), size).bytes()
}

/// The stretches of packets that are decoded anyway, apart from each other, ascending.
#[derive(Default)]
struct Reach {
    spans: Vec<(DecodeIndex, DecodeIndex)>,
}

impl Reach {
    /// Whether decoding passes something of these spans.
    fn touches(&self, spans: &[(DecodeIndex, DecodeIndex)]) -> bool {
        spans.iter().any(|&(start, end)| {
            let at = self.spans.partition_point(|s| s.1 < start);
            self.spans.get(at).is_some_and(|s| s.0 <= end)
        })
    }

    /// Pictures on the way if these spans are added.
    fn with(&self, spans: &[(DecodeIndex, DecodeIndex)]) -> u64 {
        let mut sum = Reach { spans: self.spans.clone() };
        sum.add(spans);
        sum.spans.iter().map(|(start, end)| u64::from(end.0 - start.0) + 1).sum()
    }

    fn add(&mut self, spans: &[(DecodeIndex, DecodeIndex)]) {
        self.spans.extend_from_slice(spans);
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, kept| {
            let joined = next.0 <= kept.1;
            if joined {
                kept.1 = kept.1.max(next.1);
            }
            joined
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(pairs: &[(u32, u32)]) -> Vec<(DecodeIndex, DecodeIndex)> {
        pairs.iter().map(|&(a, b)| (DecodeIndex(a), DecodeIndex(b))).collect()
    }

    #[test]
    fn what_is_passed_anyway_is_told_from_what_is_not() {
        let mut reach = Reach::default();
        reach.add(&spans(&[(100, 149), (0, 20), (10, 30)]));
        assert_eq!(reach.spans, spans(&[(0, 30), (100, 149)]));
        assert!(reach.touches(&spans(&[(30, 40)])) && reach.touches(&spans(&[(50, 60), (149, 200)])));
        assert!(!reach.touches(&spans(&[(31, 99)])));
        assert_eq!((reach.with(&spans(&[(20, 40)])), reach.with(&[])), (91, 81));
        reach.add(&spans(&[(25, 120)]));
        assert_eq!(reach.spans, spans(&[(0, 149)]));
    }
}
