//! Builds the index of a source: from the sample tables of ordinary MP4/MOV files, otherwise from a scan of
//! all packets.
//! A video without frames is an error that describes what was found instead.

use std::sync::Arc;

use super::frames::{follows_packets, tabulate, times_tell_order, Known, Table};
use super::look::{Look, Looker, Start};
use super::params::ParameterSets;
use super::roles::{declares_frames_only, declares_order, stands_alone, JpegTables};
use super::{PacketRecord, VideoIndex};
use crate::demux::{mp4, scan, PacketFact, Track};
use crate::error::{Error, Result, Site};
use crate::ffmpeg::decoder::is_intra_only;
use crate::ffmpeg::{log, Decoder, Demuxer, Frame, Packet, Parsed, Parser, Received};
use crate::limits::{check_room, reserve, Limits};
use crate::media::{CodecKind, StreamInfo};
use crate::source::ByteSource;
use crate::units::DecodeIndex;

/// Bytes read of a packet to find its first slice; more are read in the rare case that these do not suffice.
const HEAD: usize = 1024;
const LONG_HEAD: usize = 1 << 16;
/// Bytes read of a packet that is not a keyframe: its first slice usually comes first.
const SHORT_HEAD: usize = 64;
/// Packets larger than this are parsed only if enough memory is available.
const LARGE: usize = 1 << 20;
/// Packets whose first bytes are announced to a source together.
const ANNOUNCED: usize = 128;

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
    let limits = &limits.within(source.len());
    if let Some(mut track) = mp4::read(source, stream, limits)? {
        let streams = std::mem::take(&mut track.streams);
        if let Some(index) = from_tables(source, track, interrupt)? {
            return Ok(VideoIndex { streams, ..index });
        }
    }
    from_scan(source, stream, limits, interrupt)
}

/// Builds the index of a video in one pass over all its packets, whatever the container. It also serves as
/// the reference that the index from sample tables is tested against.
pub fn from_scan(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let mut looks: Vec<(Look, Option<Parsed>)> = Vec::new();
    let mut readers: Option<(Looker, Option<Parser>)> = None;
    let mut key_check: Option<KeyCheck> = None;
    let mut carried = Carried::default();
    let mut stateful = false;
    let mut jpeg = JpegTables::default();
    let mut padded = Vec::new();
    let track = scan::scan(source, stream, limits, |info, packet| {
        interrupt()?;
        if packet.data().len() > LARGE {
            // Parsing it allocates lists of its units, each of which takes at least three bytes.
            check_room::<[u8; 8]>(&site, packet.data().len())?;
        }
        let (looker, parser) = match &mut readers {
            Some(readers) => readers,
            None => {
                let looker = Looker::new(info.params.codec.kind, &info.params.extradata);
                carried = Carried::begin(&looker, info, packet.data());
                readers.insert((looker, open_parser(&site, info)?))
            }
        };
        let mut look = looker.look(packet.data(), packet.is_key());
        // A codec without state between pictures can start at any packet, even one without a key flag.
        if look.shown && stands_alone(&info.params) {
            look.start = Start::Open;
        }
        // A palette or new configuration in a packet's side data applies to all later packets.
        stateful |= packet.has_decoder_side_data();
        let borrows = info.params.codec.name == "mjpeg" && !jpeg.stand_alone(packet.data());
        if (stateful || borrows) && !looks.is_empty() {
            look.start = Start::No;
        }
        carried.pass(looks.len() as u32, look.start, packet.data());
        let unread = info.params.codec.kind == CodecKind::Other && !is_intra_only(&info.params);
        if unread && look.start != Start::No && !looks.is_empty() {
            let check = match &mut key_check {
                Some(check) => check,
                None => key_check.insert(KeyCheck::new(&site, info)?),
            };
            if !check.stands_alone(packet) {
                look.start = Start::No;
            }
        }
        if parser.is_some() {
            padded.clear();
            reserve(&site, &mut padded, packet.data().len() + 64)?;
            padded.extend_from_slice(packet.data());
            padded.resize(packet.data().len() + 64, 0);
        }
        let parsed = parser.as_mut().map(|parser| parser.parse(&padded, packet.data().len()));
        looks.push((look, parsed));
        Ok(())
    })?;
    let Track { container, info, streams, packets, damaged_units } = track;
    carried.check(&site, &info)?;
    let direct = packets.iter().all(|p| p.offset.is_some());
    let known =
        packets.into_iter().zip(looks).map(|(fact, (look, parsed))| Known { fact, look, parsed }).collect();
    let index = finish(source, container, info, known, direct, carried, interrupt)?;
    Ok(VideoIndex { damaged_units, streams, ..index })
}

/// Data from earlier packets that a decoder starting later in the stream needs.
#[derive(Default)]
struct Carried {
    sets: Option<ParameterSets>,
    /// The x264 user data SEI message of the first packet.
    note: Vec<u8>,
    preambles: Vec<(u32, Vec<u8>)>,
}

impl Carried {
    fn begin(looker: &Looker, info: &StreamInfo, first: &[u8]) -> Self {
        let sets = ParameterSets::new(info.params.codec.kind, &info.params.extradata);
        Self { sets, note: looker.preamble(first), preambles: Vec::new() }
    }

    /// Records packet `at`, of which `data` may be only the first bytes.
    fn pass(&mut self, at: u32, start: Start, data: &[u8]) {
        if at > 0 && start != Start::No {
            let sets = self.sets.as_ref().map_or_else(Vec::new, ParameterSets::missing);
            let preamble = [&sets[..], &self.note].concat();
            if self.preambles.last().map_or(!preamble.is_empty(), |last| last.1 != preamble) {
                self.preambles.push((at, preamble));
            }
        }
        if let Some(sets) = &mut self.sets {
            sets.observe(data);
        }
    }

    /// Whether the parameter sets seen so far include every kind that a slice requires.
    fn suffices(&self) -> bool {
        self.sets.as_ref().is_none_or(ParameterSets::suffice)
    }

    /// # Errors
    /// `Malformed` if neither the container nor any packet holds the headers without which no picture can be
    /// decoded.
    fn check(&self, site: &Site, info: &StreamInfo) -> Result<()> {
        let unsized_ = info.params.width == 0 || info.params.height == 0;
        let lacks = match info.params.codec.kind {
            CodecKind::H264 | CodecKind::Hevc if !self.suffices() => "parameter sets (SPS and PPS)",
            CodecKind::Mpeg12 if unsized_ => "sequence header",
            CodecKind::Mpeg4 if unsized_ => "video object layer header",
            _ => return Ok(()),
        };
        let reason = format!(
            "its {} stream has no {lacks}, neither in the container nor in a packet, without which no picture can be \
             decoded; make the file again from its source, with its beginning",
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
struct KeyCheck {
    /// `None` if no decoder supports the codec; then no frame can be decoded incorrectly either.
    decoder: Option<Decoder>,
    frame: Frame,
}

impl KeyCheck {
    fn new(site: &Site, info: &StreamInfo) -> Result<Self> {
        let decoder = match Decoder::open(site, &info.params, 1) {
            Ok(decoder) => Some(decoder),
            Err(Error::Unsupported { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { decoder, frame: Frame::new() })
    }

    /// Whether a packet by itself decodes to an intra picture without a decoder error.
    fn stands_alone(&mut self, packet: &Packet) -> bool {
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
fn from_tables(
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
    let mut heads = Heads::read(source, &info, &packets, every, interrupt)?;
    let have_sets = |heads: &Heads| heads.carried.sets.as_ref().is_some_and(ParameterSets::are_in_band);
    if !every && heads.as_ref().is_some_and(have_sets) {
        heads = Heads::read(source, &info, &packets, true, interrupt)?;
    }
    let Some(Heads { known, carried }) = heads else { return Ok(None) };
    // A new sequence parameter set may introduce fields, each in a sample of its own.
    let changes = carried.sets.as_ref().is_some_and(ParameterSets::changed);
    // If timestamps do not give the presentation order, every picture's header must be parsed.
    let orders = !matches!(kind, CodecKind::H264 | CodecKind::Hevc) || times_tell_order(&known);
    // Packets that are not empty but show nothing indicate a packed bitstream, where other packets hold
    // several pictures. The first bytes of a packet do not show these.
    let packed = kind == CodecKind::Mpeg4 && known.iter().any(|k| !k.look.shown && k.fact.size > 0);
    if changes || packed || !orders || !carried.suffices() {
        return Ok(None);
    }
    // Timestamps may follow decode order although pictures are reordered, as in an AVI remuxed to MP4.
    if kind == CodecKind::H264 && follows_packets(&known) && has_b_pictures(source, &info, &packets)? {
        return Ok(None);
    }
    drop(packets); // large; freed before the tables are allocated
    finish(source, container, info, known, true, carried, interrupt).map(Some)
}

/// Results of parsing the first bytes of an MP4/MOV file's packets.
struct Heads {
    known: Vec<Known>,
    carried: Carried,
}

impl Heads {
    /// Reads the first bytes of keyframes, and of all packets up to the first start, because sample tables
    /// may mark packets as keyframes that are not, and omit others. With `every`, reads those of all packets.
    /// Returns `None` if the first bytes do not suffice.
    fn read(
        source: &Arc<dyn ByteSource>,
        info: &StreamInfo,
        packets: &[PacketFact],
        every: bool,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let kind = info.params.codec.kind;
        let mut looker = Looker::new(kind, &info.params.extradata);
        let mut head = Vec::new();
        let mut known: Vec<Known> = Vec::new();
        reserve(&Site::file(source.name()), &mut known, packets.len())?;
        let mut carried = Carried::default();
        let mut first_start: Option<(i64, Start)> = None;
        let (mut met, mut begun) = (0, false);
        for (at, fact) in packets.iter().copied().enumerate() {
            if every || fact.key {
                if met % (ANNOUNCED / 2) == 0 {
                    announce_heads(source, &packets[at..], every, met > 0);
                }
                met += 1;
            }
            // Reads the payload where the key flag may be wrong, and of leading pictures of the first start,
            // which may be undecodable.
            let leads =
                matches!((first_start, fact.pts), (Some((order, Start::Open)), Some(pts)) if pts < order);
            let wanted = every || fact.key || first_start.is_none() || (leads && kind == CodecKind::Hevc);
            let look = if fact.size == 0 {
                looker.look(&[], fact.key)
            } else if wanted {
                interrupt()?;
                let begins = fact.key || first_start.is_none();
                let Some(look) = look_at(source, &mut looker, &fact, begins, &mut head)? else {
                    return Ok(None); // the picture follows a long prefix: the whole packet must be read
                };
                if !std::mem::replace(&mut begun, true) {
                    if kind == CodecKind::H264 && !declares_frames_only(&info.params.extradata, &head) {
                        return Ok(None); // a sample may be one field, which only its slice header shows
                    }
                    carried = Carried::begin(&looker, info, &head);
                }
                carried.pass(known.len() as u32, look.start, &head);
                look
            } else {
                Look::default()
            };
            if first_start.is_none() && matches!(look.start, Start::Open | Start::Closed) {
                first_start = Some((fact.pts.unwrap_or(0), look.start));
            }
            known.push(Known { fact, look, parsed: None });
        }
        // Without any exact start, the file must be scanned.
        Ok(first_start.map(|_| Self { known, carried }))
    }
}

/// Whether the first pictures of an H.264 stream include B pictures.
fn has_b_pictures(source: &Arc<dyn ByteSource>, info: &StreamInfo, packets: &[PacketFact]) -> Result<bool> {
    const FIRST: usize = 16;
    let mut looker = Looker::new(info.params.codec.kind, &info.params.extradata);
    let mut head = Vec::new();
    for fact in packets.iter().filter(|fact| fact.size > 0).take(FIRST) {
        if look_at(source, &mut looker, fact, false, &mut head)?.is_some_and(|look| look.bidirectional) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads as many bytes of a packet as are needed to classify it. Returns `None` if these are too many.
fn look_at(
    source: &Arc<dyn ByteSource>,
    looker: &mut Looker,
    fact: &PacketFact,
    begins: bool,
    head: &mut Vec<u8>,
) -> Result<Option<Look>> {
    let size = fact.size as usize;
    // A packet that extends past the end of the file causes an error when its frame is requested, not here.
    let present = fact.offset.is_some_and(|o| o.saturating_add(u64::from(fact.size)) <= source.len());
    let of_units = matches!(looker.kind(), CodecKind::H264 | CodecKind::Hevc);
    let mut look = Look::default();
    let lengths = [SHORT_HEAD, HEAD, LONG_HEAD];
    for &most in &lengths[usize::from(begins)..] {
        read_head(source, fact, most, head)?;
        look = looker.look(head, fact.key);
        look.shown |= !present;
        // SEI messages and metadata may precede the picture.
        let is_late = match looker.kind() {
            CodecKind::Av1 => fact.key && look.start == Start::No,
            _ => !look.shown,
        };
        if !is_late || size <= most {
            break;
        }
    }
    if of_units && !look.shown && size > LONG_HEAD {
        return Ok(None);
    }
    // A VP9 superframe index is at the end of the packet; one of its frames is shown.
    look.shown |= looker.kind() == CodecKind::Vp9 && head.len() < size;
    Ok(Some(look))
}

/// Announces to the source the first bytes of the packets that are read next. `again`: the first half of them
/// was announced before and is skipped.
fn announce_heads(source: &Arc<dyn ByteSource>, packets: &[PacketFact], every: bool, again: bool) {
    let skipped = if again { ANNOUNCED / 2 } else { 0 };
    let looked_at = packets.iter().filter(|fact| every || fact.key).skip(skipped).take(ANNOUNCED - skipped);
    source.will_read(&mut looked_at.filter_map(|fact| {
        let start = fact.offset?;
        Some(start..start.saturating_add(u64::from(fact.size).min(HEAD as u64)))
    }));
}

fn read_head(source: &Arc<dyn ByteSource>, fact: &PacketFact, most: usize, head: &mut Vec<u8>) -> Result<()> {
    head.resize((fact.size as usize).min(most), 0);
    let got = source.read_at(fact.offset.unwrap_or(0), head)?;
    head.truncate(got);
    Ok(())
}

/// Returns the reorder depth: the largest number of pictures that precede a picture in decode order and
/// follow it in presentation order.
fn reorder(packets: &[PacketRecord]) -> u8 {
    /// Maximum reorder depth of an H.264 decoder.
    const MAX: usize = 16;
    let pictures: Vec<i64> =
        packets.iter().filter(|p| p.is_frame() && !p.is_part()).map(|p| p.order).collect();
    let ahead = |(n, order): (usize, &i64)| {
        pictures[n.saturating_sub(2 * MAX)..n].iter().filter(|before| *before > order).count()
    };
    pictures.iter().enumerate().map(ahead).max().unwrap_or(0).min(MAX) as u8
}

fn finish(
    source: &Arc<dyn ByteSource>,
    container: String,
    mut info: StreamInfo,
    known: Vec<Known>,
    direct: bool,
    carried: Carried,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let count = known.len();
    let Table { packets, frames, end_pts, time_base } =
        tabulate(&info, &container, known, || decoded_order(source, &info, interrupt))?;
    info.time_base = time_base;
    if frames.is_empty() {
        let reason = match count {
            0 => "its video stream holds no packets".to_owned(),
            n => format!(
                "none of its {n} {} packets can be shown: no packet to start decoding at",
                info.params.codec.name
            ),
        };
        return Err(Error::malformed(&site, reason));
    }
    // Durations are computed as differences of times, which must not overflow.
    let begin = frames.first().map_or(0, |frame| frame.pts);
    let last = frames.last().map_or(0, |frame| frame.pts);
    if end_pts < last || end_pts.checked_sub(begin).is_none() {
        let reason = format!("its frames are shown from {begin} to {end_pts} ticks, longer than can be said");
        return Err(Error::malformed(&site, reason));
    }
    if !declares_order(&info.params) {
        info.params.reorder = Some(reorder(&packets));
    }
    let starts = (0..packets.len() as u32).filter(|&n| packets[n as usize].is_start()).collect();
    let changes_parameters = carried.sets.is_some_and(|s| s.changed());
    let preambles = carried.preambles;
    Ok(VideoIndex {
        site,
        container,
        info,
        streams: Vec::new(), // filled in by the callers
        packets,
        frames,
        end_pts,
        direct,
        starts,
        preambles,
        changes_parameters,
        damaged_units: 0,
    })
}
