//! Builds the index of an image file or an image sequence: one packet per file, which spans the
//! whole file. Only the header of the first file is read.

use std::sync::OnceLock;

use super::{FRAME, FrameRecord, NO_TIME, PacketRecord, SYNC, VideoIndex};
use crate::error::{Error, Result, Site};
use crate::image::{self, ImageHeader};
use crate::limits::Limits;
use crate::media::{Codec, CodecParams, ColorTags, StreamInfo, StreamKind, StreamSummary};
use crate::source::{ByteSource, FileSource, ImageSequenceSource};
use crate::units::{DecodeIndex, TimeBase};

/// Builds the index of an image file: a video of one frame.
///
/// # Errors
/// Those of [`image::read_header`]; `Limit` for a file larger than the packet size limit.
pub fn index_file(source: &dyn ByteSource, limits: &Limits) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    // Checked before the search for the header, whose duration depends on the file's size.
    Limits::check(
        &site,
        "bytes of an image file",
        source.len(),
        limits.packet_bytes,
    )?;
    let header = image::read_header(source, limits)?;
    let whole = [(0, source.len())];
    build_index(
        site,
        &header,
        whole.into_iter(),
        TimeBase::new(1, 1).expect("not zero"),
        limits,
    )
}

/// Builds the index of an image sequence, with the size and orientation of the first one.
///
/// # Errors
/// As [`index_file`], for the first frame; `Limit` for too many or too large files; `Argument` for
/// a frame rate of zero.
pub fn index_image_sequence(
    source: &ImageSequenceSource,
    (num, den): (u32, u32),
    limits: &Limits,
) -> Result<VideoIndex> {
    let site = Site::file(source.name());
    let time_base = TimeBase::new(den, num).ok_or_else(|| {
        Error::Argument(format!(
            "an image sequence at {num}/{den} frames per second"
        ))
    })?;
    let first = source
        .file_path(0)
        .ok_or_else(|| Error::malformed(&site, "an image sequence without frames"))?;
    let header = image::read_header(&FileSource::open(&first)?, limits)?;
    if let Some((number, (_, len))) = source
        .file_spans()
        .enumerate()
        .find(|(_, part)| part.1 > limits.packet_bytes)
    {
        let site = Site::file(&source.name_of_file(number));
        Limits::check(&site, "bytes of an image file", len, limits.packet_bytes)?;
    }
    build_index(site, &header, source.file_spans(), time_base, limits)
}

fn build_index(
    site: Site,
    header: &ImageHeader,
    parts: impl Iterator<Item = (u64, u64)>,
    time_base: TimeBase,
    limits: &Limits,
) -> Result<VideoIndex> {
    let packet = |(number, (offset, len)): (i64, (u64, u64))| {
        let len = Limits::check(&site, "bytes of an image file", len, limits.packet_bytes)?;
        // The limit is far below 4 GiB.
        Ok(PacketRecord {
            offset,
            order: number,
            dts: NO_TIME,
            size: len as u32,
            flags: SYNC | FRAME,
        })
    };
    let packets: Vec<PacketRecord> = (0..).zip(parts).map(packet).collect::<Result<_>>()?;
    Limits::check(
        &site,
        "frames of an image sequence",
        packets.len() as u64,
        limits.packets,
    )?;
    let frames = |n: usize| FrameRecord {
        packet: DecodeIndex(n as u32),
        pts: n as i64,
    };
    let name = header.format.name().to_lowercase();
    let params = CodecParams {
        codec: Codec {
            id: 0,
            name: name.clone(),
            is_image: true,
        },
        tag: 0,
        extradata: Vec::new(),
        width: header.width,
        height: header.height,
        bits_per_coded_sample: 0,
        color: ColorTags::default(),
        reorder: None,
    };
    let info = StreamInfo {
        stream: 0,
        params,
        time_base,
        orientation: header.orientation,
        sample_aspect: None,
        frame_rate: None,
    };
    let stream = StreamSummary {
        kind: StreamKind::Video,
        codec: name.clone(),
        width: header.width,
        height: header.height,
        num_frames: Some(packets.len() as u64),
        is_default: true,
    };
    Ok(VideoIndex {
        container: if packets.len() == 1 {
            name
        } else {
            format!("image sequence of {name}")
        },
        end_pts: packets.len() as i64,
        frames: (0..packets.len()).map(frames).collect(),
        sync_points: (0..packets.len() as u32).collect(),
        packets,
        site,
        info,
        streams: vec![stream],
        direct: true,
        in_band_headers: Vec::new(),
        new_extradata: Vec::new(),
        alternative_transfer: None,
        damaged_units: 0,
        changes_parameters: false,
        first_field: OnceLock::new(),
        cpu_only: OnceLock::new(),
    })
}
