//! In: an index and the frames that are wanted. Out: runs: stretches of packets to decode, each from an exact start.
//! Each group of pictures is entered once, decoding stops at the last wanted picture and jumps over what lies between.
//! Never: touches a decoder or a byte of payload.

use crate::index::VideoIndex;
use crate::units::{DecodeIndex, DisplayIndex};

/// One start-at-a-key-packet decoding pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First packet to feed: an exact start.
    pub start: DecodeIndex,
    /// Last packet to feed.
    pub end: DecodeIndex,
    /// Packets whose pictures are wanted, ascending, each once.
    pub wanted: Vec<DecodeIndex>,
}

impl Run {
    /// Packets that will be fed.
    pub fn packets(&self) -> u32 {
        self.end.0 - self.start.0 + 1
    }
}

/// The runs that yield `frames`, in file order, whatever the order and the repeats of `frames`.
pub fn runs(index: &VideoIndex, frames: &[DisplayIndex]) -> Vec<Run> {
    // What each frame needs: from its start to its own last packet. A frame that leads a key packet on screen starts
    // before that packet, so ends are not in the order of starts.
    let mut needs: Vec<(DecodeIndex, DecodeIndex, DecodeIndex)> = frames
        .iter()
        .map(|&f| {
            let packet = index.frames[f.at()].packet;
            (index.start_of(f), index.last_part_of(packet), packet)
        })
        .collect();
    needs.sort_unstable();
    needs.dedup();
    let mut runs: Vec<Run> = Vec::new();
    for (start, end, packet) in needs {
        match runs.last_mut() {
            // The start lies within or right behind what is decoded anyway: read on rather than begin anew.
            Some(run) if start.0 <= run.end.0 + 1 => {
                run.end = run.end.max(end);
                run.wanted.push(packet);
            }
            _ => runs.push(Run { start, end, wanted: vec![packet] }),
        }
    }
    for run in &mut runs {
        run.wanted.sort_unstable();
    }
    runs
}
