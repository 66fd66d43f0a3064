//! Allocates batch buffers on the host or a device: one block per batch, with one clip slot for
//! each clip. Each byte has one writer at a time.

mod buffer;
mod heap_block;
mod host_cache;
mod pool;
mod stream_order;

pub use buffer::{BatchBuffer, BufferBuilder, ClipSlot};
pub(crate) use host_cache::poison;
pub use pool::MemoryPool;
pub use stream_order::{DeviceSliceMut, OutputMut, StreamOrder};
