//! Runs a compiled geometry and output spec on frames: row by row, vertical pass, horizontal pass,
//! placement, color, write; then masks. Only a few rows are kept, unless a warp or a mean needs the
//! complete window (then its components, 15 bits each). All sizes are checked before the first
//! write.

mod rows;
mod scratch;
mod source;

pub use scratch::Scratch;
use source::FrameSource;
pub(crate) use source::{ColorKey, PlaneTables, ResampleTables, TableKey};

use std::ops::Range;
use std::sync::Arc;

use crate::color::{ColorCoefficients, FrameCoefficients};
use crate::colorimetry::ComponentModel;
use crate::error::PassError;
use crate::frame::FrameView;
use crate::geometry::{Geometry, Interpolation, Placement, Warp};
use crate::mask;
use crate::output_spec::{ColorMap, Fill, OutputSpec};
use crate::simd::Backend;
use crate::tone_map::{TONE_MAPPED, ToneTables};
use crate::types::{MAX_WINDOW_PIXELS, OutputStrides, Rect};
use crate::warp::{self, WarpRow, WindowPlanes};
use crate::weights::ResampleAxis;
use crate::write::{ElementWriter, OutputSlot, STREAMING_BYTES, TRANSPOSE_ROWS, TransposeTile};

/// The compiled transforms of a clip's frames. Clones share the tables.
#[derive(Clone, Debug)]
pub struct PixelPass {
    geometry: Geometry,
    spec: Arc<OutputSpec>,
    writer: Arc<ElementWriter>,
    tone: Option<Arc<ToneTables>>,
    backend: Backend,
    tables: Option<Arc<ResampleTables>>,
    coefficients: Option<(ColorKey, ColorCoefficients)>,
    /// The coefficients for the codes that tone mapping reads.
    source_coefficients: Option<(ColorKey, ColorCoefficients)>,
}

impl PixelPass {
    /// Whether another pass computes the same pixels from the same frame.
    pub fn has_same_output(&self, other: &PixelPass) -> bool {
        self.geometry == other.geometry && self.spec == other.spec
    }

    /// Compiles a pass. Values that depend on the frame format (size, subsampling, color) are
    /// computed at the first frame of a format.
    pub fn new(geometry: Geometry, spec: OutputSpec) -> Result<Self, PassError> {
        geometry.check()?;
        spec.check(geometry.output_size())?;
        let writer = Arc::new(ElementWriter::new(spec.dtype, spec.normalize)?);
        let backend = Backend::detect();
        let tone = spec.tone.map(|tone| tone.tables()).transpose()?;
        let spec = Arc::new(spec);
        let (tables, coefficients, source_coefficients) = (None, None, None);
        Ok(Self {
            geometry,
            spec,
            writer,
            tone,
            backend,
            tables,
            coefficients,
            source_coefficients,
        })
    }

    /// The same pass on another backend: same bytes, different speed.
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Width and height of the output of [`run`](Self::run).
    pub fn output_size(&self) -> (u32, u32) {
        self.geometry.output_size()
    }

    /// Rows of a stored frame of this size that the result depends on; for planes with fewer rows,
    /// those that contain any of them.
    pub fn source_rows(&self, width: u32, height: u32) -> Result<Range<u32>, PassError> {
        Ok(ResampleAxis::rows(self.geometry.stored(width, height)?).luma_range())
    }

    /// The geometry that was compiled.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The output spec that was compiled.
    pub fn output_spec(&self) -> &OutputSpec {
        &self.spec
    }

    /// Writes one frame into its slot. On an error the slot is unchanged.
    pub fn run(
        &mut self,
        frame: &FrameView<'_>,
        out: &mut OutputSlot<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), PassError> {
        let checked = frame.check()?;
        out.check(self.output_size(), self.spec.channels, self.spec.dtype)?;
        let out = &mut out.with_unit_strides(self.output_size(), self.spec.channels);
        let tables = self.update_tables((frame.width, frame.height, checked.log2_chroma))?;
        let key = (frame.color, frame.depth_bits, checked.model);
        let tone = self
            .tone
            .clone()
            .map(|tone| Ok((tone, self.update_source_coefficients(key)?)))
            .transpose()?;
        let coefficients =
            self.update_coefficients(if tone.is_some() { TONE_MAPPED } else { key })?;
        let buffered =
            matches!(self.geometry.placement, Placement::Warp(_)) || self.spec.needs_mean();
        if buffered && tables.width * tables.height > MAX_WINDOW_PIXELS {
            return Err(PassError::WindowTooLarge {
                width: tables.width,
                height: tables.height,
            });
        }
        scratch.resize(
            tables.width.max(self.output_size().0 as usize),
            coefficients.use_u16,
            tone.is_some(),
        );
        let tone = tone.as_ref().map(|(tone, colors)| (&**tone, colors));
        let source = FrameSource {
            frame,
            checked: &checked,
            tables: &tables,
            tone,
        };
        match self.geometry.placement {
            Placement::Warp(warp) => self.run_warp(source, &warp, &coefficients, out, scratch),
            _ if self.spec.needs_mean() => self.run_buffered(source, &coefficients, out, scratch),
            _ => self.run_by_rows(source, &coefficients.without_mean(), out, scratch),
        }
        if self.streams() {
            self.backend.fence();
        }
        mask::apply_masks(
            &self.spec.masks,
            &self.writer,
            self.spec.channels,
            self.output_size(),
            out,
        );
        Ok(())
    }

    /// Whether elements are stored past the caches.
    fn streams(&self) -> bool {
        let (width, height) = self.output_size();
        let element = self.spec.channels.count() * self.spec.dtype.bytes();
        width as usize * height as usize * element >= STREAMING_BYTES
    }

    /// Processes the frame row by row.
    fn run_by_rows(
        &self,
        source: FrameSource<'_>,
        colors: &FrameCoefficients,
        out: &mut OutputSlot<'_>,
        scratch: &mut Scratch,
    ) {
        let strides = OutputStrides {
            streaming: self.streams(),
            ..self.geometry.output_strides(out)
        };
        let unscaled = source.unscaled_planes(colors);
        for j in 0..source.tables.height {
            if let Some((planes, out)) =
                unscaled.zip(self.packed_row(strides, j, source.tables.width, out))
            {
                let samples = source.unscaled_row_samples(planes, j);
                self.backend
                    .unscaled_packed(out, samples, colors, strides.streaming);
                continue;
            }
            if let Some((planes, rgb)) =
                unscaled.zip(self.planar_rows(strides, j, source.tables.width, out))
            {
                self.backend
                    .unscaled_row(rgb, source.unscaled_row_samples(planes, j), colors);
                continue;
            }
            if let Some(planes) = unscaled {
                let rgb = scratch
                    .rgb
                    .each_mut()
                    .map(|row| &mut row[..source.tables.width]);
                self.backend
                    .unscaled_row(rgb, source.unscaled_row_samples(planes, j), colors);
            } else {
                self.compute_row(source, j, scratch);
                self.convert_computed_row(source, colors, scratch);
            }
            self.write_row(colors.use_u16, source.size(), strides, j, out, scratch);
        }
        self.fill_border(colors, out);
    }

    /// Fills `scratch.components` with row j and, with tone mapping, `scratch.mapped`.
    fn compute_row(&self, source: FrameSource<'_>, j: usize, scratch: &mut Scratch) {
        self.resample_row(source, j, scratch);
        let Some((tone, colors)) = source.tone else {
            return;
        };
        let width = source.tables.width;
        let Scratch {
            components,
            rgb_u16,
            tone_mapped,
            ..
        } = scratch;
        let mut components = components.each_ref().map(|row| &row[..width]);
        if colors.model == ComponentModel::Gray {
            components = [components[0]; 3];
        }
        self.backend.matrix_row_u16(
            rgb_u16.each_mut().map(|row| &mut row[..width]),
            components,
            colors,
        );
        let codes = rgb_u16.each_ref().map(|row| &row[..width]);
        self.backend.map_row(
            tone_mapped.each_mut().map(|row| &mut row[..width]),
            codes,
            tone,
        );
    }

    /// Converts the row that `compute_row` computed to colors. Its components are kept, because the
    /// next row may reuse them.
    fn convert_computed_row(
        &self,
        source: FrameSource<'_>,
        colors: &FrameCoefficients,
        scratch: &mut Scratch,
    ) {
        if source.tone.is_some() {
            std::mem::swap(&mut scratch.components, &mut scratch.tone_mapped);
        }
        self.convert_components(colors, 0..source.tables.width, scratch);
        if source.tone.is_some() {
            std::mem::swap(&mut scratch.components, &mut scratch.tone_mapped);
        }
    }

    /// Computes all rows of the window first, because its mean determines their colors.
    fn run_buffered(
        &self,
        source: FrameSource<'_>,
        coefficients: &ColorCoefficients,
        out: &mut OutputSlot<'_>,
        scratch: &mut Scratch,
    ) {
        self.buffer_window(source, scratch);
        let colors = self.frame_coefficients(source, coefficients, scratch);
        let strides = OutputStrides {
            streaming: self.streams(),
            ..self.geometry.output_strides(out)
        };
        let (width, height) = source.size();
        for j in 0..height {
            for (row, window) in scratch
                .components
                .iter_mut()
                .zip(&scratch.window)
                .take(colors.model.components())
            {
                row[..width].copy_from_slice(&window[j * width..][..width]);
            }
            self.convert_components(&colors, 0..width, scratch);
            self.write_row(colors.use_u16, (width, height), strides, j, out, scratch);
        }
        self.fill_border(&colors, out);
    }

    /// Computes all rows of the window first, because the map reads them in any order.
    fn run_warp(
        &self,
        source: FrameSource<'_>,
        warp: &Warp,
        coefficients: &ColorCoefficients,
        out: &mut OutputSlot<'_>,
        scratch: &mut Scratch,
    ) {
        self.buffer_window(source, scratch);
        let colors = self.frame_coefficients(source, coefficients, scratch);
        let (to_x, to_y) = self.geometry.stored_warp(warp);
        let (width, height) = (warp.size.0 as usize, warp.size.1 as usize);
        let strides = OutputStrides {
            origin: 0,
            step_i: out.column_stride as isize,
            step_j: out.row_stride as isize,
            streaming: self.streams(),
        };
        let (fill, fill_u16) = (colors.fill(), colors.fill_u16());
        for j in 0..height {
            let Scratch {
                components,
                window,
                rgb,
                rgb_u16,
                ..
            } = &mut *scratch;
            let window = WindowPlanes {
                planes: match colors.model {
                    ComponentModel::Gray => [&window[0][..]; 3],
                    ComponentModel::Yuv | ComponentModel::Rgb => {
                        window.each_ref().map(Vec::as_slice)
                    }
                },
                width: source.tables.width,
                height: source.tables.height,
            };
            let line = WarpRow::new(to_x, to_y, j);
            let spans = line.spans(warp.interpolation, width, &window);
            for (rgb, &fill) in rgb.iter_mut().zip(&fill) {
                rgb[..spans.touched.start].fill(fill);
                rgb[spans.touched.end..width].fill(fill);
            }
            for (rgb_u16, &fill) in rgb_u16.iter_mut().zip(&fill_u16).filter(|_| colors.use_u16) {
                rgb_u16[..spans.touched.start].fill(fill);
                rgb_u16[spans.touched.end..width].fill(fill);
            }
            for i in spans.touched.clone().filter(|i| !spans.inner.contains(i)) {
                let (values, coverage) = warp::edge_pixel(&window, &line, i, colors.zero());
                if colors.use_u16 {
                    let color =
                        colors.blend_pixel_u16(colors.model.broadcast_gray(values), coverage);
                    for (rgb_u16, value) in rgb_u16.iter_mut().zip(color) {
                        rgb_u16[i] = value;
                    }
                    continue;
                }
                let color = colors.blend_pixel(colors.model.broadcast_gray(values), coverage);
                for (rgb, value) in rgb.iter_mut().zip(color) {
                    rgb[i] = value;
                }
            }
            let inner = components
                .each_mut()
                .map(|row| &mut row[spans.inner.clone()]);
            let count = colors.model.components();
            match warp.interpolation {
                Interpolation::Nearest => {
                    self.backend
                        .nearest_row(inner, &window, &line, spans.inner.start, count)
                }
                Interpolation::Bilinear => {
                    self.backend
                        .bilinear_row(inner, &window, &line, spans.inner.start, count)
                }
            }
            self.convert_components(&colors, spans.inner, scratch);
            self.write_row(colors.use_u16, (width, height), strides, j, out, scratch);
        }
    }

    fn buffer_window(&self, source: FrameSource<'_>, scratch: &mut Scratch) {
        let (width, height) = (source.tables.width, source.tables.height);
        let model = source.model();
        for window in scratch.window.iter_mut().take(model.components()) {
            if window.len() < width * height {
                window.resize(width * height, 0);
            }
        }
        for j in 0..height {
            self.compute_row(source, j, scratch);
            let made = if source.tone.is_some() {
                &scratch.tone_mapped
            } else {
                &scratch.components
            };
            let rows = made.iter().zip(&mut scratch.window);
            for (row, window) in rows.take(model.components()) {
                window[j * width..][..width].copy_from_slice(&row[..width]);
            }
        }
    }

    /// The colors of a frame whose window is complete.
    fn frame_coefficients(
        &self,
        source: FrameSource<'_>,
        coefficients: &ColorCoefficients,
        scratch: &Scratch,
    ) -> FrameCoefficients {
        if !self.spec.needs_mean() {
            return coefficients.without_mean();
        }
        let count = source.tables.width * source.tables.height;
        let mean = |c: usize| {
            let sum: i64 = scratch.window[c][..count]
                .chunks(1 << 15)
                .map(|part| i64::from(self.backend.sum(part)))
                .sum();
            ((2 * sum + count as i64) / (2 * count as i64)) as i16
        };
        let mut means = [0; 3];
        for (c, value) in means
            .iter_mut()
            .enumerate()
            .take(source.model().components())
        {
            *value = mean(c);
        }
        coefficients.with_mean(source.model().broadcast_gray(means))
    }

    /// Fills the canvas outside the window.
    fn fill_border(&self, colors: &FrameCoefficients, out: &mut OutputSlot<'_>) {
        let Placement::Canvas {
            size: (width, height),
            x,
            y,
        } = self.geometry.placement
        else {
            return;
        };
        let elements = if colors.use_u16 {
            let fill = colors.fill_u16();
            [0, 1, 2].map(|channel| self.writer.element_of_u16(channel, fill[channel]))
        } else {
            let fill = colors.fill();
            [0, 1, 2].map(|channel| self.writer.element_of_u8(channel, fill[channel]))
        };
        let window = self.geometry.window;
        let (right, bottom) = (x + window.width, y + window.height);
        let borders = [
            Rect {
                x: 0,
                y: 0,
                width,
                height: y,
            },
            Rect {
                x: 0,
                y: bottom,
                width,
                height: height - bottom,
            },
            Rect {
                x: 0,
                y,
                width: x,
                height: window.height,
            },
            Rect {
                x: right,
                y,
                width: width - right,
                height: window.height,
            },
        ];
        for border in borders
            .into_iter()
            .filter(|border| border.width > 0 && border.height > 0)
        {
            mask::fill_rect(border, elements, &self.writer, self.spec.channels, out);
        }
    }

    /// Writes row j of a window of `height` rows. Rows of a rotated frame are collected until there
    /// are enough to write by columns.
    fn write_row(
        &self,
        use_u16: bool,
        (width, height): (usize, usize),
        strides: OutputStrides,
        j: usize,
        out: &mut OutputSlot<'_>,
        scratch: &mut Scratch,
    ) {
        let channels = self.spec.channels;
        if use_u16 {
            let rgb = scratch.rgb_u16.each_ref().map(|row| &row[..width]);
            return self
                .backend
                .write_row_u16(&self.writer, rgb, channels, out, strides, j);
        }
        if strides.step_i.unsigned_abs() <= strides.step_j.unsigned_abs() {
            let rgb = scratch.rgb.each_mut().map(|row| &mut row[..width]);
            return self
                .backend
                .write_row(&self.writer, rgb, channels, out, strides, j);
        }
        let Scratch {
            rgb,
            tile,
            tile_rows,
            ..
        } = scratch;
        for (tile, rgb) in tile.iter_mut().zip(rgb) {
            if tile.len() < TRANSPOSE_ROWS * width {
                tile.resize(TRANSPOSE_ROWS * width, 0);
            }
            tile[*tile_rows * width..][..width].copy_from_slice(&rgb[..width]);
        }
        *tile_rows += 1;
        if *tile_rows == TRANSPOSE_ROWS || j + 1 == height {
            let rgb = tile.each_mut().map(Vec::as_mut_slice);
            let tile = TransposeTile {
                rgb,
                width,
                rows: *tile_rows,
            };
            self.backend.write_transposed(
                &self.writer,
                tile,
                channels,
                out,
                strides,
                j + 1 - *tile_rows,
            );
            *tile_rows = 0;
        }
    }

    /// Converts a range of `scratch.components` to `scratch.rgb`, or `scratch.rgb_u16`.
    fn convert_components(
        &self,
        colors: &FrameCoefficients,
        part: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let Scratch {
            components,
            rgb,
            rgb_u16,
            ..
        } = scratch;
        let components = components.each_ref().map(|row| &row[part.clone()]);
        if colors.use_u16 {
            let rgb_u16 = rgb_u16.each_mut().map(|row| &mut row[part.clone()]);
            let components = if colors.model == ComponentModel::Gray {
                [components[0]; 3]
            } else {
                components
            };
            return self.backend.matrix_row_u16(rgb_u16, components, colors);
        }
        let mut rgb = rgb.each_mut().map(|row| &mut row[part.clone()]);
        match (colors.model, colors.sparse) {
            (ComponentModel::Yuv, true) => self.backend.yuv_row(rgb, components, colors),
            (ComponentModel::Rgb, true) => {
                for (out, values) in rgb.iter_mut().zip(components) {
                    self.backend.expand_range_row(out, values, colors);
                }
            }
            (ComponentModel::Gray, true) => {
                let [r, g, b] = rgb;
                self.backend.expand_range_row(r, components[0], colors);
                g.copy_from_slice(r);
                b.copy_from_slice(r);
            }
            (ComponentModel::Gray, false) => {
                self.backend.matrix_row(rgb, [components[0]; 3], colors)
            }
            (_, false) => self.backend.matrix_row(rgb, components, colors),
        }
    }

    pub(crate) fn writer(&self) -> &ElementWriter {
        &self.writer
    }

    fn update_tables(&mut self, format: TableKey) -> Result<Arc<ResampleTables>, PassError> {
        let tables = self.resample_tables(format)?;
        self.tables = Some(Arc::clone(&tables));
        Ok(tables)
    }

    /// Returns the tables for a format: the cached ones if they match.
    pub(crate) fn resample_tables(
        &self,
        format: TableKey,
    ) -> Result<Arc<ResampleTables>, PassError> {
        if let Some(tables) = self
            .tables
            .as_ref()
            .filter(|tables| tables.format == format)
        {
            return Ok(Arc::clone(tables));
        }
        let (width, height, log2_chroma) = format;
        let stored = self.geometry.stored(width, height)?;
        Ok(Arc::new(ResampleTables {
            format,
            width: stored.window.width as usize,
            height: stored.window.height as usize,
            luma: PlaneTables::new(stored, (0, 0)),
            chroma: PlaneTables::new(stored, log2_chroma),
        }))
    }

    fn update_coefficients(&mut self, key: ColorKey) -> Result<ColorCoefficients, PassError> {
        let made = self.color_coefficients(key)?;
        self.coefficients = Some((key, made));
        Ok(made)
    }

    fn update_source_coefficients(
        &mut self,
        key: ColorKey,
    ) -> Result<FrameCoefficients, PassError> {
        let made = self.source_color_coefficients(key)?;
        self.source_coefficients = Some((key, made));
        Ok(made.without_mean())
    }

    /// The coefficients for the codes of tone mapping: no color map, 16 bits.
    pub(crate) fn source_color_coefficients(
        &self,
        key: ColorKey,
    ) -> Result<ColorCoefficients, PassError> {
        if let Some((_, made)) = self
            .source_coefficients
            .as_ref()
            .filter(|(known, _)| *known == key)
        {
            return Ok(*made);
        }
        let (color, depth_bits, model) = key;
        ColorCoefficients::new(
            color,
            depth_bits,
            model,
            true,
            &ColorMap::IDENTITY,
            &Fill::default(),
        )
    }

    pub(crate) fn tone(&self) -> Option<&ToneTables> {
        self.tone.as_deref()
    }

    /// Returns the coefficients for a format: the cached ones if they match.
    pub(crate) fn color_coefficients(&self, key: ColorKey) -> Result<ColorCoefficients, PassError> {
        if let Some((_, coefficients)) = self
            .coefficients
            .as_ref()
            .filter(|(known, _)| *known == key)
        {
            return Ok(*coefficients);
        }
        let (color, depth_bits, model) = key;
        let use_u16 = self.spec.dtype.uses_16_bit(depth_bits);
        ColorCoefficients::new(
            color,
            depth_bits,
            model,
            use_u16,
            &self.spec.color,
            &self.spec.fill,
        )
    }
}

fn grow_to(row: &mut Vec<i16>, length: usize) {
    if row.len() < length {
        row.resize(length, 0);
    }
}

#[cfg(test)]
mod tests;
