//! In: made-up pictures in every format the crate takes.
//! Out: proof that the pass equals its contract, stays near the exact answer, and refuses what is malformed.
//! Never: needs files, a GPU or a particular machine.

mod accuracy;
mod accuracy_changes;
mod claims;
mod damage;
mod equality;
mod extremes;
mod finishes;
mod nonsense;
mod places;
mod refusals;
mod strategies;
mod strategies_finish;
mod support;
