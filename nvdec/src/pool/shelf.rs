//! Keeps idle decoders, finds one that fits a stream, and evicts the least recently used ones if memory is
//! short.
//! The lock is not held while a decoder is created, reconfigured or destroyed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shape::{Fit, Shape};
use super::PoolCounts;
use crate::format::StreamFormat;
use crate::{Error, Result};

/// Creates decoders. A decoder is destroyed when dropped.
pub(crate) trait Make {
    type Decoder: Send;
    fn create(&self, shape: &Shape) -> Result<Self::Decoder>;
    /// Sets another coded size, within the maximum that the decoder was created for.
    fn reconfigure(&self, decoder: &mut Self::Decoder, shape: &Shape) -> Result<()>;
}

/// A decoder, its configuration, and its share of the memory that the pool counts.
pub(crate) struct Pooled<D> {
    pub decoder: D,
    pub shape: Shape,
    share: Share,
}

/// Memory that is counted until this is dropped, wherever the decoder is.
struct Share {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a decoder was obtained for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Reused,
    Reconfigured,
    Created,
}

pub(crate) struct Shelf<M: Make> {
    make: M,
    limit_bytes: AtomicU64,
    /// Bytes of all decoders, idle or in use.
    bytes: Arc<AtomicU64>,
    inner: Mutex<Inner<M::Decoder>>,
}

struct Inner<D> {
    /// Least recently used first.
    idle: Vec<Pooled<D>>,
    counts: PoolCounts,
}

impl<M: Make> Shelf<M> {
    pub fn new(make: M, limit_bytes: u64) -> Shelf<M> {
        let inner = Inner { idle: Vec::new(), counts: PoolCounts::default() };
        Shelf {
            make,
            limit_bytes: AtomicU64::new(limit_bytes),
            bytes: Arc::default(),
            inner: Mutex::new(inner),
        }
    }

    /// Returns a decoder for a stream; `shape` is the one to create if none fits.
    pub fn take(&self, want: &StreamFormat, shape: Shape) -> Result<(Pooled<M::Decoder>, Origin)> {
        let found = self.find(want, &shape);
        if let Some(mut pooled) = found {
            if pooled.shape.fit(want) == Fit::Keep {
                self.lock().counts.reused += 1;
                return Ok((pooled, Origin::Reused));
            }
            match self.reconfigure(&mut pooled, want) {
                Ok(()) => return Ok((pooled, Origin::Reconfigured)),
                Err(error) if error.is_lost() => return Err(error),
                // A decoder that cannot be reconfigured is dropped, and another one is created.
                Err(_) => drop(pooled),
            }
        }
        Ok((self.create(shape)?, Origin::Created))
    }

    /// Reconfigures a decoder for another stream that it fits.
    pub fn reconfigure(&self, pooled: &mut Pooled<M::Decoder>, want: &StreamFormat) -> Result<()> {
        let shape = Shape { format: *want, ..pooled.shape };
        self.make.reconfigure(&mut pooled.decoder, &shape)?;
        pooled.shape = shape;
        self.lock().counts.reconfigured += 1;
        Ok(())
    }

    /// Returns a valid decoder to the pool. If the pool exceeds its limit, the least recently used decoders
    /// are destroyed.
    pub fn put(&self, pooled: Pooled<M::Decoder>) {
        self.lock().idle.push(pooled);
        drop(self.evict_down_to(self.limit_bytes.load(Ordering::Relaxed)));
    }

    pub fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
        drop(self.evict_down_to(bytes));
    }

    /// Destroys all idle decoders; returns how many there were.
    pub fn clear(&self) -> usize {
        self.evict_down_to(0).len()
    }

    pub fn counts(&self) -> PoolCounts {
        let inner = self.lock();
        let (idle, bytes) = (inner.idle.len() as u64, self.bytes.load(Ordering::Relaxed));
        PoolCounts { idle, bytes, ..inner.counts }
    }

    /// The most recently used idle decoder that fits unchanged, or else the most recently used one that can
    /// be reconfigured and has the same maximum size.
    fn find(&self, want: &StreamFormat, shape: &Shape) -> Option<Pooled<M::Decoder>> {
        let mut inner = self.lock();
        let kept = inner.idle.iter().rposition(|pooled| pooled.shape.fit(want) == Fit::Keep);
        let place = kept.or_else(|| {
            inner.idle.iter().rposition(|pooled| {
                pooled.shape.max_size == shape.max_size && pooled.shape.fit(want) == Fit::Reconfigure
            })
        });
        place.map(|place| inner.idle.remove(place))
    }

    fn create(&self, shape: Shape) -> Result<Pooled<M::Decoder>> {
        let bytes = shape.bytes();
        drop(self.evict_down_to(self.limit_bytes.load(Ordering::Relaxed).saturating_sub(bytes)));
        let decoder = match self.make.create(&shape) {
            // Idle decoders may occupy the memory that is missing.
            Err(error) if error.is_out_of_memory() && self.clear() > 0 => self.make.create(&shape),
            other => other,
        };
        let decoder = decoder.map_err(|error| match error {
            Error::OutOfMemory { .. } => {
                Error::OutOfMemory { what: format!("a decoder ({})", shape.name()), bytes }
            }
            other => other,
        })?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lock().counts.created += 1;
        Ok(Pooled { decoder, shape, share: Share { bytes, all: self.bytes.clone() } })
    }

    /// Removes the least recently used idle decoders until the total is at most `bytes`, or none is idle.
    /// They are destroyed when the caller drops them.
    #[must_use]
    fn evict_down_to(&self, bytes: u64) -> Vec<Pooled<M::Decoder>> {
        let mut inner = self.lock();
        let mut remaining = self.bytes.load(Ordering::Relaxed);
        let is_over = |pooled: &&Pooled<M::Decoder>| {
            let over = remaining > bytes;
            remaining = remaining.saturating_sub(pooled.shape_bytes());
            over
        };
        let count = inner.idle.iter().take_while(is_over).count();
        inner.counts.evicted += count as u64;
        inner.idle.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<M::Decoder>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Pooled<D> {
    fn shape_bytes(&self) -> u64 {
        self.share.bytes
    }
}
