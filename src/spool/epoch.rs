//! In: an order and the desk.
//! Out: the batches of one epoch, whole and in order.
//! Never: more batches open than `prefetch` allows.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alone::Alone;
use super::desk::{Desk, OpenBatch, Ticket};
use super::library::Library;
use super::stats::Meter;
use super::{Batch, OnError, Pixels, SpoolConfig};
use crate::batch::{Pool, Slab};
use crate::error::{Error, Result};
use crate::order::{Order, Slot};
use crate::pixels::ClipShape;

/// How often a waiting consumer looks up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// One pass over the dataset.
pub(super) struct Epoch {
    generation: u64,
    epoch: u64,
    /// Next batch whose tickets become visible.
    next_seen: u64,
    /// Next batch that is handed over, or refused by an error.
    next_delivered: u64,
    /// Clips in each batch that is visible but not open.
    sizes: VecDeque<usize>,
    /// The batch before that is still to come: what stands for its clips was being made when the caller was interrupted.
    owed: Option<(u64, Error)>,
    /// As many batches may be open as there was memory for.
    room: usize,
    pool: Arc<Pool>,
}

/// What an epoch works with.
pub(super) struct Tools<'a> {
    pub config: &'a Arc<SpoolConfig>,
    pub order: &'a Order,
    pub library: &'a Arc<Library>,
    pub desk: &'a Desk,
    pub meter: &'a Arc<Meter>,
}

impl Epoch {
    pub fn new(generation: u64, (epoch, first_batch): (u64, u64), pool: Arc<Pool>) -> Self {
        Self {
            generation,
            epoch,
            next_seen: first_batch,
            next_delivered: first_batch,
            sizes: VecDeque::new(),
            owed: None,
            room: usize::MAX,
            pool,
        }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn next_delivered(&self) -> u64 {
        self.owed.as_ref().map_or(self.next_delivered, |(number, _)| *number)
    }

    pub fn next_batch(&mut self, with: &Tools<'_>, watch: &dyn Fn() -> Result<()>) -> Result<Option<Batch>> {
        watch()?;
        let batch = match self.owed.take() {
            Some((number, error)) => self.stand_in_or_owe(number, error, with, watch)?,
            None => match self.next_whole(with, watch)? {
                None => return Ok(None),
                Some((_, Assembled::Batch(batch))) => batch,
                Some((number, Assembled::Nothing(error))) => {
                    self.stand_in_or_owe(number, error, with, watch)?
                }
            },
        };
        with.meter.add(|s| {
            s.batches += 1;
            s.clips += batch.clips.len() as u64;
            s.frames += batch.clips.iter().map(|c| c.indices.len() as u64).sum::<u64>();
        });
        Ok(Some(batch))
    }

    /// Waits for the next batch to be whole. `None` behind the last one.
    fn next_whole(
        &mut self,
        with: &Tools<'_>,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Option<(u64, Assembled)>> {
        self.look_ahead(with);
        let opened = self.open(with, with.config.prefetch as usize + 1);
        if with.desk.open_batches() == 0 {
            // No batch is lost where there is no memory for it: the next call asks again, when there may be.
            return opened.map(|()| None);
        }
        let begun = Instant::now();
        let front = loop {
            if let Some(front) = with.desk.take_whole(LOOK_UP) {
                break front;
            }
            watch()?;
        };
        with.meter.add(|s| s.consumer_wait_seconds += begun.elapsed().as_secs_f64());
        let number = self.next_delivered;
        self.next_delivered += 1;
        // The lanes shall have something to do while the caller is busy with this one.
        self.look_ahead(with);
        // Where memory is short now, the next call sees to it: this batch is not to be lost.
        let _ = self.open(with, with.config.prefetch as usize);
        Ok(Some((number, assemble(front, with)?)))
    }

    /// As [`Self::stand_in`]; where the caller is interrupted meanwhile, the next call makes it.
    fn stand_in_or_owe(
        &mut self,
        number: u64,
        error: Error,
        with: &Tools<'_>,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Batch> {
        let made = self.stand_in(number, error.clone(), with, watch);
        if matches!(made, Err(Error::Interrupted)) {
            self.owed = Some((number, error));
        }
        made
    }

    /// A batch of which every clip was skipped: one clip that is marked as padding, so that all ranks deliver the same
    /// number of batches and none is empty.
    fn stand_in(
        &self,
        number: u64,
        error: Error,
        with: &Tools<'_>,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Batch> {
        let Some(&first) = with.order.batch(self.epoch, number).first() else { return Err(error) };
        let slot = Slot { padding: true, ..first };
        let mut alone = Alone::new(with.config, with.library, with.meter, &with.desk.road);
        let mut ticket = Ticket { position: 0, slot, part: None, due: true };
        let attempt = || alone.stand_in(self.epoch, &mut ticket, error, watch);
        // As in a lane: a panic is an error, here of the whole batch.
        let made = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| {
            let site = with.library.site(with.library.locate(slot.clip).0);
            Err(Error::Internal { site, reason: "a panic while another clip was made in its place".into() })
        });
        alone.count_work();
        let (facts, pixels) = made?;
        let even = with.config.clip_shape().is_some();
        let pixels = match pixels {
            Some((slab, shape)) if even => Pixels::Even(slab, shape),
            own => Pixels::Ragged(own.into_iter().collect()),
        };
        Ok(Batch { pixels, clips: vec![facts] })
    }

    /// Makes the tickets of batches to come visible.
    fn look_ahead(&mut self, with: &Tools<'_>) {
        let enough = u64::from(with.config.look_ahead);
        let mut ahead = with.desk.ahead();
        while ahead < enough {
            let Some(clips) = self.see(with) else { break };
            ahead += clips as u64;
        }
    }

    /// Makes the tickets of one more batch visible. Returns how many they are.
    fn see(&mut self, with: &Tools<'_>) -> Option<usize> {
        if self.next_seen >= with.order.len_batches() {
            return None;
        }
        let slots = with.order.batch(self.epoch, self.next_seen);
        let clips = slots.len();
        self.next_seen += 1;
        self.sizes.push_back(clips);
        with.desk.supply(
            slots.into_iter().map(|slot| (slot, with.library.file_of(with.library.locate(slot.clip).0))),
        );
        Some(clips)
    }

    /// Opens batches until `most` are being filled, or as many as there was memory for in this pass.
    fn open(&mut self, with: &Tools<'_>, most: usize) -> Result<()> {
        let opened = self.open_all(with, most.min(self.room));
        if opened.is_err() {
            // Not tried again with every batch: what that costs others, such as idle decoders, it would cost each time.
            self.room = with.desk.open_batches().max(1);
        }
        opened
    }

    fn open_all(&mut self, with: &Tools<'_>, most: usize) -> Result<()> {
        while with.desk.open_batches() < most {
            let next = self.sizes.front().copied().or_else(|| self.see(with));
            let Some(clips) = next else { break };
            let memory = match with.config.clip_shape() {
                None => None,
                Some(shape) => {
                    let too_large = || {
                        Error::Argument(format!(
                            "a batch of {clips} clips of {shape} does not fit into memory; use a smaller batch or smaller frames"
                        ))
                    };
                    let bytes = shape.bytes().ok_or_else(too_large)?;
                    Some(Slab::lend(&self.pool, clips, bytes).map_err(|error| match error {
                        Error::Argument(_) => too_large(),
                        other => other,
                    })?)
                }
            };
            self.sizes.pop_front();
            with.desk.open(clips, memory);
        }
        Ok(())
    }
}

enum Assembled {
    Batch(Batch),
    /// Every clip was skipped, the first one for this reason.
    Nothing(Error),
}

fn assemble(open: OpenBatch, with: &Tools<'_>) -> Result<Assembled> {
    let mut kept = Vec::new();
    let mut facts = Vec::new();
    let mut ragged = Vec::new();
    let mut skipped = None;
    for (place, clip) in open.clips.into_iter().enumerate() {
        match clip.expect("no clip is missing") {
            Ok((clip, own)) => {
                kept.push(place);
                facts.push(clip);
                ragged.extend(own);
            }
            Err(error) if with.config.on_error == OnError::Skip && error.blames_file() => {
                with.meter.add(|s| s.clips_skipped += 1);
                skipped.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = skipped.filter(|_| facts.is_empty()) {
        return Ok(Assembled::Nothing(error));
    }
    let pixels = match open.memory.zip(with.config.clip_shape()) {
        None => Pixels::Ragged(ragged),
        Some((lent, shape)) => {
            let slab = lent.collect().ok().expect("lanes drop their part before they report");
            Pixels::Even(close_gaps(slab, &shape, &kept)?, shape)
        }
    };
    Ok(Assembled::Batch(Batch { pixels, clips: facts }))
}

/// Moves the kept clips together.
fn close_gaps(mut slab: Slab, shape: &ClipShape, kept: &[usize]) -> Result<Slab> {
    let clip_bytes = shape.bytes().unwrap_or(0);
    let moves: Vec<_> = kept.iter().enumerate().filter(|(to, &from)| *to != from).collect();
    if let Some(device) = slab.device().filter(|_| !moves.is_empty()).cloned() {
        let stream = device.stream()?;
        slab.rework(&stream, |address, stream| {
            // One clip's length apart at least, so none is copied over itself.
            moves.iter().try_for_each(|(to, &from)| {
                let at = |clip: usize| address + (clip * clip_bytes) as u64;
                Ok(stream.copy(at(*to), at(from), clip_bytes)?)
            })
        })?;
    } else if let Some(bytes) = slab.bytes_mut() {
        for (to, &from) in moves {
            bytes.copy_within(from * clip_bytes..(from + 1) * clip_bytes, to * clip_bytes);
        }
    }
    slab.truncate(kept.len() * clip_bytes);
    Ok(slab)
}
