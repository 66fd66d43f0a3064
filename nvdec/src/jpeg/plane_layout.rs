//! In: what a file's header says, and what the library says of it.
//! Out: whether nvJPEG may be given it, and where in one block of memory its planes go.
//! Never: trusts one of the two alone: who writes the planes and who reads them must agree on their size.

use super::header::{CodingProcess, ColorModel, JpegHeader};
use super::sys::{subsampling, Image};
use crate::{Error, Result};

/// No picture may have larger planes than this.
const MAX_IMAGE_BYTES: u64 = 1 << 30;

/// Planes and their rows begin at multiples of this.
const ALIGN_BYTES: u64 = 256;

/// Plane heights are rounded up to this many rows: an engine that writes whole blocks stays within the plane.
const ROW_ALIGN: u64 = 32;

/// What the library read out of a file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageInfo {
    pub components: i32,
    pub subsampling: i32,
    /// Width and height of each component.
    pub sizes: [(i32, i32); 4],
}

/// Where the planes of a picture lie in a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaneLayout {
    /// How many planes: 1 or 3.
    pub planes: usize,
    /// `None` for gray.
    pub log2_chroma: Option<(u8, u8)>,
    /// Where each plane begins.
    offsets: [u64; 3],
    pub pitches: [usize; 3],
    /// The whole block.
    pub bytes: usize,
}

/// Whether nvJPEG may be given such a file: 8 bits, gray or YCbCr, of a sampling that the kernels read, whole.
///
/// The library sees nothing else: its own header reader (12.4 and 13.3) divides by zero where a sampling factor is zero, and ends
/// the process.
///
/// # Errors
/// The reason, in words, why not.
pub fn check_supported(header: &JpegHeader) -> Result<(), String> {
    let (components, depth) = (header.components, header.depth_bits);
    if let CodingProcess::Other(marker) = header.process {
        return Err(format!(
            "nvJPEG does not decode lossless, hierarchical or arithmetic JPEG (SOF{})",
            marker & 15
        ));
    }
    if depth != 8 {
        return Err(format!("nvJPEG decodes samples of 8 bits, and these have {depth}"));
    }
    match header.color_model {
        ColorModel::Gray | ColorModel::YCbCr => (),
        ColorModel::Other => {
            return Err(format!("nvJPEG is given gray and YCbCr files here, and this one has {components} components of another kind"))
        }
    }
    if !matches!(header.log2_chroma(), Some((0..=2, 0) | (1 | 2, 1) | (0, 1))) {
        let sampling_factors = &header.sampling_factors[..usize::from(components).min(4)];
        return Err(format!("nvJPEG is not given a file with sampling factors {sampling_factors:?}"));
    }
    if !header.has_huffman_tables {
        return Err("the file has no Huffman tables, and nvJPEG brings none".to_owned());
    }
    if !header.has_eoi {
        return Err("the file has no end marker: it was cut short".to_owned());
    }
    let (width, height) = (header.width, header.height);
    match arrange_planes(header, [(0, 0); 3]).1 {
        bytes if bytes > MAX_IMAGE_BYTES => Err(format!(
            "planes of {width}x{height} need {bytes} bytes on the GPU, more than {MAX_IMAGE_BYTES}"
        )),
        _ => Ok(()),
    }
}

/// Whether the JPEG engines may be asked about such a file; the library has the last word.
pub(crate) fn is_hardware_candidate(header: &JpegHeader) -> bool {
    header.process == CodingProcess::Baseline
        && header.interleaved
        && header.log2_chroma().is_some_and(|(w, _)| w < 2)
}

/// Width and height of a plane, by the header.
fn plane_size(header: &JpegHeader, plane: usize) -> (u64, u64) {
    let (w, h) = if plane == 0 { (0, 0) } else { header.log2_chroma().unwrap_or((0, 0)) };
    (u64::from(header.width).div_ceil(1 << w), u64::from(header.height).div_ceil(1 << h))
}

/// Offsets and pitches of planes that are as large as the header says and as the library says, and the bytes of all.
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
    /// The layout of a picture whose header and library agree.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where they do not, or [`check_supported`] says no.
    pub fn of(header: &JpegHeader, info: &ImageInfo) -> Result<PlaneLayout> {
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
            *size = (u64::try_from(width).unwrap_or(0), u64::try_from(height).unwrap_or(0));
        }
        let expected = |plane| plane_size(header, plane);
        let agreed = library[0] == expected(0)
            // A larger plane has what is needed and more.
            && (1..planes).all(|plane| library[plane].0 >= expected(plane).0 && library[plane].1 >= expected(plane).1);
        if info.components != planes as i32 || known != header.log2_chroma() || !agreed {
            return Err(unsupported(format!(
                "nvJPEG reads the file's header otherwise than it is written here ({info:?}, {}x{}, {:?})",
                header.width, header.height, header.sampling_factors
            )));
        }
        let ((offsets, pitches), bytes) = arrange_planes(header, library);
        if bytes > MAX_IMAGE_BYTES {
            return Err(unsupported(format!(
                "its planes need {bytes} bytes on the GPU, more than {MAX_IMAGE_BYTES}"
            )));
        }
        let log2_chroma = (planes == 3).then(|| header.log2_chroma()).flatten();
        let pitches = pitches.map(|pitch| pitch as usize);
        Ok(PlaneLayout { planes, log2_chroma, offsets, pitches, bytes: bytes as usize })
    }

    /// The address of a plane in a block at `block`.
    pub fn address(&self, block: u64, plane: usize) -> u64 {
        block + self.offsets[plane]
    }

    /// Where nvJPEG is to write, in a block at `block`.
    pub fn image(&self, block: u64) -> Image {
        let mut image = Image::default();
        for plane in 0..self.planes {
            (image.channel[plane], image.pitch[plane]) = (self.address(block, plane), self.pitches[plane]);
        }
        image
    }
}
