//! Delivers the batches of one pass over the dataset, complete and in order.
//! At most `prefetch_batches` + 1 batches are open at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::catalog::VideoCatalog;
use super::collate::collate;
use super::decode_task::DecodeTask;
use super::scheduler::{ClipRequest, PendingBatch, Scheduler};
use super::single_clip::SingleClipDecoder;
use super::stats::StatsCollector;
use super::{Batch, BatchData, ClipMetadata, LoaderConfig, OnError};
use crate::batch::{BatchBuffer, BufferBuilder, ClipSlot, MemoryPool};
use crate::batch_sampler::{BatchSampler, SampledClip};
use crate::error::{Error, Result};
use crate::source::check_interrupt;
use crate::transforms::ClipShape;

/// Interval at which a waiting consumer checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of clip requests that become visible at a time: a first batch must not wait for a whole
/// lookahead window.
const MAX_REQUESTS_PER_STEP: u64 = 4096;

/// One pass over the dataset.
pub(super) struct Epoch {
    pass: u64,
    epoch: u64,
    /// The next batch whose clip requests become visible.
    next_enqueued: u64,
    /// The next batch to be delivered, or replaced by an error.
    next_delivered: u64,
    /// Number of clips in each batch that is visible but not open.
    sizes: VecDeque<usize>,
    /// The number of an incomplete batch, if the caller interrupted the decoding of its replacement
    /// clips. The next call delivers it, before `next_delivered`.
    pending_replacement: Option<(u64, IncompleteBatch)>,
    /// Limit on open batches, set by the memory that was available.
    max_open_batches: usize,
    pool: Arc<MemoryPool>,
    /// The batches of the pass, if they are not those of the order.
    batches: Option<Arc<[Vec<SampledClip>]>>,
}

/// The parts of the loader that an epoch uses.
pub(super) struct EpochContext<'a> {
    pub config: &'a Arc<LoaderConfig>,
    pub order: &'a BatchSampler,
    pub catalog: &'a Arc<VideoCatalog>,
    pub scheduler: &'a Scheduler<DecodeTask>,
    pub stats: &'a Arc<StatsCollector>,
}

impl Epoch {
    pub(super) fn new(
        pass: u64,
        (epoch, first_batch): (u64, u64),
        pool: Arc<MemoryPool>,
        batches: Option<Arc<[Vec<SampledClip>]>>,
    ) -> Self {
        Self {
            pass,
            epoch,
            next_enqueued: first_batch,
            next_delivered: first_batch,
            sizes: VecDeque::new(),
            pending_replacement: None,
            max_open_batches: usize::MAX,
            pool,
            batches,
        }
    }

    pub(super) fn pass(&self) -> u64 {
        self.pass
    }

    pub(super) fn next_delivered(&self) -> u64 {
        self.pending_replacement
            .as_ref()
            .map_or(self.next_delivered, |(number, _)| *number)
    }

    pub(super) fn next_batch(&mut self, context: &EpochContext<'_>) -> Result<Option<Batch>> {
        check_interrupt()?;
        let batch = match self.pending_replacement.take() {
            Some((number, batch)) => self.complete_or_retry(number, batch, context)?,
            None => match self.next_complete(context)? {
                None => return Ok(None),
                Some((_, AssembledBatch::Batch(batch))) => batch,
                Some((number, AssembledBatch::Incomplete(batch))) => {
                    self.complete_or_retry(number, batch, context)?
                }
            },
        };
        context.stats.add(|s| {
            s.batches += 1;
            s.clips += batch.clips.len() as u64;
            s.frames += batch
                .clips
                .iter()
                .map(|c| c.indices.len() as u64)
                .sum::<u64>();
        });
        Ok(Some(batch))
    }

    /// Waits until the next batch is complete. Returns `None` after the last one.
    fn next_complete(
        &mut self,
        context: &EpochContext<'_>,
    ) -> Result<Option<(u64, AssembledBatch)>> {
        // The first tasks must see the clips that share their decoding.
        let siblings = context.order.lookahead_clips();
        self.fill_lookahead(context, siblings.saturating_add(MAX_REQUESTS_PER_STEP));
        let opened = self.open(
            context,
            context.config.options.prefetch_batches as usize + 1,
        );
        if context.scheduler.open_batches() == 0 {
            // If there is no memory for a batch, the batch is not lost: the next call tries again.
            return opened.map(|()| None);
        }
        let begun = Instant::now();
        let front = loop {
            let is_filled = self.fill_lookahead(context, MAX_REQUESTS_PER_STEP);
            let timeout = if is_filled {
                POLL_INTERVAL
            } else {
                Duration::ZERO
            };
            if let Some(front) = context.scheduler.take_complete_batch(timeout) {
                break front;
            }
            check_interrupt()?;
        };
        context
            .stats
            .add(|s| s.consumer_wait_seconds += begun.elapsed().as_secs_f64());
        let number = self.next_delivered;
        self.next_delivered += 1;
        // Gives the workers further requests while the caller uses this batch.
        self.fill_lookahead(context, MAX_REQUESTS_PER_STEP);
        // A failed allocation is left to the next call, so that this batch is not lost.
        let _ = self.open(context, context.config.options.prefetch_batches as usize);
        Ok(Some((number, self.assemble(front, context)?)))
    }

    /// Makes the replacement clips of a batch. If the caller interrupts it, the next call
    /// continues.
    fn complete_or_retry(
        &mut self,
        number: u64,
        mut batch: IncompleteBatch,
        context: &EpochContext<'_>,
    ) -> Result<Batch> {
        let made = match &mut batch {
            IncompleteBatch::AllSkipped(error) => self
                .make_replacement(number, error.clone(), context)
                .map(Some),
            IncompleteBatch::FailedGroups(groups) => {
                self.replace_groups(number, groups, context).map(|()| None)
            }
        };
        match (made, batch) {
            (Err(Error::Interrupted), batch) => {
                self.pending_replacement = Some((number, batch));
                Err(Error::Interrupted)
            }
            (Err(error), _) => Err(error),
            (Ok(Some(made)), _) => Ok(made),
            (Ok(None), IncompleteBatch::FailedGroups(groups)) => Ok(groups.into_batch()),
            (Ok(None), IncompleteBatch::AllSkipped(error)) => Err(error),
        }
    }

    /// Replaces each group of which a clip failed by the clips of another video, which have one
    /// label.
    fn replace_groups(
        &self,
        number: u64,
        batch: &mut FailedGroups,
        context: &EpochContext<'_>,
    ) -> Result<()> {
        let slots = self.slots(context, number);
        let per_group = context.config.clips_per_group()? as usize;
        let mut single_clip = self.single_clip(context);
        for first in (0..slots.len()).step_by(per_group) {
            let positions = first..slots.len().min(first + per_group);
            if batch.clips[positions.clone()].iter().all(Option::is_some) {
                continue;
            }
            let mut requests: Vec<_> = slots[positions.clone()]
                .iter()
                .map(|&sampled| request_of(sampled))
                .collect();
            let error = batch.error.clone();
            let attempt = || single_clip.make_replacement_group(self.epoch, &mut requests, error);
            let made = self.caught(slots[first], context, attempt);
            single_clip.count_work();
            for (position, (metadata, data)) in positions.zip(made?) {
                if let Some((clip, _)) = data {
                    batch.overwrite(position, &clip)?;
                }
                batch.clips[position] = Some(metadata);
            }
        }
        Ok(())
    }

    fn single_clip(&self, context: &EpochContext<'_>) -> SingleClipDecoder {
        let EpochContext {
            config,
            catalog,
            stats,
            scheduler,
            ..
        } = context;
        SingleClipDecoder::new(config, catalog, stats, scheduler.decoders.backends(), false)
    }

    /// As in a worker, a panic becomes an error, here of the whole batch.
    fn caught<T>(
        &self,
        sampled: SampledClip,
        context: &EpochContext<'_>,
        attempt: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| {
            let site = context
                .catalog
                .site(context.catalog.clips.locate(sampled.clip).0);
            Err(Error::Internal {
                site,
                reason: "a panic while a replacement clip was decoded".into(),
            })
        })
    }

    /// Makes the replacement of a batch whose clips were all skipped: one clip that is marked as
    /// padding, so that all ranks deliver the same number of batches and none is empty.
    fn make_replacement(
        &self,
        number: u64,
        error: Error,
        context: &EpochContext<'_>,
    ) -> Result<Batch> {
        let Some(&first) = self.slots(context, number).first() else {
            return Err(error);
        };
        let sampled = SampledClip {
            padding: true,
            ..first
        };
        let mut single_clip = self.single_clip(context);
        let mut request = request_of(sampled);
        let attempt = || single_clip.make_replacement(self.epoch, &mut request, error);
        let made = self.caught(sampled, context, attempt);
        single_clip.count_work();
        let (metadata, data) = made?;
        let even = context.config.clip_shapes().is_some();
        let data = match data {
            Some((buffer, shape)) if even => BatchData::Dense(buffer, shape),
            pixels => self.collate(
                pixels.into_iter().collect(),
                std::slice::from_ref(&metadata),
                context,
            )?,
        };
        Ok(Batch {
            data: vec![data],
            clips: vec![metadata],
        })
    }

    /// Makes up to `most` clip requests of later batches visible. Returns whether all of the
    /// lookahead window are.
    fn fill_lookahead(&mut self, context: &EpochContext<'_>, most: u64) -> bool {
        let mut ahead = context.scheduler.lookahead_len();
        let until = ahead.saturating_add(most);
        while ahead < self.target_len(context).min(until) {
            let Some(clips) = self.enqueue_next_batch(context) else {
                return true;
            };
            ahead += clips as u64;
        }
        ahead >= self.target_len(context)
    }

    /// Number of requests after the open batches that are to be visible: as many as configured, but
    /// enough that those of the batches that are opened next have all their siblings. 0 disables the
    /// lookahead.
    fn target_len(&self, context: &EpochContext<'_>) -> u64 {
        let configured = u64::from(context.config.options.lookahead_clips);
        let siblings = context.order.lookahead_clips();
        if configured == 0 || siblings == 0 {
            return configured;
        }
        let opened_next = context.config.options.prefetch_batches as usize + 1;
        let opened_next: usize = self.sizes.iter().take(opened_next).sum();
        configured.max(siblings.saturating_add(opened_next as u64))
    }

    /// Makes the clip requests of one more batch visible. Returns their number.
    fn enqueue_next_batch(&mut self, context: &EpochContext<'_>) -> Option<usize> {
        let length = match &self.batches {
            Some(batches) => batches.len() as u64,
            None => context.order.len_batches(),
        };
        if self.next_enqueued >= length {
            return None;
        }
        let slots = self.slots(context, self.next_enqueued);
        let clips = slots.len();
        self.next_enqueued += 1;
        if self.batches.is_none() && self.next_enqueued == length.div_ceil(2) {
            context.order.prepare_epoch(self.epoch.saturating_add(1));
        }
        self.sizes.push_back(clips);
        let is_last = self.next_enqueued == length;
        let requests = slots.into_iter().map(|sampled| {
            (
                sampled,
                context
                    .catalog
                    .clips
                    .file_of(context.catalog.clips.locate(sampled.clip).0),
            )
        });
        context.scheduler.enqueue(requests, is_last);
        Some(clips)
    }

    /// The clips of a batch; empty past the last one.
    fn slots(&self, context: &EpochContext<'_>, number: u64) -> Vec<SampledClip> {
        match &self.batches {
            Some(batches) => batches.get(number as usize).cloned().unwrap_or_default(),
            None => context.order.batch(self.epoch, number),
        }
    }

    /// Opens batches until `most` are open, or as many as memory was available for in this pass.
    fn open(&mut self, context: &EpochContext<'_>, most: usize) -> Result<()> {
        let opened = self.open_all(context, most.min(self.max_open_batches));
        if opened.is_err() {
            // Not retried for every batch: a failed allocation has a cost, such as the closing of
            // idle decoders, which each retry would repeat.
            self.max_open_batches = context.scheduler.open_batches().max(1);
        }
        opened
    }

    fn open_all(&mut self, context: &EpochContext<'_>, most: usize) -> Result<()> {
        while context.scheduler.open_batches() < most {
            let next = self
                .sizes
                .front()
                .copied()
                .or_else(|| self.enqueue_next_batch(context));
            let Some(clips) = next else { break };
            let memory = match context.config.clip_shapes() {
                None => (Vec::new(), Vec::new()),
                Some(shapes) => self.allocate(&shapes, clips, context.config)?,
            };
            self.sizes.pop_front();
            context.scheduler.open(clips, memory);
        }
        Ok(())
    }

    /// Allocates the memory of a batch: a buffer for each view, and the slots of the clips in the
    /// order of the batch.
    fn allocate(
        &self,
        shapes: &[ClipShape],
        clips: usize,
        config: &LoaderConfig,
    ) -> Result<(Vec<BufferBuilder>, Vec<ClipSlot>)> {
        let views: Vec<usize> = (0..clips).map(|at| config.place_in_view(at).0).collect();
        let mut builders = Vec::with_capacity(shapes.len());
        let mut slots = Vec::with_capacity(shapes.len());
        for (view, shape) in shapes.iter().enumerate() {
            let clips = views.iter().filter(|&&of| of == view).count();
            let too_large = || {
                Error::Argument(format!(
                    "a batch of {clips} clips of {shape} does not fit into memory; use a smaller batch or smaller frames"
                ))
            };
            let bytes = shape.bytes().ok_or_else(too_large)?;
            let allocated = BatchBuffer::allocate(&self.pool, clips, bytes);
            let (builder, of_view) = allocated.map_err(|error| match error {
                Error::Argument(_) => too_large(),
                other => other,
            })?;
            builders.push(builder);
            slots.push(of_view.into_iter());
        }
        let in_order = views.into_iter().filter_map(|view| slots[view].next());
        Ok((builders, in_order.collect()))
    }

    fn assemble(&self, open: PendingBatch, context: &EpochContext<'_>) -> Result<AssembledBatch> {
        let mut kept = Vec::new();
        let mut metadata = Vec::new();
        let mut ragged = Vec::new();
        let (mut skipped, mut failed) = (None, None);
        let omits = matches!(
            context.config.options.on_error,
            OnError::Skip | OnError::Omit
        );
        let replaces_groups = context.config.options.on_error == OnError::Replace
            && context.config.options.group_clips;
        for (position, clip) in open.clips.into_iter().enumerate() {
            match clip.expect("no clip is missing") {
                Ok((clip, pixels)) => {
                    if clip.has_frames {
                        kept.push(position);
                    }
                    metadata.push(Some(clip));
                    ragged.extend(pixels);
                }
                Err(error) if replaces_groups && error.is_file_error() => {
                    kept.push(position);
                    metadata.push(None);
                    failed.get_or_insert(error);
                }
                Err(error) if omits && error.is_file_error() => {
                    context.stats.add(|s| s.clips_skipped += 1);
                    skipped.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let may_be_empty = context.config.options.on_error == OnError::Omit;
        if let Some(error) = skipped.filter(|_| metadata.is_empty() && !may_be_empty) {
            return Ok(AssembledBatch::Incomplete(IncompleteBatch::AllSkipped(
                error,
            )));
        }
        let config = context.config;
        let freeze = |builder: BufferBuilder| {
            let frozen = builder.freeze().ok();
            frozen.expect("workers drop their clip slot before they report")
        };
        let buffers = open.memory.into_iter().map(freeze);
        let shapes = config.clip_shapes().unwrap_or_default();
        let pixels: Vec<(BatchBuffer, ClipShape)> = buffers.zip(shapes).collect();
        // Only clips that differ in shape have no memory in the batch.
        if pixels.is_empty() {
            let clips = present(metadata);
            let data = vec![self.collate(ragged, &clips, context)?];
            return Ok(AssembledBatch::Batch(Batch { data, clips }));
        }
        if let Some(error) = failed {
            let groups = FailedGroups {
                config: config.clone(),
                pixels,
                clips: metadata,
                error,
            };
            return Ok(AssembledBatch::Incomplete(IncompleteBatch::FailedGroups(
                groups,
            )));
        }
        let mut kept_of = vec![Vec::new(); pixels.len()];
        for position in kept {
            let (view, at) = config.place_in_view(position);
            kept_of[view].push(at);
        }
        let of_view = |((buffer, shape), kept): ((BatchBuffer, ClipShape), &Vec<usize>)| {
            Ok(BatchData::Dense(compact(buffer, &shape, kept)?, shape))
        };
        let data: Result<_> = pixels.into_iter().zip(&kept_of).map(of_view).collect();
        Ok(AssembledBatch::Batch(Batch {
            data: data?,
            clips: present(metadata),
        }))
    }

    /// Makes a batch of clips that have buffers of their own.
    fn collate(
        &self,
        clips: Vec<(BatchBuffer, ClipShape)>,
        metadata: &[ClipMetadata],
        context: &EpochContext<'_>,
    ) -> Result<BatchData> {
        let name = |video: u32| context.catalog.site(video).file.to_string();
        collate(
            clips,
            metadata,
            context.config.options.collate,
            &self.pool,
            &name,
        )
    }
}

enum AssembledBatch {
    Batch(Batch),
    Incomplete(IncompleteBatch),
}

/// A batch that needs replacement clips.
enum IncompleteBatch {
    /// Every clip was skipped; this is the error of the first one.
    AllSkipped(Error),
    FailedGroups(FailedGroups),
}

/// A batch of groups, some of which lack a clip.
struct FailedGroups {
    config: Arc<LoaderConfig>,
    /// Of each view.
    pixels: Vec<(BatchBuffer, ClipShape)>,
    /// `None` for clips that failed.
    clips: Vec<Option<ClipMetadata>>,
    /// The error of the first of them.
    error: Error,
}

impl FailedGroups {
    /// Replaces the pixels of a clip of the batch.
    fn overwrite(&mut self, position: usize, clip: &BatchBuffer) -> Result<()> {
        let (view, position) = self.config.place_in_view(position);
        let (buffer, shape) = &mut self.pixels[view];
        let bytes = shape.bytes().unwrap_or(0);
        if let Some(device) = buffer.device().cloned() {
            let stream = device.create_stream()?;
            clip.written()
                .iter()
                .try_for_each(|event| stream.wait(event))?;
            buffer.modify_on_stream(&stream, |address, stream| {
                stream.copy(address + (position * bytes) as u64, clip.address(), bytes)?;
                clip.add_reader_event(stream.record()?);
                Ok(())
            })?;
        } else if let Some((to, from)) = buffer.bytes_mut()?.zip(clip.bytes()) {
            to[position * bytes..][..bytes].copy_from_slice(from);
        }
        Ok(())
    }

    fn into_batch(self) -> Batch {
        let dense = |(buffer, shape)| BatchData::Dense(buffer, shape);
        Batch {
            data: self.pixels.into_iter().map(dense).collect(),
            clips: present(self.clips),
        }
    }
}

fn present(clips: Vec<Option<ClipMetadata>>) -> Vec<ClipMetadata> {
    clips.into_iter().flatten().collect()
}

/// A clip that is made alone, outside of the scheduler.
fn request_of(sampled: SampledClip) -> ClipRequest {
    ClipRequest {
        seq: 0,
        sampled,
        slot: None,
        is_due: true,
        spans: Vec::new(),
    }
}

/// Moves the remaining clips together in the batch buffer, over the gaps of skipped clips and of
/// those without frames.
fn compact(mut buffer: BatchBuffer, shape: &ClipShape, kept: &[usize]) -> Result<BatchBuffer> {
    let clip_bytes = shape.bytes().unwrap_or(0);
    let moves: Vec<_> = kept
        .iter()
        .enumerate()
        .filter(|(to, from)| to != *from)
        .collect();
    if let Some(device) = buffer.device().filter(|_| !moves.is_empty()).cloned() {
        let stream = device.create_stream()?;
        buffer.modify_on_stream(&stream, |address, stream| {
            // Source and destination are at least one clip apart, so they do not overlap.
            moves.iter().try_for_each(|&(to, &from)| {
                let at = |clip: usize| address + (clip * clip_bytes) as u64;
                Ok(stream.copy(at(to), at(from), clip_bytes)?)
            })
        })?;
    } else if let Some(bytes) = buffer.bytes_mut()? {
        for (to, &from) in moves {
            bytes.copy_within(from * clip_bytes..(from + 1) * clip_bytes, to * clip_bytes);
        }
    }
    buffer.truncate(kept.len() * clip_bytes);
    Ok(buffer)
}
