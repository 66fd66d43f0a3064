//! Combines a sequence of geometric steps on a frame of known size into one geometry of the kernels.
//! The geometry holds a crop, a resize, a window, flips and, where needed, padding or an affine map.
//! Two resizes never happen one after the other: the last size is made from the source.

use framespool_kernels::{
    Filter, Geometry, Interpolation, Orientation, Placement, Rect, Warp, MAX_SIDE, WARP_FRACTION_BITS,
};

use super::params::{after, finer, part, Map};
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
    /// A resize followed the map: pixels that it shrinks must be averaged, not sampled.
    shrunk: bool,
}

/// A geometry under construction.
#[derive(Clone, Debug)]
pub(super) struct GeometryBuilder {
    geometry: Geometry,
    /// The visible part of the flipped window; beyond the window is fill. Not used once there is a map.
    view: View,
    mapped: Option<Mapped>,
    /// Nothing of the window is visible any more, and no later step can change that.
    blank: bool,
}

impl GeometryBuilder {
    /// The whole of a frame of this displayed size.
    pub fn new((width, height): (u32, u32), orientation: Orientation) -> Self {
        let geometry = Geometry { orientation, ..Geometry::identity(width, height) };
        Self { geometry, view: View { x: 0, y: 0, width, height }, mapped: None, blank: false }
    }

    /// Current width and height of the frame.
    pub fn size(&self) -> (u32, u32) {
        self.mapped.map_or((self.view.width, self.view.height), |mapped| mapped.size)
    }

    /// Keeps `size` pixels from column `x` and row `y` on; the area outside of the frame is fill.
    ///
    /// # Errors
    /// `Argument` if a map has cut something off that would become visible again.
    pub fn crop(&mut self, x: i64, y: i64, size: Size) -> Result<()> {
        let (width, height) = self.size();
        let within =
            |start: i64, length: u32, side: u32| start >= 0 && start + i64::from(length) <= i64::from(side);
        if !(within(x, size.width, width) && within(y, size.height, height)) {
            self.check_nothing_is_cut_off()?;
        }
        self.cut_window();
        match &mut self.mapped {
            Some(mapped) => {
                mapped.map = after(&mapped.map, &[[1.0, 0.0, x as f64], [0.0, 1.0, y as f64]]);
                mapped.size = (size.width, size.height);
            }
            None => {
                self.view =
                    View { x: self.view.x + x, y: self.view.y + y, width: size.width, height: size.height };
            }
        }
        Ok(())
    }

    /// After a map, only the edges of the latest frame are known: a frame that grows must not have lost
    /// anything.
    fn check_nothing_is_cut_off(&self) -> Result<()> {
        let Some(Mapped { map, size, .. }) = self.mapped else { return Ok(()) };
        let [[a, b, c], [d, e, f]] = map;
        let determinant = a * e - b * d;
        let (width, height) = (f64::from(self.geometry.window.width), f64::from(self.geometry.window.height));
        let (max_x, max_y) = (f64::from(size.0) + 1e-3, f64::from(size.1) + 1e-3);
        let shown = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)].into_iter().all(|(x, y)| {
            let (x, y) = (x - c, y - f);
            let (x, y) = ((e * x - b * y) / determinant, (a * y - d * x) / determinant);
            (-1e-3..=max_x).contains(&x) && (-1e-3..=max_y).contains(&y)
        });
        if shown || self.blank {
            return Ok(());
        }
        Err(Error::Argument(
            "after a rotation, an affine map or a resize of a padded frame, followed by a crop, the frame \
             cannot grow or be rotated again in the same pass, because cropped pixels would be visible; pad \
             first, use expand=True, or do all in one RandomAffine"
                .into(),
        ))
    }

    /// Adds fill at the sides.
    pub fn pad(&mut self, padding: Padding) -> Result<()> {
        let (width, height) = self.size();
        let side = |length: u32, before: u32, after: u32| {
            length.checked_add(before).and_then(|sum| sum.checked_add(after)).filter(|&sum| sum <= MAX_SIDE)
        };
        let (Some(width), Some(height)) =
            (side(width, padding.left, padding.right), side(height, padding.top, padding.bottom))
        else {
            let Padding { left, top, right, bottom } = padding;
            return Err(Error::Argument(format!(
                "padding ({left}, {top}, {right}, {bottom}) makes a frame of {height} rows and {width} \
                 columns longer than {MAX_SIDE} pixels; pad less or resize first"
            )));
        };
        self.crop(-i64::from(padding.left), -i64::from(padding.top), Size { height, width })
    }

    /// Mirrors the frame.
    pub fn flip(&mut self, flip: Flip) {
        if let Some(Mapped { map, size: (width, height), .. }) = &mut self.mapped {
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
    pub fn resize(&mut self, width: u32, height: u32, filter: Filter) {
        if (width, height) == self.size() {
            return;
        }
        self.cut_window();
        if self.blank && self.mapped.is_none() {
            self.view = View { width, height, ..self.view };
            return;
        }
        if self.mapped.is_none() && self.view_is_window() {
            self.crop_to_window();
            self.geometry.resized = (width, height);
            self.geometry.window = Rect::from_size(width, height);
            self.geometry.filter = filter;
            self.view = View { x: 0, y: 0, width, height };
            return;
        }
        let interpolation = match filter {
            Filter::Nearest => Interpolation::Nearest,
            _ => Interpolation::Bilinear,
        };
        let (old_width, old_height) = self.size();
        let (across, down) =
            (f64::from(old_width) / f64::from(width), f64::from(old_height) / f64::from(height));
        self.read_through(&[[across, 0.0, 0.0], [0.0, down, 0.0]], (width, height), interpolation);
        if let Some(mapped) = &mut self.mapped {
            mapped.shrunk = filter == Filter::Triangle;
        }
    }

    /// Rotates, shears or moves the frame by a map from the new frame, of this size, back to the current one.
    ///
    /// # Errors
    /// `Argument` if an earlier map has cut something off that would become visible again.
    pub fn warp(&mut self, back: &Map, size: (u32, u32), interpolation: Interpolation) -> Result<()> {
        self.check_nothing_is_cut_off()?;
        self.read_through(back, size, interpolation);
        Ok(())
    }

    fn read_through(&mut self, back: &Map, size: (u32, u32), interpolation: Interpolation) {
        self.cut_window();
        let mapped = self.mapped.get_or_insert(Mapped {
            map: [[1.0, 0.0, self.view.x as f64], [0.0, 1.0, self.view.y as f64]],
            size,
            interpolation,
            shrunk: false,
        });
        mapped.map = after(&mapped.map, back);
        mapped.size = size;
        mapped.interpolation = interpolation;
    }

    fn view_is_window(&self) -> bool {
        let Rect { width, height, .. } = self.geometry.window;
        self.view == View { x: 0, y: 0, width, height }
    }

    /// Removes from the window what the view does not show, so that it stays hidden.
    fn cut_window(&mut self) {
        if self.mapped.is_some() || self.blank {
            return;
        }
        let View { x, y, width, height } = self.view;
        let Some(((left, across), (top, down))) =
            part(x, width, self.geometry.window.width).zip(part(y, height, self.geometry.window.height))
        else {
            self.blank = true;
            return;
        };
        self.take_window(left, top, across, down);
    }

    /// Makes the window smaller: (left, top) and the size are relative to the flipped window.
    fn take_window(&mut self, left: u32, top: u32, width: u32, height: u32) {
        let g = &mut self.geometry;
        let from_left = if g.flip_horizontal { g.window.width - left - width } else { left };
        let from_top = if g.flip_vertical { g.window.height - top - height } else { top };
        g.window = Rect { x: g.window.x + from_left, y: g.window.y + from_top, width, height };
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
        let (x, width, across) =
            finer(g.crop.x, g.crop.width, g.crop_subpixels.0, g.resized.0, g.window.x, g.window.width);
        let (y, height, down) =
            finer(g.crop.y, g.crop.height, g.crop_subpixels.1, g.resized.1, g.window.y, g.window.height);
        g.crop = Rect { x, y, width, height };
        g.crop_subpixels = (across, down);
        g.resized = (g.window.width, g.window.height);
        g.window = Rect::from_size(g.resized.0, g.resized.1);
    }

    /// Returns the geometry. `whole_window`: the whole window is needed, not only the part that a map
    /// reaches.
    pub fn finish(mut self, whole_window: bool) -> Geometry {
        self.cut_window();
        if self.blank {
            // A map to positions outside of the frame.
            let away = 4.0 * f64::from(MAX_SIDE);
            let (map, size) = ([[1.0, 0.0, away], [0.0, 1.0, away]], self.size());
            let mapped = Mapped { map, size, interpolation: Interpolation::Nearest, shrunk: false };
            return self.finish_map(mapped, whole_window);
        }
        if let Some(mapped) = self.mapped {
            return self.finish_map(mapped, whole_window);
        }
        if !self.view_is_window() {
            let View { x, y, width, height } = self.view;
            self.geometry.placement =
                Placement::Canvas { size: (width, height), x: (-x) as u32, y: (-y) as u32 };
        }
        self.geometry
    }

    fn finish_map(mut self, mapped: Mapped, whole_window: bool) -> Geometry {
        self.mapped = Some(mapped);
        if mapped.shrunk {
            self.resize_before_map(!whole_window);
        }
        if !whole_window {
            self.take_needed();
        }
        let Mapped { map, size, interpolation, .. } = self.mapped.expect("set above");
        let unit = f64::from(1u32 << WARP_FRACTION_BITS);
        // Converts from pixels as unit squares to pixel centers at integer coordinates: half a pixel less at both
        // ends.
        let fixed = |[a, b, c]: [f64; 3]| [a, b, c + (a + b - 1.0) / 2.0].map(|v| (v * unit).round() as i64);
        let warp = Warp { size, to_x: fixed(map[0]), to_y: fixed(map[1]), interpolation };
        self.geometry.placement = Placement::Warp(warp);
        self.geometry
    }

    /// A map that shrinks would sample single pixels, so the source is resized, with averaging, to a size at
    /// which the map no longer shrinks. A map that only enlarges would blend the area outside into the edges
    /// of the frame itself, even where there is no padding: such a frame is resized as one without padding is
    /// (`also_larger`), and the map moves it into position.
    fn resize_before_map(&mut self, also_larger: bool) {
        let Some(mapped) = &mut self.mapped else { return };
        let window = self.geometry.window;
        let straight = mapped.map[0][1] == 0.0 && mapped.map[1][0] == 0.0;
        let most = if also_larger && straight { f64::from(MAX_SIDE) } else { 0.0 };
        let shrunk = |row: [f64; 3], length: u32| {
            // Not `hypot`: its last bit differs between C libraries.
            let rate = (row[0] * row[0] + row[1] * row[1]).sqrt();
            if rate > 1.0 || f64::from(length) / rate <= most {
                (f64::from(length) / rate).round().max(1.0) as u32
            } else {
                length
            }
        };
        let (width, height) = (shrunk(mapped.map[0], window.width), shrunk(mapped.map[1], window.height));
        if (width, height) == (window.width, window.height) {
            return;
        }
        let (across, down) =
            (f64::from(width) / f64::from(window.width), f64::from(height) / f64::from(window.height));
        mapped.map[0] = mapped.map[0].map(|v| v * across);
        mapped.map[1] = mapped.map[1].map(|v| v * down);
        self.crop_to_window();
        self.geometry.resized = (width, height);
        self.geometry.window = Rect::from_size(width, height);
        self.geometry.filter = Filter::Triangle;
    }

    /// Removes from the window what the map does not reach.
    fn take_needed(&mut self) {
        let Some(mapped) = self.mapped else { return };
        let (width, height) = (f64::from(mapped.size.0), f64::from(mapped.size.1));
        let reach = |row: [f64; 3], length: u32| {
            let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)]
                .map(|(x, y)| row[0] * x + row[1] * y + row[2]);
            // One pixel for interpolation, one for rounding.
            let first = (corners.iter().copied().fold(f64::INFINITY, f64::min).floor() - 2.0).max(0.0);
            let end = (corners.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil() + 2.0)
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
mod tests {
    use super::*;

    fn draft(width: u32, height: u32) -> GeometryBuilder {
        GeometryBuilder::new((width, height), Orientation::default())
    }

    fn size(height: u32, width: u32) -> Size {
        Size { height, width }
    }

    #[test]
    fn crop_before_resize_is_the_source_rectangle() {
        let mut d = draft(400, 300);
        d.crop(100, 100, size(100, 200)).unwrap();
        d.resize(50, 50, Filter::Triangle);
        let g = d.finish(false);
        assert_eq!(g.crop, Rect { x: 100, y: 100, width: 200, height: 100 });
        assert_eq!((g.crop_subpixels, g.resized, g.window), ((1, 1), (50, 50), Rect::from_size(50, 50)));
        assert_eq!(g.placement, Placement::Identity);
    }

    #[test]
    fn resize_crop_resize_is_one_resize() {
        let mut d = draft(1920, 1080);
        d.resize(455, 256, Filter::Triangle);
        d.crop(10, 20, size(100, 150)).unwrap();
        d.resize(224, 224, Filter::Triangle);
        let g = d.finish(false);
        // Column 10 of 455 is column 10 * 1920 / 455 = 3840 / 91 of 1920.
        assert_eq!((g.crop.x, g.crop.width, g.crop_subpixels.0), (3840, 150 * 384, 91));
        assert_eq!((g.crop.y, g.crop.height, g.crop_subpixels.1), (675, 3375, 8));
        assert_eq!((g.resized, g.window), ((224, 224), Rect::from_size(224, 224)));
    }

    #[test]
    fn a_crop_after_a_flip_counts_from_the_other_side() {
        let mut d = draft(100, 50);
        d.flip(Flip::Horizontal);
        d.crop(10, 5, size(20, 30)).unwrap();
        let g = d.finish(false);
        assert!(g.flip_horizontal);
        assert_eq!(g.window, Rect { x: 60, y: 5, width: 30, height: 20 });
    }

    #[test]
    fn what_was_cropped_away_is_fill_when_padded_again() {
        let mut d = draft(100, 50);
        d.crop(40, 10, size(20, 20)).unwrap();
        d.pad(Padding { left: 3, top: 4, right: 5, bottom: 6 }).unwrap();
        let g = d.finish(false);
        assert_eq!(g.window, Rect { x: 40, y: 10, width: 20, height: 20 });
        assert_eq!(g.placement, Placement::Canvas { size: (28, 30), x: 3, y: 4 });
    }

    #[test]
    fn a_crop_of_nothing_but_padding_is_all_fill() {
        let mut d = draft(10, 10);
        d.pad(Padding { left: 50, ..Padding::default() }).unwrap();
        d.crop(0, 0, size(10, 20)).unwrap();
        let g = d.finish(false);
        let Placement::Warp(warp) = g.placement else { panic!("{g:?}") };
        assert!(warp.size == (20, 10) && warp.to_x[2] > 20 << WARP_FRACTION_BITS, "{warp:?}");
    }

    #[test]
    fn a_resize_after_a_rotation_happens_before_it() {
        let mut d = draft(1000, 800);
        let (sin, cos) = 30f64.to_radians().sin_cos();
        d.warp(&[[cos, -sin, 200.0], [sin, cos, -100.0]], (1000, 800), Interpolation::Bilinear).unwrap();
        d.resize(250, 200, Filter::Triangle);
        let g = d.finish(true);
        assert_eq!(g.resized, (250, 200));
        let Placement::Warp(warp) = g.placement else { panic!("{g:?}") };
        let unit = f64::from(1u32 << WARP_FRACTION_BITS);
        assert!(
            (warp.to_x[0] as f64 / unit - cos).abs() < 1e-6
                && (warp.to_x[1] as f64 / unit + sin).abs() < 1e-6
        );
        // The center of the first pixel: (cos / 2 - sin / 2) - 1 / 2 + 200 / 4.
        assert!((warp.to_x[2] as f64 / unit - (cos / 2.0 - sin / 2.0 - 0.5 + 50.0)).abs() < 1e-6);
    }

    #[test]
    fn padded_frame_is_resized_then_moved() {
        let mut d = draft(32, 32);
        d.pad(Padding { left: 4, top: 4, right: 4, bottom: 4 }).unwrap();
        d.crop(0, 5, size(32, 32)).unwrap();
        d.resize(224, 224, Filter::Triangle);
        let g = d.finish(false);
        let Placement::Warp(warp) = g.placement else { panic!("{g:?}") };
        let unit = 1i64 << WARP_FRACTION_BITS;
        // Exactly seven times as large: no pixel is blended with the padding.
        assert_eq!((warp.to_x[0], warp.to_x[1], warp.to_x[2] % unit), (unit, 0, 0));
        assert_eq!((warp.to_y[0], warp.to_y[1], warp.to_y[2] % unit), (0, unit, 0));
        assert_eq!((g.resized.0 % 7, g.resized.1 % 7), (0, 0));
    }

    #[test]
    fn affine_map_reads_only_what_it_reaches() {
        let mut d = draft(1000, 800);
        d.warp(&[[1.0, 0.0, 0.25], [0.0, 1.0, 0.0]], (1000, 800), Interpolation::Bilinear).unwrap();
        d.crop(500, 400, size(10, 20)).unwrap();
        let g = d.finish(false);
        assert_eq!(g.window, Rect { x: 498, y: 398, width: 25, height: 14 });
        let Placement::Warp(warp) = g.placement else { panic!("{g:?}") };
        assert_eq!((warp.to_x[2] >> (WARP_FRACTION_BITS - 2), warp.to_y[2] >> WARP_FRACTION_BITS), (9, 2));
    }

    #[test]
    fn what_a_crop_left_out_stays_out_when_a_crop_grows() {
        let mut d = draft(10, 10);
        d.crop(3, 3, size(4, 4)).unwrap();
        d.crop(-3, -3, size(10, 10)).unwrap();
        let g = d.finish(false);
        assert_eq!(g.window, Rect { x: 3, y: 3, width: 4, height: 4 });
        assert_eq!(g.placement, Placement::Canvas { size: (10, 10), x: 3, y: 3 });
    }

    #[test]
    fn fill_only_output_stays_fill() {
        let mut d = draft(10, 10);
        d.pad(Padding { left: 50, ..Padding::default() }).unwrap();
        d.crop(0, 0, size(10, 20)).unwrap();
        d.pad(Padding { left: 60, right: 60, top: 60, bottom: 60 }).unwrap();
        d.resize(70, 65, Filter::Triangle);
        let Placement::Warp(warp) = d.finish(false).placement else { panic!("a map to nowhere") };
        assert!(warp.size == (70, 65) && warp.to_x[2] > 1000 << WARP_FRACTION_BITS);
    }

    #[test]
    fn rotated_frame_grows_only_if_not_cropped() {
        let (sin, cos) = 30f64.to_radians().sin_cos();
        let back = [[cos, -sin, 30.0], [sin, cos, -20.0]];
        let mut d = draft(100, 80);
        d.warp(&back, (100, 80), Interpolation::Bilinear).unwrap();
        d.crop(10, 10, size(50, 50)).unwrap(); // a smaller crop is allowed
        assert!(d.pad(Padding { left: 1, ..Padding::default() }).is_err());
        assert!(d.warp(&back, (50, 50), Interpolation::Bilinear).is_err());
        let mut d = draft(100, 80);
        d.pad(Padding { left: 100, right: 100, top: 100, bottom: 100 }).unwrap();
        d.warp(&back, (300, 280), Interpolation::Bilinear).unwrap();
        d.pad(Padding { left: 1, ..Padding::default() }).unwrap();
    }
}
