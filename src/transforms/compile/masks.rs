//! Draws the rectangles that masks cover.

use framespool_kernels::{Mask, MaskFill, MaskRegion, Rect};

use super::super::params::{log_uniform, uniform};
use super::super::transform::{EraseFill, Size, UniformRange};
use super::Compiler;
use crate::rng::Rng;

impl Compiler {
    /// torchvision's `RandomErasing`, `count` times. Returns (top, left, height, width) of each
    /// hole.
    pub(super) fn erase(
        &mut self,
        p: f64,
        scale: UniformRange,
        ratio: UniformRange,
        cover: EraseFill,
        count: u32,
        rng: &mut Rng,
    ) -> Vec<f64> {
        let mut holes = Vec::new();
        if rng.next_f64() >= p {
            return holes;
        }
        let (width, height) = self.draft.size();
        let area = f64::from(width) * f64::from(height);
        for _ in 0..count {
            let found = (0..10).find_map(|_| {
                let target = area * uniform(scale, rng);
                let aspect = log_uniform(ratio, rng);
                let h = (target * aspect).sqrt().round_ties_even();
                let w = (target / aspect).sqrt().round_ties_even();
                (h < f64::from(height) && w < f64::from(width) && h >= 1.0 && w >= 1.0)
                    .then_some((w as u32, h as u32))
            });
            let Some((w, h)) = found else { continue };
            let y = rng.next_below(u64::from(height - h) + 1) as u32;
            let x = rng.next_below(u64::from(width - w) + 1) as u32;
            self.hole(
                Rect {
                    x,
                    y,
                    width: w,
                    height: h,
                },
                cover,
                rng,
            );
            holes.extend([y, x, h, w].map(f64::from));
        }
        holes
    }

    /// Covers rectangles about random centers, clipped at the edges (DeVries and Taylor, "Improved
    /// Regularization of Convolutional Neural Networks with Cutout", 2017). Returns (top, left,
    /// height, width) of each.
    pub(super) fn cutout(
        &mut self,
        size: Size,
        count: u32,
        p: f64,
        cover: EraseFill,
        rng: &mut Rng,
    ) -> Vec<f64> {
        let mut holes = Vec::new();
        if rng.next_f64() >= p {
            return holes;
        }
        let (width, height) = self.draft.size();
        for _ in 0..count {
            let (y, x) = (
                rng.next_below(u64::from(height)) as i64,
                rng.next_below(u64::from(width)) as i64,
            );
            let cut = |center: i64, side: u32, length: u32| {
                let start = (center - i64::from(side / 2)).max(0);
                let end = (center - i64::from(side / 2) + i64::from(side)).min(i64::from(length));
                (start as u32, (end - start).max(0) as u32)
            };
            let ((top, h), (left, w)) = (cut(y, size.height, height), cut(x, size.width, width));
            self.hole(
                Rect {
                    x: left,
                    y: top,
                    width: w,
                    height: h,
                },
                cover,
                rng,
            );
            holes.extend([top, left, h, w].map(f64::from));
        }
        holes
    }

    fn hole(&mut self, rect: Rect, cover: EraseFill, rng: &mut Rng) {
        let fill = self.mask_fill(cover, rng);
        if self.label.is_none() && rect.width > 0 && rect.height > 0 {
            self.masks.push(Mask {
                region: MaskRegion::Rect(rect),
                fill,
            });
        }
    }

    pub(super) fn mask_fill(&self, cover: EraseFill, rng: &mut Rng) -> MaskFill {
        match cover {
            EraseFill::Noise => MaskFill::Noise(rng.next_u64()),
            EraseFill::Value(value) if self.normalized => {
                MaskFill::Element(value.map(|v| v as f32))
            }
            EraseFill::Value(value) => {
                MaskFill::CodeValue(value.map(|v| v.round().clamp(0.0, 255.0) as u8))
            }
        }
    }
}
