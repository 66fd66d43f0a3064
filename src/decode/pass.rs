//! In: one run, its packets and the frames that come out.
//! Out: which packets the decoder need not see, which frames can be trusted, and the verdict at the end.
//! Never: leaves out a picture unless headers prove that no wanted one depends on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ahead::Ahead;
use super::Counts;
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::ffmpeg::{Decoder, Frame, Packet, Received};
use crate::index::params::replaces_sets;
use crate::index::roles::{Role, Roles};
use crate::index::VideoIndex;
use crate::media::CodecKind;
use crate::plan::Run;
use crate::units::DecodeIndex;

/// Packets behind a start whose failure may mean that it is none: as many as can lead it on screen.
const LEADING: u32 = 16;

/// State of one run.
pub(super) struct Pass {
    pub index: Arc<VideoIndex>,
    run: Run,
    next: u32,
    /// The packet that the decoder was given last.
    last_sent: DecodeIndex,
    /// Wanted and not handed on yet, ascending.
    missing: Vec<DecodeIndex>,
    /// Times the decoder refused to go on.
    refusals: u32,
    /// First packet whose picture cannot be trusted, and why.
    damage: Option<(DecodeIndex, Error)>,
    tie_by_time: bool,
    /// Pictures that lead the start on screen may refer to what lies before it: they are fed because the decoder's
    /// bookkeeping counts them, but they are nobody's, and their errors say nothing about the others.
    start_order: i64,
    /// The run begins at the stream's first start: what leads it there and is a frame all the same can be decoded.
    at_first_start: bool,
    /// The run begins at a closed start: nothing behind it refers to what lies before it.
    closed: bool,
    /// Where the run that failed was damaged first.
    failed_at: Option<DecodeIndex>,
    /// What was found by looking through the run; then the two that follow are not asked.
    ahead: Option<Ahead>,
    /// Reads headers; `None` where every picture is to be decoded.
    roles: Option<Roles>,
    /// For each wanted packet, the highest layer among it and those after it; empty where there is one layer only.
    layers: Vec<u8>,
    /// Pictures were left out.
    spared: bool,
    /// The decoder has several threads: a complaint is not about the packet just sent.
    threaded: bool,
}

impl Pass {
    pub fn new(index: Arc<VideoIndex>, run: Run, sparing: bool, threaded: bool) -> Self {
        // A set of parameters that changes inside the stream may change with a picture that is left out.
        let roles = (sparing && !index.changes_parameters)
            .then(|| Roles::new(&index.info.params))
            .filter(Roles::can_drop);
        Self {
            next: run.start.0,
            last_sent: run.start,
            missing: run.wanted.clone(),
            refusals: 0,
            damage: None,
            tie_by_time: index.info.params.codec.kind == CodecKind::Vp9,
            start_order: index.packets[run.start.at()].order,
            at_first_start: index.starts.first() == Some(&run.start.0),
            closed: index.packets[run.start.at()].is_closed_start(),
            failed_at: None,
            ahead: None,
            roles,
            layers: Vec::new(),
            spared: false,
            threaded,
            index,
            run,
        }
    }

    /// Makes it decode every picture, from the start, on one thread, for the frames that are still missing. False if it
    /// did already.
    pub fn in_full(&mut self) -> bool {
        if !(self.spared || self.threaded) || self.missing.is_empty() {
            return false;
        }
        self.run.wanted.clone_from(&self.missing);
        let run = Run { end: self.last_needed(), ..self.run.clone() };
        *self = Self::new(self.index.clone(), run, false, false);
        true
    }

    /// Makes it begin at the start before its own, after a run that failed right at its begin: what was taken for a start may be
    /// none. Only where every picture was decoded on one thread, so that it is known which packet failed. False if there is no
    /// earlier start, or the failure lies too far behind this one to be its fault.
    pub fn goes_back(&mut self) -> bool {
        let Some(failed) = self.failed_at else { return false };
        let starts = &self.index.starts;
        let own = starts.partition_point(|&start| start < self.run.start.0);
        let Some(&before) = own.checked_sub(1).and_then(|own| starts.get(own)) else { return false };
        let of_next = starts.get(own + 1).is_some_and(|&next| next <= failed.0);
        if self.spared
            || self.threaded
            || self.missing.is_empty()
            || of_next
            || failed.0 - self.run.start.0 > LEADING
        {
            return false;
        }
        let run = Run { start: DecodeIndex(before), end: self.last_needed(), wanted: self.missing.clone() };
        *self = Self::new(self.index.clone(), run, false, false);
        true
    }

    fn last_needed(&self) -> DecodeIndex {
        self.missing.iter().map(|&at| self.index.last_part_of(at)).max().unwrap_or(self.run.end)
    }

    /// The packet to deal with next; `None` when all are done.
    pub fn next(&mut self) -> Option<DecodeIndex> {
        let at = DecodeIndex(self.next);
        (at <= self.run.end).then(|| {
            self.next += 1;
            at
        })
    }

    /// Reads packet `at`.
    ///
    /// # Errors
    /// What reading reports; `Decode` for a packet that must not be decoded where it lies.
    pub fn read(
        &self,
        at: DecodeIndex,
        reader: &mut PacketReader,
        packet: &mut Packet,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let last = self.ahead.as_ref().map_or(self.run.end, |ahead| ahead.fetch_to(&self.index, at));
        reader.read_towards(at, at == self.run.start, last, packet, watch)?;
        self.misplaced_set(at, packet.data()).map_or(Ok(()), Err)
    }

    /// Finds out what the wanted pictures depend on, before the first packet if the whole run can be looked through.
    ///
    /// # Errors
    /// What `watch` says.
    pub fn look_ahead(
        &mut self,
        at: DecodeIndex,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        if at == self.run.start && self.roles.is_some() {
            self.ahead = Ahead::look(&self.index, &self.run, reader, watch)?;
        }
        if self.ahead.is_none() {
            self.look_at_layers(reader, watch);
        }
        Ok(())
    }

    /// Where a stream has layers, finds out up to which one the wanted pictures go: what lies above is in nobody's way.
    fn look_at_layers(&mut self, reader: &mut PacketReader, watch: &dyn Fn() -> Result<()>) {
        let Some(roles) = self.roles.as_mut().filter(|r| r.highest_layer() > 0) else { return };
        if !self.layers.is_empty() || !self.index.direct {
            return;
        }
        let mut packet = Packet::new();
        for &at in &self.run.wanted {
            // A packet that cannot be read is an error when its turn comes.
            let role = reader.read(at, false, &mut packet, watch).map(|()| roles.role(packet.data()));
            self.layers.push(match role {
                Ok(Role::Reference { layer } | Role::Leaf { layer }) => layer,
                Ok(Role::Needed) | Err(_) => roles.highest_layer(),
            });
        }
        for i in (1..self.layers.len()).rev() {
            self.layers[i - 1] = self.layers[i - 1].max(self.layers[i]);
        }
    }

    /// Whether packet `at` need not even be read.
    pub fn passes_over(&mut self, at: DecodeIndex) -> bool {
        let over = self.ahead.as_ref().is_some_and(|ahead| ahead.spares(at));
        self.spared |= over;
        over
    }

    /// Whether the decoder need not see packet `at`, which was read.
    pub fn spares(&mut self, at: DecodeIndex, data: &[u8]) -> bool {
        let Some(roles) = self.roles.as_mut().filter(|_| self.ahead.is_none()) else { return false };
        let role = roles.role(data);
        let record = &self.index.packets[at.at()];
        if record.is_start() || record.is_part() || self.run.wanted.binary_search(&at).is_ok() {
            return false;
        }
        // What is fed from here on is wanted, or of a lower layer than something wanted.
        let later = self.run.wanted.partition_point(|&w| w < at);
        let highest = self.layers.get(later).copied().unwrap_or(roles.highest_layer());
        let spared = match role {
            Role::Leaf { layer } => layer >= highest,
            Role::Reference { layer } => layer > highest,
            Role::Needed => false,
        };
        self.spared |= spared;
        spared
    }

    /// Whether a packet's picture is nobody's, since it leads the start on screen.
    pub fn leads(&self, at: DecodeIndex) -> bool {
        let packet = &self.index.packets[at.at()];
        packet.order < self.start_order && !self.closed && !(self.at_first_start && packet.is_frame())
    }

    /// What is wanted and was not handed on yet, ascending.
    pub fn missing(&self) -> &[DecodeIndex] {
        &self.missing
    }

    /// Whether the picture of packet `at` is wanted and was not handed on yet.
    pub fn wants(&self, at: DecodeIndex) -> bool {
        self.missing.binary_search(&at).is_ok()
    }

    /// Strikes packet `at` off what is missing; whether it was.
    pub fn take(&mut self, at: DecodeIndex) -> bool {
        self.missing.binary_search(&at).map(|place| self.missing.remove(place)).is_ok()
    }

    /// The last packet of the run.
    pub fn last(&self) -> DecodeIndex {
        self.run.end
    }

    /// Why nothing from packet `at` on can be trusted, where the container knows that something is missing.
    pub fn barrier(&self, at: DecodeIndex) -> Option<Error> {
        let packet = &self.index.packets[at.at()];
        let reason = if packet.is_corrupt() {
            "a part of the packet is missing from the file"
        } else if packet.is_after_gap() && at != self.run.start {
            "packets before it are missing from the file"
        } else {
            return None;
        };
        let site = self.index.site_of_packet(at);
        (!self.leads(at)).then(|| Error::Decode { site, reason: reason.to_owned() })
    }

    /// Takes note of a packet that could not be read.
    pub fn cut_off(&mut self, at: DecodeIndex, error: Error) {
        self.damage = Some((at, error));
    }

    /// Why packet `at` cannot be decoded: it brings a parameter set whose place the format does not allow, so that
    /// decoding that starts behind it would not know the set, and give other pictures.
    fn misplaced_set(&self, at: DecodeIndex, data: &[u8]) -> Option<Error> {
        let found = !self.index.changes_parameters && replaces_sets(&self.index.info.params, data);
        found.then(|| Error::Decode {
            site: self.index.site_of_packet(at),
            reason: "the sample replaces a parameter set of its sample entry, which avc1 and hvc1 forbid; a copy of the file \
                     with the tag avc3 or hev1 can be read"
                .to_owned(),
        })
    }

    /// Takes note of a packet that the decoder was given, and of why it refused it, if it did.
    pub fn sent(&mut self, at: DecodeIndex, refused: Option<&str>) {
        self.last_sent = at;
        if let Some(reason) = refused {
            self.complained(reason);
        }
    }

    /// Takes note of what the decoder said about the packet that it was given last.
    fn complained(&mut self, reason: &str) {
        if self.threaded {
            self.hurt(self.run.start, reason); // nothing that comes from now on can be trusted
        } else if !self.leads(self.last_sent) {
            self.hurt(self.last_sent, reason);
        }
    }

    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    fn hurt(&mut self, at: DecodeIndex, reason: &str) {
        if self.damage.as_ref().is_none_or(|(first, _)| at < *first) {
            let site = self.index.site_of_packet(at);
            self.damage = Some((at, Error::Decode { site, reason: reason.to_owned() }));
        }
    }

    /// Hands on what the decoder has ready. Returns the time that `each` took.
    pub fn collect(
        &mut self,
        decoder: &mut Decoder,
        frame: &mut Frame,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
        counts: &mut Counts,
    ) -> Result<Duration> {
        let mut painting = Duration::ZERO;
        loop {
            let received = decoder.receive(frame);
            // Some decoders (HEVC) take a packet up only when a frame is asked for: what they say of it comes then.
            if let Some(reason) = decoder.complaint() {
                self.complained(&reason);
            }
            match received {
                Ok(Received::NeedsInput | Received::End) => return Ok(painting),
                Ok(Received::Frame) => {}
                Err(reason) => {
                    let at = self.missing.first().copied().unwrap_or(self.run.end);
                    self.hurt(at, &reason);
                    self.refusals += 1;
                    if self.refusals > 64 {
                        return Ok(painting); // a decoder that fails for ever must not hold us for ever
                    }
                    continue;
                }
            }
            let Some(tie) = frame.tie(self.tie_by_time) else { continue };
            if let Some(reason) = frame.damage().filter(|_| !self.leads(tie)) {
                self.hurt(tie, reason);
            }
            let trusted = self.damage.as_ref().is_none_or(|(first, _)| tie < *first);
            if let Some(place) = self.missing.iter().position(|&w| w == tie).filter(|_| trusted) {
                self.missing.remove(place);
                counts.pictures_delivered += 1;
                let begun = Instant::now();
                each(tie, frame)?;
                painting += begun.elapsed();
            }
        }
    }

    /// Whether all wanted frames were handed on, and if not, why.
    pub fn verdict(&mut self) -> Result<()> {
        match (self.missing.first(), self.damage.take()) {
            (None, _) => Ok(()),
            (Some(_), Some((at, error))) => {
                self.failed_at = Some(at);
                Err(error)
            }
            (Some(&at), None) => Err(Error::Decode {
                site: self.index.site_of_packet(at),
                reason: "the decoder gave no picture for it".into(),
            })
            .inspect_err(|_| self.failed_at = Some(at)),
        }
    }
}
