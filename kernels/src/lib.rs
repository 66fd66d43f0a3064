//! Converts a decoded frame (YUV or RGB planes, 8 to 16 bits) to the elements of a clip: a single
//! pass that orients, crops, resizes, flips, converts colors, normalizes, and writes directly into
//! the clip's slot of the batch buffer.
//!
//! The pass is *defined in integers* (`SPEC.md` of this crate), so every backend and machine gives
//! the same bytes. It does not allocate per row, and reads only the pixels that the output needs.
//! [`mod@reference`] contains the references: the contract as plain loops, and the exact result in
//! `f64`.
//!
//! # Where to start
//!
//! - A [`FrameView`] borrows the planes of a decoded frame, with its [`Colorimetry`].
//! - A [`PixelPass`] is a [`Geometry`] and an [`OutputSpec`], checked and compiled once;
//!   [`PixelPass::run`] writes a frame into an [`OutputSlot`].
//! - An [`RgbOperation`] changes the 8-bit codes of a complete frame between two passes.
//! - A [`DevicePass`] describes the same for a GPU: tables to upload, and each [`Launch`] of the
//!   kernels in [`PTX`]. The caller owns streams and memory; this crate calls no driver.
//!
//! # What always holds
//!
//! - Each [`Backend`] and the GPU write the same bytes.
//! - Sizes, strides and geometries are checked before a pixel is read or written; a wrong one is a
//!   [`PassError`].
//!
//! # Example
//!
//! ```
//! use framespool_kernels::*;
//! let (luma, chroma) = (vec![128u8; 64 * 48], vec![128u8; 32 * 24]);
//! let plane = |data, stride_bytes| Plane { data, stride_bytes };
//! let frame = FrameView {
//!     width: 64,
//!     height: 48,
//!     depth_bits: 8,
//!     shift: 0,
//!     planes: Planes::Yuv {
//!         planes: [plane(&luma, 64), plane(&chroma, 32), plane(&chroma, 32)],
//!         log2_chroma_w: 1,
//!         log2_chroma_h: 1,
//!     },
//!     color: Colorimetry { matrix: MatrixCoefficients::Bt709, range: ColorRange::Full },
//! };
//! let geometry = Geometry { resized: (16, 12), window: Rect::from_size(16, 12), ..Geometry::identity(64, 48) };
//! let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8))?;
//! let mut pixels = vec![0u8; 16 * 12 * 3];
//! pass.run(&frame, &mut OutputSlot::hwc(&mut pixels, 16), &mut Scratch::new())?;
//! assert!(pixels.iter().all(|&value| value == 128));
//! # Ok::<(), PassError>(())
//! ```

#![deny(unsafe_code)]
#![warn(unreachable_pub)]

mod color;
mod colorimetry;
mod cuda;
mod deinterlace;
mod error;
mod frame;
mod geometry;
mod lut;
mod mask;
mod operation_rows;
mod output_spec;
mod pixel_pass;
pub mod reference;
mod resample;
mod rgb_operation;
mod simd;
mod tone_map;
mod types;
mod warp;
mod weights;
mod write;

pub use colorimetry::{ColorRange, Colorimetry, MatrixCoefficients};
pub use cuda::{
    DeviceFormat, DeviceFrame, DeviceLut, DeviceOperation, DevicePass, DevicePlane, DevicePlanes,
    DeviceSlot, FormatOnly, Launch, PTX,
};
pub use deinterlace::{Deinterlace, DeinterlaceMethod, Field};
pub use error::PassError;
pub use frame::{FrameView, GenericFrame, GenericPlanes, Plane, Planes};
pub use geometry::{
    Filter, Geometry, Interpolation, Orientation, Placement, WARP_FRACTION_BITS, Warp,
};
pub use lut::ElementLut;
pub use output_spec::{ColorMap, Fill, Mask, MaskFill, MaskGrid, MaskRegion, OutputSpec};
pub use pixel_pass::{PixelPass, Scratch};
pub use rgb_operation::{OperationScratch, RgbOperation};
pub use simd::{Backend, backend_name};
pub use tone_map::{HdrCurve, ToneMap};
pub use types::{Channels, MAX_SIDE, Rect, TONE_MAP_PEAKS};
pub use write::{Dtype, Normalize, OutputSlot};
