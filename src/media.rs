//! In: facts about a video stream.
//! Out: plain data, the same whoever read them.
//! Never: reads bytes or calls a decoder.

use crate::units::TimeBase;

/// A codec: FFmpeg's number for it (stable within a major version) and its usual name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// `AVCodecID`.
    pub id: u32,
    /// "h264", "hevc", "vp9", …
    pub name: String,
    /// What the engine must know about its packets.
    pub kind: CodecKind,
}

/// Codecs whose packets framespool looks into; all others are taken as the container describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodecKind {
    /// H.264 / AVC.
    H264,
    /// H.265 / HEVC.
    Hevc,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AV1.
    Av1,
    /// MPEG-4 part 2 (Xvid, DivX).
    Mpeg4,
    /// MPEG-1 and MPEG-2 video.
    Mpeg12,
    /// A file that is one picture (JPEG, PNG), read by `still`. Never what a container's stream is, whatever it calls itself.
    Still,
    /// Anything else.
    Other,
}

impl CodecKind {
    /// From FFmpeg's codec name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "h264" => Self::H264,
            "hevc" => Self::Hevc,
            "vp8" => Self::Vp8,
            "vp9" => Self::Vp9,
            "av1" => Self::Av1,
            "mpeg4" => Self::Mpeg4,
            "mpeg1video" | "mpeg2video" => Self::Mpeg12,
            _ => Self::Other,
        }
    }
}

/// What a decoder must be told before the first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecParams {
    /// Which codec.
    pub codec: Codec,
    /// Container's tag (FourCC), which some decoders use to tell variants apart.
    pub tag: u32,
    /// Out-of-band configuration (avcC, hvcC, sequence headers), as the container stores it.
    pub extradata: Vec<u8>,
    /// Picture size as the container states it; a decoded frame's own size leads.
    pub width: u32,
    /// Likewise.
    pub height: u32,
    /// `bits_per_coded_sample`, which raw and palette codecs need.
    pub bits_per_coded_sample: i32,
    /// Container's colour description; used where the stream itself says nothing.
    pub colour: ColourTags,
    /// How many pictures a decoder must hold back so that they come out in order. `None` where it can tell from the
    /// stream; H.264 streams may leave it open, and a decoder that has to find out loses pictures until it has.
    pub reorder: Option<u8>,
}

#[cfg(test)]
impl CodecParams {
    /// Parameters for tests.
    pub(crate) fn sketch(name: &str, extradata: &[u8]) -> Self {
        Self {
            codec: Codec { id: 0, name: name.into(), kind: CodecKind::from_name(name) },
            tag: 0,
            extradata: extradata.to_vec(),
            width: 16,
            height: 16,
            bits_per_coded_sample: 24,
            colour: ColourTags::default(),
            reorder: None,
        }
    }
}

/// Colour description as numbered by ITU-T H.273 (2 = unspecified).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColourTags {
    /// `ColourPrimaries`.
    pub primaries: u8,
    /// `TransferCharacteristics`.
    pub transfer: u8,
    /// `MatrixCoefficients`.
    pub matrix: u8,
    /// Full range; `None` where not stated.
    pub full_range: Option<bool>,
}

impl Default for ColourTags {
    fn default() -> Self {
        Self { primaries: 2, transfer: 2, matrix: 2, full_range: None }
    }
}

/// How the stored picture is turned for display: mirrored left-right first, then turned clockwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// Mirror left-right.
    pub mirror: bool,
    /// Then 0 to 3 quarter turns clockwise.
    pub quarter_turns_cw: u8,
}

impl Turn {
    /// From a container's 2x2 display matrix `[a b; c d]` (x' = a x + c y, y' = b x + d y, y down).
    /// Matrices that are more than a degree away from a quarter turn are taken as no turn: FFmpeg's tolerance.
    pub fn from_matrix(a: f64, b: f64, c: f64, d: f64) -> Self {
        let mirror = a * d - b * c < 0.0;
        // Mirroring first means x -> -x before the turn, which negates the first column.
        let (a, b) = if mirror { (-a, -b) } else { (a, b) };
        if a == 0.0 && b == 0.0 {
            return Self::default();
        }
        let quarters = b.atan2(a) / std::f64::consts::FRAC_PI_2;
        let nearest = quarters.round();
        if (quarters - nearest).abs() > 1.0 / 90.0 {
            return Self::default();
        }
        Self { mirror, quarter_turns_cw: (nearest as i32).rem_euclid(4) as u8 }
    }

    /// Whether width and height change places.
    pub fn swaps_sides(self) -> bool {
        self.quarter_turns_cw % 2 == 1
    }

    /// Clockwise turn in degrees.
    pub fn degrees_cw(self) -> u32 {
        u32::from(self.quarter_turns_cw) * 90
    }
}

/// One video stream of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamInfo {
    /// Number of the stream (MP4: place of the track among all).
    pub stream: u32,
    /// Codec parameters.
    pub params: CodecParams,
    /// Unit of all its timestamps.
    pub time_base: TimeBase,
    /// Turn for display.
    pub turn: Turn,
    /// Width of a pixel divided by its height; `None` if unknown.
    pub sample_aspect: Option<(u32, u32)>,
    /// Frame rate the container states, used only where timestamps are missing.
    pub frame_rate: Option<(u32, u32)>,
}

impl StreamInfo {
    /// (width, height) of pictures as shown, by what the container states.
    pub fn shown_size(&self) -> (u32, u32) {
        let (width, height) = (self.params.width, self.params.height);
        if self.turn.swaps_sides() {
            (height, width)
        } else {
            (width, height)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_matrices_become_quarter_turns() {
        let turn = |a, b, c, d| {
            let t = Turn::from_matrix(a, b, c, d);
            (t.mirror, t.degrees_cw())
        };
        assert_eq!(turn(1., 0., 0., 1.), (false, 0));
        assert_eq!(turn(0., 1., -1., 0.), (false, 90)); // a phone held upright
        assert_eq!(turn(-1., 0., 0., -1.), (false, 180));
        assert_eq!(turn(0., -1., 1., 0.), (false, 270));
        assert_eq!(turn(-1., 0., 0., 1.), (true, 0)); // mirrored left-right
        assert_eq!(turn(1., 0., 0., -1.), (true, 180)); // mirrored top-bottom
        assert_eq!(turn(0., 0., 0., 0.), (false, 0));
        let angle = |degrees: f64| {
            let (sin, cos) = degrees.to_radians().sin_cos();
            turn(cos, sin, -sin, cos).1
        };
        let taken = [(0.9, 0), (1.1, 0), (45.0, 0), (60.0, 0), (88.9, 0), (89.1, 90), (90.9, 90), (135.0, 0)];
        for (degrees, expected) in taken {
            assert_eq!(angle(degrees), expected, "{degrees}");
        }
    }
}
