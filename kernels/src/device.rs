//! In: a pixel pass, and frames whose planes are in a GPU's memory.
//! Out: what runs the pass there: tables to be uploaded once, and for each frame the launches of the kernels in `PTX`.
//! Never: touches a GPU, or reads what an address leads to: whoever asks for launches answers for the addresses.

pub(crate) mod args;
mod expand;
mod plan;
mod tables;

use crate::error::PassError;
use crate::view::{extent_bytes, Extent, FrameOf, PlanesOf};

pub use expand::DeviceExpand;
pub use plan::DevicePass;

/// The kernels, for the driver to compile: any GPU from compute capability 7.0 on.
pub const PTX: &str = include_str!("../cuda/gen/pixel_pass.ptx");

/// Threads of every block: as `TILE_WIDTH` and `TILE_HEIGHT` in `cuda/args.h`.
pub(crate) const TILE: (u32, u32) = (32, 8);

/// One plane in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevicePlane {
    /// Of the first byte of the first row.
    pub address: u64,
    /// Distance of rows, at least the bytes of a row.
    pub stride_bytes: usize,
}

/// Stands for a plane where only the kind of picture is spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoPlane;

/// The arrangement of planes in device memory.
pub type DevicePlanes = PlanesOf<DevicePlane>;

/// One decoded picture in device memory.
pub type DeviceFrame = FrameOf<DevicePlane>;

/// All of a frame that a [`DevicePass`] depends on: everything but where its planes are.
pub type DeviceFormat = FrameOf<NoPlane>;

/// Where a picture goes in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlot {
    /// Of element (0, 0, 0): a multiple of the bytes of an element.
    pub address: u64,
    /// Distance of R, G, B in elements.
    pub channel_stride: usize,
    /// Distance of rows in elements.
    pub row_stride: usize,
    /// Distance of columns in elements.
    pub column_stride: usize,
}

/// One launch of a kernel. Those of a frame run in the order in which they are given, on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its name in [`PTX`].
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// The bytes of its one parameter, a struct aligned to 8.
    pub args: Vec<u8>,
    /// Memory (address and bytes) that must be zero before.
    pub clear: Option<(u64, usize)>,
}

impl Extent for DevicePlane {
    fn check(self, index: usize, rows: usize, row_bytes: usize) -> Result<(), PassError> {
        let need = extent_bytes(self.stride_bytes, index, rows, row_bytes)?;
        let have = u64::MAX - self.address;
        if need > u128::from(have) {
            let (have_bytes, need_bytes) = (have as usize, u64::try_from(need).unwrap_or(u64::MAX));
            return Err(PassError::PlaneShort { plane: index, have_bytes, need_bytes });
        }
        Ok(())
    }
}

impl Extent for NoPlane {
    fn check(self, _: usize, _: usize, _: usize) -> Result<(), PassError> {
        Ok(())
    }
}

impl<P: Copy> FrameOf<P> {
    /// What kind of picture it is.
    pub fn format(&self) -> DeviceFormat {
        let Self { width, height, depth_bits, shift, planes, color } = *self;
        let planes = match planes {
            PlanesOf::Gray(_) => PlanesOf::Gray(NoPlane),
            PlanesOf::PlanarRgb(_) => PlanesOf::PlanarRgb([NoPlane; 3]),
            PlanesOf::PackedRgb { pixel_bytes, offsets, .. } => {
                PlanesOf::PackedRgb { plane: NoPlane, pixel_bytes, offsets }
            }
            PlanesOf::Yuv { log2_chroma_w, log2_chroma_h, .. } => {
                PlanesOf::Yuv { planes: [NoPlane; 3], log2_chroma_w, log2_chroma_h }
            }
            PlanesOf::SemiPlanar { log2_chroma_w, log2_chroma_h, .. } => {
                PlanesOf::SemiPlanar { luma: NoPlane, chroma: NoPlane, log2_chroma_w, log2_chroma_h }
            }
        };
        DeviceFormat { width, height, depth_bits, shift, planes, color }
    }
}

/// Tables, scratch memory and slots must be aligned.
pub(crate) fn check_aligned(what: &'static str, address: u64, alignment: usize) -> Result<(), PassError> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(PassError::Unaligned { what, address, alignment })
    }
}
