//! In: shapes of clips.
//! Out: memory for a batch: one block, of which each clip's part is written by its own worker.
//! Never: two owners of one byte.

mod slab;

pub use slab::{Lent, Part, Pool, Slab};
