//! Microsoft MPEG-4: packets are not parsed.

use super::codec::Codec;

/// Version 1 (MP41). The others need nothing.
pub(crate) struct MsMpeg4V1;

impl Codec for MsMpeg4V1 {
    /// Frame rate and bit rate. In later versions, how pictures are rounded follows.
    fn harmless_messages(&self) -> &'static [&'static str] {
        &[
            "ext header missing",
            "I-frame too long, ignoring ext header",
        ]
    }
}
