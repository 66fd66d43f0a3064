//! What packet headers tell about the picture of a packet.

use crate::media::ColorTags;

/// Whether decoding may start at a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomAccessPoint {
    /// Decoding cannot start here.
    None,
    /// Decoding from here is not exact, but a decoder starts to output pictures; used only before
    /// the first exact start.
    Inexact,
    /// Decoding from here is exact for every picture shown at or after this one; leading pictures
    /// may need earlier pictures.
    Open,
    /// Decoding from here is exact, and no later packet refers to anything before it.
    Closed,
}

/// Properties found in a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureInfo {
    /// Whether decoding may start here.
    pub random_access: RandomAccessPoint,
    /// A picture of this packet is shown (VP8 and VP9 have hidden frames, MPEG-4 has empty
    /// packets).
    pub shown: bool,
    /// It refers to pictures before the preceding random access point (HEVC RASL) and cannot be
    /// decoded from there.
    pub is_rasl: bool,
    /// A random access point whose leading pictures are never shown, even in sequential decoding:
    /// the RASL pictures of an HEVC BLA picture, the B pictures after an MPEG-1/2 `broken_link`.
    pub is_broken_link: bool,
    /// It is a B picture. In MPEG-1/2/4 it is shown as soon as it is decoded. In H.264 this
    /// describes the first slice and means that presentation order may differ from decode order.
    pub is_b_picture: bool,
    /// It shows a picture of an earlier packet again (VP9).
    pub shows_again: bool,
    /// It is one field of a frame whose other field is in another packet.
    pub field: Option<FieldInfo>,
    /// It is coded as fields, of which this packet holds one or both.
    pub has_fields: bool,
    /// Its headers are not those of a picture: they are overwritten or missing. It counts as shown,
    /// so that no other frame moves.
    pub is_damaged: bool,
    /// Number of frames after which a gradual refresh that begins here is complete.
    pub recovery_frames: u32,
    /// Picture order count, if it is parsed here and not by libavcodec's parser.
    pub order_count: Option<i32>,
}

impl Default for PictureInfo {
    fn default() -> Self {
        Self {
            random_access: RandomAccessPoint::None,
            shown: true,
            is_rasl: false,
            is_broken_link: false,
            shows_again: false,
            is_b_picture: false,
            field: None,
            has_fields: false,
            is_damaged: false,
            recovery_frames: 0,
            order_count: None,
        }
    }
}

impl PictureInfo {
    /// A packet without any picture header.
    pub(super) fn damaged() -> Self {
        Self {
            is_damaged: true,
            ..Self::default()
        }
    }
}

/// A field picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The bottom field.
    pub is_bottom: bool,
    /// Number that both fields of a frame have, and those of the next frame do not; 0 where headers
    /// are not parsed that far.
    pub frame_number: u32,
}

impl FieldInfo {
    /// Whether a field in the packet after this one completes its frame.
    pub fn is_completed_by(self, next: Self) -> bool {
        self.is_bottom != next.is_bottom && self.frame_number == next.frame_number
    }
}

/// Whether other pictures may depend on a packet's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// Later pictures of its own and higher layers may refer to it.
    Reference {
        /// Temporal layer; 0 for codecs without layers.
        layer: u8,
    },
    /// Only pictures of higher layers may refer to it.
    Disposable {
        /// Temporal layer; 0 for codecs without layers.
        layer: u8,
    },
    /// Omitting it could change others in ways the headers do not show; it must always be decoded.
    Unknown,
}

/// What a frame signals for itself and later frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceColor {
    pub color: ColorTags,
    /// Its display size differs from its coded size; libavcodec ignores this.
    pub is_resized: bool,
}

/// Color tags with a matrix and a range.
pub(super) fn tags(matrix: u8, full_range: bool) -> ColorTags {
    ColorTags {
        matrix,
        full_range: Some(full_range),
        ..ColorTags::default()
    }
}

/// Dependencies of one packet. Indices count from the beginning of the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PictureReferences {
    pub references: Vec<usize>,
    /// Something in it affects later packets, even if none refers to its picture.
    pub affects_later: bool,
    /// It refers to a picture outside the range, or in a way that is not followed.
    pub unresolved: bool,
    /// Picture order count, for codecs that derive it from those of earlier pictures.
    pub poc: Option<PictureOrderCount>,
}

/// Role of a picture in the derivation of picture order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureOrderCount {
    pub order: i64,
    /// Number of distinct order counts that slice headers can transmit.
    pub range: i64,
    /// Later counts are derived from this one.
    pub is_anchor: bool,
    /// It is not derived from an earlier count.
    pub is_reset: bool,
}
