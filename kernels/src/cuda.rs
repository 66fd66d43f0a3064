//! Prepares a pixel pass for frames in GPU memory: tables to upload once, and kernel launches for
//! each frame. It does not call the GPU or dereference addresses; the caller is responsible for
//! their validity.

mod deinterlace;
pub(crate) mod kernel_args;
mod launch;
mod lut;
mod rgb_operation;
mod tables;

use crate::error::PassError;
use crate::frame::{GenericFrame, GenericPlanes, PlaneBounds, required_plane_bytes};

pub use launch::DevicePass;
pub use lut::DeviceLut;
pub use rgb_operation::DeviceOperation;

/// The kernels as PTX, which the driver compiles for any GPU from compute capability 7.0.
/// `build.rs` decompresses it.
pub const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/pixel_pass.ptx"));

/// Threads of every block: as `TILE_WIDTH` and `TILE_HEIGHT` in `cuda/args.h`.
pub(crate) const BLOCK_DIM: (u32, u32) = (32, 8);

/// One plane in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevicePlane {
    /// Address of the first byte of the first row.
    pub address: u64,
    /// Bytes from one row to the next, at least the bytes of a row.
    pub stride_bytes: usize,
}

/// Placeholder for a plane where only the frame format matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormatOnly;

/// The arrangement of planes in device memory.
pub type DevicePlanes = GenericPlanes<DevicePlane>;

/// One decoded picture in device memory.
pub type DeviceFrame = GenericFrame<DevicePlane>;

/// The properties of a frame that a [`DevicePass`] depends on: everything except the addresses of
/// its planes.
pub type DeviceFormat = GenericFrame<FormatOnly>;

/// The destination of a frame in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlot {
    /// Address of element (0, 0, 0): a multiple of the element size.
    pub address: u64,
    /// Channel stride in elements.
    pub channel_stride: usize,
    /// Row stride in elements.
    pub row_stride: usize,
    /// Column stride in elements.
    pub column_stride: usize,
}

/// One kernel launch. The launches of a frame run in this order, on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its name in [`PTX`].
    pub kernel: &'static str,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The bytes of its one parameter, a struct aligned to 8.
    pub args: Vec<u8>,
    /// Memory (address and bytes) that must be zeroed before the launch.
    pub clear: Option<(u64, usize)>,
}

impl PlaneBounds for DevicePlane {
    fn check(self, index: usize, rows: usize, row_bytes: usize) -> Result<(), PassError> {
        let need = required_plane_bytes(self.stride_bytes, index, rows, row_bytes)?;
        let have = u64::MAX - self.address;
        if need > u128::from(have) {
            let (have_bytes, need_bytes) = (have as usize, u64::try_from(need).unwrap_or(u64::MAX));
            return Err(PassError::PlaneTooShort {
                plane: index,
                have_bytes,
                need_bytes,
            });
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
    /// The format of the frame.
    pub fn format(&self) -> DeviceFormat {
        let Self {
            width,
            height,
            depth_bits,
            shift,
            planes,
            color,
        } = *self;
        let planes = planes.map(|_, _| FormatOnly);
        DeviceFormat {
            width,
            height,
            depth_bits,
            shift,
            planes,
            color,
        }
    }
}

/// Tables, scratch memory and slots must be aligned.
pub(crate) fn check_aligned(
    what: &'static str,
    address: u64,
    alignment: usize,
) -> Result<(), PassError> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(PassError::Misaligned {
            what,
            address,
            alignment,
        })
    }
}
