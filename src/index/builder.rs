//! Builds the index of a source: from the sample tables of ordinary MP4/MOV files, otherwise from a scan of
//! all packets.
//! A video without frames is an error that describes what was found instead.

use std::sync::Arc;

use super::frame_order::{
    build_frame_table, pts_define_order, pts_follow_decode_order, FrameTable, ParsedPacket,
};
use super::{PacketRecord, VideoIndex};
use crate::bitstream::disposable::{
    declares_frames_only, declares_reorder_depth, packets_are_independent, MjpegTableTracker,
};
use crate::bitstream::header_parser::{HeaderParser, PictureInfo, RandomAccessPoint};
use crate::bitstream::parameter_set_tracker::ParameterSetTracker;
use crate::demux::{libavformat, mp4, PacketInfo, Track};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::decoder::is_intra_only;
use crate::ffmpeg::{log, Decoder, Demuxer, Frame, Packet, ParsedPicture, Parser, Received};
use crate::limits::{check_allocatable, reserve, Limits};
use crate::media::{CodecKind, StreamInfo};
use crate::source::ByteSource;
use crate::units::DecodeIndex;

/// Bytes read of a packet to find its first slice; more are read in the rare case that these do not suffice.
const PREFIX_BYTES: usize = 1024;
const LONG_PREFIX_BYTES: usize = 1 << 16;
/// Bytes read of a packet that is not a keyframe: its first slice usually comes first.
const SHORT_PREFIX_BYTES: usize = 64;
/// Packets larger than this are parsed only if enough memory is available.
const LARGE_PACKET_BYTES: usize = 1 << 20;
/// Packets whose first bytes are announced to a source together.
const PREFETCHED_PACKETS: usize = 128;

/// Builds the index of a file's default video stream: [`build_stream`] without a requested stream.
pub fn build(
    source: &Arc<dyn ByteSource>,
    limits: &Limits,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    build_stream(source, None, limits, interrupt)
}

/// Builds the index of the video stream with index `stream` among all streams of the file, or of the one that
/// libavformat considers the best. `interrupt` is called for every packet read; an error from it stops the
/// work.
pub fn build_stream(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let limits = &limits.for_file_len(source.len());
    if let Some(mut track) = mp4::read_track(source, stream, limits)? {
        let streams = std::mem::take(&mut track.streams);
        if let Some(index) = build_from_sample_tables(source, track, interrupt)? {
            return Ok(VideoIndex { streams, ..index });
        }
    }
    build_from_scan(source, stream, limits, interrupt)
}

/// Builds the index of a video in one pass over all its packets, whatever the container. It also serves as
/// the reference that the index from sample tables is tested against.
pub fn build_from_scan(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let mut parsed_headers: Vec<(PictureInfo, Option<ParsedPicture>)> = Vec::new();
    let mut parsers: Option<(HeaderParser, Option<Parser>)> = None;
    let mut keyframe_validator: Option<KeyframeValidator> = None;
    let mut in_band = InBandHeaders::default();
    let mut stateful = false;
    let mut jpeg = MjpegTableTracker::default();
    let mut padded = Vec::new();
    let track = libavformat::read_packets(source, stream, limits, |info, packet| {
        interrupt()?;
        if packet.data().len() > LARGE_PACKET_BYTES {
            // Parsing it allocates lists of its units, each of which takes at least three bytes.
            check_allocatable::<[u8; 8]>(&site, packet.data().len())?;
        }
        let (header_parser, parser) = match &mut parsers {
            Some(parsers) => parsers,
            None => {
                let header_parser = HeaderParser::new(info.params.codec.kind, &info.params.extradata);
                in_band = InBandHeaders::new(&header_parser, info, packet.data());
                parsers.insert((header_parser, open_parser(&site, info)?))
            }
        };
        let mut picture = header_parser.parse(packet.data(), packet.is_key());
        // A codec without state between pictures can start at any packet, even one without a key flag.
        if picture.shown && packets_are_independent(&info.params) {
            picture.random_access = RandomAccessPoint::Open;
        }
        // A palette or new configuration in a packet's side data applies to all later packets.
        stateful |= packet.has_decoder_side_data();
        let borrows = info.params.codec.name == "mjpeg" && !jpeg.is_self_contained(packet.data());
        if (stateful || borrows) && !parsed_headers.is_empty() {
            picture.random_access = RandomAccessPoint::None;
        }
        in_band.observe(parsed_headers.len() as u32, picture.random_access, packet.data());
        let unread = info.params.codec.kind == CodecKind::Other && !is_intra_only(&info.params);
        if unread && picture.random_access != RandomAccessPoint::None && !parsed_headers.is_empty() {
            let validator = match &mut keyframe_validator {
                Some(validator) => validator,
                None => keyframe_validator.insert(KeyframeValidator::new(&site, info)?),
            };
            if !validator.is_intra(packet) {
                picture.random_access = RandomAccessPoint::None;
            }
        }
        if parser.is_some() {
            padded.clear();
            reserve(&site, &mut padded, packet.data().len() + 64)?;
            padded.extend_from_slice(packet.data());
            padded.resize(packet.data().len() + 64, 0);
        }
        let parsed = parser.as_mut().map(|parser| parser.parse(&padded, packet.data().len()));
        parsed_headers.push((picture, parsed));
        Ok(())
    })?;
    let Track { container, info, streams, packets, damaged_units } = track;
    in_band.check(&site, &info)?;
    let direct = packets.iter().all(|p| p.offset.is_some());
    let parsed_packets = packets
        .into_iter()
        .zip(parsed_headers)
        .map(|(packet, (picture, parsed))| ParsedPacket { packet, picture, parsed })
        .collect();
    let index = build_index(source, container, info, parsed_packets, direct, in_band, interrupt)?;
    Ok(VideoIndex { damaged_units, streams, ..index })
}

/// Data from earlier packets that a decoder starting later in the stream needs.
#[derive(Default)]
struct InBandHeaders {
    sets: Option<ParameterSetTracker>,
    /// The x264 user data SEI message of the first packet.
    x264_sei: Vec<u8>,
    headers: Vec<(u32, Vec<u8>)>,
}

impl InBandHeaders {
    fn new(header_parser: &HeaderParser, info: &StreamInfo, first: &[u8]) -> Self {
        let sets = ParameterSetTracker::new(info.params.codec.kind, &info.params.extradata);
        Self { sets, x264_sei: header_parser.x264_sei(first), headers: Vec::new() }
    }

    /// Records packet `at`, of which `data` may be only the first bytes.
    fn observe(&mut self, at: u32, start: RandomAccessPoint, data: &[u8]) {
        if at > 0 && start != RandomAccessPoint::None {
            let sets = self.sets.as_ref().map_or_else(Vec::new, ParameterSetTracker::not_in_config);
            let preamble = [&sets[..], &self.x264_sei].concat();
            if self.headers.last().map_or(!preamble.is_empty(), |last| last.1 != preamble) {
                self.headers.push((at, preamble));
            }
        }
        if let Some(sets) = &mut self.sets {
            sets.observe(data);
        }
    }

    /// Whether the parameter sets seen so far include every kind that a slice requires.
    fn is_complete(&self) -> bool {
        self.sets.as_ref().is_none_or(ParameterSetTracker::is_complete)
    }

    /// # Errors
    /// `Malformed` if neither the container nor any packet holds the headers without which no picture can be
    /// decoded.
    fn check(&self, site: &Site, info: &StreamInfo) -> Result<()> {
        let unsized_ = info.params.width == 0 || info.params.height == 0;
        let lacks = match info.params.codec.kind {
            CodecKind::H264 | CodecKind::Hevc if !self.is_complete() => "parameter sets (SPS and PPS)",
            CodecKind::Mpeg12 if unsized_ => "sequence header",
            CodecKind::Mpeg4 if unsized_ => "video object layer header",
            _ => return Ok(()),
        };
        let reason = format!(
            "its {} stream has no {lacks}, neither in the container nor in a packet, so no frame can be \
             decoded; create the file again from its source, including its start",
            info.params.codec.name
        );
        Err(Error::malformed(site, reason))
    }
}

/// Returns decode indices in the order in which a decoder outputs their pictures, by decoding the whole video
/// once. Used for the few streams that have neither timestamps nor headers parsed here that give the order
/// (VC-1 in ASF, raw H.264 with order count resets).
fn decoded_order(
    source: &Arc<dyn ByteSource>,
    info: &StreamInfo,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<Vec<DecodeIndex>> {
    let mut demuxer = Demuxer::open(source.clone(), true, Some(info.stream))?;
    let mut decoder = Decoder::open(&Site::file(source.name()), &info.params, 1)?;
    let (mut packet, mut frame) = (Packet::new(), Frame::new());
    let mut order = Vec::new();
    let mut more = true;
    for at in 0.. {
        interrupt()?;
        more = more && demuxer.next_packet(&mut packet)?;
        if more {
            packet.set_packet_index(DecodeIndex(at));
            // A damaged packet outputs nothing here and causes an error when its frame is requested. An empty
            // packet would signal the end of the stream.
            if !packet.data().is_empty() {
                let _ = decoder.send(&packet);
            }
        } else {
            decoder.drain();
        }
        while let Ok(Received::Frame) = decoder.receive(&mut frame) {
            order.extend(frame.packet_index(false));
        }
        if !more {
            break;
        }
    }
    Ok(order)
}

/// Checks keyframes of codecs whose headers are not parsed here: some muxers mark predicted pictures as
/// keyframes (H.263).
struct KeyframeValidator {
    /// `None` if no decoder supports the codec; then no frame can be decoded incorrectly either.
    decoder: Option<Decoder>,
    frame: Frame,
}

impl KeyframeValidator {
    fn new(site: &Site, info: &StreamInfo) -> Result<Self> {
        let decoder = match Decoder::open(site, &info.params, 1) {
            Ok(decoder) => Some(decoder),
            Err(Error::Unsupported { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { decoder, frame: Frame::new() })
    }

    /// Whether a packet by itself decodes to an intra picture without a decoder error.
    fn is_intra(&mut self, packet: &Packet) -> bool {
        let Some(decoder) = &mut self.decoder else { return true };
        decoder.flush();
        let clean = decoder.send(packet).is_ok() && log::first().is_none();
        decoder.drain();
        let mut intra = false;
        while let Ok(Received::Frame) = decoder.receive(&mut self.frame) {
            intra |= self.frame.is_intra();
        }
        clean && intra && log::first().is_none()
    }
}

/// Opens a parser, which is needed only for what timestamps do not give: fields, and the order if timestamps
/// are missing.
fn open_parser(site: &Site, info: &StreamInfo) -> Result<Option<Parser>> {
    match info.params.codec.kind {
        CodecKind::H264 | CodecKind::Hevc => Parser::open(site, &info.params),
        _ => Ok(None),
    }
}

/// Builds the index of an MP4/MOV file from its sample tables and the first bytes of some packets. Returns
/// `None` if the file must be scanned instead.
fn build_from_sample_tables(
    source: &Arc<dyn ByteSource>,
    track: Track,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<Option<VideoIndex>> {
    let Track { container, info, packets, .. } = track;
    let kind = info.params.codec.kind;
    // Sample tables show neither VP8's hidden frames nor MPEG-4's empty packets. For other codecs only
    // keyframes matter, unless parameter sets occur in band: a set that changes after a keyframe is in force
    // at the next one.
    let in_band = [*b"avc3", *b"hev1"].map(u32::from_le_bytes).contains(&info.params.tag);
    let every = in_band || matches!(kind, CodecKind::Vp8 | CodecKind::Mpeg4);
    let mut prefixes = PacketPrefixes::read(source, &info, &packets, every, interrupt)?;
    let have_sets = |prefixes: &PacketPrefixes| {
        prefixes.in_band.sets.as_ref().is_some_and(ParameterSetTracker::has_in_band)
    };
    if !every && prefixes.as_ref().is_some_and(have_sets) {
        prefixes = PacketPrefixes::read(source, &info, &packets, true, interrupt)?;
    }
    let Some(PacketPrefixes { parsed_packets, in_band }) = prefixes else { return Ok(None) };
    // A new sequence parameter set may introduce fields, each in a sample of its own.
    let changes = in_band.sets.as_ref().is_some_and(ParameterSetTracker::changed);
    // If timestamps do not give the presentation order, every picture's header must be parsed.
    let orders = !matches!(kind, CodecKind::H264 | CodecKind::Hevc) || pts_define_order(&parsed_packets);
    // Packets that are not empty but show nothing indicate a packed bitstream, where other packets hold
    // several pictures. The first bytes of a packet do not show these.
    let packed =
        kind == CodecKind::Mpeg4 && parsed_packets.iter().any(|k| !k.picture.shown && k.packet.size > 0);
    if changes || packed || !orders || !in_band.is_complete() {
        return Ok(None);
    }
    // Timestamps may follow decode order although pictures are reordered, as in an AVI remuxed to MP4.
    if kind == CodecKind::H264
        && pts_follow_decode_order(&parsed_packets)
        && has_b_pictures(source, &info, &packets)?
    {
        return Ok(None);
    }
    drop(packets); // large; freed before the tables are allocated
    build_index(source, container, info, parsed_packets, true, in_band, interrupt).map(Some)
}

/// Results of parsing the first bytes of an MP4/MOV file's packets.
struct PacketPrefixes {
    parsed_packets: Vec<ParsedPacket>,
    in_band: InBandHeaders,
}

impl PacketPrefixes {
    /// Reads the first bytes of keyframes, and of all packets up to the first start, because sample tables
    /// may mark packets as keyframes that are not, and omit others. With `every`, reads those of all packets.
    /// Returns `None` if the first bytes do not suffice.
    fn read(
        source: &Arc<dyn ByteSource>,
        info: &StreamInfo,
        packets: &[PacketInfo],
        every: bool,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let kind = info.params.codec.kind;
        let mut header_parser = HeaderParser::new(kind, &info.params.extradata);
        let mut head = Vec::new();
        let mut parsed_packets: Vec<ParsedPacket> = Vec::new();
        reserve(&Site::file(source.name()), &mut parsed_packets, packets.len())?;
        let mut in_band = InBandHeaders::default();
        let mut first_start: Option<(i64, RandomAccessPoint)> = None;
        let (mut met, mut begun) = (0, false);
        for (at, packet) in packets.iter().copied().enumerate() {
            if every || packet.key {
                if met % (PREFETCHED_PACKETS / 2) == 0 {
                    prefetch_prefixes(source, &packets[at..], every, met > 0);
                }
                met += 1;
            }
            // Reads the payload where the key flag may be wrong, and of leading pictures of the first start,
            // which may be undecodable.
            let leads = matches!((first_start, packet.pts), (Some((order, RandomAccessPoint::Open)), Some(pts)) if pts < order);
            let wanted = every || packet.key || first_start.is_none() || (leads && kind == CodecKind::Hevc);
            let picture = if packet.size == 0 {
                header_parser.parse(&[], packet.key)
            } else if wanted {
                interrupt()?;
                let begins = packet.key || first_start.is_none();
                let Some(picture) = parse_prefix(source, &mut header_parser, &packet, begins, &mut head)?
                else {
                    return Ok(None); // the picture follows a long prefix: the whole packet must be read
                };
                if !std::mem::replace(&mut begun, true) {
                    if kind == CodecKind::H264 && !declares_frames_only(&info.params.extradata, &head) {
                        return Ok(None); // a sample may be one field, which only its slice header shows
                    }
                    in_band = InBandHeaders::new(&header_parser, info, &head);
                }
                in_band.observe(parsed_packets.len() as u32, picture.random_access, &head);
                picture
            } else {
                PictureInfo::default()
            };
            if first_start.is_none()
                && matches!(picture.random_access, RandomAccessPoint::Open | RandomAccessPoint::Closed)
            {
                first_start = Some((packet.pts.unwrap_or(0), picture.random_access));
            }
            parsed_packets.push(ParsedPacket { packet, picture, parsed: None });
        }
        // Without any exact start, the file must be scanned.
        Ok(first_start.map(|_| Self { parsed_packets, in_band }))
    }
}

/// Whether the first pictures of an H.264 stream include B pictures.
fn has_b_pictures(source: &Arc<dyn ByteSource>, info: &StreamInfo, packets: &[PacketInfo]) -> Result<bool> {
    const FIRST: usize = 16;
    let mut header_parser = HeaderParser::new(info.params.codec.kind, &info.params.extradata);
    let mut head = Vec::new();
    for packet in packets.iter().filter(|packet| packet.size > 0).take(FIRST) {
        if parse_prefix(source, &mut header_parser, packet, false, &mut head)?
            .is_some_and(|picture| picture.is_b_picture)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads as many bytes of a packet as are needed to classify it. Returns `None` if these are too many.
fn parse_prefix(
    source: &Arc<dyn ByteSource>,
    header_parser: &mut HeaderParser,
    packet: &PacketInfo,
    begins: bool,
    head: &mut Vec<u8>,
) -> Result<Option<PictureInfo>> {
    let size = packet.size as usize;
    // A packet that extends past the end of the file causes an error when its frame is requested, not here.
    let present = packet.offset.is_some_and(|o| o.saturating_add(u64::from(packet.size)) <= source.len());
    let of_units = matches!(header_parser.kind(), CodecKind::H264 | CodecKind::Hevc);
    let mut picture = PictureInfo::default();
    let lengths = [SHORT_PREFIX_BYTES, PREFIX_BYTES, LONG_PREFIX_BYTES];
    for &most in &lengths[usize::from(begins)..] {
        read_prefix(source, packet, most, head)?;
        picture = header_parser.parse(head, packet.key);
        picture.shown |= !present;
        // SEI messages and metadata may precede the picture.
        let is_late = match header_parser.kind() {
            CodecKind::Av1 => packet.key && picture.random_access == RandomAccessPoint::None,
            _ => !picture.shown,
        };
        if !is_late || size <= most {
            break;
        }
    }
    if of_units && !picture.shown && size > LONG_PREFIX_BYTES {
        return Ok(None);
    }
    // A VP9 superframe index is at the end of the packet; one of its frames is shown.
    picture.shown |= header_parser.kind() == CodecKind::Vp9 && head.len() < size;
    Ok(Some(picture))
}

/// Announces to the source the first bytes of the packets that are read next. `again`: the first half of them
/// was announced before and is skipped.
fn prefetch_prefixes(source: &Arc<dyn ByteSource>, packets: &[PacketInfo], every: bool, again: bool) {
    let skipped = if again { PREFETCHED_PACKETS / 2 } else { 0 };
    let looked_at =
        packets.iter().filter(|packet| every || packet.key).skip(skipped).take(PREFETCHED_PACKETS - skipped);
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

/// Returns the reorder depth: the largest number of pictures that precede a picture in decode order and
/// follow it in presentation order.
fn reorder_depth(packets: &[PacketRecord]) -> u8 {
    /// Maximum reorder depth of an H.264 decoder.
    const MAX: usize = 16;
    let pictures: Vec<i64> =
        packets.iter().filter(|p| p.is_frame() && !p.is_second_field()).map(|p| p.order).collect();
    let ahead = |(n, order): (usize, &i64)| {
        pictures[n.saturating_sub(2 * MAX)..n].iter().filter(|before| *before > order).count()
    };
    pictures.iter().enumerate().map(ahead).max().unwrap_or(0).min(MAX) as u8
}

fn build_index(
    source: &Arc<dyn ByteSource>,
    container: String,
    mut info: StreamInfo,
    parsed_packets: Vec<ParsedPacket>,
    direct: bool,
    in_band: InBandHeaders,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let count = parsed_packets.len();
    let FrameTable { packets, frames, end_pts, time_base } =
        build_frame_table(&info, &container, parsed_packets, || decoded_order(source, &info, interrupt))?;
    info.time_base = time_base;
    if frames.is_empty() {
        let reason = match count {
            0 => "its video stream contains no packets".to_owned(),
            n => format!(
                "none of its {n} {} packets can be decoded: it has no random access point",
                info.params.codec.name
            ),
        };
        return Err(Error::malformed(&site, reason));
    }
    // Durations are computed as differences of times, which must not overflow.
    let begin = frames.first().map_or(0, |frame| frame.pts);
    let last = frames.last().map_or(0, |frame| frame.pts);
    if end_pts < last || end_pts.checked_sub(begin).is_none() {
        let reason = format!("its frames last from {begin} to {end_pts} ticks, which overflows");
        return Err(Error::malformed(&site, reason));
    }
    if !declares_reorder_depth(&info.params) {
        info.params.reorder = Some(reorder_depth(&packets));
    }
    let sync_points = (0..packets.len() as u32).filter(|&n| packets[n as usize].is_sync()).collect();
    let changes_parameters = in_band.sets.is_some_and(|s| s.changed());
    let in_band_headers = in_band.headers;
    Ok(VideoIndex {
        site,
        container,
        info,
        streams: Vec::new(), // filled in by the callers
        packets,
        frames,
        end_pts,
        direct,
        sync_points,
        in_band_headers,
        changes_parameters,
        damaged_units: 0,
    })
}
