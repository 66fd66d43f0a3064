//! In: made-up pictures in every format the crate takes.
//! Out: proof that the pass equals its contract, stays near the exact answer, and refuses what is malformed.
//! Never: needs files, a GPU or a particular machine.

mod accuracy;
mod claims;
mod equality;
mod refusals;
mod support;
