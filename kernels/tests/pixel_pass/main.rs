//! Tests the pass on synthetic frames in every supported format: it equals its contract, is close
//! to the exact result, and rejects malformed requests. No files, GPU or particular machine are
//! needed.

mod accuracy;
mod accuracy_transforms;
mod behavior;
mod deinterlace;
mod equality;
mod errors;
mod extremes;
mod geometry;
mod invalid_input;
mod mutator;
mod output;
mod strategies;
mod strategies_output;
mod support;
