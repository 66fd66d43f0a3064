//! In: a frame, its tables, and a row of the window.
//! Out: the row's components: vertical pass, then horizontal pass, a row or sixteen at a time.
//! Never: converts or writes.

use super::{grow, Grid, PixelPass, Scratch, Source};
use crate::resample::SampleFormat;
use crate::simd::{Blocks, BLOCK_ROWS};
use crate::view::{FrameView, Plane, Sheet};

impl PixelPass {
    /// Fills `scratch.components` with row j; rows are asked for from the first to the last.
    pub(super) fn resample_row(&self, source: Source<'_>, j: usize, scratch: &mut Scratch) {
        let Source { frame, picture, tables, .. } = source;
        if let Some(blocks) = self.backend.blocks().filter(|_| tables.luma.columns.repeat.is_none()) {
            let stride = tables.width.next_multiple_of(8);
            if j.is_multiple_of(BLOCK_ROWS) {
                self.resample_block(source, blocks, stride, j, scratch);
            }
            let rows = scratch.components.iter_mut().zip(&scratch.block_components);
            for (row, block) in rows.take(picture.ink.components()) {
                row[..tables.width].copy_from_slice(&block[j % BLOCK_ROWS * stride..][..tables.width]);
            }
            return;
        }
        for sheet in picture.sheets.iter().flatten() {
            let grid = if sheet.is_chroma { &tables.chroma } else { &tables.luma };
            // Repeated chroma: the row above left just what this row needs.
            if j > 0 && grid.rows.taps_at(j) == grid.rows.taps_at(j - 1) {
                continue;
            }
            let span = grid.columns.span();
            let padded = span + grid.columns.taps;
            grow(&mut scratch.blended, padded);
            if sheet.step == 1 {
                self.blend(frame, sheet, grid, j, &mut scratch.blended[..span]);
            } else {
                grow(&mut scratch.mixed, span * sheet.step);
                self.blend(frame, sheet, grid, j, &mut scratch.mixed[..span * sheet.step]);
            }
            for (component, offset) in sheet.offsets.iter().enumerate() {
                let Some(offset) = *offset else { continue };
                if sheet.step > 1 {
                    let mixed = &scratch.mixed[..span * sheet.step];
                    self.backend.pick(&mut scratch.blended[..span], mixed, sheet.step, offset);
                }
                self.backend.convolve(
                    &mut scratch.components[component][..tables.width],
                    &scratch.blended[..padded],
                    &grid.columns,
                );
            }
        }
    }

    /// Fills `scratch.block_components` with the rows from j on, as many as there are in a block, `stride` apart.
    fn resample_block(
        &self,
        Source { frame, picture, tables, .. }: Source<'_>,
        blocks: Blocks,
        stride: usize,
        j: usize,
        scratch: &mut Scratch,
    ) {
        let count = BLOCK_ROWS.min(tables.height - j);
        for sheet in picture.sheets.iter().flatten() {
            let grid = if sheet.is_chroma { &tables.chroma } else { &tables.luma };
            let span = grid.columns.span();
            let row_stride = span.next_multiple_of(16);
            let all = BLOCK_ROWS * row_stride;
            let Scratch { mixed, block: [rows, pairs], block_components, .. } = &mut *scratch;
            let components =
                sheet.offsets.iter().enumerate().filter_map(|(c, offset)| offset.map(|offset| (c, offset)));
            grow(rows, components.clone().count() * all);
            grow(pairs, all);
            for r in 0..count {
                if sheet.step == 1 {
                    self.blend(frame, sheet, grid, j + r, &mut rows[r * row_stride..][..span]);
                    continue;
                }
                grow(mixed, span * sheet.step);
                self.blend(frame, sheet, grid, j + r, &mut mixed[..span * sheet.step]);
                for (place, (_, offset)) in components.clone().enumerate() {
                    let row = &mut rows[place * all + r * row_stride..][..span];
                    self.backend.pick(row, &mixed[..span * sheet.step], sheet.step, offset);
                }
            }
            for (place, (component, _)) in components.enumerate() {
                grow(&mut block_components[component], BLOCK_ROWS * stride);
                blocks.pair_up(&mut pairs[..all], &rows[place * all..][..all], row_stride);
                blocks.convolve(&mut block_components[component], stride, &pairs[..all], &grid.columns);
            }
        }
    }

    /// The vertical pass of one row of a sheet.
    fn blend(&self, frame: &FrameView<'_>, sheet: &Sheet<Plane<'_>>, grid: &Grid, j: usize, dst: &mut [i16]) {
        let (first_row, weights) = grid.rows.taps_at(j);
        let stride = sheet.plane.stride_bytes;
        let first_column = grid.columns.first as usize * sheet.step * frame.sample_bytes();
        let src = &sheet.plane.data[first_row * stride + first_column..];
        if frame.depth_bits == 8 {
            let ahead = if j + 1 < grid.rows.starts.len() {
                let (next, weights_next) = grid.rows.taps_at(j + 1);
                (next + weights_next.len()).saturating_sub(first_row + weights.len())
            } else {
                0
            };
            self.backend.blend_u8(dst, src, stride, weights, ahead);
        } else {
            let format = SampleFormat { depth_bits: frame.depth_bits, shift: frame.shift };
            self.backend.blend_u16(dst, src, stride, weights, format);
        }
    }
}
