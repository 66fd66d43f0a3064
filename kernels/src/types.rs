//! Plain types and limits that the modules of this crate share.

/// Maximum side length of a frame or of a resized frame.
pub const MAX_SIDE: u32 = 65_535;

/// The minimum and maximum peak luminance of a tone mapping, in cd/m2.
pub const TONE_MAP_PEAKS: (f64, f64) = (10.0, 10_000.0);

/// Maximum number of pixels of a window that is kept completely: 1.6 GB of components.
pub(crate) const MAX_WINDOW_PIXELS: usize = 1 << 28;

/// A rectangle of integer pixel coordinates.
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

impl Rect {
    /// The rectangle of this size at the origin.
    pub const fn from_size(width: u32, height: u32) -> Self {
        Self {
            x: 0,
            y: 0,
            width,
            height,
        }
    }
}

/// The channels that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Channels {
    /// R, G, B.
    #[default]
    Three,
    /// R alone: gray images and label maps.
    One,
}

impl Channels {
    /// 3 or 1.
    pub const fn count(self) -> usize {
        match self {
            Self::Three => 3,
            Self::One => 1,
        }
    }
}

/// Element offsets of the stored window's pixels: `origin + i * step_i + j * step_j`, and how
/// elements are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OutputStrides {
    pub origin: isize,
    pub step_i: isize,
    pub step_j: isize,
    /// Whether elements are stored past the caches, on backends that can.
    pub streaming: bool,
}

impl OutputStrides {
    /// The strides of rows that run forward, whose pixels it reverses in `rgb`.
    pub(crate) fn reversed(self, rgb: &mut [&mut [u8]; 3]) -> Self {
        let length = rgb[0].len() as isize;
        rgb.iter_mut().for_each(|row| row.reverse());
        Self {
            origin: self.origin + (length - 1) * self.step_i,
            step_i: -self.step_i,
            ..self
        }
    }

    /// Offset of row j, if its pixels are in forward order.
    pub(crate) fn forward(&self, j: usize, length: usize) -> Option<usize> {
        let begin = self.origin + j as isize * self.step_j;
        (self.step_i > 0 && length > 0).then_some(begin as usize)
    }
}

/// A matrix by rows.
pub(crate) type Matrix3 = [[f64; 3]; 3];

/// Matrix product, each element summed from left to right.
pub(crate) fn product(a: &Matrix3, b: &Matrix3) -> Matrix3 {
    let element = |r: usize, k: usize| a[r][0] * b[0][k] + a[r][1] * b[1][k] + a[r][2] * b[2][k];
    [0, 1, 2].map(|r| [0, 1, 2].map(|k| element(r, k)))
}
