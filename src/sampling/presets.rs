//! In: the options of another codebase's sampling, by its own names. Out: rules that give its indices.
//! One file for each codebase, with the published formulas; arithmetic follows the original, float for float.
//! Never: improves on what it reproduces.

mod arithmetic;
#[cfg(test)]
mod bounds_tests;
pub mod cosmos_curate;
pub mod dali;
mod exact;
pub mod hf;
pub mod lerobot;
pub mod pytorchvideo;
pub mod qwen_vl;
mod shared;
pub mod torchcodec;
pub mod torchvision;

pub use exact::Seconds;
