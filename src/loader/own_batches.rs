//! Passes over batches that the caller composes, from the order of an epoch and the shapes of its
//! clips.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{Loader, OnError};
use crate::batch_sampler::{BatchSampler, BatchSamplerConfig, LastBatchPolicy, SampledClip};
use crate::error::{Error, Result};
use crate::source::{check_interrupt, stop_scope};
use crate::sync::{Mutex, PoisonError};
use crate::transforms::output_size;

/// Interval at which the caller checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Clips that a thread takes at a time.
const CHUNK: usize = 64;

/// (frames, height, width) of a transformed clip.
pub(super) type FrameShape = (u32, u32, u32);

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
            .try_for_each(|sampled| self.check_clip(sampled.clip))?;
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

    /// The shapes of clips of an epoch, computed by all threads.
    ///
    /// # Errors
    /// That of a clip whose file fails, with [`OnError::Raise`]; otherwise such a clip is (0, 0,
    /// 0).
    pub fn clip_shapes(&self, epoch: u64, clips: &[SampledClip]) -> Result<Vec<FrameShape>> {
        self.check_process()?;
        clips
            .iter()
            .try_for_each(|sampled| self.check_clip(sampled.clip))?;
        if let Some([shape]) = self.config.clip_shapes().as_deref() {
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
        let found: Vec<Mutex<Vec<Result<FrameShape>>>> = clips
            .chunks(CHUNK)
            .map(|_| Mutex::new(Vec::new()))
            .collect();
        let of_clip = |sampled: &SampledClip| {
            let work = || self.shape_of(epoch, sampled);
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
                let site = self.catalog.site(self.catalog.clips.locate(sampled.clip).0);
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
                    let (work, stop, traffic) = (&work, &stop, self.stats.remote());
                    let outage_timeout = self.config.options.outage_timeout;
                    let run = move || {
                        let _scope = stop_scope(stop, Some(traffic)).outage_timeout(outage_timeout);
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
                if let Err(error) = check_interrupt() {
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

    /// The sample of each clip.
    ///
    /// # Errors
    /// `Argument` for a clip that does not exist.
    pub fn samples_of(&self, clips: &[u64]) -> Result<Vec<u32>> {
        clips.iter().try_for_each(|&clip| self.check_clip(clip))?;
        let sample = |&clip: &u64| self.catalog.clips.locate(clip).0;
        Ok(clips.iter().map(sample).collect())
    }

    fn shape_of(&self, epoch: u64, sampled: &SampledClip) -> Result<FrameShape> {
        check_interrupt()?;
        let video = self
            .catalog
            .open(self.catalog.clips.locate(sampled.clip).0, &self.stats)?;
        let index = video.index();
        let seed = self.config.order.seed;
        let frames = self
            .catalog
            .sample(index, sampled.sampling_key(seed, epoch, sampled.clip))?
            .indices
            .len();
        let params = &index.info.params;
        let number = self.catalog.clips.locate(sampled.clip).1;
        let (width, height) = output_size(
            &self.config.views[self.config.view_of(number)].pipeline,
            (params.width, params.height),
            index.info.display(),
            (sampled.transform_key(seed, epoch, sampled.clip), frames),
        )
        .map_err(|e| e.into_clip_error(&index.site))?;
        Ok((frames as u32, height, width))
    }
}
