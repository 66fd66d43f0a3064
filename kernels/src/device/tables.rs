//! In: weights, elements and masks of a pass.
//! Out: one block of bytes that is uploaded once, and the places of its parts.
//! Never: holds an address: parts are named by their distance from the beginning.

use super::args::{self, Put, Span};
use crate::finish::{Area, Mask, Paint};
use crate::weights::AxisTable;
use crate::write::{Dtype, Writer};

/// Every part begins at a multiple of this.
pub(crate) const ALIGNMENT: usize = 16;

/// Parts one after the other.
#[derive(Default)]
pub(crate) struct Blob(Vec<u8>);

impl Blob {
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Where the next part begins.
    fn begin(&mut self) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        self.0.len() as u64
    }

    /// Weights position by position, a multiple of four each: four rows are read at a time.
    pub fn rows(&mut self, table: &AxisTable) -> args::Axis {
        let taps = longest(table).next_multiple_of(4);
        self.axis(table, taps, |position, k| position * taps + k)
    }

    /// Weights tap by tap.
    pub fn columns(&mut self, table: &AxisTable) -> args::Axis {
        let positions = table.starts.len();
        self.axis(table, longest(table), |position, k| k * positions + position)
    }

    fn axis(&mut self, table: &AxisTable, taps: usize, place: impl Fn(usize, usize) -> usize) -> args::Axis {
        let positions = table.starts.len();
        let spans = self.begin();
        let mut weights = vec![0u16; taps * positions];
        for position in 0..positions {
            let (start, own) = table.taps_at(position);
            Span { start: start as u32, count: own.len() as u32 }.put(&mut self.0);
            for (k, &weight) in own.iter().enumerate() {
                weights[place(position, k)] = weight as u16;
            }
        }
        let begin = self.begin();
        weights.iter().for_each(|weight| weight.put(&mut self.0));
        args::Axis { spans, weights: begin, taps: taps as u32, positions: positions as u32 }
    }

    /// The elements of all codes of three channels.
    pub fn elements(&mut self, writer: &Writer) -> u64 {
        let begin = self.begin();
        for channel in 0..3 {
            for code in 0..=255 {
                let element = writer.of_code(channel, code);
                self.0.extend_from_slice(&element[..writer.dtype().bytes()]);
            }
        }
        begin
    }

    /// A table of tone mapping.
    pub fn numbers(&mut self, numbers: &[u32]) -> u64 {
        let begin = self.begin();
        numbers.iter().for_each(|number| number.put(&mut self.0));
        begin
    }

    pub fn masks(&mut self, masks: &[Mask], writer: &Writer) -> u64 {
        let begin = self.begin();
        masks.iter().for_each(|mask| record(mask, writer).put(&mut self.0));
        begin
    }
}

/// Samples of the position that has most.
pub(crate) fn longest(table: &AxisTable) -> usize {
    (0..table.starts.len()).map(|position| table.taps_at(position).1.len()).max().unwrap_or(0)
}

/// An element as a number: what a device stores has as many of its bytes as the dtype.
fn number(writer: &Writer, element: [u8; 4]) -> u32 {
    match writer.dtype() {
        Dtype::U8 => u32::from(element[0]),
        Dtype::F16 | Dtype::BF16 | Dtype::U16 => u32::from(u16::from_ne_bytes([element[0], element[1]])),
        Dtype::F32 => u32::from_ne_bytes(element),
    }
}

fn record(mask: &Mask, writer: &Writer) -> args::Mask {
    let flat = |elements: [[u8; 4]; 3]| args::Mask {
        elements: elements.map(|element| number(writer, element)),
        ..args::Mask::default()
    };
    let painted = match mask.paint {
        Paint::Code(codes) => flat([0, 1, 2].map(|channel| writer.of_code(channel, codes[channel]))),
        Paint::Element(values) => flat(values.map(|value| writer.of_element(value))),
        Paint::Noise(key) => args::Mask { key, paint: 1, ..args::Mask::default() },
    };
    match mask.area {
        Area::Hole(rect) => {
            args::Mask { rect: [rect.x, rect.y, rect.x + rect.width, rect.y + rect.height], ..painted }
        }
        Area::Grid(grid) => args::Mask {
            area: 1,
            limit: grid.limit,
            step_x: grid.step_x,
            step_y: grid.step_y,
            start: grid.start,
            ..painted
        },
    }
}
