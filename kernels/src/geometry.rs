//! Describes crop, resize, window, flips and placement (`Geometry`, in the displayed frame), and
//! converts them to the stored frame's axes (`StoredGeometry`). Resampling uses stored order; only
//! writing rotates.

use crate::error::PassError;
use crate::types::{MAX_SIDE, OutputStrides, Rect};
use crate::write::OutputSlot;

/// The orientation of the stored frame for display: first (if `mirror`) left and right are
/// exchanged, then the result is rotated clockwise by `quarter_turns_cw` quarter turns (modulo 4).
///
/// With `mirror` off and one turn, the stored picture's top-left pixel is displayed at the top
/// right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orientation {
    /// Exchange left and right before rotating.
    pub mirror: bool,
    /// Clockwise quarter turns, after mirroring.
    pub quarter_turns_cw: u8,
}

/// The resampling kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// Bilinear, widened by the scale when shrinking: torchvision's `antialias=True`, PIL's
    /// `BILINEAR`.
    #[default]
    Triangle,
    /// Bilinear between the two nearest pixels at every scale: torchvision's `antialias=False`,
    /// OpenCV's `INTER_LINEAR`.
    Bilinear,
    /// Bicubic (a = -1/2), widened by the scale when shrinking: torchvision's `antialias=True`,
    /// PIL's `BICUBIC`.
    Cubic,
    /// Bicubic (a = -3/4) between the four nearest pixels at every scale, where pixels at the
    /// crop's edge stand for those outside: torchvision's `antialias=False`, OpenCV's
    /// `INTER_CUBIC`.
    Bicubic,
    /// The pixel that contains the center: torchvision's `NEAREST_EXACT`, PIL's `NEAREST`.
    Nearest,
}

/// Interpolation of a [`Warp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The nearest pixel.
    #[default]
    Nearest,
    /// Bilinear between the four nearest pixels.
    Bilinear,
}

/// An affine map from output pixels back to the flipped window. Positions are in units of 1 / 2^28
/// pixel, and pixel centers are at integer coordinates: output (i, j) reads at `to[0] * i + to[1] *
/// j + to[2]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warp {
    /// Width and height of the output.
    pub size: (u32, u32),
    /// Column of the window.
    pub to_x: [i64; 3],
    /// Row of the window.
    pub to_y: [i64; 3],
    pub interpolation: Interpolation,
}

/// Fraction bits of positions of a [`Warp`].
pub const WARP_FRACTION_BITS: u32 = 28;

/// The mapping of the flipped window to the output. The remaining pixels are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The window is the output.
    #[default]
    Identity,
    /// The window is placed on a canvas of this width and height, with its corner at (x, y).
    Canvas {
        /// Width and height of the output.
        size: (u32, u32),
        /// Column of the window's left side.
        x: u32,
        /// Row of the window's top.
        y: u32,
    },
    /// The window is read through an affine map.
    Warp(Warp),
}

/// The output pixels, in the order of application: orientation, crop, resize, window, flips,
/// placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Orientation of the stored frame for display.
    pub orientation: Orientation,
    /// The part of the *oriented* frame that is resized, in units of 1 / `crop_subpixels` pixel.
    /// Pixels outside have no influence.
    pub crop: Rect,
    /// Units per pixel of `crop`, horizontally and vertically: 1 unless the crop was computed for a
    /// frame of another size.
    pub crop_subpixels: (u32, u32),
    /// Width and height to which `crop` is resized.
    pub resized: (u32, u32),
    /// The part of the resized frame that is output.
    pub window: Rect,
    /// Exchange left and right of the output.
    pub flip_horizontal: bool,
    /// Exchange top and bottom of the output.
    pub flip_vertical: bool,
    /// The resampling kernel.
    pub filter: Filter,
    /// The mapping to the output.
    pub placement: Placement,
}

impl Rect {
    pub(crate) fn check_inside(
        self,
        what: &'static str,
        (width, height): (u32, u32),
    ) -> Result<(), PassError> {
        if self.width == 0 || self.height == 0 {
            return Err(PassError::Empty {
                what,
                width: self.width,
                height: self.height,
            });
        }
        let fits = |start: u32, length: u32, side: u32| {
            start.checked_add(length).is_some_and(|end| end <= side)
        };
        if fits(self.x, self.width, width) && fits(self.y, self.height, height) {
            Ok(())
        } else {
            Err(PassError::RectOutOfBounds {
                what,
                rect: self,
                width,
                height,
            })
        }
    }
}

impl Geometry {
    /// A complete frame without rotation, at its own size.
    pub const fn identity(width: u32, height: u32) -> Self {
        let orientation = Orientation {
            mirror: false,
            quarter_turns_cw: 0,
        };
        let all = Rect::from_size(width, height);
        Self {
            orientation,
            crop: all,
            crop_subpixels: (1, 1),
            resized: (width, height),
            window: all,
            flip_horizontal: false,
            flip_vertical: false,
            filter: Filter::Triangle,
            placement: Placement::Identity,
        }
    }

    /// Width and height of the output.
    pub fn output_size(&self) -> (u32, u32) {
        match self.placement {
            Placement::Identity => (self.window.width, self.window.height),
            Placement::Canvas { size, .. } => size,
            Placement::Warp(warp) => warp.size,
        }
    }

    /// Checks everything that does not depend on a frame.
    pub(crate) fn check(&self) -> Result<(), PassError> {
        check_size("resized", self.resized)?;
        check_size("grid", self.crop_subpixels)?;
        self.window.check_inside("window", self.resized)?;
        check_size("output", self.output_size())?;
        self.crop.check_inside(
            "crop",
            (
                MAX_SIDE * self.crop_subpixels.0,
                MAX_SIDE * self.crop_subpixels.1,
            ),
        )?;
        match self.placement {
            Placement::Identity => Ok(()),
            Placement::Canvas { size, x, y } => Rect {
                x,
                y,
                ..self.window
            }
            .check_inside("canvas", size),
            Placement::Warp(warp) => warp.check(),
        }
    }

    /// Converts this geometry to a stored frame of this size.
    pub(crate) fn stored(&self, width: u32, height: u32) -> Result<StoredGeometry, PassError> {
        let axes = self.axis_transform();
        let fine = |(width, height): (u32, u32), crop_subpixels: (u32, u32)| {
            (width * crop_subpixels.0, height * crop_subpixels.1)
        };
        self.crop.check_inside(
            "crop",
            fine(axes.swap_size((width, height)), self.crop_subpixels),
        )?;
        let (resized, crop_subpixels) = (
            axes.swap_size(self.resized),
            axes.swap_size(self.crop_subpixels),
        );
        Ok(StoredGeometry {
            crop: axes.to_stored(self.crop, fine((width, height), crop_subpixels)),
            crop_subpixels,
            resized,
            window: axes.to_stored(self.window, resized),
            filter: self.filter,
        })
    }

    /// Displayed pixel (x, y) is the stored pixel with axes swapped (if `swap`), then counted from
    /// the opposite side.
    fn axis_transform(&self) -> AxisTransform {
        let (swap, flip_x, flip_y) = match self.orientation.quarter_turns_cw % 4 {
            0 => (false, false, false),
            1 => (true, false, true),
            2 => (false, true, true),
            _ => (true, true, false),
        };
        AxisTransform {
            swap,
            flip_x: flip_x != self.orientation.mirror,
            flip_y,
        }
    }

    /// The offset of pixel (i, j) of the stored window in a slot with these strides.
    pub(crate) fn output_strides(&self, slot: &OutputSlot<'_>) -> OutputStrides {
        let swap = self.axis_transform().swap;
        let (width, height) = (self.window.width as isize, self.window.height as isize);
        let (column, row) = (slot.column_stride as isize, slot.row_stride as isize);
        let (reverse_columns, reverse_rows) = self.reversed();
        let (column_origin, column_step) = if reverse_columns {
            ((width - 1) * column, -column)
        } else {
            (0, column)
        };
        let (row_origin, row_step) = if reverse_rows {
            ((height - 1) * row, -row)
        } else {
            (0, row)
        };
        let (step_i, step_j) = if swap {
            (row_step, column_step)
        } else {
            (column_step, row_step)
        };
        let corner = match self.placement {
            Placement::Canvas { x, y, .. } => x as isize * column + y as isize * row,
            _ => 0,
        };
        OutputStrides {
            origin: corner + column_origin + row_origin,
            step_i,
            step_j,
            streaming: false,
        }
    }

    /// Whether displayed columns and rows run against the corresponding stored axes: exactly one of
    /// rotation and flip reverses them.
    fn reversed(&self) -> (bool, bool) {
        let AxisTransform {
            swap,
            flip_x,
            flip_y,
        } = self.axis_transform();
        let (columns, rows) = if swap {
            (flip_y, flip_x)
        } else {
            (flip_x, flip_y)
        };
        (columns != self.flip_horizontal, rows != self.flip_vertical)
    }

    /// The output in stored axes; that of a warp has its displayed orientation.
    pub(crate) fn stored_canvas(&self) -> StoredCanvas {
        let (x, y) = match self.placement {
            Placement::Identity => (0, 0),
            Placement::Canvas { x, y, .. } => (x, y),
            Placement::Warp(warp) => return StoredCanvas::from_size(warp.size),
        };
        let (width, height) = self.output_size();
        let swap = self.axis_transform().swap;
        // Along a displayed axis: the window's corner in the stored direction, and the step and
        // origin of displayed positions.
        let along = |reverse: bool, length: u32, corner: u32, part: u32| match reverse {
            true => (length - corner - part, -1, length as i32 - 1),
            false => (corner, 1, 0),
        };
        let (reverse_columns, reverse_rows) = self.reversed();
        let (left, step_x, first_x) = along(reverse_columns, width, x, self.window.width);
        let (top, step_y, first_y) = along(reverse_rows, height, y, self.window.height);
        if swap {
            StoredCanvas {
                size: (height, width),
                corner: (top, left),
                display_x: [0, step_x, first_x],
                display_y: [step_y, 0, first_y],
            }
        } else {
            StoredCanvas {
                size: (width, height),
                corner: (left, top),
                display_x: [step_x, 0, first_x],
                display_y: [0, step_y, first_y],
            }
        }
    }

    /// Converts a warp of the displayed window to columns and rows of the stored window.
    pub(crate) fn stored_warp(&self, warp: &Warp) -> ([i64; 3], [i64; 3]) {
        let axes = self.axis_transform();
        let back = |map: [i64; 3], length: u32| {
            [
                -map[0],
                -map[1],
                (i64::from(length - 1) << WARP_FRACTION_BITS) - map[2],
            ]
        };
        let (mut to_x, mut to_y) = (warp.to_x, warp.to_y);
        if self.flip_horizontal {
            to_x = back(to_x, self.window.width);
        }
        if self.flip_vertical {
            to_y = back(to_y, self.window.height);
        }
        let (width, height) = axes.swap_size((self.window.width, self.window.height));
        if axes.swap {
            (to_x, to_y) = (to_y, to_x);
        }
        if axes.flip_x {
            to_x = back(to_x, width);
        }
        if axes.flip_y {
            to_y = back(to_y, height);
        }
        (to_x, to_y)
    }
}

impl Warp {
    fn check(&self) -> Result<(), PassError> {
        for to in [self.to_x, self.to_y] {
            let [a, b, c] = to.map(i64::unsigned_abs).map(u128::from);
            let farthest = (a + b) * u128::from(MAX_SIDE) + c;
            // Two spare bits: for counting from the opposite side, and for the half pixel of
            // rounding.
            if farthest >= 1 << 61 {
                return Err(PassError::WarpOutOfRange { to });
            }
        }
        Ok(())
    }
}

fn check_size(what: &'static str, (width, height): (u32, u32)) -> Result<(), PassError> {
    if width == 0 || height == 0 {
        return Err(PassError::Empty {
            what,
            width,
            height,
        });
    }
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(PassError::TooLarge {
            what,
            width,
            height,
        });
    }
    Ok(())
}

/// A geometry in the stored frame's axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StoredGeometry {
    pub crop: Rect,
    pub crop_subpixels: (u32, u32),
    pub resized: (u32, u32),
    pub window: Rect,
    pub filter: Filter,
}

/// The output in stored axes: its size, the window's corner in it, and the displayed position of
/// its pixel (i, j): column `display_x[0] * i + display_x[1] * j + display_x[2]`, and the row
/// likewise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StoredCanvas {
    pub size: (u32, u32),
    pub corner: (u32, u32),
    pub display_x: [i32; 3],
    pub display_y: [i32; 3],
}

impl StoredCanvas {
    /// In displayed orientation, with the window in its corner.
    pub(crate) fn from_size(size: (u32, u32)) -> Self {
        Self {
            size,
            corner: (0, 0),
            display_x: [1, 0, 0],
            display_y: [0, 1, 0],
        }
    }
}

#[derive(Clone, Copy)]
struct AxisTransform {
    swap: bool,
    flip_x: bool,
    flip_y: bool,
}

impl AxisTransform {
    fn swap_size(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swap {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// A rectangle of the rotated frame, in the unrotated frame of this size.
    fn to_stored(self, rect: Rect, (width, height): (u32, u32)) -> Rect {
        let mut back = rect;
        if self.swap {
            back = Rect {
                x: rect.y,
                y: rect.x,
                width: rect.height,
                height: rect.width,
            };
        }
        if self.flip_x {
            back.x = width - (back.x + back.width);
        }
        if self.flip_y {
            back.y = height - (back.y + back.height);
        }
        back
    }
}
