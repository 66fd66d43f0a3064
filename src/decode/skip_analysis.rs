//! Determines which packets of a decode range the decoder needs, from one pass over their headers.
//! Uses the references between pictures if they can be parsed, or the packets' roles if that skips more.
//! Does not analyze ranges so long that reading them twice takes noticeable time.

use crate::demux::read::PacketReader;
use crate::error::Result;
use crate::ffmpeg::Packet;
use crate::index::links::Links;
use crate::index::params::replaces_sets;
use crate::index::roles::{Role, Roles};
use crate::index::VideoIndex;
use crate::plan::DecodeRange;
use crate::units::DecodeIndex;

/// Longer ranges are not analyzed. Within these limits, the packets are usually still in the page cache when
/// they are sent to the decoder, and the first frame is not delayed for long.
const MAX_PACKETS: u32 = 2048;
const MAX_BYTES: u64 = 64 << 20;

/// With fewer unwanted packets than this, there is nothing to gain.
const FEW: usize = 4;

/// Up to this many unneeded bytes are read together with the packets around them, instead of being skipped by
/// a second read.
const GAP: u64 = 16 << 10;

/// More bytes than one read can fetch.
const REACH: u64 = 512 << 10;

/// Which packets of a decode range the decoder needs, known before the first packet is sent.
pub(super) struct SkipMap {
    start: u32,
    fed: Vec<bool>,
}

impl SkipMap {
    /// Analyzes a decode range. Returns `None` if that is not worthwhile or a packet could not be read.
    pub fn look(
        index: &VideoIndex,
        run: &DecodeRange,
        reader: &mut PacketReader,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let packets = &index.packets[run.start.at()..=run.end.at()];
        let bytes: u64 = packets.iter().map(|p| u64::from(p.size)).sum();
        let is_long = run.packets() > MAX_PACKETS || bytes > MAX_BYTES;
        if !index.direct || is_long || packets.len() < run.wanted.len() + FEW {
            return Ok(None);
        }
        let Some(mut links) = Links::new(&index.info.params) else { return Ok(None) };
        let mut roles = Roles::new(&index.info.params);
        let mut of_packets = Vec::with_capacity(packets.len());
        let mut packet = Packet::new();
        for at in (run.start.0..=run.end.0).map(DecodeIndex) {
            interrupt()?;
            // A packet that cannot be read is reported as an error when it is processed.
            if reader.read_towards(at, at == run.start, run.end, &mut packet, interrupt).is_err() {
                return Ok(None);
            }
            // `RangeState::read` reports what is wrong with it.
            if !index.changes_parameters && replaces_sets(&index.info.params, packet.data()) {
                return Ok(None);
            }
            links.note(packet.data());
            of_packets.push(roles.role(packet.data()));
        }
        let mut kept: Vec<bool> = packets.iter().map(|p| p.is_start() || p.is_part()).collect();
        kept[0] = true;
        for wanted in &run.wanted {
            kept[wanted.at() - run.start.at()] = true;
        }
        let places: Vec<usize> = (0..kept.len()).filter(|&n| kept[n]).collect();
        by_roles(&of_packets, roles.highest_layer(), &mut kept);
        let size = |fed: &[bool]| fed.iter().filter(|&&f| f).count();
        let linked = links.needed(&places).filter(|linked| size(linked) < size(&kept));
        Ok(Some(Self { start: run.start.0, fed: linked.unwrap_or(kept) }))
    }

    /// Whether packet `at` need not be sent to the decoder.
    pub fn can_skip_decode(&self, at: DecodeIndex) -> bool {
        !self.fed[(at.0 - self.start) as usize]
    }

    /// The last packet that is worth reading together with packet `at`.
    pub fn fetch_to(&self, index: &VideoIndex, at: DecodeIndex) -> DecodeIndex {
        let mut last = at.0;
        let (mut all, mut between) = (0, 0);
        for (n, _) in self.fed.iter().enumerate().skip((at.0 - self.start) as usize + 1) {
            let next = DecodeIndex(self.start + n as u32);
            let size = u64::from(index.packets[next.at()].size);
            (all, between) = (all + size, if self.can_skip_decode(next) { between + size } else { 0 });
            if between > GAP || all > REACH {
                break;
            }
            if between == 0 {
                last = next.0;
            }
        }
        DecodeIndex(last)
    }
}

/// Keeps all packets except leaves of the highest layer that is still needed after them, and packets of
/// higher layers.
fn by_roles(roles: &[Role], highest_layer: u8, kept: &mut [bool]) {
    let mut highest = 0;
    for (role, kept) in roles.iter().zip(kept).rev() {
        let (layer, droppable) = match *role {
            Role::Leaf { layer } => (layer, layer >= highest),
            Role::Reference { layer } => (layer, layer > highest),
            Role::Needed => (highest_layer, false),
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
    use Role::{Leaf, Needed, Reference};

    fn kept(roles: &[Role], highest_layer: u8, wanted: &[usize]) -> Vec<usize> {
        let mut kept: Vec<bool> = (0..roles.len()).map(|n| wanted.contains(&n)).collect();
        by_roles(roles, highest_layer, &mut kept);
        (0..kept.len()).filter(|&n| kept[n]).collect()
    }

    #[test]
    fn leaves_of_the_highest_layer_to_come_and_what_lies_above_are_left_out() {
        let (base, middle, top) = (Reference { layer: 0 }, Reference { layer: 1 }, Leaf { layer: 2 });
        let roles = [base, middle, top, top, base, middle, top, base];
        assert_eq!(kept(&roles, 2, &[7]), [0, 4, 7]);
        assert_eq!(kept(&roles, 2, &[5]), [0, 1, 4, 5, 7]);
        assert_eq!(kept(&roles, 2, &[3]), [0, 1, 3, 4, 7]);
        let leaf = Leaf { layer: 0 };
        assert_eq!(kept(&[base, leaf, top], 2, &[2]), [0, 1, 2], "a higher layer may refer to it");
        assert_eq!(kept(&[base, leaf, Needed], 2, &[]), [0, 1, 2], "and who knows what this one is");
    }

    #[test]
    fn small_gaps_are_fetched_with_what_lies_around_them() {
        let mut index = VideoIndex::sketch(&(0..8).map(|n| (n, n == 0, true)).collect::<Vec<_>>());
        index.packets.iter_mut().for_each(|p| p.size = 10_000);
        let fed = [true, true, false, true, false, false, true, true].to_vec();
        let ahead = SkipMap { start: 0, fed };
        let to: Vec<u32> = [0, 1, 3, 6, 7].map(|n| ahead.fetch_to(&index, DecodeIndex(n)).0).to_vec();
        assert_eq!(to, [3, 3, 3, 7, 7]);
        assert!(ahead.can_skip_decode(DecodeIndex(2)) && !ahead.can_skip_decode(DecodeIndex(3)));
    }
}
