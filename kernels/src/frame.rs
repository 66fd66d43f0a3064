//! Describes a decoded frame as borrowed planes and its format, and checks that the planes are long
//! enough. The result is one to three `CheckedPlane`s with a uniform layout for the resampler. No
//! pixel is copied.

use crate::colorimetry::{Colorimetry, ComponentModel, MatrixCoefficients};
use crate::error::PassError;
use crate::types::MAX_SIDE;

/// One plane: `data` starts at the first row, rows are `stride_bytes` apart.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// At least `stride_bytes * (rows - 1) + row_bytes` bytes.
    pub data: &'a [u8],
    /// Bytes from one row to the next, at least the bytes of a row.
    pub stride_bytes: usize,
}

/// The plane arrangement in host memory.
pub type Planes<'a> = GenericPlanes<Plane<'a>>;

/// The plane arrangement of a frame; `P` identifies a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GenericPlanes<P> {
    /// 4:0:0.
    Gray(P),
    /// Planar Y, U, V. A chroma plane is `ceil(width / 2^log2_chroma_w)` by `ceil(height /
    /// 2^log2_chroma_h)`.
    Yuv {
        /// Y, U, V.
        planes: [P; 3],
        /// 1 for 4:2:0 and 4:2:2, 0 for 4:4:4, 2 for 4:1:1.
        log2_chroma_w: u8,
        /// 1 for 4:2:0, 0 for 4:2:2 and 4:4:4.
        log2_chroma_h: u8,
    },
    /// Y, and interleaved U and V in one plane, U first: NV12, P010.
    SemiPlanar {
        /// Y.
        luma: P,
        /// U, V, U, V, ...
        chroma: P,
        /// As for `Yuv`.
        log2_chroma_w: u8,
        /// As for `Yuv`.
        log2_chroma_h: u8,
    },
    /// R, G, B planes, in this order.
    PlanarRgb([P; 3]),
    /// Interleaved R, G, B bytes.
    PackedRgb {
        plane: P,
        /// 3 for RGB24, 4 for RGBA.
        pixel_bytes: u8,
        /// Offsets of R, G, B in a pixel.
        offsets: [u8; 3],
    },
}

impl<P> GenericPlanes<P> {
    /// The same arrangement of other planes, each made from its number and the plane.
    pub fn map<Q>(self, mut plane_of: impl FnMut(usize, P) -> Q) -> GenericPlanes<Q> {
        match self {
            Self::Gray(plane) => GenericPlanes::Gray(plane_of(0, plane)),
            Self::PlanarRgb([r, g, b]) => {
                GenericPlanes::PlanarRgb([plane_of(0, r), plane_of(1, g), plane_of(2, b)])
            }
            Self::PackedRgb {
                plane,
                pixel_bytes,
                offsets,
            } => GenericPlanes::PackedRgb {
                plane: plane_of(0, plane),
                pixel_bytes,
                offsets,
            },
            Self::Yuv {
                planes: [y, u, v],
                log2_chroma_w,
                log2_chroma_h,
            } => {
                let planes = [plane_of(0, y), plane_of(1, u), plane_of(2, v)];
                GenericPlanes::Yuv {
                    planes,
                    log2_chroma_w,
                    log2_chroma_h,
                }
            }
            Self::SemiPlanar {
                luma,
                chroma,
                log2_chroma_w,
                log2_chroma_h,
            } => {
                let (luma, chroma) = (plane_of(0, luma), plane_of(1, chroma));
                GenericPlanes::SemiPlanar {
                    luma,
                    chroma,
                    log2_chroma_w,
                    log2_chroma_h,
                }
            }
        }
    }
}

/// One decoded frame in host memory.
pub type FrameView<'a> = GenericFrame<Plane<'a>>;

/// One decoded frame as stored, before any orientation. `P` identifies a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenericFrame<P> {
    /// Width in luma pixels.
    pub width: u32,
    /// Height in luma pixels.
    pub height: u32,
    /// 8: one byte per sample. 9 to 16: little-endian 16-bit words.
    pub depth_bits: u8,
    /// A sample's value is `word >> shift`: 6 for P010, 0 for yuv420p10le. 0 for 8 bit.
    pub shift: u8,
    pub planes: GenericPlanes<P>,
    /// The meaning of code values. RGB and gray planes ignore the matrix; all use the range.
    pub color: Colorimetry,
}

/// Checks of a plane before it is read.
pub(crate) trait PlaneBounds: Copy {
    /// Checks that it has `rows` rows of `row_bytes` bytes; `index` identifies it in errors.
    fn check(self, index: usize, rows: usize, row_bytes: usize) -> Result<(), PassError>;
}

impl PlaneBounds for Plane<'_> {
    fn check(self, index: usize, rows: usize, row_bytes: usize) -> Result<(), PassError> {
        let need = required_plane_bytes(self.stride_bytes, index, rows, row_bytes)?;
        if need > self.data.len() as u128 {
            let need_bytes = u64::try_from(need).unwrap_or(u64::MAX);
            return Err(PassError::PlaneTooShort {
                plane: index,
                have_bytes: self.data.len(),
                need_bytes,
            });
        }
        Ok(())
    }
}

/// Bytes from the start of the first row to the end of the last one, for rows that do not overlap.
pub(crate) fn required_plane_bytes(
    stride_bytes: usize,
    plane: usize,
    rows: usize,
    row_bytes: usize,
) -> Result<u128, PassError> {
    if rows > 1 && stride_bytes < row_bytes {
        return Err(PassError::StrideTooShort {
            plane,
            stride_bytes,
            row_bytes,
        });
    }
    // Sides are at most MAX_SIDE, so only the stride product can overflow; hence u128.
    Ok(stride_bytes as u128 * (rows as u128 - 1) + row_bytes as u128)
}

/// A plane of checked size: samples of one to three components, `step` samples apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedPlane<P> {
    pub storage: P,
    pub step: usize,
    /// Samples per row.
    pub columns: usize,
    pub is_chroma: bool,
    /// Offset in samples of component c within a step.
    pub offsets: [Option<usize>; 3],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedFrame<P> {
    pub planes: [Option<CheckedPlane<P>>; 3],
    pub log2_chroma: (u8, u8),
    pub model: ComponentModel,
}

#[allow(private_bounds)] // only to express what `check` needs
impl<P: PlaneBounds> GenericFrame<P> {
    /// Checks that every sample of the frame exists.
    pub(crate) fn check(&self) -> Result<CheckedFrame<P>, PassError> {
        let (width, height) = (self.width, self.height);
        if width == 0 || height == 0 {
            return Err(PassError::Empty {
                what: "frame",
                width,
                height,
            });
        }
        if width > MAX_SIDE || height > MAX_SIDE {
            return Err(PassError::TooLarge {
                what: "frame",
                width,
                height,
            });
        }
        let packed = matches!(self.planes, GenericPlanes::PackedRgb { .. });
        let supported = match self.depth_bits {
            8 => self.shift == 0,
            9..=16 => self.shift <= 16 - self.depth_bits && !packed,
            _ => false,
        };
        if !supported {
            return Err(PassError::UnsupportedDepth {
                depth_bits: self.depth_bits,
                shift: self.shift,
            });
        }
        self.resolve_planes()
    }

    fn resolve_planes(&self) -> Result<CheckedFrame<P>, PassError> {
        let whole = |index, plane, component: usize| {
            let mut offsets = [None; 3];
            offsets[component] = Some(0);
            self.checked_plane(index, plane, 1, (0, 0), offsets)
        };
        match self.planes {
            GenericPlanes::Gray(plane) => Ok(CheckedFrame {
                planes: [Some(whole(0, plane, 0)?), None, None],
                log2_chroma: (0, 0),
                model: ComponentModel::Gray,
            }),
            GenericPlanes::PlanarRgb([r, g, b]) => Ok(CheckedFrame {
                planes: [
                    Some(whole(0, r, 0)?),
                    Some(whole(1, g, 1)?),
                    Some(whole(2, b, 2)?),
                ],
                log2_chroma: (0, 0),
                model: ComponentModel::Rgb,
            }),
            GenericPlanes::PackedRgb {
                plane,
                pixel_bytes,
                offsets,
            } => {
                if offsets.iter().any(|&offset| offset >= pixel_bytes) {
                    return Err(PassError::InvalidPacking {
                        pixel_bytes,
                        offsets,
                    });
                }
                let offsets = offsets.map(|offset| Some(usize::from(offset)));
                let plane =
                    self.checked_plane(0, plane, usize::from(pixel_bytes), (0, 0), offsets)?;
                Ok(CheckedFrame {
                    planes: [Some(plane), None, None],
                    log2_chroma: (0, 0),
                    model: ComponentModel::Rgb,
                })
            }
            GenericPlanes::Yuv {
                planes: [y, u, v],
                log2_chroma_w,
                log2_chroma_h,
            } => {
                let log2_chroma = self.subsampling(log2_chroma_w, log2_chroma_h)?;
                let u = self.checked_plane(1, u, 1, log2_chroma, [None, Some(0), None])?;
                let v = self.checked_plane(2, v, 1, log2_chroma, [None, None, Some(0)])?;
                Ok(CheckedFrame {
                    planes: [Some(whole(0, y, 0)?), Some(u), Some(v)],
                    log2_chroma,
                    model: ComponentModel::Yuv,
                })
            }
            GenericPlanes::SemiPlanar {
                luma,
                chroma,
                log2_chroma_w,
                log2_chroma_h,
            } => {
                let log2_chroma = self.subsampling(log2_chroma_w, log2_chroma_h)?;
                let uv = self.checked_plane(1, chroma, 2, log2_chroma, [None, Some(0), Some(1)])?;
                Ok(CheckedFrame {
                    planes: [Some(whole(0, luma, 0)?), Some(uv), None],
                    log2_chroma,
                    model: ComponentModel::Yuv,
                })
            }
        }
    }

    fn subsampling(&self, log2_chroma_w: u8, log2_chroma_h: u8) -> Result<(u8, u8), PassError> {
        if log2_chroma_w > 2 || log2_chroma_h > 2 {
            return Err(PassError::UnsupportedSubsampling {
                log2_chroma_w,
                log2_chroma_h,
            });
        }
        if self.color.matrix == MatrixCoefficients::Rgb {
            return Err(PassError::MatrixNeedsRgbPlanes);
        }
        Ok((log2_chroma_w, log2_chroma_h))
    }

    fn checked_plane(
        &self,
        index: usize,
        plane: P,
        step: usize,
        (log2_w, log2_h): (u8, u8),
        offsets: [Option<usize>; 3],
    ) -> Result<CheckedPlane<P>, PassError> {
        let columns = self.width.div_ceil(1 << log2_w) as usize;
        let rows = self.height.div_ceil(1 << log2_h) as usize;
        plane.check(index, rows, columns * step * self.sample_bytes())?;
        // Full-size chroma uses the luma tables, so only planes that differ from luma count as
        // chroma.
        let is_chroma = (log2_w, log2_h) != (0, 0);
        Ok(CheckedPlane {
            storage: plane,
            step,
            columns,
            is_chroma,
            offsets,
        })
    }

    pub(crate) fn sample_bytes(&self) -> usize {
        if self.depth_bits == 8 { 1 } else { 2 }
    }
}
