//! Defines plain data types that describe video streams, for all readers.

use std::fmt;

use framespool_kernels::Field;

use crate::units::TimeBase;

/// A codec: FFmpeg's number (stable within a major version) and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// `AVCodecID`.
    pub id: u32,
    /// "h264", "hevc", "vp9", …
    pub name: String,
    /// A file that is one image, read by `image`. Never a stream of a container, whose codec may have
    /// the same name.
    pub is_image: bool,
}

impl Codec {
    /// The codec of a container's stream.
    pub fn of_stream(id: u32, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            is_image: false,
        }
    }
}

/// Parameters that a decoder needs before the first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecParams {
    /// Which codec.
    pub codec: Codec,
    /// Container's tag (FourCC), which some decoders use to distinguish variants.
    pub tag: u32,
    /// Out-of-band configuration (avcC, hvcC, sequence headers), as the container stores it.
    pub extradata: Vec<u8>,
    /// Picture width stated by the container; the size of a decoded frame takes precedence.
    pub width: u32,
    /// Picture height, likewise.
    pub height: u32,
    /// `bits_per_coded_sample`, which raw and palette codecs need.
    pub bits_per_coded_sample: i32,
    /// Container's color description; used where the bitstream specifies none.
    pub color: ColorTags,
    /// Number of pictures that a decoder must delay to output frames in presentation order. `None`
    /// where the decoder reads it from the bitstream; H.264 may leave it unspecified, and a decoder
    /// that has to detect it drops pictures until it has.
    pub reorder: Option<u8>,
}

#[cfg(test)]
impl CodecParams {
    /// Parameters for tests.
    pub(crate) fn synthetic(name: &str, extradata: &[u8]) -> Self {
        Self {
            codec: Codec::of_stream(0, name),
            tag: 0,
            extradata: extradata.to_vec(),
            width: 16,
            height: 16,
            bits_per_coded_sample: 24,
            color: ColorTags::default(),
            reorder: None,
        }
    }
}

/// Parameters of an audio stream: those that its decoder needs, and what it decodes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioParams {
    /// Which codec.
    pub codec: Codec,
    /// Container's tag (FourCC).
    pub tag: u32,
    /// Out-of-band configuration (AudioSpecificConfig, OpusHead, the headers of Vorbis).
    pub extradata: Vec<u8>,
    /// Samples per second of each channel.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u32,
    /// The channels as bits of a WAVE mask, in the order of the bits; 0 if they are not known.
    pub channel_mask: u64,
    /// Bits of a sample as stored, which some codecs need.
    pub bits_per_coded_sample: i32,
    /// Bytes of a block, which PCM and WMA need.
    pub block_align: i32,
    /// Bits per second, which WMA needs.
    pub bit_rate: i64,
    /// FFmpeg's number of the codec's profile, as the decoder finds it.
    pub profile: i32,
}

/// Color description as numbered by ITU-T H.273 (2 = unspecified).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColorTags {
    /// `ColorPrimaries`.
    pub primaries: u8,
    /// `TransferCharacteristics`.
    pub transfer: u8,
    /// `MatrixCoefficients`.
    pub matrix: u8,
    /// Full range; `None` where not stated.
    pub full_range: Option<bool>,
}

/// Names of table 2 of ITU-T H.273, as FFmpeg spells them, by number.
const PRIMARIES: [&str; 23] = [
    "",
    "bt709",
    "",
    "",
    "bt470m",
    "bt470bg",
    "smpte170m",
    "smpte240m",
    "film",
    "bt2020",
    "smpte428",
    "smpte431",
    "smpte432",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "ebu3213",
];

/// Names of table 3, likewise.
const TRANSFERS: [&str; 19] = [
    "",
    "bt709",
    "",
    "",
    "gamma22",
    "gamma28",
    "smpte170m",
    "smpte240m",
    "linear",
    "log100",
    "log316",
    "iec61966-2-4",
    "bt1361e",
    "iec61966-2-1",
    "bt2020-10",
    "bt2020-12",
    "smpte2084",
    "smpte428",
    "arib-std-b67",
];

/// Names of table 4, likewise.
const MATRICES: [&str; 18] = [
    "gbr",
    "bt709",
    "",
    "",
    "fcc",
    "bt470bg",
    "smpte170m",
    "smpte240m",
    "ycgco",
    "bt2020nc",
    "bt2020c",
    "smpte2085",
    "chroma-derived-nc",
    "chroma-derived-c",
    "ictcp",
    "ipt-c2",
    "ycgco-re",
    "ycgco-ro",
];

/// `None` where the number is 2 (unspecified).
fn name(number: u8, names: &[&str]) -> Option<String> {
    match names.get(usize::from(number)) {
        _ if number == 2 => None,
        Some(&"") | None => Some(format!("reserved ({number})")),
        Some(name) => Some((*name).to_owned()),
    }
}

impl ColorTags {
    /// FFmpeg's name of the primaries; `None` where they are not stated.
    pub fn primaries_name(self) -> Option<String> {
        name(self.primaries, &PRIMARIES)
    }

    /// FFmpeg's name of the transfer function; `None` where it is not stated.
    pub fn transfer_name(self) -> Option<String> {
        name(self.transfer, &TRANSFERS)
    }

    /// "PQ" or "HLG" where the transfer function is one of these two (SMPTE ST 2084 and ARIB
    /// STD-B67, both in ITU-R BT.2100).
    pub fn hdr_name(self) -> Option<&'static str> {
        match self.transfer {
            16 => Some("PQ"),
            18 => Some("HLG"),
            _ => None,
        }
    }

    /// FFmpeg's name of the matrix; `None` where it is not stated.
    pub fn matrix_name(self) -> Option<String> {
        name(self.matrix, &MATRICES)
    }
}

impl Default for ColorTags {
    fn default() -> Self {
        Self {
            primaries: 2,
            transfer: 2,
            matrix: 2,
            full_range: None,
        }
    }
}

/// Orientation of the stored picture for display: mirrored left-right first, then rotated
/// clockwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DisplayOrientation {
    /// Mirror left-right.
    pub mirror: bool,
    /// Number of quarter turns clockwise after mirroring, 0 to 3.
    pub quarter_turns_cw: u8,
}

impl DisplayOrientation {
    /// From a container's 2x2 display matrix `[a b; c d]` (x' = a x + c y, y' = b x + d y, y down).
    /// Matrices that are more than a degree away from a quarter turn mean no rotation, as in
    /// FFmpeg, and so do those that stretch one axis beyond recognition: they are damaged.
    pub fn from_matrix(a: f64, b: f64, c: f64, d: f64) -> Self {
        const MAX_STRETCH: f64 = 256.0;
        // Not `hypot`, whose symbol needs glibc 2.35.
        let (across, down) = ((a * a + b * b).sqrt(), (c * c + d * d).sqrt());
        if across.max(down) > MAX_STRETCH * across.min(down) {
            return Self::default();
        }
        let mirror = a * d - b * c < 0.0;
        // Mirroring first means x -> -x before the rotation, which negates the first column.
        let (a, b) = if mirror { (-a, -b) } else { (a, b) };
        if a == 0.0 && b == 0.0 {
            return Self::default();
        }
        let quarters = b.atan2(a) / std::f64::consts::FRAC_PI_2;
        let nearest = quarters.round();
        if (quarters - nearest).abs() > 1.0 / 90.0 {
            return Self::default();
        }
        Self {
            mirror,
            quarter_turns_cw: (nearest as i32).rem_euclid(4) as u8,
        }
    }

    /// Whether width and height are swapped.
    pub fn swaps_sides(self) -> bool {
        self.quarter_turns_cw % 2 == 1
    }

    /// Clockwise rotation in degrees.
    pub fn degrees_cw(self) -> u32 {
        u32::from(self.quarter_turns_cw) * 90
    }
}

/// How a player shows stored pictures: in square pixels, then mirrored and rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisplayGeometry {
    /// Orientation for display.
    pub orientation: DisplayOrientation,
    /// Width of a stored pixel divided by its height; `None` if unknown. Unknown pixels are shown
    /// as squares.
    pub sample_aspect: Option<(u32, u32)>,
}

impl From<DisplayOrientation> for DisplayGeometry {
    fn from(orientation: DisplayOrientation) -> Self {
        Self {
            orientation,
            sample_aspect: None,
        }
    }
}

impl DisplayGeometry {
    /// The display size: (width, height) in square pixels of a picture that has this size after
    /// rotation. The stored height is kept, and the stored width times the sample aspect ratio is
    /// rounded half to even, to at least 1.
    pub fn display_size(&self, (width, height): (u32, u32)) -> (u64, u64) {
        let (num, den) = self
            .sample_aspect
            .filter(|ratio| ratio.0 > 0 && ratio.1 > 0)
            .unwrap_or((1, 1));
        let (num, den) = (u64::from(num), u64::from(den));
        let stretched = |side: u32| {
            let product = u64::from(side) * num;
            let (quotient, twice_rest) = (product / den, 2 * (product % den));
            let is_up = twice_rest > den || (twice_rest == den && quotient % 2 == 1);
            (quotient + u64::from(is_up)).max(1)
        };
        if self.orientation.swaps_sides() {
            (u64::from(width), stretched(height))
        } else {
            (stretched(width), u64::from(height))
        }
    }
}

/// What a stream of a container carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StreamKind {
    /// A sequence of pictures.
    Video,
    /// One picture that belongs to the whole file, such as cover art.
    AttachedPicture,
    /// Audio.
    Audio,
    /// Subtitles.
    Subtitle,
    /// A file, such as a font.
    Attachment,
    /// Anything else.
    Data,
}

impl StreamKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Video,
        Self::AttachedPicture,
        Self::Audio,
        Self::Subtitle,
        Self::Attachment,
        Self::Data,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::AttachedPicture => "attached_picture",
            Self::Audio => "audio",
            Self::Subtitle => "subtitle",
            Self::Attachment => "attachment",
            Self::Data => "data",
        }
    }
}

/// One of the streams of a container, as the container describes it. The stream index is its index
/// in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// What it carries.
    pub kind: StreamKind,
    /// FFmpeg's name of the codec, "none" where it has none.
    pub codec: String,
    /// Picture width of a video stream, before rotation for display; otherwise 0.
    pub width: u32,
    /// Picture height, likewise.
    pub height: u32,
    /// Number of frames of a video stream that the container states, if it does.
    pub num_frames: Option<u64>,
    /// Whether the container marks it as a default stream.
    pub is_default: bool,
}

impl fmt::Display for StreamSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.codec)?;
        if self.width > 0 {
            write!(f, " {}x{}", self.width, self.height)?;
        }
        f.write_str(if self.is_default { " (default)" } else { "" })
    }
}

/// Lists the streams of a container by index, for messages.
pub fn list_streams(streams: &[StreamSummary]) -> String {
    let listed = streams
        .iter()
        .enumerate()
        .map(|(index, stream)| format!("{index}: {stream}"));
    listed.collect::<Vec<_>>().join(", ")
}

/// One video stream of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamInfo {
    /// Index of the stream among all streams of the container, as libavformat counts them.
    pub stream: u32,
    /// Codec parameters.
    pub params: CodecParams,
    /// Unit of all its timestamps.
    pub time_base: TimeBase,
    /// Orientation for display.
    pub orientation: DisplayOrientation,
    /// Width of a pixel divided by its height; `None` if unknown.
    pub sample_aspect: Option<(u32, u32)>,
    /// Frame rate the container states, used only where timestamps are missing.
    pub frame_rate: Option<(u32, u32)>,
}

impl StreamInfo {
    /// How pictures are displayed.
    pub fn display(&self) -> DisplayGeometry {
        DisplayGeometry {
            orientation: self.orientation,
            sample_aspect: self.sample_aspect,
        }
    }

    /// (width, height) of pictures as displayed, from the size that the container states.
    pub fn shown_size(&self) -> (u32, u32) {
        let (width, height) = (self.params.width, self.params.height);
        if self.orientation.swaps_sides() {
            (height, width)
        } else {
            (width, height)
        }
    }
}

/// Properties that a container's headers and first packets state about a video stream, beyond those
/// that decoding needs. They are not verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamHeader {
    /// Stated duration.
    pub duration_seconds: Option<f64>,
    /// Stated time of the first frame.
    pub start_seconds: Option<f64>,
    /// Bits per second; 0 if unknown.
    pub bit_rate: i64,
    /// Stated number of frames.
    pub num_frames: Option<u64>,
    /// Frame rate of which all times are multiples, as libavformat estimates it.
    pub frame_rate: Option<(u32, u32)>,
    /// Width of a pixel divided by its height; (0, 1) if unknown.
    pub sample_aspect: (i32, i32),
    /// libavutil's name of the decoder's pixel format, such as "yuv420p10le".
    pub pixel_format: Option<String>,
    /// Bits of a component in that format.
    pub bit_depth: Option<u32>,
    /// FFmpeg's name of the order of the fields: "progressive" for frames, "tt" or "bb" where the
    /// top or the bottom field is coded and shown first, "tb" or "bt" where the first one is shown
    /// second; `None` if unknown.
    pub field_order: Option<&'static str>,
    /// libavutil's name of the color primaries; `None` if unspecified.
    pub color_primaries: Option<String>,
    /// Name of the transfer characteristics, likewise.
    pub color_transfer: Option<String>,
    /// Name of the matrix, likewise.
    pub color_space: Option<String>,
}

impl StreamHeader {
    /// The field that is shown first, if the order of the fields is that of interlaced video.
    pub fn first_field(&self) -> Option<Field> {
        match self.field_order? {
            "tt" | "bt" => Some(Field::Top),
            "bb" | "tb" => Some(Field::Bottom),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_size_is_rounded_half_to_even() {
        let of = |sample_aspect, quarter_turns_cw, size| {
            let orientation = DisplayOrientation {
                mirror: false,
                quarter_turns_cw,
            };
            DisplayGeometry {
                orientation,
                sample_aspect,
            }
            .display_size(size)
        };
        assert_eq!(of(Some((64, 45)), 0, (720, 576)), (1024, 576));
        assert_eq!(of(Some((32, 27)), 2, (720, 480)), (853, 480)); // 853.33
        assert_eq!(of(Some((8, 9)), 0, (720, 480)), (640, 480));
        assert_eq!(
            (of(Some((1, 2)), 0, (5, 9)).0, of(Some((1, 2)), 0, (7, 9)).0),
            (2, 4)
        ); // 2.5 and 3.5
        assert_eq!(
            of(Some((64, 45)), 1, (576, 720)),
            (576, 1024),
            "the stored width is shown as the height"
        );
        assert_eq!(of(None, 0, (720, 576)), (720, 576));
        for unknown in [(0, 1), (1, 0)] {
            assert_eq!(of(Some(unknown), 0, (720, 576)), (720, 576));
        }
        assert_eq!(of(Some((1, u32::MAX)), 0, (720, 576)), (1, 576));
        assert_eq!(
            of(Some((u32::MAX, 1)), 0, (65535, 1)),
            (65535 * u64::from(u32::MAX), 1)
        );
    }

    #[test]
    fn the_field_shown_first_is_the_second_letter_of_the_order() {
        let of = |field_order| {
            StreamHeader {
                field_order,
                ..StreamHeader::default()
            }
            .first_field()
        };
        assert_eq!([Some("tt"), Some("bt")].map(of), [Some(Field::Top); 2]);
        assert_eq!([Some("bb"), Some("tb")].map(of), [Some(Field::Bottom); 2]);
        assert_eq!([Some("progressive"), None].map(of), [None; 2]);
    }

    #[test]
    fn display_matrices_become_quarter_turns() {
        let orientation = |a, b, c, d| {
            let t = DisplayOrientation::from_matrix(a, b, c, d);
            (t.mirror, t.degrees_cw())
        };
        assert_eq!(orientation(1., 0., 0., 1.), (false, 0));
        assert_eq!(orientation(0., 1., -1., 0.), (false, 90)); // a phone held upright
        assert_eq!(orientation(-1., 0., 0., -1.), (false, 180));
        assert_eq!(orientation(0., -1., 1., 0.), (false, 270));
        assert_eq!(orientation(-1., 0., 0., 1.), (true, 0)); // mirrored left-right
        assert_eq!(orientation(1., 0., 0., -1.), (true, 180)); // mirrored top-bottom
        assert_eq!(orientation(0., 0., 0., 0.), (false, 0));
        assert_eq!(orientation(-1. / 65536., 0., 0., 1.), (false, 0), "damaged");
        let angle = |degrees: f64| {
            let (sin, cos) = degrees.to_radians().sin_cos();
            orientation(cos, sin, -sin, cos).1
        };
        let taken = [
            (0.9, 0),
            (1.1, 0),
            (45.0, 0),
            (60.0, 0),
            (88.9, 0),
            (89.1, 90),
            (90.9, 90),
            (135.0, 0),
        ];
        for (degrees, expected) in taken {
            assert_eq!(angle(degrees), expected, "{degrees}");
        }
    }
}
