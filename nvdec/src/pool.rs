//! In: what a stream needs, and decoders that are free again.
//! Out: a decoder that is set up for it, at the least cost: 60 ms to make one, 5 to reconfigure it, none to keep it.
//! Never: shares a decoder between two users at a time, or destroys one at the process's end: the driver may be gone.

pub(crate) mod decoder;
pub(crate) mod shape;
pub(crate) mod shelf;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::caps;
use crate::cuda::Device;
use crate::format::StreamFormat;
use crate::{Error, Result};

use decoder::{Decoder, Maker};
use shape::Shape;
use shelf::{Origin, Pooled, Shelf};

/// The decoders of one device, shared by every session of the process.
pub struct DecoderPool {
    device: Arc<Device>,
    shelf: Shelf<Maker>,
}

/// What became of decoders so far, and what is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Made.
    pub created: u64,
    /// Taken as they were.
    pub reused: u64,
    /// Set up for another size.
    pub reconfigured: u64,
    /// Destroyed to make room.
    pub evicted: u64,
    /// Free at the moment.
    pub idle: u64,
    /// Weight of all, idle or in use, estimated.
    pub bytes: u64,
}

impl DecoderPool {
    /// The pool of a device. It may hold a quarter of the device's memory.
    ///
    /// # Errors
    /// Where the device has no video engines that can be used, or does not answer.
    pub fn of(device: &Arc<Device>) -> Result<Arc<DecoderPool>> {
        // In a static, which is never dropped: decoders are left to the driver at the end.
        static POOLS: Mutex<BTreeMap<u32, Arc<DecoderPool>>> = Mutex::new(BTreeMap::new());
        let (_, total_bytes) = device.memory()?;
        let maker = Maker::new(device)?;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(device.ordinal()).or_insert_with(|| {
            Arc::new(DecoderPool { device: device.clone(), shelf: Shelf::new(maker, total_bytes / 4) })
        });
        Ok(pool.clone())
    }

    /// How many bytes decoders may weigh, those in use included; these stay, whatever the limit.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.shelf.set_limit_bytes(bytes);
    }

    /// Destroys the decoders that nobody uses, because memory is needed elsewhere; answers how many there were.
    pub fn clear(&self) -> usize {
        self.shelf.clear()
    }

    /// What happened so far.
    pub fn counts(&self) -> PoolCounts {
        self.shelf.counts()
    }

    /// A decoder for a stream.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in words, [`Error::OutOfMemory`] after idle decoders were destroyed in vain.
    pub(crate) fn take(&self, want: &StreamFormat) -> Result<(Pooled<Decoder>, Origin)> {
        let caps = caps::of(&self.device, want.codec, want.chroma, want.depth_bits)?;
        caps.check(want).map_err(|reason| Error::Unsupported { reason })?;
        self.shelf.take(want, Shape::of(want, &caps))
    }

    /// Sets a decoder up for another stream that it fits.
    pub(crate) fn reconfigure(&self, pooled: &mut Pooled<Decoder>, want: &StreamFormat) -> Result<()> {
        let caps = caps::of(&self.device, want.codec, want.chroma, want.depth_bits)?;
        caps.check(want).map_err(|reason| Error::Unsupported { reason })?;
        self.shelf.reconfigure(pooled, want)
    }

    /// Gives a sound decoder back.
    pub(crate) fn put(&self, pooled: Pooled<Decoder>) {
        self.shelf.put(pooled);
    }
}
