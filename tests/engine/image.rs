//! Tests still image decoding on the images of the test media and the second corpus, on PNGs made
//! here, and on damaged ones: pixels at every size, errors that name the file, no panic and no
//! hang. Pillow's pixels are recorded in the manifest, and for the second corpus in
//! `image/exact.txt`.

mod corruption;
mod partial_rows;
mod png_decoding;
mod png_encoder;

use std::collections::BTreeMap;

use crate::common::{Entry, corpus, digest, images, named};
use framespool::error::{Error, Result, Site};
use framespool::image::{
    CodingProcess, ColorModel, DctScale, DecodeOptions, ImageDecoder, ImageFormat, ImageHeader,
    read_header, sniff,
};
use framespool::limits::Limits;
use framespool::media::DisplayOrientation;
use framespool::source::{ByteSource, MemorySource};
use framespool_kernels::{
    ColorRange, Dtype, FrameView, Geometry, OutputSlot, OutputSpec, PixelPass, Planes, Rect,
    Scratch,
};

/// A file that libjpeg decodes with a warning: an error here, while Pillow ignores it.
const FILE_WITH_WARNING: &str = "images/corrupt/derived/bitflip.jpg";

const EXACT_REQUEST: DecodeOptions = DecodeOptions {
    scale: DctScale::Full,
    exact: true,
    labels: false,
    rows: None,
};

/// An image file in memory.
#[derive(Clone)]
struct File {
    name: String,
    bytes: Vec<u8>,
}

impl File {
    fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            bytes,
        }
    }

    fn of(entry: &Entry) -> Self {
        Self::new(
            &entry.path,
            std::fs::read(entry.root.join(&entry.path)).expect("readable"),
        )
    }

    fn header(&self) -> Result<ImageHeader> {
        read_header(
            &MemorySource::new(self.name.as_str(), self.bytes.clone()),
            &Limits::default(),
        )
    }

    fn decode<'a>(
        &self,
        decoder: &'a mut ImageDecoder,
        options: DecodeOptions,
    ) -> Result<FrameView<'a>> {
        let site = Site::file(&self.name.as_str().into());
        decoder.decode(&site, &self.header()?, &self.bytes, options)
    }

    /// Returns a digest of the decoded samples, or the error message.
    fn outcome(&self, decoder: &mut ImageDecoder, options: DecodeOptions) -> String {
        match self.decode(decoder, options) {
            Ok(view) => digest(&samples(&view)),
            Err(error) => {
                assert!(
                    error.to_string().contains(&self.name),
                    "an error without its file: {error}"
                );
                assert!(!matches!(error, Error::Internal { .. }), "{error}");
                error.to_string()
            }
        }
    }
}

fn every_option() -> impl Iterator<Item = DecodeOptions> {
    let both = |scale| {
        [false, true].map(|exact| DecodeOptions {
            scale,
            exact,
            ..DecodeOptions::default()
        })
    };
    DctScale::ALL.into_iter().flat_map(both)
}

/// Returns the rows of all planes without their padding.
fn samples(view: &FrameView<'_>) -> Vec<u8> {
    let (w, h) = (view.width as usize, view.height as usize);
    let bytes = usize::from(view.depth_bits > 8) + 1;
    let mut out = Vec::new();
    let mut rows = |plane: framespool_kernels::Plane<'_>, row: usize, rows: usize| {
        (0..rows).for_each(|y| out.extend_from_slice(&plane.data[y * plane.stride_bytes..][..row]));
    };
    match view.planes {
        Planes::Gray(plane) => rows(plane, w * bytes, h),
        Planes::Yuv {
            planes,
            log2_chroma_w,
            log2_chroma_h,
        } => {
            rows(planes[0], w, h);
            let (w, h) = (
                w.div_ceil(1 << log2_chroma_w),
                h.div_ceil(1 << log2_chroma_h),
            );
            planes[1..].iter().for_each(|plane| rows(*plane, w, h));
        }
        Planes::PlanarRgb(planes) => planes
            .into_iter()
            .for_each(|plane| rows(plane, w * bytes, h)),
        Planes::PackedRgb {
            plane, pixel_bytes, ..
        } => {
            let wide = usize::from(pixel_bytes);
            let packed: Vec<u8> = (0..h)
                .flat_map(|y| plane.data[y * plane.stride_bytes..][..w * wide].chunks(wide))
                .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]) // the fourth byte is undefined
                .collect();
            return packed;
        }
        Planes::SemiPlanar { .. } => panic!("no image has planes of this kind"),
    }
    out
}

/// Returns the image as the kernels read it, resized to `size`. In an image shrunk to 1/k, a pixel
/// covers k x k pixels of the whole image. The crop is therefore given by the sides of the whole
/// image in units of 1/k, and the last pixel may extend beyond it.
fn rendered(view: &FrameView<'_>, whole: (u32, u32), k: u32, size: (u32, u32)) -> Vec<u8> {
    let geometry = Geometry {
        crop: Rect::from_size(whole.0, whole.1),
        crop_subpixels: (k, k),
        resized: size,
        window: Rect::from_size(size.0, size.1),
        ..Geometry::identity(view.width, view.height)
    };
    let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).expect("a plain pass");
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    pass.run(
        view,
        &mut OutputSlot::hwc(&mut pixels, size.0 as usize),
        &mut Scratch::new(),
    )
    .expect("the kernels read it");
    pixels
}

/// Returns the mean absolute difference.
fn distance(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let sum: u64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    sum as f64 / a.len() as f64
}

fn orientation_of(orientation: u64) -> DisplayOrientation {
    let (mirror, quarter_turns_cw) = match orientation {
        2 => (true, 0),
        3 => (false, 2),
        4 => (true, 2),
        5 => (true, 3),
        6 => (false, 1),
        7 => (true, 1),
        8 => (false, 3),
        _ => (false, 0),
    };
    DisplayOrientation {
        mirror,
        quarter_turns_cw,
    }
}

fn is_valid(entry: &Entry) -> bool {
    entry.properties["pillow_decodes"] == true && entry.path != FILE_WITH_WARNING
}

fn valid_images() -> Vec<Entry> {
    images().into_iter().filter(is_valid).collect()
}

#[test]
fn headers_match_the_manifest() {
    for entry in images() {
        let file = File::of(&entry);
        let manifest = &entry.properties;
        let header = match file.header() {
            Ok(header) => header,
            Err(error) => {
                assert_ne!(manifest["pillow_decodes"], true, "{error}");
                continue;
            }
        };
        let path = &entry.path;
        assert_eq!(
            u64::from(header.width),
            manifest["width"].as_u64().unwrap_or_default(),
            "{path}"
        );
        assert_eq!(
            u64::from(header.height),
            manifest["height"].as_u64().unwrap_or_default(),
            "{path}"
        );
        if manifest["exif_broken"] != true {
            assert_eq!(
                header.orientation,
                orientation_of(manifest["exif_orientation"].as_u64().unwrap_or(1)),
                "{path}"
            );
        }
        if header.format == ImageFormat::Png {
            let interlaced = manifest["process"] == "interlaced";
            let coding = if interlaced {
                CodingProcess::DeflateInterlaced
            } else {
                CodingProcess::Deflate
            };
            let mode = match (header.color_model, header.sample_bits) {
                (ColorModel::Gray, 1) => "1",
                (ColorModel::Gray, 16) => "I;16",
                (ColorModel::Gray, _) => "L",
                (ColorModel::GrayAlpha, _) => "LA",
                (ColorModel::Palette, _) => "P",
                (ColorModel::Rgba, _) => "RGBA",
                _ => "RGB",
            };
            assert_eq!(
                (manifest["pillow_mode"].as_str(), header.coding),
                (Some(mode), coding),
                "{path}"
            );
            continue;
        }
        let process = match header.coding {
            CodingProcess::Baseline => "baseline",
            CodingProcess::Extended => "extended",
            CodingProcess::Progressive => "progressive",
            CodingProcess::Lossless => "lossless",
            CodingProcess::Hierarchical => "hierarchical",
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(manifest["process"], process, "{path}");
        assert_eq!(manifest["precision"], header.sample_bits, "{path}");
        if let ColorModel::Ycc(factors) = header.color_model {
            let factors = factors.map(|(h, v)| format!("{h}x{v}"));
            assert_eq!(manifest["sampling"], serde_json::json!(factors), "{path}");
        }
        assert_eq!(
            header.color_model == ColorModel::Rgb,
            path.contains("/rgb_"),
            "{path}: {:?}",
            header.color_model
        );
        let mode = match header.color_model {
            ColorModel::Gray => "L",
            ColorModel::Ycc(_) | ColorModel::Rgb => "RGB",
            _ => "CMYK",
        };
        assert!(
            manifest["pillow_mode"] == mode || manifest["pillow_mode"].is_null(),
            "{path}: {mode}"
        );
    }
}

#[test]
fn images_decode_like_pillow_or_name_the_file() {
    let mut decoder = ImageDecoder::new();
    let (mut decoded, mut refused) = (0, 0);
    for entry in images() {
        let file = File::of(&entry);
        for options in every_option() {
            let outcome = match file.header() {
                Ok(header) if !header.can_scale(options.scale) => continue,
                _ => file.decode(&mut decoder, options),
            };
            match outcome {
                Ok(_) => {
                    assert!(is_valid(&entry), "{}: decoded", entry.path);
                    decoded += 1;
                }
                Err(error) => {
                    assert!(!is_valid(&entry), "{error}");
                    assert!(error.to_string().contains(&entry.path), "{error}");
                    assert!(
                        error.is_file_error() && !matches!(error, Error::Internal { .. }),
                        "{error}"
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(
        decoded > 800 && refused > 200,
        "{decoded} decoded, {refused} refused"
    );
}

#[test]
fn exact_images_equal_pillows_byte_for_byte() {
    let table: BTreeMap<&str, &str> = include_str!("image/exact.txt")
        .lines()
        .map(|l| l.split_once(' ').unwrap())
        .map(|(h, p)| (p, h))
        .collect();
    let mut decoder = ImageDecoder::new();
    // Counts of images of the media with 8 bits and with 16 bits, and of the second corpus.
    let (mut compared, mut deep, mut of_corpus) = (0, 0, 0);
    for entry in valid_images() {
        let file = File::of(&entry);
        let view = file.decode(&mut decoder, EXACT_REQUEST).expect("valid");
        let depth_bits = view.depth_bits;
        let (site, header) = (
            Site::file(&file.name.as_str().into()),
            file.header().unwrap(),
        );
        let packed = matches!(view.planes, Planes::PackedRgb { pixel_bytes: 3, .. });
        let comes_in_rows = packed && header.format == ImageFormat::Jpeg;
        let (mut rgb, gray) = (samples(&view), matches!(view.planes, Planes::Gray(_)));
        let mut into = vec![7; rgb.len()];
        let decoded = decoder
            .decode_into(&site, &header, &file.bytes, &mut into)
            .expect("valid");
        assert_eq!(decoded, comes_in_rows, "{}", entry.path);
        assert!(
            into == rgb || !decoded,
            "{}: decoded in place it differs",
            entry.path
        );
        let short = decoder
            .decode_into(&site, &header, &file.bytes, &mut into[1..])
            .expect("valid");
        assert!(!short, "{}: rows that do not fit", entry.path);
        if gray {
            rgb = rgb.into_iter().flat_map(|value| [value; 3]).collect();
        }
        if entry.in_corpus() {
            assert_eq!(digest(&rgb), table[entry.path.as_str()], "{}", entry.path);
            of_corpus += 1;
        } else if let Some(recorded) = entry.properties["rgb_md5"].as_str() {
            assert_eq!(digest(&rgb), recorded, "{}", entry.path);
            compared += 1;
        } else {
            // Pillow cannot represent RGB with 16 bits per channel, so there is no record.
            assert_eq!(depth_bits, 16, "{}", entry.path);
            deep += 1;
        }
    }
    assert!(
        compared > 100 && deep > 0,
        "{compared} images compared, {deep} of 16 bits"
    );
    assert_eq!(of_corpus, if corpus().is_some() { table.len() } else { 0 });
}

#[test]
fn every_size_and_layout_gives_the_same_image() {
    let mut decoder = ImageDecoder::new();
    let mut seen = BTreeMap::new();
    // Excludes files filed as corrupt that decode nevertheless: their pixels are noise.
    for entry in valid_images()
        .into_iter()
        .filter(|entry| !entry.is_corrupt())
    {
        let file = File::of(&entry);
        let header = file.header().unwrap();
        let sides = (header.width, header.height);
        let small = (header.width.div_ceil(8), header.height.div_ceil(8));
        let whole = rendered(
            &file.decode(&mut decoder, EXACT_REQUEST).unwrap(),
            sides,
            1,
            small,
        );
        for options in every_option().filter(|options| header.can_scale(options.scale)) {
            let view = file.decode(&mut decoder, options).unwrap();
            let k = options.scale.divisor();
            assert_eq!(
                (view.width, view.height),
                (header.width.div_ceil(k), header.height.div_ceil(k))
            );
            assert_eq!((view.width, view.height), header.scaled_size(options.scale));
            assert_eq!(view.color.range, ColorRange::Full);
            if let (
                Planes::Yuv {
                    log2_chroma_w,
                    log2_chroma_h,
                    ..
                },
                DctScale::Full,
            ) = (view.planes, options.scale)
            {
                let ColorModel::Ycc([y, u, _]) = header.color_model else {
                    panic!("{}: {:?}", entry.path, header.color_model)
                };
                assert_eq!(
                    (u.0 << log2_chroma_w, u.1 << log2_chroma_h),
                    y,
                    "{}",
                    entry.path
                );
                *seen.entry((log2_chroma_w, log2_chroma_h)).or_insert(0) += 1;
            }
            assert!(!options.exact || !matches!(view.planes, Planes::Yuv { .. }));
            let far = distance(&rendered(&view, sides, k, small), &whole);
            // libjpeg averages k x k pixels, while the kernels' filter has a wider support.
            let most = match options.scale {
                DctScale::Full => 1.5,
                DctScale::Half => 2.5,
                DctScale::Quarter => 4.0,
                DctScale::Eighth => 7.0,
            };
            assert!(
                far < most,
                "{} {options:?}: {far:.2} from the full-size image",
                entry.path
            );
        }
    }
    // 4:4:4, 4:4:0, 4:2:2, 4:2:0, 2x4, 4:1:1 and 4:1:0.
    let all = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)];
    assert!(seen.keys().copied().eq(all), "{seen:?}");
}

#[test]
fn exif_orientations_decode_to_the_same_image() {
    let mut decoder = ImageDecoder::new();
    let mut shown: Vec<Vec<u8>> = Vec::new();
    for (orientation, path) in [
        (3, "images/odd/exif_landscape_3.jpg"),
        (6, "images/odd/exif_landscape_6.jpg"),
    ] {
        let file = File::of(&named(path));
        assert_eq!(
            file.header().unwrap().orientation,
            orientation_of(orientation)
        );
        let turn = file.header().unwrap().orientation;
        let view = file.decode(&mut decoder, EXACT_REQUEST).unwrap();
        let (w, h) = if turn.swaps_sides() {
            (40, 60)
        } else {
            (60, 40)
        };
        let mut rows: Vec<Vec<[u8; 3]>> = rendered(&view, (view.width, view.height), 1, (w, h))
            .chunks(w as usize * 3)
            .map(|row| row.chunks(3).map(|p| [p[0], p[1], p[2]]).collect())
            .collect();
        if turn.mirror {
            rows.iter_mut().for_each(|row| row.reverse());
        }
        for _ in 0..turn.quarter_turns_cw {
            rows = (0..rows[0].len())
                .map(|x| rows.iter().rev().map(|row| row[x]).collect())
                .collect();
        }
        shown.push(rows.into_iter().flatten().flatten().collect());
    }
    let far = distance(&shown[0], &shown[1]);
    assert!(far < 3.0, "{far:.2} apart");
}

#[test]
fn image_does_not_depend_on_earlier_decoding() {
    let entries = images();
    let files: Vec<File> = entries.iter().map(File::of).collect();
    for options in [
        EXACT_REQUEST,
        DecodeOptions::default(),
        DecodeOptions {
            scale: DctScale::Quarter,
            ..DecodeOptions::default()
        },
    ] {
        let fresh: Vec<_> = files
            .iter()
            .map(|file| file.outcome(&mut ImageDecoder::new(), options))
            .collect();
        let mut kept = ImageDecoder::new();
        for (n, file) in files
            .iter()
            .enumerate()
            .rev()
            .chain(files.iter().enumerate().skip(40))
        {
            assert_eq!(file.outcome(&mut kept, options), fresh[n], "{}", file.name);
            if n % 7 == 0 {
                kept.release_memory();
            }
        }
    }
}

/// Returns small files of different kinds.
fn small_files() -> Vec<File> {
    let names = [
        "images/odd/grey_128x128.jpg",
        "images/odd/qtables_16bit.jpg",
        "images/odd/subsampling_422-odd-width.jpg",
        "images/odd/exif_sideways_444.jpg",
        "images/odd/non_interleaved_444.jpg",
        "images/odd/cmyk_ycck.jpg",
        "images/odd/exif_xmp_1x1.jpg",
        "images/odd/grey_progressive.jpg",
        "images/odd/restarts_420.jpg",
        "images/odd/misnamed_png.jpeg",
    ];
    let mut files = names.map(|name| File::of(&named(name))).to_vec();
    files.push(File::new(
        "made.png",
        png_encoder::encoded(png::ColorType::Rgba, png::BitDepth::Sixteen, 9, 7).0,
    ));
    files.push(File::new(
        "made-palette.png",
        png_encoder::encoded(png::ColorType::Indexed, png::BitDepth::Four, 9, 7).0,
    ));
    files
}

#[test]
fn decoders_in_several_threads_agree() {
    let files: Vec<File> = small_files();
    let alone: Vec<_> = files
        .iter()
        .map(|f| f.outcome(&mut ImageDecoder::new(), EXACT_REQUEST))
        .collect();
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (files, alone) = (&files, &alone);
            scope.spawn(move || {
                let mut decoder = ImageDecoder::new();
                for n in (0..files.len() * 3).map(|n| (n + start) % files.len()) {
                    assert_eq!(
                        files[n].outcome(&mut decoder, EXACT_REQUEST),
                        alone[n],
                        "{}",
                        files[n].name
                    );
                }
            });
        }
    });
}

#[test]
fn formats_are_identified_by_their_first_bytes() {
    assert_eq!(sniff(b"\xff\xd8\xff\xe0rest"), Some(ImageFormat::Jpeg));
    assert_eq!(sniff(b"\x89PNG\r\n\x1a\nrest"), Some(ImageFormat::Png));
    for other in [
        &b""[..],
        b"\xff\xd8",
        b"\x89PNG\n",
        b"GIF89a",
        b"RIFF....WEB",
        b"\0\0\0\x18ftypheicmif1",
        b"\0\0\0\x18ftypavis\0\0\0\0avifavis",
    ] {
        assert_eq!(sniff(other), None);
    }
    let error = File::new("a.txt", b"hello".to_vec()).header().unwrap_err();
    assert!(
        error.to_string().contains("a.txt") && matches!(error, Error::Malformed { .. }),
        "{error}"
    );
}

#[test]
fn header_needs_a_few_small_reads() {
    struct Counting(MemorySource, std::sync::atomic::AtomicUsize);
    impl ByteSource for Counting {
        fn name(&self) -> &std::sync::Arc<str> {
            self.0.name()
        }
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
            let read = self.0.read_at(offset, buffer)?;
            self.1.fetch_add(read, std::sync::atomic::Ordering::Relaxed);
            Ok(read)
        }
        fn identity(&self) -> framespool::source::Identity {
            self.0.identity()
        }
    }
    let mut large = 0;
    for entry in valid_images()
        .iter()
        .filter(|entry| entry.path.contains("/classes/"))
    {
        let file = File::of(entry);
        large += usize::from(file.bytes.len() > 48 << 10);
        let source = Counting(MemorySource::new("m", file.bytes), 0.into());
        read_header(&source, &Limits::default()).unwrap();
        let read = source.1.into_inner();
        assert!(read <= 48 << 10, "{}: {read} bytes", entry.path);
    }
    assert!(
        large >= 10,
        "{large} files with more bytes than may be read"
    );
}
