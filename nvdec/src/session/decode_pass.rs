//! Runs one decoding pass: submits pictures, and maps and delivers those that are requested.
//! A picture that is not requested is never mapped, nor one whose surface was already reused.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::picture_tracker::{AuIndex, DecodeAction, PictureTracker};
use super::{AccessUnit, SessionStats, Surface, bitstream};
use crate::format::{Codec, SequenceInfo};
use crate::parser::Callbacks;
use crate::pool::decoder_cache::CacheOutcome;
use crate::pool::decoder_config::Compatibility;
use crate::sys;
use crate::{Error, Result};

/// How many displayed pictures may wait to be mapped. Mapping blocks until the picture is decoded,
/// so this lag keeps the engine busy.
const MAP_LAG: usize = 3;

/// Decode status of a picture that is still being decoded.
const IN_PROGRESS: u32 = 1;
/// Interval and time limit for polling the decode status. A picture whose status is still unknown
/// is mapped.
const STATUS_POLL_INTERVAL: Duration = Duration::from_micros(100);
const STATUS_TIMEOUT: Duration = Duration::from_millis(5);
/// Minimum number of queries of a status: a thread that a busy host does not run for longer than
/// the time limit has queried it only once, and would map every reference picture of the pass.
const MIN_STATUS_QUERIES: u32 = 10;

/// The GPU operations that a pass needs. Implemented by the hardware, and by a scripted fake in
/// tests.
pub(crate) trait DecoderDriver {
    /// Destroyed when dropped.
    type Decoder;
    /// Returns a decoder that is set up for this stream.
    fn take(&mut self, sequence: &SequenceInfo) -> Result<(Self::Decoder, CacheOutcome)>;
    /// Returns a valid decoder to the pool.
    fn put(&mut self, decoder: Self::Decoder);
    /// What must be done with a decoder before it can serve this stream.
    fn compatibility(&self, decoder: &Self::Decoder, sequence: &SequenceInfo) -> Compatibility;
    fn reconfigure(&mut self, decoder: &mut Self::Decoder, sequence: &SequenceInfo) -> Result<()>;
    /// How many pictures a decoder can hold.
    fn surfaces(&self, decoder: &Self::Decoder) -> u32;
    /// May be called only within the decode callback that delivered the picture.
    fn decode(
        &mut self,
        decoder: &mut Self::Decoder,
        picture: &mut sys::CUVIDPICPARAMS,
    ) -> Result<()>;
    /// Returns address and pitch of the converted picture.
    fn map(&mut self, decoder: &mut Self::Decoder, index: i32) -> Result<(u64, usize)>;
    fn unmap(&mut self, decoder: &mut Self::Decoder, address: u64) -> Result<()>;
    /// Returns the decode status; 8 and 9 mean damage.
    fn status(&mut self, decoder: &mut Self::Decoder, index: i32) -> Result<u32>;
}

/// The consumer of pictures; `Break` ends the pass.
pub(crate) type FrameCallback<'a> = dyn FnMut(u32, &Surface) -> ControlFlow<()> + 'a;

/// Why a pass ends early.
#[derive(Debug)]
pub(crate) enum StopReason {
    /// An error; the decoder must not be reused.
    Error(Error),
    /// The consumer stopped the pass.
    Callback,
}

impl From<Error> for StopReason {
    fn from(error: Error) -> StopReason {
        StopReason::Error(error)
    }
}

/// A packet for the parser.
pub(crate) struct Packet<'a> {
    pub data: &'a [u8],
    pub flags: u32,
    pub timestamp: i64,
}

/// A displayed picture that is wanted and not mapped yet.
struct PendingMap {
    index: i32,
    au_index: AuIndex,
    is_interlaced: bool,
}

/// One decoding pass.
pub(crate) struct DecodePass<B: DecoderDriver> {
    driver: B,
    codec: Codec,
    sequence: Option<Arc<SequenceInfo>>,
    decoder: Option<B::Decoder>,
    tracker: PictureTracker,
    pending: VecDeque<PendingMap>,
    /// Why a callback failed. Kept here because the driver does not necessarily report a callback's
    /// failure.
    stop_reason: Option<StopReason>,
    /// Whether the driver did not report the status of a picture that was not mapped.
    status_needs_map: bool,
    pub stats: SessionStats,
}

impl<B: DecoderDriver> DecodePass<B> {
    pub(crate) fn new(driver: B, codec: Codec) -> DecodePass<B> {
        DecodePass {
            driver,
            codec,
            sequence: None,
            decoder: None,
            tracker: PictureTracker::new(codec),
            pending: VecDeque::new(),
            stop_reason: None,
            status_needs_map: false,
            stats: SessionStats::default(),
        }
    }

    /// Parses the parameter sets, before the first unit.
    pub(crate) fn parse_headers(
        &mut self,
        data: &[u8],
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), StopReason> {
        let packet = Packet {
            data,
            flags: 0,
            timestamp: 0,
        };
        self.parse(packet, &mut |_, _| ControlFlow::Continue(()), parse)
    }

    /// Parses one unit and delivers the pictures that are ready.
    pub(crate) fn feed(
        &mut self,
        unit: &AccessUnit<'_>,
        on_frame: &mut FrameCallback<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), StopReason> {
        // NVIDIA's parser merges a picture that it has not reported yet with the picture of a
        // packet that has the flag, for example a second field with the frame that follows it (seen
        // with driver 580).
        let single_frame =
            unit.single_frame && (!self.codec.reorders() || self.tracker.previous_single_frame);
        let pictures = match (single_frame, self.codec.reorders()) {
            (false, true) => bitstream::count_pictures(self.codec, unit.data),
            _ => 1,
        };
        self.tracker.begin_access_unit(unit, pictures)?;
        self.stats.access_units += 1;
        let mut flags = sys::CUVID_PKT_TIMESTAMP;
        if single_frame {
            flags |= sys::CUVID_PKT_ENDOFPICTURE;
        }
        self.parse(
            Packet {
                data: unit.data,
                flags,
                timestamp: unit.timestamp,
            },
            on_frame,
            parse,
        )?;
        self.tracker.end_access_unit(single_frame)?;
        while self.pending.len() > MAP_LAG {
            self.deliver_next(on_frame)?;
        }
        Ok(())
    }

    /// Ends the stream and delivers all remaining pictures. Fails if a wanted picture is missing.
    pub(crate) fn finish(
        &mut self,
        on_frame: &mut FrameCallback<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), StopReason> {
        self.parse(
            Packet {
                data: &[],
                flags: sys::CUVID_PKT_ENDOFSTREAM,
                timestamp: 0,
            },
            on_frame,
            parse,
        )?;
        self.deliver_all(on_frame)?;
        Ok(self.tracker.verify_complete()?)
    }

    /// Ends the pass and returns the decoder, which must be valid, to the pool.
    pub(crate) fn release(mut self) {
        if let Some(decoder) = self.decoder.take() {
            self.driver.put(decoder);
        }
    }

    fn parse(
        &mut self,
        packet: Packet<'_>,
        on_frame: &mut FrameCallback<'_>,
        parse: impl FnOnce(Packet<'_>, &mut dyn Callbacks) -> Result<(), Error>,
    ) -> Result<(), StopReason> {
        let result = parse(
            packet,
            &mut PassCallbacks {
                pass: self,
                on_frame,
            },
        );
        // An error from our callbacks has priority: the driver's code, if it returns one, is less
        // specific.
        match self.stop_reason.take() {
            Some(stop_reason) => Err(stop_reason),
            None => Ok(result?),
        }
    }

    fn sequence(
        &mut self,
        format: &sys::CUVIDEOFORMAT,
        on_frame: &mut FrameCallback<'_>,
    ) -> Result<u32, StopReason> {
        let sequence = SequenceInfo::from_cuvid(self.codec, format)?;
        if self.sequence.as_deref() != Some(&sequence) || self.decoder.is_none() {
            self.prepare_decoder(&sequence, on_frame)?;
            self.sequence = Some(Arc::new(sequence));
        }
        let decoder = self.decoder.as_ref().ok_or(NO_SEQUENCE)?;
        Ok(self.driver.surfaces(decoder))
    }

    /// Prepares the decoder for a new or changed sequence.
    fn prepare_decoder(
        &mut self,
        sequence: &SequenceInfo,
        on_frame: &mut FrameCallback<'_>,
    ) -> Result<(), StopReason> {
        let compatibility = self
            .decoder
            .as_ref()
            .map(|decoder| self.driver.compatibility(decoder, sequence));
        if compatibility == Some(Compatibility::Reuse) {
            return Ok(());
        }
        // Delivers the pending pictures of the previous sequence before their surfaces are lost.
        self.deliver_all(on_frame)?;
        if let (Some(Compatibility::Reconfigure), Some(decoder)) =
            (compatibility, &mut self.decoder)
        {
            match self.driver.reconfigure(decoder, sequence) {
                Ok(()) => {
                    self.stats.reconfigured += 1;
                    if self.codec.reorders() {
                        self.tracker.clear_surfaces();
                    }
                    return Ok(());
                }
                // With H.264 and HEVC another decoder is created. With other codecs, later pictures
                // may still refer to pictures in this one.
                Err(error) if error.is_lost() || !self.codec.reorders() => return Err(error.into()),
                Err(_) => self.decoder = None,
            }
        }
        if !self.codec.reorders() && self.tracker.has_submitted() {
            // Its pictures may refer to pictures in the decoder that would be replaced.
            let (width, height) = sequence.format.coded_size;
            let name = self.codec.name();
            let reason = format!("{name} frames grow to {width}x{height} within the stream");
            return Err(Error::Unsupported { reason }.into());
        }
        if let Some(decoder) = self.decoder.take() {
            self.driver.put(decoder);
        }
        self.tracker.clear_surfaces();
        let (decoder, outcome) = self.driver.take(sequence)?;
        self.decoder = Some(decoder);
        match outcome {
            CacheOutcome::Created => self.stats.decoders_created += 1,
            CacheOutcome::Reused => self.stats.reused += 1,
            CacheOutcome::Reconfigured => self.stats.reconfigured += 1,
        }
        Ok(())
    }

    fn decode(
        &mut self,
        picture: &mut sys::CUVIDPICPARAMS,
        on_frame: &mut FrameCallback<'_>,
    ) -> Result<(), StopReason> {
        let index = picture.CurrPicIdx;
        let second_field = picture.second_field != 0;
        let sequence = self.sequence.clone().ok_or(NO_SEQUENCE)?;
        // The surface may be reused for a new picture while its current one still waits to be
        // mapped, so that one is mapped now.
        if let Some(last) = self
            .pending
            .iter()
            .rposition(|pending| pending.index == index)
        {
            self.stats.early_maps += 1;
            for _ in 0..=last {
                self.deliver_next(on_frame)?;
            }
        }
        if !second_field
            && let Some(id) = self.tracker.take_unchecked_at(index)
            && self.status_is_unknown(index, id)?
        {
            self.check_mapped_status(index, id)?;
        }
        let (bytes, is_field) = (
            picture.nBitstreamDataLen as usize,
            picture.field_pic_flag != 0,
        );
        match self
            .tracker
            .on_decode(index, bytes, is_field, second_field, &sequence)?
        {
            DecodeAction::Skip => self.stats.skipped += 1,
            DecodeAction::Decode => {
                let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
                self.driver.decode(decoder, picture)?;
                self.tracker.picture_submitted(index);
                self.stats.decoded += 1;
            }
        }
        Ok(())
    }

    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> Result<(), StopReason> {
        let index = info.picture_index;
        let shown = self.tracker.on_display(index, info.timestamp);
        self.stats.unmatched = self.tracker.unmatched;
        let Some(au_index) = shown? else {
            self.stats.unwanted += 1;
            return Ok(());
        };
        let is_interlaced = info.progressive_frame == 0;
        self.pending.push_back(PendingMap {
            index,
            au_index,
            is_interlaced,
        });
        Ok(())
    }

    fn deliver_all(&mut self, on_frame: &mut FrameCallback<'_>) -> Result<(), StopReason> {
        while !self.pending.is_empty() {
            self.deliver_next(on_frame)?;
        }
        Ok(())
    }

    /// Maps the oldest pending picture, passes it to `on_frame`, and unmaps it; its readers are
    /// enqueued by then.
    fn deliver_next(&mut self, on_frame: &mut FrameCallback<'_>) -> Result<(), StopReason> {
        let Some(PendingMap {
            index,
            au_index,
            is_interlaced,
        }) = self.pending.pop_front()
        else {
            return Ok(());
        };
        let id = self.tracker.id(au_index);
        let state = self.tracker.surface_state(index).ok_or(NO_SEQUENCE)?;
        let (sequence, submission_number) = (state.sequence.clone(), state.submission_number);
        let size_now = self
            .sequence
            .as_ref()
            .map(|sequence| sequence.format.coded_size);
        if size_now != Some(sequence.format.coded_size) {
            // The decoder has been reconfigured since then and would scale the picture.
            let reason =
                format!("access unit {id} displays again a picture that was coded at another size");
            return Err(Error::Unsupported { reason }.into());
        }
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let (mut address, mut pitch_bytes) = self.driver.map(decoder, index)?;
        self.stats.mapped += 1;
        // The engine decodes in submission order: all pictures up to this one are done, and their
        // status is final. A picture must not be delivered before those that it may refer to are
        // known to be valid.
        let unchecked = self.tracker.take_unchecked(submission_number);
        let unknown = unchecked
            .into_iter()
            .try_fold(Vec::new(), |mut unknown, (other, id)| {
                if self.status_is_unknown(other, id)? {
                    unknown.push((other, id));
                }
                Ok(unknown)
            });
        let unknown = unknown.or_else(|stop: StopReason| self.unmap(address).and(Err(stop)))?;
        self.stats.late_statuses +=
            unknown.iter().filter(|(other, _)| *other == index).count() as u64;
        if unknown.iter().any(|(other, _)| *other != index) {
            self.unmap(address)?;
            for (other, id) in unknown.into_iter().filter(|(other, _)| *other != index) {
                self.check_mapped_status(other, id)?;
            }
            let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
            (address, pitch_bytes) = self.driver.map(decoder, index)?;
        }
        let surface = Surface::new(address, pitch_bytes, &sequence, is_interlaced);
        // A panic of the consumer is propagated after unmapping: a decoder must not be destroyed
        // with a mapped picture.
        let taken = catch_unwind(AssertUnwindSafe(|| match on_frame(id, &surface) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(StopReason::Callback),
        }));
        let unmapped = self.unmap(address);
        match taken {
            Ok(taken) => taken.and(unmapped),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn unmap(&mut self, address: u64) -> Result<(), StopReason> {
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        Ok(self.driver.unmap(decoder, address)?)
    }

    /// Fails if the picture in a surface is damaged, because later pictures may refer to it.
    /// Returns whether the driver does not know it yet.
    fn status_is_unknown(&mut self, index: i32, id: u32) -> Result<bool, StopReason> {
        // Other codecs' engines do not report damage.
        if !self.codec.reorders() {
            return Ok(false);
        }
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let (started, mut queries) = (Instant::now(), 0);
        loop {
            queries += 1;
            let timed_out = queries >= MIN_STATUS_QUERIES && started.elapsed() >= STATUS_TIMEOUT;
            match self.driver.status(decoder, index)? {
                status @ (8 | 9) => return Err(Error::DamagedPicture { id, status }.into()),
                IN_PROGRESS if self.status_needs_map || timed_out => return Ok(true),
                IN_PROGRESS => std::thread::sleep(STATUS_POLL_INTERVAL),
                _ => return Ok(false),
            }
        }
    }

    /// Asks again for a status that is unknown, after mapping the picture: mapping waits until the
    /// picture is decoded, and some drivers report the status of mapped pictures only. A status
    /// that is unknown even then is counted and does not end the pass.
    fn check_mapped_status(&mut self, index: i32, id: u32) -> Result<(), StopReason> {
        self.status_needs_map = true;
        let decoder = self.decoder.as_mut().ok_or(NO_SEQUENCE)?;
        let (address, _) = self.driver.map(decoder, index)?;
        self.driver.unmap(decoder, address)?;
        self.stats.maps_for_status += 1;
        match self.driver.status(decoder, index)? {
            status @ (8 | 9) => return Err(Error::DamagedPicture { id, status }.into()),
            IN_PROGRESS => self.stats.late_statuses += 1,
            _ => {}
        }
        Ok(())
    }
}

/// A picture came before any sequence; the driver never calls back in this order.
const NO_SEQUENCE: Error = Error::Misuse("the video parser reported a picture before any sequence");

/// A pass and its consumer, as the target of the parser's callbacks.
struct PassCallbacks<'r, 'e, B: DecoderDriver> {
    pass: &'r mut DecodePass<B>,
    on_frame: &'r mut FrameCallback<'e>,
}

impl<B: DecoderDriver> PassCallbacks<'_, '_, B> {
    /// Runs a callback unless an earlier one failed, and stores its failure: the driver may return
    /// success nevertheless.
    fn run_callback(
        &mut self,
        call: impl FnOnce(&mut DecodePass<B>, &mut FrameCallback<'_>) -> Result<u32, StopReason>,
    ) -> c_int {
        if self.pass.stop_reason.is_some() {
            return 0;
        }
        match call(self.pass, self.on_frame) {
            Ok(answer) => answer as c_int,
            Err(stop_reason) => {
                self.pass.stop_reason = Some(stop_reason);
                0
            }
        }
    }
}

impl<B: DecoderDriver> Callbacks for PassCallbacks<'_, '_, B> {
    fn sequence(&mut self, format: &sys::CUVIDEOFORMAT) -> c_int {
        self.run_callback(|pass, on_frame| pass.sequence(format, on_frame))
    }

    fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> c_int {
        self.run_callback(|pass, on_frame| pass.decode(picture, on_frame).map(|()| 1))
    }

    fn display(&mut self, info: &sys::CUVIDPARSERDISPINFO) -> c_int {
        self.run_callback(|pass, _| pass.display(info).map(|()| 1))
    }
}
