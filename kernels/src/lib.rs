//! In: one decoded picture (YUV or RGB planes, 8 to 16 bits), a [`Geometry`], a dtype and a place in a batch.
//! Out: the oriented, cropped, resized, flipped, converted and normalised pixels, written straight into that place.
//! Never: decodes, allocates per row, reads pixels outside what the output needs, or depends on the machine it runs on.
//!
//! The pass is *defined in integers* (`CONTRACT.md` beside this crate's manifest), so that every backend gives the same bytes.
//! [`oracle`] holds the judges: the contract as plain loops, and the exact answer in `f64`.
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
//!     color: Color { matrix: Matrix::Bt709, range: Range::Full },
//! };
//! let geometry = Geometry { resized: (16, 12), window: Rect::sized(16, 12), ..Geometry::whole(64, 48) };
//! let mut pass = PixelPass::new(geometry, Finish::plain(Dtype::U8))?;
//! let mut pixels = vec![0u8; 16 * 12 * 3];
//! pass.run(&frame, &mut OutSlot::hwc(&mut pixels, 16), &mut Scratch::new())?;
//! assert!(pixels.iter().all(|&value| value == 128));
//! # Ok::<(), PassError>(())
//! ```

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod color;
mod device;
mod error;
mod expand;
mod finish;
mod geometry;
mod mask;
pub mod oracle;
mod pass;
mod resample;
mod simd;
mod tone;
mod view;
mod warp;
mod weights;
mod write;

pub use color::{Color, Matrix, Range};
pub use device::{
    DeviceExpand, DeviceFormat, DeviceFrame, DevicePass, DevicePlane, DevicePlanes, DeviceSlot, Launch,
    NoPlane, PTX,
};
pub use error::PassError;
pub use expand::Expand;
pub use finish::{Area, Channels, ColorMap, Fill, Finish, Grid, Mask, Paint};
pub use geometry::{
    Filter, Geometry, Interpolation, Orientation, Place, Rect, Warp, MAX_SIDE, POSITION_BITS,
};
pub use pass::{PixelPass, Scratch};
pub use simd::{backend_name, Backend};
pub use tone::{HdrCurve, ToneMap};
pub use view::{FrameOf, FrameView, Plane, Planes, PlanesOf};
pub use write::{Dtype, Normalize, OutSlot};
