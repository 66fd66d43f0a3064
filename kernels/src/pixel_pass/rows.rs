//! Computes the components of a window row: vertical pass, then horizontal pass, one row or sixteen
//! at a time. Finds rows of the slot that can be written directly.

use super::{FrameSource, PixelPass, PlaneTables, Scratch, grow_to};
use crate::frame::{CheckedPlane, FrameView, Plane};
use crate::output_spec::OutputSpec;
use crate::resample::SampleFormat;
use crate::simd::{BLOCK_ROWS, RowBlock16};
use crate::types::{Channels, OutputStrides};
use crate::write::{Dtype, OutputSlot};

impl PixelPass {
    /// Fills `scratch.components` with row j; rows must be requested in ascending order.
    pub(super) fn resample_row(&self, source: FrameSource<'_>, j: usize, scratch: &mut Scratch) {
        let FrameSource {
            frame,
            checked,
            tables,
            ..
        } = source;
        if let Some(blocks) = self
            .backend
            .row_block()
            .filter(|_| tables.luma.columns.repeat.is_none())
        {
            let stride = tables.width.next_multiple_of(8);
            if j.is_multiple_of(BLOCK_ROWS) {
                self.resample_block(source, blocks, stride, j, scratch);
            }
            let rows = scratch.components.iter_mut().zip(&scratch.block_components);
            for (row, block) in rows.take(checked.model.components()) {
                row[..tables.width]
                    .copy_from_slice(&block[j % BLOCK_ROWS * stride..][..tables.width]);
            }
            return;
        }
        for plane in checked.planes.iter().flatten() {
            let plane_tables = if plane.is_chroma {
                &tables.chroma
            } else {
                &tables.luma
            };
            // Repeated chroma: the result of the previous row is what this row needs.
            if j > 0 && plane_tables.rows.taps_at(j) == plane_tables.rows.taps_at(j - 1) {
                continue;
            }
            let span = plane_tables.columns.sample_count();
            let padded = span + plane_tables.columns.taps;
            grow_to(&mut scratch.filtered, padded);
            if plane.step == 1 {
                self.filter_vertical(frame, plane, plane_tables, j, &mut scratch.filtered[..span]);
            } else {
                grow_to(&mut scratch.interleaved, span * plane.step);
                self.filter_vertical(
                    frame,
                    plane,
                    plane_tables,
                    j,
                    &mut scratch.interleaved[..span * plane.step],
                );
            }
            for (component, offset) in plane.offsets.iter().enumerate() {
                let Some(offset) = *offset else { continue };
                if plane.step > 1 {
                    let interleaved = &scratch.interleaved[..span * plane.step];
                    self.backend.extract_component(
                        &mut scratch.filtered[..span],
                        interleaved,
                        plane.step,
                        offset,
                    );
                }
                self.backend.filter_horizontal(
                    &mut scratch.components[component][..tables.width],
                    &scratch.filtered[..padded],
                    &plane_tables.columns,
                );
            }
        }
    }

    /// Fills `scratch.block_components` with the rows from j, as many as a block has, `stride`
    /// apart.
    fn resample_block(
        &self,
        FrameSource {
            frame,
            checked,
            tables,
            ..
        }: FrameSource<'_>,
        blocks: RowBlock16,
        stride: usize,
        j: usize,
        scratch: &mut Scratch,
    ) {
        let count = BLOCK_ROWS.min(tables.height - j);
        for plane in checked.planes.iter().flatten() {
            let plane_tables = if plane.is_chroma {
                &tables.chroma
            } else {
                &tables.luma
            };
            let span = plane_tables.columns.sample_count();
            let row_stride = span.next_multiple_of(16);
            let all = BLOCK_ROWS * row_stride;
            let Scratch {
                interleaved,
                block: [rows, interleaved_rows],
                block_components,
                ..
            } = &mut *scratch;
            let components = plane
                .offsets
                .iter()
                .enumerate()
                .filter_map(|(c, offset)| offset.map(|offset| (c, offset)));
            grow_to(rows, components.clone().count() * all);
            grow_to(interleaved_rows, all);
            for r in 0..count {
                if plane.step == 1 {
                    self.filter_vertical(
                        frame,
                        plane,
                        plane_tables,
                        j + r,
                        &mut rows[r * row_stride..][..span],
                    );
                    continue;
                }
                grow_to(interleaved, span * plane.step);
                self.filter_vertical(
                    frame,
                    plane,
                    plane_tables,
                    j + r,
                    &mut interleaved[..span * plane.step],
                );
                for (place, (_, offset)) in components.clone().enumerate() {
                    let row = &mut rows[place * all + r * row_stride..][..span];
                    self.backend.extract_component(
                        row,
                        &interleaved[..span * plane.step],
                        plane.step,
                        offset,
                    );
                }
            }
            for (place, (component, _)) in components.enumerate() {
                grow_to(&mut block_components[component], BLOCK_ROWS * stride);
                blocks.interleave(
                    &mut interleaved_rows[..all],
                    &rows[place * all..][..all],
                    row_stride,
                );
                blocks.filter_horizontal(
                    &mut block_components[component],
                    stride,
                    &interleaved_rows[..all],
                    &plane_tables.columns,
                );
            }
        }
    }

    /// The vertical pass of one row of a plane.
    fn filter_vertical(
        &self,
        frame: &FrameView<'_>,
        plane: &CheckedPlane<Plane<'_>>,
        plane_tables: &PlaneTables,
        j: usize,
        dst: &mut [i16],
    ) {
        let (first_row, weights) = plane_tables.rows.taps_at(j);
        let stride = plane.storage.stride_bytes;
        let first_column = plane_tables.columns.first as usize * plane.step * frame.sample_bytes();
        let src = &plane.storage.data[first_row * stride + first_column..];
        if frame.depth_bits == 8 {
            let ahead = if j + 1 < plane_tables.rows.starts.len() {
                let (next, weights_next) = plane_tables.rows.taps_at(j + 1);
                (next + weights_next.len()).saturating_sub(first_row + weights.len())
            } else {
                0
            };
            self.backend
                .filter_vertical_u8(dst, src, stride, weights, ahead);
        } else {
            let format = SampleFormat {
                depth_bits: frame.depth_bits,
                shift: frame.shift,
            };
            self.backend
                .filter_vertical_u16(dst, src, stride, weights, format);
        }
    }

    /// The bytes of row j in the slot, if its pixels are consecutive codes in forward order.
    pub(super) fn packed_row<'b>(
        &self,
        strides: OutputStrides,
        j: usize,
        width: usize,
        out: &'b mut OutputSlot<'_>,
    ) -> Option<&'b mut [u8]> {
        let OutputSpec {
            dtype, channels, ..
        } = *self.spec;
        let packed = strides.step_i == 3 && out.channel_stride == 1;
        let codes = dtype == Dtype::U8 && channels == Channels::Three;
        let begin = strides.forward(j, width).filter(|_| packed && codes)?;
        Some(&mut out.data[begin..][..3 * width])
    }

    /// The bytes of row j of each channel in the slot, if they are consecutive codes in forward
    /// order and go through the caches.
    pub(super) fn planar_rows<'b>(
        &self,
        strides: OutputStrides,
        j: usize,
        width: usize,
        out: &'b mut OutputSlot<'_>,
    ) -> Option<[&'b mut [u8]; 3]> {
        let OutputSpec {
            dtype, channels, ..
        } = *self.spec;
        let codes = dtype == Dtype::U8 && channels == Channels::Three;
        let begin = strides
            .forward(j, width)
            .filter(|_| strides.step_i == 1 && codes && !strides.streaming)?;
        let rows = [0, 1, 2].map(|channel| {
            let first = begin + channel * out.channel_stride;
            first..first + width
        });
        out.data.get_disjoint_mut(rows).ok()
    }
}
