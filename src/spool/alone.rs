//! In: one ticket that shares nothing with others.
//! Out: its clip, or the clip that takes its place under the policy on errors.
//! Never: decides order; which clip replaces which is drawn by (seed, epoch, clip) alone.

use std::sync::Arc;

use super::desk::Ticket;
use super::errand::{blank, facts, PartCanvas, Work};
use super::library::Library;
use super::road::Road;
use super::stats::Meter;
use super::{ClipFacts, DecoderChoice, OnError, SpoolConfig};
use crate::batch::{Part, Slab};
use crate::error::{Error, Result};
use crate::order::rng::{purpose, Key};
use crate::order::Slot;
use crate::pixels::{ClipShape, Painter};
use crate::units::DisplayIndex;
use crate::video::{Canvas, Workbench};

/// Replacements tried for one clip before its error is raised after all.
const ATTEMPTS: usize = 64;

/// A clip's facts, and its pixels unless they are in the batch already.
pub(super) type Made = (ClipFacts, Option<(Slab, ClipShape)>);

/// Makes clips one by one.
pub(super) struct Alone {
    bench: Workbench,
    /// Fills blank frames on a device.
    painter_of_blanks: Painter,
    config: Arc<SpoolConfig>,
    library: Arc<Library>,
    meter: Arc<Meter>,
}

impl Alone {
    pub fn new(config: &Arc<SpoolConfig>, library: &Arc<Library>, meter: &Arc<Meter>, road: &Road) -> Self {
        let bench = Workbench::on(config.recipe.clone(), config.frame_threads(), road.home.clone());
        Self {
            painter_of_blanks: Painter::on(config.recipe.clone(), road.home.clone()),
            bench: if config.gpu.decoder == DecoderChoice::Nvjpeg { bench.by_nvjpeg() } else { bench },
            config: config.clone(),
            library: library.clone(),
            meter: meter.clone(),
        }
    }

    /// Counts the work done since it was asked last.
    pub fn count_work(&mut self) {
        let (counts, times) = self.bench.take_work();
        let report = self.bench.take_report();
        self.meter.work(&Work {
            counts,
            times,
            bytes_read: std::mem::take(&mut self.bench.bytes_read),
            decoded_by_gpu: report.decoded,
        });
        report.left_to_cpu.iter().for_each(|reason| self.meter.left_to_cpu(reason));
    }

    /// Makes a clip, or under `Replace` one in its place.
    pub fn make(&mut self, epoch: u64, ticket: &mut Ticket, watch: &dyn Fn() -> Result<()>) -> Result<Made> {
        match self.attempt(epoch, ticket, ticket.slot.clip, watch) {
            Err(error) if error.blames_file() && self.config.on_error == OnError::Replace => {
                let made = self.stand_in(epoch, ticket, error, watch)?;
                self.meter.add(|s| s.clips_replaced += 1);
                Ok(made)
            }
            done => done,
        }
    }

    /// Another clip for this place, where its own failed by `error`; that error where nothing else can be made either.
    pub fn stand_in(
        &mut self,
        epoch: u64,
        ticket: &mut Ticket,
        mut error: Error,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Made> {
        let Slot { clip, visit, .. } = ticket.slot;
        let mut others = Key { seed: self.config.order.seed, epoch, clip, visit }.rng(purpose::REPLACEMENT);
        for _ in 0..ATTEMPTS {
            let other = others.below(self.library.num_clips());
            match self.attempt(epoch, ticket, other, watch) {
                Err(another) if another.blames_file() => error = another,
                done => return done,
            }
        }
        Err(error)
    }

    fn attempt(
        &mut self,
        epoch: u64,
        ticket: &mut Ticket,
        clip: u64,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Made> {
        let made = self.make_clip(epoch, ticket, clip, watch);
        if let Err(error) = &made {
            if error.blames_file() {
                self.meter.failure(self.library.locate(clip).0, error, true);
            }
        }
        made
    }

    fn make_clip(
        &mut self,
        epoch: u64,
        ticket: &mut Ticket,
        clip: u64,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Made> {
        watch()?;
        let begun = std::time::Instant::now();
        let video = self.library.open(self.library.locate(clip).0, &self.meter, watch)?;
        let index = video.index().clone();
        let key = Key { seed: self.config.order.seed, epoch, clip, visit: ticket.slot.visit };
        let sample = self.library.sample(&index, key)?;
        let frames: Vec<DisplayIndex> = sample.indices.iter().map(|&i| DisplayIndex(i)).collect();
        self.meter.add(|s| s.planning_seconds += begun.elapsed().as_secs_f64());
        let mut growing = self.bench.canvas();
        let part = ticket.part.take().zip(self.config.clip_shape());
        let mut fixed = part.map(|(part, shape)| PartCanvas { part, shape });
        let canvas: &mut dyn Canvas = match &mut fixed {
            Some(fixed) => fixed,
            None => &mut growing,
        };
        let mut reader = self.library.reader(&video);
        let mut made = self.bench.make(&mut reader, &frames, key, canvas, watch);
        if made.is_ok() {
            self.library.keep_reader(reader);
            if self.config.sampling.leaves_blank() {
                made = blank(canvas, &sample.mask, &mut self.painter_of_blanks);
            }
        }
        ticket.part = fixed.map(|f| f.part);
        made?;
        ticket.part.as_mut().map_or(Ok(()), Part::settle)?;
        Ok((facts(&index, &self.library, ticket.slot, clip, sample), growing.into_clip()?))
    }
}
