//! Computes the decoder configuration that a stream needs, its memory, and whether an existing
//! decoder fits.

use crate::caps::Caps;
use crate::format::StreamFormat;
use crate::switches::Mechanism;

/// Surfaces in addition to what the stream needs, for pictures that wait to be mapped.
const SPARE_SURFACES: u32 = 4;
/// Assumed where the parser does not report how many surfaces a stream needs.
const UNKNOWN_MIN_SURFACES: u32 = 20;
/// The driver's maximum.
const MAX_SURFACES: u32 = 32;
/// How many pictures may be mapped at a time. With two, the next picture does not wait for the
/// readers of the previous one.
pub(crate) const OUTPUT_SURFACES: u32 = 2;
/// Estimated size of a decoder's internal buffers (motion vectors, bitstream).
const FIXED_BYTES: u64 = 32 << 20;

/// Maximum sizes that decoders are created for, so that one decoder can serve streams of many
/// sizes. Each is also used with width and height swapped.
const SIZE_CLASSES: [(u32, u32); 8] = [
    (480, 288),
    (640, 480),
    (1280, 736),
    (1920, 1088),
    (2560, 1600),
    (4096, 2304),
    (5120, 2880),
    (8192, 4352),
];

/// The configuration of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecoderConfig {
    /// The stream that it is configured for.
    pub format: StreamFormat,
    /// The largest picture size that it can be reconfigured for.
    pub max_size: (u32, u32),
    /// How many pictures it holds.
    pub surfaces: u32,
}

/// What must be done with a decoder before it can serve a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compatibility {
    /// Nothing: it fits unchanged.
    Reuse,
    /// It must be reconfigured for another size.
    Reconfigure,
    /// It cannot serve the stream.
    Recreate,
}

/// How many pictures a decoder must hold for a stream.
pub(crate) fn num_decode_surfaces(min_surfaces: u32) -> u32 {
    let min = if min_surfaces == 0 {
        UNKNOWN_MIN_SURFACES
    } else {
        min_surfaces
    };
    (min + SPARE_SURFACES).min(MAX_SURFACES)
}

/// The maximum picture size of a decoder for a stream: the smallest bucket that holds the stream
/// and that the GPU supports, or else the stream's own size.
pub(crate) fn size_class(size: (u32, u32), caps: &Caps) -> (u32, u32) {
    let (width, height) = size;
    let sides = SIZE_CLASSES
        .into_iter()
        .flat_map(|(long, short)| [(long, short), (short, long)]);
    let holds = |&(w, h): &(u32, u32)| w >= width && h >= height && caps.supports_size((w, h));
    sides
        .filter(holds)
        .min_by_key(|&(w, h)| u64::from(w) * u64::from(h))
        .unwrap_or(size)
}

impl DecoderConfig {
    /// The configuration of a new decoder for a stream.
    pub(crate) fn for_stream(format: &StreamFormat, caps: &Caps) -> DecoderConfig {
        let surfaces = num_decode_surfaces(format.min_surfaces);
        DecoderConfig {
            format: *format,
            max_size: size_class(format.coded_size, caps),
            surfaces,
        }
    }

    /// Whether a decoder with this configuration can serve a stream.
    pub(crate) fn compatibility(&self, want: &StreamFormat) -> Compatibility {
        let have = &self.format;
        let same_kind = (have.codec, have.chroma, have.depth_bits)
            == (want.codec, want.chroma, want.depth_bits);
        let ((width, height), (max_width, max_height)) = (want.coded_size, self.max_size);
        if !same_kind
            || width > max_width
            || height > max_height
            || self.surfaces < num_decode_surfaces(want.min_surfaces)
        {
            Compatibility::Recreate
        } else if have.coded_size == want.coded_size {
            Compatibility::Reuse
        } else if Mechanism::Reconfigure.is_enabled() {
            Compatibility::Reconfigure
        } else {
            Compatibility::Recreate
        }
    }

    /// Estimated device memory of the decoder.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let picture = |(width, height): (u32, u32)| {
            let pixels =
                u64::from(width.next_multiple_of(64)) * u64::from(height.next_multiple_of(32));
            pixels * self.format.surface_format().half_bytes_per_pixel() / 2
        };
        FIXED_BYTES + picture(self.max_size) * u64::from(self.surfaces + OUTPUT_SURFACES)
    }

    /// A description such as "H.264 4:2:0 8 bit, up to 1920x1088, 12 pictures".
    pub(crate) fn name(&self) -> String {
        let (width, height) = self.max_size;
        format!(
            "{}, up to {width}x{height}, {} pictures",
            self.format.name(),
            self.surfaces
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Chroma, Codec};

    const CAPS: Caps = Caps {
        supported: true,
        engines: 1,
        min_size: (48, 16),
        max_size: (4096, 4096),
        max_macroblocks: 65536,
        surface_formats: 0b1111,
    };

    fn stream(coded_size: (u32, u32), min_surfaces: u32) -> StreamFormat {
        StreamFormat {
            codec: Codec::H264,
            chroma: Chroma::C420,
            depth_bits: 8,
            coded_size,
            min_surfaces,
        }
    }

    #[test]
    fn decoder_holds_four_pictures_more_than_needed() {
        assert_eq!(
            [4, 8, 17, 28, 31].map(num_decode_surfaces),
            [8, 12, 21, 32, 32]
        );
        assert_eq!(num_decode_surfaces(0), 24, "unknown counts as twenty");
    }

    #[test]
    fn sizes_share_buckets_in_both_orientations() {
        let of = |size| size_class(size, &CAPS);
        assert_eq!(of((320, 240)), (480, 288));
        assert_eq!(of((240, 320)), (288, 480));
        assert_eq!(of((1920, 1088)), (1920, 1088));
        assert_eq!(of((1088, 1920)), (1088, 1920));
        assert_eq!(
            of((4096, 4096)),
            (4096, 4096),
            "no bucket holds it: its own size"
        );
        let small = Caps {
            max_size: (1600, 1600),
            ..CAPS
        };
        assert_eq!(
            size_class((1300, 700), &small),
            (1300, 700),
            "the bucket would exceed the GPU's maximum"
        );
    }

    #[test]
    fn decoder_is_reused_reconfigured_or_recreated() {
        let config = DecoderConfig::for_stream(&stream((1280, 720), 4), &CAPS);
        assert_eq!(
            config.compatibility(&stream((1280, 720), 4)),
            Compatibility::Reuse
        );
        assert_eq!(
            config.compatibility(&stream((1280, 720), 3)),
            Compatibility::Reuse,
            "fewer pictures do not matter"
        );
        assert_eq!(
            config.compatibility(&stream((640, 480), 4)),
            Compatibility::Reconfigure
        );
        assert_eq!(
            config.compatibility(&stream((1920, 1088), 4)),
            Compatibility::Recreate,
            "too small"
        );
        assert_eq!(
            config.compatibility(&stream((720, 1280), 4)),
            Compatibility::Recreate,
            "too low, though wide enough"
        );
        assert_eq!(
            config.compatibility(&stream((1280, 720), 5)),
            Compatibility::Recreate,
            "too few pictures: they would be output out of order"
        );
        assert_eq!(
            config.compatibility(&StreamFormat {
                depth_bits: 10,
                ..stream((1280, 720), 4)
            }),
            Compatibility::Recreate
        );
        assert_eq!(
            config.compatibility(&StreamFormat {
                codec: Codec::Hevc,
                ..stream((1280, 720), 4)
            }),
            Compatibility::Recreate
        );
        assert_eq!(
            config.compatibility(&StreamFormat {
                chroma: Chroma::C444,
                ..stream((1280, 720), 4)
            }),
            Compatibility::Recreate
        );
    }

    #[test]
    fn weight_grows_with_size_depth_and_pictures() {
        let bytes =
            |format: StreamFormat| DecoderConfig::for_stream(&format, &CAPS).estimated_bytes();
        let full_hd = bytes(stream((1920, 1088), 4));
        // Ten pictures of 3.1 MB, plus the fixed part.
        assert_eq!(full_hd, FIXED_BYTES + 1920 * 1088 * 3 / 2 * 10);
        assert_eq!(
            bytes(StreamFormat {
                depth_bits: 10,
                ..stream((1920, 1088), 4)
            }) - FIXED_BYTES,
            2 * (full_hd - FIXED_BYTES)
        );
        assert!(bytes(stream((1920, 1088), 8)) > full_hd);
    }
}
