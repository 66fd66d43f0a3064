//! In: an order and the lanes.
//! Out: the batches of one epoch, whole and in order.
//! Never: more batches under way than `prefetch` allows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;

use super::lane::{Lanes, Made, Outcome, Ticket};
use super::stats::Meter;
use super::{Batch, OnError, Pixels, SpoolConfig};
use crate::batch::{Lent, Pool, Slab};
use crate::error::{Error, Result};
use crate::order::Order;
use crate::pixels::ClipShape;

/// How often a waiting consumer looks up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// One pass over the dataset.
pub(super) struct Epoch {
    generation: u64,
    epoch: u64,
    /// Next batch to be handed to the lanes.
    next: u64,
    pending: VecDeque<Pending>,
    pool: Arc<Pool>,
}

struct Pending {
    batch: u64,
    memory: Option<(Lent, ClipShape)>,
    clips: Vec<Option<Outcome>>,
    missing: usize,
}

impl Epoch {
    pub fn new(generation: u64, epoch: u64, pool: Arc<Pool>) -> Self {
        Self { generation, epoch, next: 0, pending: VecDeque::new(), pool }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn next_batch(
        &mut self,
        config: &SpoolConfig,
        order: &Order,
        lanes: &Lanes,
        meter: &Meter,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Batch>> {
        loop {
            self.send_ahead(config, order, lanes)?;
            let begun = Instant::now();
            let Some(front) = self.wait(lanes, watch)? else { return Ok(None) };
            meter.add(|s| s.consumer_wait_seconds += begun.elapsed().as_secs_f64());
            let batch = front.assemble(config.on_error, meter)?;
            // A batch of which every clip was skipped has nothing to deliver; the count in stats tells.
            if !batch.clips.is_empty() {
                meter.add(|s| {
                    s.batches += 1;
                    s.clips += batch.clips.len() as u64;
                    s.frames += batch.clips.iter().map(|c| c.indices.len() as u64).sum::<u64>();
                });
                return Ok(Some(batch));
            }
        }
    }

    /// Hands out tickets until `prefetch` batches beyond the awaited one are under way.
    fn send_ahead(&mut self, config: &SpoolConfig, order: &Order, lanes: &Lanes) -> Result<()> {
        while self.pending.len() <= config.prefetch as usize && self.next < order.len_batches() {
            let batch = self.next;
            let slots = order.batch(self.epoch, batch);
            let mut parts = Vec::new();
            let memory = match shape(config) {
                None => None,
                Some(shape) => {
                    let lent = shape.bytes().and_then(|bytes| Slab::lend(&self.pool, slots.len(), bytes));
                    let (lent, all) = lent.ok_or_else(|| {
                        Error::Argument(format!(
                            "a batch of {} clips of {shape:?} does not fit into memory",
                            slots.len()
                        ))
                    })?;
                    parts = all;
                    Some((lent, shape))
                }
            };
            let mut parts = parts.into_iter();
            let clips = slots.iter().map(|_| None).collect();
            self.pending.push_back(Pending { batch, memory, clips, missing: slots.len() });
            self.next += 1;
            for (place, slot) in slots.into_iter().enumerate() {
                let part = parts.next().zip(shape(config));
                let (generation, epoch) = (self.generation, self.epoch);
                let ticket = Ticket { generation, epoch, batch, place, slot, part };
                if lanes.send(ticket).is_err() {
                    return Err(Error::Argument("the loader is closed".into()));
                }
            }
        }
        Ok(())
    }

    /// Waits until the first batch under way is whole.
    fn wait(&mut self, lanes: &Lanes, watch: &dyn Fn() -> Result<()>) -> Result<Option<Pending>> {
        loop {
            match self.pending.front() {
                None => return Ok(None),
                Some(front) if front.missing == 0 => return Ok(self.pending.pop_front()),
                Some(_) => {}
            }
            match lanes.made.recv_timeout(LOOK_UP) {
                Ok(made) => self.take(made),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Argument("the loader's threads are gone".into()));
                }
            }
            watch()?;
        }
    }

    fn take(&mut self, made: Made) {
        if made.generation != self.generation {
            return; // of an epoch that was given up
        }
        if let Some(pending) = self.pending.iter_mut().find(|p| p.batch == made.batch) {
            pending.clips[made.place] = Some(made.result);
            pending.missing -= 1;
        }
    }
}

/// Shape of every clip, if the recipe makes them all alike.
fn shape(config: &SpoolConfig) -> Option<ClipShape> {
    let size = config.recipe.fixed_size()?;
    Some(config.recipe.shape(config.sampling.sequence_length() as usize, size))
}

impl Pending {
    fn assemble(self, on_error: OnError, meter: &Meter) -> Result<Batch> {
        let mut kept = Vec::new();
        let mut facts = Vec::new();
        let mut ragged = Vec::new();
        for (place, clip) in self.clips.into_iter().enumerate() {
            match clip.expect("no clip is missing") {
                Ok((clip, own)) => {
                    kept.push(place);
                    facts.push(clip);
                    ragged.extend(own);
                }
                Err(error) if on_error == OnError::Skip && error.blames_file() => {
                    meter.add(|s| s.clips_skipped += 1)
                }
                Err(error) => return Err(error),
            }
        }
        let pixels = match self.memory {
            None => Pixels::Ragged(ragged),
            Some((lent, shape)) => {
                let slab = lent.collect().ok().expect("lanes drop their part before they report");
                Pixels::Even(close_gaps(slab, &shape, &kept), shape)
            }
        };
        Ok(Batch { pixels, clips: facts })
    }
}

/// Moves the kept clips together.
fn close_gaps(mut slab: Slab, shape: &ClipShape, kept: &[usize]) -> Slab {
    let clip_bytes = shape.bytes().unwrap_or(0);
    for (to, &from) in kept.iter().enumerate() {
        if to != from {
            slab.bytes_mut().copy_within(from * clip_bytes..(from + 1) * clip_bytes, to * clip_bytes);
        }
    }
    slab.truncate(kept.len() * clip_bytes);
    slab
}
