//! In: made-up pictures, and the CUDA kernels compiled as C++ (feature `shim`).
//! Out: proof that they equal the contract byte for byte, write nothing else, and refuse what the pass on the CPU refuses.
//! Never: needs a GPU. What only a GPU can show is in ../../cuda/README.md.

mod equality;
mod errors;
mod host;
mod lut;

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
