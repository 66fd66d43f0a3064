//! In: the options of another codebase's sampling, by its own names. Out: rules that give its indices.
//! One file for each codebase, with the published formulas; arithmetic follows the original, float for float.
//! Never: improves on what it reproduces.

mod arithmetic;
pub mod internvideo2;
pub mod mmaction2;
mod shared;
pub mod slowfast;
#[cfg(test)]
mod tests;
pub mod tsn;
pub mod videomae;
pub mod vjepa2;
