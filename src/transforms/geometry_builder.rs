//! Combines a sequence of geometric steps on a frame of known size into one geometry of the
//! kernels. The geometry holds a crop, a resize, a window, flips and, where needed, padding or an
//! affine map. Two resizes never happen one after the other: the last size is made from the source.

use framespool_kernels::{
    Filter, Geometry, Interpolation, MAX_SIDE, Orientation, Placement, Rect, WARP_FRACTION_BITS,
    Warp,
};

use super::params::{IDENTITY, Map, after, finer, inverse, part};
use super::transform::{Flip, Padding, Size};
use crate::error::{Error, Result};

/// A rectangle at any position.
#[derive(Clone, Copy, Debug, PartialEq)]
struct View {
    x: i64,
    y: i64,
    width: u32,
    height: u32,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    /// From the output to the flipped window.
    map: Map,
    size: (u32, u32),
    interpolation: Interpolation,
    /// A resize followed the map with this filter, which a map does not have: it resizes the frame
    /// before the map.
    resize: Option<Filter>,
}

/// A geometry under construction.
#[derive(Clone, Debug)]
pub(super) struct GeometryBuilder {
    geometry: Geometry,
    /// From the displayed frame to the current one.
    to_output: Map,
    /// The visible part of the flipped window; beyond the window is fill. Not used once there is a
    /// map.
    view: View,
    mapped: Option<Mapped>,
    /// Nothing of the window is visible any more, and no later step can change that.
    blank: bool,
}

impl GeometryBuilder {
    /// The whole of a frame of this displayed size.
    pub(super) fn new((width, height): (u32, u32), orientation: Orientation) -> Self {
        let geometry = Geometry {
            orientation,
            ..Geometry::identity(width, height)
        };
        let view = View {
            x: 0,
            y: 0,
            width,
            height,
        };
        Self {
            geometry,
            to_output: IDENTITY,
            view,
            mapped: None,
            blank: false,
        }
    }

    /// Current width and height of the frame.
    pub(super) fn size(&self) -> (u32, u32) {
        self.mapped
            .map_or((self.view.width, self.view.height), |mapped| mapped.size)
    }

    /// Returns the map from the displayed frame to the current one, for pixels that are unit
    /// squares.
    pub(crate) fn to_output(&self) -> Map {
        self.to_output
    }

    fn follow(&mut self, step: &Map) {
        self.to_output = after(step, &self.to_output);
    }

    /// Whether this crop shows nothing that an earlier map has removed.
    pub(crate) fn may_crop(&self, x: i64, y: i64, size: Size) -> bool {
        let (width, height) = self.size();
        let within = |start: i64, length: u32, side: u32| {
            start >= 0 && start + i64::from(length) <= i64::from(side)
        };
        (within(x, size.width, width) && within(y, size.height, height)) || self.may_grow()
    }

    /// Keeps `size` pixels from column `x` and row `y` on; the area outside of the frame is fill.
    /// Only if [`may_crop`](Self::may_crop).
    pub(super) fn crop(&mut self, x: i64, y: i64, size: Size) {
        debug_assert!(self.may_crop(x, y, size));
        self.follow(&[[1.0, 0.0, -x as f64], [0.0, 1.0, -y as f64]]);
        self.cut_window();
        match &mut self.mapped {
            Some(mapped) => {
                mapped.map = after(&mapped.map, &[[1.0, 0.0, x as f64], [0.0, 1.0, y as f64]]);
                mapped.size = (size.width, size.height);
            }
            None => {
                self.view = View {
                    x: self.view.x + x,
                    y: self.view.y + y,
                    width: size.width,
                    height: size.height,
                };
            }
        }
    }

    /// Whether the frame may grow or be mapped again. After a map, only the edges of the latest
    /// frame are known, so a frame that grows must not have lost anything, which would be visible
    /// again instead of fill.
    pub(crate) fn may_grow(&self) -> bool {
        let Some(Mapped { map, size, .. }) = self.mapped else {
            return true;
        };
        let [[a, b, c], [d, e, f]] = map;
        let determinant = a * e - b * d;
        let (width, height) = (
            f64::from(self.geometry.window.width),
            f64::from(self.geometry.window.height),
        );
        let (max_x, max_y) = (f64::from(size.0) + 1e-3, f64::from(size.1) + 1e-3);
        let shown = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)]
            .into_iter()
            .all(|(x, y)| {
                let (x, y) = (x - c, y - f);
                let (x, y) = ((e * x - b * y) / determinant, (a * y - d * x) / determinant);
                (-1e-3..=max_x).contains(&x) && (-1e-3..=max_y).contains(&y)
            });
        shown || self.blank
    }

    /// Adds fill at the sides. Only if [`may_grow`](Self::may_grow).
    ///
    /// # Errors
    /// `Argument` if a side becomes too long.
    pub(super) fn pad(&mut self, padding: Padding) -> Result<()> {
        let (width, height) = self.size();
        let side = |length: u32, before: u32, after: u32| {
            length
                .checked_add(before)
                .and_then(|sum| sum.checked_add(after))
                .filter(|&sum| sum <= MAX_SIDE)
        };
        let (Some(width), Some(height)) = (
            side(width, padding.left, padding.right),
            side(height, padding.top, padding.bottom),
        ) else {
            let Padding {
                left,
                top,
                right,
                bottom,
            } = padding;
            return Err(Error::Argument(format!(
                "padding ({left}, {top}, {right}, {bottom}) makes a frame of {height} rows and {width} \
                 columns longer than {MAX_SIDE} pixels; pad less or resize first"
            )));
        };
        self.crop(
            -i64::from(padding.left),
            -i64::from(padding.top),
            Size { height, width },
        );
        Ok(())
    }

    /// Mirrors the frame.
    pub(super) fn flip(&mut self, flip: Flip) {
        let (width, height) = self.size();
        self.follow(&match flip {
            Flip::Horizontal => [[-1.0, 0.0, f64::from(width)], [0.0, 1.0, 0.0]],
            Flip::Vertical => [[1.0, 0.0, 0.0], [0.0, -1.0, f64::from(height)]],
        });
        if let Some(Mapped {
            map,
            size: (width, height),
            ..
        }) = &mut self.mapped
        {
            *map = match flip {
                Flip::Horizontal => after(map, &[[-1.0, 0.0, f64::from(*width)], [0.0, 1.0, 0.0]]),
                Flip::Vertical => after(map, &[[1.0, 0.0, 0.0], [0.0, -1.0, f64::from(*height)]]),
            };
            return;
        }
        let (window, view) = (self.geometry.window, &mut self.view);
        match flip {
            Flip::Horizontal => {
                self.geometry.flip_horizontal = !self.geometry.flip_horizontal;
                view.x = i64::from(window.width) - (view.x + i64::from(view.width));
            }
            Flip::Vertical => {
                self.geometry.flip_vertical = !self.geometry.flip_vertical;
                view.y = i64::from(window.height) - (view.y + i64::from(view.height));
            }
        }
    }

    /// Resizes the frame.
    pub(super) fn resize(&mut self, width: u32, height: u32, filter: Filter) {
        if (width, height) == self.size() {
            return;
        }
        let (old_width, old_height) = self.size();
        let scale = |new: u32, old: u32| f64::from(new) / f64::from(old);
        self.follow(&[
            [scale(width, old_width), 0.0, 0.0],
            [0.0, scale(height, old_height), 0.0],
        ]);
        self.cut_window();
        if self.blank && self.mapped.is_none() {
            self.view = View {
                width,
                height,
                ..self.view
            };
            return;
        }
        if self.mapped.is_none() && self.view_is_window() {
            self.crop_to_window();
            self.geometry.resized = (width, height);
            self.geometry.window = Rect::from_size(width, height);
            self.geometry.filter = filter;
            self.view = View {
                x: 0,
                y: 0,
                width,
                height,
            };
            return;
        }
        let interpolation = match filter {
            Filter::Nearest => Interpolation::Nearest,
            _ => Interpolation::Bilinear,
        };
        let (across, down) = (scale(old_width, width), scale(old_height, height));
        self.read_through(
            &[[across, 0.0, 0.0], [0.0, down, 0.0]],
            (width, height),
            interpolation,
        );
        if let Some(mapped) = &mut self.mapped {
            mapped.resize = match filter {
                Filter::Nearest | Filter::Bilinear => None,
                other => Some(other),
            };
        }
    }

    /// Rotates, shears or moves the frame by a map from the new frame, of this size, back to the
    /// current one. Only if [`may_grow`](Self::may_grow).
    pub(super) fn warp(&mut self, back: &Map, size: (u32, u32), interpolation: Interpolation) {
        debug_assert!(self.may_grow());
        self.follow(&inverse(back));
        self.read_through(back, size, interpolation);
    }

    fn read_through(&mut self, back: &Map, size: (u32, u32), interpolation: Interpolation) {
        self.cut_window();
        let mapped = self.mapped.get_or_insert(Mapped {
            map: [
                [1.0, 0.0, self.view.x as f64],
                [0.0, 1.0, self.view.y as f64],
            ],
            size,
            interpolation,
            resize: None,
        });
        mapped.map = after(&mapped.map, back);
        mapped.size = size;
        mapped.interpolation = interpolation;
    }

    fn view_is_window(&self) -> bool {
        let Rect { width, height, .. } = self.geometry.window;
        self.view
            == View {
                x: 0,
                y: 0,
                width,
                height,
            }
    }

    /// Removes from the window what the view does not show, so that it stays hidden.
    fn cut_window(&mut self) {
        if self.mapped.is_some() || self.blank {
            return;
        }
        let View {
            x,
            y,
            width,
            height,
        } = self.view;
        let Some(((left, across), (top, down))) = part(x, width, self.geometry.window.width)
            .zip(part(y, height, self.geometry.window.height))
        else {
            self.blank = true;
            return;
        };
        self.take_window(left, top, across, down);
    }

    /// Makes the window smaller: (left, top) and the size are relative to the flipped window.
    fn take_window(&mut self, left: u32, top: u32, width: u32, height: u32) {
        let g = &mut self.geometry;
        let from_left = if g.flip_horizontal {
            g.window.width - left - width
        } else {
            left
        };
        let from_top = if g.flip_vertical {
            g.window.height - top - height
        } else {
            top
        };
        g.window = Rect {
            x: g.window.x + from_left,
            y: g.window.y + from_top,
            width,
            height,
        };
        self.view.x -= i64::from(left);
        self.view.y -= i64::from(top);
        if let Some(mapped) = &mut self.mapped {
            mapped.map[0][2] -= f64::from(left);
            mapped.map[1][2] -= f64::from(top);
        }
    }

    /// Makes the window the crop that is resized from now on.
    fn crop_to_window(&mut self) {
        let g = &mut self.geometry;
        let (x, width, across) = finer(
            g.crop.x,
            g.crop.width,
            g.crop_subpixels.0,
            g.resized.0,
            g.window.x,
            g.window.width,
        );
        let (y, height, down) = finer(
            g.crop.y,
            g.crop.height,
            g.crop_subpixels.1,
            g.resized.1,
            g.window.y,
            g.window.height,
        );
        g.crop = Rect {
            x,
            y,
            width,
            height,
        };
        g.crop_subpixels = (across, down);
        g.resized = (g.window.width, g.window.height);
        g.window = Rect::from_size(g.resized.0, g.resized.1);
    }

    /// Returns the geometry. `whole_window`: the whole window is needed, not only the part that a
    /// map reaches.
    pub(super) fn finish(mut self, whole_window: bool) -> Geometry {
        self.cut_window();
        if self.blank {
            // A map to positions outside of the frame.
            let away = 4.0 * f64::from(MAX_SIDE);
            let (map, size) = ([[1.0, 0.0, away], [0.0, 1.0, away]], self.size());
            let mapped = Mapped {
                map,
                size,
                interpolation: Interpolation::Nearest,
                resize: None,
            };
            return self.finish_map(mapped, whole_window);
        }
        if let Some(mapped) = self.mapped {
            return self.finish_map(mapped, whole_window);
        }
        if !self.view_is_window() {
            let View {
                x,
                y,
                width,
                height,
            } = self.view;
            self.geometry.placement = Placement::Canvas {
                size: (width, height),
                x: (-x) as u32,
                y: (-y) as u32,
            };
        }
        self.geometry
    }

    fn finish_map(mut self, mapped: Mapped, whole_window: bool) -> Geometry {
        self.mapped = Some(mapped);
        if let Some(filter) = mapped.resize {
            self.resize_before_map(filter, !whole_window);
        }
        if !whole_window {
            self.take_needed();
        }
        let Mapped {
            map,
            size,
            interpolation,
            ..
        } = self.mapped.expect("set above");
        let unit = f64::from(1u32 << WARP_FRACTION_BITS);
        // Converts from pixels as unit squares to pixel centers at integer coordinates: half a
        // pixel less at both ends.
        let fixed = |[a, b, c]: [f64; 3]| {
            [a, b, c + (a + b - 1.0) / 2.0].map(|v| (v * unit).round() as i64)
        };
        let warp = Warp {
            size,
            to_x: fixed(map[0]),
            to_y: fixed(map[1]),
            interpolation,
        };
        self.geometry.placement = Placement::Warp(warp);
        self.geometry
    }

    /// A map that shrinks would sample single pixels, so the source is resized, with the filter, to
    /// a size at which the map no longer shrinks. A map that only enlarges would blend the area
    /// outside into the edges of the frame itself, even where there is no padding: such a frame is
    /// resized as one without padding is (`also_larger`), and the map moves it into position.
    fn resize_before_map(&mut self, filter: Filter, also_larger: bool) {
        let Some(mapped) = &mut self.mapped else {
            return;
        };
        let window = self.geometry.window;
        let straight = mapped.map[0][1] == 0.0 && mapped.map[1][0] == 0.0;
        let most = if also_larger && straight {
            f64::from(MAX_SIDE)
        } else {
            0.0
        };
        let shrunk = |row: [f64; 3], length: u32| {
            // Not `hypot`: its last bit differs between C libraries.
            let rate = (row[0] * row[0] + row[1] * row[1]).sqrt();
            if rate > 1.0 || f64::from(length) / rate <= most {
                (f64::from(length) / rate).round().max(1.0) as u32
            } else {
                length
            }
        };
        let (width, height) = (
            shrunk(mapped.map[0], window.width),
            shrunk(mapped.map[1], window.height),
        );
        if (width, height) == (window.width, window.height) {
            return;
        }
        let (across, down) = (
            f64::from(width) / f64::from(window.width),
            f64::from(height) / f64::from(window.height),
        );
        mapped.map[0] = mapped.map[0].map(|v| v * across);
        mapped.map[1] = mapped.map[1].map(|v| v * down);
        self.crop_to_window();
        self.geometry.resized = (width, height);
        self.geometry.window = Rect::from_size(width, height);
        self.geometry.filter = filter;
    }

    /// Removes from the window what the map does not reach.
    fn take_needed(&mut self) {
        let Some(mapped) = self.mapped else { return };
        let (width, height) = (f64::from(mapped.size.0), f64::from(mapped.size.1));
        let reach = |row: [f64; 3], length: u32| {
            let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)]
                .map(|(x, y)| row[0] * x + row[1] * y + row[2]);
            // One pixel for interpolation, one for rounding.
            let first = (corners
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min)
                .floor()
                - 2.0)
                .max(0.0);
            let end = (corners
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max)
                .ceil()
                + 2.0)
                .min(f64::from(length));
            // If nothing is reached, one pixel stays, since the window must not be empty.
            let first = first.min(f64::from(length - 1));
            (first as u32, (end - first).max(1.0) as u32)
        };
        let (left, across) = reach(mapped.map[0], self.geometry.window.width);
        let (top, down) = reach(mapped.map[1], self.geometry.window.height);
        self.take_window(left, top, across, down);
    }
}

#[cfg(test)]
mod tests;
