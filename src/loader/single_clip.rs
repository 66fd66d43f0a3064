//! Makes one clip without sharing its decoding with others, or a replacement according to
//! `OnError`. A replacement clip depends only on (seed, epoch, clip, occurrence), not on the order
//! of work.

use std::sync::Arc;

use super::backends::DecoderBackends;
use super::catalog::VideoCatalog;
use super::catalog::audio_windows::WindowRequest;
use super::decode_task::{SlotOutput, fill_padding, metadata};
use super::scheduler::ClipRequest;
use super::stats::{StatsCollector, WorkCounts};
use super::{ClipMetadata, ClipView, DecoderBackend, LoaderConfig, OnError};
use crate::batch::{BatchBuffer, ClipSlot};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Rng};
use crate::source::check_interrupt;
use crate::transforms::{ClipShape, TransformExecutor};
use crate::units::PresentationIndex;
use crate::video::{ClipDecoder, ClipOutput};

/// Maximum number of replacements tried for one clip before its error is raised.
const ATTEMPTS: usize = 64;
/// Maximum number of draws for one of them, most of which are of videos with weight 0.
const MAX_DRAWS: usize = 1 << 16;

/// The metadata of a clip, and its pixels unless they are already in the batch buffer.
pub(super) type MadeClip = (ClipMetadata, Option<(BatchBuffer, ClipShape)>);

/// Makes clips one at a time.
pub(super) struct SingleClipDecoder {
    /// Of each view: the decoder, and what fills padding frames on a device.
    views: Vec<(ClipDecoder, TransformExecutor)>,
    /// Whether its clips would be decoded on the GPU if that had not failed.
    is_fallback: bool,
    config: Arc<LoaderConfig>,
    catalog: Arc<VideoCatalog>,
    stats: Arc<StatsCollector>,
}

impl SingleClipDecoder {
    /// `is_fallback`: its clips would be decoded on the GPU if that had not failed.
    pub(super) fn new(
        config: &Arc<LoaderConfig>,
        catalog: &Arc<VideoCatalog>,
        stats: &Arc<StatsCollector>,
        backends: &DecoderBackends,
        is_fallback: bool,
    ) -> Self {
        let of_view = |view: &ClipView| {
            let gpu = || backends.output_device.clone();
            let decoder =
                ClipDecoder::with_gpu(view.pipeline.clone(), config.frame_threads(), gpu());
            let decoder = match config.options.gpu.decoder {
                DecoderBackend::Nvjpeg => decoder.by_nvjpeg(),
                _ => decoder,
            };
            (decoder, TransformExecutor::on(view.pipeline.clone(), gpu()))
        };
        Self {
            is_fallback,
            views: config.views.iter().map(of_view).collect(),
            config: config.clone(),
            catalog: catalog.clone(),
            stats: stats.clone(),
        }
    }

    /// Adds the work done since the last call to the statistics.
    pub(super) fn count_work(&mut self) {
        for (decoder, _) in &mut self.views {
            let (counts, times) = decoder.take_stats();
            let report = decoder.take_report();
            self.stats.work(&WorkCounts {
                counts,
                times,
                bytes_read: std::mem::take(&mut decoder.bytes_read),
                decoded_by_gpu: report.decoded,
                decoded_by_fallback: if self.is_fallback {
                    counts.frames_decoded
                } else {
                    0
                },
            });
            self.stats.record_fallbacks(&report);
        }
    }

    /// Makes a clip, or a replacement if the clip's file is at fault and `on_error` is `Replace`. A
    /// clip of a group is not replaced alone: its error is returned, and
    /// [`Self::make_replacement_group`] replaces the group.
    pub(super) fn make(&mut self, epoch: u64, request: &mut ClipRequest) -> Result<MadeClip> {
        match self.attempt(epoch, request, request.sampled.clip) {
            Err(error)
                if error.is_file_error()
                    && self.config.options.on_error == OnError::Replace
                    && !self.config.options.group_clips =>
            {
                let made = self.make_replacement(epoch, request, error)?;
                self.stats.add(|s| s.clips_replaced += 1);
                Ok(made)
            }
            done => done,
        }
    }

    /// Makes another clip for this request, whose own clip failed with `error`. If no other clip
    /// can be made, returns the last error.
    pub(super) fn make_replacement(
        &mut self,
        epoch: u64,
        request: &mut ClipRequest,
        mut error: Error,
    ) -> Result<MadeClip> {
        let key = request
            .sampled
            .sampling_key(self.config.order.seed, epoch, request.sampled.clip);
        let mut others = key.rng(Purpose::Replacement);
        for _ in 0..ATTEMPTS {
            let Some(other) = self.draw(&mut others, self.catalog.clips.num_clips(), 1) else {
                return Err(error);
            };
            match self.attempt(epoch, request, other) {
                Err(another) if another.is_file_error() => error = another,
                done => return done,
            }
        }
        Err(error)
    }

    /// Makes the clips of another video for these requests, all clips of one video of which at
    /// least one failed with `error`. If no other video has all of them, returns the last error.
    pub(super) fn make_replacement_group(
        &mut self,
        epoch: u64,
        requests: &mut [ClipRequest],
        mut error: Error,
    ) -> Result<Vec<MadeClip>> {
        let Some(first) = requests.first().map(|request| request.sampled) else {
            return Err(error);
        };
        let per_video = u64::from(self.config.clips_per_group()?);
        let mut others = first
            .sampling_key(self.config.order.seed, epoch, first.clip)
            .rng(Purpose::Replacement);
        for _ in 0..ATTEMPTS {
            let groups = self.catalog.clips.num_clips() / per_video;
            let Some(other) = self.draw(&mut others, groups, per_video) else {
                return Err(error);
            };
            let made: Result<Vec<MadeClip>> = requests
                .iter_mut()
                .map(|request| {
                    self.attempt(epoch, request, other + request.sampled.clip % per_video)
                })
                .collect();
            match made {
                Err(another) if another.is_file_error() => error = another,
                Ok(made) => {
                    self.stats.add(|s| s.clips_replaced += made.len() as u64);
                    return Ok(made);
                }
                failed => return failed,
            }
        }
        Err(error)
    }

    /// Draws the first clip of one of several groups of equally many clips, whose video has not the
    /// weight 0; `None` if none is found.
    fn draw(&self, others: &mut Rng, groups: u64, clips_per_group: u64) -> Option<u64> {
        let weights = self.config.order.weights.as_ref();
        let is_omitted = |clip: &u64| {
            let video = self.catalog.clips.locate(*clip).0;
            weights.is_some_and(|all| all.weights.get(video as usize).copied() == Some(0.0))
        };
        std::iter::repeat_with(|| others.next_below(groups) * clips_per_group)
            .take(MAX_DRAWS)
            .find(|clip| !is_omitted(clip))
    }

    fn attempt(&mut self, epoch: u64, request: &mut ClipRequest, clip: u64) -> Result<MadeClip> {
        let made = self.make_clip(epoch, request, clip);
        if let Err(error) = &made
            && error.is_file_error()
        {
            self.stats
                .failure(self.catalog.clips.locate(clip).0, error, true);
        }
        made
    }

    fn make_clip(&mut self, epoch: u64, request: &mut ClipRequest, clip: u64) -> Result<MadeClip> {
        check_interrupt()?;
        if self.config.options.windows().is_some() {
            let request = WindowRequest {
                sampled: request.sampled,
                clip,
                seed: self.config.order.seed,
                epoch,
            };
            return Ok((self.catalog.window(request, &self.stats)?, None));
        }
        let begun = std::time::Instant::now();
        let (video, number) = self.catalog.clips.locate(clip);
        let view = self.config.view_of(number);
        let of_view = &self.config.views[view];
        let (decoder, padding_executor) = &mut self.views[view];
        let sample = video;
        let video = self.catalog.open(sample, &self.stats)?;
        self.catalog.check_audio(sample, &video)?;
        let index = video.index().clone();
        let sampling_key = request
            .sampled
            .sampling_key(self.config.order.seed, epoch, clip);
        let key = request
            .sampled
            .transform_key(self.config.order.seed, epoch, clip);
        let sample = self.catalog.sample(&index, sampling_key)?;
        let frames: Vec<PresentationIndex> = sample
            .indices
            .iter()
            .map(|&i| PresentationIndex(i))
            .collect();
        self.stats
            .add(|s| s.planning_seconds += begun.elapsed().as_secs_f64());
        let mut growing = decoder.output();
        let slot = request.slot.take().zip(of_view.clip_shape());
        let mut fixed = slot.map(|(slot, shape)| SlotOutput { slot, shape });
        let output: &mut dyn ClipOutput = match &mut fixed {
            Some(fixed) => fixed,
            None => &mut growing,
        };
        let mut reader = self.catalog.files.reader(&video);
        let mut made = decoder.decode_clip(&mut reader, &frames, key, output);
        if made.is_ok() {
            self.catalog.files.recycle_reader(reader);
            if of_view.clip_sampler.pads_with_zeros() {
                made = fill_padding(output, &sample.mask, padding_executor);
            }
        }
        request.slot = fixed.map(|f| f.slot);
        made?;
        request
            .slot
            .as_mut()
            .map_or(Ok(()), ClipSlot::record_write)?;
        let transforms = (view, &of_view.pipeline, key);
        let mut metadata = metadata(
            &video,
            &self.catalog,
            request.sampled,
            clip,
            sample,
            transforms,
        );
        metadata.audio = self.catalog.audio_of(&metadata, key, &self.stats)?;
        Ok((metadata, growing.into_clip()?))
    }
}
