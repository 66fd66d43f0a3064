//! Crops, and the resize that fits a frame into a size.

use framespool_kernels::{Filter, Rect};

use super::super::params::{center, is_wider, proportion};
use super::super::transform::{Padding, Size};
use super::Compiler;
use crate::error::{Error, Result};
use crate::rng::Rng;

impl Compiler {
    /// torchvision's `center_crop`: adds black where the frame is smaller; otherwise rounds the
    /// corner half to even.
    pub(super) fn center_crop(&mut self, size: Size) {
        let (width, height) = self.draft.size();
        if size.width > width || size.height > height {
            self.fill_outside([0.0; 3]);
        }
        let start = |length: u32, wanted: u32| match wanted > length {
            true => -i64::from((wanted - length) / 2),
            false => i64::from(center(length - wanted)),
        };
        self.crop(start(width, size.width), start(height, size.height), size);
    }

    /// torchvision's `RandomCrop`. Returns (top, left) in the padded frame.
    pub(super) fn random_crop(
        &mut self,
        size: Size,
        padding: Padding,
        pad_if_needed: bool,
        fill: [f64; 3],
        rng: &mut Rng,
    ) -> Result<(f64, f64)> {
        self.pad(padding, fill)?;
        let (width, height) = self.draft.size();
        let (across, down) = (
            size.width.saturating_sub(width),
            size.height.saturating_sub(height),
        );
        if (across, down) != (0, 0) {
            if !pad_if_needed {
                return Err(Error::Argument(format!(
                    "RandomCrop(({}, {})) is larger than the frame of {height} rows and {width} columns; \
                     put Resize before it or use pad_if_needed=True",
                    size.height, size.width
                )));
            }
            self.pad(
                Padding {
                    left: across,
                    right: across,
                    top: down,
                    bottom: down,
                },
                fill,
            )?;
        }
        let (width, height) = self.draft.size();
        let top = rng.next_below(u64::from(height - size.height) + 1);
        let left = rng.next_below(u64::from(width - size.width) + 1);
        self.crop(left as i64, top as i64, size);
        Ok((top as f64, left as f64))
    }

    /// Crops a part, and resizes it.
    pub(super) fn resized_crop(
        &mut self,
        part: Rect,
        size: Size,
        filter: Filter,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let Rect {
            x,
            y,
            width,
            height,
        } = part;
        self.crop(i64::from(x), i64::from(y), Size { height, width });
        self.resize((size.width, size.height), filter);
        for (name, value) in [
            ("top", y),
            ("left", x),
            ("height", height),
            ("width", width),
        ] {
            record(name, &[f64::from(value)]);
        }
    }

    pub(super) fn five_crop(&mut self, size: Size) -> Result<()> {
        self.check_fits("FiveCrop", size)?;
        let (width, height) = self.draft.size();
        let (right, bottom) = (
            i64::from(width - size.width),
            i64::from(height - size.height),
        );
        match self.view {
            0 => self.crop(0, 0, size),
            1 => self.crop(right, 0, size),
            2 => self.crop(0, bottom, size),
            3 => self.crop(right, bottom, size),
            _ => self.center_crop(size),
        }
        Ok(())
    }

    pub(super) fn three_crop(&mut self, size: Size) -> Result<()> {
        self.check_fits("ThreeCrop", size)?;
        let (width, height) = self.draft.size();
        let (across, down) = (width - size.width, height - size.height);
        let along = |spare: u32| match self.view {
            0 => 0,
            1 => i64::from(center(spare)),
            _ => i64::from(spare),
        };
        let middle = |spare: u32| i64::from(center(spare));
        let (x, y) = if height > width {
            (middle(across), along(down))
        } else {
            (along(across), middle(down))
        };
        self.crop(x, y, size);
        Ok(())
    }

    fn check_fits(&self, name: &str, size: Size) -> Result<()> {
        let (width, height) = self.draft.size();
        if size.width <= width && size.height <= height {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "{name}(({}, {})) is larger than the frame of {height} rows and {width} columns; put Resize before it",
            size.height, size.width
        )))
    }

    pub(super) fn letterbox(&mut self, size: Size, filter: Filter, fill: [f64; 3]) -> Result<()> {
        let (width, height) = self.draft.size();
        // The side that fits more tightly determines the scale; the other side follows, rounded.
        let follow = |side, to, from, most: u32| proportion(side, to, from).min(most.into()) as u32;
        let (w, h) = if is_wider((width, height), size) {
            (size.width, follow(height, size.width, width, size.height))
        } else {
            (follow(width, size.height, height, size.width), size.height)
        };
        self.resize((w, h), filter);
        let (across, down) = (size.width - w, size.height - h);
        let (left, top) = (across / 2, down / 2);
        self.pad(
            Padding {
                left,
                top,
                right: across - left,
                bottom: down - top,
            },
            fill,
        )
    }
}
