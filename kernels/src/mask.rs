//! Applies masks to a slot whose frame has been written. Masked pixels are not read.

use crate::output_spec::{Mask, MaskFill, MaskGrid, MaskRegion};
use crate::types::{Channels, Rect};
use crate::write::{Element, ElementWriter, OutputSlot};

/// Applies the masks in order, so later ones overwrite earlier ones. `size` is the output's.
pub(crate) fn apply_masks(
    masks: &[Mask],
    writer: &ElementWriter,
    channels: Channels,
    size: (u32, u32),
    slot: &mut OutputSlot<'_>,
) {
    for mask in masks {
        let mut mask_writer = MaskWriter::new(writer, mask.fill, channels, size.0, slot);
        match mask.region {
            MaskRegion::Rect(rect) => mask_writer.rect(rect),
            MaskRegion::Grid(grid) => mask_writer.grid(grid, size),
        }
    }
}

/// Fills a rectangle with an element per channel.
pub(crate) fn fill_rect(
    rect: Rect,
    elements: [Element; 3],
    writer: &ElementWriter,
    channels: Channels,
    slot: &mut OutputSlot<'_>,
) {
    MaskWriter {
        writer,
        source: ElementSource::Flat(elements),
        channels: channels.count(),
        width: 0,
        slot,
    }
    .rect(rect);
}

struct MaskWriter<'a, 'b> {
    writer: &'a ElementWriter,
    source: ElementSource,
    channels: usize,
    width: u64,
    slot: &'a mut OutputSlot<'b>,
}

/// The value that a mask writes.
#[derive(Clone, Copy)]
enum ElementSource {
    /// An element per channel.
    Flat([Element; 3]),
    /// See [`MaskFill::Noise`].
    Noise(u64),
}

impl<'a, 'b> MaskWriter<'a, 'b> {
    fn new(
        writer: &'a ElementWriter,
        fill: MaskFill,
        channels: Channels,
        width: u32,
        slot: &'a mut OutputSlot<'b>,
    ) -> Self {
        let source = match fill {
            MaskFill::CodeValue(code) => {
                ElementSource::Flat([0, 1, 2].map(|c| writer.element_of_u8(c, code[c])))
            }
            MaskFill::Element(values) => {
                ElementSource::Flat(values.map(|value| writer.element_of_f32(value)))
            }
            MaskFill::Noise(key) => ElementSource::Noise(key),
        };
        Self {
            writer,
            source,
            channels: channels.count(),
            width: u64::from(width),
            slot,
        }
    }

    fn rect(&mut self, rect: Rect) {
        for y in rect.y..rect.y + rect.height {
            self.run(y, rect.x, rect.x + rect.width);
        }
    }

    fn grid(&mut self, grid: MaskGrid, (width, height): (u32, u32)) {
        for y in 0..height {
            let phase = |step: [u32; 2], start: u32| start.wrapping_add(step[1].wrapping_mul(y));
            let (mut px, mut py) = (
                phase(grid.step_x, grid.start[0]),
                phase(grid.step_y, grid.start[1]),
            );
            let mut first = 0;
            let mut covering = false;
            for x in 0..width {
                let covered = (u64::from(px) < grid.limit) & (u64::from(py) < grid.limit);
                if covered != covering {
                    if covering {
                        self.run(y, first, x);
                    }
                    (first, covering) = (x, covered);
                }
                px = px.wrapping_add(grid.step_x[0]);
                py = py.wrapping_add(grid.step_y[0]);
            }
            if covering {
                self.run(y, first, width);
            }
        }
    }

    /// Fills pixels `first..end` of a row.
    fn run(&mut self, y: u32, first: u32, end: u32) {
        let OutputSlot {
            channel_stride,
            row_stride,
            column_stride,
            ..
        } = *self.slot;
        let begin = y as usize * row_stride + first as usize * column_stride;
        let count = (end - first) as usize;
        for channel in 0..self.channels {
            let at = channel * channel_stride + begin;
            match self.source {
                ElementSource::Flat(elements) => {
                    self.writer
                        .repeat(elements[channel], self.slot, at, column_stride, count);
                }
                ElementSource::Noise(key) => {
                    for i in 0..count {
                        let pixel = u64::from(y) * self.width + u64::from(first) + i as u64;
                        let element = self
                            .writer
                            .noise_element(noise(key, 3 * pixel + channel as u64));
                        self.writer.repeat(
                            element,
                            self.slot,
                            at + i * column_stride,
                            column_stride,
                            1,
                        );
                    }
                }
            }
        }
    }
}

/// The n-th output of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn noise(key: u64, n: u64) -> u64 {
    let mut h = key.wrapping_add((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    h ^ (h >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_splitmix64() {
        // First outputs of the reference generator seeded with 1234567.
        let expected = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
        ];
        assert_eq!([0, 1, 2].map(|n| noise(1_234_567, n)), expected);
    }
}
