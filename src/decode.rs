//! Decodes ranges of packets and delivers exactly the wanted frames, each with the index of its
//! packet. A picture that does not decode cleanly, and any picture that may refer to it, is an
//! error and never delivered.

mod bitstream_filter;
mod hardware;
mod image;
mod packet_reader;
pub mod plan;
mod range_state;
mod skip_analysis;
mod stats;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::codecs;
use crate::decode::plan::DecodeRange;
use crate::error::{Error, Result};
use crate::ffmpeg::decoder::is_intra_only;
use crate::ffmpeg::{Decoder, Frame, Packet};
use crate::index::{PacketRecord, VideoIndex};
use crate::media::CodecParams;
use crate::source::check_interrupt;
use crate::units::DecodeIndex;

pub use bitstream_filter::{AccessUnitInfo, BitstreamFilter, nvdec_exclusion};
pub use hardware::HardwareDecoder;
pub use image::{EncodedImage, ImageReader};
pub use packet_reader::PacketReader;
use range_state::RangeState;
pub use skip_analysis::DecodedFrames;
pub use stats::{DecodeStats, DecodeTimes};

/// A decode range of fewer packets than this is decoded on one thread.
const MIN_THREADED_PACKETS: u32 = 6;

/// Result of one step of a decode range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The decode range is not finished.
    More,
    /// All wanted frames have been delivered.
    Done,
}

/// A decoder that is reused across the decode ranges of a video. A decode range can be suspended
/// after any step and resumed later: this struct holds its whole state.
pub struct SoftwareDecoder {
    open: Option<(CodecParams, Decoder)>,
    /// The video that was decoded last.
    last_index: Weak<VideoIndex>,
    packet: Packet,
    frame: Frame,
    state: Option<RangeState>,
    /// Number of decoding threads.
    threads: u32,
    /// Work done so far.
    pub stats: DecodeStats,
    /// Time spent so far.
    pub times: DecodeTimes,
}

impl Default for SoftwareDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SoftwareDecoder {
    /// Creates a decoder that works on the calling thread and skips pictures on which no wanted
    /// picture depends.
    pub fn new() -> Self {
        Self {
            open: None,
            last_index: Weak::new(),
            packet: Packet::new(),
            frame: Frame::new(),
            state: None,
            threads: 1,
            stats: DecodeStats::default(),
            times: DecodeTimes::default(),
        }
    }

    /// Creates a decoder with several threads, each of which decodes a picture of its own: for a
    /// caller that makes only one clip at a time.
    pub fn with_threads(threads: u32) -> Self {
        Self {
            threads: threads.max(1),
            ..Self::new()
        }
    }

    /// Whether the open decoder decoded this video last, so that it need not be reopened for it.
    pub fn is_open_for(&self, index: &VideoIndex) -> bool {
        self.open.is_some() && std::ptr::eq(self.last_index.as_ptr(), index)
    }

    /// Decodes one decode range and passes each wanted frame to `on_frame`, in the order in which
    /// the frames become ready. The caller of this thread can interrupt it before each packet.
    ///
    /// # Errors
    /// Any error from reading, decoding or `on_frame`. Frames that precede the damage in decode
    /// order are delivered first.
    pub fn run(
        &mut self,
        reader: &mut PacketReader,
        range: &DecodeRange,
        mut on_frame: impl FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<()> {
        self.begin(reader.index(), range.clone())?;
        while self.step(reader, &mut on_frame)? == Step::More {}
        Ok(())
    }

    /// Begins a decode range; a range in progress is abandoned.
    ///
    /// # Errors
    /// `Unsupported` or `Malformed` if no decoder can be opened.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, range: DecodeRange) -> Result<()> {
        self.stop();
        let params = &index.info.params;
        let codec = codecs::of(&params.codec);
        // For a few pictures, waking the threads costs more time than they save. In some codecs,
        // libavcodec also conceals damage differently with several threads than with one, without
        // reporting it.
        let conceals_errors = !codec.reports_damage_with_threads() && !is_intra_only(params);
        // Threads of H.264 do not share what the first field of a frame did to the reference pictures.
        let has_fields = || {
            let packets = index
                .packets
                .get(range.start.as_usize()..=range.end.as_usize());
            packets.is_some_and(|packets| packets.iter().any(PacketRecord::is_second_field))
        };
        let single = conceals_errors || has_fields();
        let alone = single || range.packets() < MIN_THREADED_PACKETS;
        let threads = if alone { 1 } else { self.threads };
        // A decoder keeps what the packets of a video sent it (parameter sets, the SEI message by
        // which libavcodec works around errors of x264): another video with the same extradata must
        // not inherit it.
        let last_index = Arc::downgrade(index);
        if !codec.is_reset_at_sync(params) || !Weak::ptr_eq(&self.last_index, &last_index) {
            self.open = None;
        }
        self.last_index = last_index;
        let most = if single { 1 } else { u32::MAX };
        self.ensure_open(index, range.start, threads..=most)?;
        self.stats.decode_ranges += 1;
        let threaded = self
            .open
            .as_ref()
            .is_some_and(|(_, decoder)| decoder.threads() > 1);
        self.state = Some(RangeState::new(index.clone(), range, true, threaded));
        Ok(())
    }

    /// Processes one packet of the decode range. After an error, and after [`Step::Done`], the
    /// range is over.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let Some(mut state) = self.state.take() else {
            return Ok(Step::Done);
        };
        let result = check_interrupt().and_then(|()| self.step_inner(&mut state, reader, on_frame));
        match result {
            Ok(Step::More) => self.state = Some(state),
            Ok(Step::Done) => {
                if state.index.changes_parameters {
                    self.open = None; // later ranges must not inherit its state
                }
            }
            Err(error) => {
                self.open = None;
                // According to the standards, skipped pictures do not cause errors; if a decoder
                // disagrees, it gets every packet. Also, only a decoder with one thread can
                // attribute a logged error to a packet. Also, a packet that the container marks as
                // a random access point may not be one.
                if matches!(error, Error::Decode { .. })
                    && (state.retry_without_threads_or_skipping()
                        || state.retry_from_earlier_sync_point())
                {
                    self.stats.ranges_repeated += 1;
                    self.ensure_open(&state.index, state.start(), 1..=u32::MAX)?;
                    self.state = Some(state);
                    return Ok(Step::More);
                }
                return Err(error);
            }
        }
        result
    }

    fn step_inner(
        &mut self,
        state: &mut RangeState,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let Some(at) = state.next() else {
            return self.finish(state, on_frame);
        };
        let begun = Instant::now();
        state.analyze_references(at, reader)?;
        if let Some(error) = state.missing_data_error(at) {
            state.mark_truncated(at, error);
            return self.finish(state, on_frame);
        }
        if state.can_skip_read(at) {
            self.stats.packets_skipped += 1;
            return Ok(Step::More);
        }
        let read = state.read(at, reader, &mut self.packet);
        let skip = read
            .as_ref()
            .is_ok_and(|()| state.can_skip_decode(at, self.packet.data()));
        let have = Instant::now();
        self.times.reading += have - begun;
        if let Err(error) = read {
            state.mark_truncated(at, error);
            return self.finish(state, on_frame);
        }
        if skip {
            self.stats.packets_skipped += 1;
            return Ok(Step::More);
        }
        // libavcodec takes an empty packet as the end of the stream.
        if self.packet.data().is_empty() {
            return Ok(Step::More);
        }
        self.stats.frames_decoded +=
            u64::from(!state.index.packets[at.as_usize()].is_second_field());
        let (_, decoder) = self
            .open
            .as_mut()
            .expect("prepared when the decode pass started");
        let refused = decoder.send(&self.packet).err();
        let refused = refused.or_else(|| state.missing_part(self.packet.data()));
        state.record_sent(at, self.packet.data(), refused.as_deref());
        let transforming = state.collect(decoder, &mut self.frame, on_frame, &mut self.stats)?;
        self.times.transforming += transforming;
        self.times.decoding += have.elapsed().saturating_sub(transforming);
        if state.is_damaged() {
            return self.finish(state, on_frame);
        }
        Ok(Step::More)
    }

    fn finish(
        &mut self,
        state: &mut RangeState,
        on_frame: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let begun = Instant::now();
        let (_, decoder) = self
            .open
            .as_mut()
            .expect("prepared when the decode pass started");
        decoder.drain();
        let transforming = state.collect(decoder, &mut self.frame, on_frame, &mut self.stats)?;
        decoder.flush();
        self.times.transforming += transforming;
        self.times.decoding += begun.elapsed().saturating_sub(transforming);
        state.finish().map(|()| Step::Done)
    }

    /// Abandons the decode range in progress, if any.
    pub fn stop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        if state.index.changes_parameters {
            self.open = None; // as at the end of a decode range
        } else if let Some((_, decoder)) = &mut self.open {
            decoder.flush();
        }
    }

    /// Opens a decoder with the parameters in force at packet `start`, unless the open one can be
    /// used.
    fn ensure_open(
        &mut self,
        index: &VideoIndex,
        start: DecodeIndex,
        threads: RangeInclusive<u32>,
    ) -> Result<()> {
        let params = index.params_at(start);
        // A decoder with several threads is also used for short ranges; one with a single thread is
        // not kept for long ranges.
        let fits = self
            .open
            .as_ref()
            .is_some_and(|(have, d)| *have == *params && threads.contains(&d.threads()));
        if !fits {
            self.open = None; // free the memory of the old decoder before the new one allocates its own
            let site = match params {
                Cow::Borrowed(_) => index.site.clone(),
                Cow::Owned(_) => index.site_of_packet(start), // its packets contain the parameters
            };
            let decoder = Decoder::open(&site, &params, *threads.start())?;
            self.stats.decoders_opened += 1;
            self.open = Some((params.into_owned(), decoder));
        }
        Ok(())
    }
}
