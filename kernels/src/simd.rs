//! In: the bodies of the row routines, written once in plain Rust.
//! Out: the same routines compiled for each instruction set, behind a `Backend` that proves the machine has it.
//! Never: contains arithmetic of its own, so no backend can differ from another.

// The one place with `unsafe`: calling a function compiled for more instructions than the build assumes.
#![allow(unsafe_code)]

use crate::colour::{self, Coefficients};
use crate::geometry::Placement;
use crate::resample::{self, SampleFormat};
use crate::weights::AxisTable;
use crate::write::{OutSlot, Writer};

/// A set of instructions that this machine has: holding one is the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Backend {
    /// What the build target assumes; always there.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// The fastest on this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        Self::portable()
    }

    /// All that this machine can run, slowest first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::portable()];
        if Self::detect() != Self::portable() {
            all.push(Self::detect());
        }
        all
    }

    /// `portable` or `avx2`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
        }
    }
}

/// Name of the backend that new passes use on this machine.
pub fn backend_name() -> &'static str {
    Backend::detect().name()
}

/// Compiles a body for every backend and picks at run time.
macro_rules! on_each_backend {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path;)*) => {
        impl Backend {
            $(pub(crate) fn $name(self, $($arg: $type),*) {
                match self.0 {
                    Kind::Portable => $body($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2 => {
                        #[target_feature(enable = "avx2")]
                        fn avx2($($arg: $type),*) {
                            $body($($arg),*)
                        }
                        // SAFETY: `Kind::Avx2` is made only by `detect`, after the machine reported AVX2.
                        unsafe { avx2($($arg),*) }
                    }
                }
            })*
        }
    };
}

on_each_backend! {
    fn blend_u8(dst: &mut [i16], src: &[u8], stride: usize, weights: &[i16]) = resample::blend_u8;
    fn blend_u16(dst: &mut [i16], src: &[u8], stride_bytes: usize, weights: &[i16], format: SampleFormat) = resample::blend_u16;
    fn pick(dst: &mut [i16], src: &[i16], step: usize, offset: usize) = resample::pick;
    fn convolve(dst: &mut [i16], src: &[i16], table: &AxisTable) = resample::convolve;
    fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], coefficients: Coefficients) = colour::yuv_row;
    fn single_row(out: &mut [u8], values: &[i16], coefficients: Coefficients) = colour::single_row;
    fn write_row(writer: &Writer, rgb: [&mut [u8]; 3], slot: &mut OutSlot<'_>, placement: Placement, j: usize) = Writer::row;
}
