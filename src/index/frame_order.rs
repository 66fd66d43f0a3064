//! Derives the presentation order, the frames and their times from parsed packets in decode order.
//! Missing or contradictory timestamps do not remove frames.

use std::collections::HashSet;

use super::frame_times::{self, MAX_REORDER_DEPTH};
use super::{
    AFTER_GAP, CLOSED, CONTAINER_KEY, CORRUPT, FRAME, FrameRecord, NO_TIME, SECOND_FIELD,
    SHOWS_AGAIN, SYNC, UNPLACED,
};
use crate::codecs::codec::Codec;
use crate::codecs::picture_info::{FieldInfo, PictureInfo, RandomAccessPoint};
use crate::codecs::{self, OrderRule};
use crate::containers::{self, Container, DamageMark};
use crate::demux::PacketInfo;
use crate::error::Result;
use crate::ffmpeg::ParsedPicture;
use crate::ffmpeg::decoder::is_intra_only;
use crate::index::PacketRecord;
use crate::media::StreamInfo;
use crate::units::{DecodeIndex, TimeBase};

/// All information about one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedPacket {
    pub packet: PacketInfo,
    pub picture: PictureInfo,
    pub parsed: Option<ParsedPicture>,
}

pub(super) struct FrameTable {
    pub packets: Vec<PacketRecord>,
    pub frames: Vec<FrameRecord>,
    pub end_pts: i64,
    /// Unit of the frame times.
    pub time_base: TimeBase,
    /// Damaged pictures that the demuxer did not mark.
    pub damaged: usize,
}

/// Builds the tables of one video. `decoded_order` returns decode indices in a decoder's output
/// order; it is called only if neither headers nor timestamps give the order.
pub(super) fn build_frame_table(
    info: &StreamInfo,
    container: &str,
    mut parsed_packets: Vec<ParsedPacket>,
    decoded_order: impl FnOnce() -> Result<Vec<DecodeIndex>>,
) -> Result<FrameTable> {
    let container = containers::by_name(container);
    let codec = codecs::of(&info.params.codec);
    let rule = codec.order_rule(&info.params.extradata);
    if codec.hides_pictures() {
        hide_damaged_alternate_references(&mut parsed_packets);
    }
    let parts = second_fields(&parsed_packets);
    let lone = match codec.leaves_missing_fields_unwritten() {
        true => lone_fields(&parsed_packets, &parts),
        false => vec![false; parts.len()],
    };
    for (k, &part) in parsed_packets.iter_mut().zip(&parts) {
        k.picture.shown &= !part;
        if part {
            k.picture.random_access = RandomAccessPoint::None;
        }
    }
    let mut unplaced = vec![false; parsed_packets.len()];
    let mut order = match presentation_order(info, container, &parsed_packets) {
        Some(Order::ByPictureType) => {
            unplaced = unplaced_by_damage(&parsed_packets);
            by_picture_type(&parsed_packets)
        }
        Some(Order::Numbers(order)) => order,
        Some(Order::Counts(order)) => {
            unplaced = reordered_before_damage(&parsed_packets, &order);
            order
        }
        None => {
            let has_fields = parts.contains(&true);
            let order = order_by_decoder_output(has_fields, &mut parsed_packets, &decoded_order()?);
            unplaced = reordered_before_damage(&parsed_packets, &order);
            order
        }
    };
    if rule == OrderRule::PictureTypes {
        // Otherwise the second field of a random access point would seem to be a leading picture.
        for n in (1..parts.len()).filter(|&n| parts[n]) {
            order[n] = order[n - 1];
        }
    }
    let damaged = parsed_packets
        .iter()
        .filter(|k| k.picture.is_damaged && !k.packet.corrupt)
        .count();
    locate_damage(container, &mut parsed_packets);
    let starts = find_sync_points(codec, container, &parsed_packets, &order);
    let hidden = undecodable(rule, &parsed_packets, &order, &starts);
    let corrupt = incomplete(codec, container, &mut parsed_packets, &starts);
    let packets: Vec<PacketRecord> = (0..parsed_packets.len())
        .map(|n| {
            let k = &parsed_packets[n];
            let frame = k.picture.shown && !k.packet.discard && !hidden[n];
            let closed = starts[n] && k.picture.random_access == RandomAccessPoint::Closed;
            let flags = [
                (starts[n], SYNC),
                (k.packet.key, CONTAINER_KEY),
                (frame, FRAME),
                (parts[n], SECOND_FIELD),
                (corrupt[n] || k.picture.is_damaged || lone[n], CORRUPT),
                (k.picture.shows_again, SHOWS_AGAIN),
                (unplaced[n], UNPLACED),
                (k.packet.after_gap, AFTER_GAP),
                (closed, CLOSED),
            ];
            PacketRecord {
                offset: k.packet.offset.unwrap_or(0),
                order: order[n],
                dts: k.packet.dts.unwrap_or(NO_TIME),
                size: k.packet.size,
                flags: flags.iter().filter(|f| f.0).map(|f| f.1).sum(),
            }
        })
        .collect();
    let (frames, end_pts, parts) = frames(info, container, &parsed_packets, &packets);
    let time_base = info.time_base.divided(parts).unwrap_or(info.time_base);
    Ok(FrameTable {
        packets,
        frames,
        end_pts,
        time_base,
        damaged,
    })
}

/// Moves the demuxer's marks to the packets that are damaged.
fn locate_damage(container: &Container, parsed_packets: &mut [ParsedPacket]) {
    for n in 0..parsed_packets.len() {
        let packet = &mut parsed_packets[n].packet;
        match container.damage_mark {
            DamageMark::BeforePacket => packet.after_gap |= std::mem::take(&mut packet.corrupt),
            DamageMark::PacketAndAfter if packet.corrupt => {
                if let Some(next) = parsed_packets.get_mut(n + 1) {
                    next.packet.after_gap = true;
                }
            }
            DamageMark::Joined => packet.corrupt |= packet.after_gap,
            _ => {}
        }
    }
}

/// Packets of which a part is missing, according to the demuxer. Marks the starts before which
/// whole packets may be missing.
fn incomplete(
    codec: &dyn Codec,
    container: &Container,
    parsed_packets: &mut [ParsedPacket],
    starts: &[bool],
) -> Vec<bool> {
    let mut corrupt: Vec<bool> = parsed_packets.iter().map(|k| k.packet.corrupt).collect();
    if container.damage_mark != DamageMark::PacketOrNext {
        return corrupt;
    }
    // Both are marked.
    for n in (1..corrupt.len()).rev() {
        corrupt[n] |= corrupt[n - 1];
    }
    for (corrupt, k) in corrupt.iter_mut().zip(&*parsed_packets) {
        *corrupt |= k.packet.cut;
    }
    // The continuity counter also jumps where recordings are concatenated, without any loss. Marks
    // directly before a start are therefore cleared: only leading pictures of the start may depend
    // on those packets and on others that are missing, and some decoders detect a truncated picture.
    if codec.detects_truncated_pictures() {
        let marked = corrupt.clone();
        for n in (0..corrupt.len().saturating_sub(1)).rev() {
            let spared = marked[n + 1] && !corrupt[n + 1];
            parsed_packets[n + 1].packet.after_gap |= corrupt[n] && starts[n + 1];
            // Decoders do not detect that the end of a slice is missing from a field picture, nor
            // all damage within a picture.
            let is_certain = parsed_packets[n].picture.has_fields || parsed_packets[n].packet.cut;
            corrupt[n] &= is_certain || !(starts[n + 1] || spared);
        }
    }
    corrupt
}

/// The output order of a decoder; packets for which it output nothing are marked as not shown, unless
/// they are damaged. In a stream with fields in packets of their own, they are: libavcodec does not
/// output a field without the other one.
fn order_by_decoder_output(
    has_fields: bool,
    parsed_packets: &mut [ParsedPacket],
    shown: &[DecodeIndex],
) -> Vec<i64> {
    let mut order: Vec<Option<i64>> = vec![None; parsed_packets.len()];
    for (place, at) in shown.iter().enumerate() {
        if let Some(order) = order.get_mut(at.as_usize()) {
            *order = Some(place as i64);
        }
    }
    let mut last = -1;
    order
        .into_iter()
        .zip(parsed_packets)
        .map(|(order, k)| {
            if order.is_none() && has_fields && last >= 0 {
                k.picture.is_damaged |= k.picture.shown;
            } else if !k.picture.is_damaged {
                k.picture.shown &= order.is_some();
            }
            last = order.unwrap_or(last);
            last
        })
        .collect()
}

/// VP8: the headers of a damaged packet do not show whether its picture is hidden. Encoders give a
/// hidden picture nearly the time of the next one, which is later than that of the picture before
/// it.
fn hide_damaged_alternate_references(parsed_packets: &mut [ParsedPacket]) {
    if !parsed_packets.iter().any(|k| k.picture.is_damaged) {
        return;
    }
    let time = |k: &ParsedPacket| k.packet.dts.or(k.packet.pts);
    let gaps: Vec<Option<i64>> = parsed_packets
        .windows(2)
        .map(|w| time(&w[1])?.checked_sub(time(&w[0])?))
        .collect();
    let mut known: Vec<i64> = gaps.iter().copied().flatten().collect();
    known.sort_unstable();
    let Some(&usual) = known.get(known.len() / 2) else {
        return;
    };
    for (pair, k) in gaps
        .windows(2)
        .zip(&mut parsed_packets[1..])
        .filter(|(_, k)| k.picture.is_damaged)
    {
        let [Some(before), Some(after)] = *pair else {
            continue;
        };
        k.picture.shown = after > usual / 2 || after >= before;
    }
}

/// Packets that hold the second field of the picture in the preceding packet. A damaged packet is a
/// field where the packets around it leave one field without another, so that no other frame moves.
fn second_fields(parsed_packets: &[ParsedPacket]) -> Vec<bool> {
    enum Open {
        No,
        Field(FieldInfo),
        Damaged,
    }
    let pairs = parsed_packets.windows(2).filter_map(|pair| {
        let second = pair[1].picture.field?;
        let is_pair = pair[0].picture.field?.is_completed_by(second);
        is_pair.then_some(second.is_bottom)
    });
    let (mut bottom_second, mut top_second) = (0usize, 0usize);
    for is_bottom in pairs {
        *(if is_bottom {
            &mut bottom_second
        } else {
            &mut top_second
        }) += 1;
    }
    let has_pairs = bottom_second + top_second > 0;
    // Which of the two is the second one changes rarely within a stream.
    let usual_second_is_bottom = bottom_second >= top_second;
    let has_frames = parsed_packets.iter().any(|k| {
        let PictureInfo {
            field,
            is_damaged,
            shown,
            ..
        } = k.picture;
        field.is_none() && !is_damaged && shown
    });
    let mut open = Open::No;
    parsed_packets
        .iter()
        .map(|k| {
            let PictureInfo {
                field, is_damaged, ..
            } = k.picture;
            let second = match open {
                Open::No => false,
                Open::Field(first) => {
                    is_damaged || field.is_some_and(|field| first.is_completed_by(field))
                }
                Open::Damaged if is_damaged => !has_frames,
                Open::Damaged => field.is_some_and(|f| f.is_bottom == usual_second_is_bottom),
            };
            open = match field {
                _ if second => Open::No,
                _ if is_damaged && has_pairs => Open::Damaged,
                Some(field) => Open::Field(field),
                None => Open::No,
            };
            second
        })
        .collect()
}

/// Fields without another one that completes their frame.
fn lone_fields(parsed_packets: &[ParsedPacket], second: &[bool]) -> Vec<bool> {
    let is_lone = |n: usize| {
        let is_first = parsed_packets[n].picture.field.is_some() && !second[n];
        is_first && !second.get(n + 1).is_some_and(|&second| second)
    };
    (0..parsed_packets.len()).map(is_lone).collect()
}

/// Where the presentation order is from.
enum Order {
    /// See [`by_picture_type`].
    ByPictureType,
    /// Times or positions that increase in presentation order, one per packet.
    Numbers(Vec<i64>),
    /// Picture order counts, likewise.
    Counts(Vec<i64>),
}

/// Returns the presentation order; `None` if headers do not give it.
fn presentation_order(
    info: &StreamInfo,
    container: &Container,
    parsed_packets: &[ParsedPacket],
) -> Option<Order> {
    let as_stored = || Some(Order::Numbers((0..parsed_packets.len() as i64).collect()));
    let codec = codecs::of(&info.params.codec);
    let rule = codec.order_rule(&info.params.extradata);
    let timed = container.stores_times && pts_define_order(codec, parsed_packets);
    let timed_in_decode_order = timed && pts_follow_decode_order(parsed_packets);
    // Without a reference picture that is missing, the B pictures before it would be shown too
    // early.
    let incomplete = parsed_packets
        .iter()
        .any(|k| k.packet.corrupt || k.packet.after_gap || k.picture.is_damaged);
    let trusted = incomplete && timed && !timed_in_decode_order;
    match rule {
        // Each packet's picture type gives its position; timestamps may follow decode order
        // although pictures are reordered, as in an AVI remuxed to MP4.
        OrderRule::PictureTypes if !trusted => return Some(Order::ByPictureType),
        OrderRule::PictureTypesIfUntimed if !timed || timed_in_decode_order => {
            return Some(Order::ByPictureType);
        }
        OrderRule::PictureOrderCounts if timed_in_decode_order => {
            // A count reset in between would move whole ranges of pictures.
            let counted = by_picture_order_count(parsed_packets)
                .filter(|order| !exceeds_reorder_depth(order));
            return counted.map(Order::Counts).or_else(as_stored);
        }
        _ if timed => {
            let mut last = i64::MIN + 1;
            let times = parsed_packets
                .iter()
                .map(|k| k.packet.pts.inspect(|&t| last = t).unwrap_or(last));
            return Some(Order::Numbers(times.collect()));
        }
        _ => {}
    }
    match rule {
        OrderRule::PictureOrderCounts => by_picture_order_count(parsed_packets).map(Order::Counts),
        OrderRule::DecodeOrder => as_stored(),
        OrderRule::Unknown if is_intra_only(&info.params) => as_stored(),
        // Whether the codec reorders is unknown here; times that increase in decode order show that
        // this stream does not.
        OrderRule::Unknown if pts_follow_decode_order(parsed_packets) => as_stored(),
        OrderRule::Unknown
        | OrderRule::PictureTypes
        | OrderRule::PictureTypesIfUntimed
        | OrderRule::DecoderOutput => None,
    }
}

/// Whether a number is smaller than more of those shortly before it than the maximum reorder depth
/// allows.
fn exceeds_reorder_depth(numbers: &[i64]) -> bool {
    let is_far = |(n, number): (usize, &i64)| {
        let before = &numbers[n.saturating_sub(2 * MAX_REORDER_DEPTH)..n];
        before.iter().filter(|before| *before > number).count() > MAX_REORDER_DEPTH
    };
    numbers.iter().enumerate().any(is_far)
}

/// Whether every shown packet has a presentation time and these times increase in decode order.
pub(super) fn pts_follow_decode_order(parsed_packets: &[ParsedPacket]) -> bool {
    shown_pts(parsed_packets)
        .collect::<Option<Vec<i64>>>()
        .is_some_and(|times| times.is_sorted())
}

/// The container's presentation times of packets that show a picture, in decode order.
fn shown_pts(parsed_packets: &[ParsedPacket]) -> impl Iterator<Item = Option<i64>> + '_ {
    parsed_packets
        .iter()
        .filter(|k| k.picture.shown)
        .map(|k| k.packet.pts)
}

/// Whether the container's presentation times suffice to order the pictures: each picture has one,
/// no two are equal, none precedes more earlier-decoded pictures than a decoder can hold back, as
/// happens where recordings are concatenated, and they do not contradict the random access points.
/// Otherwise the codec's own order is used, as in a decoder.
pub(super) fn pts_define_order(codec: &dyn Codec, parsed_packets: &[ParsedPacket]) -> bool {
    let Some(times) = shown_pts(parsed_packets).collect::<Option<Vec<i64>>>() else {
        return false;
    };
    if exceeds_reorder_depth(&times) || contradicts_random_access(codec, parsed_packets) {
        return false;
    }
    // Pictures hidden by an edit list are excluded: they may have the same time as the first shown
    // one.
    let mut times: Vec<i64> = parsed_packets
        .iter()
        .filter(|k| k.picture.shown && !k.packet.discard)
        .filter_map(|k| k.packet.pts)
        .collect();
    times.sort_unstable();
    times.windows(2).all(|w| w[0] < w[1])
}

/// Whether presentation times place a random access point before a picture that precedes it in
/// decode order or, if closed points have no leading pictures, after a picture that follows it in
/// decode order.
fn contradicts_random_access(codec: &dyn Codec, parsed_packets: &[ParsedPacket]) -> bool {
    let (mut latest, mut last_idr) = (None, None);
    parsed_packets
        .iter()
        .filter(|k| k.picture.shown && !k.packet.discard)
        .any(|k| {
            let (pts, random_access) = (k.packet.pts, k.picture.random_access);
            let is_start = matches!(
                random_access,
                RandomAccessPoint::Open | RandomAccessPoint::Closed
            );
            let contradicts = pts < last_idr || is_start && pts < latest;
            latest = latest.max(pts);
            if codec.closed_points_have_no_leading_pictures()
                && random_access == RandomAccessPoint::Closed
            {
                last_idr = pts;
            }
            contradicts
        })
}

/// The count increases in presentation order and restarts at each closed random access
/// point. A damaged picture may have been one: then counts repeat after it. The count may also
/// restart in between (memory management control operation 5), which shows as a repeated count too:
/// then `None`. A damaged picture, whose count is unknown, follows the one decoded before it.
fn by_picture_order_count(parsed_packets: &[ParsedPacket]) -> Option<Vec<i64>> {
    let (mut epoch, mut last) = (0i64, i64::MIN >> 1);
    let mut order: Vec<i64> = Vec::with_capacity(parsed_packets.len());
    // Of the epoch so far: the counts of its intact frames, and its last damaged picture.
    let mut counts = HashSet::new();
    let mut damaged = None;
    for (n, k) in parsed_packets.iter().enumerate() {
        let is_damaged_key =
            k.picture.is_damaged && k.picture.random_access != RandomAccessPoint::None;
        if k.picture.random_access == RandomAccessPoint::Closed
            || k.picture.is_broken_link
            || is_damaged_key
        {
            epoch += 1;
            counts.clear();
            damaged = None;
        }
        if k.picture.is_damaged {
            damaged = Some(n);
            order.push(last);
            continue;
        }
        let count = order_count(k)?;
        if k.picture.shown && !counts.insert(count) {
            let start: usize = damaged.take()?;
            epoch += 1;
            counts.clear();
            order[start] = (epoch << 33) + i64::from(i32::MIN);
            for (place, k) in order[start..]
                .iter_mut()
                .zip(&parsed_packets[start..n])
                .skip(1)
            {
                let count = order_count(k)?;
                *place = (epoch << 33) + count;
                if k.picture.shown && !counts.insert(count) {
                    return None;
                }
            }
            counts.insert(count);
        }
        last = (epoch << 33) + count;
        order.push(last);
    }
    Some(order)
}

/// The picture order count in a packet's headers.
fn order_count(k: &ParsedPacket) -> Option<i64> {
    let by_libavcodec = || Some(k.parsed?.picture_order_count);
    k.picture.order_count.or_else(by_libavcodec).map(i64::from)
}

/// MPEG-1/2/4 and VC-1: a B picture is shown at once, any other picture when the next non-B picture
/// arrives.
fn by_picture_type(parsed_packets: &[ParsedPacket]) -> Vec<i64> {
    let mut order = vec![0; parsed_packets.len()];
    let mut next = 0;
    let mut held: Option<usize> = None;
    for (n, k) in parsed_packets.iter().enumerate() {
        let is_b = k.picture.shown && k.picture.is_b_picture;
        let shown_now = if is_b || !k.picture.shown {
            Some(n)
        } else {
            held.replace(n)
        };
        if let Some(shown) = shown_now {
            order[shown] = next;
            next += 1;
        }
    }
    if let Some(last) = held {
        order[last] = next;
    }
    order
}

/// Pictures that may be shown before or after a damaged picture, whose type is unknown: the one
/// that a decoder holds back when it receives the damaged one.
fn unplaced_by_damage(parsed_packets: &[ParsedPacket]) -> Vec<bool> {
    let mut unplaced = vec![false; parsed_packets.len()];
    if !parsed_packets.iter().any(|k| k.picture.is_b_picture) {
        return unplaced;
    }
    let mut held = None;
    for (n, k) in parsed_packets
        .iter()
        .enumerate()
        .filter(|(_, k)| k.picture.shown)
    {
        if k.picture.is_damaged {
            if let Some(held) = held.take() {
                unplaced[held] = true;
            }
        } else if !k.picture.is_b_picture {
            held = Some(n);
        }
    }
    unplaced
}

fn is_intact_frame((_, k): &(&i64, &ParsedPacket)) -> bool {
    k.picture.shown && !k.picture.is_damaged
}

/// Pictures shortly before a damaged one in decode order, which may be shown before or after it if
/// pictures are reordered.
fn reordered_before_damage(parsed_packets: &[ParsedPacket], order: &[i64]) -> Vec<bool> {
    let mut unplaced = vec![false; parsed_packets.len()];
    if order
        .iter()
        .zip(parsed_packets)
        .filter(is_intact_frame)
        .is_sorted_by_key(|(order, _)| *order)
    {
        return unplaced;
    }
    for n in (0..parsed_packets.len()).filter(|&n| parsed_packets[n].picture.is_damaged) {
        for before in (0..n).rev().take(MAX_REORDER_DEPTH) {
            unplaced[before] = parsed_packets[before].picture.shown;
            if parsed_packets[before].picture.random_access == RandomAccessPoint::Closed {
                break;
            }
        }
    }
    unplaced
}

/// Packets at which decoding may start.
fn find_sync_points(
    codec: &dyn Codec,
    container: &Container,
    parsed_packets: &[ParsedPacket],
    order: &[i64],
) -> Vec<bool> {
    let mut starts: Vec<bool> = parsed_packets
        .iter()
        .map(|k| {
            matches!(
                k.picture.random_access,
                RandomAccessPoint::Open | RandomAccessPoint::Closed
            )
        })
        .collect();
    let first = starts.iter().position(|&s| s);
    let before = first.unwrap_or(parsed_packets.len());
    // A damaged packet at the beginning may have been the start: its frames stay, as errors.
    let soft = parsed_packets
        .first()
        .is_some_and(|k| k.picture.is_damaged && !container.may_be_cut)
        .then_some(0);
    // Before the first exact start, an inexact one is used, as in a decoder, but only at the
    // beginning of the stream.
    let soft = soft.or(parsed_packets[..before]
        .iter()
        .position(|k| k.picture.random_access == RandomAccessPoint::Inexact));
    // For codecs whose headers are not parsed.
    let begins = first.is_none() || container.begins_with_stream;
    let soft = soft.or((begins
        && !codec.parses_random_access_points()
        && !parsed_packets.is_empty())
    .then_some(0));
    if let Some(soft) = soft.filter(|&s| first.is_none_or(|f| order[s] < order[f])) {
        starts[soft] = true;
    }
    starts
}

/// Leading pictures of a start: they follow it in decode order, up to the next start, and precede
/// it in presentation order. They may refer to pictures before the start.
fn leading_pictures(
    rule: OrderRule,
    parsed_packets: &[ParsedPacket],
    order: &[i64],
    start: usize,
    end: usize,
) -> Vec<usize> {
    let behind = start + 1..end;
    match rule {
        // B pictures before the next reference picture, regardless of timestamps.
        OrderRule::PictureTypes => behind
            .take_while(|&n| {
                !parsed_packets[n].picture.shown || parsed_packets[n].picture.is_b_picture
            })
            .collect(),
        // Each leading picture is marked as decodable (RADL) or not (RASL).
        _ if parsed_packets[start].picture.is_broken_link
            || parsed_packets[behind.clone()]
                .iter()
                .any(|k| k.picture.is_rasl) =>
        {
            behind
                .filter(|&n| parsed_packets[n].picture.is_rasl)
                .collect()
        }
        _ => behind.filter(|&n| order[n] < order[start]).collect(),
    }
}

/// Packets whose pictures no decoder can show, because they refer to pictures that are not in the
/// file.
fn undecodable(
    rule: OrderRule,
    parsed_packets: &[ParsedPacket],
    order: &[i64],
    starts: &[bool],
) -> Vec<bool> {
    let mut hidden = vec![false; parsed_packets.len()];
    let Some(first) = starts.iter().position(|&s| s) else {
        return vec![true; parsed_packets.len()];
    };
    // A decoder outputs nothing before the recovery of a gradual refresh is complete.
    let PictureInfo {
        random_access,
        recovery_frames,
        ..
    } = parsed_packets[first].picture;
    let recovering = if random_access == RandomAccessPoint::Inexact {
        recovery_frames as usize
    } else {
        0
    };
    hidden[..first.saturating_add(recovering).min(parsed_packets.len())].fill(true);
    let end_of = |start: usize| {
        (start + 1..parsed_packets.len())
            .find(|&n| starts[n])
            .unwrap_or(parsed_packets.len())
    };
    let loses = |n: &usize| {
        let picture = &parsed_packets[*n].picture;
        picture.is_broken_link || *n == first && picture.random_access != RandomAccessPoint::Closed
    };
    for start in (first..parsed_packets.len())
        .filter(|&n| starts[n])
        .filter(loses)
    {
        // Those of a damaged start may have been decodable: they are errors, unless they are RASL.
        let is_damaged = parsed_packets[start].picture.is_damaged;
        for n in leading_pictures(rule, parsed_packets, order, start, end_of(start)) {
            hidden[n] |= !is_damaged || parsed_packets[n].picture.is_rasl;
        }
    }
    hidden
}

/// Returns the frames in presentation order, the end time of the last one, and the number of parts
/// into which these times divide the stream's tick.
fn frames(
    info: &StreamInfo,
    container: &Container,
    parsed_packets: &[ParsedPacket],
    packets: &[PacketRecord],
) -> (Vec<FrameRecord>, i64, u32) {
    let mut shown: Vec<usize> = (0..packets.len())
        .filter(|&n| packets[n].is_frame())
        .collect();
    shown.sort_by_key(|&n| (packets[n].order, n));
    let (times, parts) = presentation_times(info, container, parsed_packets, &shown);
    let in_parts = |ticks: i64| ticks.saturating_mul(i64::from(parts));
    let last_duration = shown
        .last()
        .map(|&n| in_parts(parsed_packets[n].packet.duration))
        .filter(|&d| d > 0)
        .or_else(|| times.windows(2).last().and_then(|w| w[1].checked_sub(w[0])))
        .or_else(|| info.frame_rate.map(|r| frame_ticks(info, r)))
        .unwrap_or(0);
    // Empty packets after the last frame extend its duration.
    let empty = parsed_packets
        .iter()
        .rev()
        .take_while(|k| k.packet.size == 0 && !k.packet.discard);
    let kept = empty.fold(0i64, |sum, k| {
        sum.saturating_add(in_parts(k.packet.duration.max(0)))
    });
    let end = times
        .last()
        .map_or(0, |t| t.saturating_add(last_duration).saturating_add(kept));
    let frames = shown
        .iter()
        .zip(times)
        .map(|(&n, pts)| FrameRecord {
            packet: DecodeIndex(n as u32),
            pts,
        })
        .collect();
    (frames, end, parts)
}

/// Parts per tick, used if the time base is too coarse to separate frames with equal times: often
/// one tick is one frame.
const TICK_DIVISOR: u32 = 1000;

/// Returns the times of the shown packets, given in presentation order, and the number of parts per
/// tick that they use.
fn presentation_times(
    info: &StreamInfo,
    container: &Container,
    parsed_packets: &[ParsedPacket],
    shown: &[usize],
) -> (Vec<i64>, u32) {
    let packet_infos: Vec<&PacketInfo> = shown.iter().map(|&n| &parsed_packets[n].packet).collect();
    let rate = info.frame_rate.unwrap_or((25, 1));
    let mut given: Vec<Option<i64>> = packet_infos.iter().map(|packet| packet.pts).collect();
    // Times that follow decode order although pictures are reordered belong to the same frames.
    if pts_follow_decode_order(parsed_packets) {
        given.sort_unstable();
    }
    if container.stores_times && given.iter().any(Option::is_some) {
        let durations: Vec<i64> = packet_infos.iter().map(|packet| packet.duration).collect();
        let step = frame_ticks(info, rate);
        if let Some(times) = frame_times::repair_times(&given, &durations, step, false) {
            return (times, 1);
        }
        let finer = |&ticks: &i64| ticks.checked_mul(i64::from(TICK_DIVISOR));
        let fine_given = given
            .iter()
            .map(|time| time.as_ref().map_or(Some(None), |t| finer(t).map(Some)));
        let fine = fine_given
            .collect::<Option<Vec<_>>>()
            .zip(durations.iter().map(finer).collect::<Option<Vec<_>>>());
        if let Some((fine_given, fine_durations)) =
            fine.filter(|_| info.time_base.divided(TICK_DIVISOR).is_some())
        {
            let step = step.saturating_mul(i64::from(TICK_DIVISOR));
            return (
                frame_times::repair_times(&fine_given, &fine_durations, step, true)
                    .unwrap_or_default(),
                TICK_DIVISOR,
            );
        }
        return (
            frame_times::repair_times(&given, &durations, step, true).unwrap_or_default(),
            1,
        );
    }
    // Without any presentation time: the sorted decoding times belong to the same frames.
    let decoding_times = packet_infos
        .iter()
        .map(|packet| packet.dts)
        .collect::<Option<Vec<i64>>>();
    if let Some(mut times) = decoding_times.filter(|times| !times.is_empty()) {
        times.sort_unstable();
        if times.len() < 2 || times.first() < times.last() {
            frame_times::make_strictly_increasing(&mut times);
            let begin = match container.starts_at_zero {
                true => times[0],
                false => 0,
            };
            return (
                times
                    .iter()
                    .map(|time| time.saturating_sub(begin))
                    .collect(),
                1,
            );
        }
    }
    let rate = TimeBase::new(rate.1, rate.0);
    (
        (0..shown.len() as i64)
            .map(|i| rate.map_or(i, |rate| rate.rescale(i, info.time_base)))
            .collect(),
        1,
    )
}

fn frame_ticks(info: &StreamInfo, (num, den): (u32, u32)) -> i64 {
    TimeBase::new(den, num)
        .map_or(1, |rate| rate.rescale(1, info.time_base))
        .max(1)
}
