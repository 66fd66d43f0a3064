//! Encodes a video index in a few bytes per packet and decodes it; decoding checks every value used
//! as an index. Any change to the encoding or to the fields of [`VideoIndex`] requires a new
//! [`FORMAT`].

use std::sync::OnceLock;

use super::delta_column;
use super::varint::{VarintReader, write_bytes, write_signed_varint, write_varint};
use crate::error::Site;
use crate::ffmpeg::codec_params::codec_id;
use crate::index::{FrameRecord, PacketRecord, VideoIndex};
use crate::limits::{Limits, check_index_allocatable};
use crate::media::{
    Codec, CodecParams, ColorTags, DisplayOrientation, StreamInfo, StreamKind, StreamSummary,
};
use crate::units::{DecodeIndex, TimeBase};

/// Must be incremented whenever the encoding changes or `build` returns a different index for the
/// same file: entries of another format are rebuilt. `tests/engine/index_cache.rs` compares indices
/// of real files with recorded ones.
pub const FORMAT: u8 = 14;

/// Maximum reorder depth of a decoder.
const MAX_REORDER_DEPTH: u8 = 16;

/// Maximum length of a container or codec name.
const MAX_NAME_BYTES: u64 = 256;

/// Encodes an index; `None` for one that would not decode to the same value.
pub(super) fn encode(index: &VideoIndex) -> Option<Vec<u8>> {
    let is_valid = sync_points(&index.packets).eq(index.sync_points.iter().copied())
        && (index.direct || index.packets.iter().all(|p| p.offset == 0));
    if !is_valid || codec_id(&index.info.params.codec.name) != Some(index.info.params.codec.id) {
        return None;
    }
    let mut out = Vec::with_capacity(512 + 6 * index.packets.len());
    write_bytes(&mut out, index.container.as_bytes());
    put_stream(&mut out, &index.info);
    put_summaries(&mut out, &index.streams);
    let has_new_extradata = !index.new_extradata.is_empty();
    out.push(
        u8::from(index.direct)
            | u8::from(index.changes_parameters) << 1
            | u8::from(has_new_extradata) << 2
            | u8::from(index.alternative_transfer.is_some()) << 3,
    );
    out.extend(index.alternative_transfer);
    write_varint(&mut out, index.damaged_units.into());
    put_by_packet(&mut out, &index.in_band_headers);
    if has_new_extradata {
        put_by_packet(&mut out, &index.new_extradata);
    }
    put_packets(&mut out, index);
    put_frames(&mut out, index);
    Some(out)
}

/// Decodes an index; `None` if it is invalid.
pub(super) fn decode(bytes: &[u8], site: Site, limits: &Limits) -> Option<VideoIndex> {
    let reader = &mut VarintReader::new(bytes);
    let container = reader.text(MAX_NAME_BYTES)?.to_owned();
    let info = stream(reader, limits)?;
    let streams = summaries(reader)?;
    let flags = reader.byte().filter(|&flags| flags < 16)?;
    let alternative_transfer = match flags & 8 {
        0 => None,
        _ => Some(reader.byte()?),
    };
    let (direct, changes_parameters) = (flags & 1 != 0, flags & 2 != 0);
    let damaged_units = reader.varint_u32()?;
    let in_band_headers = by_packet(reader, limits.packet_bytes)?;
    let new_extradata = match flags & 4 {
        0 => Vec::new(),
        _ => by_packet(reader, limits.extradata_bytes).filter(|list| !list.is_empty())?,
    };
    let packets = packets(reader, direct, &site, limits)?;
    let (frames, end_pts) = frames(reader, &packets)?;
    if !reader.rest().is_empty()
        || [&in_band_headers, &new_extradata].iter().any(|list| {
            list.last()
                .is_some_and(|last| last.0 as usize >= packets.len())
        })
    {
        return None;
    }
    let sync_points = sync_points(&packets).collect();
    Some(VideoIndex {
        site,
        container,
        info,
        streams,
        packets,
        frames,
        end_pts,
        direct,
        sync_points,
        in_band_headers,
        new_extradata,
        alternative_transfer,
        damaged_units,
        changes_parameters,
        first_field: OnceLock::new(),
        cpu_only: OnceLock::new(),
    })
}

fn put_by_packet(out: &mut Vec<u8>, list: &[(u32, Vec<u8>)]) {
    write_varint(out, list.len() as u64);
    for (at, bytes) in list {
        write_varint(out, (*at).into());
        write_bytes(out, bytes);
    }
}

/// Bytes that apply from a packet on, by packet.
fn by_packet(reader: &mut VarintReader<'_>, max_bytes: u64) -> Option<Vec<(u32, Vec<u8>)>> {
    let mut list: Vec<(u32, Vec<u8>)> = Vec::new();
    for _ in 0..reader.varint()? {
        let at = reader
            .varint_u32()
            .filter(|&at| list.last().is_none_or(|last| last.0 < at))?;
        list.push((at, reader.bytes(max_bytes)?.to_vec()));
    }
    Some(list)
}

fn sync_points(packets: &[PacketRecord]) -> impl Iterator<Item = u32> + '_ {
    (0..packets.len() as u32).filter(|&n| packets[n as usize].is_sync())
}

fn put_stream(out: &mut Vec<u8>, info: &StreamInfo) {
    let params = &info.params;
    write_varint(out, info.stream.into());
    // By name, because libavcodec may renumber codecs in its next major version.
    write_bytes(out, params.codec.name.as_bytes());
    for number in [
        params.tag,
        params.width,
        params.height,
        info.time_base.num(),
        info.time_base.den(),
    ] {
        write_varint(out, number.into());
    }
    write_bytes(out, &params.extradata);
    write_signed_varint(out, params.bits_per_coded_sample.into());
    // 0 means that the depth is unknown.
    write_varint(out, params.reorder.map_or(0, |depth| u64::from(depth) + 1));
    let ColorTags {
        primaries,
        transfer,
        matrix,
        full_range,
    } = params.color;
    out.extend([primaries, transfer, matrix, full_range.map_or(2, u8::from)]);
    out.push(u8::from(info.orientation.mirror) << 2 | info.orientation.quarter_turns_cw & 3);
    for ratio in [info.sample_aspect, info.frame_rate] {
        out.push(u8::from(ratio.is_some()));
        if let Some((num, den)) = ratio {
            write_varint(out, num.into());
            write_varint(out, den.into());
        }
    }
}

fn stream(reader: &mut VarintReader<'_>, limits: &Limits) -> Option<StreamInfo> {
    let stream = reader.varint_u32()?;
    let name = reader.text(MAX_NAME_BYTES)?;
    let codec = Codec::of_stream(codec_id(name)?, name);
    let (tag, width, height) = (
        reader.varint_u32()?,
        reader.varint_u32()?,
        reader.varint_u32()?,
    );
    if u64::from(width) * u64::from(height) > limits.picture_samples {
        return None;
    }
    let time_base = TimeBase::new(reader.varint_u32()?, reader.varint_u32()?)?;
    let extradata = reader.bytes(limits.extradata_bytes)?.to_vec();
    let bits_per_coded_sample = i32::try_from(reader.signed_varint()?).ok()?;
    let reorder = match reader.varint_u32()? {
        0 => None,
        said => Some(
            u8::try_from(said - 1)
                .ok()
                .filter(|&depth| depth <= MAX_REORDER_DEPTH)?,
        ),
    };
    let color = ColorTags {
        primaries: reader.byte()?,
        transfer: reader.byte()?,
        matrix: reader.byte()?,
        full_range: match reader.byte()? {
            0 => Some(false),
            1 => Some(true),
            2 => None,
            _ => return None,
        },
    };
    let turn = reader.byte().filter(|&turn| turn < 8)?;
    let turn = DisplayOrientation {
        mirror: turn & 4 != 0,
        quarter_turns_cw: turn & 3,
    };
    let mut ratio = || match reader.byte()? {
        0 => Some(None),
        1 => Some(Some((reader.varint_u32()?, reader.varint_u32()?))),
        _ => None,
    };
    let (sample_aspect, frame_rate) = (ratio()?, ratio()?);
    let params = CodecParams {
        codec,
        tag,
        extradata,
        width,
        height,
        bits_per_coded_sample,
        color,
        reorder,
    };
    Some(StreamInfo {
        stream,
        params,
        time_base,
        orientation: turn,
        sample_aspect,
        frame_rate,
    })
}

fn put_summaries(out: &mut Vec<u8>, streams: &[StreamSummary]) {
    write_varint(out, streams.len() as u64);
    for stream in streams {
        out.push(stream.kind as u8 | u8::from(stream.is_default) << 7);
        write_bytes(out, stream.codec.as_bytes());
        for number in [stream.width, stream.height] {
            write_varint(out, number.into());
        }
        // 0 means that the number is unknown.
        write_varint(out, stream.num_frames.unwrap_or(0));
    }
}

fn summaries(reader: &mut VarintReader<'_>) -> Option<Vec<StreamSummary>> {
    let mut streams = Vec::new();
    for _ in 0..reader.varint()? {
        let flags = reader.byte()?;
        let kind = *StreamKind::ALL
            .iter()
            .find(|&&kind| kind as u8 == flags & 0x7f)?;
        let codec = reader.text(MAX_NAME_BYTES)?.to_owned();
        let (width, height) = (reader.varint_u32()?, reader.varint_u32()?);
        let num_frames = Some(reader.varint()?).filter(|&frames| frames > 0);
        streams.push(StreamSummary {
            kind,
            codec,
            width,
            height,
            num_frames,
            is_default: flags & 0x80 != 0,
        });
    }
    Some(streams)
}

fn put_packets(out: &mut Vec<u8>, index: &VideoIndex) {
    let packets = &index.packets;
    write_varint(out, packets.len() as u64);
    let mut put = |value: &mut dyn FnMut(&PacketRecord) -> i64| {
        delta_column::write_column(out, &packets.iter().map(value).collect::<Vec<_>>());
    };
    put(&mut |p| p.flags.into());
    put(&mut |p| p.size.into());
    put(&mut |p| p.dts);
    put(&mut |p| p.order.wrapping_sub(p.dts));
    if index.direct {
        let mut end = 0u64;
        put(&mut |p| {
            let gap = p.offset.wrapping_sub(end);
            end = p.offset.wrapping_add(p.size.into());
            gap as i64
        });
    }
}

fn packets(
    reader: &mut VarintReader<'_>,
    direct: bool,
    site: &Site,
    limits: &Limits,
) -> Option<Vec<PacketRecord>> {
    let count = usize::try_from(reader.varint().filter(|&n| n <= limits.packets)?).ok()?;
    check_index_allocatable(site, count).ok()?;
    let mut next = || delta_column::read_column(reader, count);
    let (flags, sizes, dts, order) = (next()?, next()?, next()?, next()?);
    let gaps = if direct { next()? } else { Vec::new() };
    let mut packets = Vec::with_capacity(count);
    let mut end = 0u64;
    for n in 0..count {
        // A packet that is too large causes an error only when it is read, and does not affect the
        // others, as without a cache.
        let size = u32::try_from(sizes[n]).ok()?;
        let offset = if direct {
            end.wrapping_add(gaps[n] as u64)
        } else {
            0
        };
        end = offset
            .checked_add(size.into())
            .filter(|&end| end <= i64::MAX as u64)?;
        let flags = u32::try_from(flags[n]).ok()?;
        packets.push(PacketRecord {
            offset,
            order: order[n].wrapping_add(dts[n]),
            dts: dts[n],
            size,
            flags,
        });
    }
    Some(packets)
}

fn put_frames(out: &mut Vec<u8>, index: &VideoIndex) {
    write_varint(out, index.frames.len() as u64);
    write_signed_varint(out, index.end_pts);
    delta_column::write_column(
        out,
        &index
            .frames
            .iter()
            .map(|f| f.packet.0.into())
            .collect::<Vec<_>>(),
    );
    // Usually equal to the value that defines the presentation order.
    let behind = |f: &FrameRecord| {
        f.pts.wrapping_sub(
            index
                .packets
                .get(f.packet.as_usize())
                .map_or(0, |p| p.order),
        )
    };
    delta_column::write_column(out, &index.frames.iter().map(behind).collect::<Vec<_>>());
}

fn frames(
    reader: &mut VarintReader<'_>,
    packets: &[PacketRecord],
) -> Option<(Vec<FrameRecord>, i64)> {
    let count = usize::try_from(reader.varint()?)
        .ok()
        .filter(|n| (1..=packets.len()).contains(n))?;
    let end_pts = reader.signed_varint()?;
    let (numbers, behind) = (
        delta_column::read_column(reader, count)?,
        delta_column::read_column(reader, count)?,
    );
    let mut frames: Vec<FrameRecord> = Vec::with_capacity(count);
    for (number, behind) in numbers.into_iter().zip(behind) {
        let packet = DecodeIndex(u32::try_from(number).ok()?);
        let pts = behind.wrapping_add(packets.get(packet.as_usize())?.order);
        if frames.last().is_some_and(|before| before.pts > pts) {
            return None;
        }
        frames.push(FrameRecord { packet, pts });
    }
    // Durations are computed as differences of these.
    let length = end_pts.checked_sub(frames[0].pts)?;
    (length >= 0 && end_pts >= frames[count - 1].pts).then_some((frames, end_pts))
}

#[cfg(test)]
mod tests;
