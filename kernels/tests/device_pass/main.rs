//! Tests the CUDA kernels, compiled as C++ (feature `shim`), on synthetic frames: they equal the
//! contract byte for byte, write nothing else, and reject what the CPU pass rejects. No GPU is
//! needed; ../../cuda/README.md lists what only a GPU can show.

mod deinterlace;
mod equality;
mod errors;
mod host;
mod lut;
mod rgb_operation;

#[allow(dead_code)] // shared with the tests of the CPU
#[path = "../pixel_pass/mutator.rs"]
mod mutator;
#[allow(dead_code)]
#[path = "../pixel_pass/strategies.rs"]
mod strategies;
#[allow(dead_code)]
#[path = "../pixel_pass/strategies_output.rs"]
mod strategies_output;
#[allow(dead_code)]
#[path = "../pixel_pass/support.rs"]
mod support;
