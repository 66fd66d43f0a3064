//! In: tickets in the order in which their clips will be delivered.
//! Out: where each stands, and which others want the same video.
//! Never: decides what is made next (see `desk`).

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::budget::Reserved;
use super::ClipFacts;
use crate::batch::{Part, Slab};
use crate::order::Slot;
use crate::pixels::ClipShape;

/// Place of a ticket among all that this rank delivers in one epoch.
pub(super) type Position = u64;

/// Siblings that are looked at when a video is taken up: enough for any budget, few enough to be planned in a moment.
const MOST_SIBLINGS: usize = 4096;

/// A clip that was made before its turn.
pub(super) struct HeldClip {
    pub facts: ClipFacts,
    pub slab: Slab,
    pub shape: ClipShape,
    /// Its bytes in the budget, given back when this is dropped; `None` for a clip of a batch that is open.
    #[expect(dead_code, reason = "held for its Drop")]
    pub reserved: Option<Reserved>,
}

/// How far a ticket has come.
pub(super) enum State {
    /// Nobody works on it.
    Waiting,
    /// A lane works on it, or its errand is parked.
    InHand,
    /// Made, and kept until its batch is opened or its bytes are copied there.
    Held(Box<HeldClip>),
    /// In its batch.
    Done,
}

/// One ticket.
pub(super) struct Entry {
    pub slot: Slot,
    pub video: u32,
    /// To be made without others, and only when it is due: making it together with them failed.
    pub alone: bool,
    pub state: State,
    /// Its place in the memory of its batch, once that is open.
    pub part: Option<Part>,
}

/// The tickets that are visible.
#[derive(Default)]
pub(super) struct Window {
    first: Position,
    entries: VecDeque<Entry>,
    by_video: HashMap<u32, VecDeque<Position>>,
    /// Clips that are held for batches that are not open.
    held: BTreeSet<Position>,
}

impl Window {
    #[cfg(test)]
    pub fn first(&self) -> Position {
        self.first
    }

    /// Position behind the last ticket.
    pub fn end(&self) -> Position {
        self.first + self.entries.len() as u64
    }

    pub fn push(&mut self, slot: Slot, video: u32) {
        let position = self.end();
        self.by_video.entry(video).or_default().push_back(position);
        self.entries.push_back(Entry { slot, video, alone: false, state: State::Waiting, part: None });
    }

    /// Forgets the first ticket.
    pub fn pop(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.held.remove(&self.first);
        if let Some(places) = self.by_video.get_mut(&entry.video) {
            places.pop_front();
            if places.is_empty() {
                self.by_video.remove(&entry.video);
            }
        }
        self.first += 1;
    }

    pub fn get(&mut self, at: Position) -> Option<&mut Entry> {
        let place = usize::try_from(at.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(place)
    }

    /// Tickets before `end` in order.
    pub fn until(&self, end: Position) -> impl Iterator<Item = (Position, &Entry)> {
        (self.first..end.min(self.end())).zip(&self.entries)
    }

    /// Waiting tickets of a video that may share its decoding, the most urgent first.
    pub fn siblings(&self, video: u32) -> Vec<Position> {
        let waits = |at: &Position| {
            let entry = &self.entries[(at - self.first) as usize];
            matches!(entry.state, State::Waiting) && !entry.alone
        };
        let places = self.by_video.get(&video).into_iter().flatten().copied();
        places.filter(waits).take(MOST_SIBLINGS).collect()
    }

    /// Keeps a clip for a batch that is not open.
    pub fn hold(&mut self, at: Position, clip: HeldClip) {
        if let Some(entry) = self.get(at) {
            entry.state = State::Held(Box::new(clip));
            self.held.insert(at);
        }
    }

    /// Its batch is open now: it is not to be given up any more.
    pub fn keep(&mut self, at: Position) {
        self.held.remove(&at);
    }

    /// Gives up the held clip that is due last, if that is after `due`. Returns whether there was one.
    pub fn give_up_later_than(&mut self, due: Position) -> bool {
        let Some(&last) = self.held.last().filter(|&&at| at > due) else { return false };
        self.held.remove(&last);
        if let Some(entry) = self.get(last) {
            entry.state = State::Waiting;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(videos: &[u32]) -> Window {
        let mut window = Window::default();
        videos.iter().for_each(|&v| window.push(Slot { clip: 0, visit: 0, padding: false }, v));
        window
    }

    #[test]
    fn siblings_are_those_that_wait_in_order_also_after_the_first_left() {
        let mut window = window(&[7, 8, 7, 7, 8, 7]);
        assert_eq!(window.siblings(7), [0, 2, 3, 5]);
        window.get(2).unwrap().state = State::InHand;
        window.get(3).unwrap().alone = true;
        window.pop();
        window.pop();
        assert_eq!((window.siblings(7), window.siblings(8), window.siblings(9)), (vec![5], vec![4], vec![]));
        assert_eq!((window.first(), window.end()), (2, 6));
        assert!(window.get(1).is_none() && window.get(6).is_none());
    }
}
