//! In: a compiled geometry and finish, then frame after frame.
//! Out: each frame's pixels in its slot, row by row: vertical pass, horizontal pass, place, color, write; then masks.
//! Never: holds more than rows, unless a warp or a mean needs the whole window (then its components, 15 bits each),
//! or starts writing before everything is proven to fit.

mod rows;

use std::ops::Range;
use std::sync::Arc;

use crate::color::{Coefficients, Color, FrameColors, Ink};
use crate::error::PassError;
use crate::finish::{Channels, ColorMap, Fill, Finish};
use crate::geometry::{Geometry, Interpolation, Place, Placement, Rect, Stored, Warp};
use crate::mask;
use crate::simd::Backend;
use crate::tone::{Tone, MAPPED};
use crate::view::{FrameView, Picture, Plane, Sheet};
use crate::warp::{self, Line, Window};
use crate::weights::{Axis, AxisTable};
use crate::write::{Dtype, OutSlot, Tile, Writer, TILE};

/// Pixels of a window that is kept whole: 1.6 GB of components.
pub(crate) const MAX_HELD: usize = 1 << 28;

/// What a clip's frames go through, compiled. Cloning shares the tables.
#[derive(Clone, Debug)]
pub struct PixelPass {
    geometry: Geometry,
    finish: Arc<Finish>,
    writer: Arc<Writer>,
    tone: Option<Arc<Tone>>,
    backend: Backend,
    tables: Option<Arc<Tables>>,
    coefficients: Option<(ColorKey, Coefficients)>,
    /// To the codes that tone mapping takes.
    source_coefficients: Option<(ColorKey, Coefficients)>,
}

/// Rows in the making. One per worker, reused for every pass and frame.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// A blended row of a sheet that holds several components.
    mixed: Vec<i16>,
    /// A blended row of one component.
    blended: Vec<i16>,
    components: [Vec<i16>; 3],
    /// A row whose tones are mapped.
    mapped: [Vec<i16>; 3],
    /// Sixteen blended rows, the same as pairs of neighbours, and sixteen rows of each component: where rows are made in blocks.
    block: [Vec<i16>; 2],
    block_components: [Vec<i16>; 3],
    /// The components of the whole window, where a warp or a mean needs them.
    window: [Vec<i16>; 3],
    rgb: [Vec<u8>; 3],
    /// The same in 16 bits.
    wide: [Vec<u16>; 3],
    /// Rows of R, G, B that wait to be turned together.
    tile: [Vec<u8>; 3],
    waiting: usize,
}

/// Weight tables of one source format.
#[derive(Debug)]
pub(crate) struct Tables {
    format: TableKey,
    pub width: usize,
    pub height: usize,
    pub luma: Grid,
    pub chroma: Grid,
}

pub(crate) type TableKey = (u32, u32, (u8, u8));
pub(crate) type ColorKey = (Color, u8, Ink);

#[derive(Debug)]
pub(crate) struct Grid {
    pub columns: AxisTable,
    pub rows: AxisTable,
}

impl Scratch {
    /// Empty; grows on first use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let blocks = self.block.iter().chain(&self.block_components);
        let words = [&self.mixed, &self.blended]
            .into_iter()
            .chain(&self.components)
            .chain(&self.mapped)
            .chain(&self.window)
            .chain(blocks);
        words.map(|row| row.capacity() * 2).sum::<usize>()
            + self.rgb.iter().chain(&self.tile).map(Vec::capacity).sum::<usize>()
            + self.wide.iter().map(|row| row.capacity() * 2).sum::<usize>()
    }

    fn fit(&mut self, width: usize, wide: bool, maps: bool) {
        self.waiting = 0;
        for row in self.mapped.iter_mut().filter(|_| maps) {
            row.resize(width, 0);
        }
        for row in &mut self.components {
            row.resize(width, 0);
        }
        for row in &mut self.rgb {
            row.resize(width, 0);
        }
        for row in self.wide.iter_mut().filter(|_| wide || maps) {
            row.resize(width, 0);
        }
    }
}

impl PixelPass {
    /// Whether another pass makes the same pixels of the same frame.
    pub fn makes_the_same(&self, other: &PixelPass) -> bool {
        self.geometry == other.geometry && self.finish == other.finish
    }

    /// Compiles a pass. What depends on the frames (size, subsampling, color) is computed at the first of its kind.
    pub fn new(geometry: Geometry, finish: Finish) -> Result<Self, PassError> {
        geometry.check()?;
        finish.check(geometry.output_size())?;
        let writer = Arc::new(Writer::new(finish.dtype, finish.normalize)?);
        let backend = Backend::detect();
        let tone = finish.tone.map(|tone| tone.tables()).transpose()?;
        let finish = Arc::new(finish);
        let (tables, coefficients, source_coefficients) = (None, None, None);
        Ok(Self { geometry, finish, writer, tone, backend, tables, coefficients, source_coefficients })
    }

    /// The same pass on another backend: same bytes, another speed.
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Width and height of what [`run`](Self::run) writes.
    pub fn output_size(&self) -> (u32, u32) {
        self.geometry.output_size()
    }

    /// Rows of a stored picture of this size that its result depends on; of planes with fewer rows, those that show any of them.
    pub fn source_rows(&self, width: u32, height: u32) -> Result<Range<u32>, PassError> {
        Ok(Axis::rows(self.geometry.stored(width, height)?).luma_span())
    }

    /// The geometry that was compiled.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The finish that was compiled.
    pub fn finish(&self) -> &Finish {
        &self.finish
    }

    /// Writes one frame into its slot. On an error nothing has been written.
    pub fn run(
        &mut self,
        frame: &FrameView<'_>,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), PassError> {
        let picture = frame.check()?;
        out.check(self.output_size(), self.finish.channels, self.finish.dtype)?;
        let out = &mut out.trimmed(self.output_size(), self.finish.channels);
        let tables = self.tables_for((frame.width, frame.height, picture.log2_chroma))?;
        let key = (frame.color, frame.depth_bits, picture.ink);
        let tone = self.tone.clone().map(|tone| Ok((tone, self.source_for(key)?))).transpose()?;
        let coefficients = self.coefficients_for(if tone.is_some() { MAPPED } else { key })?;
        let held = matches!(self.geometry.place, Place::Warp(_)) || self.finish.needs_mean();
        if held && tables.width * tables.height > MAX_HELD {
            return Err(PassError::WindowTooLarge { width: tables.width, height: tables.height });
        }
        scratch.fit(tables.width.max(self.output_size().0 as usize), coefficients.wide, tone.is_some());
        let tone = tone.as_ref().map(|(tone, colors)| (&**tone, colors));
        let source = Source { frame, picture: &picture, tables: &tables, tone };
        match self.geometry.place {
            Place::Warp(warp) => self.warped(source, &warp, &coefficients, out, scratch),
            _ if self.finish.needs_mean() => self.held(source, &coefficients, out, scratch),
            _ => self.streamed(source, &coefficients.without_mean(), out, scratch),
        }
        mask::cover(&self.finish.masks, &self.writer, self.finish.channels, self.output_size(), out);
        Ok(())
    }

    /// Row by row from the frame to the slot.
    fn streamed(
        &self,
        source: Source<'_>,
        colors: &FrameColors,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) {
        let placement = self.geometry.placement(out);
        let copied = source.copied(colors);
        for j in 0..source.tables.height {
            if let Some((sheets, out)) = copied.zip(self.packed_row(placement, j, source.tables.width, out)) {
                self.backend.full_packed(out, source.copied_row(sheets, j), colors);
                continue;
            }
            if let Some(sheets) = copied {
                let rgb = scratch.rgb.each_mut().map(|row| &mut row[..source.tables.width]);
                self.backend.full_row(rgb, source.copied_row(sheets, j), colors);
            } else {
                self.make_row(source, j, scratch);
                self.color_made(source, colors, scratch);
            }
            self.write_row(colors.wide, source.size(), placement, j, out, scratch);
        }
        self.fill_border(colors, out);
    }

    /// Fills `scratch.components` with row j; where tones are mapped, `scratch.mapped` besides.
    fn make_row(&self, source: Source<'_>, j: usize, scratch: &mut Scratch) {
        self.resample_row(source, j, scratch);
        let Some((tone, colors)) = source.tone else { return };
        let width = source.tables.width;
        let Scratch { components, wide, mapped, .. } = scratch;
        let mut components = components.each_ref().map(|row| &row[..width]);
        if colors.ink == Ink::Gray {
            components = [components[0]; 3];
        }
        self.backend.wide_row(wide.each_mut().map(|row| &mut row[..width]), components, colors);
        let codes = wide.each_ref().map(|row| &row[..width]);
        self.backend.map_row(mapped.each_mut().map(|row| &mut row[..width]), codes, tone);
    }

    /// Colors of the row that `make_row` left. The next row's may go on from its components, so they stay.
    fn color_made(&self, source: Source<'_>, colors: &FrameColors, scratch: &mut Scratch) {
        if source.tone.is_some() {
            std::mem::swap(&mut scratch.components, &mut scratch.mapped);
        }
        self.color_row(colors, 0..source.tables.width, scratch);
        if source.tone.is_some() {
            std::mem::swap(&mut scratch.components, &mut scratch.mapped);
        }
    }

    /// The bytes of row j in the slot, where its pixels are codes that lie side by side and forward.
    fn packed_row<'b>(
        &self,
        placement: Placement,
        j: usize,
        width: usize,
        out: &'b mut OutSlot<'_>,
    ) -> Option<&'b mut [u8]> {
        let Finish { dtype, channels, .. } = *self.finish;
        let packed = placement.step_i == 3 && out.channel_stride == 1;
        let codes = dtype == Dtype::U8 && channels == Channels::Three;
        let begin = placement.forward(j, width).filter(|_| packed && codes)?;
        Some(&mut out.data[begin..][..3 * width])
    }

    /// All rows of the window first, since its mean decides their colors.
    fn held(
        &self,
        source: Source<'_>,
        coefficients: &Coefficients,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) {
        self.hold_window(source, scratch);
        let colors = self.colors(source, coefficients, scratch);
        let placement = self.geometry.placement(out);
        let (width, height) = source.size();
        for j in 0..height {
            for (row, window) in
                scratch.components.iter_mut().zip(&scratch.window).take(colors.ink.components())
            {
                row[..width].copy_from_slice(&window[j * width..][..width]);
            }
            self.color_row(&colors, 0..width, scratch);
            self.write_row(colors.wide, (width, height), placement, j, out, scratch);
        }
        self.fill_border(&colors, out);
    }

    /// All rows of the window first, since the map reads them in any order.
    fn warped(
        &self,
        source: Source<'_>,
        warp: &Warp,
        coefficients: &Coefficients,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) {
        self.hold_window(source, scratch);
        let colors = self.colors(source, coefficients, scratch);
        let (to_x, to_y) = self.geometry.stored_maps(warp);
        let (width, height) = (warp.size.0 as usize, warp.size.1 as usize);
        let placement =
            Placement { origin: 0, step_i: out.column_stride as isize, step_j: out.row_stride as isize };
        let (fill, wide_fill) = (colors.fill(), colors.wide_fill());
        for j in 0..height {
            let Scratch { components, window, rgb, wide, .. } = &mut *scratch;
            let window = Window {
                planes: match colors.ink {
                    Ink::Gray => [&window[0][..]; 3],
                    Ink::Yuv | Ink::Rgb => window.each_ref().map(Vec::as_slice),
                },
                width: source.tables.width,
                height: source.tables.height,
            };
            let line = Line::new(to_x, to_y, j);
            let spans = line.spans(warp.interpolation, width, &window);
            for (rgb, &fill) in rgb.iter_mut().zip(&fill) {
                rgb[..spans.touched.start].fill(fill);
                rgb[spans.touched.end..width].fill(fill);
            }
            for (wide, &fill) in wide.iter_mut().zip(&wide_fill).filter(|_| colors.wide) {
                wide[..spans.touched.start].fill(fill);
                wide[spans.touched.end..width].fill(fill);
            }
            for i in spans.touched.clone().filter(|i| !spans.inner.contains(i)) {
                let (values, cover) = warp::edge(&window, &line, i, colors.zero());
                if colors.wide {
                    let color = colors.wide_mixed(colors.ink.spread(values), cover);
                    for (wide, value) in wide.iter_mut().zip(color) {
                        wide[i] = value;
                    }
                    continue;
                }
                let color = colors.mixed(colors.ink.spread(values), cover);
                for (rgb, value) in rgb.iter_mut().zip(color) {
                    rgb[i] = value;
                }
            }
            let inner = components.each_mut().map(|row| &mut row[spans.inner.clone()]);
            let count = colors.ink.components();
            match warp.interpolation {
                Interpolation::Nearest => {
                    self.backend.nearest_row(inner, &window, &line, spans.inner.start, count)
                }
                Interpolation::Bilinear => {
                    self.backend.bilinear_row(inner, &window, &line, spans.inner.start, count)
                }
            }
            self.color_row(&colors, spans.inner, scratch);
            self.write_row(colors.wide, (width, height), placement, j, out, scratch);
        }
    }

    fn hold_window(&self, source: Source<'_>, scratch: &mut Scratch) {
        let (width, height) = (source.tables.width, source.tables.height);
        let ink = source.ink();
        for window in scratch.window.iter_mut().take(ink.components()) {
            if window.len() < width * height {
                window.resize(width * height, 0);
            }
        }
        for j in 0..height {
            self.make_row(source, j, scratch);
            let made = if source.tone.is_some() { &scratch.mapped } else { &scratch.components };
            let rows = made.iter().zip(&mut scratch.window);
            for (row, window) in rows.take(ink.components()) {
                window[j * width..][..width].copy_from_slice(&row[..width]);
            }
        }
    }

    /// The colors of a frame whose window is held.
    fn colors(&self, source: Source<'_>, coefficients: &Coefficients, scratch: &Scratch) -> FrameColors {
        if !self.finish.needs_mean() {
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
        for (c, value) in means.iter_mut().enumerate().take(source.ink().components()) {
            *value = mean(c);
        }
        coefficients.with_mean(source.ink().spread(means))
    }

    /// Fills what a canvas shows beside the window.
    fn fill_border(&self, colors: &FrameColors, out: &mut OutSlot<'_>) {
        let Place::Canvas { size: (width, height), x, y } = self.geometry.place else { return };
        let elements = if colors.wide {
            let fill = colors.wide_fill();
            [0, 1, 2].map(|channel| self.writer.of_wide(channel, fill[channel]))
        } else {
            let fill = colors.fill();
            [0, 1, 2].map(|channel| self.writer.of_code(channel, fill[channel]))
        };
        let window = self.geometry.window;
        let (right, bottom) = (x + window.width, y + window.height);
        let borders = [
            Rect { x: 0, y: 0, width, height: y },
            Rect { x: 0, y: bottom, width, height: height - bottom },
            Rect { x: 0, y, width: x, height: window.height },
            Rect { x: right, y, width: width - right, height: window.height },
        ];
        for border in borders.into_iter().filter(|border| border.width > 0 && border.height > 0) {
            mask::fill(border, elements, &self.writer, self.finish.channels, out);
        }
    }

    /// Writes row j of a window of `height` rows. A turned picture's rows wait until there are enough to write columns by.
    fn write_row(
        &self,
        wide: bool,
        (width, height): (usize, usize),
        placement: Placement,
        j: usize,
        out: &mut OutSlot<'_>,
        scratch: &mut Scratch,
    ) {
        let channels = self.finish.channels;
        if wide {
            let rgb = scratch.wide.each_ref().map(|row| &row[..width]);
            return self.backend.write_wide(&self.writer, rgb, channels, out, placement, j);
        }
        if placement.step_i.unsigned_abs() <= placement.step_j.unsigned_abs() {
            let rgb = scratch.rgb.each_mut().map(|row| &mut row[..width]);
            return self.backend.write_row(&self.writer, rgb, channels, out, placement, j);
        }
        let Scratch { rgb, tile, waiting, .. } = scratch;
        for (tile, rgb) in tile.iter_mut().zip(rgb) {
            if tile.len() < TILE * width {
                tile.resize(TILE * width, 0);
            }
            tile[*waiting * width..][..width].copy_from_slice(&rgb[..width]);
        }
        *waiting += 1;
        if *waiting == TILE || j + 1 == height {
            let rgb = tile.each_mut().map(Vec::as_mut_slice);
            let tile = Tile { rgb, width, rows: *waiting };
            self.backend.write_turned(&self.writer, tile, channels, out, placement, j + 1 - *waiting);
            *waiting = 0;
        }
    }

    /// Turns a stretch of `scratch.components` into `scratch.rgb`, or `scratch.wide`.
    fn color_row(&self, colors: &FrameColors, part: Range<usize>, scratch: &mut Scratch) {
        let Scratch { components, rgb, wide, .. } = scratch;
        let components = components.each_ref().map(|row| &row[part.clone()]);
        if colors.wide {
            let wide = wide.each_mut().map(|row| &mut row[part.clone()]);
            let components = if colors.ink == Ink::Gray { [components[0]; 3] } else { components };
            return self.backend.wide_row(wide, components, colors);
        }
        let mut rgb = rgb.each_mut().map(|row| &mut row[part.clone()]);
        match (colors.ink, colors.plain) {
            (Ink::Yuv, true) => self.backend.yuv_row(rgb, components, colors),
            (Ink::Rgb, true) => {
                for (out, values) in rgb.iter_mut().zip(components) {
                    self.backend.single_row(out, values, colors);
                }
            }
            (Ink::Gray, true) => {
                let [r, g, b] = rgb;
                self.backend.single_row(r, components[0], colors);
                g.copy_from_slice(r);
                b.copy_from_slice(r);
            }
            (Ink::Gray, false) => self.backend.mix_row(rgb, [components[0]; 3], colors),
            (_, false) => self.backend.mix_row(rgb, components, colors),
        }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    fn tables_for(&mut self, format: TableKey) -> Result<Arc<Tables>, PassError> {
        let tables = self.tables_of(format)?;
        self.tables = Some(Arc::clone(&tables));
        Ok(tables)
    }

    /// The tables for a format: those at hand, if they are for it.
    pub(crate) fn tables_of(&self, format: TableKey) -> Result<Arc<Tables>, PassError> {
        if let Some(tables) = self.tables.as_ref().filter(|tables| tables.format == format) {
            return Ok(Arc::clone(tables));
        }
        let (width, height, log2_chroma) = format;
        let stored = self.geometry.stored(width, height)?;
        Ok(Arc::new(Tables {
            format,
            width: stored.window.width as usize,
            height: stored.window.height as usize,
            luma: Grid::new(stored, (0, 0)),
            chroma: Grid::new(stored, log2_chroma),
        }))
    }

    fn coefficients_for(&mut self, key: ColorKey) -> Result<Coefficients, PassError> {
        let made = self.coefficients_of(key)?;
        self.coefficients = Some((key, made));
        Ok(made)
    }

    fn source_for(&mut self, key: ColorKey) -> Result<FrameColors, PassError> {
        let made = self.source_of(key)?;
        self.source_coefficients = Some((key, made));
        Ok(made.without_mean())
    }

    /// The coefficients that make the codes for tone mapping: no color map, 16 bits.
    pub(crate) fn source_of(&self, key: ColorKey) -> Result<Coefficients, PassError> {
        if let Some((_, made)) = self.source_coefficients.as_ref().filter(|(known, _)| *known == key) {
            return Ok(*made);
        }
        let (color, depth_bits, ink) = key;
        Coefficients::new(color, depth_bits, ink, true, &ColorMap::IDENTITY, &Fill::default())
    }

    pub(crate) fn tone(&self) -> Option<&Tone> {
        self.tone.as_deref()
    }

    /// The coefficients for a kind of picture: those at hand, if they are for it.
    pub(crate) fn coefficients_of(&self, key: ColorKey) -> Result<Coefficients, PassError> {
        if let Some((_, coefficients)) = self.coefficients.as_ref().filter(|(known, _)| *known == key) {
            return Ok(*coefficients);
        }
        let (color, depth_bits, ink) = key;
        let wide = self.finish.dtype.is_wide(depth_bits);
        Coefficients::new(color, depth_bits, ink, wide, &self.finish.color, &self.finish.fill)
    }
}

/// One frame, checked, with the tables for its format.
#[derive(Clone, Copy)]
struct Source<'a> {
    frame: &'a FrameView<'a>,
    picture: &'a Picture<Plane<'a>>,
    tables: &'a Tables,
    /// How its tones are mapped, and what makes the codes for that.
    tone: Option<(&'a Tone, &'a FrameColors)>,
}

impl<'a> Source<'a> {
    /// What the components are from which colors are made.
    fn ink(&self) -> Ink {
        if self.tone.is_some() {
            Ink::Rgb
        } else {
            self.picture.ink
        }
    }

    /// Width and height of the window as stored.
    fn size(&self) -> (usize, usize) {
        (self.tables.width, self.tables.height)
    }

    /// The planes of an 8-bit picture that keeps its size, chroma being half as wide: rows can be converted where they lie.
    fn copied(&self, colors: &FrameColors) -> Option<[Sheet<Plane<'a>>; 3]> {
        let [Some(y), Some(u), Some(v)] = self.picture.sheets else { return None };
        let Tables { luma, chroma, .. } = self.tables;
        let same = |axis: &AxisTable, log2: u8| axis.repeat.is_some_and(|repeat| repeat.log2 == log2);
        let columns = same(&luma.columns, 0) && same(&chroma.columns, 1);
        let rows = luma.rows.repeat.is_some() && chroma.rows.repeat.is_some();
        let even = luma.columns.first.is_multiple_of(2);
        let plain = colors.plain
            && !colors.wide
            && self.tone.is_none()
            && colors.ink == Ink::Yuv
            && self.frame.depth_bits == 8;
        (columns && rows && even && plain).then_some([y, u, v])
    }

    /// The samples of row j of such planes.
    fn copied_row(&self, sheets: [Sheet<Plane<'a>>; 3], j: usize) -> [&'a [u8]; 3] {
        let Tables { luma, chroma, .. } = self.tables;
        let grids = [luma, chroma, chroma];
        [0, 1, 2].map(|c| {
            let plane = sheets[c].plane;
            let first = grids[c].rows.taps_at(j).0 * plane.stride_bytes + grids[c].columns.first as usize;
            &plane.data[first..][..grids[c].columns.span()]
        })
    }
}

impl Grid {
    fn new(stored: Stored, (log2_w, log2_h): (u8, u8)) -> Self {
        let (columns, rows) = (Axis::columns(stored), Axis::rows(stored));
        Self { columns: AxisTable::new(columns, log2_w), rows: AxisTable::new(rows, log2_h) }
    }
}

fn grow(row: &mut Vec<i16>, length: usize) {
    if row.len() < length {
        row.resize(length, 0);
    }
}

#[cfg(test)]
mod tests;
