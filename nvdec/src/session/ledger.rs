//! In: units as they are fed, and the parser's callbacks in the order in which they come.
//! Out: which unit a picture belongs to, whether it is to be decoded, whether it is to be handed on.
//! Never: calls anything. Where the books do not balance, it says so instead of guessing.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Unit;
use crate::format::{Codec, Facts};
use crate::{Error, Result};

/// The place of a unit in its run.
pub(super) type Key = usize;

/// A unit, without its bytes.
struct Entry {
    id: u32,
    order: i64,
    wanted: bool,
    decode: bool,
    handed_on: bool,
}

/// A unit of which pictures are to come to the decode callback.
struct Expected {
    key: Key,
    pictures: u32,
}

/// What is known of the picture in one of the decoder's surfaces.
#[derive(Clone)]
pub(super) struct Slot {
    /// The unit of its first field or frame, and that of a second field that came in a unit of its own.
    owners: [Option<Key>; 2],
    /// Whether it was given to the decoder.
    pub submitted: bool,
    /// Whether both fields were seen, or a frame.
    complete: bool,
    displayed: bool,
    /// Its place among the submitted ones.
    pub number: u64,
    /// Whether the decoder was asked how it went.
    pub checked: bool,
    /// The sequence that it belongs to.
    pub facts: Arc<Facts>,
}

/// What the decode callback is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Decode,
    Skip,
}

/// The books of one run.
pub(super) struct Ledger {
    codec: Codec,
    entries: Vec<Entry>,
    expected: VecDeque<Expected>,
    /// Units that show pictures, for codecs that show in coding order: one place per picture.
    showing: VecDeque<Key>,
    /// How many pictures were still to be shown after a whole picture was fed, once that is known.
    lag: Option<usize>,
    any_shown: bool,
    slots: Vec<Option<Slot>>,
    last_index: Option<i32>,
    submitted: u64,
    /// The unit that is being fed.
    current: Option<Key>,
    /// Whether every picture of the unit before was called back while it was fed.
    previous_whole: bool,
    /// Displays of pictures that no unit is known to own; nobody wants them.
    pub strangers: u64,
}

impl Ledger {
    pub fn new(codec: Codec) -> Ledger {
        Ledger {
            codec,
            entries: Vec::new(),
            expected: VecDeque::new(),
            showing: VecDeque::new(),
            lag: None,
            any_shown: false,
            slots: Vec::new(),
            last_index: None,
            submitted: 0,
            current: None,
            previous_whole: true,
            strangers: 0,
        }
    }

    /// A unit is about to be fed, in which so many pictures begin (of no interest for codecs that show in coding order).
    pub fn unit_begins(&mut self, unit: &Unit<'_>, pictures: u32) -> Result<()> {
        if unit.wanted && !unit.decode {
            return Err(Error::Misuse("a unit whose picture is wanted must be decoded"));
        }
        let key = self.entries.len();
        let Unit { id, order, wanted, mut decode, whole_picture, .. } = *unit;
        decode |= match self.codec {
            Codec::H264 | Codec::Hevc => false,
            // What is called back now must be this unit's, and nothing of the one before.
            Codec::Av1 => !whole_picture || !self.previous_whole,
            // They carry state from every picture to the next: none may be left out.
            Codec::Vp8 | Codec::Vp9 => true,
        };
        self.entries.push(Entry { id, order, wanted, decode, handed_on: false });
        self.current = Some(key);
        if self.codec.reorders() {
            if pictures > 0 {
                self.expected.push_back(Expected { key, pictures });
            }
        } else {
            self.showing.extend((0..unit.shows).map(|_| key));
        }
        Ok(())
    }

    /// The unit was fed: its callbacks have come, or will not come before the next unit's.
    pub fn unit_ends(&mut self, whole_picture: bool) -> Result<()> {
        let key = self.current.take();
        self.previous_whole = whole_picture;
        if self.codec.reorders() {
            // A whole picture is called back at once, and any other picture when the next one begins. What is still expected of
            // earlier units was dropped by the parser: later pictures must not be taken for theirs.
            let last = self.expected.back().map(|expected| expected.key);
            if whole_picture {
                self.expected.clear();
            } else if last == key {
                self.expected.retain(|expected| Some(expected.key) == key);
            }
            return Ok(());
        }
        if !whole_picture || !self.any_shown {
            return Ok(());
        }
        let behind = self.showing.len();
        match self.lag {
            Some(lag) if behind > lag => {
                let id = self.showing.front().map_or(0, |&key| self.entries[key].id);
                Err(mismatch(format!("a picture that unit {id} or a later one shows did not come")))
            }
            _ => {
                self.lag = Some(behind);
                Ok(())
            }
        }
    }

    /// The slot of a surface.
    pub fn slot(&self, index: i32) -> Option<&Slot> {
        usize::try_from(index).ok().and_then(|index| self.slots.get(index)).and_then(Option::as_ref)
    }

    fn slot_mut(&mut self, index: i32) -> Option<&mut Slot> {
        usize::try_from(index).ok().and_then(|index| self.slots.get_mut(index)).and_then(Option::as_mut)
    }

    /// The decode callback: the surface `index` is about to hold a new picture, or gets its second field.
    pub fn picture(
        &mut self,
        index: i32,
        is_field: bool,
        second_field: bool,
        facts: &Arc<Facts>,
    ) -> Result<Verdict> {
        if !(0..64).contains(&index) {
            return Err(mismatch(format!("a picture was put into surface {index}")));
        }
        let unit = if self.codec.reorders() { Some(self.next_expected()?) } else { self.current };
        let decode = unit.is_none_or(|unit| self.entries[unit].decode);
        if second_field {
            return self.second_field(index, unit, decode);
        }
        self.last_index = Some(index);
        let slot = Slot {
            owners: [unit, None],
            submitted: false,
            complete: !is_field,
            displayed: false,
            number: 0,
            checked: false,
            facts: facts.clone(),
        };
        let place = index as usize;
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        self.slots[place] = Some(slot);
        Ok(if decode { Verdict::Decode } else { Verdict::Skip })
    }

    fn second_field(&mut self, index: i32, unit: Option<Key>, decode: bool) -> Result<Verdict> {
        let is_last = self.last_index == Some(index);
        let first = self.slot_mut(index).filter(|slot| is_last && !slot.complete && !slot.displayed);
        let Some(first) = first else {
            return Err(mismatch(format!(
                "a second field came for surface {index} without a first one before it"
            )));
        };
        first.complete = true;
        if first.owners[0] != unit {
            first.owners[1] = unit;
        }
        match (first.submitted, decode) {
            (true, _) => Ok(Verdict::Decode),
            (false, false) => Ok(Verdict::Skip),
            (false, true) => {
                Err(Error::Misuse("the second field of a picture is to be decoded, but not its first"))
            }
        }
    }

    /// The picture in this surface was given to the decoder.
    pub fn picture_submitted(&mut self, index: i32) {
        self.submitted += 1;
        let number = self.submitted;
        if let Some(slot) = self.slot_mut(index) {
            (slot.submitted, slot.number, slot.checked) = (true, number, false);
        }
    }

    /// The display callback: answers the unit for which the picture is to be handed on, if it is.
    pub fn shown(&mut self, index: i32, timestamp: i64) -> Result<Option<Key>> {
        self.any_shown = true;
        let key = match self.codec.reorders() {
            true => self.owner_of_shown(index, timestamp)?,
            false => Some(self.next_showing()?),
        };
        let Some(key) = key else { return Ok(None) };
        let entry = &self.entries[key];
        if !entry.wanted || entry.handed_on {
            return Ok(None);
        }
        let id = entry.id;
        let refuse = |what: &str| Err(mismatch(format!("the picture of unit {id} is shown, but {what}")));
        let owners = match self.slot(index) {
            // Mapping what was not decoded gives whatever the surface held before.
            Some(slot) if !slot.submitted => return refuse("was not decoded"),
            // What stands for the field that is missing is not defined.
            Some(slot) if !slot.complete => return refuse("has one field only"),
            Some(slot) => slot.owners,
            None => return refuse("its surface holds no picture"),
        };
        self.entries[key].handed_on = true;
        if self.codec.reorders() {
            // Two fields are one picture, whoever asked for it.
            owners.into_iter().flatten().for_each(|owner| self.entries[owner].handed_on = true);
        }
        Ok(Some(key))
    }

    fn owner_of_shown(&mut self, index: i32, timestamp: i64) -> Result<Option<Key>> {
        let Some(slot) = self.slot_mut(index) else {
            // A picture that the parser made up, or one from before a change of the sequence.
            self.strangers += 1;
            return Ok(None);
        };
        if slot.displayed {
            return Ok(None);
        }
        slot.displayed = true;
        let owners = slot.owners;
        let mut known = owners.into_iter().flatten().peekable();
        let Some(&first) = known.peek() else {
            self.strangers += 1;
            return Ok(None);
        };
        let orders: Vec<i64> = known.clone().map(|key| self.entries[key].order).collect();
        if !orders.contains(&timestamp) {
            let id = self.entries[first].id;
            let text =
                format!("the picture of unit {id} came with time {timestamp}, and was given {orders:?}");
            return Err(mismatch(text));
        }
        Ok(known.clone().find(|&key| self.entries[key].wanted).or(Some(first)))
    }

    fn next_showing(&mut self) -> Result<Key> {
        let key = self.showing.pop_front();
        key.ok_or_else(|| mismatch("more pictures are shown than the units show".to_owned()))
    }

    fn next_expected(&mut self) -> Result<Key> {
        let Some(expected) = self.expected.front_mut() else {
            return Err(mismatch("a picture is to be decoded that began in no unit".to_owned()));
        };
        expected.pictures -= 1;
        let (key, left) = (expected.key, expected.pictures);
        if left == 0 {
            self.expected.pop_front();
        }
        Ok(key)
    }

    /// The id of a unit.
    pub fn id(&self, key: Key) -> u32 {
        self.entries[key].id
    }

    /// Submitted pictures of which the decoder was not asked yet how they went, up to the one of this number. They count as asked.
    pub fn take_unchecked(&mut self, up_to: u64) -> Vec<(i32, u32)> {
        let entries = &self.entries;
        let mut found = Vec::new();
        for (index, slot) in (0..).zip(&mut self.slots) {
            let Some(slot) = slot else { continue };
            if slot.submitted && !slot.checked && slot.number <= up_to {
                slot.checked = true;
                found.push((index, slot.owners[0].map_or(u32::MAX, |key| entries[key].id)));
            }
        }
        found
    }

    /// As [`Ledger::take_unchecked`], for the picture in a surface that is about to get another one.
    pub fn take_unchecked_at(&mut self, index: i32) -> Option<u32> {
        let slot = self.slot_mut(index)?;
        if !slot.submitted || std::mem::replace(&mut slot.checked, true) {
            return None;
        }
        let owner = slot.owners[0];
        Some(owner.map_or(u32::MAX, |key| self.entries[key].id))
    }

    /// Another decoder: nothing is in its surfaces.
    pub fn forget_surfaces(&mut self) {
        self.slots.clear();
    }

    /// Whether pictures were given to the decoder since the run began.
    pub fn has_submitted(&self) -> bool {
        self.submitted > 0
    }

    /// The end: every wanted picture was handed on, or this says which was not.
    pub fn balance(&self) -> Result<()> {
        let mut owed = self.entries.iter().filter(|entry| entry.wanted && !entry.handed_on);
        match owed.next() {
            Some(first) => Err(Error::Missing { id: first.id, owed: 1 + owed.count() as u32 }),
            None => Ok(()),
        }
    }
}

fn mismatch(reason: String) -> Error {
    Error::Mismatch { reason }
}
