//! Keeps idle decoders, finds one that fits a stream, and evicts the least recently used ones if
//! memory is short. The lock of the list is not held while a decoder is created, reconfigured or
//! destroyed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PoolStats;
use super::decoder_config::{Compatibility, DecoderConfig};
use crate::format::StreamFormat;
use crate::{Error, Result};

/// Creates decoders. A decoder is destroyed when dropped.
pub(crate) trait DecoderFactory {
    type Decoder: Send;
    fn create(&self, config: &DecoderConfig) -> Result<Self::Decoder>;
    /// Sets another coded size, within the maximum that the decoder was created for.
    fn reconfigure(&self, decoder: &mut Self::Decoder, config: &DecoderConfig) -> Result<()>;
}

/// A decoder, its configuration, and its share of the memory that the pool counts.
pub(crate) struct CachedDecoder<D> {
    pub decoder: D,
    pub config: DecoderConfig,
    share: MemoryShare,
}

/// Memory that is counted until this is dropped, wherever the decoder is.
struct MemoryShare {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a decoder was obtained for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheOutcome {
    Reused,
    Reconfigured,
    Created,
}

pub(crate) struct DecoderCache<M: DecoderFactory> {
    factory: M,
    limit_bytes: u64,
    /// Bytes of all decoders, idle or in use.
    bytes: Arc<AtomicU64>,
    inner: Mutex<CacheState<M::Decoder>>,
    /// Held by the thread that creates a decoder again after it found no memory.
    retry: Mutex<()>,
}

struct CacheState<D> {
    /// Least recently used first.
    idle: Vec<CachedDecoder<D>>,
    stats: PoolStats,
}

impl<M: DecoderFactory> DecoderCache<M> {
    pub(crate) fn new(factory: M, limit_bytes: u64) -> DecoderCache<M> {
        let inner = CacheState {
            idle: Vec::new(),
            stats: PoolStats::default(),
        };
        DecoderCache {
            factory,
            limit_bytes,
            bytes: Arc::default(),
            inner: Mutex::new(inner),
            retry: Mutex::default(),
        }
    }

    /// Returns a decoder for a stream; `shape` is the one to create if none fits.
    pub(crate) fn take(
        &self,
        want: &StreamFormat,
        config: DecoderConfig,
    ) -> Result<(CachedDecoder<M::Decoder>, CacheOutcome)> {
        let found = self.find(want, &config);
        if let Some(mut cached) = found {
            if cached.config.compatibility(want) == Compatibility::Reuse {
                self.lock().stats.reused += 1;
                return Ok((cached, CacheOutcome::Reused));
            }
            match self.reconfigure(&mut cached, want) {
                Ok(()) => return Ok((cached, CacheOutcome::Reconfigured)),
                Err(error) if error.is_lost() => return Err(error),
                // A decoder that cannot be reconfigured is dropped, and another one is created.
                Err(_) => drop(cached),
            }
        }
        Ok((self.create(config)?, CacheOutcome::Created))
    }

    /// Reconfigures a decoder for another stream that it fits.
    pub(crate) fn reconfigure(
        &self,
        cached: &mut CachedDecoder<M::Decoder>,
        want: &StreamFormat,
    ) -> Result<()> {
        let config = DecoderConfig {
            format: *want,
            ..cached.config
        };
        self.factory.reconfigure(&mut cached.decoder, &config)?;
        cached.config = config;
        self.lock().stats.reconfigured += 1;
        Ok(())
    }

    /// Returns a valid decoder to the pool. If the pool exceeds its limit, the least recently used
    /// decoders are destroyed.
    pub(crate) fn put(&self, cached: CachedDecoder<M::Decoder>) {
        self.lock().idle.push(cached);
        drop(self.evict_down_to(self.limit_bytes));
    }

    /// Destroys all idle decoders; returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        self.evict_down_to(0).len()
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let inner = self.lock();
        let (idle, bytes) = (inner.idle.len() as u64, self.bytes.load(Ordering::Relaxed));
        PoolStats {
            idle,
            bytes,
            ..inner.stats
        }
    }

    /// The most recently used idle decoder that fits unchanged, or else the most recently used one
    /// that can be reconfigured and has the same maximum size.
    fn find(
        &self,
        want: &StreamFormat,
        config: &DecoderConfig,
    ) -> Option<CachedDecoder<M::Decoder>> {
        let mut inner = self.lock();
        let kept = inner
            .idle
            .iter()
            .rposition(|cached| cached.config.compatibility(want) == Compatibility::Reuse);
        let position = kept.or_else(|| {
            inner.idle.iter().rposition(|cached| {
                cached.config.max_size == config.max_size
                    && cached.config.compatibility(want) == Compatibility::Reconfigure
            })
        });
        position.map(|position| inner.idle.remove(position))
    }

    fn create(&self, config: DecoderConfig) -> Result<CachedDecoder<M::Decoder>> {
        let bytes = config.estimated_bytes();
        drop(self.evict_down_to(self.limit_bytes.saturating_sub(bytes)));
        let evicted = self.lock().stats.evicted;
        let decoder = match self.factory.create(&config) {
            Err(error) if error.is_out_of_memory() => {
                // Idle decoders may occupy the memory that is missing; another thread that also
                // found none may be destroying them now.
                let _turn = self.retry.lock().unwrap_or_else(PoisonError::into_inner);
                self.clear();
                match self.lock().stats.evicted != evicted {
                    true => self.factory.create(&config),
                    false => Err(error),
                }
            }
            other => other,
        };
        let decoder = decoder.map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory {
                what: format!("a decoder ({})", config.name()),
                bytes,
            },
            other => other,
        })?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lock().stats.created += 1;
        Ok(CachedDecoder {
            decoder,
            config,
            share: MemoryShare {
                bytes,
                all: self.bytes.clone(),
            },
        })
    }

    /// Removes the least recently used idle decoders until the total is at most `bytes`, or none is
    /// idle. They are destroyed when the caller drops them.
    #[must_use]
    fn evict_down_to(&self, bytes: u64) -> Vec<CachedDecoder<M::Decoder>> {
        let mut inner = self.lock();
        let mut remaining = self.bytes.load(Ordering::Relaxed);
        let is_over = |cached: &&CachedDecoder<M::Decoder>| {
            let over = remaining > bytes;
            remaining = remaining.saturating_sub(cached.memory_bytes());
            over
        };
        let count = inner.idle.iter().take_while(is_over).count();
        inner.stats.evicted += count as u64;
        inner.idle.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<M::Decoder>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> CachedDecoder<D> {
    fn memory_bytes(&self) -> u64 {
        self.share.bytes
    }
}
