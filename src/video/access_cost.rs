//! Measures what random access to a video costs and how its pictures depend on each other.
//! Reads every packet and decodes none: the costs are what the planner and the decoders would do.
//! A picture counts as skippable only if the decoders would skip it.

use super::Video;
use crate::codecs::disposable::{Dependency, DependencyParser};
use crate::decode::BitstreamFilter;
use crate::decode::plan;
use crate::error::Result;
use crate::ffmpeg::Packet;
use crate::source::check_interrupt;
use crate::units::{DecodeIndex, PresentationIndex};

/// Number of clip starts at which the cost is measured, evenly spaced over the video.
const MAX_MEASURED_CLIPS: u32 = 64;

/// Result of probing a video.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessCost {
    /// Disposable pictures: no other picture depends on them, so they are decoded only where they
    /// are wanted.
    pub disposable: u32,
    /// Pictures that precede, in presentation order, one that is earlier in decode order (usually
    /// B-frames).
    pub reordered: u32,
    /// Number of packets from each random access point to the next, in ascending order.
    pub gop_sizes: Vec<u32>,
    /// Bytes of all packets.
    pub packet_bytes: u64,
    /// NVDEC's name of the codec, or the reason for a fallback to the CPU.
    pub nvdec: Result<String, String>,
    /// Mean cost of a clip over the measured starts: pictures decoded, and bytes read. `None` if
    /// the video is shorter than a clip.
    pub clip: Option<(f64, f64)>,
}

impl Video {
    /// Probes the video. The costs are those of a clip of `frames` frames, `stride` apart.
    ///
    /// # Errors
    /// Any error from reading packets; that of an interrupt.
    pub fn access_cost(&self, frames: u32, stride: u32) -> Result<AccessCost> {
        let index = &self.index;
        let count = index.packets.len() as u32;
        let mut parser = Some(DependencyParser::new(&index.info.params))
            .filter(|r| index.changes_parameters || r.may_have_disposable());
        let mut skippable = vec![false; index.packets.len()];
        let mut reader = self.reader();
        let mut packet = Packet::new();
        if let Some(parser) = &mut parser {
            for at in 0..count {
                check_interrupt()?;
                reader.read_with_prefetch(
                    DecodeIndex(at),
                    false,
                    DecodeIndex(count - 1),
                    &mut packet,
                )?;
                let dependency = parser.parse(packet.data());
                let record = &index.packets[at as usize];
                let disposable = matches!(dependency, Dependency::Disposable { layer } if layer >= parser.highest_layer());
                skippable[at as usize] =
                    disposable && !record.is_sync() && !record.is_second_field();
            }
        }
        let shown = index.packets.iter().filter(|record| record.is_frame());
        let reordered = shown.scan(i64::MIN, |latest, record| {
            let late = record.order < *latest;
            *latest = record.order.max(*latest);
            Some(u32::from(late))
        });
        let mut gop_sizes: Vec<u32> = index
            .sync_points
            .windows(2)
            .map(|two| two[1] - two[0])
            .collect();
        gop_sizes.extend(index.sync_points.last().map(|last| count - last));
        gop_sizes.sort_unstable();
        Ok(AccessCost {
            disposable: skippable
                .iter()
                .map(|&skippable| u32::from(skippable))
                .sum(),
            reordered: reordered.sum(),
            gop_sizes,
            packet_bytes: index
                .packets
                .iter()
                .map(|record| u64::from(record.size))
                .sum(),
            nvdec: self.nvdec(),
            clip: self.mean_clip_cost(&skippable, frames.max(1), stride.max(1)),
        })
    }

    /// NVDEC's name of the codec. Reads no packet.
    ///
    /// # Errors
    /// The reason for a fallback to the CPU.
    pub fn nvdec(&self) -> Result<String, String> {
        BitstreamFilter::new(&self.index, DecodeIndex(0))
            .map(|filter| filter.codec.name().to_owned())
    }

    /// Mean number of pictures and bytes of a clip.
    fn mean_clip_cost(&self, skippable: &[bool], frames: u32, stride: u32) -> Option<(f64, f64)> {
        let index = &self.index;
        let span = (frames - 1).checked_mul(stride)?.checked_add(1)?;
        let starts = index.num_frames().checked_sub(span)? + 1;
        let measured = MAX_MEASURED_CLIPS.min(starts);
        let (mut pictures, mut bytes) = (0u64, 0u64);
        for clip in 0..measured {
            let first = (u64::from(clip) * u64::from(starts) / u64::from(measured)) as u32;
            let wanted: Vec<_> = (0..frames)
                .map(|i| PresentationIndex(first + i * stride))
                .collect();
            for range in plan::plan_decode_ranges(index, &wanted) {
                for at in range.start.0..=range.end.0 {
                    let wants = range.wanted.binary_search(&DecodeIndex(at)).is_ok();
                    let part = index.packets[at as usize].is_second_field();
                    pictures += u64::from((wants || !skippable[at as usize]) && !part);
                    bytes += u64::from(index.packets[at as usize].size);
                }
            }
        }
        let measured = f64::from(measured);
        Some((pictures as f64 / measured, bytes as f64 / measured))
    }
}
