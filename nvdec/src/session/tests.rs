//! Tests decoding passes with scripted parser callbacks and a fake GPU whose pictures are labels.
//! They need no driver.

mod harness;
mod reordered;
mod sequences;
mod without_reordering;
