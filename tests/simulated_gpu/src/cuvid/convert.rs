//! Converts a decoded frame to an output surface with NVDEC's layout: pitch-linear, luma, then
//! chroma, high depths in the upper bits. A target of another size is sampled with nearest
//! neighbor, without a filter.
#![allow(unsafe_code)]

use super::abi::{NV12, P016, ShortRect, YUV444, YUV444_16};
use super::codec::Picture;
use super::sequence_format::chroma_and_depth;

/// Destination and format of a surface.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub address: usize,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
    pub output: i32,
    pub area: ShortRect,
}

pub fn sample_bytes(output: i32) -> usize {
    if matches!(output, P016 | YUV444_16) {
        2
    } else {
        1
    }
}

/// Rows of a surface, chroma included.
pub fn rows(output: i32, height: usize) -> usize {
    let height = height.next_multiple_of(2);
    if matches!(output, YUV444 | YUV444_16) {
        3 * height
    } else {
        height + height / 2
    }
}

/// Reads samples of a plane as 8-bit or 16-bit numbers, in the output's scale.
struct Plane<'a> {
    picture: &'a Picture,
    plane: usize,
    width: usize,
    height: usize,
    depth: u32,
    wide: bool,
}

impl Plane<'_> {
    fn row_into(
        &self,
        row: usize,
        columns: impl Iterator<Item = usize>,
        put: &mut impl FnMut(usize, u16),
    ) {
        let bytes = if self.depth > 8 { 2 } else { 1 };
        let row = self
            .picture
            .row(self.plane, row.min(self.height - 1), self.width * bytes);
        for (at, column) in columns.enumerate() {
            let column = column.min(self.width - 1);
            let value = if bytes == 2 {
                u16::from_le_bytes([row[2 * column], row[2 * column + 1]])
            } else {
                u16::from(row[column])
            };
            let value = match self.wide {
                true => value << (16 - self.depth.max(8)),
                false => value >> (self.depth.max(8) - 8),
            };
            put(at, value);
        }
    }
}

pub fn convert(picture: &Picture, target: &Target) -> Result<(), String> {
    let (chroma, depth) =
        chroma_and_depth(picture.format()).ok_or("the decoded picture's format is unknown")?;
    let full = matches!(target.output, YUV444 | YUV444_16);
    if full != (chroma == 3) || !matches!(target.output, NV12 | P016 | YUV444 | YUV444_16) {
        return Err(format!(
            "a picture of chroma {chroma} into surface format {}",
            target.output
        ));
    }
    let bytes = sample_bytes(target.output);
    let wide = bytes == 2;
    let (left, top) = (
        target.area.left.max(0) as usize,
        target.area.top.max(0) as usize,
    );
    let (from_width, from_height) = (
        (target.area.right.max(0) as usize)
            .saturating_sub(left)
            .max(1),
        (target.area.bottom.max(0) as usize)
            .saturating_sub(top)
            .max(1),
    );
    // SAFETY: the surface has `rows(output, height)` rows of `pitch` bytes; it is live while an
    // operation on it runs (checked there).
    let row_at = |row: usize| unsafe {
        std::slice::from_raw_parts_mut(
            (target.address + row * target.pitch) as *mut u8,
            target.pitch,
        )
    };
    let store = |row: &mut [u8], at: usize, value: u16| match wide {
        true => row[2 * at..2 * at + 2].copy_from_slice(&value.to_le_bytes()),
        false => row[at] = value as u8,
    };
    let (width, height) = (picture.width(), picture.height());
    for plane in 0..if full { 3 } else { 1 } {
        let source = Plane {
            picture,
            plane,
            width,
            height,
            depth,
            wide,
        };
        for row in 0..target.height {
            let out = row_at(plane * target.height.next_multiple_of(2) + row);
            let columns = (0..target.width).map(|x| left + x * from_width / target.width);
            source.row_into(
                top + row * from_height / target.height,
                columns,
                &mut |at, value| store(out, at, value),
            );
        }
    }
    if full {
        return Ok(());
    }
    let (half_width, half_height) = (target.width.div_ceil(2), target.height.div_ceil(2));
    for row in 0..half_height {
        let out = row_at(target.height.next_multiple_of(2) + row);
        if chroma == 0 {
            (0..2 * half_width).for_each(|at| store(out, at, if wide { 0x8000 } else { 128 }));
            continue;
        }
        for plane in 1..3 {
            let (width, height) = (width.div_ceil(2), height.div_ceil(2));
            let source = Plane {
                picture,
                plane,
                width,
                height,
                depth,
                wide,
            };
            let columns = (0..half_width).map(|x| left / 2 + x * from_width / target.width);
            let from = top / 2 + row * from_height / target.height;
            source.row_into(from, columns, &mut |at, value| {
                store(out, 2 * at + plane - 1, value)
            });
        }
    }
    Ok(())
}
