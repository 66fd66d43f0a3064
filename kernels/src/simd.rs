//! Compiles the row functions for each instruction set, behind a `Backend` that guarantees the
//! machine supports it. Some have an implementation with intrinsics (`x86`, `neon`). All are
//! compared with the integer reference.

// Calls functions compiled for more instructions than the build assumes.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::color::{self, FrameCoefficients};
use crate::operation_rows;
use crate::resample::{self, SampleFormat};
use crate::tone_map::{self, ToneTables};
use crate::types::{Channels, OutputStrides};
use crate::warp::{self, WarpRow, WindowPlanes};
use crate::weights::AxisTable;
use crate::write::{ElementWriter, OutputSlot, TransposeTile};

/// An instruction set that this machine supports; only supported ones can be constructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(InstructionSet);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionSet {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Backend {
    /// The build target's instructions; always available.
    pub const fn portable() -> Self {
        Self(InstructionSet::Portable)
    }

    /// The fastest one on this machine.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::portable())
    }

    /// All that this machine supports, slowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)] // on other processors there is only one
        let mut all = vec![Self::portable()];
        #[cfg(target_arch = "aarch64")]
        all.push(Self(InstructionSet::Neon));
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                all.push(Self(InstructionSet::Avx2));
                // Without the last two (before Ice Lake and Zen 4) there is no gain.
                let basic =
                    has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                if basic && has!("avx512vbmi") && has!("avx512vnni") {
                    all.push(Self(InstructionSet::Avx512));
                }
            }
        }
        all
    }

    /// `portable`, `neon`, `avx2` or `avx512`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            InstructionSet::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => "avx512",
        }
    }
}

/// Name of the backend that new passes use on this machine.
pub fn backend_name() -> &'static str {
    Backend::detect().name()
}

/// Compiles a function for every backend and selects one at run time. Functions listed after it
/// implement AVX2 and AVX-512, AVX-512 alone, or NEON.
macro_rules! dispatch_to_backends {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path $(, x86 $special:path)? $(, avx512 $wide:path)? $(, neon $neon:path)?;)*) => {
        impl Backend {
            $(pub(crate) fn $name(self, $($arg: $type),*) {
                match self.0 {
                    InstructionSet::Portable => $body($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    InstructionSet::Neon => {
                        #[target_feature(enable = "neon")]
                        fn neon($($arg: $type),*) {
                            dispatch_to_backends!(@pick $body $(, $neon)?)($($arg),*)
                        }
                        // SAFETY: every AArch64 processor has NEON.
                        unsafe { neon($($arg),*) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => {
                        #[target_feature(enable = "avx2,fma,f16c")]
                        fn avx2($($arg: $type),*) {
                            dispatch_to_backends!(@pick $body $(, $special)?)($($arg),*)
                        }
                        // SAFETY: `InstructionSet::Avx2` is made only by `available`, after the
                        // machine reported these.
                        unsafe { avx2($($arg),*) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => {
                        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
                        fn avx512($($arg: $type),*) {
                            dispatch_to_backends!(@pick $body $(, $special)? $(, $wide)?)($($arg),*)
                        }
                        // SAFETY: `InstructionSet::Avx512` is made only by `available`, after the
                        // machine reported these.
                        unsafe { avx512($($arg),*) }
                    }
                }
            })*
        }
    };
    (@pick $body:path) => { $body };
    (@pick $body:path, $special:path) => { $special };
    (@pick $body:path, $special:path, $wide:path) => { $wide };
}

dispatch_to_backends! {
    fn filter_vertical_u8(dst: &mut [i16], src: &[u8], stride: usize, weights: &[i16], ahead: usize) = resample::filter_vertical_u8, x86 x86::vertical::filter_vertical_u8, avx512 x86::vertical::filter_vertical_u8_avx512, neon neon::vertical::filter_vertical_u8;
    fn filter_vertical_u16(dst: &mut [i16], src: &[u8], stride_bytes: usize, weights: &[i16], format: SampleFormat) = resample::filter_vertical_u16, x86 x86::vertical::filter_vertical_u16, neon neon::vertical::filter_vertical_u16;
    fn extract_component(dst: &mut [i16], src: &[i16], step: usize, offset: usize) = resample::extract_component;
    fn filter_horizontal(dst: &mut [i16], src: &[i16], table: &AxisTable) = resample::filter_horizontal;
    fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], colors: &FrameCoefficients) = color::yuv_row;
    fn unscaled_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameCoefficients) = color::unscaled_row, x86 x86::unscaled_row, neon neon::unscaled_row;
    fn unscaled_packed(out: &mut [u8], yuv: [&[u8]; 3], colors: &FrameCoefficients, streaming: bool) = color::unscaled_packed, x86 x86::unscaled_packed, neon neon::unscaled_packed;
    fn matrix_row(rgb: [&mut [u8]; 3], components: [&[i16]; 3], colors: &FrameCoefficients) = color::matrix_row;
    fn matrix_row_u16(rgb: [&mut [u16]; 3], components: [&[i16]; 3], colors: &FrameCoefficients) = color::matrix_row_u16;
    fn map_row(out: [&mut [i16]; 3], codes: [&[u16]; 3], tone: &ToneTables) = tone_map::map_row;
    fn write_row_u16(writer: &ElementWriter, rgb: [&[u16]; 3], channels: Channels, slot: &mut OutputSlot<'_>, strides: OutputStrides, j: usize) = ElementWriter::write_row_u16, x86 x86::elements::write_row_u16, neon neon::elements::write_row_u16;
    fn expand_range_row(out: &mut [u8], values: &[i16], colors: &FrameCoefficients) = color::expand_range_row;
    fn nearest_row(out: [&mut [i16]; 3], window: &WindowPlanes<'_>, line: &WarpRow, first: usize, components: usize) = warp::nearest_row;
    fn bilinear_row(out: [&mut [i16]; 3], window: &WindowPlanes<'_>, line: &WarpRow, first: usize, components: usize) = warp::bilinear_row, x86 x86::bilinear_row, neon neon::bilinear_row;
    fn write_row(writer: &ElementWriter, rgb: [&mut [u8]; 3], channels: Channels, slot: &mut OutputSlot<'_>, strides: OutputStrides, j: usize) = ElementWriter::write_row, x86 x86::write_row, neon neon::elements::write_row;
    fn write_codes(writer: &ElementWriter, codes: &[u8], channels: (usize, usize), out: &mut [u8], streaming: bool) = ElementWriter::write_codes, x86 x86::elements::write_codes, neon neon::elements::write_codes;
    fn rotate_hue(rgb: [&mut [u8]; 3], shift: i32) = operation_rows::rotate_hue;
    fn sharpen_row(out: &mut [u8], rows: [&[u8]; 3], amount: i32) = operation_rows::sharpen_row;
    fn blur_row(out: &mut [u16], padded: &[u8], weights: &[u32]) = operation_rows::blur_row;
    fn blur_column(out: &mut [u8], plane: &[u16], span: (isize, usize), weights: &[u32]) = operation_rows::blur_column;
    fn write_transposed(writer: &ElementWriter, tile: TransposeTile<'_>, channels: Channels, slot: &mut OutputSlot<'_>, strides: OutputStrides, j: usize) = ElementWriter::write_transposed, x86 x86::write_transposed, neon neon::write_transposed;
}

/// Number of rows that [`RowBlock16`] filters together.
pub(crate) const BLOCK_ROWS: usize = 16;

/// The horizontal pass of sixteen rows together: same values, fewer instructions. Only supported
/// machines can construct it.
#[derive(Clone, Copy)]
pub(crate) struct RowBlock16(InstructionSet);

#[cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "x86_64")),
    allow(unused_variables)
)]
impl RowBlock16 {
    /// Interleaves rows `stride` apart (a multiple of 16) as
    /// [`filter_horizontal`](Self::filter_horizontal) reads them.
    pub(crate) fn interleave(self, block: &mut [i16], rows: &[i16], stride: usize) {
        match self.0 {
            InstructionSet::Portable => unreachable!("`row_block` returns none"),
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every AArch64 processor has NEON.
            InstructionSet::Neon => unsafe {
                neon::horizontal::transpose_rows(block, rows, stride)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both are made only by `available`, after the machine reported AVX2.
            InstructionSet::Avx2 | InstructionSet::Avx512 => unsafe {
                x86::horizontal::interleave_pairs(block, rows, stride)
            },
        }
    }

    /// The horizontal pass, to rows `stride` apart, a multiple of 8 that is at least the number of
    /// positions.
    pub(crate) fn filter_horizontal(
        self,
        rows: &mut [i16],
        stride: usize,
        block: &[i16],
        table: &AxisTable,
    ) {
        match self.0 {
            InstructionSet::Portable => unreachable!("`row_block` returns none"),
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every AArch64 processor has NEON.
            InstructionSet::Neon => unsafe {
                neon::horizontal::filter_horizontal(rows, stride, block, table)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `InstructionSet::Avx2` is made only by `available`, after the machine
            // reported AVX2.
            InstructionSet::Avx2 => unsafe {
                x86::horizontal::filter_horizontal(rows, stride, block, table)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `InstructionSet::Avx512` is made only by `available`, after the machine
            // reported all that is used.
            InstructionSet::Avx512 => unsafe {
                x86::horizontal::filter_horizontal_avx512(rows, stride, block, table)
            },
        }
    }
}

impl Backend {
    /// Whether rows can be filtered sixteen at a time.
    pub(crate) fn row_block(self) -> Option<RowBlock16> {
        (self.0 != InstructionSet::Portable).then_some(RowBlock16(self.0))
    }

    /// Orders streaming stores before the stores that follow, so that other threads find the
    /// elements.
    pub(crate) fn fence(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `sfence` is part of SSE, which every x86-64 processor has.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }

    /// The sum of at most 2^15 components.
    pub(crate) fn sum(self, values: &[i16]) -> i32 {
        values.iter().map(|&value| i32::from(value)).sum()
    }
}
