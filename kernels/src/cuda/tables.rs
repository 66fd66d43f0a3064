//! Combines weights, elements and masks of a pass in one block of bytes that is uploaded once.
//! Its sections are identified by their offset; it contains no addresses.

use super::kernel_args::{self, TapRange, ToBytes};
use crate::output_spec::{Mask, MaskFill, MaskRegion};
use crate::weights::AxisTable;
use crate::write::{Dtype, ElementWriter};

/// Alignment of every section.
pub(crate) const ALIGNMENT: usize = 16;

/// Consecutive sections.
#[derive(Default)]
pub(crate) struct TableBuffer(Vec<u8>);

impl TableBuffer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Offset of the next section.
    fn begin(&mut self) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        self.0.len() as u64
    }

    /// Appends weights position by position, padded to a multiple of four each: four rows are read
    /// at a time.
    pub(super) fn rows(&mut self, table: &AxisTable) -> kernel_args::AxisArgs {
        let taps = max_tap_count(table).next_multiple_of(4);
        self.axis(table, taps, |position, k| position * taps + k)
    }

    /// Appends weights tap by tap.
    pub(super) fn columns(&mut self, table: &AxisTable) -> kernel_args::AxisArgs {
        let positions = table.starts.len();
        self.axis(table, max_tap_count(table), |position, k| {
            k * positions + position
        })
    }

    fn axis(
        &mut self,
        table: &AxisTable,
        taps: usize,
        place: impl Fn(usize, usize) -> usize,
    ) -> kernel_args::AxisArgs {
        let positions = table.starts.len();
        let tap_ranges = self.begin();
        let mut weights = vec![0i16; taps * positions];
        for position in 0..positions {
            let (start, own) = table.taps_at(position);
            TapRange {
                start: start as u32,
                count: own.len() as u32,
            }
            .append_to(&mut self.0);
            for (k, &weight) in own.iter().enumerate() {
                weights[place(position, k)] = weight;
            }
        }
        let begin = self.begin();
        weights
            .iter()
            .for_each(|weight| weight.append_to(&mut self.0));
        kernel_args::AxisArgs {
            tap_ranges,
            weights: begin,
            taps: taps as u32,
            positions: positions as u32,
        }
    }

    /// Appends the elements of all codes of three channels.
    pub(super) fn elements(&mut self, writer: &ElementWriter) -> u64 {
        let begin = self.begin();
        for channel in 0..3 {
            for code in 0..=255 {
                let element = writer.element_of_u8(channel, code);
                self.0.extend_from_slice(&element[..writer.dtype().bytes()]);
            }
        }
        begin
    }

    /// Appends a table of tone mapping.
    pub(super) fn numbers(&mut self, numbers: &[u32]) -> u64 {
        let begin = self.begin();
        numbers
            .iter()
            .for_each(|number| number.append_to(&mut self.0));
        begin
    }

    pub(super) fn masks(&mut self, masks: &[Mask], writer: &ElementWriter) -> u64 {
        let begin = self.begin();
        masks
            .iter()
            .for_each(|mask| record(mask, writer).append_to(&mut self.0));
        begin
    }
}

/// The maximum number of samples per position.
pub(crate) fn max_tap_count(table: &AxisTable) -> usize {
    (0..table.starts.len())
        .map(|position| table.taps_at(position).1.len())
        .max()
        .unwrap_or(0)
}

/// An element as a number: a device stores as many of its bytes as the dtype has.
fn number(writer: &ElementWriter, element: [u8; 4]) -> u32 {
    match writer.dtype() {
        Dtype::U8 => u32::from(element[0]),
        Dtype::F16 | Dtype::BF16 | Dtype::U16 => {
            u32::from(u16::from_ne_bytes([element[0], element[1]]))
        }
        Dtype::F32 => u32::from_ne_bytes(element),
    }
}

fn record(mask: &Mask, writer: &ElementWriter) -> kernel_args::MaskArgs {
    let flat = |elements: [[u8; 4]; 3]| kernel_args::MaskArgs {
        elements: elements.map(|element| number(writer, element)),
        ..kernel_args::MaskArgs::default()
    };
    let filled = match mask.fill {
        MaskFill::CodeValue(codes) => {
            flat([0, 1, 2].map(|channel| writer.element_of_u8(channel, codes[channel])))
        }
        MaskFill::Element(values) => flat(values.map(|value| writer.element_of_f32(value))),
        MaskFill::Noise(key) => kernel_args::MaskArgs {
            key,
            fill: 1,
            ..kernel_args::MaskArgs::default()
        },
    };
    match mask.region {
        MaskRegion::Rect(rect) => kernel_args::MaskArgs {
            rect: [rect.x, rect.y, rect.x + rect.width, rect.y + rect.height],
            ..filled
        },
        MaskRegion::Grid(grid) => kernel_args::MaskArgs {
            region: 1,
            limit: grid.limit,
            step_x: grid.step_x,
            step_y: grid.step_y,
            start: grid.start,
            ..filled
        },
    }
}
