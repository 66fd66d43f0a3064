//! Determines which packets of a decode range the decoder needs, from one pass over their headers.
//! Uses the references between pictures if they can be parsed, or each packet's `Dependency` if
//! that skips more. Does not analyze ranges so long that reading them twice takes noticeable time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::codecs::disposable::{Dependency, DependencyParser};
use crate::codecs::parameter_sets::replaces_parameter_sets;
use crate::codecs::references::ReferenceGraph;
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::error::Result;
use crate::ffmpeg::Packet;
use crate::index::{PacketRecord, VideoIndex};
use crate::source::check_interrupt;
use crate::units::DecodeIndex;

/// Longer ranges are not analyzed. Within these limits, the packets are usually still in the page
/// cache when they are sent to the decoder, and the first frame is not delayed for long.
const MAX_ANALYZED_PACKETS: u32 = 2048;
const MAX_ANALYZED_BYTES: u64 = 64 << 20;

/// With fewer unwanted packets than this, there is nothing to gain.
const MIN_UNWANTED_PACKETS: usize = 4;

/// Up to this many unneeded bytes are read together with the packets around them, instead of being
/// skipped by a second read.
const MAX_GAP_BYTES: u64 = 16 << 10;

/// More bytes than one read can fetch.
const MAX_READ_BYTES: u64 = 512 << 10;

/// Which packets of a decode range the decoder needs, known before the first packet is sent.
pub(super) struct SkipMap {
    start: u32,
    needed: Vec<bool>,
}

impl SkipMap {
    /// Analyzes a decode range. Returns `None` if that is not worthwhile or a packet could not be
    /// read.
    pub(super) fn build(
        index: &VideoIndex,
        range: &DecodeRange,
        reader: &mut PacketReader,
    ) -> Result<Option<Self>> {
        let packets = &index.packets[range.start.as_usize()..=range.end.as_usize()];
        let bytes: u64 = packets.iter().map(|p| u64::from(p.size)).sum();
        let is_long = range.packets() > MAX_ANALYZED_PACKETS || bytes > MAX_ANALYZED_BYTES;
        // A `ReferenceGraph` cannot follow parameter sets that change.
        if !index.direct
            || index.changes_parameters
            || is_long
            || packets.len() < range.wanted.len() + MIN_UNWANTED_PACKETS
        {
            return Ok(None);
        }
        let Some(graph) = ReferenceGraph::new(&index.info.params) else {
            return Ok(None);
        };
        let Some(headers) =
            RangeHeaders::read(index, (range.start, range.end), Some(graph), reader)?
        else {
            return Ok(None);
        };
        let places: Vec<usize> = range
            .wanted
            .iter()
            .map(|wanted| wanted.as_usize() - range.start.as_usize())
            .collect();
        Ok(Some(Self {
            start: range.start.0,
            needed: headers.needed_for(packets, &places),
        }))
    }

    /// Whether packet `at` need not be sent to the decoder.
    pub(super) fn skips(&self, at: DecodeIndex) -> bool {
        !self.needed[(at.0 - self.start) as usize]
    }

    /// The last packet that is worth reading together with packet `at`.
    pub(super) fn last_to_read_with(&self, index: &VideoIndex, at: DecodeIndex) -> DecodeIndex {
        let mut last = at.0;
        let (mut all, mut between) = (0, 0);
        for (n, _) in self
            .needed
            .iter()
            .enumerate()
            .skip((at.0 - self.start) as usize + 1)
        {
            let next = DecodeIndex(self.start + n as u32);
            let size = u64::from(index.packets[next.as_usize()].size);
            (all, between) = (
                all + size,
                if self.skips(next) { between + size } else { 0 },
            );
            if between > MAX_GAP_BYTES || all > MAX_READ_BYTES {
                break;
            }
            if between == 0 {
                last = next.0;
            }
        }
        DecodeIndex(last)
    }
}

/// What the headers of consecutive packets say about their pictures. The first packet is a random
/// access point.
struct RangeHeaders {
    dependencies: Vec<Dependency>,
    highest_layer: u8,
    graph: Option<ReferenceGraph>,
}

impl RangeHeaders {
    /// Reads the packets from `first` to `last`. Returns `None` if a packet cannot be read or
    /// changes parameter sets.
    fn read(
        index: &VideoIndex,
        (first, last): (DecodeIndex, DecodeIndex),
        mut graph: Option<ReferenceGraph>,
        reader: &mut PacketReader,
    ) -> Result<Option<Self>> {
        let mut parser = DependencyParser::new(&index.info.params);
        let mut dependencies = Vec::with_capacity((last.0 - first.0) as usize + 1);
        let mut packet = Packet::new();
        for at in (first.0..=last.0).map(DecodeIndex) {
            check_interrupt()?;
            // A packet that cannot be read is reported as an error when it is processed.
            if reader
                .read_with_prefetch(at, at == first, last, &mut packet)
                .is_err()
            {
                return Ok(None);
            }
            // `RangeState::read` reports what is wrong with it.
            if replaces_parameter_sets(&index.info.params, packet.data()) {
                return Ok(None);
            }
            if let Some(graph) = &mut graph {
                graph.push(packet.data());
            }
            dependencies.push(parser.parse(packet.data()));
        }
        Ok(Some(Self {
            dependencies,
            highest_layer: parser.highest_layer(),
            graph,
        }))
    }

    /// Which of these first packets are needed for the pictures at `places`, in ascending order.
    fn needed_for(&self, packets: &[PacketRecord], places: &[usize]) -> Vec<bool> {
        let mut kept: Vec<bool> = packets
            .iter()
            .map(|p| p.is_sync() || p.is_second_field())
            .collect();
        kept[0] = true;
        places.iter().for_each(|&place| kept[place] = true);
        let places: Vec<usize> = (0..kept.len()).filter(|&n| kept[n]).collect();
        apply_dependencies(
            &self.dependencies[..kept.len()],
            self.highest_layer,
            &mut kept,
        );
        let size = |needed: &[bool]| needed.iter().filter(|&&f| f).count();
        let from_graph = self
            .graph
            .as_ref()
            .and_then(|graph| graph.required_for(&places))
            .map(|mut needed| {
                needed.truncate(packets.len());
                needed
            });
        from_graph
            .filter(|needed| size(needed) < size(&kept))
            .unwrap_or(kept)
    }
}

/// Counts the frames that the CPU decodes for decode ranges of one video, without decoding them. It
/// reads each group of pictures once.
pub struct DecodedFrames {
    index: Arc<VideoIndex>,
    reader: PacketReader,
    /// Whether packets may be skipped.
    can_skip: bool,
    /// By the first packet of a group of pictures; `None` where the headers are unknown.
    headers: HashMap<u32, Option<RangeHeaders>>,
    /// Packets without a wanted picture in the groups of pictures whose headers are known.
    unwanted: u64,
    /// Those of them that are decoded nevertheless.
    unwanted_decoded: u64,
}

impl DecodedFrames {
    /// Reads from this reader.
    pub fn new(reader: PacketReader) -> Self {
        let index = reader.index().clone();
        let params = &index.info.params;
        let may_skip = ReferenceGraph::new(params).is_some()
            || DependencyParser::new(params).may_have_disposable();
        let can_skip = may_skip && !index.changes_parameters;
        Self {
            index,
            reader,
            can_skip,
            headers: HashMap::new(),
            unwanted: 0,
            unwanted_decoded: 0,
        }
    }

    /// The number of frames. `max_bytes` is what may be read, and is reduced by what is read: of
    /// other groups of pictures, the share of decoded packets is that of the known ones, or 1.
    ///
    /// # Errors
    /// That of an interrupt.
    pub fn count(&mut self, ranges: &[DecodeRange], max_bytes: &mut u64) -> Result<f64> {
        let index = self.index.clone();
        let mut frames = 0.0;
        for range in ranges {
            let between = |&&start: &&u32| start > range.start.0 && start <= range.end.0;
            let mut starts: Vec<u32> = vec![range.start.0];
            starts.extend(index.sync_points.iter().filter(between));
            for (n, &start) in starts.iter().enumerate() {
                let end = starts.get(n + 1).map_or(range.end.0, |next| next - 1);
                let first = range.wanted.partition_point(|at| at.0 < start);
                let wanted = &range.wanted[first..range.wanted.partition_point(|at| at.0 <= end)];
                let places: Vec<usize> = wanted.iter().map(|at| (at.0 - start) as usize).collect();
                let packets = &index.packets[start as usize..=end as usize];
                let one_each = |needed: &[bool]| {
                    packets
                        .iter()
                        .zip(needed)
                        .filter(|(p, needed)| **needed && !p.is_second_field())
                        .count()
                };
                let all = one_each(&vec![true; packets.len()]);
                if !self.can_skip {
                    frames += all as f64;
                    continue;
                }
                if !self.headers.contains_key(&start) {
                    let known = self.read(start, max_bytes)?;
                    self.headers.insert(start, known);
                }
                let others = all.saturating_sub(places.len());
                let known = self.headers[&start]
                    .as_ref()
                    .filter(|h| h.dependencies.len() >= packets.len());
                match known.map(|headers| one_each(&headers.needed_for(packets, &places))) {
                    Some(decoded) => {
                        self.unwanted += others as u64;
                        self.unwanted_decoded += decoded.saturating_sub(places.len()) as u64;
                        frames += decoded as f64;
                    }
                    None => {
                        let share = self.unwanted_decoded as f64 / self.unwanted.max(1) as f64;
                        let share = if self.unwanted == 0 { 1.0 } else { share };
                        frames += places.len() as f64 + share * others as f64;
                    }
                }
            }
        }
        Ok(frames)
    }

    /// Reads the headers of the group of pictures that begins at this packet.
    fn read(&mut self, start: u32, max_bytes: &mut u64) -> Result<Option<RangeHeaders>> {
        let (index, next) = (
            &self.index,
            self.index.sync_points.partition_point(|&at| at <= start),
        );
        let end = index
            .sync_points
            .get(next)
            .copied()
            .unwrap_or(index.packets.len() as u32);
        let bytes = index.packets[start as usize..end as usize]
            .iter()
            .map(|p| u64::from(p.size))
            .sum();
        let Some(left) = max_bytes.checked_sub(bytes) else {
            return Ok(None);
        };
        *max_bytes = left;
        let graph = ReferenceGraph::new(&index.info.params);
        RangeHeaders::read(
            index,
            (DecodeIndex(start), DecodeIndex(end - 1)),
            graph,
            &mut self.reader,
        )
    }
}

/// Keeps all packets except disposable pictures of the highest layer that is still needed after
/// them, and packets of higher layers.
fn apply_dependencies(dependencies: &[Dependency], highest_layer: u8, kept: &mut [bool]) {
    let mut highest = 0;
    for (dependency, kept) in dependencies.iter().zip(kept).rev() {
        let (layer, droppable) = match *dependency {
            Dependency::Disposable { layer } => (layer, layer >= highest),
            Dependency::Reference { layer } => (layer, layer > highest),
            Dependency::Unknown => (highest_layer, false),
        };
        *kept |= !droppable;
        if *kept {
            highest = highest.max(layer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dependency::{Disposable, Reference, Unknown};

    fn kept(dependencies: &[Dependency], highest_layer: u8, wanted: &[usize]) -> Vec<usize> {
        let mut kept: Vec<bool> = (0..dependencies.len())
            .map(|n| wanted.contains(&n))
            .collect();
        apply_dependencies(dependencies, highest_layer, &mut kept);
        (0..kept.len()).filter(|&n| kept[n]).collect()
    }

    #[test]
    fn top_layer_disposables_are_skipped() {
        let (base, middle, top) = (
            Reference { layer: 0 },
            Reference { layer: 1 },
            Disposable { layer: 2 },
        );
        let dependencies = [base, middle, top, top, base, middle, top, base];
        assert_eq!(kept(&dependencies, 2, &[7]), [0, 4, 7]);
        assert_eq!(kept(&dependencies, 2, &[5]), [0, 1, 4, 5, 7]);
        assert_eq!(kept(&dependencies, 2, &[3]), [0, 1, 3, 4, 7]);
        let leaf = Disposable { layer: 0 };
        assert_eq!(
            kept(&[base, leaf, top], 2, &[2]),
            [0, 1, 2],
            "a higher layer may refer to it"
        );
        assert_eq!(
            kept(&[base, leaf, Unknown], 2, &[]),
            [0, 1, 2],
            "and who knows what this one is"
        );
    }

    #[test]
    fn small_gaps_are_read_with_their_surroundings() {
        let mut index =
            VideoIndex::synthetic(&(0..8).map(|n| (n, n == 0, true)).collect::<Vec<_>>());
        index.packets.iter_mut().for_each(|p| p.size = 10_000);
        let needed = [true, true, false, true, false, false, true, true].to_vec();
        let skip_map = SkipMap { start: 0, needed };
        let to: Vec<u32> = [0, 1, 3, 6, 7]
            .map(|n| skip_map.last_to_read_with(&index, DecodeIndex(n)).0)
            .to_vec();
        assert_eq!(to, [3, 3, 3, 7, 7]);
        assert!(skip_map.skips(DecodeIndex(2)) && !skip_map.skips(DecodeIndex(3)));
    }
}
