//! In: what each operation reads and writes, and what is known to come before it.
//! Out: a violation for two operations on the same bytes, one of them writing, that nothing puts in order.
//! Never: needs the two to collide in time: order is judged when work is submitted.

use std::collections::BTreeMap;

pub type StreamId = u64;

/// For each stream, up to which operation everything is known to be over.
#[derive(Clone, Default, Debug)]
pub struct Clock(BTreeMap<StreamId, u64>);

impl Clock {
    pub fn join(&mut self, other: &Clock) {
        for (&stream, &place) in &other.0 {
            self.raise(stream, place);
        }
    }

    pub fn raise(&mut self, stream: StreamId, place: u64) {
        let known = self.0.entry(stream).or_insert(0);
        *known = (*known).max(place);
    }

    pub fn covers(&self, stream: StreamId, place: u64) -> bool {
        self.0.get(&stream).is_some_and(|&known| known >= place)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
    /// A kernel was given the address: it may read or write there.
    Given,
}

impl Access {
    fn clashes(self, other: Access) -> bool {
        self == Access::Write && other != self || other == Access::Write
    }
}

/// What an operation touches.
#[derive(Clone, Debug)]
pub struct Touch {
    pub from: usize,
    pub bytes: usize,
    pub access: Access,
}

pub struct Past {
    from: usize,
    to: usize,
    access: Access,
    stream: StreamId,
    place: u64,
    label: String,
}

/// Notes the touch in the allocation's past; the label of an earlier one that it races with, if there is one.
pub fn record(
    past: &mut Vec<Past>,
    touch: &Touch,
    (stream, place, label): (StreamId, u64, &str),
    clock: &Clock,
    host: &Clock,
) -> Option<String> {
    past.retain(|p| !host.covers(p.stream, p.place));
    let (from, to) = (touch.from, touch.from + touch.bytes);
    let rival = past.iter().find(|p| {
        p.from < to && from < p.to && p.access.clashes(touch.access) && !clock.covers(p.stream, p.place)
    });
    let rival = rival.map(|p| format!("{} (operation {} of stream {})", p.label, p.place, p.stream));
    // What comes behind the same stream's later one comes behind this one too: one entry for each range is enough.
    let same = |p: &&mut Past| (p.from, p.to, p.access, p.stream) == (from, to, touch.access, stream);
    match past.iter_mut().find(same) {
        Some(earlier) => {
            earlier.place = place;
            label.clone_into(&mut earlier.label);
        }
        None => past.push(Past { from, to, access: touch.access, stream, place, label: label.to_owned() }),
    }
    rival
}
