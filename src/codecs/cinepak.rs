//! Cinepak: codebook entries that a keyframe does not define remain from pictures before it.

use super::codec::Codec;

pub(crate) struct Cinepak;

impl Codec for Cinepak {
    fn keeps_state_over_sync(&self) -> bool {
        true
    }
}
