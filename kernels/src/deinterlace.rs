//! Deinterlaces a frame: replaces the lines of one field by lines computed from the other field
//! (`SPEC.md`, step 0). The result is in memory of its own, because a decoder may refer to the
//! frames that it has output.

use crate::error::PassError;
use crate::frame::{CheckedPlane, FrameView, GenericFrame, Plane, PlaneBounds};

/// Planes in the memory of a deinterlaced frame, and their rows, begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Every second line of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Lines 0, 2, 4, ...
    Top,
    /// Lines 1, 3, 5, ...
    Bottom,
}

/// How a line of the other field is computed from the kept one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeinterlaceMethod {
    /// It is the adjacent line of the kept field: the one above a bottom line, the one below a top
    /// line.
    Bob,
    /// It is the mean of the lines above and below it.
    Linear,
}

/// Which field of a frame is kept, and how the lines of the other one are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deinterlace {
    /// How the other field is computed.
    pub method: DeinterlaceMethod,
    /// The field that stays as it is.
    pub kept: Field,
}

/// The size of a plane, and its place in the memory of a deinterlaced frame.
pub(crate) struct PlaneExtent {
    pub rows: usize,
    pub row_bytes: usize,
    pub offset: usize,
    pub stride_bytes: usize,
}

impl PlaneExtent {
    fn end(&self) -> usize {
        self.offset + self.stride_bytes * self.rows
    }
}

impl Deinterlace {
    /// Bytes of the memory that [`run`](Self::run) or [`launches`](Self::launches) needs for such a
    /// frame.
    ///
    /// # Errors
    /// Those of the pass for the frame.
    #[allow(private_bounds)] // as for the checks of a frame
    pub fn memory_bytes<P: PlaneBounds>(frame: &GenericFrame<P>) -> Result<usize, PassError> {
        let planes = checked_planes(frame)?;
        Ok(planes.last().map_or(0, |(_, extent)| extent.end()))
    }

    /// Returns the deinterlaced frame, whose planes are in `memory`.
    ///
    /// # Errors
    /// Those of the pass for the frame; `PlaneTooShort` if `memory` is shorter than
    /// [`memory_bytes`](Self::memory_bytes).
    pub fn run<'a>(
        self,
        frame: &FrameView<'_>,
        memory: &'a mut [u8],
    ) -> Result<FrameView<'a>, PassError> {
        let planes = checked_planes(frame)?;
        for (number, (plane, extent)) in planes.iter().enumerate() {
            let (have_bytes, need_bytes) = (memory.len(), extent.end() as u64);
            let Some(out) = memory.get_mut(extent.offset..extent.end()) else {
                return Err(PassError::PlaneTooShort {
                    plane: number,
                    have_bytes,
                    need_bytes,
                });
            };
            let row = |row: usize| {
                let start = row * plane.storage.stride_bytes;
                &plane.storage.data[start..start + extent.row_bytes]
            };
            for (y, out) in out.chunks_exact_mut(extent.stride_bytes).enumerate() {
                let out = &mut out[..extent.row_bytes];
                match self.source_rows(y, extent.rows) {
                    (a, b) if a == b => out.copy_from_slice(row(a)),
                    (a, b) if frame.depth_bits == 8 => mean_of_bytes(row(a), row(b), out),
                    (a, b) => mean_of_words(row(a), row(b), out, frame.depth_bits, frame.shift),
                }
            }
        }
        let memory = &*memory;
        let place = |number: usize, _| {
            let (_, extent) = &planes[number];
            Plane {
                data: &memory[extent.offset..extent.end()],
                stride_bytes: extent.stride_bytes,
            }
        };
        let FrameView {
            width,
            height,
            depth_bits,
            shift,
            planes: arrangement,
            color,
        } = *frame;
        Ok(FrameView {
            width,
            height,
            depth_bits,
            shift,
            planes: arrangement.map(place),
            color,
        })
    }

    /// The two lines whose mean is line `y` of a plane of `rows` lines; the same line twice where
    /// it is a copy.
    fn source_rows(self, y: usize, rows: usize) -> (usize, usize) {
        let is_kept = y.is_multiple_of(2) == (self.kept == Field::Top);
        if is_kept || rows < 2 {
            return (y, y);
        }
        let above = if y > 0 { y - 1 } else { y + 1 };
        let below = if y + 1 < rows { y + 1 } else { y - 1 };
        match (self.method, self.kept) {
            (DeinterlaceMethod::Linear, _) => (above, below),
            (DeinterlaceMethod::Bob, Field::Top) => (above, above),
            (DeinterlaceMethod::Bob, Field::Bottom) => (below, below),
        }
    }
}

/// The planes of a checked frame, each with its place in the memory of the result.
pub(crate) fn checked_planes<P: PlaneBounds>(
    frame: &GenericFrame<P>,
) -> Result<Vec<(CheckedPlane<P>, PlaneExtent)>, PassError> {
    let checked = frame.check()?;
    let mut offset = 0;
    let with_extent = |plane: CheckedPlane<P>| {
        let log2_h = if plane.is_chroma {
            checked.log2_chroma.1
        } else {
            0
        };
        let rows = frame.height.div_ceil(1 << log2_h) as usize;
        let row_bytes = plane.columns * plane.step * frame.sample_bytes();
        let extent = PlaneExtent {
            rows,
            row_bytes,
            offset,
            stride_bytes: row_bytes.next_multiple_of(ALIGNMENT),
        };
        offset = extent.end();
        (plane, extent)
    };
    Ok(checked
        .planes
        .into_iter()
        .flatten()
        .map(with_extent)
        .collect())
}

fn mean_of_bytes(a: &[u8], b: &[u8], out: &mut [u8]) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = (u16::from(a) + u16::from(b)).div_ceil(2) as u8;
    }
}

fn mean_of_words(a: &[u8], b: &[u8], out: &mut [u8], depth_bits: u8, shift: u8) {
    let max = u32::MAX >> (32 - u32::from(depth_bits));
    let code = |bytes: &[u8; 2]| (u32::from(u16::from_le_bytes(*bytes)) >> shift).min(max);
    let words = |bytes| <[u8]>::as_chunks::<2>(bytes).0;
    for ((out, a), b) in out
        .as_chunks_mut::<2>()
        .0
        .iter_mut()
        .zip(words(a))
        .zip(words(b))
    {
        let mean = (code(a) + code(b)).div_ceil(2);
        *out = ((mean << shift) as u16).to_le_bytes();
    }
}
