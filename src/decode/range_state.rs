//! Tracks one decode range: which packets the decoder can skip, which frames are trusted, and the
//! final result. A picture is skipped only if headers prove that no wanted picture depends on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::DecodeStats;
use super::skip_analysis::SkipMap;
use crate::codecs::configuration::can_change_within_range;
use crate::codecs::disposable::{Dependency, DependencyParser};
use crate::codecs::parameter_sets::replaces_parameter_sets;
use crate::codecs::{self, codec::Codec};
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::error::{Error, Result};
use crate::ffmpeg::{Decoder, Frame, Packet, Received};
use crate::index::VideoIndex;
use crate::units::DecodeIndex;

/// Largest distance in packets from a start to a failure that may mean that the start is not a
/// random access point: the maximum number of leading pictures.
const MAX_LEADING_PICTURES: u32 = 16;

/// Earlier starts that one decode range tries. In a file that is damaged throughout, each of them
/// fails.
const MAX_EARLIER_SYNC_POINTS: u32 = 4;

/// State of one decode range.
pub(super) struct RangeState {
    pub index: Arc<VideoIndex>,
    range: DecodeRange,
    next: u32,
    /// The packet sent to the decoder last.
    last_sent: DecodeIndex,
    /// Wanted and not yet delivered, in ascending order.
    missing: Vec<DecodeIndex>,
    /// Number of times that the decoder failed to return a frame.
    receive_errors: u32,
    /// Height of the pictures that were sent last.
    coded_height: u32,
    /// First packet whose picture cannot be trusted, and why.
    damage: Option<(DecodeIndex, Error)>,
    indexed_by_time: bool,
    /// Presentation order of the first packet. Leading pictures of the random access point may
    /// refer to pictures before it: they are sent because the decoder counts them, but their frames
    /// are discarded, and their errors say nothing about other pictures.
    start_presentation_order: i64,
    /// The range begins at the first random access point of the stream: its leading pictures that
    /// are indexed as frames can be decoded.
    at_first_sync_point: bool,
    /// The range begins at a closed random access point: no later picture refers to a picture
    /// before it.
    closed: bool,
    /// First damaged packet of the failed attempt.
    failed_at: Option<DecodeIndex>,
    /// How many more earlier starts may be tried.
    earlier_sync_points_left: u32,
    /// Result of reading the whole range ahead; if present, `dependency_parser` and `layers` are
    /// not consulted.
    skip_map: Option<SkipMap>,
    /// Parses headers; `None` if every picture is to be decoded.
    dependency_parser: Option<DependencyParser>,
    /// For each wanted packet, the highest temporal layer among it and the wanted packets after it;
    /// empty if the stream has only one layer.
    layers: Vec<u8>,
    /// Pictures were skipped.
    skipped_any: bool,
    /// The decoder has several threads: a logged error is not necessarily about the packet sent
    /// last.
    threaded: bool,
    /// Frames that the decoder has not output, of packets that were sent to it; only for a decoder
    /// that can lose frames.
    awaited: VecDeque<DecodeIndex>,
    /// For the same decoders: an error that was logged and that concerns no pixel, unless a frame is
    /// lost.
    harmless: Option<String>,
    /// The packet sent last contains a second image, such as a thumbnail.
    has_second_image: bool,
}

impl RangeState {
    pub(super) fn new(
        index: Arc<VideoIndex>,
        range: DecodeRange,
        allow_skipping: bool,
        threaded: bool,
    ) -> Self {
        let dependency_parser = allow_skipping
            .then(|| {
                let mut parser = DependencyParser::new(&index.params_at(range.start));
                if index.changes_parameters {
                    // The parameter sets in force at the start; a packet with further ones is never
                    // skipped.
                    parser.parse(index.headers_before(range.start));
                }
                parser
            })
            .filter(|parser| index.changes_parameters || parser.may_have_disposable());
        Self {
            next: range.start.0,
            last_sent: range.start,
            missing: range.wanted.clone(),
            receive_errors: 0,
            damage: None,
            coded_height: index.info.params.height,
            indexed_by_time: codecs::of(&index.info.params.codec).drops_packet_tags(),
            start_presentation_order: index.packets[range.start.as_usize()].order,
            at_first_sync_point: index.sync_points.first() == Some(&range.start.0),
            closed: index.packets[range.start.as_usize()].is_closed_sync(),
            failed_at: None,
            earlier_sync_points_left: MAX_EARLIER_SYNC_POINTS,
            skip_map: None,
            dependency_parser,
            layers: Vec::new(),
            skipped_any: false,
            threaded,
            awaited: VecDeque::new(),
            harmless: None,
            has_second_image: false,
            index,
            range,
        }
    }

    /// Restarts the range for the frames that are still missing: on one thread or, if the failed
    /// attempt had only one, so that every picture is decoded. Returns false if the failed attempt
    /// did so already. In this order, a frame behind a damaged picture that it does not need is
    /// delivered with any number of threads.
    pub(super) fn retry_without_threads_or_skipping(&mut self) -> bool {
        if !(self.skipped_any || self.threaded) || self.missing.is_empty() {
            return false;
        }
        self.range.wanted.clone_from(&self.missing);
        let range = DecodeRange {
            end: self.last_needed(),
            ..self.range.clone()
        };
        *self = Self::new(self.index.clone(), range, self.threaded, false);
        true
    }

    /// Restarts at the previous random access point, after an attempt that failed near its start:
    /// the packet taken for a random access point may not be one. Only if every picture was decoded
    /// on one thread, so that the failed packet is known. Returns false if there is no earlier
    /// random access point, if `MAX_EARLIER_SYNC_POINTS` have been tried, or if the failure is too
    /// far after this one to be caused by it.
    pub(super) fn retry_from_earlier_sync_point(&mut self) -> bool {
        let Some(failed) = self.failed_at else {
            return false;
        };
        let sync_points = &self.index.sync_points;
        let own = sync_points.partition_point(|&start| start < self.range.start.0);
        let Some(&before) = own.checked_sub(1).and_then(|own| sync_points.get(own)) else {
            return false;
        };
        let of_next = sync_points
            .get(own + 1)
            .is_some_and(|&next| next <= failed.0);
        if self.skipped_any
            || self.threaded
            || self.earlier_sync_points_left == 0
            || self.missing.is_empty()
            || of_next
            || failed.0 - self.range.start.0 > MAX_LEADING_PICTURES
        {
            return false;
        }
        let range = DecodeRange {
            start: DecodeIndex(before),
            end: self.last_needed(),
            wanted: self.missing.clone(),
        };
        let earlier_sync_points_left = self.earlier_sync_points_left - 1;
        *self = Self {
            earlier_sync_points_left,
            ..Self::new(self.index.clone(), range, false, false)
        };
        true
    }

    /// The codec of the stream.
    pub(super) fn codec(&self) -> &'static dyn Codec {
        codecs::of(&self.index.info.params.codec)
    }

    fn last_needed(&self) -> DecodeIndex {
        self.missing
            .iter()
            .map(|&at| self.index.last_packet_of_picture(at))
            .max()
            .unwrap_or(self.range.end)
    }

    /// Returns the next packet to process; `None` at the end of the range.
    pub(super) fn next(&mut self) -> Option<DecodeIndex> {
        let at = DecodeIndex(self.next);
        (at <= self.range.end).then(|| {
            self.next += 1;
            at
        })
    }

    /// Reads packet `at`.
    ///
    /// # Errors
    /// Any error from reading; `Decode` for a packet that must not be decoded at its position.
    pub(super) fn read(
        &self,
        at: DecodeIndex,
        reader: &mut PacketReader,
        packet: &mut Packet,
    ) -> Result<()> {
        let last = self.skip_map.as_ref().map_or(self.range.end, |skip_map| {
            skip_map.last_to_read_with(&self.index, at)
        });
        reader.read_with_prefetch(at, at == self.range.start, last, packet)?;
        self.misplaced_parameter_set(at, packet.data())
            .map_or(Ok(()), Err)?;
        self.misplaced_extradata(at, packet.data())
            .map_or(Ok(()), Err)?;
        match self.codec().packet_error(packet.data()) {
            None => Ok(()),
            Some(reason) => Err(Error::Decode {
                site: self.index.site_of_packet(at),
                reason: reason.to_owned(),
            }),
        }
    }

    /// Determines what the wanted pictures depend on, before the first packet if the whole range
    /// can be read ahead.
    ///
    /// # Errors
    /// That of an interrupt.
    pub(super) fn analyze_references(
        &mut self,
        at: DecodeIndex,
        reader: &mut PacketReader,
    ) -> Result<()> {
        if at == self.range.start && self.dependency_parser.is_some() {
            self.skip_map = SkipMap::build(&self.index, &self.range, reader)?;
        }
        if self.skip_map.is_none() {
            self.find_needed_layers(reader);
        }
        Ok(())
    }

    /// In a stream with temporal layers, determines the highest layer that the wanted pictures
    /// need: pictures of higher layers can be skipped.
    fn find_needed_layers(&mut self, reader: &mut PacketReader) {
        let Some(dependency_parser) = self
            .dependency_parser
            .as_mut()
            .filter(|r| r.highest_layer() > 0)
        else {
            return;
        };
        if !self.layers.is_empty() || !self.index.direct {
            return;
        }
        let mut packet = Packet::new();
        for &at in &self.range.wanted {
            // A packet that cannot be read is reported as an error when it is processed.
            let dependency = reader
                .read(at, false, &mut packet)
                .map(|()| dependency_parser.parse(packet.data()));
            self.layers.push(match dependency {
                Ok(Dependency::Reference { layer } | Dependency::Disposable { layer }) => layer,
                Ok(Dependency::Unknown) | Err(_) => dependency_parser.highest_layer(),
            });
        }
        for i in (1..self.layers.len()).rev() {
            self.layers[i - 1] = self.layers[i - 1].max(self.layers[i]);
        }
    }

    /// Whether packet `at` need not even be read.
    pub(super) fn can_skip_read(&mut self, at: DecodeIndex) -> bool {
        let over = self
            .skip_map
            .as_ref()
            .is_some_and(|skip_map| skip_map.skips(at));
        self.skipped_any |= over;
        over
    }

    /// Whether packet `at`, which has been read, need not be sent to the decoder.
    pub(super) fn can_skip_decode(&mut self, at: DecodeIndex, data: &[u8]) -> bool {
        let Some(dependency_parser) = self
            .dependency_parser
            .as_mut()
            .filter(|_| self.skip_map.is_none())
        else {
            return false;
        };
        let dependency = dependency_parser.parse(data);
        let record = &self.index.packets[at.as_usize()];
        if record.is_sync()
            || record.is_second_field()
            || self.range.wanted.binary_search(&at).is_ok()
        {
            return false;
        }
        // Packets sent from here on are wanted, or of a layer on which a wanted picture may depend.
        let later = self.range.wanted.partition_point(|&w| w < at);
        let highest = self
            .layers
            .get(later)
            .copied()
            .unwrap_or(dependency_parser.highest_layer());
        let can_skip = match dependency {
            Dependency::Disposable { layer } => layer >= highest,
            Dependency::Reference { layer } => layer > highest,
            Dependency::Unknown => false,
        };
        self.skipped_any |= can_skip;
        can_skip
    }

    /// Whether packet `at` is a leading picture of the random access point, which may not decode
    /// correctly from there.
    pub(super) fn is_leading(&self, at: DecodeIndex) -> bool {
        let packet = &self.index.packets[at.as_usize()];
        packet.order < self.start_presentation_order
            && !self.closed
            && !(self.at_first_sync_point && packet.is_frame())
    }

    /// The wanted packets that are not yet delivered, in ascending order.
    pub(super) fn missing(&self) -> &[DecodeIndex] {
        &self.missing
    }

    /// Whether packet `at` is wanted and not yet delivered.
    pub(super) fn wants(&self, at: DecodeIndex) -> bool {
        self.missing.binary_search(&at).is_ok()
    }

    /// Removes packet `at` from the missing packets; returns whether it was missing.
    pub(super) fn mark_delivered(&mut self, at: DecodeIndex) -> bool {
        self.missing
            .binary_search(&at)
            .map(|place| self.missing.remove(place))
            .is_ok()
    }

    /// The first packet of the decode range.
    pub(super) fn start(&self) -> DecodeIndex {
        self.range.start
    }

    /// The last packet of the decode range.
    pub(super) fn last(&self) -> DecodeIndex {
        self.range.end
    }

    /// Why no picture from packet `at` on can be trusted, if the container shows that data is
    /// missing.
    pub(super) fn missing_data_error(&self, at: DecodeIndex) -> Option<Error> {
        let packet = &self.index.packets[at.as_usize()];
        let reason = if packet.is_corrupt() {
            "a part of its picture is missing from the file or overwritten".to_owned()
        } else if packet.is_after_gap() && at != self.range.start {
            "packets before it are missing from the file".to_owned()
        } else if packet.is_unplaced() {
            let damaged = (at.0..)
                .zip(&self.index.packets[at.as_usize()..])
                .find(|(_, packet)| packet.is_corrupt());
            let damaged = damaged.map_or(at.0, |(packet, _)| packet);
            format!(
                "its place in presentation order is unknown because packet {damaged} is damaged"
            )
        } else {
            return None;
        };
        // Also for a leading picture of the start: what is missing may be a picture that later ones
        // refer to.
        Some(Error::Decode {
            site: self.index.site_of_packet(at),
            reason,
        })
    }

    /// Records a packet that could not be read.
    pub(super) fn mark_truncated(&mut self, at: DecodeIndex, error: Error) {
        self.damage = Some((self.index.first_packet_of_picture(at), error));
    }

    /// Why packet `at` cannot be decoded: it carries a parameter set at a position that the format
    /// does not allow. Decoding that starts after it would not have the parameter set and would
    /// produce different frames.
    fn misplaced_parameter_set(&self, at: DecodeIndex, data: &[u8]) -> Option<Error> {
        let found = !self.index.changes_parameters
            && replaces_parameter_sets(&self.index.info.params, data);
        found.then(|| Error::Decode {
            site: self.index.site_of_packet(at),
            reason: "the sample replaces a parameter set of its sample entry, which avc1 and hvc1 forbid; a copy of the file \
                     with the tag avc3 or hev1 can be read"
                .to_owned(),
        })
    }

    /// Why packet `at` cannot be decoded: the codec configuration changes at it, and a decoder
    /// cannot change to the new one before the next random access point.
    fn misplaced_extradata(&self, at: DecodeIndex, data: &[u8]) -> Option<Error> {
        if at == self.range.start || !self.index.changes_extradata_at(at) {
            return None;
        }
        let before = self.index.params_at(DecodeIndex(at.0 - 1));
        let is_applied = can_change_within_range(&before, &self.index.params_at(at), data);
        (!is_applied).then(|| Error::Decode {
            site: self.index.site_of_packet(at),
            reason: format!(
                "the codec configuration changes here, but decoding cannot start here, and a decoder of {} cannot change \
                 its configuration between two pictures; encode the file again",
                before.codec.name
            ),
        })
    }

    /// Which part of a packet's pictures is missing, if the decoder does not report that.
    pub(super) fn missing_part(&mut self, data: &[u8]) -> Option<String> {
        self.codec().missing_part(data, &mut self.coded_height)
    }

    /// Records a packet that was sent to the decoder, and the reason if the decoder rejected it.
    pub(super) fn record_sent(&mut self, at: DecodeIndex, data: &[u8], refused: Option<&str>) {
        self.last_sent = at;
        if self.codec().loses_frames() && !self.is_leading(at) {
            self.awaited
                .extend(self.index.packets[at.as_usize()].is_frame().then_some(at));
        }
        self.has_second_image = self.codec().has_second_image(data);
        if let Some(reason) = refused {
            self.record_logged_error(reason);
        }
    }

    /// Records an error that concerns no pixel, unless the damage that caused it has other effects.
    fn record_logged_harmless(&mut self, reason: String) {
        let codec = self.codec();
        if codec.loses_frames() {
            self.harmless = Some(reason);
        } else if codec.resumes_in_second_image(&reason) && (self.threaded || self.has_second_image)
        {
            self.record_logged_error(&reason);
        }
    }

    /// Records that a decoder that can lose frames output this frame, or everything. Its order of
    /// output is decode order: a frame that is still awaited is lost, for example because the type of its
    /// unit is damaged. Later ones may refer to it.
    fn record_output(&mut self, output: Option<DecodeIndex>) {
        while let Some(&awaited) = self
            .awaited
            .front()
            .filter(|&&awaited| output.is_none_or(|at| awaited < at))
        {
            self.awaited.pop_front();
            if let Some(reason) = self.harmless.clone() {
                self.mark_corrupt(
                    awaited,
                    &format!("the decoder returned no frame for it: {reason}"),
                );
            }
        }
        if output.is_some() && self.awaited.front() == output.as_ref() {
            self.awaited.pop_front();
        }
    }

    /// Records an error that the decoder reported for the packet sent last.
    fn record_logged_error(&mut self, reason: &str) {
        if self.threaded {
            self.mark_corrupt(self.range.start, reason); // no frame received from now on can be trusted
        } else if !self.is_leading(self.last_sent) {
            self.mark_corrupt(self.last_sent, reason);
        }
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    fn mark_corrupt(&mut self, at: DecodeIndex, reason: &str) {
        let picture = self.index.first_packet_of_picture(at);
        if self
            .damage
            .as_ref()
            .is_none_or(|(first, _)| picture < *first)
        {
            let site = self.index.site_of_packet(at);
            self.damage = Some((
                picture,
                Error::Decode {
                    site,
                    reason: reason.to_owned(),
                },
            ));
        }
    }

    /// Delivers the frames that the decoder has ready. Returns the time spent in `on_frame`.
    pub(super) fn collect(
        &mut self,
        decoder: &mut Decoder,
        frame: &mut Frame,
        on_frame: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
        stats: &mut DecodeStats,
    ) -> Result<Duration> {
        let mut transforming = Duration::ZERO;
        loop {
            let received = decoder.receive(frame);
            // Some decoders (HEVC) process a packet only when a frame is requested, and report its
            // errors then.
            if let Some(reason) = decoder.logged_error() {
                self.record_logged_error(&reason);
            }
            if let Some(reason) = decoder.logged_harmless() {
                self.record_logged_harmless(reason);
            }
            match received {
                Ok(Received::NeedsInput) => return Ok(transforming),
                Ok(Received::End) => {
                    self.record_output(None);
                    return Ok(transforming);
                }
                Ok(Received::Frame) => {}
                Err(reason) => {
                    let at = self.missing.first().copied().unwrap_or(self.range.end);
                    self.mark_corrupt(at, &reason);
                    self.receive_errors += 1;
                    if self.receive_errors > 64 {
                        return Ok(transforming); // a decoder that fails forever must not block forever
                    }
                    continue;
                }
            }
            let Some(packet_index) = frame.packet_index(self.indexed_by_time) else {
                continue;
            };
            self.record_output(Some(packet_index));
            if let Some(reason) = frame.damage().filter(|_| !self.is_leading(packet_index)) {
                self.mark_corrupt(packet_index, reason);
            }
            let trusted = self
                .damage
                .as_ref()
                .is_none_or(|(first, _)| packet_index < *first);
            if let Some(place) = self
                .missing
                .iter()
                .position(|&w| w == packet_index)
                .filter(|_| trusted)
            {
                self.missing.remove(place);
                stats.frames_used += 1;
                let begun = Instant::now();
                on_frame(packet_index, frame)?;
                transforming += begun.elapsed();
            }
        }
    }

    /// Returns `Ok` if all wanted frames have been delivered, and otherwise the reason why not.
    pub(super) fn finish(&mut self) -> Result<()> {
        match (self.missing.first(), self.damage.take()) {
            (None, _) => Ok(()),
            (Some(_), Some((at, error))) => {
                self.failed_at = Some(at);
                Err(error)
            }
            (Some(&at), None) => Err(Error::Decode {
                site: self.index.site_of_packet(at),
                reason: "the decoder returned no frame for it".into(),
            })
            .inspect_err(|_| self.failed_at = Some(at)),
        }
    }
}
