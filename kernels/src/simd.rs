//! In: the bodies of the row routines in plain Rust, and for some a twin in instructions (`x86`).
//! Out: the same routines compiled for each instruction set, behind a `Backend` that proves the machine has it.
//! Never: defines a value: the plain bodies do, and each twin is held against the integer oracle like them.

// Calls functions compiled for more instructions than the build assumes.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::color::{self, FrameColors};
use crate::finish::Channels;
use crate::geometry::Placement;
use crate::resample::{self, SampleFormat};
use crate::tone::{self, Tone};
use crate::warp::{self, Line, Window};
use crate::weights::AxisTable;
use crate::write::{OutSlot, Tile, Writer};

/// A set of instructions that this machine has: holding one is the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Backend {
    /// What the build target assumes; always there.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// The fastest on this machine.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::portable())
    }

    /// All that this machine can run, slowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)] // elsewhere than on x86-64 there is one
        let mut all = vec![Self::portable()];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") {
                all.push(Self(Kind::Avx2));
                // Without the last two (before Ice Lake and Zen 4) there is nothing to gain.
                let basic = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                if basic && has!("avx512vbmi") && has!("avx512vnni") {
                    all.push(Self(Kind::Avx512));
                }
            }
        }
        all
    }

    /// `portable`, `avx2` or `avx512`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }
}

/// Name of the backend that new passes use on this machine.
pub fn backend_name() -> &'static str {
    Backend::detect().name()
}

/// Compiles a body for every backend and picks at run time; routines named behind it serve AVX2 and AVX-512, or AVX-512
/// alone.
macro_rules! on_each_backend {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path $(, x86 $special:path)? $(, avx512 $wide:path)?;)*) => {
        impl Backend {
            $(pub(crate) fn $name(self, $($arg: $type),*) {
                match self.0 {
                    Kind::Portable => $body($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2 => {
                        #[target_feature(enable = "avx2,fma")]
                        fn avx2($($arg: $type),*) {
                            on_each_backend!(@pick $body $(, $special)?)($($arg),*)
                        }
                        // SAFETY: `Kind::Avx2` is made only by `available`, after the machine reported these.
                        unsafe { avx2($($arg),*) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx512 => {
                        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
                        fn avx512($($arg: $type),*) {
                            on_each_backend!(@pick $body $(, $special)? $(, $wide)?)($($arg),*)
                        }
                        // SAFETY: `Kind::Avx512` is made only by `available`, after the machine reported these.
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

on_each_backend! {
    fn blend_u8(dst: &mut [i16], src: &[u8], stride: usize, weights: &[i16], ahead: usize) = resample::blend_u8, x86 x86::blend::blend_u8, avx512 x86::blend::blend_u8_512;
    fn blend_u16(dst: &mut [i16], src: &[u8], stride_bytes: usize, weights: &[i16], format: SampleFormat) = resample::blend_u16, x86 x86::blend::blend_u16;
    fn pick(dst: &mut [i16], src: &[i16], step: usize, offset: usize) = resample::pick;
    fn convolve(dst: &mut [i16], src: &[i16], table: &AxisTable) = resample::convolve;
    fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], colors: &FrameColors) = color::yuv_row;
    fn full_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameColors) = color::full_row, x86 x86::full_row;
    fn full_packed(out: &mut [u8], yuv: [&[u8]; 3], colors: &FrameColors) = color::full_packed, x86 x86::full_packed;
    fn mix_row(rgb: [&mut [u8]; 3], components: [&[i16]; 3], colors: &FrameColors) = color::mix_row;
    fn wide_row(rgb: [&mut [u16]; 3], components: [&[i16]; 3], colors: &FrameColors) = color::wide_row;
    fn map_row(out: [&mut [i16]; 3], codes: [&[u16]; 3], tone: &Tone) = tone::map_row;
    fn write_wide(writer: &Writer, rgb: [&[u16]; 3], channels: Channels, slot: &mut OutSlot<'_>, placement: Placement, j: usize) = Writer::wide_row;
    fn single_row(out: &mut [u8], values: &[i16], colors: &FrameColors) = color::single_row;
    fn nearest_row(out: [&mut [i16]; 3], window: &Window<'_>, line: &Line, first: usize, components: usize) = warp::nearest_row;
    fn bilinear_row(out: [&mut [i16]; 3], window: &Window<'_>, line: &Line, first: usize, components: usize) = warp::bilinear_row, x86 x86::bilinear_row;
    fn write_row(writer: &Writer, rgb: [&mut [u8]; 3], channels: Channels, slot: &mut OutSlot<'_>, placement: Placement, j: usize) = Writer::row, x86 x86::write_row;
    fn write_turned(writer: &Writer, tile: Tile<'_>, channels: Channels, slot: &mut OutSlot<'_>, placement: Placement, j: usize) = Writer::turned, x86 x86::write_turned;
}

/// Rows that [`Blocks`] convolves together.
pub(crate) const BLOCK_ROWS: usize = 16;

/// The horizontal pass of sixteen rows together: same values, fewer instructions. Holding one is the proof that the machine can.
#[derive(Clone, Copy)]
pub(crate) struct Blocks(Kind);

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
impl Blocks {
    /// Rows `stride` apart (a multiple of 16) to pairs of neighbours, as [`convolve`](Self::convolve) takes them.
    pub(crate) fn pair_up(self, pairs: &mut [i16], rows: &[i16], stride: usize) {
        match self.0 {
            Kind::Portable => unreachable!("`blocks` gives none"),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both are made only by `available`, after the machine reported AVX2.
            Kind::Avx2 | Kind::Avx512 => unsafe { x86::block::pair_up(pairs, rows, stride) },
        }
    }

    /// The horizontal pass, to rows `stride` apart, a multiple of 8 that is no less than the positions.
    pub(crate) fn convolve(self, rows: &mut [i16], stride: usize, pairs: &[i16], table: &AxisTable) {
        match self.0 {
            Kind::Portable => unreachable!("`blocks` gives none"),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kind::Avx2` is made only by `available`, after the machine reported AVX2.
            Kind::Avx2 => unsafe { x86::block::convolve(rows, stride, pairs, table) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kind::Avx512` is made only by `available`, after the machine reported all that is used.
            Kind::Avx512 => unsafe { x86::block::convolve_512(rows, stride, pairs, table) },
        }
    }
}

impl Backend {
    /// Whether rows can be convolved sixteen at a time.
    pub(crate) fn blocks(self) -> Option<Blocks> {
        (self.0 != Kind::Portable).then_some(Blocks(self.0))
    }

    /// The sum of at most 2^15 components.
    pub(crate) fn sum(self, values: &[i16]) -> i32 {
        values.iter().map(|&value| i32::from(value)).sum()
    }
}
