//! In: what part of the picture is wanted, at what size, turned how (`Geometry`, in the picture as displayed).
//! Out: the same in the picture as stored (`Stored`), and where each stored-order pixel lands in the output.
//! Never: touches a pixel; resampling happens in stored order and only the writing turns.

use crate::error::PassError;
use crate::write::OutSlot;

/// Longest side of a frame or of a resized picture.
pub const MAX_SIDE: u32 = 65_535;

/// How the stored picture must be turned for display: first (if `mirror`) left and right are exchanged,
/// then the result is turned clockwise by a quarter `quarter_turns_cw` times (counted modulo 4).
///
/// With `mirror` off and one turn, the stored picture's top-left pixel is displayed at the top right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orientation {
    /// Exchange left and right before turning.
    pub mirror: bool,
    /// Clockwise quarter turns, after mirroring.
    pub quarter_turns_cw: u8,
}

/// A rectangle in whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rect {
    /// Left column.
    pub x: u32,
    /// Top row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// The resampling kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// Bilinear, widened by the scale when shrinking: torchvision's `antialias=True`, PIL's `BILINEAR`.
    #[default]
    Triangle,
}

/// Which pixels come out, in the order of application: orientation, crop, resize, window, flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// How the stored picture is turned for display.
    pub orientation: Orientation,
    /// The part of the *oriented* picture that is resized. Pixels outside it have no influence.
    pub crop: Rect,
    /// Width and height to which `crop` is resized.
    pub resized: (u32, u32),
    /// The part of the resized picture that is output.
    pub window: Rect,
    /// Exchange left and right of the output.
    pub flip_horizontal: bool,
    /// Exchange top and bottom of the output.
    pub flip_vertical: bool,
    /// The resampling kernel.
    pub filter: Filter,
}

impl Rect {
    /// The rectangle of this size at the origin.
    pub const fn sized(width: u32, height: u32) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    fn check_inside(self, what: &'static str, (width, height): (u32, u32)) -> Result<(), PassError> {
        if self.width == 0 || self.height == 0 {
            return Err(PassError::Empty { what, width: self.width, height: self.height });
        }
        let fits =
            |start: u32, length: u32, side: u32| start.checked_add(length).is_some_and(|end| end <= side);
        if fits(self.x, self.width, width) && fits(self.y, self.height, height) {
            Ok(())
        } else {
            Err(PassError::RectOutside { what, rect: self, width, height })
        }
    }
}

impl Geometry {
    /// The whole of an unturned picture, at its own size.
    pub const fn whole(width: u32, height: u32) -> Self {
        let orientation = Orientation { mirror: false, quarter_turns_cw: 0 };
        let all = Rect::sized(width, height);
        Self {
            orientation,
            crop: all,
            resized: (width, height),
            window: all,
            flip_horizontal: false,
            flip_vertical: false,
            filter: Filter::Triangle,
        }
    }

    /// All that can be proven before a frame is seen.
    pub(crate) fn check(&self) -> Result<(), PassError> {
        let (width, height) = self.resized;
        if width == 0 || height == 0 {
            return Err(PassError::Empty { what: "resized", width, height });
        }
        if width > MAX_SIDE || height > MAX_SIDE {
            return Err(PassError::TooLarge { what: "resized", width, height });
        }
        self.window.check_inside("window", self.resized)?;
        self.crop.check_inside("crop", (MAX_SIDE, MAX_SIDE))
    }

    /// This geometry carried back to a stored picture of this size.
    pub(crate) fn stored(&self, width: u32, height: u32) -> Result<Stored, PassError> {
        let turn = self.turn();
        let displayed = turn.swap_size((width, height));
        self.crop.check_inside("crop", displayed)?;
        let resized = turn.swap_size(self.resized);
        Ok(Stored {
            crop: turn.carry_back(self.crop, (width, height)),
            resized,
            window: turn.carry_back(self.window, resized),
        })
    }

    /// Displayed pixel (x, y) is the stored pixel with axes swapped (if `swap`), then counted from the far side.
    fn turn(&self) -> Turn {
        let (swap, flip_x, flip_y) = match self.orientation.quarter_turns_cw % 4 {
            0 => (false, false, false),
            1 => (true, false, true),
            2 => (false, true, true),
            _ => (true, true, false),
        };
        Turn { swap, flip_x: flip_x != self.orientation.mirror, flip_y }
    }

    /// Where stored-order output pixel (i, j) goes in a slot with these strides.
    pub(crate) fn place(&self, slot: &OutSlot<'_>) -> Placement {
        let Turn { swap, flip_x, flip_y } = self.turn();
        let (width, height) = (self.window.width as isize, self.window.height as isize);
        let (column, row) = (slot.column_stride as isize, slot.row_stride as isize);
        // A stored axis feeds an output axis; it runs backwards when exactly one of turn and flip reverses it.
        let (reverse_columns, reverse_rows) = if swap {
            (flip_y != self.flip_horizontal, flip_x != self.flip_vertical)
        } else {
            (flip_x != self.flip_horizontal, flip_y != self.flip_vertical)
        };
        let (column_origin, column_step) =
            if reverse_columns { ((width - 1) * column, -column) } else { (0, column) };
        let (row_origin, row_step) = if reverse_rows { ((height - 1) * row, -row) } else { (0, row) };
        let (step_i, step_j) = if swap { (row_step, column_step) } else { (column_step, row_step) };
        Placement { origin: column_origin + row_origin, step_i, step_j }
    }
}

/// A geometry in the axes of the stored picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stored {
    pub crop: Rect,
    pub resized: (u32, u32),
    pub window: Rect,
}

/// Element offsets of stored-order output pixels: `origin + i * step_i + j * step_j`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placement {
    pub origin: isize,
    pub step_i: isize,
    pub step_j: isize,
}

#[derive(Clone, Copy)]
struct Turn {
    swap: bool,
    flip_x: bool,
    flip_y: bool,
}

impl Turn {
    fn swap_size(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swap {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// A rectangle of the turned picture, in the unturned picture of this size.
    fn carry_back(self, rect: Rect, (width, height): (u32, u32)) -> Rect {
        let mut back = rect;
        if self.swap {
            back = Rect { x: rect.y, y: rect.x, width: rect.height, height: rect.width };
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
