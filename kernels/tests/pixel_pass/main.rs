//! In: made-up pictures in every format the crate takes.
//! Out: proof that the pass equals its contract, stays near the exact answer, and refuses what is malformed.
//! Never: needs files, a GPU or a particular machine.

mod accuracy;
mod accuracy_transforms;
mod behavior;
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
