//! In: a pixel pass and the kind of frame it gets.
//! Out: `DevicePass`: its tables, and per frame the arguments of its one or two kernels.
//! Never: decides a value: tables and coefficients are those of the CPU.

use super::args::{self, bytes_of, PixelArgs};
use super::tables::{longest, Blob, ALIGNMENT};
use super::{check_aligned, DeviceFormat, DeviceFrame, DeviceSlot, Launch, TILE};
use crate::color::{Coefficients, FrameColors, Ink};
use crate::error::PassError;
use crate::finish::{Channels, Finish};
use crate::geometry::{Geometry, Interpolation, Place, Stage};
use crate::pass::{PixelPass, Tables, MAX_HELD};
use crate::tone::{Tone, MAPPED};
use crate::view::Picture;
use crate::weights::AxisTable;
use crate::write::{Dtype, OutSlot};

/// Most shared memory that a block uses for rows in the making: several blocks fit a multiprocessor, on every GPU.
const MAX_HELD_BYTES: usize = 24 << 10;
/// Bytes before the components in scratch memory: three sums of 64 bits.
const SUMS_BYTES: usize = 32;
/// Shared memory behind the rows: the colors of a tile, 16 bits each.
const CODES_BYTES: u32 = 3 * TILE.0 * TILE.1 * 2;
/// Shared memory of the second of two kernels: bias, fill and mean of three channels, and the colors.
const FINISH_BYTES: u32 = 36 + CODES_BYTES;
/// Least shared memory of the first: the components of a tile and their sums by row.
const WINDOW_BYTES: u32 = 3 * TILE.0 * TILE.1 * 2 + 3 * TILE.1 * 4;

/// A [`PixelPass`] for frames of one kind in a GPU's memory.
#[derive(Clone, Debug)]
pub struct DevicePass {
    format: DeviceFormat,
    geometry: Geometry,
    dtype: Dtype,
    channels: Channels,
    stage: Stage,
    tables: Vec<u8>,
    scratch_bytes: usize,
    steps: Vec<Step>,
}

/// A launch without addresses and strides; places in the tables are distances.
#[derive(Clone, Debug)]
struct Step {
    kernel: &'static str,
    grid: [u32; 3],
    shared_bytes: u32,
    args: PixelArgs,
}

impl PixelPass {
    /// This pass for frames of this kind in a GPU's memory: the same bytes, the same refusals.
    ///
    /// # Errors
    /// Those of [`run`](PixelPass::run) that need neither the planes nor the slot.
    pub fn for_device(&self, format: &DeviceFormat) -> Result<DevicePass, PassError> {
        let picture = format.check()?;
        let tables = self.tables_of((format.width, format.height, picture.log2_chroma))?;
        let key = (format.color, format.depth_bits, picture.ink);
        let tone = self.tone().map(|tone| Ok((tone, self.source_of(key)?))).transpose()?;
        let coefficients = self.coefficients_of(if tone.is_some() { MAPPED } else { key })?;
        let ink = coefficients.ink;
        let (geometry, finish) = (self.geometry(), self.finish());
        let held = matches!(geometry.place, Place::Warp(_)) || finish.needs_mean();
        if held && tables.width * tables.height > MAX_HELD {
            return Err(PassError::WindowTooLarge { width: tables.width, height: tables.height });
        }
        let mut blob = Blob::default();
        let (columns, rows) = (blob.columns(&tables.luma.columns), blob.rows(&tables.luma.rows));
        // Without chroma of its own size nothing looks at the second.
        let (chroma_columns, chroma_rows) = match picture.log2_chroma {
            (0, 0) => (columns, rows),
            _ => (blob.columns(&tables.chroma.columns), blob.rows(&tables.chroma.rows)),
        };
        let mut args = PixelArgs {
            columns: [columns, chroma_columns],
            rows: [rows, chroma_rows],
            elements: if coefficients.wide || finish.dtype == Dtype::U8 {
                0
            } else {
                blob.elements(self.writer())
            },
            masks: if finish.masks.is_empty() { 0 } else { blob.masks(&finish.masks, self.writer()) },
            depth_bits: u32::from(format.depth_bits),
            word_shift: u32::from(format.shift),
            component_count: ink.components() as u32,
            window: [tables.width as u32, tables.height as u32],
            output_width: self.output_size().0,
            ..PixelArgs::default()
        };
        if let Some((tone, source)) = tone {
            args.maps_tone = 1;
            args.tone = tone_args(&mut blob, tone, &source.without_mean());
        }
        finish_args(&mut args, finish);
        color_args(&mut args, &coefficients);
        for channel in 0..3 {
            (args.wide_scale[channel], args.wide_bias[channel]) = self.writer().wide_scale_and_bias(channel);
        }
        sheet_args(&mut args, &picture, &tables);
        let stage = geometry.stage();
        let components = ink.components() * tables.width * tables.height;
        let steps = if held {
            let whole = Stage::plain((tables.width as u32, tables.height as u32));
            vec![window_step(args, &tables, &whole), finish_step(args, geometry, &stage)]
        } else {
            vec![pixels_step(args, &tables, &stage)]
        };
        Ok(DevicePass {
            format: *format,
            geometry: *geometry,
            dtype: finish.dtype,
            channels: finish.channels,
            stage,
            tables: blob.into_bytes(),
            scratch_bytes: if held { (SUMS_BYTES + 2 * components).next_multiple_of(ALIGNMENT) } else { 0 },
            steps,
        })
    }
}

impl DevicePass {
    /// What must be in device memory, at a multiple of 16, for the launches.
    pub fn tables(&self) -> &[u8] {
        &self.tables
    }

    /// Device memory, at a multiple of 16, that the launches of one frame use; 0 where none is needed.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// The kind of frame it is for.
    pub fn format(&self) -> &DeviceFormat {
        &self.format
    }

    /// What writes one frame into its slot.
    ///
    /// # Errors
    /// For a frame of another kind, rows or elements that overlap, and addresses that are not aligned.
    pub fn launches(
        &self,
        frame: &DeviceFrame,
        tables: u64,
        scratch: u64,
        out: DeviceSlot,
    ) -> Result<Vec<Launch>, PassError> {
        let picture = frame.check()?;
        if frame.format() != self.format {
            return Err(PassError::OtherFormat);
        }
        let slot = self.placed(out)?;
        check_aligned("tables", tables, ALIGNMENT)?;
        if self.scratch_bytes > 0 {
            check_aligned("scratch", scratch, ALIGNMENT)?;
        }
        Ok(self.steps.iter().map(|step| step.launch(&picture, tables, scratch, &slot)).collect())
    }

    /// The places of the canvas's pixels in the slot, in stored axes.
    fn placed(&self, out: DeviceSlot) -> Result<Placed, PassError> {
        let DeviceSlot { address, channel_stride, row_stride, column_stride } = out;
        let strides = OutSlot { data: &mut [], channel_stride, row_stride, column_stride };
        let size = self.geometry.output_size();
        let need = strides.need_bytes(size, self.channels, self.dtype)?;
        // Distances in a slot are signed.
        let have = (u64::MAX - address).min(i64::MAX as u64);
        if need > u128::from(have) {
            let need_bytes = u64::try_from(need).unwrap_or(u64::MAX);
            return Err(PassError::SlotShort { have_bytes: have as usize, need_bytes });
        }
        check_aligned("slot", address, self.dtype.bytes())?;
        let stride = |stride: usize, length: usize| if length > 1 { stride as i64 } else { 1 };
        let (column, row) = (stride(column_stride, size.0 as usize), stride(row_stride, size.1 as usize));
        let Stage { show_x, show_y, .. } = self.stage;
        let along = |k: usize| i64::from(show_x[k]) * column + i64::from(show_y[k]) * row;
        let placed = Placed {
            address,
            channel_stride: stride(channel_stride, self.channels.count()),
            step_i: along(0),
            step_j: along(1),
            origin: along(2),
        };
        Ok(placed)
    }
}

/// A slot in stored axes.
struct Placed {
    address: u64,
    channel_stride: i64,
    step_i: i64,
    step_j: i64,
    origin: i64,
}

impl Placed {
    /// As `Order` in `cuda/args.h`: in which order a block stores, so that neighbours lie side by side, and whether four at a time.
    fn order(&self, args: &PixelArgs) -> u32 {
        let (i, j) = (self.step_i.unsigned_abs(), self.step_j.unsigned_abs());
        let channels_first = u32::from(self.channel_stride.unsigned_abs() < i.min(j));
        let order = channels_first | u32::from(j < i) << 1;
        let corner = self.address.wrapping_add_signed(self.origin);
        let words = corner.is_multiple_of(4) && j.is_multiple_of(4);
        if args.dtype != 0 || args.mask_count != 0 || !words {
            return order;
        }
        match (args.channels, self.channel_stride, self.step_i) {
            (3, 1, 3) => order | 4,
            (3, stride, 1) if stride % 4 == 0 => order | 8,
            (1, _, 1) => order | 8,
            _ => order,
        }
    }
}

impl Step {
    fn launch(
        &self,
        picture: &Picture<super::DevicePlane>,
        tables: u64,
        scratch: u64,
        slot: &Placed,
    ) -> Launch {
        let mut args = self.args;
        // A kernel is told of no memory that it does not use.
        let planes = picture.sheets.iter().flatten().filter(|_| self.kernel != FINISH);
        for (sheet, own) in args.sheets.iter_mut().zip(planes) {
            let super::DevicePlane { address, stride_bytes } = own.plane;
            sheet.address = address;
            sheet.stride_bytes = stride_bytes as u64;
            sheet.aligned = u32::from(address.is_multiple_of(4) && stride_bytes.is_multiple_of(4));
        }
        for axis in args.columns.iter_mut().chain(&mut args.rows) {
            axis.spans = axis.spans.wrapping_add(tables);
            axis.weights = axis.weights.wrapping_add(tables);
        }
        args.elements = args.elements.wrapping_add(tables);
        args.masks = args.masks.wrapping_add(tables);
        for table in [&mut args.tone.light, &mut args.tone.gain, &mut args.tone.code] {
            *table = table.wrapping_add(tables);
        }
        if self.kernel != PIXELS {
            args.sums = scratch;
            args.components = scratch.wrapping_add(SUMS_BYTES as u64);
        }
        if self.kernel != WINDOW {
            args.slot = slot.address;
        }
        (args.origin, args.step_i, args.step_j) = (slot.origin, slot.step_i, slot.step_j);
        args.channel_stride = slot.channel_stride;
        args.order = slot.order(&args);
        let sums = self.kernel == WINDOW && args.needs_mean != 0;
        Launch {
            kernel: self.kernel,
            grid: self.grid,
            block: [TILE.0, TILE.1, 1],
            shared_bytes: self.shared_bytes,
            args: bytes_of(&args),
            clear: sums.then_some((scratch, SUMS_BYTES)),
        }
    }
}

const PIXELS: &str = "framespool_pixels";
const WINDOW: &str = "framespool_window";
const FINISH: &str = "framespool_finish";

fn pixels_step(args: PixelArgs, tables: &Tables, stage: &Stage) -> Step {
    let args = staged(held_args(args, tables, stage), stage);
    step(PIXELS, args, args.held_bytes + CODES_BYTES)
}

fn window_step(args: PixelArgs, tables: &Tables, whole: &Stage) -> Step {
    let args = staged(held_args(args, tables, whole), whole);
    step(WINDOW, args, args.held_bytes.max(WINDOW_BYTES))
}

fn finish_step(args: PixelArgs, geometry: &Geometry, stage: &Stage) -> Step {
    let mut args = staged(args, stage);
    if let Place::Warp(warp) = geometry.place {
        (args.to_x, args.to_y) = geometry.stored_maps(&warp);
        args.place = match warp.interpolation {
            Interpolation::Nearest => 1,
            Interpolation::Bilinear => 2,
        };
    }
    step(FINISH, args, FINISH_BYTES)
}

fn step(kernel: &'static str, args: PixelArgs, shared_bytes: u32) -> Step {
    let [width, height] = args.canvas;
    let grid = [width.div_ceil(TILE.0), height.div_ceil(TILE.1), 1];
    Step { kernel, grid, shared_bytes, args }
}

fn staged(args: PixelArgs, stage: &Stage) -> PixelArgs {
    PixelArgs {
        canvas: stage.size.into(),
        corner: stage.corner.into(),
        show_x: stage.show_x,
        show_y: stage.show_y,
        ..args
    }
}

/// How much of rows a block holds at a time: as much as its tile needs, within bounds.
fn held_args(mut args: PixelArgs, tables: &Tables, stage: &Stage) -> PixelArgs {
    if args.single != 0 {
        return args;
    }
    let mut widest_pitch = 0;
    for sheet in &mut args.sheets[..args.sheet_count as usize] {
        let columns = if sheet.grid == 1 { &tables.chroma.columns } else { &tables.luma.columns };
        // Up to three samples before the first, so that words are read whole.
        let most = (MAX_HELD_BYTES / (2 * TILE.1 as usize) - 3) / sheet.step as usize;
        let chunk = widest(columns, stage).min(most).max(1);
        sheet.chunk = chunk as u32;
        sheet.pitch = (chunk as u32 * sheet.step + 3).next_multiple_of(4);
        widest_pitch = widest_pitch.max(sheet.pitch);
    }
    args.held_bytes = (2 * TILE.1 * widest_pitch).next_multiple_of(ALIGNMENT as u32);
    args
}

/// Samples from the first to the last of the tile that needs most.
fn widest(columns: &AxisTable, stage: &Stage) -> usize {
    let positions = columns.starts.len();
    let (tile, corner) = (TILE.0 as usize, stage.corner.0 as usize);
    let mut widest = 0;
    let mut first = 0;
    while first < positions {
        let end = (first + tile - (first + corner) % tile).min(positions);
        let (last, weights) = columns.taps_at(end - 1);
        widest = widest.max(last + weights.len() - columns.taps_at(first).0);
        first = end;
    }
    widest
}

fn sheet_args(args: &mut PixelArgs, picture: &Picture<super::NoPlane>, tables: &Tables) {
    for (sheet, own) in args.sheets.iter_mut().zip(picture.sheets.iter().flatten()) {
        let here = own.offsets.iter().enumerate().filter_map(|(c, offset)| offset.map(|offset| (c, offset)));
        for (place, (component, offset)) in here.enumerate() {
            sheet.first = (component - place) as u32;
            sheet.components += 1;
            sheet.offsets[place] = offset as u32;
        }
        sheet.step = own.step as u32;
        sheet.row_samples = (own.columns * own.step) as u32;
        sheet.grid = u32::from(own.is_chroma);
        args.sheet_count += 1;
    }
    let grids = [&tables.luma, &tables.chroma];
    let single = grids.iter().all(|grid| longest(&grid.columns) == 1 && longest(&grid.rows) == 1);
    args.single = u32::from(single);
}

fn finish_args(args: &mut PixelArgs, finish: &Finish) {
    args.needs_mean = u32::from(finish.needs_mean());
    args.channels = finish.channels.count() as u32;
    args.dtype = dtype_number(finish.dtype);
    args.mask_count = finish.masks.len() as u32;
}

/// As `Dtype` in `cuda/args.h`.
pub(super) fn dtype_number(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::U8 => 0,
        Dtype::F16 => 1,
        Dtype::BF16 => 2,
        Dtype::F32 => 3,
        Dtype::U16 => 4,
    }
}

fn tone_args(blob: &mut Blob, tone: &Tone, source: &FrameColors) -> args::Tone {
    args::Tone {
        light: blob.numbers(&tone.light),
        gain: blob.numbers(&tone.gain),
        code: blob.numbers(&tone.code),
        factors: source.factors.map(|row| row.map(i32::from)),
        zero: source.zero.map(i32::from),
        shift: source.shift,
        weights: tone.weights,
        gamut: tone.gamut,
        unused: 0,
    }
}

fn color_args(args: &mut PixelArgs, coefficients: &Coefficients) {
    let FrameColors { factors, zero, shift, bias, fill, .. } = coefficients.without_mean();
    args.factors = factors.map(|row| row.map(i32::from));
    args.zero = zero.map(i32::from);
    args.color_shift = shift;
    args.wide = u32::from(coefficients.wide);
    (args.bias, args.fill) = (bias, fill);
    (args.bias_constant, args.bias_of_mean) = (coefficients.bias.constant, coefficients.bias.of_mean);
    (args.fill_constant, args.fill_of_mean) = (coefficients.fill.constant, coefficients.fill.of_mean);
    debug_assert!(coefficients.ink != Ink::Gray || args.component_count == 1);
}
