//! Pools the decoders of a device: on an H200 creating one takes 34 to 93 ms, reconfiguring one
//! 0.04 to 0.13 ms. A decoder has one user at a time, and none is destroyed at process exit, when
//! the driver may already be gone.

pub(crate) mod decoder;
pub(crate) mod decoder_cache;
pub(crate) mod decoder_config;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::caps;
use crate::cuda::Device;
use crate::format::StreamFormat;
use crate::{Error, Result};

use decoder::{CuvidFactory, Decoder};
use decoder_cache::{CacheOutcome, CachedDecoder, DecoderCache};
use decoder_config::DecoderConfig;

/// The decoders of one device, shared by all sessions of the process.
pub struct DecoderPool {
    device: Arc<Device>,
    cache: DecoderCache<CuvidFactory>,
}

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Decoders created.
    pub created: u64,
    /// Decoders reused without change.
    pub reused: u64,
    /// Decoders reconfigured for another size.
    pub reconfigured: u64,
    /// Decoders destroyed to free memory.
    pub evicted: u64,
    /// Decoders that are currently unused.
    pub idle: u64,
    /// Estimated memory of all decoders, idle or in use.
    pub bytes: u64,
}

impl DecoderPool {
    /// Returns the pool of a device. All decoders, idle or in use, may take a quarter of the
    /// device's memory; those in use are kept even above that.
    ///
    /// # Errors
    /// Fails if the device has no usable video engines, or does not respond.
    pub fn for_device(device: &Arc<Device>) -> Result<Arc<DecoderPool>> {
        // Stored in a static, which is never dropped: at process exit, decoders are left to the
        // driver.
        static POOLS: Mutex<BTreeMap<u32, Arc<DecoderPool>>> = Mutex::new(BTreeMap::new());
        let (_, total_bytes) = device.memory_info()?;
        let factory = CuvidFactory::new(device)?;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(device.ordinal()).or_insert_with(|| {
            Arc::new(DecoderPool {
                device: device.clone(),
                cache: DecoderCache::new(factory, total_bytes / 4),
            })
        });
        Ok(pool.clone())
    }

    /// Destroys all idle decoders, to free memory for other purposes; returns how many there were.
    pub fn clear(&self) -> usize {
        self.cache.clear()
    }

    /// Statistics up to now.
    pub fn stats(&self) -> PoolStats {
        self.cache.stats()
    }

    /// Returns a decoder for a stream.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason; [`Error::OutOfMemory`] if memory does not suffice
    /// even after all idle decoders were destroyed.
    pub(crate) fn take(
        &self,
        want: &StreamFormat,
    ) -> Result<(CachedDecoder<Decoder>, CacheOutcome)> {
        let caps = caps::query(&self.device, want.codec, want.chroma, want.depth_bits)?;
        caps.check(want)
            .map_err(|reason| Error::Unsupported { reason })?;
        self.cache
            .take(want, DecoderConfig::for_stream(want, &caps))
    }

    /// Reconfigures a decoder for another stream that it fits.
    pub(crate) fn reconfigure(
        &self,
        cached: &mut CachedDecoder<Decoder>,
        want: &StreamFormat,
    ) -> Result<()> {
        let caps = caps::query(&self.device, want.codec, want.chroma, want.depth_bits)?;
        caps.check(want)
            .map_err(|reason| Error::Unsupported { reason })?;
        self.cache.reconfigure(cached, want)
    }

    /// Returns a valid decoder to the pool.
    pub(crate) fn put(&self, cached: CachedDecoder<Decoder>) {
        self.cache.put(cached);
    }
}
