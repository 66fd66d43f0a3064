//! Clip samplers that reproduce the frame indices of other codebases, with the options named as there.
//! Each file follows the published formulas of one codebase, including its floating-point rounding and its
//! errors.

#[cfg(test)]
mod bounds_tests;
mod common;
pub mod cosmos_curate;
pub mod dali;
pub mod ffmpeg_fps;
mod fraction;
pub mod hf;
pub mod internvideo2;
pub mod lerobot;
pub mod mmaction2;
mod numpy_compat;
pub mod pytorchvideo;
pub mod qwen_vl;
pub mod slowfast;
#[cfg(test)]
mod tests;
pub mod torchcodec;
pub mod torchvision;
pub mod tsn;
pub mod videomae;
pub mod vjepa2;

pub use fraction::Seconds;
