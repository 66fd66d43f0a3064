//! In: units, and what the parser calls back about them.
//! Out: decoded pictures, mapped one at a time, for those units whose picture is wanted.
//! Never: maps a picture that nobody wants, or after its surface was given away.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::{Key, Ledger, Verdict};
use super::{bitstream, Counts, Surface, Unit};
use crate::format::{Codec, Facts};
use crate::parser::Callbacks;
use crate::pool::decoder::MapHow;
use crate::pool::shape::Fit;
use crate::pool::shelf::Origin;
use crate::sys;
use crate::{Error, Result};

/// Shown pictures that wait to be mapped: mapping waits for the engine, so the engine is given these to work on meanwhile.
const MAP_LAG: usize = 3;

/// A picture's status while the engine works on it.
const IN_PROGRESS: u32 = 1;
/// How often, and for how long, it is asked for again: a picture takes some milliseconds.
const LOOK_UP: Duration = Duration::from_micros(100);
const PATIENCE: Duration = Duration::from_secs(2);

/// What a run needs of a GPU. The hardware is one; scripts of tests are another.
pub(crate) trait Backend {
    /// Destroyed by its drop.
    type Decoder;
    /// A decoder that is set up for this stream.
    fn take(&mut self, facts: &Facts) -> Result<(Self::Decoder, Origin)>;
    /// Gives a sound decoder back.
    fn put(&mut self, decoder: Self::Decoder);
    /// What must be done with a decoder for this stream.
    fn fit(&self, decoder: &Self::Decoder, facts: &Facts) -> Fit;
    fn reconfigure(&mut self, decoder: &mut Self::Decoder, facts: &Facts) -> Result<()>;
    /// How many pictures a decoder holds.
    fn surfaces(&self, decoder: &Self::Decoder) -> u32;
    /// Only within the decode callback that brought the picture.
    fn decode(&mut self, decoder: &mut Self::Decoder, picture: &mut sys::CUVIDPICPARAMS) -> Result<()>;
    /// Address and pitch of the picture, converted.
    fn map(&mut self, decoder: &mut Self::Decoder, index: i32, how: &MapHow) -> Result<(u64, usize)>;
    fn unmap(&mut self, decoder: &mut Self::Decoder, address: u64) -> Result<()>;
    /// How decoding went: 8 and 9 are damage.
    fn status(&mut self, decoder: &mut Self::Decoder, index: i32) -> Result<u32>;
}

/// Whoever takes pictures; breaking ends the run.
pub(crate) type Each<'a> = dyn FnMut(u32, &Surface) -> ControlFlow<()> + 'a;

/// Why a run ends early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Something went wrong here; the decoder is not to be trusted.
    Error(Error),
    /// Whoever takes the pictures had enough.
    Taker,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Error(error)
    }
}

/// A packet for the parser.
pub(crate) struct Packet<'a> {
    pub data: &'a [u8],
    pub flags: u32,
    pub timestamp: i64,
}

/// A shown picture that is wanted and not mapped yet.
struct Pending {
    index: i32,
    key: Key,
    how: MapHow,
}

/// One decoding pass.
pub(crate) struct Run<B: Backend> {
    backend: B,
    codec: Codec,
    facts: Option<Arc<Facts>>,
    decoder: Option<B::Decoder>,
    ledger: Ledger,
    pending: VecDeque<Pending>,
    /// What a callback ended with: the driver may not pass it on.
    halt: Option<Halt>,
    pub counts: Counts,
}

impl<B: Backend> Run<B> {
    pub fn new(backend: B, codec: Codec) -> Run<B> {
        Run {
            backend,
            codec,
            facts: None,
            decoder: None,
            ledger: Ledger::new(codec),
            pending: VecDeque::new(),
            halt: None,
            counts: Counts::default(),
        }
    }

    /// Parameter sets, before the first unit.
    pub fn headers(
        &mut self,
        data: &[u8],
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        let packet = Packet { data, flags: 0, timestamp: 0 };
        self.parse(packet, &mut |_, _| ControlFlow::Continue(()), parse)
    }

    /// One unit. Pictures that are due are handed on.
    pub fn feed(
        &mut self,
        unit: &Unit<'_>,
        each: &mut Each<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        let pictures = match (unit.whole_picture, self.codec.reorders()) {
            (false, true) => bitstream::pictures(self.codec, unit.data),
            _ => 1,
        };
        self.ledger.unit_begins(unit, pictures)?;
        self.counts.units += 1;
        let mut flags = sys::CUVID_PKT_TIMESTAMP;
        if unit.whole_picture {
            flags |= sys::CUVID_PKT_ENDOFPICTURE;
        }
        self.parse(Packet { data: unit.data, flags, timestamp: unit.order }, each, parse)?;
        self.ledger.unit_ends(unit.whole_picture)?;
        while self.pending.len() > MAP_LAG {
            self.hand_on_first(each)?;
        }
        Ok(())
    }

    /// The end of the stream: everything that is owed comes, or the error says what does not.
    pub fn finish(
        &mut self,
        each: &mut Each<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        self.parse(Packet { data: &[], flags: sys::CUVID_PKT_ENDOFSTREAM, timestamp: 0 }, each, parse)?;
        self.hand_on_all(each)?;
        Ok(self.ledger.balance()?)
    }

    /// The end, if the decoder is sound: it goes back.
    pub fn release(mut self) {
        if let Some(decoder) = self.decoder.take() {
            self.backend.put(decoder);
        }
    }

    fn parse(
        &mut self,
        packet: Packet<'_>,
        each: &mut Each<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        let result = parse(packet, &mut Calls { run: self, each });
        // Ours first: the driver's code for it, if it has one, says less.
        match self.halt.take() {
            Some(halt) => Err(halt),
            None => Ok(result?),
        }
    }

    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT, each: &mut Each<'_>) -> Result<u32, Halt> {
        let facts = Facts::read(self.codec, format)?;
        if self.facts.as_deref() != Some(&facts) || self.decoder.is_none() {
            self.set_up(&facts, each)?;
            self.facts = Some(Arc::new(facts));
        }
        let decoder = self.decoder.as_ref().ok_or(NO_SEQUENCE)?;
        Ok(self.backend.surfaces(decoder))
    }

    /// Sees to it that the decoder is made for a new or changed sequence.
    fn set_up(&mut self, facts: &Facts, each: &mut Each<'_>) -> Result<(), Halt> {
        let fit = self.decoder.as_ref().map(|decoder| self.backend.fit(decoder, facts));
        if fit == Some(Fit::Keep) {
            return Ok(());
        }
        // What the sequence before still owes, before its surfaces go.
        self.hand_on_all(each)?;
        if let (Some(Fit::Reconfigure), Some(decoder)) = (fit, &mut self.decoder) {
            match self.backend.reconfigure(decoder, facts) {
                Ok(()) => {
                    self.counts.reconfigured += 1;
                    if self.codec.reorders() {
                        self.ledger.forget_surfaces();
                    }
                    return Ok(());
                }
                // Another one is made, unless its pictures are still referred to.
                Err(error) if error.is_lost() || !self.codec.reorders() => return Err(error.into()),
                Err(_) => self.decoder = None,
            }
        }
        if !self.codec.reorders() && self.ledger.has_submitted() {
            // Its pictures may refer to those in the decoder that would go.
            let (width, height) = facts.format.coded_size;
            let name = self.codec.name();
            let reason = format!("{name} pictures grow to {width}x{height} within the stream");
            return Err(Error::Unsupported { reason }.into());
        }
        if let Some(decoder) = self.decoder.take() {
            self.backend.put(decoder);
        }
        self.ledger.forget_surfaces();
        let (decoder, origin) = self.backend.take(facts)?;
        self.decoder = Some(decoder);
        match origin {
            Origin::Created => self.counts.decoders_created += 1,
            Origin::Reused => self.counts.reused += 1,
            Origin::Reconfigured => self.counts.reconfigured += 1,
        }
        Ok(())
    }

    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS, each: &mut Each<'_>) -> Result<(), Halt> {
        let index = picture.CurrPicIdx;
        let second_field = picture.second_field != 0;
        let facts = self.facts.clone().ok_or(NO_SEQUENCE)?;
        // The surface may be given to a new picture while the one in it waits to be mapped: now is the last time.
        if let Some(last) = self.pending.iter().rposition(|pending| pending.index == index) {
            self.counts.guarded += 1;
            for _ in 0..=last {
                self.hand_on_first(each)?;
            }
        }
        if !second_field {
            if let Some(id) = self.ledger.take_unchecked_at(index) {
                self.check(index, id)?;
            }
        }
        match self.ledger.picture(index, picture.field_pic_flag != 0, second_field, &facts)? {
            Verdict::Skip => self.counts.skipped += 1,
            Verdict::Decode => {
                let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
                self.backend.decode(decoder, picture)?;
                self.ledger.picture_submitted(index);
                self.counts.decoded += 1;
            }
        }
        Ok(())
    }

    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> Result<(), Halt> {
        let index = info.picture_index;
        let shown = self.ledger.shown(index, info.timestamp);
        self.counts.strangers = self.ledger.strangers;
        let Some(key) = shown? else {
            self.counts.unwanted += 1;
            return Ok(());
        };
        let progressive = self.ledger.slot(index).is_some_and(|slot| slot.facts.progressive);
        let how = MapHow {
            progressive: progressive || info.progressive_frame != 0,
            top_field_first: info.top_field_first != 0,
            unpaired_field: info.repeat_first_field < 0,
        };
        self.pending.push_back(Pending { index, key, how });
        Ok(())
    }

    fn hand_on_all(&mut self, each: &mut Each<'_>) -> Result<(), Halt> {
        while !self.pending.is_empty() {
            self.hand_on_first(each)?;
        }
        Ok(())
    }

    /// Maps the picture that was shown first, gives it away, and unmaps it: its readers are enqueued by then.
    fn hand_on_first(&mut self, each: &mut Each<'_>) -> Result<(), Halt> {
        let Some(Pending { index, key, how }) = self.pending.pop_front() else { return Ok(()) };
        let id = self.ledger.id(key);
        let slot = self.ledger.slot(index).ok_or(NO_SEQUENCE)?;
        let (facts, number) = (slot.facts.clone(), slot.number);
        let size_now = self.facts.as_ref().map(|facts| facts.format.coded_size);
        if size_now != Some(facts.format.coded_size) {
            // Reconfigured meanwhile, the decoder would scale it.
            let reason = format!("unit {id} shows a picture again that was coded at another size");
            return Err(Error::Unsupported { reason }.into());
        }
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let (address, pitch_bytes) = self.backend.map(decoder, index, &how)?;
        self.counts.mapped += 1;
        let surface = Surface::new(address, pitch_bytes, &facts);
        // A panic of the taker goes on, but not with a picture mapped: decoders must not be destroyed like that.
        let taken = catch_unwind(AssertUnwindSafe(|| {
            // The engine works in decode order: with this picture, all before it are done too, and any damage is known.
            for (index, id) in self.ledger.take_unchecked(number) {
                self.check(index, id)?;
            }
            match each(id, &surface) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Halt::Taker),
            }
        }));
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let unmapped = self.backend.unmap(decoder, address);
        match taken {
            Ok(taken) => taken.and(unmapped.map_err(Halt::Error)),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Refuses a run in which the picture in a surface is known to be damaged: what follows may refer to it.
    fn check(&mut self, index: i32, id: u32) -> Result<(), Halt> {
        // Other codecs' engines do not report damage.
        if !self.codec.reorders() {
            return Ok(());
        }
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let asked = Instant::now();
        loop {
            match self.backend.status(decoder, index)? {
                status @ (8 | 9) => return Err(Error::Damaged { id, status }.into()),
                // What comes of it is not known yet, and cannot be asked once the surface is another picture's.
                IN_PROGRESS if asked.elapsed() < PATIENCE => std::thread::sleep(LOOK_UP),
                IN_PROGRESS => {
                    let reason = format!("unit {id} is still being decoded after {PATIENCE:?}");
                    return Err(Error::Unsupported { reason }.into());
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Pictures without a sequence before them: the driver never calls back like that.
const NO_SEQUENCE: Error = Error::Misuse("the video parser brought a picture before any sequence");

/// A run and its taker, as the parser's callbacks see them.
struct Calls<'r, 'e, B: Backend> {
    run: &'r mut Run<B>,
    each: &'r mut Each<'e>,
}

impl<B: Backend> Calls<'_, '_, B> {
    /// Runs a callback unless an earlier one failed, and keeps the failure: the driver may return success nevertheless.
    fn guard(&mut self, call: impl FnOnce(&mut Run<B>, &mut Each<'_>) -> Result<u32, Halt>) -> c_int {
        if self.run.halt.is_some() {
            return 0;
        }
        match call(self.run, self.each) {
            Ok(answer) => answer as c_int,
            Err(halt) => {
                self.run.halt = Some(halt);
                0
            }
        }
    }
}

impl<B: Backend> Callbacks for Calls<'_, '_, B> {
    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT) -> c_int {
        self.guard(|run, each| run.sequence(format, each))
    }

    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> c_int {
        self.guard(|run, each| run.decode(picture, each).map(|()| 1))
    }

    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> c_int {
        self.guard(|run, _| run.display(info).map(|()| 1))
    }
}
