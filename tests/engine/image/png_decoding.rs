//! Tests PNG files of every kind, made here, and damaged ones.

use super::*;

/// A PLTE chunk of two entries.
const SHORT_PALETTE: [u8; 18] = [
    0, 0, 0, 6, 80, 76, 84, 69, 1, 2, 3, 4, 5, 6, 149, 83, 111, 72,
];

#[test]
fn pngs_of_every_kind_decode_to_their_values() {
    let mut decoder = ImageDecoder::new();
    let mut kinds = 0;
    for (colors, bits) in png_encoder::combinations() {
        for (width, height) in [(1, 1), (3, 2), (7, 9), (8, 8), (33, 17)] {
            let plain = png_encoder::encoded(colors, bits, width, height);
            let interlaced = png_encoder::interlaced(colors, bits, width, height, &[]);
            for ((bytes, values), coding) in [
                (plain, CodingProcess::Deflate),
                (interlaced, CodingProcess::DeflateInterlaced),
            ] {
                // A decoder's memory contains the previous image; here all its bits are set.
                File::new("white.png", png_encoder::white(width, height))
                    .decode(&mut decoder, EXACT_REQUEST)
                    .unwrap();
                let file = File::new("made.png", bytes);
                assert_eq!(file.header().unwrap().coding, coding);
                let view = file
                    .decode(&mut decoder, EXACT_REQUEST)
                    .unwrap_or_else(|e| panic!("{colors:?} {bits:?}: {e}"));
                assert_eq!((view.width, view.height), (width, height));
                assert_eq!(
                    view.depth_bits,
                    if bits == png::BitDepth::Sixteen {
                        16
                    } else {
                        8
                    }
                );
                let samples = samples(&view);
                let want = wanted(colors, bits, &values);
                assert!(
                    samples == want,
                    "{colors:?} {bits:?} {width}x{height} {coding:?}"
                );
                rendered(&view, (width, height), 1, (width, height));
                kinds += 1;
            }
        }
    }
    assert_eq!(kinds, 15 * 5 * 2);
}

/// Returns the samples that decoding must return for these values: without alpha, 16 bits as planes
/// of little-endian words.
fn wanted(colors: png::ColorType, bits: png::BitDepth, values: &[u16]) -> Vec<u8> {
    use png::{BitDepth, ColorType};
    let pixels = values.chunks(colors.samples());
    if colors == ColorType::Indexed {
        let palette = png_encoder::palette(1 << bits as usize);
        return values
            .iter()
            .flat_map(|index| palette[usize::from(*index)])
            .collect();
    }
    let color = match colors {
        ColorType::Grayscale | ColorType::GrayscaleAlpha => 1,
        _ => 3,
    };
    match bits {
        BitDepth::Sixteen => (0..color)
            .flat_map(|c| pixels.clone().flat_map(move |pixel| pixel[c].to_le_bytes()))
            .collect(),
        BitDepth::Eight => pixels
            .flat_map(|pixel| pixel[..color].iter().map(|v| *v as u8))
            .collect(),
        _ => values
            .iter()
            .map(|v| (u32::from(*v) * 255 / ((1 << bits as u32) - 1)) as u8)
            .collect(),
    }
}

#[test]
fn png_orientation_applies_and_damage_is_an_error() {
    use png::{BitDepth, ColorType};
    let exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0\0\0\0\0";
    let made = |chunks: &[(&[u8; 4], &[u8])]| {
        File::new(
            "made.png",
            png_encoder::interlaced(ColorType::Rgb, BitDepth::Eight, 9, 5, chunks).0,
        )
    };
    assert_eq!(
        made(&[(b"eXIf", exif)]).header().unwrap().orientation,
        orientation_of(5)
    );
    assert_eq!(
        made(&[(b"tEXt", exif)]).header().unwrap().orientation,
        DisplayOrientation::default()
    );
    let mut file = made(&[]);
    let at = file
        .bytes
        .windows(4)
        .position(|four| four == b"IDAT")
        .unwrap()
        + 20;
    file.bytes[at] ^= 1;
    let error = file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
    assert!(
        error.contains("PNG decoder reports") && error.contains("skip or replace the file"),
        "{error}"
    );
    // Apple's variant has a CgBI chunk before IHDR.
    let mut apple = made(&[]).bytes;
    apple.splice(8..8, *b"\0\0\0\x04CgBI\x50\0\x20\x02\x2b\xd5\xb3\x7f");
    let error = File::new("apple.png", apple).header().unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    // A pixel whose index exceeds the palette.
    let (mut bytes, _) = png_encoder::encoded(ColorType::Indexed, BitDepth::Four, 9, 9);
    let at = bytes.windows(4).position(|four| four == b"PLTE").unwrap();
    let crc = at + 4 + 48;
    bytes.splice(at - 4..crc + 4, SHORT_PALETTE);
    let error = File::new("short.png", bytes).outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
    assert!(error.contains("of a palette of 2"), "{error}");
}
