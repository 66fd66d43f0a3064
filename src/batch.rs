//! In: shapes of clips.
//! Out: memory for a batch, on the host or a device: one block, of which each clip's part is written by its own worker.
//! Never: two owners of one byte.

mod block;
mod slab;
mod tracks;

pub use block::Pool;
pub use slab::{Lent, Part, Slab};
pub use tracks::{Spot, Target, Tracks};
