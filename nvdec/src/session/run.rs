//! Runs one decoding pass: submits pictures, and maps and delivers those that are wanted.
//! Never maps a picture that is not wanted, or one whose surface was already reused.

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

/// How many displayed pictures may wait to be mapped. Mapping blocks until the picture is decoded, so this
/// lag keeps the engine busy.
const MAP_LAG: usize = 3;

/// Decode status of a picture that is still being decoded.
const IN_PROGRESS: u32 = 1;
/// Interval and time limit for polling the decode status; decoding a picture takes a few milliseconds.
const LOOK_UP: Duration = Duration::from_micros(100);
const PATIENCE: Duration = Duration::from_secs(2);

/// The GPU operations that a run needs. Implemented by the hardware, and by a scripted fake in tests.
pub(crate) trait Backend {
    /// Destroyed when dropped.
    type Decoder;
    /// Returns a decoder that is set up for this stream.
    fn take(&mut self, facts: &Facts) -> Result<(Self::Decoder, Origin)>;
    /// Returns a valid decoder to the pool.
    fn put(&mut self, decoder: Self::Decoder);
    /// What must be done with a decoder before it can serve this stream.
    fn fit(&self, decoder: &Self::Decoder, facts: &Facts) -> Fit;
    fn reconfigure(&mut self, decoder: &mut Self::Decoder, facts: &Facts) -> Result<()>;
    /// How many pictures a decoder can hold.
    fn surfaces(&self, decoder: &Self::Decoder) -> u32;
    /// May be called only within the decode callback that delivered the picture.
    fn decode(&mut self, decoder: &mut Self::Decoder, picture: &mut sys::CUVIDPICPARAMS) -> Result<()>;
    /// Returns address and pitch of the converted picture.
    fn map(&mut self, decoder: &mut Self::Decoder, index: i32, how: &MapHow) -> Result<(u64, usize)>;
    fn unmap(&mut self, decoder: &mut Self::Decoder, address: u64) -> Result<()>;
    /// Returns the decode status; 8 and 9 mean damage.
    fn status(&mut self, decoder: &mut Self::Decoder, index: i32) -> Result<u32>;
}

/// The consumer of pictures; `Break` ends the run.
pub(crate) type Each<'a> = dyn FnMut(u32, &Surface) -> ControlFlow<()> + 'a;

/// Why a run ends early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// An error; the decoder must not be reused.
    Error(Error),
    /// The consumer stopped the run.
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

/// A displayed picture that is wanted and not mapped yet.
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
    /// Why a callback failed. Kept here because the driver does not necessarily report a callback's failure.
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

    /// Parses the parameter sets, before the first unit.
    pub fn headers(
        &mut self,
        data: &[u8],
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        let packet = Packet { data, flags: 0, timestamp: 0 };
        self.parse(packet, &mut |_, _| ControlFlow::Continue(()), parse)
    }

    /// Parses one unit and delivers the pictures that are ready.
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

    /// Ends the stream and delivers all remaining pictures. Fails if a wanted picture is missing.
    pub fn finish(
        &mut self,
        each: &mut Each<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), Halt> {
        self.parse(Packet { data: &[], flags: sys::CUVID_PKT_ENDOFSTREAM, timestamp: 0 }, each, parse)?;
        self.hand_on_all(each)?;
        Ok(self.ledger.balance()?)
    }

    /// Ends the run and returns the decoder, which must be valid, to the pool.
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
        // An error from our callbacks has priority: the driver's code, if it returns one, is less specific.
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

    /// Prepares the decoder for a new or changed sequence.
    fn set_up(&mut self, facts: &Facts, each: &mut Each<'_>) -> Result<(), Halt> {
        let fit = self.decoder.as_ref().map(|decoder| self.backend.fit(decoder, facts));
        if fit == Some(Fit::Keep) {
            return Ok(());
        }
        // Delivers the pending pictures of the previous sequence before their surfaces are lost.
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
                // With H.264 and HEVC another decoder is created. With other codecs, later pictures may still
                // refer to pictures in this one.
                Err(error) if error.is_lost() || !self.codec.reorders() => return Err(error.into()),
                Err(_) => self.decoder = None,
            }
        }
        if !self.codec.reorders() && self.ledger.has_submitted() {
            // Its pictures may refer to pictures in the decoder that would be replaced.
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
        // The surface may be reused for a new picture while its current one still waits to be mapped, so that
        // one is mapped now.
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

    /// Maps the oldest pending picture, passes it to `each`, and unmaps it; its readers are enqueued by then.
    fn hand_on_first(&mut self, each: &mut Each<'_>) -> Result<(), Halt> {
        let Some(Pending { index, key, how }) = self.pending.pop_front() else { return Ok(()) };
        let id = self.ledger.id(key);
        let slot = self.ledger.slot(index).ok_or(NO_SEQUENCE)?;
        let (facts, number) = (slot.facts.clone(), slot.number);
        let size_now = self.facts.as_ref().map(|facts| facts.format.coded_size);
        if size_now != Some(facts.format.coded_size) {
            // The decoder has been reconfigured since then and would scale the picture.
            let reason = format!("unit {id} shows a picture again that was coded at another size");
            return Err(Error::Unsupported { reason }.into());
        }
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let (address, pitch_bytes) = self.backend.map(decoder, index, &how)?;
        self.counts.mapped += 1;
        let surface = Surface::new(address, pitch_bytes, &facts);
        // A panic of the consumer is propagated after unmapping: a decoder must not be destroyed with a
        // mapped picture.
        let taken = catch_unwind(AssertUnwindSafe(|| {
            // The engine decodes in submission order: all pictures up to this one are done, and their status
            // is final.
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

    /// Fails if the picture in a surface is damaged, because later pictures may refer to it.
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
                // The result is not known yet, and cannot be queried once the surface is reused.
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

/// A picture came before any sequence; the driver never calls back in this order.
const NO_SEQUENCE: Error = Error::Misuse("the video parser brought a picture before any sequence");

/// A run and its consumer, as the target of the parser's callbacks.
struct Calls<'r, 'e, B: Backend> {
    run: &'r mut Run<B>,
    each: &'r mut Each<'e>,
}

impl<B: Backend> Calls<'_, '_, B> {
    /// Runs a callback unless an earlier one failed, and stores its failure: the driver may return success
    /// nevertheless.
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
