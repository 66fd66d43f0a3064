//! Recognizes scrambled packets of MPEG program and transport streams (ISO/IEC 13818-1).

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
            let [0x47, high, low, flags, body @ ..] = packet else {
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

/// Length of the packets of a transport stream, and where the first one begins in `data`.
fn layout(data: &[u8]) -> Option<(u64, u64)> {
    const PACKETS: usize = 8;
    let fits =
        |size: usize, first: usize| (0..PACKETS).all(|n| data.get(first + n * size) == Some(&0x47));
    [188, 192, 204].into_iter().find_map(|size: usize| {
        (0..size)
            .find(|&first| fits(size, first))
            .map(|first| (size as u64, first as u64))
    })
}
