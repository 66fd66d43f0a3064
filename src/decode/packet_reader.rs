//! Reads the payload of a packet of the video index, ready for a decoder. Contiguous payloads are
//! read from the source, others through libavformat and compared with the index.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::codecs;
use crate::codecs::nal::{without_alternative_transfer, without_higher_layers};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::{Demuxer, Packet};
use crate::index::{PacketRecord, VideoIndex};
use crate::limits::{Limits, reserve, resize};
use crate::source::{ByteSource, check_interrupt};
use crate::units::DecodeIndex;

/// Number of packets up to which a demuxer reads forward instead of seeking.
const MAX_SEQUENTIAL_READ: u32 = 64;

/// Maximum number of bytes fetched at once where packets are stored close together.
const MAX_COALESCED_BYTES: usize = 256 << 10;

/// Gap between two packets (audio, box headers) that is fetched with them instead of starting a
/// second read.
const MAX_GAP_BYTES: u64 = 16 << 10;

/// Bytes of upcoming packets that are announced to a source, so that a remote one can fetch them
/// together.
const PREFETCH_BYTES: u64 = 16 << 20;

/// Reads the packets of one video.
pub struct PacketReader {
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
    bytes_read: u64,
    demuxed: Option<SequentialDemuxer>,
    buffer_ahead: ReadBuffer,
    /// Packets that were announced to the source.
    prefetched: Range<u32>,
}

/// Bytes of the source that were fetched together.
#[derive(Default)]
struct ReadBuffer {
    start: u64,
    bytes: Vec<u8>,
}

impl ReadBuffer {
    fn get(&self, start: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

struct SequentialDemuxer {
    demuxer: Demuxer,
    /// Packet that `next_packet` returns next.
    next: u32,
    /// It has read everything since a seek, not since the start of the file.
    after_seek: bool,
}

impl PacketReader {
    /// A reader that does not access the source yet.
    pub fn new(source: Arc<dyn ByteSource>, index: Arc<VideoIndex>) -> Self {
        Self {
            source,
            index,
            bytes_read: 0,
            demuxed: None,
            buffer_ahead: ReadBuffer::default(),
            prefetched: 0..0,
        }
    }

    /// The index that it uses.
    pub fn index(&self) -> &Arc<VideoIndex> {
        &self.index
    }

    /// The file that holds packet `at`, for messages.
    pub fn site_of_file(&self, at: DecodeIndex) -> Site {
        Site::file(&self.source.name_of_file(at.as_usize()))
    }

    /// Determines the field of interlaced frames that is shown first, unless that is known: opens
    /// the container once more and probes it.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn load_first_field(&mut self) -> Result<()> {
        if self.index.first_field.get().is_some() {
            return Ok(());
        }
        let codec = &self.index.info.params.codec;
        let first_field = if codec.is_image || codecs::of(codec).outputs_fields() {
            None
        } else {
            let demuxer = Demuxer::open(self.source.clone(), true, Some(self.index.info.stream))?;
            self.bytes_read += demuxer.bytes_read();
            demuxer.header().first_field()
        };
        // Another reader may have been faster; it has read the same.
        let _ = self.index.first_field.set(first_field);
        Ok(())
    }

    /// Bytes fetched from the source so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read + self.demuxed.as_ref().map_or(0, |d| d.demuxer.bytes_read())
    }

    /// Reads packet `at` into `packet`, tagged with its index. `is_first`: decoding starts with it,
    /// so the data from earlier packets that it needs is prepended; otherwise the parameter sets of
    /// extradata that change at it. NAL units of layers above the base layer are omitted.
    pub fn read(&mut self, at: DecodeIndex, is_first: bool, packet: &mut Packet) -> Result<()> {
        self.read_with_prefetch(at, is_first, at, packet)
    }

    /// Like [`read`](Self::read), where the packets up to `end` will be read next: those stored
    /// close together are fetched at once.
    pub fn read_with_prefetch(
        &mut self,
        at: DecodeIndex,
        is_first: bool,
        end: DecodeIndex,
        packet: &mut Packet,
    ) -> Result<()> {
        let index = self.index.clone();
        let headers = match is_first {
            true => Cow::Borrowed(index.headers_before(at)),
            false => Cow::Owned(index.parameter_sets_at(at)),
        };
        if index.direct {
            self.read_direct(at, end, &headers, packet)?;
        } else {
            self.read_demuxed(at, packet)?;
            // The decoder has the extradata of its range. The demuxer attaches those of the file
            // where it happens to read on after a seek.
            packet.remove_new_extradata();
            if !headers.is_empty() {
                let mut whole = Vec::new();
                reserve(
                    &index.site_of_packet(at),
                    &mut whole,
                    headers.len() + packet.data().len(),
                )?;
                whole.extend_from_slice(&headers);
                whole.extend_from_slice(packet.data());
                replace_data(packet, &whole, &index.site_of_packet(at))?;
            }
        }
        if let Some(base) = without_higher_layers(&index.info.params, packet.data()) {
            replace_data(packet, &base, &index.site_of_packet(at))?;
        }
        if let Some(data) = without_alternative_transfer(&index.info.params, packet.data()) {
            replace_data(packet, &data, &index.site_of_packet(at))?;
        }
        packet.set_packet_index(at);
        Ok(())
    }

    /// The record of packet `at` of a file that is read directly, once its bytes are known to exist
    /// and its size to be within the limit. Anything allocated by that size must come after this
    /// check.
    fn checked_record(&self, at: DecodeIndex, site: &Site) -> Result<PacketRecord> {
        let record = self.index.packets[at.as_usize()];
        let (end, len) = (
            record.offset.saturating_add(u64::from(record.size)),
            self.source.len(),
        );
        if end > len {
            return Err(Error::Truncated {
                site: site.clone(),
                offset: record.offset,
                end,
                len,
            });
        }
        Limits::check(
            site,
            "packet size",
            record.size.into(),
            Limits::default().packet_bytes,
        )?;
        Ok(record)
    }

    /// Reads the bytes of packet `at` of a file that is read directly, without a preamble.
    ///
    /// # Errors
    /// `Truncated` where the file is shorter than when it was indexed; `Limit` for a packet that is
    /// too large.
    pub fn fetch(&mut self, at: DecodeIndex, bytes: &mut Vec<u8>) -> Result<()> {
        let site = self.site_of_file(at);
        let record = self.checked_record(at, &site)?;
        resize(&site, bytes, record.size as usize)?;
        bytes.truncate(record.size as usize);
        self.source.read_exact_at(&site, record.offset, bytes)?;
        self.bytes_read += u64::from(record.size);
        Ok(())
    }

    fn read_direct(
        &mut self,
        at: DecodeIndex,
        last: DecodeIndex,
        headers: &[u8],
        packet: &mut Packet,
    ) -> Result<()> {
        let site = self.index.site_of_packet(at);
        let record = self.checked_record(at, &site)?;
        let buffer = packet
            .allocate(headers.len() + record.size as usize)
            .ok_or_else(|| {
                Error::malformed(
                    &site,
                    format!("no memory for a packet of {} bytes", record.size),
                )
            })?;
        let (head, body) = buffer.split_at_mut(headers.len());
        head.copy_from_slice(headers);
        if self.buffer_ahead.get(record.offset, body.len()).is_none() {
            self.prefetch(at, last);
            let len = self.coalesced_len(at, last);
            if len > body.len() {
                self.buffer_ahead.start = record.offset;
                self.buffer_ahead.bytes.resize(len, 0);
                let fetched =
                    self.source
                        .read_exact_at(&site, record.offset, &mut self.buffer_ahead.bytes);
                self.bytes_read += len as u64;
                fetched.inspect_err(|_| self.buffer_ahead.bytes.clear())?;
            }
        }
        match self.buffer_ahead.get(record.offset, body.len()) {
            Some(bytes) => body.copy_from_slice(bytes),
            None => {
                self.source.read_exact_at(&site, record.offset, body)?;
                self.bytes_read += u64::from(record.size);
            }
        }
        packet.set_key(record.container_key());
        Ok(())
    }

    /// Announces packets from `at` up to `last` to the source, or as many as fit `PREFETCH_BYTES`;
    /// announces more when half of them are read.
    fn prefetch(&mut self, at: DecodeIndex, last: DecodeIndex) {
        let Range { start, end } = self.prefetched;
        let half = start + (end - start) / 2;
        if (start..end).contains(&at.0) && (at.0 < half || end > last.0) {
            return;
        }
        let packets = &self.index.packets[at.as_usize()..=last.as_usize()];
        let mut bytes = 0;
        let fits = |packet: &&PacketRecord| {
            bytes += u64::from(packet.size);
            bytes <= PREFETCH_BYTES
        };
        let count = packets.iter().take_while(fits).count().max(1);
        let place =
            |packet: &PacketRecord| packet.offset..packet.offset.saturating_add(packet.size.into());
        self.source
            .prefetch(&mut packets[..count].iter().map(place));
        self.prefetched = at.0..at.0 + count as u32;
    }

    /// Number of bytes from packet `at` to the end of the last packet, up to `last`, that is worth
    /// fetching with it.
    fn coalesced_len(&self, at: DecodeIndex, last: DecodeIndex) -> usize {
        let packets = &self.index.packets[at.as_usize()..=last.as_usize()];
        let start = packets[0].offset;
        let mut end = start + u64::from(packets[0].size);
        for next in &packets[1..] {
            let next_end = next.offset.saturating_add(u64::from(next.size));
            let near = next.offset >= end && next.offset - end <= MAX_GAP_BYTES;
            if !near
                || next_end - start > MAX_COALESCED_BYTES as u64
                || next_end > self.source.len()
            {
                break;
            }
            end = next_end;
        }
        (end - start) as usize
    }

    fn read_demuxed(&mut self, at: DecodeIndex, packet: &mut Packet) -> Result<()> {
        let read = self.read_demuxed_inner(at, packet);
        if read.is_err() {
            // The demuxer's position is unknown now: the next read opens it again.
            self.bytes_read += self.demuxed.take().map_or(0, |d| d.demuxer.bytes_read());
        }
        read
    }

    fn read_demuxed_inner(&mut self, at: DecodeIndex, packet: &mut Packet) -> Result<()> {
        if self.demuxed.is_none() {
            self.demuxed = Some(self.reopen()?);
        }
        if !self.seek_before(at)? {
            self.demuxed = Some(self.reopen()?); // from the start: always correct, however long it takes
        }
        match self.read_forward(at, packet) {
            // libavformat computes missing decoding times from the packets before, so after a seek
            // they may differ from those of the index. Reading from the start decides whether the
            // file does.
            Err(Error::Malformed { .. }) if self.demuxed.as_ref().is_some_and(|d| d.after_seek) => {
                self.demuxed = Some(self.reopen()?);
                self.read_forward(at, packet)
            }
            read => read,
        }
    }

    /// Reads packets up to `at`, which is at or after the current position.
    fn read_forward(&mut self, at: DecodeIndex, packet: &mut Packet) -> Result<()> {
        let index = self.index.clone();
        let demuxed = self.demuxed.as_mut().expect("opened by the caller");
        loop {
            check_interrupt()?;
            let site = index.site_of_packet(DecodeIndex(demuxed.next));
            if !demuxed.demuxer.next_packet(packet)? {
                return Err(Error::malformed(
                    &site,
                    format!("reading ended before packet {}", at.0),
                ));
            }
            if !index.matches(DecodeIndex(demuxed.next), packet) {
                return Err(Error::malformed(
                    &site,
                    "the file differs from the one that was indexed",
                ));
            }
            demuxed.next += 1;
            if demuxed.next == at.0 + 1 {
                return Ok(());
            }
        }
    }

    fn reopen(&mut self) -> Result<SequentialDemuxer> {
        self.bytes_read += self.demuxed.take().map_or(0, |d| d.demuxer.bytes_read());
        Ok(SequentialDemuxer {
            demuxer: Demuxer::open(self.source.clone(), true, Some(self.index.info.stream))?,
            next: 0,
            after_seek: false,
        })
    }

    /// Whether reading forward, possibly after a seek, will reach packet `at`.
    fn seek_before(&mut self, at: DecodeIndex) -> Result<bool> {
        let Some(demuxed) = &mut self.demuxed else {
            return Ok(false);
        };
        if demuxed.next <= at.0 && at.0 - demuxed.next < MAX_SEQUENTIAL_READ {
            return Ok(true);
        }
        let near = at.0.saturating_sub(1);
        let Some(dts) = self.index.packets[near as usize].dts() else {
            return Ok(demuxed.next <= at.0);
        };
        if !demuxed.demuxer.seek_before(dts) {
            return Ok(false);
        }
        demuxed.after_seek = true;
        // Containers only seek approximately. Identify the position by matching the packets that
        // follow.
        let mut packet = Packet::new();
        let mut candidates: Option<Vec<u32>> = None;
        for read in 0..4 * MAX_SEQUENTIAL_READ {
            match demuxed.demuxer.next_packet(&mut packet) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // An error after a seek does not mean that the file is damaged: reading from the
                // start decides that.
                Err(Error::Malformed { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            let starts = match candidates.take() {
                None => self.index.find(&packet),
                Some(starts) => starts
                    .into_iter()
                    .filter(|s| {
                        let n = s + read;
                        (n as usize) < self.index.packets.len()
                            && self.index.matches(DecodeIndex(n), &packet)
                    })
                    .collect(),
            };
            match starts[..] {
                [] => return Ok(false),
                [start] => {
                    demuxed.next = start + read + 1;
                    return Ok(demuxed.next <= at.0);
                }
                _ => candidates = Some(starts),
            }
        }
        Ok(false)
    }
}

/// Replaces the bytes of a packet, which stays a key packet if it is one.
fn replace_data(packet: &mut Packet, data: &[u8], site: &Site) -> Result<()> {
    let key = packet.is_key();
    packet
        .allocate(data.len())
        .ok_or_else(|| Error::malformed(site, "no memory for a packet"))?
        .copy_from_slice(data);
    packet.set_key(key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source of zeros, of the given length.
    struct Zeros(u64);

    impl ByteSource for Zeros {
        fn name(&self) -> &Arc<str> {
            static NAME: std::sync::OnceLock<Arc<str>> = std::sync::OnceLock::new();
            NAME.get_or_init(|| "zeros.mp4".into())
        }

        fn len(&self) -> u64 {
            self.0
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
            let held = usize::try_from(self.0.saturating_sub(offset))
                .unwrap()
                .min(buffer.len());
            buffer[..held].fill(0);
            Ok(held)
        }

        fn identity(&self) -> crate::source::Identity {
            crate::source::Identity::Memory(0, 0)
        }
    }

    #[test]
    fn only_the_oversized_packet_is_an_error() {
        let most = Limits::default().packet_bytes;
        let mut index = VideoIndex::synthetic(&[(0, true, true), (1, true, true), (2, true, true)]);
        index.direct = true;
        let sizes = [1000, most as u32 + 1, 1000];
        for (packet, (offset, size)) in
            index
                .packets
                .iter_mut()
                .zip([(0, sizes[0]), (1000, sizes[1]), (0, sizes[2])])
        {
            (packet.offset, packet.size) = (offset, size);
        }
        let mut reader = PacketReader::new(Arc::new(Zeros(1 << 33)), Arc::new(index));
        let mut packet = Packet::new();
        let mut read = |at| reader.read(DecodeIndex(at), false, &mut packet);
        assert!(read(0).is_ok());
        let error = read(1).unwrap_err();
        assert!(
            matches!(error, Error::Limit { what: "packet size", cap, .. } if cap == most),
            "{error}"
        );
        assert!(read(2).is_ok());
        assert!(matches!(
            reader.fetch(DecodeIndex(1), &mut Vec::new()),
            Err(Error::Limit { .. })
        ));
        let mut short = PacketReader::new(Arc::new(Zeros(2000)), reader.index.clone());
        assert!(matches!(
            short.fetch(DecodeIndex(1), &mut Vec::new()),
            Err(Error::Truncated { .. })
        ));
    }
}
