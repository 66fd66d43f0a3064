//! Estimates what a disk cache changes for a loader, from the frames of its clips in the epochs of
//! a cycle. A task is planned as the loader plans it: the clips of this epoch, and those of the
//! later epochs of the run.

use std::collections::BTreeMap;

use super::{ClipModel, CostModel, EpochPart, MAX_CLIPS, Request, SampledVideo};
use crate::batch_sampler::BatchSampler;
use crate::clip_store::record_bytes;
use crate::decode::DecodedFrames;
use crate::decode::plan::plan_decode_ranges;
use crate::error::Result;
use crate::loader::LoaderConfig;
use crate::loader::content_keys::has_version;
use crate::loader::decode_task::{MAX_PACKETS_PER_TASK, PacketRangeSet};
use crate::loader::scheduler::LATER_EPOCHS_SHARE;
use crate::loader::stored_clips::{last_epoch_of_run, phase};
use crate::rng::RngKey;
use crate::source::{Identity, check_interrupt};
use crate::transforms::{ClipShape, TransformExecutor};
use crate::units::PresentationIndex;

/// Number of requests that are counted if videos have one clip each, so that no clip cache needs to
/// be filled.
const COUNTED_SINGLE_CLIPS: usize = 512;

/// Decodes that are counted in the epochs of a cycle.
const MIN_DECODES: u64 = 500;

/// An estimate for more epochs than this is that for so many: a task has no more packets anyway.
const MAX_EPOCHS: u64 = 1024;

/// Number of videos whose phases are computed; all others are taken to be like these.
const MAX_PHASES: u64 = 1 << 20;

/// Bytes of packets that are read to find the frames that are not decoded.
const MAX_READ_BYTES: u64 = 64 << 20;

/// What a disk cache is expected to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskCacheCost {
    /// Number of epochs for which a video is decoded at once.
    pub epochs: u32,
    /// Mean number of frames that are decoded for a clip, after the epochs that fill the cache.
    pub frames_per_clip: f64,
    /// The same in the first epoch.
    pub first_epoch_frames_per_clip: f64,
    /// The largest size of all clips on disk, over all ranks.
    pub disk_bytes: u64,
}

/// Frames decoded for a clip, without a disk cache and with those of some lengths.
pub(crate) struct DecodedFramesEstimate {
    /// Without a disk cache.
    pub frames_per_clip: f64,
    /// With one.
    pub disk_caches: Vec<DiskCacheCost>,
}

/// What is known of the decoding of runs.
struct RunCost {
    /// By the number of the sampled video.
    decoded: Vec<DecodedFrames>,
    bytes_left: u64,
    max_clips_ahead: u64,
    /// Clips of later epochs, and those of them that are stored.
    ahead: u64,
    stored: u64,
}

impl CostModel<'_> {
    /// The frames decoded for a clip in this order, without a disk cache and with caches of these
    /// numbers of epochs; with none if clips of the videos cannot be stored.
    ///
    /// # Errors
    /// The error of the last video if none of the sampled ones can be read, and that of
    /// an interrupt.
    pub(crate) fn decoded_frames(
        &self,
        order: &BatchSampler,
        config: &LoaderConfig,
        epochs: &[u32],
    ) -> Result<DecodedFramesEstimate> {
        let mut clips = self.sample_videos()?;
        let identities: Vec<Identity> = clips
            .videos
            .iter()
            .map(|sampled| sampled.video.identity())
            .collect();
        let is_remote = identities
            .iter()
            .any(|identity| matches!(identity, Identity::Remote { .. }));
        let epochs = if identities.iter().all(has_version) {
            epochs
        } else {
            &[]
        };
        let mut runs = RunCost {
            decoded: clips
                .videos
                .iter()
                .map(|sampled| DecodedFrames::new(sampled.video.reader()))
                .collect(),
            bytes_left: if is_remote { 0 } else { MAX_READ_BYTES },
            max_clips_ahead: self.cached_clips / LATER_EPOCHS_SHARE,
            ahead: 0,
            stored: 0,
        };
        let is_single = clips.video_clips.num_videos() == self.catalog.clips.num_clips();
        let part_of = |epoch| {
            let part = self.part_of_epoch(order, epoch);
            if is_single {
                part.counted_only(COUNTED_SINGLE_CLIPS)
            } else {
                part
            }
        };
        let frames_per_clip = self.frames(&clips, &part_of(0), &mut runs, &|_| 0)?;
        let (clips_in_epoch, clip_bytes) = (self.clips_in_epoch(order), clips.stored_bytes(config));
        if !config.has_random_transforms() && runs.max_clips_ahead > 0 && clips.draw_nothing() {
            let disk_bytes =
                (self.catalog.clips.num_clips().min(clips_in_epoch) as f64 * clip_bytes) as u64;
            let of_all = |&epochs: &u32| DiskCacheCost {
                epochs,
                frames_per_clip: 0.0,
                first_epoch_frames_per_clip: frames_per_clip,
                disk_bytes,
            };
            return Ok(DecodedFramesEstimate {
                frames_per_clip,
                disk_caches: epochs.iter().map(of_all).collect(),
            });
        }
        let file_of = |clip: u64| {
            self.catalog
                .clips
                .file_of(self.catalog.clips.locate(clip).0)
        };
        let mut disk_caches = Vec::new();
        for &epochs in epochs {
            let length = u64::from(epochs).clamp(1, MAX_EPOCHS);
            let cycle = (self.seed, length);
            let last = |clip| last_epoch_of_run(cycle, file_of(clip), 0);
            let first_epoch_frames_per_clip = self.frames(&clips, &part_of(0), &mut runs, &last)?;
            // Each epoch of the cycle decodes other videos; together they decode each video once.
            let (mut frames, mut decodes) = (0.0, 0);
            (runs.ahead, runs.stored) = (0, 0);
            for epoch in length..2 * length {
                clips.epoch = epoch;
                let part = part_of(epoch)
                    .retain(|clip| phase(cycle, file_of(clip)) == epoch % length, length);
                let counted = part.num_counted();
                let each = self.frames(&clips, &part, &mut runs, &|_| length - 1)?;
                frames += each * counted as f64;
                decodes += counted;
                if decodes >= MIN_DECODES || decodes * length >= MAX_CLIPS {
                    break;
                }
            }
            clips.epoch = 0;
            let share = runs.stored as f64 / runs.ahead.max(1) as f64;
            let copies = clips_in_epoch as f64 / self.catalog.clips.num_clips().max(1) as f64;
            let on_disk = self.clips_on_disk(&clips, cycle) * copies * share;
            disk_caches.push(DiskCacheCost {
                epochs,
                frames_per_clip: frames / (decodes * length).max(1) as f64,
                first_epoch_frames_per_clip,
                disk_bytes: (on_disk * clip_bytes) as u64,
            });
        }
        Ok(DecodedFramesEstimate {
            frames_per_clip,
            disk_caches,
        })
    }

    /// Frames decoded per clip. `ahead`: for how many later epochs the clips of a video are made,
    /// too.
    fn frames(
        &self,
        clips: &ClipModel<'_>,
        part: &EpochPart,
        runs: &mut RunCost,
        ahead: &dyn Fn(u64) -> u64,
    ) -> Result<f64> {
        let mut frames = |task: &[Request], _: &PacketRangeSet| {
            runs.frames(
                clips,
                task,
                task.first().map_or(0, |request| ahead(request.0)),
            )
        };
        self.simulate(
            clips,
            &part.requests,
            part.lookahead,
            part.counted.clone(),
            &mut frames,
        )
    }

    /// Number of clips that all ranks deliver in an epoch.
    fn clips_in_epoch(&self, order: &BatchSampler) -> u64 {
        let config = order.config();
        let of_mix = config.mix.as_ref().and_then(|mix| mix.epoch_clips);
        let of_weights = config
            .weights
            .as_ref()
            .and_then(|weights| weights.epoch_clips);
        of_mix
            .or(of_weights)
            .unwrap_or(self.catalog.clips.num_clips())
            * u64::from(config.repeats.max(1))
    }

    /// The largest number of clips on disk at the end of an epoch, if all clips of later epochs are
    /// stored.
    fn clips_on_disk(&self, clips: &ClipModel<'_>, cycle: (u64, u64)) -> f64 {
        let epochs = cycle.1;
        let videos = clips.video_clips.num_videos();
        let counted = videos.min(MAX_PHASES);
        let mut by_phase = vec![0; epochs as usize];
        for video in 0..counted {
            let range = clips.video_clips.clips_of(video);
            if !range.is_empty() {
                let file = self
                    .catalog
                    .clips
                    .file_of(self.catalog.clips.locate(range.start).0);
                by_phase[phase(cycle, file) as usize] += range.end - range.start;
            }
        }
        let at_end_of = |epoch: u64| -> u64 {
            let stored = |phase: u64| match (phase + epochs - epoch) % epochs {
                0 => epochs - 1,
                // Clips of this epoch are deleted when the next one begins.
                more => more,
            };
            (0..epochs)
                .map(|phase| by_phase[phase as usize] * stored(phase))
                .sum()
        };
        let most = (0..epochs).map(at_end_of).max().unwrap_or(0);
        most as f64 * videos as f64 / counted.max(1) as f64
    }
}

impl RunCost {
    /// Frames that are decoded for a task and its clips of later epochs. What the task of the first
    /// epoch cannot make is decoded in the epoch of the first missing clip.
    fn frames(&mut self, clips: &ClipModel<'_>, task: &[Request], ahead: u64) -> Result<f64> {
        let mut missing: Vec<(Request, u64)> = (0..=ahead)
            .flat_map(|later| task.iter().map(move |&request| (request, later)))
            .collect();
        self.ahead += ahead * task.len() as u64;
        let mut frames = 0.0;
        while let Some(&(_, epoch)) = missing.first() {
            check_interrupt()?;
            let mut ranges = PacketRangeSet::default();
            let mut wanted: BTreeMap<usize, Vec<PresentationIndex>> = BTreeMap::new();
            let mut stored = 0;
            missing.retain(|&(request, later)| {
                let Some((video, of_clip)) = clips.frames(request, later) else {
                    return false;
                };
                let plan = plan_decode_ranges(&clips.videos[video].index, &of_clip);
                let spans: Vec<_> = plan.iter().map(|range| (range.start, range.end)).collect();
                let fits =
                    stored < self.max_clips_ahead && ranges.with(&spans) <= MAX_PACKETS_PER_TASK;
                if later > epoch && !fits {
                    return true;
                }
                stored += u64::from(later > epoch);
                ranges.add(&spans);
                wanted.entry(video).or_default().extend(of_clip);
                false
            });
            self.stored += stored;
            for (video, wanted) in wanted {
                let plan = plan_decode_ranges(&clips.videos[video].index, &wanted);
                frames += self.decoded[video].count(&plan, &mut self.bytes_left)?;
            }
        }
        Ok(frames)
    }
}

impl ClipModel<'_> {
    /// Whether the clip sampler draws no random number for the first clip of each sampled video, so
    /// that its clips are the same in every epoch.
    fn draw_nothing(&self) -> bool {
        self.videos.iter().all(|sampled| {
            let key = RngKey {
                seed: self.model.seed,
                epoch: 0,
                clip: sampled.first_clip,
                occurrence: 0,
            };
            self.model
                .catalog
                .sample_watched(&sampled.index, key)
                .is_ok_and(|(_, is_fixed)| is_fixed)
        })
    }

    /// Mean number of bytes that a clip takes on disk, if the videos have 8 bits: an index does not
    /// have the depth.
    fn stored_bytes(&self, config: &LoaderConfig) -> f64 {
        let mut executors: Vec<_> = config
            .views
            .iter()
            .map(|view| {
                let codes = view.cached_format().map(|(pipeline, _)| pipeline.dtype);
                (TransformExecutor::new(view.pipeline.clone()), codes)
            })
            .collect();
        let clips_per_video = config.fixed_num_clips().unwrap_or(1);
        let mut bytes_of = |sampled: &SampledVideo, number: u64| {
            let key = RngKey {
                seed: self.model.seed,
                epoch: 0,
                clip: sampled.first_clip + number,
                occurrence: 0,
            };
            let frames = self
                .model
                .catalog
                .sample(&sampled.index, key)
                .ok()?
                .indices
                .len();
            let (executor, codes) = &mut executors[config.view_of(number)];
            executor.begin(key, frames);
            let info = &sampled.index.info;
            let size = executor
                .size_of((info.params.width, info.params.height), info.display())
                .ok()?;
            let shape = executor.shape(frames, size);
            ClipShape {
                dtype: codes.unwrap_or(shape.dtype),
                ..shape
            }
            .bytes()
        };
        // The clips of one view have about the same size.
        let clips = match config.views.len() {
            1 => 1,
            _ => clips_per_video,
        };
        let bytes: Vec<usize> = self
            .videos
            .iter()
            .flat_map(|video| (0..clips).map(move |number| (video, number)))
            .filter_map(|(video, number)| bytes_of(video, number))
            .collect();
        let sum: u64 = bytes.iter().map(|&bytes| record_bytes(bytes as u64)).sum();
        sum as f64 / bytes.len().max(1) as f64
    }
}

impl EpochPart {
    fn num_counted(&self) -> u64 {
        self.counted
            .end
            .min(self.requests.len() as u64)
            .saturating_sub(self.counted.start)
    }

    /// Some of the counted requests, without those that fill the clip cache.
    fn counted_only(mut self, most: usize) -> Self {
        let end = (self.counted.end as usize).min(self.requests.len());
        let start = (self.counted.start as usize).min(end);
        self.requests = self.requests[start..end.min(start + most)].to_vec();
        Self {
            counted: 0..self.requests.len() as u64,
            ..self
        }
    }

    /// The requests of clips in a phase, of which there are `phases`.
    fn retain(self, in_phase: impl Fn(u64) -> bool, phases: u64) -> Self {
        let before = |end: u64| {
            let end = (end as usize).min(self.requests.len());
            self.requests[..end]
                .iter()
                .filter(|request| in_phase(request.0))
                .count() as u64
        };
        let counted = before(self.counted.start)..before(self.counted.end);
        let requests = self
            .requests
            .iter()
            .copied()
            .filter(|request| in_phase(request.0))
            .collect();
        Self {
            requests,
            counted,
            lookahead: self.lookahead / phases,
        }
    }
}
