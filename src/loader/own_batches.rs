//! Passes over batches that the caller composes, from the order of an epoch and the shapes of its
//! clips.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{Loader, OnError};
use crate::batch_sampler::{BatchSampler, BatchSamplerConfig, LastBatchPolicy, SampledClip};
use crate::error::{Error, Result};
use crate::source::interrupt_scope;
use crate::sync::{Mutex, PoisonError};
use crate::transforms::output_size;

/// Interval at which the caller's `interrupt` is called.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Clips that a thread takes at a time.
const CHUNK: usize = 64;

/// (frames, height, width) of a transformed clip.
pub type FrameShape = (u32, u32, u32);

impl Loader {
    /// As [`Self::start_epoch`], with these batches in place of those of the order.
    ///
    /// # Errors
    /// `Argument` for a clip that does not exist.
    pub fn start_batches(
        &mut self,
        epoch: u64,
        first_batch: u64,
        batches: Arc<[Vec<SampledClip>]>,
    ) -> Result<u64> {
        batches
            .iter()
            .flatten()
            .try_for_each(|slot| self.check_clip(slot.clip))?;
        self.start_pass(epoch, first_batch, Some(batches))
    }

    /// The clips of an epoch in the order of all ranks, without those that only pad batches.
    ///
    /// # Errors
    /// `Argument` if the ranks have orders of their own.
    pub fn clips_in_order(&self, epoch: u64) -> Result<Vec<SampledClip>> {
        const BATCH: u32 = 4096;
        let config = self.order.resolved_config();
        if config.stick_to_shard || config.num_nodes > 1 {
            return Err(Error::Argument(
                "the ranks have orders of their own; omit stick_to_shard and num_nodes".into(),
            ));
        }
        let order = BatchSampler::new(BatchSamplerConfig {
            shard_id: 0,
            num_shards: 1,
            worker_id: 0,
            num_workers: 1,
            batch_size: BATCH,
            repeats: 1,
            last_batch: LastBatchPolicy::Partial,
            ..config
        })?;
        Ok((0..order.len_batches())
            .flat_map(|batch| order.batch(epoch, batch))
            .collect())
    }

    /// The shapes of clips of an epoch, computed by all threads; `interrupt` is called repeatedly
    /// meanwhile.
    ///
    /// # Errors
    /// That of a clip whose file fails, with [`OnError::Raise`]; otherwise such a clip is (0, 0,
    /// 0).
    pub fn clip_shapes(
        &self,
        epoch: u64,
        clips: &[SampledClip],
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<FrameShape>> {
        self.check_process()?;
        clips
            .iter()
            .try_for_each(|slot| self.check_clip(slot.clip))?;
        if let Some(shape) = self.config.clip_shape() {
            return Ok(vec![
                (
                    shape.frames as u32,
                    shape.height as u32,
                    shape.width as u32
                );
                clips.len()
            ]);
        }
        let next = AtomicUsize::new(0);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = || {
            if stop.load(Ordering::Relaxed) {
                Err(Error::Interrupted)
            } else {
                Ok(())
            }
        };
        let found: Vec<Mutex<Vec<Result<FrameShape>>>> = clips
            .chunks(CHUNK)
            .map(|_| Mutex::new(Vec::new()))
            .collect();
        let of_clip = |slot: &SampledClip| {
            let work = || self.shape_of(epoch, slot, &stopped);
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
                let site = self.catalog.site(self.catalog.locate(slot.clip).0);
                Err(Error::Internal {
                    site,
                    reason: "a panic while the size of a clip was determined".into(),
                })
            })
        };
        let work = || loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = clips.chunks(CHUNK).nth(at) else {
                return;
            };
            let shapes: Vec<_> = chunk.iter().map(of_clip).collect();
            *found[at].lock().unwrap_or_else(PoisonError::into_inner) = shapes;
        };
        let interrupted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.config.options.num_threads.min(found.len() as u32))
                .filter_map(|number| {
                    let name = format!("fsp-clip-shapes-{number}");
                    let flag = stop.clone();
                    let wanted = move || {
                        if flag.load(Ordering::Relaxed) {
                            Err(Error::Interrupted)
                        } else {
                            Ok(())
                        }
                    };
                    let (work, traffic) = (&work, self.stats.remote());
                    let outage_timeout = self.config.options.outage_timeout;
                    let run = move || {
                        let _scope =
                            interrupt_scope(wanted, Some(traffic)).outage_timeout(outage_timeout);
                        work();
                    };
                    std::thread::Builder::new()
                        .name(name)
                        .spawn_scoped(scope, run)
                        .ok()
                })
                .collect();
            if threads.is_empty() && !found.is_empty() {
                return Err(Error::Argument(
                    "no thread can be started; raise the process limit".into(),
                ));
            }
            while !threads
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                if let Err(error) = interrupt() {
                    stop.store(true, Ordering::Relaxed);
                    next.store(found.len(), Ordering::Relaxed);
                    return Err(error);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            Ok(())
        });
        interrupted?;
        let shapes = found
            .into_iter()
            .flat_map(|chunk| chunk.into_inner().unwrap_or_else(PoisonError::into_inner));
        shapes
            .map(|shape| match shape {
                Err(error)
                    if self.config.options.on_error != OnError::Raise && error.is_file_error() =>
                {
                    Ok((0, 0, 0))
                }
                other => other,
            })
            .collect()
    }

    fn shape_of(
        &self,
        epoch: u64,
        slot: &SampledClip,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<FrameShape> {
        interrupt()?;
        let video = self
            .catalog
            .open(self.catalog.locate(slot.clip).0, &self.stats, interrupt)?;
        let index = video.index();
        let seed = self.config.order.seed;
        let frames = self
            .catalog
            .sample(index, slot.sampling_key(seed, epoch, slot.clip))?
            .indices
            .len();
        let params = &index.info.params;
        let (width, height) = output_size(
            &self.config.pipeline,
            (params.width, params.height),
            index.info.display(),
            (slot.transform_key(seed, epoch, slot.clip), frames),
        )
        .map_err(|e| e.into_clip_error(&index.site))?;
        Ok((frames as u32, height, width))
    }
}
