//! Files that are or were JPEG, PNG, WebP or AVIF: the same image each time and by each path, of
//! the size in the header, or an error. Large images are not decoded; they run no other code than
//! small ones.

use std::cell::RefCell;

use framespool::error::Site;
use framespool::image::{
    DctScale, DecodeOptions, ImageDecoder, ImageFormat, ImageHeader, read_header, sniff,
};
use framespool::limits::Limits;
use framespool::source::MemorySource;
use framespool_kernels::{FrameView, Plane, Planes};
use framespool_nvdec::jpeg::JpegHeader;

use super::{MIB, Target, USUAL, check_error};
use crate::seeds::Seeds;

pub const STILL: Target = Target {
    name: "still",
    about: "headers, orientation and pixels of JPEG, PNG, WebP and AVIF",
    options: 2,
    seeds,
    run: |input| {
        let Some((&[option, rows], bytes)) = input.split_first_chunk::<2>() else {
            return;
        };
        let bytes = if option & 1 == 1 {
            fix_checksums(bytes)
        } else {
            bytes.to_vec()
        };
        picture(&bytes, option, rows);
    },
    longest: 48 << 10,
    resident_bytes: Some(512 * MIB),
    replayed: 2000,
    ..USUAL
};

const MAX_PIXELS: u64 = 1 << 18;

fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let pictures = seeds.pictures(24 << 10, 60);
    let written = written();
    pictures
        .iter()
        .chain(&written)
        .flat_map(|bytes| [0, 2, 4, 6].map(|option| [&[option, 0x31], &bytes[..]].concat()))
        .collect()
}

/// Small PNGs of all kinds.
fn written() -> Vec<Vec<u8>> {
    use png::{BitDepth, ColorType};
    let kinds = [
        (ColorType::Grayscale, BitDepth::One, 1),
        (ColorType::Grayscale, BitDepth::Eight, 8),
        (ColorType::Grayscale, BitDepth::Sixteen, 16),
        (ColorType::GrayscaleAlpha, BitDepth::Eight, 16),
        (ColorType::Rgb, BitDepth::Eight, 24),
        (ColorType::Rgb, BitDepth::Sixteen, 48),
        (ColorType::Rgba, BitDepth::Eight, 32),
        (ColorType::Indexed, BitDepth::Four, 4),
    ];
    let one = |(color, depth, bits): (ColorType, BitDepth, usize)| {
        let (width, height) = (13usize, 9usize);
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == ColorType::Indexed {
            encoder.set_palette((0..48).map(|n| n * 5).collect::<Vec<u8>>());
        }
        let mut writer = encoder.write_header().expect("a header");
        let bytes: Vec<u8> = (0..(width * bits).div_ceil(8) * height)
            .map(|n| (n * 37) as u8)
            .collect();
        writer.write_image_data(&bytes).expect("pixels");
        writer.finish().expect("a file");
        out
    };
    kinds.map(one).to_vec()
}

thread_local! {
    /// A decoder that has decoded many images, like a worker's.
    static USED: RefCell<ImageDecoder> = RefCell::default();
}

fn picture(bytes: &[u8], option: u8, rows: u8) {
    let limits = Limits {
        picture_samples: MAX_PIXELS,
        ..Limits::default()
    };
    let source = MemorySource::new("fuzzed", bytes.to_vec());
    let Ok(header) = check_error(read_header(&source, &limits)) else {
        return;
    };
    assert_eq!(sniff(bytes), Some(header.format));
    assert!(header.width > 0 && u64::from(header.width) * u64::from(header.height) <= MAX_PIXELS);
    if let Some(seen) = JpegHeader::parse(bytes)
        .ok()
        .filter(|_| header.format == ImageFormat::Jpeg)
    {
        assert_eq!(
            (seen.width, seen.height),
            (header.width, header.height),
            "the GPU's header parser reports another size"
        );
    }
    let scale = DctScale::ALL[usize::from(option >> 1 & 3)];
    let scale = if header.can_scale(scale) {
        scale
    } else {
        DctScale::Full
    };
    let (exact, labels) = (option & 8 == 8, option & 16 == 16);
    let options = DecodeOptions {
        scale,
        exact: exact && scale == DctScale::Full,
        labels,
        rows: None,
    };
    let fresh = decoded(&mut ImageDecoder::new(), bytes, &header, options);
    let used = USED.with_borrow_mut(|used| decoded(used, bytes, &header, options));
    assert_eq!(fresh, used, "a reused decoder gives a different image");
    let Some(whole) = fresh else { return };
    let (_, height) = header.scaled_size(scale);
    // Partial rows equal those of the complete image.
    let first = u32::from(rows >> 4) * height / 16;
    let end = (first + 1 + u32::from(rows & 15) * height / 16).min(height);
    let part = DecodeOptions {
        rows: Some((first, end)),
        ..options
    };
    let some =
        decoded(&mut ImageDecoder::new(), bytes, &header, part).expect("a part of a whole picture");
    for (plane, (whole, some)) in whole.iter().zip(&some).enumerate() {
        let of = |row: u32| row as usize * whole.len() / height as usize;
        // Chroma of one row also depends on its neighbor.
        let (first, end) = (of(first), of(end).max(of(first) + 1).min(whole.len()));
        assert_eq!(
            whole[first..end],
            some[first..end],
            "rows {first}..{end} of plane {plane}"
        );
    }
    if options.exact && !labels {
        let mut rgb = vec![0; (header.width * header.height * 3) as usize];
        let done = ImageDecoder::new().decode_into(&site(), &header, bytes, &mut rgb);
        if done.expect("what could be decoded with a copy") {
            assert_eq!(
                vec![rgb],
                whole.iter().map(|rows| rows.concat()).collect::<Vec<_>>(),
                "different pixels without a copy"
            );
        }
    }
}

fn site() -> Site {
    Site::file(&"fuzzed".into())
}

/// The rows of each plane, limited to those that are compared; `None` for an error.
fn decoded(
    decoder: &mut ImageDecoder,
    bytes: &[u8],
    header: &ImageHeader,
    options: DecodeOptions,
) -> Option<Vec<Vec<Vec<u8>>>> {
    let view = check_error(decoder.decode(&site(), header, bytes, options)).ok()?;
    assert_eq!((view.width, view.height), header.scaled_size(options.scale));
    Some(planes(&view))
}

fn planes(view: &FrameView<'_>) -> Vec<Vec<Vec<u8>>> {
    let (width, height) = (view.width as usize, view.height as usize);
    let sample = if view.depth_bits > 8 { 2 } else { 1 };
    let cut = |plane: &Plane<'_>, columns: usize, rows: usize| {
        let row = |n: usize| plane.data[n * plane.stride_bytes..][..columns * sample].to_vec();
        (0..rows).map(row).collect::<Vec<_>>()
    };
    match &view.planes {
        Planes::Gray(plane) => vec![cut(plane, width, height)],
        Planes::Yuv {
            planes,
            log2_chroma_w,
            log2_chroma_h,
        } => {
            let (columns, rows) = (
                width.div_ceil(1 << log2_chroma_w),
                height.div_ceil(1 << log2_chroma_h),
            );
            vec![
                cut(&planes[0], width, height),
                cut(&planes[1], columns, rows),
                cut(&planes[2], columns, rows),
            ]
        }
        Planes::PlanarRgb(planes) => planes
            .iter()
            .map(|plane| cut(plane, width, height))
            .collect(),
        Planes::PackedRgb {
            plane, pixel_bytes, ..
        } => {
            vec![cut(plane, width * usize::from(*pixel_bytes), height)]
        }
        Planes::SemiPlanar { .. } => panic!("no image file has such planes"),
    }
}

/// Corrects the checksums of a PNG's chunks.
fn fix_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 8;
    while let Some(len) = out.get(at..at + 4) {
        let len = u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
        let (begin, end) = (at + 4, at.saturating_add(8).saturating_add(len));
        if end.checked_add(4).is_none_or(|all| all > out.len()) {
            break;
        }
        let sum = crc32fast::hash(&out[begin..end]);
        out[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
    out
}
