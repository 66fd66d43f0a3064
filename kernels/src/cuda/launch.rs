//! Computes a [`DevicePass`]: the tables of a pixel pass for one frame format, and per frame the
//! arguments of its kernels. All tables and coefficients are those of the CPU.

use super::kernel_args::{self, PixelArgs, to_bytes};
use super::tables::{ALIGNMENT, TableBuffer, max_tap_count};
use super::{BLOCK_DIM, DeviceFormat, DeviceFrame, DeviceSlot, Launch, check_aligned};
use crate::color::{ColorCoefficients, FrameCoefficients};
use crate::colorimetry::ComponentModel;
use crate::error::PassError;
use crate::frame::CheckedFrame;
use crate::geometry::{Geometry, Interpolation, Placement, StoredCanvas};
use crate::output_spec::OutputSpec;
use crate::pixel_pass::{PixelPass, ResampleTables};
use crate::tone_map::{TONE_MAPPED, ToneTables};
use crate::types::{Channels, MAX_WINDOW_PIXELS};
use crate::weights::AxisTable;
use crate::write::{Dtype, OutputSlot};

/// Maximum shared memory of a block for partial rows: several blocks fit on a multiprocessor, on
/// every GPU.
const MAX_ROW_BUFFER_BYTES: usize = 24 << 10;
/// Bytes before the components in scratch memory: three sums of 64 bits.
const SUMS_BYTES: usize = 32;
/// Shared memory after the rows: the colors of a tile, 16 bits each.
const CODES_BYTES: u32 = 3 * BLOCK_DIM.0 * BLOCK_DIM.1 * 2;
/// Shared memory of the second of two kernels: bias, fill and mean of three channels, and the
/// colors.
const FINISH_BYTES: u32 = 36 + CODES_BYTES;
/// Minimum shared memory of the first kernel: the components of a tile and their sums by row.
const WINDOW_BYTES: u32 = 3 * BLOCK_DIM.0 * BLOCK_DIM.1 * 2 + 3 * BLOCK_DIM.1 * 4;

/// A [`PixelPass`] for frames of one format in a GPU's memory.
#[derive(Clone, Debug)]
pub struct DevicePass {
    format: DeviceFormat,
    geometry: Geometry,
    dtype: Dtype,
    channels: Channels,
    canvas: StoredCanvas,
    tables: Vec<u8>,
    scratch_bytes: usize,
    templates: Vec<LaunchTemplate>,
}

/// A launch without addresses and strides; table addresses are offsets.
#[derive(Clone, Debug)]
struct LaunchTemplate {
    kernel: &'static str,
    grid: [u32; 3],
    shared_bytes: u32,
    args: PixelArgs,
}

impl PixelPass {
    /// Prepares this pass for frames of this format in a GPU's memory. Output bytes and errors are
    /// those of the CPU.
    ///
    /// # Errors
    /// Those of [`run`](PixelPass::run) that need neither the planes nor the slot.
    pub fn for_device(&self, format: &DeviceFormat) -> Result<DevicePass, PassError> {
        let checked = format.check()?;
        let tables = self.resample_tables((format.width, format.height, checked.log2_chroma))?;
        let key = (format.color, format.depth_bits, checked.model);
        let tone = self
            .tone()
            .map(|tone| Ok((tone, self.source_color_coefficients(key)?)))
            .transpose()?;
        let coefficients =
            self.color_coefficients(if tone.is_some() { TONE_MAPPED } else { key })?;
        let model = coefficients.model;
        let (geometry, spec) = (self.geometry(), self.output_spec());
        let buffered = matches!(geometry.placement, Placement::Warp(_)) || spec.needs_mean();
        if buffered && tables.width * tables.height > MAX_WINDOW_PIXELS {
            return Err(PassError::WindowTooLarge {
                width: tables.width,
                height: tables.height,
            });
        }
        let mut buffer = TableBuffer::default();
        let (columns, rows) = (
            buffer.columns(&tables.luma.columns),
            buffer.rows(&tables.luma.rows),
        );
        // Without subsampled chroma the second table is unused.
        let (chroma_columns, chroma_rows) = match checked.log2_chroma {
            (0, 0) => (columns, rows),
            _ => (
                buffer.columns(&tables.chroma.columns),
                buffer.rows(&tables.chroma.rows),
            ),
        };
        let mut args = PixelArgs {
            columns: [columns, chroma_columns],
            rows: [rows, chroma_rows],
            elements: if coefficients.use_u16 || spec.dtype == Dtype::U8 {
                0
            } else {
                buffer.elements(self.writer())
            },
            masks: if spec.masks.is_empty() {
                0
            } else {
                buffer.masks(&spec.masks, self.writer())
            },
            depth_bits: u32::from(format.depth_bits),
            word_shift: u32::from(format.shift),
            component_count: model.components() as u32,
            window: [tables.width as u32, tables.height as u32],
            output_width: self.output_size().0,
            ..PixelArgs::default()
        };
        if let Some((tone, source)) = tone {
            args.has_tone_map = 1;
            args.tone = tone_args(&mut buffer, tone, &source.without_mean());
        }
        set_output_args(&mut args, spec);
        set_color_args(&mut args, &coefficients);
        for channel in 0..3 {
            (args.scale_u16[channel], args.bias_u16[channel]) =
                self.writer().scale_and_bias_u16(channel);
        }
        set_plane_args(&mut args, &checked, &tables);
        let canvas = geometry.stored_canvas();
        let components = model.components() * tables.width * tables.height;
        let templates = if buffered {
            let whole = StoredCanvas::from_size((tables.width as u32, tables.height as u32));
            vec![
                window_launch(args, &tables, &whole),
                finish_launch(args, geometry, &canvas),
            ]
        } else {
            vec![pixels_launch(args, &tables, &canvas)]
        };
        Ok(DevicePass {
            format: *format,
            geometry: *geometry,
            dtype: spec.dtype,
            channels: spec.channels,
            canvas,
            tables: buffer.into_bytes(),
            scratch_bytes: if buffered {
                (SUMS_BYTES + 2 * components).next_multiple_of(ALIGNMENT)
            } else {
                0
            },
            templates,
        })
    }
}

impl DevicePass {
    /// The tables to upload to device memory, at a multiple of 16.
    pub fn tables(&self) -> &[u8] {
        &self.tables
    }

    /// Bytes of scratch device memory, at a multiple of 16, that the launches of one frame use; may
    /// be 0.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// The frame format.
    pub fn format(&self) -> &DeviceFormat {
        &self.format
    }

    /// Returns the launches that write one frame into its slot.
    ///
    /// # Errors
    /// If the frame has another format, rows or elements overlap, or addresses are not aligned.
    pub fn launches(
        &self,
        frame: &DeviceFrame,
        tables: u64,
        scratch: u64,
        out: DeviceSlot,
    ) -> Result<Vec<Launch>, PassError> {
        let checked = frame.check()?;
        if frame.format() != self.format {
            return Err(PassError::FormatMismatch);
        }
        let slot = self.placed(out)?;
        check_aligned("tables", tables, ALIGNMENT)?;
        if self.scratch_bytes > 0 {
            check_aligned("scratch", scratch, ALIGNMENT)?;
        }
        Ok(self
            .templates
            .iter()
            .map(|step| step.launch(&checked, tables, scratch, &slot))
            .collect())
    }

    /// The offsets of the canvas's pixels in the slot, in stored axes.
    fn placed(&self, out: DeviceSlot) -> Result<SlotLayout, PassError> {
        let DeviceSlot {
            address,
            channel_stride,
            row_stride,
            column_stride,
        } = out;
        let strides = OutputSlot {
            data: &mut [],
            channel_stride,
            row_stride,
            column_stride,
        };
        let size = self.geometry.output_size();
        let need = strides.required_bytes(size, self.channels, self.dtype)?;
        // Distances in a slot are signed.
        let have = (u64::MAX - address).min(i64::MAX as u64);
        if need > u128::from(have) {
            let need_bytes = u64::try_from(need).unwrap_or(u64::MAX);
            return Err(PassError::SlotTooShort {
                have_bytes: have as usize,
                need_bytes,
            });
        }
        check_aligned("slot", address, self.dtype.bytes())?;
        let stride = |stride: usize, length: usize| if length > 1 { stride as i64 } else { 1 };
        let (column, row) = (
            stride(column_stride, size.0 as usize),
            stride(row_stride, size.1 as usize),
        );
        let StoredCanvas {
            display_x,
            display_y,
            ..
        } = self.canvas;
        let along = |k: usize| i64::from(display_x[k]) * column + i64::from(display_y[k]) * row;
        let placed = SlotLayout {
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
struct SlotLayout {
    address: u64,
    channel_stride: i64,
    step_i: i64,
    step_j: i64,
    origin: i64,
}

impl SlotLayout {
    /// `Order` of `cuda/args.h`: the order in which a block stores, so that neighboring threads
    /// write neighboring addresses, and whether four codes are stored at a time.
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

impl LaunchTemplate {
    fn launch(
        &self,
        checked: &CheckedFrame<super::DevicePlane>,
        tables: u64,
        scratch: u64,
        slot: &SlotLayout,
    ) -> Launch {
        let mut args = self.args;
        // A kernel gets no address of memory that it does not use.
        let planes = checked
            .planes
            .iter()
            .flatten()
            .filter(|_| self.kernel != FINISH);
        for (plane, own) in args.planes.iter_mut().zip(planes) {
            let super::DevicePlane {
                address,
                stride_bytes,
            } = own.storage;
            plane.address = address;
            plane.stride_bytes = stride_bytes as u64;
            plane.aligned = u32::from(address.is_multiple_of(4) && stride_bytes.is_multiple_of(4));
        }
        for axis in args.columns.iter_mut().chain(&mut args.rows) {
            axis.tap_ranges = axis.tap_ranges.wrapping_add(tables);
            axis.weights = axis.weights.wrapping_add(tables);
        }
        args.elements = args.elements.wrapping_add(tables);
        args.masks = args.masks.wrapping_add(tables);
        for table in [
            &mut args.tone.light,
            &mut args.tone.gain,
            &mut args.tone.code,
        ] {
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
            block: [BLOCK_DIM.0, BLOCK_DIM.1, 1],
            shared_bytes: self.shared_bytes,
            args: to_bytes(&args),
            clear: sums.then_some((scratch, SUMS_BYTES)),
        }
    }
}

const PIXELS: &str = "framespool_pixels";
const WINDOW: &str = "framespool_window";
const FINISH: &str = "framespool_finish";

fn pixels_launch(
    args: PixelArgs,
    tables: &ResampleTables,
    canvas: &StoredCanvas,
) -> LaunchTemplate {
    let args = with_canvas(set_row_buffer(args, tables, canvas), canvas);
    launch_template(PIXELS, args, args.row_buffer_bytes + CODES_BYTES)
}

fn window_launch(args: PixelArgs, tables: &ResampleTables, whole: &StoredCanvas) -> LaunchTemplate {
    let args = with_canvas(set_row_buffer(args, tables, whole), whole);
    launch_template(WINDOW, args, args.row_buffer_bytes.max(WINDOW_BYTES))
}

fn finish_launch(args: PixelArgs, geometry: &Geometry, canvas: &StoredCanvas) -> LaunchTemplate {
    let mut args = with_canvas(args, canvas);
    if let Placement::Warp(warp) = geometry.placement {
        (args.to_x, args.to_y) = geometry.stored_warp(&warp);
        args.placement = match warp.interpolation {
            Interpolation::Nearest => 1,
            Interpolation::Bilinear => 2,
        };
    }
    launch_template(FINISH, args, FINISH_BYTES)
}

fn launch_template(kernel: &'static str, args: PixelArgs, shared_bytes: u32) -> LaunchTemplate {
    let [width, height] = args.canvas;
    let grid = [width.div_ceil(BLOCK_DIM.0), height.div_ceil(BLOCK_DIM.1), 1];
    LaunchTemplate {
        kernel,
        grid,
        shared_bytes,
        args,
    }
}

fn with_canvas(args: PixelArgs, canvas: &StoredCanvas) -> PixelArgs {
    PixelArgs {
        canvas: canvas.size.into(),
        corner: canvas.corner.into(),
        display_x: canvas.display_x,
        display_y: canvas.display_y,
        ..args
    }
}

/// How much of the rows a block keeps at a time: as much as its tile needs, within bounds.
fn set_row_buffer(
    mut args: PixelArgs,
    tables: &ResampleTables,
    canvas: &StoredCanvas,
) -> PixelArgs {
    if args.single_tap != 0 {
        return args;
    }
    let mut widest_pitch = 0;
    for plane in &mut args.planes[..args.plane_count as usize] {
        let columns = if plane.is_chroma == 1 {
            &tables.chroma.columns
        } else {
            &tables.luma.columns
        };
        // Up to three samples before the first, so that words are read whole.
        let most = (MAX_ROW_BUFFER_BYTES / (2 * BLOCK_DIM.1 as usize) - 3) / plane.step as usize;
        let chunk = max_tile_samples(columns, canvas).min(most).max(1);
        plane.chunk = chunk as u32;
        plane.pitch = (chunk as u32 * plane.step + 3).next_multiple_of(4);
        widest_pitch = widest_pitch.max(plane.pitch);
    }
    args.row_buffer_bytes = (2 * BLOCK_DIM.1 * widest_pitch).next_multiple_of(ALIGNMENT as u32);
    args
}

/// Number of samples from the first to the last, for the tile that needs most.
fn max_tile_samples(columns: &AxisTable, canvas: &StoredCanvas) -> usize {
    let positions = columns.starts.len();
    let (tile, corner) = (BLOCK_DIM.0 as usize, canvas.corner.0 as usize);
    let mut max_tile_samples = 0;
    let mut first = 0;
    while first < positions {
        let end = (first + tile - (first + corner) % tile).min(positions);
        let (last, weights) = columns.taps_at(end - 1);
        max_tile_samples = max_tile_samples.max(last + weights.len() - columns.taps_at(first).0);
        first = end;
    }
    max_tile_samples
}

fn set_plane_args(
    args: &mut PixelArgs,
    checked: &CheckedFrame<super::FormatOnly>,
    tables: &ResampleTables,
) {
    for (plane, own) in args.planes.iter_mut().zip(checked.planes.iter().flatten()) {
        let here = own
            .offsets
            .iter()
            .enumerate()
            .filter_map(|(c, offset)| offset.map(|offset| (c, offset)));
        for (place, (component, offset)) in here.enumerate() {
            plane.first = (component - place) as u32;
            plane.components += 1;
            plane.offsets[place] = offset as u32;
        }
        plane.step = own.step as u32;
        plane.row_samples = (own.columns * own.step) as u32;
        plane.is_chroma = u32::from(own.is_chroma);
        let rows = if own.is_chroma {
            &tables.chroma.rows
        } else {
            &tables.luma.rows
        };
        plane.overshoots = u32::from(rows.overshoots);
        args.plane_count += 1;
    }
    let plane_tables = [&tables.luma, &tables.chroma];
    let single_tap = plane_tables
        .iter()
        .all(|table| max_tap_count(&table.columns) == 1 && max_tap_count(&table.rows) == 1);
    args.single_tap = u32::from(single_tap);
}

fn set_output_args(args: &mut PixelArgs, spec: &OutputSpec) {
    args.needs_mean = u32::from(spec.needs_mean());
    args.channels = spec.channels.count() as u32;
    args.dtype = dtype_tag(spec.dtype);
    args.mask_count = spec.masks.len() as u32;
}

/// As `Dtype` in `cuda/args.h`.
pub(super) fn dtype_tag(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::U8 => 0,
        Dtype::F16 => 1,
        Dtype::BF16 => 2,
        Dtype::F32 => 3,
        Dtype::U16 => 4,
    }
}

fn tone_args(
    buffer: &mut TableBuffer,
    tone: &ToneTables,
    source: &FrameCoefficients,
) -> kernel_args::ToneArgs {
    kernel_args::ToneArgs {
        light: buffer.numbers(&tone.light),
        gain: buffer.numbers(&tone.gain),
        code: buffer.numbers(&tone.code),
        factors: source.factors.map(|row| row.map(i32::from)),
        zero: source.zero.map(i32::from),
        shift: source.shift,
        weights: tone.weights,
        gamut: tone.gamut,
        unused: 0,
    }
}

fn set_color_args(args: &mut PixelArgs, coefficients: &ColorCoefficients) {
    let FrameCoefficients {
        factors,
        zero,
        shift,
        bias,
        fill,
        ..
    } = coefficients.without_mean();
    args.factors = factors.map(|row| row.map(i32::from));
    args.zero = zero.map(i32::from);
    args.color_shift = shift;
    args.use_u16 = u32::from(coefficients.use_u16);
    (args.bias, args.fill) = (bias, fill);
    (args.bias_constant, args.bias_mean_factors) =
        (coefficients.bias.constant, coefficients.bias.mean_factors);
    (args.fill_constant, args.fill_mean_factors) =
        (coefficients.fill.constant, coefficients.fill.mean_factors);
    debug_assert!(coefficients.model != ComponentModel::Gray || args.component_count == 1);
}
