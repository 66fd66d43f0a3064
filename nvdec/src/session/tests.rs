//! In: scripts of what a parser calls back, and a GPU whose pictures are labels.
//! Out: what a run makes of them.
//! Never: needs a driver.

mod harness;
mod reordered;
mod sequences;
mod without_reordering;
