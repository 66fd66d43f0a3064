//! In: numbers that a file claims.
//! Out: the same numbers, or an error, before they size anything.
//! Never: an allocation on a file's word alone.

use crate::error::{Error, Result, Site};

/// Caps on what one video may ask for. Generous for real files, small against damage.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Packets (and thus frames) of one video: 50 million is nine days at 60 frames a second.
    pub packets: u64,
    /// Payload of one packet.
    pub packet_bytes: u64,
    /// `moov` box, which is read into memory whole.
    pub header_bytes: u64,
    /// Codec configuration (SPS/PPS and the like).
    pub extradata_bytes: u64,
    /// Luma samples of one picture: 16384 x 16384.
    pub picture_samples: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packets: 50_000_000,
            packet_bytes: 1 << 28,
            header_bytes: 1 << 30,
            extradata_bytes: 1 << 20,
            picture_samples: 1 << 28,
        }
    }
}

impl Limits {
    /// `value` if it is at most `cap`; `what` names it in the error.
    pub fn check(site: &Site, what: &'static str, value: u64, cap: u64) -> Result<u64> {
        if value > cap {
            return Err(Error::Limit { site: site.clone(), what, value, cap });
        }
        Ok(value)
    }
}
