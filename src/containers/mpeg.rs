//! Recognizes scrambled packets of MPEG program and transport streams, and damage within packets of
//! transport streams (ISO/IEC 13818-1).

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::source::{ByteSource, Identity};

/// Encryption of the PES packet of a program stream at `at`.
pub(super) fn packet_encryption(source: &dyn ByteSource, at: u64) -> Result<Option<&'static str>> {
    let mut head = [0; 7];
    let is_scrambled = source.read_at(at, &mut head)? == 7 && is_scrambled_pes(&head);
    Ok(is_scrambled.then_some("PES scrambling"))
}

/// Whether a PES packet (2.4.3.6) with video has a scrambled payload.
fn is_scrambled_pes(head: &[u8]) -> bool {
    head.starts_with(&[0, 0, 1])
        && matches!(head.get(3), Some(0xe0..=0xef))
        && head
            .get(6)
            .is_some_and(|flags| flags & 0xc0 == 0x80 && flags & 0x30 != 0)
}

/// Whether something is missing within the PES packet at `at`, or is marked as damaged (2.4.3.2,
/// 2.4.3.3). What is missing at its end looks like a joint of two recordings, and is not found. `at` is
/// libavformat's position: if transport packets are longer than 188 bytes, that much before the first.
pub(super) fn is_pes_cut(source: &dyn ByteSource, at: u64) -> Result<bool> {
    const MAX_BYTES: u64 = 64 << 20;
    const FIRST_READ: usize = 8 << 10;
    const MAX_READ: usize = 64 << 10;
    let read = |at, bytes| -> Result<Vec<u8>> {
        let mut data = vec![0; bytes];
        let got = source.read_at(at, &mut data)?;
        data.truncate(got);
        Ok(data)
    };
    let mut data = read(at, FIRST_READ)?;
    let has_sync_byte = |at: usize| data.get(at).is_none_or(|&byte| byte == SYNC_BYTE);
    let size = PACKET_SIZES
        .into_iter()
        .find(|size| (0..8).all(|n| has_sync_byte(size - PACKET_SIZES[0] + n * size)));
    let Some(size) = size else {
        return Ok(false);
    };
    data.drain(..(size - PACKET_SIZES[0]).min(data.len()));
    let mut begin = at + (size - PACKET_SIZES[0]) as u64;
    let (mut stream, mut last_counter, mut is_discontinuous) = (None, None, false);
    loop {
        for packet in data.chunks_exact(size) {
            let [SYNC_BYTE, high, low, flags, body @ ..] = packet else {
                return Ok(false); // the demuxer has to search for the next packet
            };
            if *stream.get_or_insert((high & 0x1f, *low)) != (high & 0x1f, *low) {
                continue;
            }
            let (is_damaged, begins_pes) = (high & 0x80 != 0, high & 0x40 != 0);
            if begins_pes && last_counter.is_some() {
                return Ok(false);
            }
            let has_adaptation = flags & 0x20 != 0 && body.first().is_some_and(|&n| n > 0);
            is_discontinuous |= has_adaptation && body.get(1).is_some_and(|f| f & 0x80 != 0);
            if is_damaged {
                return Ok(true);
            }
            // A packet without a payload does not count: it may be the first one after a joint.
            if flags & 0x10 == 0 {
                continue;
            }
            let counter = flags & 15;
            let continues = |last: u8| counter == last || counter == (last + 1) & 15; // it may be repeated
            if last_counter.is_some_and(|last| !continues(last)) && !is_discontinuous {
                return Ok(true);
            }
            (last_counter, is_discontinuous) = (Some(counter), false);
        }
        begin += (data.len() / size * size) as u64;
        if data.len() < size || begin - at > MAX_BYTES {
            return Ok(false);
        }
        data = read(begin, (2 * data.len()).clamp(FIRST_READ, MAX_READ))?;
    }
}

/// Passes reads on, and records which streams of an MPEG transport stream are scrambled:
/// libavformat returns no packets for these.
pub(crate) struct ScramblingMonitor {
    source: Arc<dyn ByteSource>,
    seen: Mutex<ScrambledStreams>,
}

impl ScramblingMonitor {
    pub(crate) fn new(source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            seen: Mutex::default(),
        }
    }

    /// Whether the stream with this ID or, without an ID, any stream is scrambled.
    pub(crate) fn is_scrambled(&self, id: Option<i32>) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let reaches = |run: &u8| *run >= MIN_SCRAMBLED_PACKETS;
        match id {
            Some(id) => usize::try_from(id)
                .ok()
                .and_then(|id| seen.runs.get(id))
                .is_some_and(reaches),
            None => seen.runs.iter().any(reaches),
        }
    }
}

impl ByteSource for ScramblingMonitor {
    fn name(&self) -> &Arc<str> {
        self.source.name()
    }

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let got = self.source.read_at(offset, buffer)?;
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .observe(offset, &buffer[..got]);
        Ok(got)
    }

    fn identity(&self) -> Identity {
        self.source.identity()
    }
}

/// Scrambled packets of a stream in a row that are not damage.
const MIN_SCRAMBLED_PACKETS: u8 = 8;

#[derive(Default)]
struct ScrambledStreams {
    /// Length of a packet, and where the first one begins.
    layout: Option<(u64, u64)>,
    /// For each stream ID, the scrambled packets in a row, up to [`MIN_SCRAMBLED_PACKETS`]; empty
    /// if the file is not a transport stream.
    runs: Vec<u8>,
}

impl ScrambledStreams {
    fn observe(&mut self, offset: u64, data: &[u8]) {
        const STREAMS: usize = 1 << 13;
        if self.layout.is_none() && offset == 0 {
            self.layout = layout(data);
            self.runs = vec![0; if self.layout.is_some() { STREAMS } else { 0 }];
        }
        let Some((size, first)) = self.layout else {
            return;
        };
        let lead = (first + size - offset % size) % size;
        for packet in data
            .get(lead as usize..)
            .unwrap_or(&[])
            .chunks(size as usize)
        {
            // One that continues in the next read is not needed.
            let [SYNC_BYTE, high, low, flags, body @ ..] = packet else {
                continue;
            };
            let (id, has_payload) = (
                usize::from(high & 0x1f) << 8 | usize::from(*low),
                flags & 0x10 != 0,
            );
            let skipped = if flags & 0x20 == 0 {
                0
            } else {
                1 + usize::from(body.first().copied().unwrap_or(0))
            };
            let begins_pes = high & 0x40 != 0;
            let pes = || body.get(skipped..).is_some_and(is_scrambled_pes);
            let run = &mut self.runs[id];
            if has_payload && *run < MIN_SCRAMBLED_PACKETS {
                let is_scrambled = flags & 0xc0 != 0 || begins_pes && pes();
                // The packets between two headers of PES packets do not show whether their payload
                // is scrambled.
                *run = if is_scrambled {
                    *run + 1
                } else if begins_pes || *run == 0 {
                    0
                } else {
                    *run
                };
            }
        }
    }
}

/// First byte of a transport packet.
const SYNC_BYTE: u8 = 0x47;

/// Lengths of transport packets: as such, with an arrival time (M2TS), with parity bytes.
const PACKET_SIZES: [usize; 3] = [188, 192, 204];

/// Length of the packets of a transport stream, and where the first one begins in `data`.
fn layout(data: &[u8]) -> Option<(u64, u64)> {
    const PACKETS: usize = 8;
    let fits = |size: usize, first: usize| {
        (0..PACKETS).all(|n| data.get(first + n * size) == Some(&SYNC_BYTE))
    };
    PACKET_SIZES.into_iter().find_map(|size: usize| {
        (0..size)
            .find(|&first| fits(size, first))
            .map(|first| (size as u64, first as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    /// Packets of streams 256 and 17, each with its counter, flags of the second byte, and whether it
    /// has a payload.
    fn stream(size: usize, packets: &[(u16, u8, u8, bool)]) -> Vec<u8> {
        let packet = |&(id, counter, flags, has_payload): &(u16, u8, u8, bool)| {
            let [high, low] = id.to_be_bytes();
            let control = if has_payload { 0x10 } else { 0x20 } | counter;
            let mut packet = vec![SYNC_BYTE, flags | high, low, control];
            packet.resize(size, 0);
            packet
        };
        packets.iter().flat_map(packet).collect()
    }

    #[test]
    fn only_damage_within_a_pes_packet_counts() {
        const BEGINS: u8 = 0x40;
        const DAMAGED: u8 = 0x80;
        let video = |counter, flags| (256, counter, flags, true);
        let whole = [
            video(15, BEGINS),
            (17, 3, BEGINS, true),
            video(0, 0),
            (17, 9, DAMAGED, true),
            (256, 0, 0, false),
            video(1, 0),
            video(1, 0),
        ];
        let cases: [(&[_], bool); 7] = [
            (&[], false),
            (&[video(2, 0), video(3, BEGINS)], false),
            (&[video(5, BEGINS), video(9, 0)], false), // a joint, or lost at its end
            (&[video(2, DAMAGED)], true),
            (&[video(3, 0), video(4, BEGINS)], true),
            (&[(256, 9, 0, false), video(9, BEGINS)], false), // a joint before a clock reference
            (&[(256, 9, 0, false), video(9, 0)], true),
        ];
        for size in PACKET_SIZES {
            for (rest, expected) in &cases {
                let at = 40 + 188 - size as u64;
                let mut bytes = vec![7; 40];
                bytes.extend(stream(size, &[&whole[..], rest].concat()));
                let source = MemorySource::new("a.ts", bytes);
                assert_eq!(
                    is_pes_cut(&source, at).unwrap(),
                    *expected,
                    "{size} {rest:?}"
                );
                assert!(!is_pes_cut(&source, at - 1).unwrap(), "no transport packet");
                assert!(!is_pes_cut(&source, source.len()).unwrap());
            }
        }
    }

    #[test]
    fn long_pes_packets_are_read_in_parts() {
        for lost in [None, Some(1000), Some(2999)] {
            let numbers = (0..3000).filter(|n| Some(*n) != lost);
            let packets = numbers.map(|n| (256, (n % 16) as u8, u8::from(n == 0) << 6, true));
            let bytes = stream(188, &packets.collect::<Vec<_>>());
            let found = is_pes_cut(&MemorySource::new("a.ts", bytes), 0).unwrap();
            assert_eq!(found, lost == Some(1000));
        }
    }
}
