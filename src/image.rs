//! Reads the headers of JPEG, PNG, WebP and AVIF images and decodes their pixels. Only this module
//! calls libjpeg-turbo. Does not rotate images, scales them only by libjpeg's decoding, and returns
//! an error for damaged ones.

mod avif;
mod cmyk;
mod exif;
mod header_reader;
mod jpeg;
mod keyframe;
mod libjpeg;
mod plane_buffer;
mod png;
mod webp;

use framespool_kernels::{
    ColorRange, Colorimetry, FrameView, MAX_SIDE, MatrixCoefficients, Plane, Planes,
};

use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::media::DisplayOrientation;
use crate::source::ByteSource;
use header_reader::HeaderReader;
use keyframe::KeyframeDecoder;
use libjpeg::{Decompressor, JpegError, JpegInfo, JpegLayout, JpegParams, OpenJpeg};
use plane_buffer::PlaneBuffer;

/// Number of bytes that `sniff` needs: the signature or, of an AVIF, its list of brands.
pub const SNIFF_BYTES: usize = 64;

/// Maximum number of scans of one JPEG. Encoders write about ten; each costs a pass over the
/// picture, however little it holds.
const MAX_SCANS: u16 = 100;
/// Memory that libjpeg may use in addition to the coefficients of a progressive picture.
const MAX_LIBJPEG_BYTES: u64 = 64 << 20;

/// Format of an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// JPEG, with or without JFIF's or EXIF's header.
    Jpeg,
    /// PNG; of an animated one, the default image.
    Png,
    /// WebP, lossy or lossless; of an animated one, the first frame.
    WebP,
    /// AVIF; of an image sequence, none: that is a video.
    Avif,
}

impl ImageFormat {
    /// Its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Avif => "AVIF",
        }
    }
}

/// Format of a file that begins with `head` (`SNIFF_BYTES` suffice); `None` for anything else.
pub fn sniff(head: &[u8]) -> Option<ImageFormat> {
    if head.starts_with(&[0xff, 0xd8, 0xff]) {
        Some(ImageFormat::Jpeg)
    } else if head.starts_with(&png::SIGNATURE) {
        Some(ImageFormat::Png)
    } else if webp::is_webp(head) {
        Some(ImageFormat::WebP)
    } else if avif::is_avif(head) {
        Some(ImageFormat::Avif)
    } else {
        None
    }
}

/// Image formats that are not supported, by their first bytes.
fn unsupported_format(head: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, text: &[u8]| {
        head.get(offset..)
            .is_some_and(|rest| rest.starts_with(text))
    };
    match () {
        () if at(0, b"GIF8") => Some("GIF"),
        () if at(0, b"BM") => Some("BMP"),
        () if at(0, b"II*\0") || at(0, b"MM\0*") => Some("TIFF"),
        () if at(4, b"ftypavis") => Some("an AVIF image sequence"),
        () if at(4, b"ftyphei") || at(4, b"ftyphev") || at(4, b"ftypmif1") => Some("HEIF"),
        () if at(0, b"\0\0\0\x0cjP  ") => Some("JPEG 2000"),
        () if at(0, b"\xff\x0a") || at(0, b"\0\0\0\x0cJXL ") => Some("JPEG XL"),
        () => None,
    }
}

/// Components of an image, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorModel {
    /// One component.
    Gray,
    GrayAlpha,
    /// Y, Cb, Cr; horizontal and vertical sampling factor of each.
    Ycc([(u8, u8); 3]),
    /// R, G, B; of WebP, also where these are computed from Y, Cb, Cr.
    Rgb,
    /// R, G, B and alpha, likewise.
    Rgba,
    /// Indices of palette entries.
    Palette,
    /// C, M, Y, K.
    Cmyk,
    /// Y, Cb, Cr, K.
    Ycck,
    /// A JPEG with this many components of unknown meaning.
    Unknown(u8),
}

/// How the samples are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodingProcess {
    /// JPEG baseline: SOF0.
    Baseline,
    /// JPEG extended sequential, Huffman: SOF1.
    Extended,
    /// JPEG progressive, Huffman: SOF2.
    Progressive,
    /// JPEG with arithmetic coding, sequential or progressive: SOF9, SOF10.
    Arithmetic,
    /// Lossless JPEG: SOF3, SOF11.
    Lossless,
    /// Hierarchical JPEG: SOF5 to SOF7, SOF13 to SOF15.
    Hierarchical,
    /// PNG, row by row.
    Deflate,
    /// PNG, interlaced.
    DeflateInterlaced,
    /// Lossy WebP.
    Vp8,
    /// Lossless WebP.
    Vp8Lossless,
    /// AVIF.
    Av1,
}

/// Properties of a file, from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Format of the file.
    pub format: ImageFormat,
    /// Width as stored, before rotation.
    pub width: u32,
    /// Height as stored.
    pub height: u32,
    /// Orientation from EXIF or, of an AVIF, from its properties.
    pub orientation: DisplayOrientation,
    /// Its components.
    pub color_model: ColorModel,
    pub coding: CodingProcess,
    /// Bits of a sample, or of a palette index.
    pub sample_bits: u8,
}

impl ImageHeader {
    /// Width and height of the picture decoded at `scale`, before rotation.
    pub fn scaled_size(&self, scale: DctScale) -> (u32, u32) {
        (
            self.width.div_ceil(scale.divisor()),
            self.height.div_ceil(scale.divisor()),
        )
    }

    /// Whether its pixels may be labels: one number each, of at most 8 bits.
    pub(crate) fn holds_labels(&self) -> bool {
        // Values of a gray JPEG only approximate those that were encoded, and labels must be exact.
        self.format == ImageFormat::Png
            && matches!(
                self.color_model,
                ColorModel::Gray | ColorModel::GrayAlpha | ColorModel::Palette
            )
            && self.sample_bits <= 8
    }

    /// Whether it can be decoded at this scale.
    pub fn can_scale(&self, scale: DctScale) -> bool {
        scale == DctScale::Full || self.format == ImageFormat::Jpeg
    }
}

/// Whether a file is a single image by its name and its first bytes. The name counts, because a
/// stream of Motion JPEG starts like an image.
///
/// # Errors
/// Those of reading the source.
pub fn is_image_file(source: &dyn ByteSource, limits: &Limits) -> Result<bool> {
    const ENDINGS: [&str; 5] = [".jpg", ".jpeg", ".png", ".webp", ".avif"];
    let name = source.name().to_ascii_lowercase();
    let path = name.split(['?', '#']).next().unwrap_or(&name);
    if !ENDINGS.iter().any(|ending| path.ends_with(ending)) {
        return Ok(false);
    }
    let mut reader = HeaderReader::new(source, limits);
    Ok(sniff(reader.read_up_to(0, SNIFF_BYTES)?).is_some())
}

/// Reads the header of a file: a few KiB, or as much as its segments before the picture take.
pub fn read_header(source: &dyn ByteSource, limits: &Limits) -> Result<ImageHeader> {
    let mut reader = HeaderReader::new(source, limits);
    let format = sniff(reader.read_up_to(0, SNIFF_BYTES)?);
    let header = match format {
        Some(ImageFormat::Jpeg) => jpeg::header(&mut reader)?,
        Some(ImageFormat::Png) => png::header(&mut reader)?,
        Some(ImageFormat::WebP) => webp::header(&mut reader)?,
        Some(ImageFormat::Avif) => avif::header(&mut reader)?,
        None if source.is_empty() => return Err(Error::empty(reader.site())),
        None => {
            if let Some(name) = unsupported_format(reader.read_up_to(0, SNIFF_BYTES)?) {
                let what = format!("an image in {name} (only JPEG, PNG, WebP and AVIF are read)");
                return Err(Error::Unsupported {
                    site: reader.site().clone(),
                    what,
                });
            }
            return Err(Error::malformed(
                reader.site(),
                "it starts like no image in JPEG, PNG, WebP or AVIF",
            ));
        }
    };
    let (width, height) = (u64::from(header.width), u64::from(header.height));
    if width == 0 || height == 0 {
        return Err(Error::malformed(
            reader.site(),
            format!("the image is {width}x{height}"),
        ));
    }
    Limits::check(
        reader.site(),
        "the image's longer side",
        width.max(height),
        u64::from(MAX_SIDE),
    )?;
    Limits::check(
        reader.site(),
        "the image's number of pixels",
        width * height,
        limits.picture_samples,
    )?;
    if format == Some(ImageFormat::Png) {
        png::check_size(&reader, &header)?;
    }
    Ok(header)
}

/// The fraction of full size at which a JPEG is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DctScale {
    /// 1
    #[default]
    Full,
    /// 1/2
    Half,
    /// 1/4
    Quarter,
    /// 1/8
    Eighth,
}

impl DctScale {
    /// All values, from the largest picture to the smallest.
    pub const ALL: [Self; 4] = [Self::Full, Self::Half, Self::Quarter, Self::Eighth];

    /// 1, 2, 4 or 8: sides are divided by it and rounded up.
    pub fn divisor(self) -> u32 {
        1 << self as u32
    }
}

/// How an image is to be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DecodeOptions {
    pub scale: DctScale,
    /// Return exactly the bytes of Pillow's `Image.open(file).convert("RGB")`, which interpolates
    /// chroma, rather than planes as stored. Has no effect on AVIF, whose conversion differs
    /// between versions of Pillow.
    pub exact: bool,
    /// Return numbers as stored, of a palette too: they are labels.
    pub labels: bool,
    /// Range of rows of the scaled picture that will be used: the first, and one past the last.
    /// Other rows are not decoded where that saves work: their content is undefined, and damage
    /// there may go unnoticed.
    pub rows: Option<(u32, u32)>,
}

/// Decodes images one after another; keeps the memory of the samples, and nothing else of an image.
/// One per worker.
#[derive(Default)]
pub struct ImageDecoder {
    decompressor: Option<Decompressor>,
    av1: Option<Box<KeyframeDecoder>>,
    vp8: Option<Box<KeyframeDecoder>>,
    plane_buffer: PlaneBuffer,
}

impl ImageDecoder {
    /// A decoder without any memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the image of a whole file whose header is `header`; the result is valid until the
    /// next call.
    ///
    /// Planes are Y, Cb, Cr as stored (of JPEG in BT.601 and full range), gray, or R, G, B: of JPEG
    /// and lossy WebP where `options.exact` is set, for PNG and other WebP, and for JPEGs in RGB,
    /// CMYK, YCCK or with sampling factors that the kernels do not support. A picture scaled by
    /// libjpeg may have finer chroma than the full one: libjpeg scales planes by different factors
    /// where that avoids enlarging them again.
    ///
    /// A pixel of a picture scaled to 1/k covers k x k pixels of the full one, so where a side is
    /// not a multiple of k the last pixel extends beyond the edge: coordinates in the full picture
    /// are `k` times those in the scaled one, not by the ratio of their sides.
    ///
    /// Damage is an error: every warning of libjpeg, except for bytes between segments, unknown
    /// versions of JFIF and Adobe's segment, damaged profiles, and progressive parameters in a
    /// baseline scan, all of which leave every sample correct. So is the end of the file before the
    /// end marker. Of a PNG, everything up to the last byte of the picture must be valid, including
    /// checksums. WebP and AVIF have no checksums: damage that their decoders accept goes
    /// unnoticed.
    pub fn decode(
        &mut self,
        site: &Site,
        header: &ImageHeader,
        bytes: &[u8],
        options: DecodeOptions,
    ) -> Result<FrameView<'_>> {
        if options.labels && !header.holds_labels() {
            let what = "a mask that is not a PNG with one channel or a palette and at most 8 bits"
                .to_owned();
            return Err(Error::Unsupported {
                site: site.clone(),
                what,
            });
        }
        if !header.can_scale(options.scale) {
            return Err(Error::Argument(format!(
                "{site}: only a JPEG is decoded at less than full size"
            )));
        }
        match header.format {
            ImageFormat::Png => {
                png::decode(site, header, bytes, options.labels, &mut self.plane_buffer)
            }
            ImageFormat::WebP => {
                if header.coding == CodingProcess::Vp8 && !options.exact {
                    let vp8 = self
                        .vp8
                        .get_or_insert_with(|| Box::new(KeyframeDecoder::new("vp8")));
                    if let Some(view) = webp::decode_planes(vp8, site, header, bytes)? {
                        return Ok(view);
                    }
                }
                webp::decode(site, header, bytes, &mut self.plane_buffer)
            }
            ImageFormat::Avif => {
                let av1 = self
                    .av1
                    .get_or_insert_with(|| Box::new(KeyframeDecoder::new("av1")));
                avif::decode(av1, site, header, bytes, &mut self.plane_buffer)
            }
            ImageFormat::Jpeg => self.decode_jpeg(site, header, bytes, options),
        }
    }

    /// Decodes a JPEG exactly, into contiguous rows of R, G, B: the result of
    /// [`decode`](Self::decode), without a copy. Returns `false` without decoding where libjpeg
    /// does not produce such rows, or they do not fill `rgb`.
    pub fn decode_into(
        &mut self,
        site: &Site,
        header: &ImageHeader,
        bytes: &[u8],
        rgb: &mut [u8],
    ) -> Result<bool> {
        let row_bytes = header.width as usize * 3;
        let has_rows = header.format == ImageFormat::Jpeg
            && matches!(header.color_model, ColorModel::Ycc(_) | ColorModel::Rgb);
        if !has_rows || rgb.len() != row_bytes * header.height as usize {
            return Ok(false);
        }
        let options = DecodeOptions {
            exact: true,
            ..DecodeOptions::default()
        };
        let (opened, params) = open(&mut self.decompressor, site, header, bytes, options)?;
        if opened.info().layout != JpegLayout::Rgb {
            return Ok(false);
        }
        let rows = 0..header.height;
        opened
            .read(&mut [rgb], &[row_bytes], rows)
            .map_err(|error| decode_error(site, error, &params))?;
        Ok(true)
    }

    /// Frees memory beyond what typical images need. The next image does the same if it is much
    /// smaller than the last.
    pub fn release_memory(&mut self) {
        self.plane_buffer.release();
    }

    fn decode_jpeg(
        &mut self,
        site: &Site,
        header: &ImageHeader,
        bytes: &[u8],
        options: DecodeOptions,
    ) -> Result<FrameView<'_>> {
        let (opened, params) = open(&mut self.decompressor, site, header, bytes, options)?;
        let info = opened.info().clone();
        let mut sizes = [0; 3];
        let mut strides = [0; 3];
        let count = info.planes().len();
        for (n, plane) in info.planes().iter().enumerate() {
            strides[n] = plane.row_bytes as usize;
            sizes[n] = strides[n] * plane.rows as usize;
        }
        let mut planes = self.plane_buffer.reserve(site, sizes)?;
        let rows = options
            .rows
            .filter(|_| !options.exact)
            .map_or(0..info.height, |(first, end)| first..end);
        opened
            .read(&mut planes[..count], &strides[..count], rows)
            .map_err(|error| decode_error(site, error, &params))?;
        if info.layout == JpegLayout::Cmyk {
            cmyk::to_rgb(planes[0]);
        }
        Ok(view(&info, planes.map(|plane| &*plane), strides))
    }
}

/// Opens a JPEG with libjpeg, and checks that libjpeg reads the same size as `header` has.
fn open<'a>(
    decompressor: &'a mut Option<Decompressor>,
    site: &Site,
    header: &ImageHeader,
    bytes: &'a [u8],
    options: DecodeOptions,
) -> Result<(OpenJpeg<'a>, JpegParams)> {
    jpeg::check_supported(site, header)?;
    if decompressor.is_none() {
        *decompressor = Decompressor::new();
    }
    let Some(decompressor) = decompressor else {
        return Err(Error::io(site, std::io::ErrorKind::OutOfMemory.into()));
    };
    let samples = u64::from(header.width.next_multiple_of(32))
        * u64::from(header.height.next_multiple_of(32));
    let params = JpegParams {
        scale: options.scale.divisor() as u8,
        exact: options.exact,
        scan_limit: MAX_SCANS,
        // Coefficients of a progressive picture: two bytes each, at most four components.
        memory_bytes: samples * 8 + MAX_LIBJPEG_BYTES,
    };
    let opened = decompressor
        .open(bytes, params)
        .map_err(|error| decode_error(site, error, &params))?;
    let info = opened.info();
    // The memory to decode into was checked against the limits when the header was read, for this
    // size only.
    if info.full != (header.width, header.height)
        || (info.width, info.height) != header.scaled_size(options.scale)
    {
        let ((width, height), (was_wide, was_high)) = (info.full, (header.width, header.height));
        let reason =
            format!("the image is {width}x{height}, but its header states {was_wide}x{was_high}");
        return Err(Error::malformed(site, reason));
    }
    Ok((opened, params))
}

fn view<'a>(info: &JpegInfo, data: [&'a [u8]; 3], strides: [usize; 3]) -> FrameView<'a> {
    let plane = |n: usize| Plane {
        data: data[n],
        stride_bytes: strides[n],
    };
    let chroma = info.planes().get(1).copied().unwrap_or_default();
    let packed = |pixel_bytes| Planes::PackedRgb {
        plane: plane(0),
        pixel_bytes,
        offsets: [0, 1, 2],
    };
    let (planes, matrix) = match info.layout {
        JpegLayout::Gray => (Planes::Gray(plane(0)), MatrixCoefficients::Bt601),
        JpegLayout::Yuv => {
            let (log2_chroma_w, log2_chroma_h) = (chroma.log2_w as u8, chroma.log2_h as u8);
            let planes = [plane(0), plane(1), plane(2)];
            (
                Planes::Yuv {
                    planes,
                    log2_chroma_w,
                    log2_chroma_h,
                },
                MatrixCoefficients::Bt601,
            )
        }
        JpegLayout::Rgb => (packed(3), MatrixCoefficients::Rgb),
        JpegLayout::Cmyk => (packed(4), MatrixCoefficients::Rgb),
    };
    let color = Colorimetry {
        matrix,
        range: ColorRange::Full,
    };
    FrameView {
        width: info.width,
        height: info.height,
        depth_bits: 8,
        shift: 0,
        planes,
        color,
    }
}

fn decode_error(site: &Site, error: JpegError, params: &JpegParams) -> Error {
    let site = site.clone();
    match error {
        JpegError::Damaged(message) => Error::Decode {
            site,
            reason: format!("libjpeg reports: {message}"),
        },
        JpegError::Unsupported(message) => Error::Unsupported {
            site,
            what: format!("'{message}' (libjpeg)"),
        },
        JpegError::Limit(message) if message.contains("scans") => {
            let cap = u64::from(params.scan_limit);
            Error::Limit {
                site,
                what: "the number of scans",
                value: cap + 1,
                cap,
            }
        }
        JpegError::Limit(_) => {
            let cap = params.memory_bytes;
            Error::Limit {
                site,
                what: "the memory that libjpeg requests, in bytes,",
                value: cap + 1,
                cap,
            }
        }
        JpegError::Bug(reason) => Error::Internal { site, reason },
    }
}
