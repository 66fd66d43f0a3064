//! In: a pixel pass, and frames whose planes are in a GPU's memory.
//! Out: what runs the pass there: tables to be uploaded once, and for each frame the launches of the kernels in `PTX`.
//! Never: touches a GPU, or reads what an address leads to: whoever asks for launches answers for the addresses.

pub(crate) mod kernel_args;
mod launch;
mod lut;
mod tables;

use crate::error::PassError;
use crate::frame::{required_plane_bytes, GenericFrame, GenericPlanes, PlaneBounds};

pub use launch::DevicePass;
pub use lut::DeviceLut;

/// The kernels, for the driver to compile: any GPU from compute capability 7.0 on.
pub const PTX: &str = include_str!("../cuda/gen/pixel_pass.ptx");

/// Threads of every block: as `TILE_WIDTH` and `TILE_HEIGHT` in `cuda/args.h`.
pub(crate) const BLOCK_DIM: (u32, u32) = (32, 8);

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
pub struct FormatOnly;

/// The arrangement of planes in device memory.
pub type DevicePlanes = GenericPlanes<DevicePlane>;

/// One decoded picture in device memory.
pub type DeviceFrame = GenericFrame<DevicePlane>;

/// All of a frame that a [`DevicePass`] depends on: everything but where its planes are.
pub type DeviceFormat = GenericFrame<FormatOnly>;

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

impl PlaneBounds for DevicePlane {
    fn check(self, index: usize, rows: usize, row_bytes: usize) -> Result<(), PassError> {
        let need = required_plane_bytes(self.stride_bytes, index, rows, row_bytes)?;
        let have = u64::MAX - self.address;
        if need > u128::from(have) {
            let (have_bytes, need_bytes) = (have as usize, u64::try_from(need).unwrap_or(u64::MAX));
            return Err(PassError::PlaneTooShort { plane: index, have_bytes, need_bytes });
        }
        Ok(())
    }
}

impl PlaneBounds for FormatOnly {
    fn check(self, _: usize, _: usize, _: usize) -> Result<(), PassError> {
        Ok(())
    }
}

impl<P: Copy> GenericFrame<P> {
    /// What kind of picture it is.
    pub fn format(&self) -> DeviceFormat {
        let Self { width, height, depth_bits, shift, planes, color } = *self;
        let planes = match planes {
            GenericPlanes::Gray(_) => GenericPlanes::Gray(FormatOnly),
            GenericPlanes::PlanarRgb(_) => GenericPlanes::PlanarRgb([FormatOnly; 3]),
            GenericPlanes::PackedRgb { pixel_bytes, offsets, .. } => {
                GenericPlanes::PackedRgb { plane: FormatOnly, pixel_bytes, offsets }
            }
            GenericPlanes::Yuv { log2_chroma_w, log2_chroma_h, .. } => {
                GenericPlanes::Yuv { planes: [FormatOnly; 3], log2_chroma_w, log2_chroma_h }
            }
            GenericPlanes::SemiPlanar { log2_chroma_w, log2_chroma_h, .. } => GenericPlanes::SemiPlanar {
                luma: FormatOnly,
                chroma: FormatOnly,
                log2_chroma_w,
                log2_chroma_h,
            },
        };
        DeviceFormat { width, height, depth_bits, shift, planes, color }
    }
}

/// Tables, scratch memory and slots must be aligned.
pub(crate) fn check_aligned(what: &'static str, address: u64, alignment: usize) -> Result<(), PassError> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(PassError::Misaligned { what, address, alignment })
    }
}
