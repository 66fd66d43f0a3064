//! In: a byte source.
//! Out: its index, from sample tables where the container has usual ones, else from one pass.
//! Never: an index without frames: that is an error which says what was found instead.

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

/// Bytes read of a packet to see its first slice; more is read in the rare case that this is not enough.
const HEAD: usize = 1024;
const LONG_HEAD: usize = 1 << 16;
/// Bytes read of a packet that is no key packet: its first slice comes first, as a rule.
const SHORT_HEAD: usize = 64;
/// Packets beyond this are looked at only where there is memory for that.
const LARGE: usize = 1 << 20;
/// Packets whose heads a source is told of together.
const ANNOUNCED: usize = 128;

/// Builds the index of a file's default video stream: [`build_stream`] without a wish.
pub fn build(
    source: &Arc<dyn ByteSource>,
    limits: &Limits,
    watch: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    build_stream(source, None, limits, watch)
}

/// Builds the index of the video stream with index `stream` among all streams of the file, or of the one that libavformat takes
/// for the best. `watch` is called for every packet that is read; an error from it stops the work.
pub fn build_stream(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    watch: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let limits = &limits.within(source.len());
    if let Some(mut track) = mp4::read(source, stream, limits)? {
        let streams = std::mem::take(&mut track.streams);
        if let Some(index) = from_tables(source, track, watch)? {
            return Ok(VideoIndex { streams, ..index });
        }
    }
    from_scan(source, stream, limits, watch)
}

/// The index of a video by one pass over all its packets, whatever the container: the twin that sample tables are
/// held against.
pub fn from_scan(
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    limits: &Limits,
    watch: &dyn Fn() -> Result<()>,
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
        watch()?;
        if packet.data().len() > LARGE {
            // Looking at it makes lists of its units, which are at least three bytes long.
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
        // A codec that keeps nothing from picture to picture: a key flag that is missing says nothing.
        if look.shown && stands_alone(&info.params) {
            look.start = Start::Open;
        }
        // A palette or new configuration beside a packet stays in force for all packets after it.
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
    let index = finish(source, container, info, known, direct, carried, watch)?;
    Ok(VideoIndex { damaged_units, streams, ..index })
}

/// What packets leave behind for decoders that start later in the stream.
#[derive(Default)]
struct Carried {
    sets: Option<ParameterSets>,
    /// The encoder's note of the first packet.
    note: Vec<u8>,
    preambles: Vec<(u32, Vec<u8>)>,
}

impl Carried {
    fn begin(looker: &Looker, info: &StreamInfo, first: &[u8]) -> Self {
        let sets = ParameterSets::new(info.params.codec.kind, &info.params.extradata);
        Self { sets, note: looker.preamble(first), preambles: Vec::new() }
    }

    /// Takes note of packet `at`, or of as much of it as was read.
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

    /// Whether all that was passed can be decoded as far as parameter sets go.
    fn suffices(&self) -> bool {
        self.sets.as_ref().is_none_or(ParameterSets::suffice)
    }

    /// # Errors
    /// `Malformed` for a stream that lacks what no decoder can do without, wherever it should be.
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

/// Decode indices in the order in which a decoder shows their pictures, by decoding the whole video once. For the
/// few streams that neither have timestamps nor tell their order in headers that are read here (VC-1 in ASF, raw
/// H.264 with order resets).
fn decoded_order(
    source: &Arc<dyn ByteSource>,
    info: &StreamInfo,
    watch: &dyn Fn() -> Result<()>,
) -> Result<Vec<DecodeIndex>> {
    let mut demuxer = Demuxer::open(source.clone(), true, Some(info.stream))?;
    let mut decoder = Decoder::open(&Site::file(source.name()), &info.params, 1)?;
    let (mut packet, mut frame) = (Packet::new(), Frame::new());
    let mut order = Vec::new();
    let mut more = true;
    for at in 0.. {
        watch()?;
        more = more && demuxer.next_packet(&mut packet)?;
        if more {
            packet.set_tie(DecodeIndex(at));
            // A damaged packet shows nothing here and is an error when its frame is asked for; an empty one would be the end.
            if !packet.data().is_empty() {
                let _ = decoder.send(&packet);
            }
        } else {
            decoder.drain();
        }
        while let Ok(Received::Frame) = decoder.receive(&mut frame) {
            order.extend(frame.tie(false));
        }
        if !more {
            break;
        }
    }
    Ok(order)
}

/// Tries key packets of codecs whose headers are not read here: some muxers mark predicted pictures as key (H.263).
struct KeyCheck {
    /// `None` where the codec cannot be decoded at all; then nothing can be decoded wrongly either.
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

    /// Whether a packet decodes to an intra picture, without a complaint, by itself.
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

/// Parsers are consulted only for what timestamps cannot tell: fields, and order where timestamps are missing.
fn open_parser(site: &Site, info: &StreamInfo) -> Result<Option<Parser>> {
    match info.params.codec.kind {
        CodecKind::H264 | CodecKind::Hevc => Parser::open(site, &info.params),
        _ => Ok(None),
    }
}

/// The index of an MP4/MOV from its sample tables and the first bytes of some packets. `None`: scan it instead.
fn from_tables(
    source: &Arc<dyn ByteSource>,
    track: Track,
    watch: &dyn Fn() -> Result<()>,
) -> Result<Option<VideoIndex>> {
    let Track { container, info, packets, .. } = track;
    let kind = info.params.codec.kind;
    // VP8 has hidden frames and MPEG-4 empty ones, which tables do not tell. Of the others only what begins a group matters, unless
    // parameter sets come between packets: one that changes behind a key packet is in force at the next.
    let in_band = [*b"avc3", *b"hev1"].map(u32::from_le_bytes).contains(&info.params.tag);
    let every = in_band || matches!(kind, CodecKind::Vp8 | CodecKind::Mpeg4);
    let mut heads = Heads::read(source, &info, &packets, every, watch)?;
    let have_sets = |heads: &Heads| heads.carried.sets.as_ref().is_some_and(ParameterSets::are_in_band);
    if !every && heads.as_ref().is_some_and(have_sets) {
        heads = Heads::read(source, &info, &packets, true, watch)?;
    }
    let Some(Heads { known, carried }) = heads else { return Ok(None) };
    // Another sequence may consist of fields, each in a sample of its own.
    let changes = carried.sets.as_ref().is_some_and(ParameterSets::changed);
    // Where times do not tell the order, each picture's header must.
    let orders = !matches!(kind, CodecKind::H264 | CodecKind::Hevc) || times_tell_order(&known);
    // Packets that show nothing in between are the signs of pictures that are packed with others, which a head does not show.
    let packed = kind == CodecKind::Mpeg4 && known.iter().any(|k| !k.look.shown && k.fact.size > 0);
    if changes || packed || !orders || !carried.suffices() {
        return Ok(None);
    }
    // Times that follow the packets where pictures do not, as in an AVI copied to an MP4.
    if kind == CodecKind::H264 && follows_packets(&known) && has_b_pictures(source, &info, &packets)? {
        return Ok(None);
    }
    drop(packets); // there may be many, and the tables come beside them
    finish(source, container, info, known, true, carried, watch).map(Some)
}

/// What the heads of an MP4/MOV's packets say.
struct Heads {
    known: Vec<Known>,
    carried: Carried,
}

impl Heads {
    /// Reads the heads of key packets, and those up to the first start: tables may mark packets as key that are not, and leave others
    /// out. Or the heads of `every` packet. `None` where heads do not tell enough.
    fn read(
        source: &Arc<dyn ByteSource>,
        info: &StreamInfo,
        packets: &[PacketFact],
        every: bool,
        watch: &dyn Fn() -> Result<()>,
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
            // Payload is looked at where a key flag could lie, and where the first start's leading pictures may be lost.
            let leads =
                matches!((first_start, fact.pts), (Some((order, Start::Open)), Some(pts)) if pts < order);
            let wanted = every || fact.key || first_start.is_none() || (leads && kind == CodecKind::Hevc);
            let look = if fact.size == 0 {
                looker.look(&[], fact.key)
            } else if wanted {
                watch()?;
                let begins = fact.key || first_start.is_none();
                let Some(look) = look_at(source, &mut looker, &fact, begins, &mut head)? else {
                    return Ok(None); // what it shows lies behind a long preface: all of it must be read
                };
                if !std::mem::replace(&mut begun, true) {
                    if kind == CodecKind::H264 && !declares_frames_only(&info.params.extradata, &head) {
                        return Ok(None); // a sample may be one field of two: only its own header says so
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
        // Without an exact start at the head of the table, packets before the first one matter: see them all.
        Ok(first_start.map(|_| Self { known, carried }))
    }
}

/// Whether there are B pictures among the first of an H.264 stream.
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

/// Reads as much of a packet as tells what it is. `None` where that is too much.
fn look_at(
    source: &Arc<dyn ByteSource>,
    looker: &mut Looker,
    fact: &PacketFact,
    begins: bool,
    head: &mut Vec<u8>,
) -> Result<Option<Look>> {
    let size = fact.size as usize;
    // A packet that the file is too short to hold is an error when its frame is asked for, not here.
    let present = fact.offset.is_some_and(|o| o.saturating_add(u64::from(fact.size)) <= source.len());
    let of_units = matches!(looker.kind(), CodecKind::H264 | CodecKind::Hevc);
    let mut look = Look::default();
    let lengths = [SHORT_HEAD, HEAD, LONG_HEAD];
    for &most in &lengths[usize::from(begins)..] {
        read_head(source, fact, most, head)?;
        look = looker.look(head, fact.key);
        look.shown |= !present;
        // Messages and metadata may come before the picture.
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
    // The frames of a VP9 packet are listed at its end; one of them is shown.
    look.shown |= looker.kind() == CodecKind::Vp9 && head.len() < size;
    Ok(Some(look))
}

/// Tells the source of the heads of the next packets that are looked at. `again`: half of them were told of before, and are left out.
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

/// How many pictures come before one that is shown before them, at most.
fn reorder(packets: &[PacketRecord]) -> u8 {
    /// What an H.264 decoder holds at most.
    const MOST: usize = 16;
    let pictures: Vec<i64> =
        packets.iter().filter(|p| p.is_frame() && !p.is_part()).map(|p| p.order).collect();
    let ahead = |(n, order): (usize, &i64)| {
        pictures[n.saturating_sub(2 * MOST)..n].iter().filter(|before| *before > order).count()
    };
    pictures.iter().enumerate().map(ahead).max().unwrap_or(0).min(MOST) as u8
}

fn finish(
    source: &Arc<dyn ByteSource>,
    container: String,
    mut info: StreamInfo,
    known: Vec<Known>,
    direct: bool,
    carried: Carried,
    watch: &dyn Fn() -> Result<()>,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let count = known.len();
    let Table { packets, frames, end_pts, time_base } =
        tabulate(&info, &container, known, || decoded_order(source, &info, watch))?;
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
    // Durations are differences of times, whoever takes them.
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
        streams: Vec::new(), // filled in by callers, who have them
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
