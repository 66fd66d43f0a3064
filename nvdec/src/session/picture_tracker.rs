//! Matches the parser's callbacks to the units that were fed, and decides what is decoded and
//! delivered. An inconsistency is reported as an error; nothing is guessed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::AccessUnit;
use crate::format::{Codec, SequenceInfo};
use crate::{Error, Result};

/// Index of an access unit in its pass.
pub(super) type AuIndex = usize;

/// Length of a start code, part of which a parser may count to the picture before it.
const MAX_START_CODE: usize = 4;

/// An access unit without its bytes.
struct TrackedUnit {
    id: u32,
    timestamp: i64,
    /// Its length.
    bytes: usize,
    wanted: bool,
    decode: bool,
    delivered: bool,
}

/// A unit whose pictures have not all reached the decode callback yet.
struct ExpectedPictures {
    au_index: AuIndex,
    pictures: u32,
}

/// State of the picture in one of the decoder's surfaces.
#[derive(Clone)]
pub(super) struct SurfaceState {
    /// The unit of its first field or its frame, and the unit of a second field that came in a
    /// separate unit.
    owners: [Option<AuIndex>; 2],
    /// Whether it was given to the decoder.
    pub submitted: bool,
    /// Whether it is a frame or both fields were seen.
    complete: bool,
    displayed: bool,
    /// Its sequence number among the submitted pictures.
    pub submission_number: u64,
    /// Whether its decode status was queried.
    pub status_checked: bool,
    /// The sequence parameters that it was coded with.
    pub sequence: Arc<SequenceInfo>,
}

/// What the decode callback must do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeAction {
    Decode,
    Skip,
}

/// Bookkeeping for one pass.
pub(super) struct PictureTracker {
    codec: Codec,
    units: Vec<TrackedUnit>,
    expected: VecDeque<ExpectedPictures>,
    /// Units that display pictures, for codecs that display in coding order: one entry per picture.
    awaiting_display: VecDeque<AuIndex>,
    /// How many pictures were still undisplayed after a whole picture was fed, once that is known.
    display_lag: Option<usize>,
    any_displayed: bool,
    surface_states: Vec<Option<SurfaceState>>,
    last_index: Option<i32>,
    submitted: u64,
    /// The unit being fed.
    current: Option<AuIndex>,
    /// Whether all pictures of the previous unit were reported while it was fed.
    pub previous_single_frame: bool,
    /// Displayed pictures that belong to no known unit, and are therefore not wanted.
    pub unmatched: u64,
}

impl PictureTracker {
    pub(super) fn new(codec: Codec) -> PictureTracker {
        PictureTracker {
            codec,
            units: Vec::new(),
            expected: VecDeque::new(),
            awaiting_display: VecDeque::new(),
            display_lag: None,
            any_displayed: false,
            surface_states: Vec::new(),
            last_index: None,
            submitted: 0,
            current: None,
            previous_single_frame: true,
            unmatched: 0,
        }
    }

    /// Registers a unit that is about to be fed, in which `pictures` pictures start (unused for
    /// codecs that display in coding order).
    pub(crate) fn begin_access_unit(&mut self, unit: &AccessUnit<'_>, pictures: u32) -> Result<()> {
        if unit.wanted && !unit.decode {
            return Err(Error::Misuse(
                "an access unit whose picture is requested must be decoded",
            ));
        }
        let au_index = self.units.len();
        let AccessUnit {
            data,
            id,
            timestamp,
            wanted,
            mut decode,
            single_frame,
            ..
        } = *unit;
        decode |= match self.codec {
            Codec::H264 | Codec::Hevc => false,
            // A callback that comes now must belong to this unit and not to the previous one.
            Codec::Av1 => !single_frame || !self.previous_single_frame,
            // They carry state from every picture to the next, so no picture may be skipped.
            Codec::Vp8 | Codec::Vp9 => true,
        };
        self.units.push(TrackedUnit {
            id,
            timestamp,
            bytes: data.len(),
            wanted,
            decode,
            delivered: false,
        });
        self.current = Some(au_index);
        if self.codec.reorders() {
            if pictures > 0 {
                self.expected
                    .push_back(ExpectedPictures { au_index, pictures });
            }
        } else {
            self.awaiting_display
                .extend((0..unit.num_displayed).map(|_| au_index));
        }
        Ok(())
    }

    /// Registers that the unit was fed: its callbacks were made, or are made only while the next
    /// unit is fed.
    pub(crate) fn end_access_unit(&mut self, single_frame: bool) -> Result<()> {
        let au_index = self.current.take();
        self.previous_single_frame = single_frame;
        if self.codec.reorders() {
            // A whole picture is reported while its unit is fed, and any other picture when the
            // next one begins. Pictures of earlier units that are still expected were dropped by
            // the parser; without this, later pictures would be matched to those units.
            let last = self.expected.back().map(|expected| expected.au_index);
            if single_frame {
                self.expected.clear();
            } else if last == au_index {
                self.expected
                    .retain(|expected| Some(expected.au_index) == au_index);
            }
            return Ok(());
        }
        if !single_frame || !self.any_displayed {
            return Ok(());
        }
        let undisplayed = self.awaiting_display.len();
        match self.display_lag {
            Some(display_lag) if undisplayed > display_lag => {
                let id = self
                    .awaiting_display
                    .front()
                    .map_or(0, |&au_index| self.units[au_index].id);
                Err(mismatch(format!(
                    "a picture that access unit {id} or a later one displays was not reported"
                )))
            }
            _ => {
                self.display_lag = Some(undisplayed);
                Ok(())
            }
        }
    }

    pub(crate) fn surface_state(&self, index: i32) -> Option<&SurfaceState> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.surface_states.get(index))
            .and_then(Option::as_ref)
    }

    fn surface_state_mut(&mut self, index: i32) -> Option<&mut SurfaceState> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.surface_states.get_mut(index))
            .and_then(Option::as_mut)
    }

    /// Handles the decode callback: the surface `index` is about to receive a new picture of
    /// `bytes` bytes, or its second field.
    pub(super) fn on_decode(
        &mut self,
        index: i32,
        bytes: usize,
        is_field: bool,
        second_field: bool,
        sequence: &Arc<SequenceInfo>,
    ) -> Result<DecodeAction> {
        if !(0..64).contains(&index) {
            return Err(mismatch(format!(
                "a picture was assigned to surface {index}, which is out of range"
            )));
        }
        let unit = if self.codec.reorders() {
            Some(self.next_expected()?)
        } else {
            self.current
        };
        if let Some(unit) = unit
            .filter(|_| self.codec.reorders())
            .map(|unit| &self.units[unit])
        {
            // A parser that merges two pictures reports the slices of both as one.
            if bytes > unit.bytes + MAX_START_CODE {
                let TrackedUnit { id, bytes: fed, .. } = unit;
                return Err(mismatch(format!(
                    "access unit {id} has {fed} bytes, but its picture was reported with {bytes}"
                )));
            }
        }
        let decode = unit.is_none_or(|unit| self.units[unit].decode);
        if second_field {
            return self.second_field(index, unit, decode);
        }
        self.last_index = Some(index);
        let state = SurfaceState {
            owners: [unit, None],
            submitted: false,
            complete: !is_field,
            displayed: false,
            submission_number: 0,
            status_checked: false,
            sequence: sequence.clone(),
        };
        let position = index as usize;
        if self.surface_states.len() <= position {
            self.surface_states.resize(position + 1, None);
        }
        self.surface_states[position] = Some(state);
        Ok(if decode {
            DecodeAction::Decode
        } else {
            DecodeAction::Skip
        })
    }

    fn second_field(
        &mut self,
        index: i32,
        unit: Option<AuIndex>,
        decode: bool,
    ) -> Result<DecodeAction> {
        let is_last = self.last_index == Some(index);
        let first = self
            .surface_state_mut(index)
            .filter(|state| is_last && !state.complete && !state.displayed);
        let Some(first) = first else {
            return Err(mismatch(format!(
                "a second field was reported for surface {index} without a first one"
            )));
        };
        first.complete = true;
        if first.owners[0] != unit {
            first.owners[1] = unit;
        }
        match (first.submitted, decode) {
            (true, _) => Ok(DecodeAction::Decode),
            (false, false) => Ok(DecodeAction::Skip),
            (false, true) => Err(Error::Misuse(
                "the second field of a picture is to be decoded, but not its first",
            )),
        }
    }

    /// Registers that the picture in this surface was submitted to the decoder.
    pub(crate) fn picture_submitted(&mut self, index: i32) {
        self.submitted += 1;
        let submission_number = self.submitted;
        if let Some(state) = self.surface_state_mut(index) {
            (
                state.submitted,
                state.submission_number,
                state.status_checked,
            ) = (true, submission_number, false);
        }
    }

    /// Handles the display callback; returns the unit for which the picture is to be delivered, if
    /// any.
    pub(super) fn on_display(&mut self, index: i32, timestamp: i64) -> Result<Option<AuIndex>> {
        self.any_displayed = true;
        let au_index = match self.codec.reorders() {
            true => self.owner_of_displayed(index, timestamp)?,
            false => Some(self.next_to_display()?),
        };
        let Some(au_index) = au_index else {
            return Ok(None);
        };
        let unit = &self.units[au_index];
        if !unit.wanted || unit.delivered {
            return Ok(None);
        }
        let id = unit.id;
        let refuse = |what: &str| {
            Err(mismatch(format!(
                "the picture of access unit {id} is displayed, but {what}"
            )))
        };
        let owners = match self.surface_state(index) {
            // Mapping a surface whose picture was not decoded returns its previous content.
            Some(state) if !state.submitted => return refuse("it was not decoded"),
            // The content of the missing field is undefined.
            Some(state) if !state.complete => return refuse("it has only one field"),
            Some(state) => state.owners,
            None => return refuse("its surface holds no picture"),
        };
        self.units[au_index].delivered = true;
        if self.codec.reorders() {
            // Two fields are one picture, which is delivered once, if any of their units requested
            // it.
            owners
                .into_iter()
                .flatten()
                .for_each(|owner| self.units[owner].delivered = true);
        }
        Ok(Some(au_index))
    }

    fn owner_of_displayed(&mut self, index: i32, timestamp: i64) -> Result<Option<AuIndex>> {
        let Some(state) = self.surface_state_mut(index) else {
            // A picture that the parser synthesized, or one from before a sequence change.
            self.unmatched += 1;
            return Ok(None);
        };
        if state.displayed {
            return Ok(None);
        }
        state.displayed = true;
        let owners = state.owners;
        let mut known = owners.into_iter().flatten().peekable();
        let Some(&first) = known.peek() else {
            self.unmatched += 1;
            return Ok(None);
        };
        let timestamps: Vec<i64> = known
            .clone()
            .map(|au_index| self.units[au_index].timestamp)
            .collect();
        if !timestamps.contains(&timestamp) {
            let id = self.units[first].id;
            let text = format!(
                "the picture of access unit {id} was reported with timestamp {timestamp} instead of {timestamps:?}"
            );
            return Err(mismatch(text));
        }
        Ok(known
            .clone()
            .find(|&au_index| self.units[au_index].wanted)
            .or(Some(first)))
    }

    fn next_to_display(&mut self) -> Result<AuIndex> {
        let au_index = self.awaiting_display.pop_front();
        au_index.ok_or_else(|| {
            mismatch("more pictures are displayed than the access units contain".to_owned())
        })
    }

    fn next_expected(&mut self) -> Result<AuIndex> {
        let Some(expected) = self.expected.front_mut() else {
            return Err(mismatch(
                "a picture to decode does not start in any access unit".to_owned(),
            ));
        };
        expected.pictures -= 1;
        let (au_index, left) = (expected.au_index, expected.pictures);
        if left == 0 {
            self.expected.pop_front();
        }
        Ok(au_index)
    }

    /// The id of a unit.
    pub(super) fn id(&self, au_index: AuIndex) -> u32 {
        self.units[au_index].id
    }

    /// Submitted pictures up to sequence number `up_to` whose decode status was not queried yet.
    /// Marks them as queried.
    pub(crate) fn take_unchecked(&mut self, up_to: u64) -> Vec<(i32, u32)> {
        let units = &self.units;
        let mut found = Vec::new();
        for (index, state) in (0..).zip(&mut self.surface_states) {
            let Some(state) = state else { continue };
            if state.submitted && !state.status_checked && state.submission_number <= up_to {
                state.status_checked = true;
                found.push((
                    index,
                    state.owners[0].map_or(u32::MAX, |au_index| units[au_index].id),
                ));
            }
        }
        found
    }

    /// Like [`PictureTracker::take_unchecked`], for the picture in a surface that is about to be
    /// reused.
    pub(crate) fn take_unchecked_at(&mut self, index: i32) -> Option<u32> {
        let state = self.surface_state_mut(index)?;
        if !state.submitted || std::mem::replace(&mut state.status_checked, true) {
            return None;
        }
        let owner = state.owners[0];
        Some(owner.map_or(u32::MAX, |au_index| self.units[au_index].id))
    }

    /// Clears the state of all surfaces, because the decoder was replaced or reconfigured.
    pub(crate) fn clear_surfaces(&mut self) {
        self.surface_states.clear();
    }

    /// Whether any picture was submitted to the decoder since the pass started.
    pub(crate) fn has_submitted(&self) -> bool {
        self.submitted > 0
    }

    /// Checks at the end that every wanted picture was delivered.
    ///
    /// # Errors
    /// [`Error::MissingPicture`] with the first unit whose picture was not delivered.
    pub(crate) fn verify_complete(&self) -> Result<()> {
        let mut missing = self
            .units
            .iter()
            .filter(|unit| unit.wanted && !unit.delivered);
        match missing.next() {
            Some(first) => Err(Error::MissingPicture {
                id: first.id,
                count: 1 + missing.count() as u32,
            }),
            None => Ok(()),
        }
    }
}

fn mismatch(reason: String) -> Error {
    Error::Mismatch { reason }
}
