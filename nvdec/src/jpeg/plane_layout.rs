//! Decides whether nvJPEG may decode a file, and computes the layout of its planes in one block of
//! memory. Header parser and library must agree: the writer and the readers of the planes must use
//! the same size.

use super::header::{CodingProcess, ColorModel, JpegHeader};
use super::sys::{Image, subsampling};
use crate::{Error, Result};

/// Maximum size of an image's planes, in bytes.
const MAX_IMAGE_BYTES: u64 = 1 << 30;

/// Alignment of planes and rows, in bytes.
const ALIGN_BYTES: u64 = 256;

/// Plane heights are rounded up to this many rows: an engine that writes complete blocks stays
/// within the plane.
const ROW_ALIGN: u64 = 32;

/// The library's view of a file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageInfo {
    pub components: i32,
    pub subsampling: i32,
    /// Width and height of each component.
    pub sizes: [(i32, i32); 4],
}

/// Offsets of an image's planes in a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaneLayout {
    /// Number of planes: 1 or 3.
    pub planes: usize,
    /// `None` for gray.
    pub log2_chroma: Option<(u8, u8)>,
    /// Offset of each plane.
    offsets: [u64; 3],
    pub pitches: [usize; 3],
    /// Size of the block.
    pub bytes: usize,
}

/// Checks that nvJPEG may decode a file: 8 bits, gray or YCbCr, a sampling that the kernels can
/// read, not truncated.
///
/// Other files are never passed to the library: its own header parser (12.4 and 13.3) divides by
/// zero if a sampling factor is zero, which ends the process. the process.
///
/// # Errors
/// The reason for rejection, as text.
pub fn check_supported(header: &JpegHeader) -> Result<(), String> {
    let (components, depth) = (header.components, header.depth_bits);
    if let CodingProcess::Other(marker) = header.process {
        return Err(format!(
            "nvJPEG does not decode lossless, hierarchical or arithmetic JPEG (SOF{})",
            marker & 15
        ));
    }
    if depth != 8 {
        return Err(format!(
            "nvJPEG decodes samples of 8 bits, but this file has {depth}"
        ));
    }
    match header.color_model {
        ColorModel::Gray | ColorModel::YCbCr => (),
        ColorModel::Other => {
            return Err(format!(
                "only gray and YCbCr files are passed to nvJPEG, but this file has {components} components of another kind"
            ));
        }
    }
    if !matches!(header.log2_chroma(), Some((0..=2, 0) | (1 | 2, 1) | (0, 1))) {
        let sampling_factors = &header.sampling_factors[..usize::from(components).min(4)];
        return Err(format!(
            "files with sampling factors {sampling_factors:?} are not passed to nvJPEG"
        ));
    }
    if !header.has_huffman_tables {
        return Err("the file has no Huffman tables, and nvJPEG has no default tables".to_owned());
    }
    if !header.has_eoi {
        return Err("the file has no end marker: it is truncated".to_owned());
    }
    let (width, height) = (header.width, header.height);
    match arrange_planes(header, [(0, 0); 3]).1 {
        bytes if bytes > MAX_IMAGE_BYTES => Err(format!(
            "planes of {width}x{height} need {bytes} bytes on the GPU, more than {MAX_IMAGE_BYTES}"
        )),
        _ => Ok(()),
    }
}

/// Whether the JPEG engines may support such a file; the library decides.
pub(crate) fn is_hardware_candidate(header: &JpegHeader) -> bool {
    header.process == CodingProcess::Baseline
        && header.interleaved
        && header.log2_chroma().is_some_and(|(w, _)| w < 2)
}

/// Width and height of a plane, from the header.
fn plane_size(header: &JpegHeader, plane: usize) -> (u64, u64) {
    let (w, h) = if plane == 0 {
        (0, 0)
    } else {
        header.log2_chroma().unwrap_or((0, 0))
    };
    (
        u64::from(header.width).div_ceil(1 << w),
        u64::from(header.height).div_ceil(1 << h),
    )
}

/// Offsets and pitches of planes that hold both the header's and the library's sizes, and the total
/// size in bytes.
fn arrange_planes(header: &JpegHeader, library: [(u64, u64); 3]) -> (([u64; 3], [u64; 3]), u64) {
    let (mut offsets, mut pitches, mut end) = ([0; 3], [0; 3], 0);
    for plane in 0..usize::from(header.components).min(3) {
        let (width, height) = plane_size(header, plane);
        offsets[plane] = end;
        pitches[plane] = width.max(library[plane].0).next_multiple_of(ALIGN_BYTES);
        end += pitches[plane] * height.max(library[plane].1).next_multiple_of(ROW_ALIGN);
    }
    ((offsets, pitches), end)
}

impl PlaneLayout {
    /// Computes the layout of an image whose header and library agree.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if they do not, or if [`check_supported`] fails.
    pub(super) fn of(header: &JpegHeader, info: &ImageInfo) -> Result<PlaneLayout> {
        let unsupported = |reason| Error::Unsupported { reason };
        check_supported(header).map_err(unsupported)?;
        let planes = usize::from(header.components);
        let known = match info.subsampling {
            subsampling::S444 => Some((0, 0)),
            subsampling::S422 => Some((1, 0)),
            subsampling::S420 => Some((1, 1)),
            subsampling::S440 => Some((0, 1)),
            subsampling::S411 => Some((2, 0)),
            subsampling::S410 => Some((2, 1)),
            subsampling::GRAY => (planes == 1).then_some((0, 0)),
            _ => None,
        };
        let mut library = [(0, 0); 3];
        for (plane, size) in library.iter_mut().enumerate().take(planes) {
            let (width, height) = info.sizes[plane];
            *size = (
                u64::try_from(width).unwrap_or(0),
                u64::try_from(height).unwrap_or(0),
            );
        }
        let expected = |plane| plane_size(header, plane);
        let agreed = library[0] == expected(0)
                        // A larger plane contains what is needed.
            && (1..planes).all(|plane| library[plane].0 >= expected(plane).0 && library[plane].1 >= expected(plane).1);
        if info.components != planes as i32 || known != header.log2_chroma() || !agreed {
            return Err(unsupported(format!(
                "nvJPEG reports another header than framespool's parser ({info:?}, {}x{}, {:?})",
                header.width, header.height, header.sampling_factors
            )));
        }
        let ((offsets, pitches), bytes) = arrange_planes(header, library);
        if bytes > MAX_IMAGE_BYTES {
            return Err(unsupported(format!(
                "the planes need {bytes} bytes on the GPU, more than {MAX_IMAGE_BYTES}"
            )));
        }
        let log2_chroma = (planes == 3).then(|| header.log2_chroma()).flatten();
        let pitches = pitches.map(|pitch| pitch as usize);
        Ok(PlaneLayout {
            planes,
            log2_chroma,
            offsets,
            pitches,
            bytes: bytes as usize,
        })
    }

    /// Address of a plane in a block at `block`.
    pub(super) fn address(&self, block: u64, plane: usize) -> u64 {
        block + self.offsets[plane]
    }

    /// The planes that nvJPEG writes, in a block at `block`.
    pub(super) fn image(&self, block: u64) -> Image {
        let mut image = Image::default();
        for plane in 0..self.planes {
            (image.channel[plane], image.pitch[plane]) =
                (self.address(block, plane), self.pitches[plane]);
        }
        image
    }
}
