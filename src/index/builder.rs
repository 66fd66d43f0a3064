//! Builds the index of a source: from the sample tables of ordinary MP4/MOV files, otherwise from a
//! scan of all packets. A video without frames is an error that describes what was found instead.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::frame_order::{
    FrameTable, ParsedPacket, build_frame_table, pts_define_order, pts_follow_decode_order,
};
use super::in_band_headers::{InBandHeaders, with_extradata};
use super::packet_prefixes::{PacketPrefixes, has_b_pictures};
use super::{PacketRecord, VideoIndex};
use crate::codecs::header_parser::HeaderParser;
use crate::codecs::parameter_sets::ParameterSetTracker;
use crate::codecs::picture_info::{FieldInfo, PictureInfo, RandomAccessPoint};
use crate::codecs::{self, OrderRule, Reordering};
use crate::containers;
use crate::demux::{Track, libavformat, mp4};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::decoder::is_intra_only;
use crate::ffmpeg::{Decoder, Demuxer, Frame, Packet, ParsedPicture, Parser, Received, log};
use crate::image::is_image_file;
use crate::limits::{Limits, check_allocatable, reserve};
use crate::media::{CodecParams, StreamInfo};
use crate::source::{ByteSource, check_interrupt};
use crate::units::DecodeIndex;

/// Packets larger than this are parsed only if enough memory is available.
const LARGE_PACKET_BYTES: usize = 1 << 20;

/// Builds the index of a file's default video stream: [`build_stream`] without a requested stream.
pub fn build(source: &Arc<dyn ByteSource>, limits: &Limits) -> Result<VideoIndex> {
    build_stream(source, None, limits)
}

/// Builds the index of the video stream with index `stream` among all streams of the file, or of
/// the one that libavformat considers the best. The caller of this thread can interrupt it at every
/// packet read.
pub fn build_stream(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
) -> Result<VideoIndex> {
    let limits = &limits.for_file_len(source.len());
    if is_image_file(&**source, limits)? {
        // libavformat would search a JPEG file for further images, such as its own thumbnail.
        let index = super::image::index_file(&**source, limits)?;
        index.check_stream(stream)?;
        return Ok(index);
    }
    if let Some(mut track) = mp4::read_track(source, stream, limits)? {
        let streams = std::mem::take(&mut track.streams);
        if let Some(index) = build_from_sample_tables(source, track)? {
            return Ok(VideoIndex { streams, ..index });
        }
    }
    build_from_scan(source, stream, limits)
}

/// Builds the index of a video in one pass over all its packets, for any container. It also serves
/// as the reference that the index from sample tables is tested against.
pub fn build_from_scan(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let mut parsed_headers: Vec<(PictureInfo, Option<ParsedPicture>)> = Vec::new();
    let mut parsers: Option<(HeaderParser, Option<Parser>)> = None;
    let mut keyframe_validator: Option<KeyframeValidator> = None;
    let mut in_band = InBandHeaders::default();
    let mut stateful = false;
    let mut has_end = true;
    let mut padded = Vec::new();
    let (mut payload_bytes, max_payload_bytes) = (0, Limits::max_payload_of(source.len()));
    let track = libavformat::read_packets(source, stream, limits, |info, packet| {
        check_interrupt()?;
        payload_bytes += packet.data().len() as u64;
        Limits::check(
            &site,
            "size of all packets",
            payload_bytes,
            max_payload_bytes,
        )?;
        if packet.data().len() > LARGE_PACKET_BYTES {
            // Parsing it allocates lists of its units, each of which takes at least three bytes.
            check_allocatable::<[u8; 8]>(&site, packet.data().len())?;
        }
        let (header_parser, parser) = match &mut parsers {
            Some(parsers) => parsers,
            None => {
                let header_parser = HeaderParser::new(&info.params);
                in_band = InBandHeaders::new(&header_parser, &info.params, packet.data());
                parsers.insert((header_parser, open_parser(&site, &info.params)?))
            }
        };
        let at = parsed_headers.len() as u32;
        if let Some(extradata) = packet.new_extradata() {
            let size = extradata.len() as u64;
            Limits::check(
                &site,
                "codec configuration size",
                size,
                limits.extradata_bytes,
            )?;
            if let Some(params) =
                in_band.change_extradata(at, &info.params, extradata, header_parser, packet.data())
            {
                *parser = open_parser(&site, &params)?;
                keyframe_validator = None;
            }
        }
        let mut picture = header_parser.parse(packet.data(), packet.is_key());
        // A codec without state between pictures can start at any packet, even one without a key
        // flag.
        let codec = codecs::of(&info.params.codec);
        if picture.shown && codec.packets_are_independent(&info.params) {
            picture.random_access = RandomAccessPoint::Open;
        }
        if in_band.is_header(packet.data()) {
            picture = PictureInfo {
                shown: false,
                ..PictureInfo::default()
            };
        }
        // A palette or changed parameters in a packet's side data apply to all later packets.
        stateful |= packet.has_decoder_side_data();
        if stateful && !parsed_headers.is_empty() {
            picture.random_access = RandomAccessPoint::None;
        }
        if in_band.observe(at, picture.random_access, packet.data()) {
            keyframe_validator = None;
        }
        let unread = !codec.parses_random_access_points() && !is_intra_only(&info.params);
        // Key flags of later packets may be wrong, and that of the first packet may be missing.
        let is_marked = picture.random_access != RandomAccessPoint::None;
        if unread && is_marked != parsed_headers.is_empty() {
            let validator = match &mut keyframe_validator {
                Some(validator) => validator,
                None => keyframe_validator.insert(KeyframeValidator::new(
                    &site,
                    &in_band.params(&info.params),
                )?),
            };
            match validator.is_intra(packet) {
                true if !is_marked => picture.random_access = RandomAccessPoint::Open,
                false => picture.random_access = RandomAccessPoint::None,
                true => {}
            }
        }
        if parser.is_some() {
            padded.clear();
            reserve(&site, &mut padded, packet.data().len() + 64)?;
            padded.extend_from_slice(packet.data());
            padded.resize(packet.data().len() + 64, 0);
        }
        let parsed = parser
            .as_mut()
            .map(|parser| parser.parse(&padded, packet.data().len()));
        if let Some(parsed) =
            parsed.filter(|parsed| parsed.is_field && codec.parser_reports_fields())
        {
            picture.has_fields = true;
            picture.field = Some(FieldInfo {
                is_bottom: parsed.is_bottom,
                frame_number: 0,
            });
        }
        has_end = codec.has_end(packet.data());
        parsed_headers.push((picture, parsed));
        Ok(())
    })?;
    let Track {
        container,
        info,
        streams,
        packets,
        damaged_units,
    } = track;
    in_band.check(&site, &info)?;
    // In containers, some encoders omit the end of every picture.
    let is_raw = containers::by_name(&container).is_raw();
    if let Some((last, _)) = parsed_headers.last_mut().filter(|_| is_raw && !has_end) {
        last.is_damaged = true;
    }
    let direct = packets.iter().all(|p| p.offset.is_some());
    let parsed_packets = packets
        .into_iter()
        .zip(parsed_headers)
        .map(|(packet, (picture, parsed))| ParsedPacket {
            packet,
            picture,
            parsed,
        })
        .collect();
    let index = build_index(source, container, info, parsed_packets, direct, in_band)?;
    let damaged_units = damaged_units.saturating_add(index.damaged_units);
    // A decoder keeps palettes and tables of the part that it decoded last.
    let changes_parameters = index.changes_parameters || stateful;
    Ok(VideoIndex {
        damaged_units,
        streams,
        changes_parameters,
        ..index
    })
}

/// Returns decode indices in the order in which a decoder outputs their pictures, by decoding the
/// whole video once. Used for the few streams that have neither timestamps nor headers parsed here
/// that give the order (raw H.264 with order count resets, VC-1 without a sequence header).
fn decoded_order(source: &Arc<dyn ByteSource>, info: &StreamInfo) -> Result<Vec<DecodeIndex>> {
    let mut demuxer = Demuxer::open(source.clone(), true, Some(info.stream))?;
    let mut decoder = Decoder::open(&Site::file(source.name()), &info.params, 1)?;
    let (mut packet, mut frame) = (Packet::new(), Frame::new());
    let mut order = Vec::new();
    let mut more = true;
    for at in 0.. {
        check_interrupt()?;
        more = more && demuxer.next_packet(&mut packet)?;
        if more {
            packet.set_packet_index(DecodeIndex(at));
            // A damaged packet outputs nothing and causes an error when its frame is requested. An
            // empty packet would signal the end of the stream.
            if !packet.data().is_empty() && decoder.send(&packet).is_err() {
                order.push(DecodeIndex(at)); // it stays a frame
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

/// Checks keyframes of codecs whose headers are not parsed here: some muxers mark predicted
/// pictures as keyframes (H.263).
struct KeyframeValidator {
    /// `None` if no decoder supports the codec; then no frame can be decoded incorrectly either.
    decoder: Option<Decoder>,
    frame: Frame,
}

impl KeyframeValidator {
    fn new(site: &Site, params: &CodecParams) -> Result<Self> {
        let decoder = match Decoder::open(site, params, 1) {
            Ok(decoder) => Some(decoder),
            Err(Error::Unsupported { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            decoder,
            frame: Frame::new(),
        })
    }

    /// Whether a packet by itself decodes to an intra picture without a decoder error.
    fn is_intra(&mut self, packet: &Packet) -> bool {
        let Some(decoder) = &mut self.decoder else {
            return true;
        };
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

/// Opens a parser, which is needed only for what timestamps do not give: fields, and the order if
/// timestamps are missing.
fn open_parser(site: &Site, params: &CodecParams) -> Result<Option<Parser>> {
    match codecs::of(&params.codec).is_parsed_by_libavcodec() {
        true => Parser::open(site, params),
        false => Ok(None),
    }
}

/// Builds the index of an MP4/MOV file from its sample tables and the first bytes of some packets.
/// Returns `None` if the file must be scanned instead.
fn build_from_sample_tables(
    source: &Arc<dyn ByteSource>,
    track: Track,
) -> Result<Option<VideoIndex>> {
    let Track {
        container,
        info,
        packets,
        ..
    } = track;
    let codec = codecs::of(&info.params.codec);
    // Sample tables do not show packets without a picture. For most codecs only keyframes matter,
    // unless parameter sets occur in band: a set that changes after a keyframe is in force at the
    // next one.
    let in_band = codecs::by_sample_entry(info.params.tag.to_le_bytes())
        .is_some_and(|(_, entry)| entry.has_in_band_sets);
    let every = in_band || codec.needs_every_packet();
    let mut prefixes = PacketPrefixes::read(source, &info, &packets, every)?;
    let have_sets = |prefixes: &PacketPrefixes| {
        prefixes
            .in_band
            .sets
            .as_ref()
            .is_some_and(ParameterSetTracker::has_in_band)
    };
    if !every && prefixes.as_ref().is_some_and(have_sets) {
        prefixes = PacketPrefixes::read(source, &info, &packets, true)?;
    }
    let Some(PacketPrefixes {
        parsed_packets,
        in_band,
    }) = prefixes
    else {
        return Ok(None);
    };
    // A new sequence parameter set may introduce fields, each in a sample of its own.
    let changes = in_band
        .sets
        .as_ref()
        .is_some_and(ParameterSetTracker::is_changing);
    // If timestamps do not give the presentation order, every picture's header must be parsed.
    let orders = codec.order_rule(&info.params.extradata) != OrderRule::PictureOrderCounts
        || pts_define_order(codec, &parsed_packets);
    // Packets that are not empty but show nothing indicate a packed bitstream, where other packets
    // hold several pictures. The first bytes of a packet do not show these.
    let packed = codec.packs_pictures()
        && parsed_packets
            .iter()
            .any(|k| !k.picture.shown && k.packet.size > 0);
    if changes || packed || !orders || !in_band.is_complete() {
        return Ok(None);
    }
    // Timestamps may follow decode order although pictures are reordered, as in an AVI remuxed to
    // MP4.
    if pts_follow_decode_order(&parsed_packets)
        && match codec.reordering(&info.params.extradata) {
            Reordering::ByPictureType => has_b_pictures(source, &info, &packets)?,
            Reordering::Possible => true,
            Reordering::AsTimestamps => false,
        }
    {
        return Ok(None);
    }
    drop(packets); // large; freed before the tables are allocated
    build_index(source, container, info, parsed_packets, true, in_band).map(Some)
}

/// Returns the reorder depth: the largest number of pictures that precede a picture in decode order
/// and follow it in presentation order.
fn reorder_depth(packets: &[PacketRecord]) -> u8 {
    /// Maximum reorder depth of an H.264 decoder.
    const MAX: usize = 16;
    let pictures: Vec<i64> = packets
        .iter()
        .filter(|p| p.is_frame() && !p.is_second_field())
        .map(|p| p.order)
        .collect();
    let ahead = |(n, order): (usize, &i64)| {
        pictures[n.saturating_sub(2 * MAX)..n]
            .iter()
            .filter(|before| *before > order)
            .count()
    };
    pictures
        .iter()
        .enumerate()
        .map(ahead)
        .max()
        .unwrap_or(0)
        .min(MAX) as u8
}

fn build_index(
    source: &Arc<dyn ByteSource>,
    container: String,
    mut info: StreamInfo,
    parsed_packets: Vec<ParsedPacket>,
    direct: bool,
    in_band: InBandHeaders,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let count = parsed_packets.len();
    let is_hidden = parsed_packets.iter().all(|k| k.packet.discard);
    let FrameTable {
        packets,
        frames,
        end_pts,
        time_base,
        damaged,
    } = build_frame_table(&info, &container, parsed_packets, || {
        decoded_order(source, &info)
    })?;
    info.time_base = time_base;
    if frames.is_empty() {
        let reason = match count {
            0 => "its video stream contains no packets".to_owned(),
            n if is_hidden => format!("its edit list hides all of its {n} packets"),
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
    let mut params = std::iter::once(Cow::Borrowed(&info.params)).chain(
        in_band
            .new_extradata
            .iter()
            .map(|change| with_extradata(&info.params, Some(change))),
    );
    let codec = codecs::of(&info.params.codec);
    if !params.all(|params| codec.declares_reorder_depth(&params.extradata)) {
        info.params.reorder = Some(reorder_depth(&packets));
    }
    let sync_points = (0..packets.len() as u32)
        .filter(|&n| packets[n as usize].is_sync())
        .collect();
    info.sample_aspect = info.sample_aspect.or(in_band.sample_aspect);
    let changes_parameters = in_band.are_changing();
    let InBandHeaders {
        headers: in_band_headers,
        new_extradata,
        alternative_transfer,
        ..
    } = in_band;
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
        new_extradata,
        alternative_transfer,
        changes_parameters,
        first_field: OnceLock::new(),
        cpu_only: OnceLock::new(),
        damaged_units: u32::try_from(damaged).unwrap_or(u32::MAX),
    })
}
