//! In: packets with their headers' facts, in decode order.
//! Out: their presentation order, the frames and their times.
//! Never: believes a timestamp table that leaves frames out.

use super::look::{Look, Start};
use super::{FrameRecord, AFTER_GAP, CONTAINER_KEY, CORRUPT, FRAME, NO_TIME, PART, START};
use crate::demux::PacketFact;
use crate::error::Result;
use crate::ffmpeg::Parsed;
use crate::index::PacketRecord;
use crate::media::{CodecKind, StreamInfo};
use crate::units::DecodeIndex;

/// All that is known of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub fact: PacketFact,
    pub look: Look,
    pub parsed: Option<Parsed>,
}

pub(super) struct Table {
    pub packets: Vec<PacketRecord>,
    pub frames: Vec<FrameRecord>,
    pub end_pts: i64,
}

/// Builds the tables of one video. `decoded_order` is asked for the decode indices in the order in which a decoder
/// shows them, only where no header tells.
pub(super) fn tabulate(
    info: &StreamInfo,
    container: &str,
    mut known: Vec<Known>,
    decoded_order: impl FnOnce() -> Result<Vec<DecodeIndex>>,
) -> Result<Table> {
    let kind = info.params.codec.kind;
    let parts = second_fields(kind, &known);
    for (k, &part) in known.iter_mut().zip(&parts) {
        k.look.shown &= !part;
        if part {
            k.look.start = Start::No;
        }
    }
    let order = match presentation_order(kind, container, &known) {
        Some(order) => order,
        None => as_decoded(&mut known, &decoded_order()?),
    };
    let starts = starts(kind, &known, &order);
    let hidden = undecodable(&known, &order, &starts);
    let packets: Vec<PacketRecord> = (0..known.len())
        .map(|n| {
            let k = &known[n];
            let frame = k.look.shown && !k.fact.discard && !hidden[n];
            let flags = [
                (starts[n], START),
                (k.fact.key, CONTAINER_KEY),
                (frame, FRAME),
                (parts[n], PART),
                (k.fact.corrupt, CORRUPT),
                (k.fact.after_gap, AFTER_GAP),
            ];
            PacketRecord {
                offset: k.fact.offset.unwrap_or(0),
                order: order[n],
                dts: k.fact.dts.unwrap_or(NO_TIME),
                size: k.fact.size,
                flags: flags.iter().filter(|f| f.0).map(|f| f.1).sum(),
            }
        })
        .collect();
    let (frames, end_pts) = frames(info, container, &known, &packets);
    Ok(Table { packets, frames, end_pts })
}

/// The order in which a decoder showed the packets' pictures; packets it showed nothing of are not frames.
fn as_decoded(known: &mut [Known], shown: &[DecodeIndex]) -> Vec<i64> {
    let mut order: Vec<Option<i64>> = vec![None; known.len()];
    for (place, at) in shown.iter().enumerate() {
        if let Some(order) = order.get_mut(at.at()) {
            *order = Some(place as i64);
        }
    }
    let mut last = -1;
    order
        .into_iter()
        .zip(known)
        .map(|(order, k)| {
            k.look.shown &= order.is_some();
            last = order.unwrap_or(last);
            last
        })
        .collect()
}

/// Packets that hold the second field of the picture begun by the packet before.
fn second_fields(kind: CodecKind, known: &[Known]) -> Vec<bool> {
    let mut open: Option<Parsed> = None;
    known
        .iter()
        .map(|k| {
            let Some(parsed) = k.parsed.filter(|p| kind == CodecKind::H264 && p.is_field) else {
                open = None;
                return false;
            };
            let second = open.take().is_some_and(|first| first.is_bottom != parsed.is_bottom);
            if !second {
                open = Some(parsed);
            }
            second
        })
        .collect()
}

/// A number per packet that grows with presentation time; `None` where headers do not tell it.
fn presentation_order(kind: CodecKind, container: &str, known: &[Known]) -> Option<Vec<i64>> {
    // AVI stores no presentation times; what libavformat makes up for some of its packets contradicts the others.
    let timed = container != "avi" && known.iter().all(|k| k.fact.pts.is_some() || !k.look.shown);
    if timed && !has_doubles(known) {
        let mut last = i64::MIN + 1;
        return Some(known.iter().map(|k| k.fact.pts.inspect(|&t| last = t).unwrap_or(last)).collect());
    }
    match kind {
        CodecKind::H264 | CodecKind::Hevc => by_picture_order_count(known),
        CodecKind::Mpeg4 | CodecKind::Mpeg12 => Some(by_picture_kind(known)),
        // No reordering in these.
        CodecKind::Vp8 | CodecKind::Vp9 | CodecKind::Av1 => Some((0..known.len() as i64).collect()),
        CodecKind::Other if known.iter().all(|k| k.fact.pts.is_some()) => {
            Some((0..known.len() as i64).collect())
        }
        CodecKind::Other | CodecKind::Still => None,
    }
}

/// Shown frames that share a timestamp, which happens where a muxer made timestamps up.
fn has_doubles(known: &[Known]) -> bool {
    let mut times: Vec<i64> =
        known.iter().filter(|k| k.look.shown && !k.fact.discard).filter_map(|k| k.fact.pts).collect();
    times.sort_unstable();
    times.windows(2).any(|w| w[0] == w[1])
}

/// H.264/HEVC: the count grows in presentation order and starts anew at each closed random access point. It may also
/// start anew in between (memory management command 5), which shows as a count that comes twice: `None`.
fn by_picture_order_count(known: &[Known]) -> Option<Vec<i64>> {
    let mut epoch = 0i64;
    let order = known
        .iter()
        .map(|k| {
            if k.look.start == Start::Closed || k.look.breaks_link {
                epoch += 1;
            }
            Some((epoch << 33) + i64::from(k.parsed?.order))
        })
        .collect::<Option<Vec<i64>>>()?;
    let mut shown: Vec<i64> =
        order.iter().zip(known).filter(|(_, k)| k.look.shown).map(|(&o, _)| o).collect();
    shown.sort_unstable();
    shown.windows(2).all(|w| w[0] < w[1]).then_some(order)
}

/// MPEG-1/2/4: a B picture is shown at once, any other when the next non-B picture arrives.
fn by_picture_kind(known: &[Known]) -> Vec<i64> {
    let mut order = vec![0; known.len()];
    let mut next = 0;
    let mut held: Option<usize> = None;
    for (n, k) in known.iter().enumerate() {
        let is_b = k.look.shown && k.look.bidirectional;
        let shown_now = if is_b || !k.look.shown { Some(n) } else { held.replace(n) };
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

/// Where decoding may start.
fn starts(kind: CodecKind, known: &[Known], order: &[i64]) -> Vec<bool> {
    let mut starts: Vec<bool> =
        known.iter().map(|k| matches!(k.look.start, Start::Open | Start::Closed)).collect();
    let first = starts.iter().position(|&s| s);
    let before = first.unwrap_or(known.len());
    // Pictures before the first exact start: a decoder gets going at a soft one, and so do we, at the beginning only.
    let soft = known[..before].iter().position(|k| k.look.start == Start::Soft);
    let soft = soft.or((first.is_none() && kind == CodecKind::Other && !known.is_empty()).then_some(0));
    if let Some(soft) = soft.filter(|&s| first.is_none_or(|f| order[s] < order[f])) {
        starts[soft] = true;
    }
    starts
}

/// Packets whose pictures no decoder can show: they refer to what the file does not hold.
fn undecodable(known: &[Known], order: &[i64], starts: &[bool]) -> Vec<bool> {
    let mut hidden = vec![false; known.len()];
    let Some(first) = starts.iter().position(|&s| s) else { return vec![true; known.len()] };
    hidden[..first].fill(true);
    // Pictures that lead the first start on screen; HEVC says of each whether it can be decoded.
    let end = (first + 1..known.len()).find(|&n| starts[n]).unwrap_or(known.len());
    if known[first].look.start != Start::Closed {
        let hevc =
            known[first].look.breaks_link || known[first + 1..end].iter().any(|k| k.look.skipped_after_start);
        for n in first + 1..end {
            hidden[n] |= if hevc { known[n].look.skipped_after_start } else { order[n] < order[first] };
        }
    }
    let mut broken = false;
    for (n, k) in known.iter().enumerate() {
        if k.look.start == Start::Closed || k.look.start == Start::Open {
            broken = k.look.breaks_link;
        }
        hidden[n] |= broken && k.look.skipped_after_start;
    }
    hidden
}

/// Frames in presentation order with their times, and the time at which the last one ends.
fn frames(
    info: &StreamInfo,
    container: &str,
    known: &[Known],
    packets: &[PacketRecord],
) -> (Vec<FrameRecord>, i64) {
    let mut shown: Vec<usize> = (0..packets.len()).filter(|&n| packets[n].is_frame()).collect();
    shown.sort_by_key(|&n| (packets[n].order, n));
    let given = (container != "avi").then(|| filled_times(known, &shown)).flatten();
    let times = given.unwrap_or_else(|| made_up_times(info, known, &shown));
    let last_duration = shown
        .last()
        .map(|&n| known[n].fact.duration)
        .filter(|&d| d > 0)
        .or_else(|| times.windows(2).last().and_then(|w| w[1].checked_sub(w[0])))
        .or_else(|| info.frame_rate.map(|r| frame_ticks(info, r)))
        .unwrap_or(0);
    let end = times.last().map_or(0, |t| t.saturating_add(last_duration));
    let frames =
        shown.iter().zip(times).map(|(&n, pts)| FrameRecord { packet: DecodeIndex(n as u32), pts }).collect();
    (frames, end)
}

/// The container's times, single gaps filled from the frame before; `None` unless they grow from frame to frame.
fn filled_times(known: &[Known], shown: &[usize]) -> Option<Vec<i64>> {
    let given = shown.iter().filter(|&&n| known[n].fact.pts.is_some()).count();
    if given * 2 < shown.len() {
        return None;
    }
    let mut times: Vec<i64> = Vec::with_capacity(shown.len());
    for &n in shown {
        let fact = &known[n].fact;
        let after = || Some(times.last()?.saturating_add(fact.duration.max(1)));
        times.push(fact.pts.or_else(after)?);
    }
    times.windows(2).all(|w| w[0] < w[1]).then_some(times)
}

fn frame_ticks(info: &StreamInfo, (num, den): (u32, u32)) -> i64 {
    crate::units::TimeBase::new(den, num).map_or(1, |rate| rate.rescale(1, info.time_base)).max(1)
}

/// Times where presentation times are missing: the decoding times, sorted; they count the same frames. Where those
/// are missing or repeat, the stated frame rate.
fn made_up_times(info: &StreamInfo, known: &[Known], shown: &[usize]) -> Vec<i64> {
    if let Some(mut times) = shown.iter().map(|&n| known[n].fact.dts).collect::<Option<Vec<_>>>() {
        times.sort_unstable();
        if times.windows(2).all(|w| w[0] < w[1]) {
            return times;
        }
    }
    let (num, den) = info.frame_rate.unwrap_or((25, 1));
    let rate = crate::units::TimeBase::new(den, num);
    (0..shown.len() as i64).map(|i| rate.map_or(i, |rate| rate.rescale(i, info.time_base))).collect()
}
