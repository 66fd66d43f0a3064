//! Measures what random access to a video costs and how its pictures depend on each other.
//! Reads every packet and decodes none: the costs are what the planner and the decoders would do.
//! A picture counts as skippable only if the decoders would skip it.

use super::Video;
use crate::error::Result;
use crate::ffmpeg::Packet;
use crate::index::access::Access;
use crate::index::roles::{Role, Roles};
use crate::plan;
use crate::units::{DecodeIndex, DisplayIndex};

/// Number of clip starts at which the cost is measured, evenly spaced over the video.
const STARTS: u32 = 64;

/// Result of probing a video.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Disposable pictures: no other picture depends on them, so they are decoded only where they are wanted.
    pub skippable: u32,
    /// Pictures that precede, in presentation order, one that is earlier in decode order (usually B-frames).
    pub reordered: u32,
    /// Number of packets from each random access point to the next, in ascending order.
    pub groups: Vec<u32>,
    /// Bytes of all packets.
    pub packet_bytes: u64,
    /// NVDEC's name of the codec, or the reason for a fallback to the CPU.
    pub nvdec: Result<String, String>,
    /// Mean cost of a clip over the measured starts: pictures decoded, and bytes read. `None` if the video is
    /// shorter than a clip.
    pub clip: Option<(f64, f64)>,
}

impl Video {
    /// Probes the video. The costs are those of a clip of `frames` frames, `stride` apart.
    ///
    /// # Errors
    /// Any error from reading packets or `interrupt`.
    pub fn probe(&self, frames: u32, stride: u32, interrupt: &dyn Fn() -> Result<()>) -> Result<Probe> {
        let index = &self.index;
        let count = index.packets.len() as u32;
        let mut roles =
            Some(Roles::new(&index.info.params)).filter(|r| r.can_drop() && !index.changes_parameters);
        let mut spared = vec![false; index.packets.len()];
        let mut reader = self.reader();
        let mut packet = Packet::new();
        if let Some(roles) = &mut roles {
            for at in 0..count {
                interrupt()?;
                reader.read_towards(
                    DecodeIndex(at),
                    false,
                    DecodeIndex(count - 1),
                    &mut packet,
                    interrupt,
                )?;
                let role = roles.role(packet.data());
                let record = &index.packets[at as usize];
                let leaf = matches!(role, Role::Leaf { layer } if layer >= roles.highest_layer());
                spared[at as usize] = leaf && !record.is_start() && !record.is_part();
            }
        }
        let shown = index.packets.iter().filter(|record| record.is_frame());
        let reordered = shown.scan(i64::MIN, |latest, record| {
            let late = record.order < *latest;
            *latest = record.order.max(*latest);
            Some(u32::from(late))
        });
        let mut groups: Vec<u32> = index.starts.windows(2).map(|two| two[1] - two[0]).collect();
        groups.extend(index.starts.last().map(|last| count - last));
        groups.sort_unstable();
        Ok(Probe {
            skippable: spared.iter().map(|&spared| u32::from(spared)).sum(),
            reordered: reordered.sum(),
            groups,
            packet_bytes: index.packets.iter().map(|record| u64::from(record.size)).sum(),
            nvdec: Access::new(index).map(|access| access.codec.name().to_owned()),
            clip: self.cost(&spared, frames.max(1), stride.max(1)),
        })
    }

    /// Mean number of pictures and bytes of a clip.
    fn cost(&self, spared: &[bool], frames: u32, stride: u32) -> Option<(f64, f64)> {
        let index = &self.index;
        let span = (frames - 1).checked_mul(stride)?.checked_add(1)?;
        let starts = index.num_frames().checked_sub(span)? + 1;
        let looks = STARTS.min(starts);
        let (mut pictures, mut bytes) = (0u64, 0u64);
        for look in 0..looks {
            let first = (u64::from(look) * u64::from(starts) / u64::from(looks)) as u32;
            let wanted: Vec<_> = (0..frames).map(|i| DisplayIndex(first + i * stride)).collect();
            for run in plan::plan_decode_ranges(index, &wanted) {
                for at in run.start.0..=run.end.0 {
                    let wants = run.wanted.binary_search(&DecodeIndex(at)).is_ok();
                    let part = index.packets[at as usize].is_part();
                    pictures += u64::from((wants || !spared[at as usize]) && !part);
                    bytes += u64::from(index.packets[at as usize].size);
                }
            }
        }
        let looks = f64::from(looks);
        Some((pictures as f64 / looks, bytes as f64 / looks))
    }
}
