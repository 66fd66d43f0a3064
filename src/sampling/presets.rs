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
pub mod internvideo2;
pub mod lerobot;
pub mod mmaction2;
pub mod pytorchvideo;
pub mod qwen_vl;
mod shared;
pub mod slowfast;
#[cfg(test)]
mod tests;
pub mod torchcodec;
pub mod torchvision;
pub mod tsn;
pub mod videomae;
pub mod vjepa2;

pub use exact::Seconds;
