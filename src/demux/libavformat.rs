//! Reads all packets of any container in one pass of libavformat, and passes each to a visitor.
//! Finds the offsets of contiguous payloads, verified by comparing the bytes. Payloads are not
//! kept.

use std::ops::Range;
use std::sync::Arc;

use super::{PacketInfo, Track, encrypted};
use crate::containers;
use crate::containers::mpeg::ScramblingMonitor;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::{Demuxer, Packet};
use crate::limits::{Limits, check_index_allocatable, reserve, resize};
use crate::media::{StreamInfo, StreamKind};
use crate::source::ByteSource;

/// Maximum distance from the position that a demuxer reports to the payload (block and chunk
/// headers).
const MAX_BLOCK_HEADER_BYTES: usize = 64;

/// Reads all packets of video stream `stream`, or of the best one. `visit` is called with the
/// stream's properties and each packet.
pub(crate) fn read_packets(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    mut visit: impl FnMut(&StreamInfo, &Packet) -> Result<()>,
) -> Result<Track> {
    let site = Site::file(source.name());
    let monitor = Arc::new(ScramblingMonitor::new(source.clone()));
    let is_scrambled = |id: Option<i32>| match monitor.is_scrambled(id) {
        true => Err(encrypted(&site, "transport stream scrambling")),
        false => Ok(()),
    };
    let mut demuxer =
        Demuxer::open(monitor.clone(), true, stream).or_else(|error| match error {
            // Nothing was found in packets that cannot be read.
            Error::Malformed { .. } | Error::NoVideo { .. } => is_scrambled(None).and(Err(error)),
            other => Err(other),
        })?;
    let streams = demuxer.stream_summaries();
    let (selected, id) = demuxer.selected_stream();
    let before = streams
        .iter()
        .take(selected as usize)
        .filter(|stream| stream.kind == StreamKind::Video);
    let name = demuxer.container();
    let container = containers::by_name(&name);
    if let Some(scheme) = (container.stream_encryption)(&**source, before.count())? {
        return Err(encrypted(&site, &scheme));
    }
    let info = demuxer.info(limits)?;
    let mut packets: Vec<PacketInfo> = Vec::new();
    let mut skipped_corrupt = 0;
    let mut locator = Some(PayloadLocator::new(source.clone()));
    let mut laces: Vec<Range<usize>> = Vec::new();
    let mut last_position = None;
    let mut packet = Packet::new();
    while demuxer.next_packet(&mut packet)? {
        Limits::check(
            &site,
            "number of packets",
            packets.len() as u64 + 1,
            limits.packets,
        )?;
        if packets.len() == packets.capacity() {
            check_index_allocatable(&site, 2 * packets.len())?;
            reserve(&site, &mut packets, 1)?;
        }
        Limits::check(
            &site,
            "packet size",
            packet.data().len() as u64,
            limits.packet_bytes,
        )?;
        if let Some(scheme) = packet.encryption_scheme() {
            return Err(encrypted(&site, &scheme));
        }
        if let Some(at) = packet.position()
            && let Some(scheme) = (container.packet_encryption)(&**source, at)?
        {
            return Err(encrypted(&site, scheme));
        }
        let offset = match &mut locator {
            Some(f) if !packet.has_decoder_side_data() => f.find(&packet)?,
            _ => None,
        };
        if offset.is_none() {
            locator = None; // if one packet must be read through the demuxer, all are
        }
        if container.has_laces && packet.position().is_some() && packet.position() == last_position
        {
            match laces.last_mut().filter(|lace| lace.end == packets.len()) {
                Some(lace) => lace.end += 1,
                None => laces.push(packets.len() - 1..packets.len() + 1),
            }
        }
        last_position = packet.position();
        let after_gap = demuxer.skipped_corrupt() > skipped_corrupt;
        skipped_corrupt = demuxer.skipped_corrupt();
        // The mark of damage in its first transport packet is on the packet before, and may be on the
        // one before that; the first packet has none.
        let is_marked = packet.is_corrupt()
            || packets.is_empty()
            || packets.iter().rev().take(2).any(|last| last.corrupt);
        let cut = match packet.position() {
            Some(at) => is_marked && (container.is_cut)(&**source, at)?,
            None => packets.last().is_some_and(|last| last.cut), // a further picture of the same one
        };
        packets.push(PacketInfo {
            offset,
            size: packet.data().len() as u32,
            pts: packet.pts(),
            dts: packet.dts(),
            duration: packet.duration(),
            key: packet.is_key(),
            discard: packet.is_discard(),
            corrupt: packet.is_corrupt(),
            cut,
            after_gap,
        });
        visit(&info, &packet)?;
    }
    if container.drops_scrambled_packets {
        is_scrambled(Some(id))?;
    }
    if locator.is_none() {
        packets.iter_mut().for_each(|p| p.offset = None);
    }
    set_lace_times(&mut packets, &laces);
    let marked = packets.iter().filter(|p| p.corrupt).count();
    let damaged = marked.max(packets.iter().filter(|p| p.cut).count());
    let damaged_units = skipped_corrupt.saturating_add(u32::try_from(damaged).unwrap_or(u32::MAX));
    Ok(Track {
        container: name,
        info,
        streams,
        packets,
        damaged_units,
    })
}

/// Sets the times of the frames that share a Matroska block (a lace) where the file has none:
/// without DefaultDuration and BlockDuration, a block lasts until the next one, and its frames
/// equally long. libavformat returns no times for them or, once it has estimated a frame rate,
/// times at the rate of blocks.
fn set_lace_times(packets: &mut [PacketInfo], laces: &[Range<usize>]) {
    // Length of the previous block in ticks, and its frames, if its times were set.
    let mut previous: Option<(i64, i64)> = None;
    for lace in laces {
        let frames = lace.len() as i64;
        let Some(begin) = packets[lace.start].pts else {
            continue;
        };
        // libavformat continues from each packet by its duration, which is 0 before it has an
        // estimate.
        let is_generated = packets[lace.clone()].windows(2).all(|pair| {
            let known = pair[0].pts.zip(pair[1].pts);
            known.is_none_or(|(first, second)| first.checked_add(pair[0].duration) == Some(second))
        });
        let unknown = packets[lace.clone()]
            .windows(2)
            .any(|pair| pair[1].pts.is_none() || pair[1].pts == pair[0].pts);
        let (length, parts) = match packets.get(lace.end).map(|next| next.pts) {
            Some(Some(next)) if next > begin => {
                let overlaps = packets[lace.end - 1].pts.is_some_and(|last| last >= next);
                match is_generated && (unknown || overlaps) {
                    true => (next.saturating_sub(begin), frames),
                    false => (0, frames),
                }
            }
            None if is_generated => previous.unwrap_or((0, frames)),
            _ => (0, frames),
        };
        previous = (length > 0).then_some((length, parts));
        if previous.is_none() {
            continue;
        }
        let at = |n: i64| (i128::from(length) * i128::from(n) / i128::from(parts)) as i64;
        for (n, packet) in (0..).zip(&mut packets[lace.clone()]) {
            packet.pts = Some(begin.saturating_add(at(n)));
            packet.duration = at(n + 1) - at(n);
        }
    }
}

/// Finds payloads in the source by content, starting at the position that the demuxer reports.
pub(crate) struct PayloadLocator {
    source: Arc<dyn ByteSource>,
    site: Site,
    /// Distance from the reported position to the previous payload.
    header_bytes: usize,
    /// End of the previous payload: elementary streams have no headers between payloads.
    end: u64,
    window: Vec<u8>,
}

impl PayloadLocator {
    pub(crate) fn new(source: Arc<dyn ByteSource>) -> Self {
        let site = Site::file(source.name());
        Self {
            source,
            site,
            header_bytes: 0,
            end: 0,
            window: Vec::new(),
        }
    }

    pub(crate) fn find(&mut self, packet: &Packet) -> Result<Option<u64>> {
        let data = packet.data();
        // It has no bytes to read, so any offset will do.
        if data.is_empty() {
            return Ok(Some(self.end));
        }
        for start in [packet.position(), Some(self.end)].into_iter().flatten() {
            let len = data.len() + MAX_BLOCK_HEADER_BYTES;
            resize(&self.site, &mut self.window, len)?;
            self.window.truncate(len);
            let got = self.source.read_at(start, &mut self.window)?;
            let window = &self.window[..got];
            let fits = |lead: usize| {
                window
                    .get(lead..lead + data.len())
                    .is_some_and(|w| w == data)
            };
            if let Some(lead) = std::iter::once(self.header_bytes)
                .chain(0..MAX_BLOCK_HEADER_BYTES)
                .find(|&lead| fits(lead))
            {
                self.header_bytes = lead;
                let offset = start + lead as u64;
                self.end = offset + data.len() as u64;
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}
