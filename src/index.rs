//! Defines the video index: packet table, frames in presentation order and random access points of
//! one video. Building it decodes only streams whose headers are not parsed here or do not give the
//! order (see `builder`).

pub mod audio;
mod builder;
pub mod cache;
mod frame_order;
mod frame_times;
pub mod image;
mod in_band_headers;
mod packet_prefixes;

use std::borrow::Cow;
use std::sync::OnceLock;

use framespool_kernels::Field;

use crate::codecs::parameter_sets::parameter_sets_in_band;
use crate::error::{Error, Location, Result, Site};
use crate::ffmpeg::Packet;
use crate::media::{CodecParams, ColorTags, StreamInfo, StreamSummary, list_streams};
use crate::units::{DecodeIndex, PresentationIndex};

pub use builder::{build, build_from_scan, build_stream};

/// Entry of the packet table. 32 bytes, so that an hour of video at 60 frames per second takes 7
/// MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Offset of the payload in the source; 0 unless [`VideoIndex::direct`].
    pub offset: u64,
    /// Presentation order among all packets of the video, including hidden ones: container ticks,
    /// or a counter if the timestamps do not give the order. Comparable only within one video.
    pub order: i64,
    /// Decoding timestamp in container ticks, [`NO_TIME`] if unknown.
    dts: i64,
    /// Payload length in bytes.
    pub size: u32,
    flags: u32,
}

/// Value of a missing timestamp.
pub const NO_TIME: i64 = i64::MIN;

const SYNC: u32 = 1;
const CONTAINER_KEY: u32 = 2;
const FRAME: u32 = 4;
const SECOND_FIELD: u32 = 8;
const CORRUPT: u32 = 16;
const AFTER_GAP: u32 = 32;
const CLOSED: u32 = 64;
const UNPLACED: u32 = 128;
const SHOWS_AGAIN: u32 = 256;

impl PacketRecord {
    /// Decoding that starts here is exact for all frames that are shown at or after this picture.
    pub fn is_sync(&self) -> bool {
        self.flags & SYNC != 0
    }

    /// No later packet refers to anything before it, so decoding from here is exact for its leading
    /// pictures too.
    pub fn is_closed_sync(&self) -> bool {
        self.flags & (SYNC | CLOSED) == SYNC | CLOSED
    }

    /// The container marks it as a keyframe, which may be wrong.
    pub fn container_key(&self) -> bool {
        self.flags & CONTAINER_KEY != 0
    }

    /// Its picture is shown as a frame.
    pub fn is_frame(&self) -> bool {
        self.flags & FRAME != 0
    }

    /// It is the second field of the picture in the preceding packet.
    pub fn is_second_field(&self) -> bool {
        self.flags & SECOND_FIELD != 0
    }

    /// Part of its payload or of its picture is missing or overwritten.
    pub fn is_corrupt(&self) -> bool {
        self.flags & CORRUPT != 0
    }

    /// Its frame may be another one than the index states, because a packet near it is damaged.
    pub fn is_unplaced(&self) -> bool {
        self.flags & UNPLACED != 0
    }

    /// It shows a picture of an earlier packet again.
    pub fn shows_again(&self) -> bool {
        self.flags & SHOWS_AGAIN != 0
    }

    /// Data before it is missing: pictures that refer to earlier ones are not reliable.
    pub fn is_after_gap(&self) -> bool {
        self.flags & AFTER_GAP != 0
    }

    /// Decoding timestamp in container ticks.
    pub fn dts(&self) -> Option<i64> {
        Some(self.dts).filter(|&t| t != NO_TIME)
    }
}

/// A frame that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// Packet from which it is decoded.
    pub packet: DecodeIndex,
    /// Presentation time in ticks.
    pub pts: i64,
}

/// Metadata of one video: everything except the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoIndex {
    /// Name of the source, for error messages.
    pub site: Site,
    /// Container name.
    pub container: String,
    /// Parameters of the stream.
    pub info: StreamInfo,
    /// All streams of the container, by stream index.
    pub streams: Vec<StreamSummary>,
    /// Packets in decode order.
    pub packets: Vec<PacketRecord>,
    /// Frames in presentation order: `frames[i]` is frame *i*.
    pub frames: Vec<FrameRecord>,
    /// End time of the last frame in ticks.
    pub end_pts: i64,
    /// Packets can be read from the source at their offset; otherwise only libavformat can read
    /// them.
    pub direct: bool,
    /// Packets at which decoding may start, ascending.
    pub sync_points: Vec<u32>,
    /// Bytes to send to a decoder that starts at or after a given packet: (first packet, bytes),
    /// ascending.
    pub in_band_headers: Vec<(u32, Vec<u8>)>,
    /// Extradata that replaces that of `info`: (first packet, extradata), ascending.
    pub new_extradata: Vec<(u32, Vec<u8>)>,
    /// `TransferCharacteristics` that an SEI message of H.264 or HEVC states in the codec
    /// configuration or the first packet, in place of those of the SPS.
    pub alternative_transfer: Option<u8>,
    /// Number of damaged container units that were skipped and of packets with missing parts;
    /// frames may be missing there.
    pub damaged_units: u32,
    /// Headers change within the stream: a decoder that has decoded one part must not be reused for
    /// another.
    pub changes_parameters: bool,
    /// The field of interlaced frames that is shown first; `None` if the frames have no fields or
    /// their order is unknown. Not part of the stored index: `PacketReader::load_first_field` reads
    /// it, and only deinterlacing needs it.
    pub first_field: OnceLock<Option<Field>>,
    /// The error by which the GPU has refused something in the video, has reported damage or has
    /// confused pictures: only the CPU decodes the video from then on, since of later damage the GPU
    /// may report less. Not part of the stored index.
    pub cpu_only: OnceLock<Error>,
}

impl VideoIndex {
    /// Number of frames.
    pub fn num_frames(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Checks that this is the index of the requested stream; an image index is built without a
    /// requested stream.
    ///
    /// # Errors
    /// `NotVideo` if another stream was requested.
    pub fn check_stream(&self, wanted: Option<u32>) -> Result<()> {
        match wanted.filter(|&wanted| wanted != self.info.stream) {
            None => Ok(()),
            Some(stream) => {
                let streams = list_streams(&self.streams);
                Err(Error::NotVideo {
                    site: self.site.clone(),
                    stream,
                    streams,
                })
            }
        }
    }

    /// The color description of a frame, given that of its decoder.
    pub fn color_of_frame(&self, of_decoder: ColorTags) -> ColorTags {
        ColorTags {
            transfer: self.alternative_transfer.unwrap_or(of_decoder.transfer),
            ..of_decoder
        }
    }

    /// Resolves a frame number; negative numbers count from the end.
    pub fn resolve(&self, index: i64) -> Result<PresentationIndex> {
        let frames = self.num_frames();
        let absolute = if index < 0 {
            index.saturating_add(i64::from(frames))
        } else {
            index
        };
        u32::try_from(absolute)
            .ok()
            .filter(|&i| i < frames)
            .map(PresentationIndex)
            .ok_or_else(|| Error::FrameIndex {
                site: self.site.clone(),
                index,
                frames,
            })
    }

    /// Returns the packet at which decoding must start so that `frame` is exact: the latest start
    /// at or before its packet that is closed or not shown after it. An open start that is shown
    /// after the frame does not qualify: the frame is one of its leading pictures and may refer to
    /// pictures before it.
    pub fn sync_point_for(&self, frame: PresentationIndex) -> DecodeIndex {
        let packet = self.frames[frame.as_usize()].packet;
        let order = self.packets[packet.as_usize()].order;
        let before = &self.sync_points[..self.sync_points.partition_point(|&s| s <= packet.0)];
        let serves = |start: &PacketRecord| start.is_closed_sync() || start.order <= order;
        let start = before.iter().rfind(|&&s| serves(&self.packets[s as usize]));
        // Decodable leading pictures of the first start are decoded from that start.
        DecodeIndex(start.or(before.first()).copied().unwrap_or(0))
    }

    /// Returns the bytes to send to the decoder before packet `at` when decoding starts there.
    pub fn headers_before(&self, at: DecodeIndex) -> &[u8] {
        let after = self.in_band_headers.partition_point(|p| p.0 <= at.0);
        after
            .checked_sub(1)
            .map_or(&[], |i| &self.in_band_headers[i].1)
    }

    /// Number of times that the extradata changed up to packet `at`.
    pub(crate) fn extradata_changes(&self, at: DecodeIndex) -> usize {
        self.new_extradata
            .partition_point(|change| change.0 <= at.0)
    }

    /// Whether the extradata change at packet `at`.
    pub(crate) fn changes_extradata_at(&self, at: DecodeIndex) -> bool {
        self.new_extradata
            .binary_search_by_key(&at.0, |change| change.0)
            .is_ok()
    }

    /// Returns the parameter sets that a decoder which has decoded the packets before `at` must
    /// receive with it.
    pub(crate) fn parameter_sets_at(&self, at: DecodeIndex) -> Vec<u8> {
        match self.changes_extradata_at(at) {
            true => parameter_sets_in_band(&self.params_at(at)),
            false => Vec::new(),
        }
    }

    /// Returns the codec parameters in force at packet `at`.
    pub fn params_at(&self, at: DecodeIndex) -> Cow<'_, CodecParams> {
        let change = self
            .extradata_changes(at)
            .checked_sub(1)
            .map(|n| &self.new_extradata[n]);
        in_band_headers::with_extradata(&self.info.params, change)
    }

    /// Returns the last packet to send for `packet`'s picture: the packet itself, or that of its
    /// second field.
    pub fn last_packet_of_picture(&self, packet: DecodeIndex) -> DecodeIndex {
        let parts = self.packets[packet.as_usize() + 1..]
            .iter()
            .take_while(|p| p.is_second_field())
            .count();
        DecodeIndex(packet.0 + parts as u32)
    }

    /// Returns the packet of a picture's frame: the packet itself or, for a second field, that of
    /// the first.
    pub fn first_packet_of_picture(&self, packet: DecodeIndex) -> DecodeIndex {
        let is_second = self.packets[packet.as_usize()].is_second_field();
        DecodeIndex(packet.0 - u32::from(is_second))
    }

    /// Returns the presentation time of a frame in ticks.
    pub fn pts(&self, frame: PresentationIndex) -> i64 {
        self.frames[frame.as_usize()].pts
    }

    /// Returns the end time of a frame in ticks: the next frame's time, or the end of the video.
    pub fn end_pts_of(&self, frame: PresentationIndex) -> i64 {
        self.frames
            .get(frame.as_usize() + 1)
            .map_or(self.end_pts, |f| f.pts)
    }

    /// Returns the presentation time of a frame in seconds.
    pub fn pts_seconds(&self, frame: PresentationIndex) -> f64 {
        self.info.time_base.seconds(self.pts(frame))
    }

    /// Returns the duration of a frame in seconds, rounded once from ticks.
    pub fn duration_seconds(&self, frame: PresentationIndex) -> f64 {
        self.info
            .time_base
            .seconds(self.end_pts_of(frame) - self.pts(frame))
    }

    /// Returns the presentation time of the first frame in seconds.
    pub fn begin_seconds(&self) -> f64 {
        self.info
            .time_base
            .seconds(self.frames.first().map_or(0, |f| f.pts))
    }

    /// Returns the end time of the last frame in seconds.
    pub fn end_seconds(&self) -> f64 {
        self.info.time_base.seconds(self.end_pts)
    }

    /// Returns the frames per second over the whole video; 0 for a single frame of unknown
    /// duration.
    pub fn average_fps(&self) -> f64 {
        let seconds = self
            .info
            .time_base
            .seconds(self.end_pts - self.frames.first().map_or(0, |f| f.pts));
        if seconds > 0.0 {
            f64::from(self.num_frames()) / seconds
        } else {
            0.0
        }
    }

    /// Returns the frame shown at `seconds`: frame *i* is shown during [pts_i, pts_{i+1}).
    pub fn frame_at(&self, seconds: f64) -> Result<PresentationIndex> {
        let base = self.info.time_base;
        let outside = || Error::FrameTime {
            site: self.site.clone(),
            seconds,
            begin: self.begin_seconds(),
            end: self.end_seconds(),
        };
        if seconds.is_nan() || seconds >= self.end_seconds() {
            return Err(outside());
        }
        // Compares each frame's own time in seconds, so that frame_at(pts_seconds(i)) is i
        // regardless of rounding.
        let after = self
            .frames
            .partition_point(|f| base.seconds(f.pts) <= seconds);
        after
            .checked_sub(1)
            .map(|i| PresentationIndex(i as u32))
            .ok_or_else(outside)
    }

    /// Presentation indices of the frames at which decoding can start, ascending.
    pub fn key_frames(&self) -> Vec<PresentationIndex> {
        (0..self.num_frames())
            .map(PresentationIndex)
            .filter(|f| self.packets[self.frames[f.as_usize()].packet.as_usize()].is_sync())
            .collect()
    }

    /// Whether a packet that libavformat read is packet `at`.
    pub(crate) fn matches(&self, at: DecodeIndex, packet: &Packet) -> bool {
        let Some(record) = self.packets.get(at.as_usize()) else {
            return false;
        };
        record.size as usize == packet.data().len()
            && (record.dts() == packet.dts() || packet.dts().is_none())
    }

    /// Returns all packets that match a packet read by libavformat.
    pub(crate) fn find(&self, packet: &Packet) -> Vec<u32> {
        (0..self.packets.len() as u32)
            .filter(|&n| self.matches(DecodeIndex(n), packet))
            .collect()
    }

    /// Approximate memory use in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.packets.len() * size_of::<PacketRecord>()
            + self.frames.len() * size_of::<FrameRecord>()
            + self.info.params.extradata.len()
            + self
                .streams
                .iter()
                .map(|s| size_of::<StreamSummary>() + s.codec.len())
                .sum::<usize>()
            + self.sync_points.len() * size_of::<u32>()
            + [&self.in_band_headers, &self.new_extradata]
                .iter()
                .flat_map(|list| list.iter())
                .map(|(_, bytes)| size_of::<(u32, Vec<u8>)>() + bytes.len())
                .sum::<usize>()
    }

    /// Site of a packet, for error messages.
    pub fn site_of_packet(&self, at: DecodeIndex) -> Site {
        let offset = self
            .packets
            .get(at.as_usize())
            .filter(|_| self.direct)
            .map(|p| p.offset);
        self.site.with(Location::Packet(at.0, offset))
    }

    /// Site of a frame, for error messages.
    pub fn site_of(&self, frame: PresentationIndex) -> Site {
        self.site.with(Location::Frame(frame.0))
    }
}

#[cfg(test)]
impl VideoIndex {
    /// A test index: (presentation order, start?, shown?) of each packet in decode order; one tick
    /// per frame.
    pub(crate) fn synthetic(packets: &[(i64, bool, bool)]) -> Self {
        use crate::media::{Codec, ColorTags, DisplayOrientation};
        let site = Site::file(&"sketch".into());
        let record = |&(order, start, frame): &(i64, bool, bool)| PacketRecord {
            offset: 0,
            order,
            dts: NO_TIME,
            size: 1,
            flags: if start { SYNC } else { 0 } | if frame { FRAME } else { 0 },
        };
        let mut shown: Vec<u32> = (0..packets.len() as u32)
            .filter(|&n| packets[n as usize].2)
            .collect();
        shown.sort_by_key(|&n| packets[n as usize].0);
        let frame = |(i, &n): (usize, &u32)| FrameRecord {
            packet: DecodeIndex(n),
            pts: i as i64,
        };
        let codec = Codec {
            id: 0,
            name: "none".into(),
            is_image: false,
        };
        let color = ColorTags::default();
        let params = CodecParams {
            codec,
            tag: 0,
            extradata: Vec::new(),
            width: 1,
            height: 1,
            bits_per_coded_sample: 0,
            color,
            reorder: None,
        };
        let time_base = crate::units::TimeBase::new(1, 10).expect("not zero");
        Self {
            site,
            container: "sketch".into(),
            info: StreamInfo {
                stream: 0,
                params,
                time_base,
                orientation: DisplayOrientation::default(),
                sample_aspect: None,
                frame_rate: None,
            },
            streams: Vec::new(),
            packets: packets.iter().map(record).collect(),
            end_pts: shown.len() as i64,
            frames: shown.iter().enumerate().map(frame).collect(),
            direct: true,
            sync_points: (0..packets.len() as u32)
                .filter(|&n| packets[n as usize].1)
                .collect(),
            in_band_headers: Vec::new(),
            new_extradata: Vec::new(),
            alternative_transfer: None,
            damaged_units: 0,
            changes_parameters: false,
            first_field: OnceLock::new(),
            cpu_only: OnceLock::new(),
        }
    }

    /// The same index with data missing before a packet.
    pub(crate) fn with_gap_before(mut self, packet: u32) -> Self {
        self.packets[packet as usize].flags |= AFTER_GAP;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I0 P3 B1 B2, then an open GOP: I6 with its leading pictures B4 B5, then P7.
    fn open_gop() -> VideoIndex {
        let start = |order| (order, true, true);
        let shown = |order| (order, false, true);
        VideoIndex::synthetic(&[
            start(0),
            shown(3),
            shown(1),
            shown(2),
            start(6),
            shown(4),
            shown(5),
            shown(7),
        ])
    }

    #[test]
    fn leading_picture_needs_the_previous_keyframe() {
        let index = open_gop();
        let starts: Vec<u32> = (0..8)
            .map(|f| index.sync_point_for(PresentationIndex(f)).0)
            .collect();
        assert_eq!(starts, [0, 0, 0, 0, 0, 0, 4, 4]);
        assert_eq!(
            index.key_frames(),
            [PresentationIndex(0), PresentationIndex(6)]
        );
    }

    #[test]
    fn decodable_leading_pictures_of_first_keyframe() {
        let cut = [
            (-2, false, false),
            (-1, false, false),
            (3, true, true),
            (1, false, true),
            (2, false, true),
        ];
        let index = VideoIndex::synthetic(&cut);
        let starts: Vec<u32> = (0..3)
            .map(|f| index.sync_point_for(PresentationIndex(f)).0)
            .collect();
        assert_eq!(starts, [2, 2, 2]);
    }

    #[test]
    fn closed_gop_leading_pictures_need_no_previous() {
        let mut index = open_gop();
        index.packets[4].flags |= CLOSED;
        let starts: Vec<u32> = (0..8)
            .map(|f| index.sync_point_for(PresentationIndex(f)).0)
            .collect();
        assert_eq!(starts, [0, 0, 0, 0, 4, 4, 4, 4]);
    }

    #[test]
    fn frame_lasts_until_the_next_or_the_end() {
        let index = open_gop();
        assert_eq!(index.frame_at(0.0).unwrap(), PresentationIndex(0));
        assert_eq!(index.frame_at(0.0999).unwrap(), PresentationIndex(0));
        assert_eq!(index.frame_at(0.1).unwrap(), PresentationIndex(1));
        assert_eq!(index.frame_at(0.79).unwrap(), PresentationIndex(7));
        for outside in [-0.01, 0.8, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(index.frame_at(outside), Err(Error::FrameTime { .. })),
                "{outside}"
            );
        }
        assert_eq!(index.duration_seconds(PresentationIndex(7)), 0.1);
    }

    #[test]
    fn frame_numbers_count_from_both_ends() {
        let index = open_gop();
        assert_eq!(index.resolve(-1).unwrap(), PresentationIndex(7));
        assert_eq!(index.resolve(-8).unwrap(), PresentationIndex(0));
        for wrong in [8, -9, i64::MIN, i64::MAX] {
            assert!(
                matches!(
                    index.resolve(wrong),
                    Err(Error::FrameIndex { frames: 8, .. })
                ),
                "{wrong}"
            );
        }
    }
}
