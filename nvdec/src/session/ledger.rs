//! Matches the parser's callbacks to the units that were fed, and decides what is decoded and delivered.
//! An inconsistency is reported as an error; nothing is guessed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Unit;
use crate::format::{Codec, Facts};
use crate::{Error, Result};

/// Index of a unit in its run.
pub(super) type Key = usize;

/// A unit without its bytes.
struct Entry {
    id: u32,
    order: i64,
    wanted: bool,
    decode: bool,
    handed_on: bool,
}

/// A unit whose pictures have not all reached the decode callback yet.
struct Expected {
    key: Key,
    pictures: u32,
}

/// State of the picture in one of the decoder's surfaces.
#[derive(Clone)]
pub(super) struct Slot {
    /// The unit of its first field or its frame, and the unit of a second field that came in a separate unit.
    owners: [Option<Key>; 2],
    /// Whether it was given to the decoder.
    pub submitted: bool,
    /// Whether it is a frame or both fields were seen.
    complete: bool,
    displayed: bool,
    /// Its sequence number among the submitted pictures.
    pub number: u64,
    /// Whether its decode status was queried.
    pub checked: bool,
    /// The sequence parameters that it was coded with.
    pub facts: Arc<Facts>,
}

/// What the decode callback must do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Decode,
    Skip,
}

/// Bookkeeping for one run.
pub(super) struct Ledger {
    codec: Codec,
    entries: Vec<Entry>,
    expected: VecDeque<Expected>,
    /// Units that display pictures, for codecs that display in coding order: one entry per picture.
    showing: VecDeque<Key>,
    /// How many pictures were still undisplayed after a whole picture was fed, once that is known.
    lag: Option<usize>,
    any_shown: bool,
    slots: Vec<Option<Slot>>,
    last_index: Option<i32>,
    submitted: u64,
    /// The unit being fed.
    current: Option<Key>,
    /// Whether all pictures of the previous unit were reported while it was fed.
    previous_whole: bool,
    /// Displayed pictures that belong to no known unit, and are therefore not wanted.
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

    /// Registers a unit that is about to be fed, in which `pictures` pictures begin (unused for codecs that
    /// display in coding order).
    pub fn unit_begins(&mut self, unit: &Unit<'_>, pictures: u32) -> Result<()> {
        if unit.wanted && !unit.decode {
            return Err(Error::Misuse("a unit whose picture is wanted must be decoded"));
        }
        let key = self.entries.len();
        let Unit { id, order, wanted, mut decode, whole_picture, .. } = *unit;
        decode |= match self.codec {
            Codec::H264 | Codec::Hevc => false,
            // A callback that comes now must belong to this unit and not to the previous one.
            Codec::Av1 => !whole_picture || !self.previous_whole,
            // They carry state from every picture to the next, so no picture may be skipped.
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

    /// Registers that the unit was fed: its callbacks have come, or come only while the next unit is fed.
    pub fn unit_ends(&mut self, whole_picture: bool) -> Result<()> {
        let key = self.current.take();
        self.previous_whole = whole_picture;
        if self.codec.reorders() {
            // A whole picture is reported while its unit is fed, and any other picture when the next one
            // begins. Pictures of earlier units that are still expected were dropped by the parser; without
            // this, later pictures would be matched to those units.
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

    /// The state of a surface.
    pub fn slot(&self, index: i32) -> Option<&Slot> {
        usize::try_from(index).ok().and_then(|index| self.slots.get(index)).and_then(Option::as_ref)
    }

    fn slot_mut(&mut self, index: i32) -> Option<&mut Slot> {
        usize::try_from(index).ok().and_then(|index| self.slots.get_mut(index)).and_then(Option::as_mut)
    }

    /// Handles the decode callback: the surface `index` is about to receive a new picture, or its second
    /// field.
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

    /// Registers that the picture in this surface was submitted to the decoder.
    pub fn picture_submitted(&mut self, index: i32) {
        self.submitted += 1;
        let number = self.submitted;
        if let Some(slot) = self.slot_mut(index) {
            (slot.submitted, slot.number, slot.checked) = (true, number, false);
        }
    }

    /// Handles the display callback; returns the unit for which the picture is to be delivered, if any.
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
            // Mapping a surface whose picture was not decoded returns its previous content.
            Some(slot) if !slot.submitted => return refuse("was not decoded"),
            // The content of the missing field is undefined.
            Some(slot) if !slot.complete => return refuse("has one field only"),
            Some(slot) => slot.owners,
            None => return refuse("its surface holds no picture"),
        };
        self.entries[key].handed_on = true;
        if self.codec.reorders() {
            // Two fields are one picture, which is delivered once, whichever of their units wanted it.
            owners.into_iter().flatten().for_each(|owner| self.entries[owner].handed_on = true);
        }
        Ok(Some(key))
    }

    fn owner_of_shown(&mut self, index: i32, timestamp: i64) -> Result<Option<Key>> {
        let Some(slot) = self.slot_mut(index) else {
            // A picture that the parser synthesized, or one from before a sequence change.
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

    /// Submitted pictures up to sequence number `up_to` whose decode status was not queried yet. Marks them
    /// as queried.
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

    /// Like [`Ledger::take_unchecked`], for the picture in a surface that is about to be reused.
    pub fn take_unchecked_at(&mut self, index: i32) -> Option<u32> {
        let slot = self.slot_mut(index)?;
        if !slot.submitted || std::mem::replace(&mut slot.checked, true) {
            return None;
        }
        let owner = slot.owners[0];
        Some(owner.map_or(u32::MAX, |key| self.entries[key].id))
    }

    /// Clears the state of all surfaces, because the decoder was replaced or reconfigured.
    pub fn forget_surfaces(&mut self) {
        self.slots.clear();
    }

    /// Whether any picture was submitted to the decoder since the run began.
    pub fn has_submitted(&self) -> bool {
        self.submitted > 0
    }

    /// Checks at the end that every wanted picture was delivered.
    /// |
    /// # Errors
    /// [`Error::Missing`] with the first unit whose picture was not delivered.
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
