//! Tests empty Ogg packets, which repeat the previous frame of Theora.

use crate::common::named;
use crate::timestamps::{decoded, memory, read, recorded};

/// Returns the serial number of an Ogg stream, and its packets as (granule position of the page,
/// payload).
fn ogg_packets(bytes: &[u8]) -> (u32, Vec<(u64, Vec<u8>)>) {
    let (mut at, mut packets, mut open, mut serial) = (0, Vec::new(), Vec::new(), 0);
    while let Some(page) = bytes.get(at..).filter(|page| page.starts_with(b"OggS")) {
        let granule = u64::from_le_bytes(page[6..14].try_into().unwrap());
        serial = u32::from_le_bytes(page[14..18].try_into().unwrap());
        let count = usize::from(page[26]);
        let mut place = 27 + count;
        for &size in &page[27..27 + count] {
            open.extend_from_slice(&page[place..place + usize::from(size)]);
            place += usize::from(size);
            if size < 255 {
                packets.push((granule, std::mem::take(&mut open)));
            }
        }
        at += place;
    }
    (serial, packets)
}

fn ogg(serial: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, (granule, data)) in packets.iter().enumerate() {
        let mut page = b"OggS\0".to_vec();
        page.push(if n == 0 {
            2
        } else if n + 1 == packets.len() {
            4
        } else {
            0
        });
        page.extend(granule.to_le_bytes());
        page.extend(serial.to_le_bytes());
        page.extend((n as u32).to_le_bytes());
        page.extend([0; 4]);
        let segments = data.len() / 255 + 1;
        assert!(segments < 256, "a packet for a page");
        page.push(segments as u8);
        page.extend(std::iter::repeat_n(255, segments - 1));
        page.push((data.len() % 255) as u8);
        page.extend(data);
        let crc = page.iter().fold(0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
                crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        out.extend(page);
    }
    out
}

#[test]
fn empty_theora_packets_repeat_the_previous_frame() {
    let entry = named("video/codecs/theora_400x300.ogv");
    let (serial, packets) = ogg_packets(&read(&entry.path));
    let (headers, frames) = packets.split_at(3);
    // This many bits of the granule position count the frames since the last keyframe (Theora
    // specification, 6.2).
    let shift = u16::from_be_bytes([headers[0].1[40], headers[0].1[41]]) >> 5 & 31;
    let mut written = headers.to_vec();
    written.iter_mut().for_each(|header| header.0 = 0);
    let (mut key, mut behind, mut expected) = (0u64, 0u64, Vec::new());
    for (n, (_, data)) in frames.iter().take(40).enumerate() {
        let repeats = match n {
            5 | 6 => 1,
            20 => 2,
            _ => 0,
        };
        (key, behind) = if data[0] & 0x40 == 0 {
            (key + behind + 1, 0)
        } else {
            (key, behind + 1)
        };
        written.push((key << shift | behind, data.clone()));
        expected.push((key + behind) as i64 - 1);
        for _ in 0..repeats {
            behind += 1;
            written.push((key << shift | behind, Vec::new()));
        }
    }
    let stream = decoded(memory("repeats.ogv", ogg(serial, &written)));
    assert_eq!(stream.hashes, recorded(&entry)[..40]);
    assert_eq!(stream.times(), expected);
}
