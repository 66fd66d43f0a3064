//! In: a compiled geometry and dtype, then frame after frame.
//! Out: each frame's pixels in its slot, row by row: vertical pass, horizontal pass, colour, write.
//! Never: holds more than a row of anything, or starts writing before everything is proven to fit.

use std::sync::Arc;

use crate::colour::{Coefficients, Ink};
use crate::error::PassError;
use crate::geometry::{Geometry, Stored};
use crate::resample::SampleFormat;
use crate::simd::Backend;
use crate::view::{FrameView, Picture, Sheet};
use crate::weights::{Axis, AxisTable};
use crate::write::{Dtype, Normalize, OutSlot, Writer};

/// What a clip's frames go through, compiled. Cloning shares the weight tables.
#[derive(Clone, Debug)]
pub struct PixelPass {
    geometry: Geometry,
    dtype: Dtype,
    writer: Arc<Writer>,
    backend: Backend,
    tables: Option<Arc<Tables>>,
}

/// Rows in the making. One per worker, reused for every pass and frame.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// A blended row of a sheet that holds several components.
    mixed: Vec<i16>,
    /// A blended row of one component.
    blended: Vec<i16>,
    components: [Vec<i16>; 3],
    rgb: [Vec<u8>; 3],
}

/// Weight tables of one source format.
#[derive(Debug)]
struct Tables {
    format: TableKey,
    width: usize,
    height: usize,
    luma: Grid,
    chroma: Grid,
}

type TableKey = (u32, u32, (u8, u8));

#[derive(Debug)]
struct Grid {
    columns: AxisTable,
    rows: AxisTable,
}

impl Scratch {
    /// Empty; grows on first use.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PixelPass {
    /// Compiles a pass. What depends on the frames (size, subsampling) is computed at the first of its kind.
    pub fn new(geometry: Geometry, dtype: Dtype, normalize: Option<Normalize>) -> Result<Self, PassError> {
        geometry.check()?;
        let writer = Arc::new(Writer::new(dtype, normalize)?);
        Ok(Self { geometry, dtype, writer, backend: Backend::detect(), tables: None })
    }

    /// The same pass on another backend: same bytes, another speed.
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Width and height of what [`run`](Self::run) writes.
    pub fn output_size(&self) -> (u32, u32) {
        (self.geometry.window.width, self.geometry.window.height)
    }

    /// The geometry that was compiled.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Writes one frame into its slot. On an error nothing has been written.
    pub fn run(
        &mut self,
        frame: &FrameView<'_>,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), PassError> {
        let picture = frame.check()?;
        let (width, height) = self.output_size();
        out.check(width, height, self.dtype)?;
        let tables = self.tables_for((frame.width, frame.height, picture.log2_chroma))?;
        let coefficients = Coefficients::new(frame.colour, frame.depth_bits);
        let placement = self.geometry.place(out);
        scratch.fit(tables.width);
        for j in 0..tables.height {
            self.resample_row(frame, &picture, &tables, j, scratch);
            self.colour_row(picture.ink, coefficients, scratch);
            self.backend.write_row(
                &self.writer,
                scratch.rgb.each_mut().map(Vec::as_mut_slice),
                out,
                placement,
                j,
            );
        }
        Ok(())
    }

    /// Fills `scratch.components` with row j.
    fn resample_row(
        &self,
        frame: &FrameView<'_>,
        picture: &Picture<'_>,
        tables: &Tables,
        j: usize,
        scratch: &mut Scratch,
    ) {
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
                    &mut scratch.components[component],
                    &scratch.blended[..padded],
                    &grid.columns,
                );
            }
        }
    }

    /// The vertical pass of one row of a sheet.
    fn blend(&self, frame: &FrameView<'_>, sheet: &Sheet<'_>, grid: &Grid, j: usize, dst: &mut [i16]) {
        let (first_row, weights) = grid.rows.taps_at(j);
        let stride = sheet.plane.stride_bytes;
        let first_column = grid.columns.first as usize * sheet.step * frame.sample_bytes();
        let src = &sheet.plane.data[first_row * stride + first_column..];
        if frame.depth_bits == 8 {
            self.backend.blend_u8(dst, src, stride, weights);
        } else {
            let format = SampleFormat { depth_bits: frame.depth_bits, shift: frame.shift };
            self.backend.blend_u16(dst, src, stride, weights, format);
        }
    }

    /// Turns `scratch.components` into `scratch.rgb`.
    fn colour_row(&self, ink: Ink, coefficients: Coefficients, scratch: &mut Scratch) {
        let Scratch { components, rgb, .. } = scratch;
        match ink {
            Ink::Yuv => {
                let yuv = components.each_ref().map(Vec::as_slice);
                self.backend.yuv_row(rgb.each_mut().map(Vec::as_mut_slice), yuv, coefficients);
            }
            Ink::Rgb => {
                for (out, values) in rgb.iter_mut().zip(components) {
                    self.backend.single_row(out, values, coefficients);
                }
            }
            Ink::Gray => {
                let [r, g, b] = rgb;
                self.backend.single_row(r, &components[0], coefficients);
                g.copy_from_slice(r);
                b.copy_from_slice(r);
            }
        }
    }

    fn tables_for(&mut self, format: TableKey) -> Result<Arc<Tables>, PassError> {
        if let Some(tables) = self.tables.as_ref().filter(|tables| tables.format == format) {
            return Ok(Arc::clone(tables));
        }
        let (width, height, log2_chroma) = format;
        let stored = self.geometry.stored(width, height)?;
        let tables = Arc::new(Tables {
            format,
            width: stored.window.width as usize,
            height: stored.window.height as usize,
            luma: Grid::new(stored, (0, 0)),
            chroma: Grid::new(stored, log2_chroma),
        });
        self.tables = Some(Arc::clone(&tables));
        Ok(tables)
    }
}

impl Scratch {
    fn fit(&mut self, width: usize) {
        for row in &mut self.components {
            row.resize(width, 0);
        }
        for row in &mut self.rgb {
            row.resize(width, 0);
        }
    }
}

impl Grid {
    fn new(Stored { crop, resized, window }: Stored, (log2_w, log2_h): (u8, u8)) -> Self {
        let columns = Axis {
            crop_start: crop.x,
            crop_length: crop.width,
            resized: resized.0,
            window_start: window.x,
            window_length: window.width,
        };
        let rows = Axis {
            crop_start: crop.y,
            crop_length: crop.height,
            resized: resized.1,
            window_start: window.y,
            window_length: window.height,
        };
        Self { columns: AxisTable::new(columns, log2_w), rows: AxisTable::new(rows, log2_h) }
    }
}

fn grow(row: &mut Vec<i16>, length: usize) {
    if row.len() < length {
        row.resize(length, 0);
    }
}
