//! Runs on scripts: what a parser calls back, and a GPU whose pictures are labels.

mod gpu;
mod reordered;
mod sequences;
mod shown_as_coded;
