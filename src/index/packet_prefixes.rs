//! Reads the first bytes of an MP4/MOV file's packets, as many as are needed to find random access
//! points.

use std::sync::Arc;

use super::frame_order::ParsedPacket;
use super::in_band_headers::InBandHeaders;
use crate::codecs::header_parser::HeaderParser;
use crate::codecs::picture_info::{PictureInfo, RandomAccessPoint};
use crate::codecs::{self, codec::Codec};
use crate::demux::PacketInfo;
use crate::error::{Result, Site};
use crate::limits::reserve;
use crate::media::StreamInfo;
use crate::source::{ByteSource, check_interrupt};

/// Bytes read of a packet to find its first slice; more are read in the rare case that these do not
/// suffice.
const PREFIX_BYTES: usize = 1024;
const LONG_PREFIX_BYTES: usize = 1 << 16;
/// Bytes read of a packet that is not a keyframe: its first slice usually comes first.
const SHORT_PREFIX_BYTES: usize = 64;
/// Packets whose first bytes are searched for a random access point before the file is scanned
/// instead.
const MAX_PACKETS_BEFORE_START: usize = 1 << 12;
/// Packets whose first bytes are announced to a source together.
const PREFETCHED_PACKETS: usize = 128;

/// Results of parsing the first bytes of an MP4/MOV file's packets.
pub(super) struct PacketPrefixes {
    pub parsed_packets: Vec<ParsedPacket>,
    pub in_band: InBandHeaders,
}

impl PacketPrefixes {
    /// Reads the first bytes of keyframes, and of all packets up to the first start, because sample
    /// tables may mark packets as keyframes that are not, and omit others. With `every`, reads
    /// those of all packets. Returns `None` if the first bytes do not suffice.
    pub(super) fn read(
        source: &Arc<dyn ByteSource>,
        info: &StreamInfo,
        packets: &[PacketInfo],
        every: bool,
    ) -> Result<Option<Self>> {
        let codec = codecs::of(&info.params.codec);
        let mut header_parser = HeaderParser::new(&info.params);
        let mut head = Vec::new();
        let mut parsed_packets: Vec<ParsedPacket> = Vec::new();
        reserve(
            &Site::file(source.name()),
            &mut parsed_packets,
            packets.len(),
        )?;
        let mut in_band = InBandHeaders::default();
        let mut first_start: Option<(i64, RandomAccessPoint)> = None;
        let (mut met, mut begun) = (0, false);
        for (at, packet) in packets.iter().copied().enumerate() {
            if first_start.is_none() && at == MAX_PACKETS_BEFORE_START {
                return Ok(None); // the scan reads all packets anyway
            }
            if every || packet.key {
                if met % (PREFETCHED_PACKETS / 2) == 0 {
                    prefetch_prefixes(source, &packets[at..], every, met > 0);
                }
                met += 1;
            }
            // Reads the payload where the key flag may be wrong, and of leading pictures of the
            // first start, which may be undecodable.
            let leads = matches!((first_start, packet.pts), (Some((order, RandomAccessPoint::Open)), Some(pts)) if pts < order);
            let wanted = every
                || packet.key
                || first_start.is_none()
                || (leads && codec.marks_leading_pictures());
            let picture = if packet.size == 0 {
                header_parser.parse(&[], packet.key)
            } else if wanted {
                check_interrupt()?;
                let begins = packet.key || first_start.is_none();
                let Some(picture) = parse_prefix(
                    source,
                    codec,
                    &mut header_parser,
                    &packet,
                    begins,
                    &mut head,
                )?
                else {
                    return Ok(None); // the picture follows a long prefix: the whole packet must be read
                };
                if !std::mem::replace(&mut begun, true) {
                    if codec.may_have_field_packets(&info.params.extradata, &head) {
                        return Ok(None); // a sample may be one field, which only its slice header shows
                    }
                    in_band = InBandHeaders::new(&header_parser, &info.params, &head);
                }
                // The index at the end of a packet, and the references of the frames in it, are
                // needed.
                if codec.has_trailing_index() && picture.random_access == RandomAccessPoint::Inexact
                {
                    return Ok(None);
                }
                in_band.observe(parsed_packets.len() as u32, picture.random_access, &head);
                picture
            } else {
                PictureInfo::default()
            };
            if first_start.is_none()
                && matches!(
                    picture.random_access,
                    RandomAccessPoint::Open | RandomAccessPoint::Closed
                )
            {
                first_start = Some((packet.pts.unwrap_or(0), picture.random_access));
            }
            parsed_packets.push(ParsedPacket {
                packet,
                picture,
                parsed: None,
            });
        }
        // Without any exact start, the file must be scanned.
        Ok(first_start.map(|_| Self {
            parsed_packets,
            in_band,
        }))
    }
}

/// Whether the first pictures of a stream include B pictures.
pub(super) fn has_b_pictures(
    source: &Arc<dyn ByteSource>,
    info: &StreamInfo,
    packets: &[PacketInfo],
) -> Result<bool> {
    const FIRST: usize = 16;
    let codec = codecs::of(&info.params.codec);
    let mut header_parser = HeaderParser::new(&info.params);
    let mut head = Vec::new();
    for packet in packets.iter().filter(|packet| packet.size > 0).take(FIRST) {
        if parse_prefix(source, codec, &mut header_parser, packet, false, &mut head)?
            .is_some_and(|picture| picture.is_b_picture)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads as many bytes of a packet as are needed to classify it. Returns `None` if these are too
/// many.
fn parse_prefix(
    source: &Arc<dyn ByteSource>,
    codec: &dyn Codec,
    header_parser: &mut HeaderParser,
    packet: &PacketInfo,
    begins: bool,
    head: &mut Vec<u8>,
) -> Result<Option<PictureInfo>> {
    let size = packet.size as usize;
    // A packet that extends past the end of the file causes an error when its frame is requested,
    // not here.
    let present = packet
        .offset
        .is_some_and(|o| o.saturating_add(u64::from(packet.size)) <= source.len());
    let of_units = codec.nal_syntax().is_some();
    let mut picture = PictureInfo::default();
    let lengths = [SHORT_PREFIX_BYTES, PREFIX_BYTES, LONG_PREFIX_BYTES];
    for &most in &lengths[usize::from(begins)..] {
        read_prefix(source, packet, most, head)?;
        picture = header_parser.parse(head, packet.key);
        picture.shown |= !present;
        picture.is_damaged &= present;
        // SEI messages and metadata may precede the picture.
        let is_late = picture.is_damaged || codec.is_header_missing(&picture, packet.key);
        if !is_late || size <= most {
            break;
        }
    }
    if (of_units && !picture.shown || picture.is_damaged) && size > LONG_PREFIX_BYTES {
        return Ok(None);
    }
    // One of the frames in the index at the end of the packet is shown.
    picture.shown |= codec.has_trailing_index() && head.len() < size;
    Ok(Some(picture))
}

/// Announces to the source the first bytes of the packets that are read next. `again`: the first
/// half of them was announced before and is skipped.
fn prefetch_prefixes(
    source: &Arc<dyn ByteSource>,
    packets: &[PacketInfo],
    every: bool,
    again: bool,
) {
    let skipped = if again { PREFETCHED_PACKETS / 2 } else { 0 };
    let looked_at = packets
        .iter()
        .filter(|packet| every || packet.key)
        .skip(skipped)
        .take(PREFETCHED_PACKETS - skipped);
    source.prefetch(&mut looked_at.filter_map(|packet| {
        let start = packet.offset?;
        Some(start..start.saturating_add(u64::from(packet.size).min(PREFIX_BYTES as u64)))
    }));
}

fn read_prefix(
    source: &Arc<dyn ByteSource>,
    packet: &PacketInfo,
    most: usize,
    head: &mut Vec<u8>,
) -> Result<()> {
    head.resize((packet.size as usize).min(most), 0);
    let got = source.read_at(packet.offset.unwrap_or(0), head)?;
    head.truncate(got);
    Ok(())
}
