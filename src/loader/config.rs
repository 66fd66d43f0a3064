//! Configuration of a loader, and the sizes that follow from it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::backends::{DecoderBackend, DecoderBackends, GpuConfig};
use super::collate::Collate;
use crate::audio::AudioFormat;
use crate::batch_sampler::BatchSamplerConfig;
use crate::clip_sampler::audio_windows::AudioWindows;
use crate::clip_sampler::{ClipSamplerRef, SamplerOfView, Views};
use crate::clip_store::ClipStoreConfig;
use crate::dataset::SampleTable;
use crate::error::{Error, Result};
use crate::index::cache::IndexCache;
use crate::transforms::{ClipShape, ElementLut, TransformPipeline};

/// What happens when a clip cannot be made because of an error in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Raises the error in place of the batch that contains the clip; later batches are still
    /// delivered. A failed batch allocation is handled differently, because no file causes it: see
    /// [`Loader::next_batch`].
    #[default]
    Raise,
    /// Leaves the clip out: its batch is shorter. If all of them fail, one other clip is delivered.
    Skip,
    /// Leaves the clip out, also if the batch is then empty: the caller replaces what it needs.
    Omit,
    /// Replaces the clip with another one, chosen by (seed, epoch, clip, attempt).
    Replace,
}

/// Datasets that are concatenated in the list of items and mixed by weight.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// Number of items in each dataset.
    pub items: Vec<u32>,
    /// Share of each dataset in the epoch, in any unit.
    pub weights: Vec<f64>,
    /// Whether a clip may repeat before all other clips of its dataset have been delivered.
    pub replacement: bool,
    /// Number of clips per epoch; by default the number of clips in all datasets together.
    pub epoch_clips: Option<u64>,
}

/// The options of a [`Loader`] that are plain values. The Python package has their defaults and
/// checks them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderOptions {
    /// Whether the files are images (JPEG, PNG, WebP, AVIF): each clip has one frame.
    pub images: bool,
    /// Index of the stream to read in each file, counted among all streams; `None` selects the best
    /// stream of each file.
    pub stream: Option<u32>,
    /// Whether the clips of a video stay together: a batch has `batch_size` videos with all of
    /// their clips.
    pub group_clips: bool,
    /// What happens to clips that cannot be made.
    pub on_error: OnError,
    /// How long an unavailable server is waited for; `None` for the default. No clip is omitted or
    /// replaced because of an outage.
    pub outage_timeout: Option<Duration>,
    /// What becomes of clips that may differ in size.
    pub collate: Collate,
    /// Number of worker threads, each with its own decoder.
    pub num_threads: u32,
    /// Number of batches made ahead of the one that the consumer waits for.
    pub prefetch_batches: u32,
    /// Bytes for cached clips: clips finished before their turn, because their frames were decoded
    /// for other clips.
    pub memory_budget: u64,
    /// The same in the memory of the GPU that holds the batches; `None` for `memory_budget`. The
    /// order of a grouped shuffle depends on it, so it must be the same on all ranks.
    pub device_memory_budget: Option<u64>,
    /// Number of clip requests after the open batches that are considered for the clip cache.
    pub lookahead_clips: u32,
    /// Clips of later epochs are kept on disk, if given.
    pub clip_store: Option<ClipStoreConfig>,
    /// Selects the work that runs on a GPU.
    pub gpu: GpuConfig,
    /// The audio of each clip, if it is wanted.
    pub audio: Option<AudioOptions>,
}

impl LoaderOptions {
    /// The windows of audio that the loader delivers in place of clips.
    pub(super) fn windows(&self) -> Option<&AudioWindows> {
        self.audio.as_ref()?.windows.as_ref()
    }

    /// The class of the loader in Python, for messages.
    pub fn class_name(&self) -> &'static str {
        match self.windows() {
            Some(_) => "AudioLoader",
            None if self.images => "ImageLoader",
            None => "ClipLoader",
        }
    }
}

/// The audio of the clips of a loader, or the windows of audio that it delivers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioOptions {
    /// Samples per second.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u32,
    /// Length in seconds; `None` for the time that the clip spans, or for whole files.
    pub seconds: Option<f64>,
    /// Frames per second of the clips, if the clip sampler has a rate; otherwise their times say how
    /// long they last.
    pub fps: Option<f64>,
    /// The number of clips and the frames per second of each view, in place of `fps`.
    pub view_fps: Vec<(u64, Option<f64>)>,
    /// Whether a given length is centered on the clip; otherwise it begins with the clip.
    pub centered: bool,
    /// Largest random shift of the begin, earlier or later, in seconds.
    pub shift: f64,
    /// Range of a random gain in dB.
    pub gain: (f64, f64),
    /// Index of the audio stream among all streams of a file; `None` for the best one.
    pub stream: Option<u32>,
    /// Whether a file without audio gives silence; otherwise it is an error.
    pub allows_silence: bool,
    /// The windows of each file, for a loader that decodes no pictures; `None` for the audio of clips.
    pub windows: Option<AudioWindows>,
}

/// Length of a clip in seconds that is assumed before any clip was made.
const ASSUMED_AUDIO_SECONDS: f64 = 4.0;

impl AudioOptions {
    /// The format of the samples.
    pub(super) fn format(&self) -> AudioFormat {
        AudioFormat {
            sample_rate: Some(self.sample_rate),
            channels: Some(self.channels),
        }
    }

    /// Frames per second of a clip, given its number within the video, if its sampler has a rate.
    pub(super) fn fps_of(&self, clip: u64) -> Option<f64> {
        let mut end = 0u64;
        let is_view = |view: &&(u64, Option<f64>)| {
            end = end.saturating_add(view.0);
            clip < end
        };
        let view = self.view_fps.iter().find(is_view);
        view.map_or(self.fps, |&(_, fps)| fps)
    }

    /// Frames per second of the clips of a view, if its sampler has a rate.
    pub(super) fn fps_of_view(&self, view: usize) -> Option<f64> {
        self.view_fps.get(view).map_or(self.fps, |&(_, fps)| fps)
    }

    /// Bytes of the audio of a clip that spans this time.
    pub(super) fn bytes(&self, spanned_seconds: f64) -> u64 {
        let seconds = self.seconds.unwrap_or(spanned_seconds);
        let samples = (seconds * f64::from(self.sample_rate)).max(0.0) as u64;
        samples.saturating_mul(4 * u64::from(self.channels))
    }
}

/// The clips that one clip sampler takes from a video, and what is made of them.
#[derive(Clone)]
pub struct ClipView {
    /// Clip sampler: selects the frames of each clip.
    pub clip_sampler: ClipSamplerRef,
    /// The earlier view to the time span of whose clips these are limited.
    pub within: Option<usize>,
    /// Transforms for each frame.
    pub pipeline: TransformPipeline,
}

impl ClipView {
    /// Clips of a whole video.
    pub fn new(clip_sampler: ClipSamplerRef, pipeline: TransformPipeline) -> Self {
        Self {
            clip_sampler,
            within: None,
            pipeline,
        }
    }

    /// The shape of all clips, if the sampling and the transforms give every clip the same shape.
    pub(super) fn clip_shape(&self) -> Option<ClipShape> {
        let size = self.pipeline.fixed_size()?;
        Some(
            self.pipeline
                .shape(self.clip_sampler.sequence_length()? as usize, size),
        )
    }

    /// The pipeline that produces cached clips as 8-bit codes, and the expansion of those codes
    /// into output elements. `None` if cached clips have the output format: frames of zeros are no
    /// codes.
    pub(super) fn cached_format(&self) -> Option<(TransformPipeline, ElementLut)> {
        self.pipeline
            .as_codes()
            .filter(|_| !self.clip_sampler.pads_with_zeros())
    }

    /// Bytes of a cached clip; of 224 x 224 RGB frames in 8 bits if the size varies.
    fn cached_clip_bytes(&self) -> u64 {
        let frames = self.clip_sampler.sequence_length().unwrap_or(16) as usize;
        let pipeline = self
            .clip_shape()
            .and_then(|_| self.cached_format())
            .map(|(pipeline, _)| pipeline);
        let shape = pipeline.as_ref().unwrap_or(&self.pipeline);
        let shape = shape.fixed_size().map(|size| shape.shape(frames, size));
        shape
            .and_then(|shape| shape.bytes())
            .unwrap_or(frames * 3 * 224 * 224) as u64
    }

    /// Number of clips of a video, if it is the same for all videos, as with several views; else 1.
    pub(super) fn num_clips(&self) -> u64 {
        self.clip_sampler.fixed_num_clips().unwrap_or(1)
    }
}

/// Configuration of a [`Loader`].
#[derive(Clone)]
pub struct LoaderConfig {
    /// Videos or images, with their labels.
    pub samples: Arc<SampleTable>,
    /// The clips of a sample: usually those of one view. Several views need `group_clips`; their
    /// clips are in the batch one view after the other for each video.
    pub views: Vec<ClipView>,
    /// Order of the clips. The loader fills in the number of clips and the mix once it has indexed
    /// the videos.
    pub order: BatchSamplerConfig,
    /// Datasets that are mixed by weight.
    pub mixture: Option<Mixture>,
    /// Store of video indices on disk.
    pub index: Option<Arc<IndexCache>>,
    /// Everything else.
    pub options: LoaderOptions,
}

/// Default of `memory_budget`: 2 GiB.
pub const MEMORY_BUDGET: u64 = 2 << 30;

/// Default of `lookahead_clips`: more clips than a usual memory budget holds.
pub const LOOK_AHEAD: u32 = 1 << 16;

impl LoaderConfig {
    /// The clip sampler of all views together.
    ///
    /// # Errors
    /// `Argument` if the views do not fit together.
    pub(super) fn clip_sampler(&self) -> Result<ClipSamplerRef> {
        match &self.views[..] {
            [] => Err(Error::Argument("a loader needs a clip sampler".into())),
            [view] => Ok(view.clip_sampler.clone()),
            views => {
                let sampler = |view: &ClipView| SamplerOfView {
                    clip_sampler: view.clip_sampler.clone(),
                    within: view.within,
                };
                Ok(Arc::new(Views::new(views.iter().map(sampler).collect())?))
            }
        }
    }

    /// The view of a clip, given its number within the video.
    pub(super) fn view_of(&self, clip: u64) -> usize {
        let mut end = 0;
        let is_before_end = |view: &ClipView| {
            end += view.num_clips();
            clip < end
        };
        match self.views.len() {
            1 => 0,
            views => self
                .views
                .iter()
                .position(is_before_end)
                .unwrap_or(views - 1),
        }
    }

    /// The view of the clip at this position of a batch, and its position among the clips of the
    /// view in this batch.
    pub(super) fn place_in_view(&self, position: usize) -> (usize, usize) {
        if self.views.len() == 1 {
            return (0, position);
        }
        let counts: Vec<_> = self.views.iter().map(|v| v.num_clips() as usize).collect();
        let per_video = counts.iter().sum::<usize>().max(1);
        let (video, number) = (position / per_video, position % per_video);
        let view = self.view_of(number as u64);
        let before: usize = counts[..view].iter().sum();
        (view, video * counts[view] + number - before)
    }

    /// The shape of the clips of each view, if in every view all clips have the same shape.
    pub(super) fn clip_shapes(&self) -> Option<Vec<ClipShape>> {
        self.views.iter().map(ClipView::clip_shape).collect()
    }

    /// Number of clips of a video in all views, if it is the same for all videos.
    pub(super) fn fixed_num_clips(&self) -> Option<u64> {
        let counts = self.views.iter().map(|v| v.clip_sampler.fixed_num_clips());
        counts.sum()
    }

    /// Whether the transforms of any view are random.
    pub(super) fn has_random_transforms(&self) -> bool {
        self.views.iter().any(|view| view.pipeline.is_random())
    }

    /// The mean over the clips of a video; at least 1.
    fn mean_bytes(&self, bytes: impl Fn(&ClipView) -> u64) -> u64 {
        let clips: u64 = self.views.iter().map(ClipView::num_clips).sum();
        let of_view = |view: &ClipView| bytes(view).saturating_mul(view.num_clips());
        let sum = self.views.iter().map(of_view).fold(0, u64::saturating_add);
        sum.div_ceil(clips.max(1)).max(1)
    }

    /// Mean number of bytes of a cached clip; of 224 x 224 RGB frames in 8 bits if the size varies.
    pub(super) fn cached_clip_bytes(&self) -> u64 {
        self.mean_bytes(ClipView::cached_clip_bytes)
            .saturating_add(self.audio_bytes())
    }

    /// Bytes of the audio of a cached clip, as far as they are known.
    pub(super) fn audio_bytes(&self) -> u64 {
        self.options
            .audio
            .as_ref()
            .map_or(0, |audio| audio.bytes(ASSUMED_AUDIO_SECONDS))
    }

    /// Mean number of bytes of a clip in the output format, in which clips of videos with more than
    /// 8 bits are cached; `None` if all cached clips of a view have the same format.
    pub(super) fn cached_element_bytes(&self) -> Option<u64> {
        let shapes = self.clip_shapes()?;
        let mut views = self.views.iter();
        views.find_map(ClipView::cached_format)?;
        let has_bytes = shapes.iter().all(|shape| shape.bytes().is_some());
        let bytes = |view: &ClipView| view.clip_shape().and_then(|s| s.bytes()).unwrap_or(0) as u64;
        has_bytes.then(|| self.mean_bytes(bytes))
    }

    /// Number of clips for which the clip cache has memory, each with its repeats: these differ in
    /// their pixels, so each takes memory of its own.
    pub(super) fn cached_clips(&self) -> u64 {
        self.cache_budget() / self.cached_bytes_with_repeats()
    }

    /// Bytes for cached clips in the memory where batches are placed.
    pub(super) fn cache_budget(&self) -> u64 {
        match (self.options.gpu.device, self.options.device_memory_budget) {
            (Some(_), Some(bytes)) => bytes,
            _ => self.options.memory_budget,
        }
    }

    /// Bytes of a cached clip with its repeats, at least 1.
    pub(super) fn cached_bytes_with_repeats(&self) -> u64 {
        self.cached_clip_bytes()
            .saturating_mul(self.order.repeats.into())
            .max(1)
    }

    /// Threads per decoder: one if there are enough clips in progress to keep every worker busy,
    /// otherwise the worker threads divided among those clips.
    pub(super) fn frame_threads(&self) -> u32 {
        let clips = self.max_clips_in_flight().clamp(1, u64::from(u32::MAX)) as u32;
        (self.options.num_threads / clips).max(1)
    }

    /// Number of worker threads: those of the GPU, and those of the CPU unless the GPU decodes
    /// alone.
    pub(super) fn num_workers(&self, backends: &DecoderBackends) -> u32 {
        let by_cpu = if self.options.gpu.decoder == DecoderBackend::Nvdec {
            0
        } else {
            self.options.num_threads
        };
        by_cpu + backends.workers()
    }

    /// Maximum number of clips in the open batches at one time.
    pub(super) fn max_clips_in_flight(&self) -> u64 {
        (u64::from(self.options.prefetch_batches) + 1)
            * u64::from(self.order.batch_size)
            * u64::from(self.order.repeats)
            * if self.options.group_clips {
                self.fixed_num_clips().unwrap_or(1)
            } else {
                1
            }
    }

    /// The number of clips of each video that stay together: 1, unless `group_clips` is set.
    ///
    /// # Errors
    /// `Argument` if videos have different numbers of clips, or a clip could be missing.
    pub(super) fn clips_per_group(&self) -> Result<u32> {
        if !self.options.group_clips {
            return match self.views.len() {
                1 => Ok(1),
                _ => Err(Error::Argument("several views need group_clips".into())),
            };
        }
        let option = match self.views.len() {
            1 => "group_clips=True",
            _ => "views=",
        };
        let refused = |reason: &str| Err(Error::Argument(format!("{option} {reason}")));
        if self.mixture.is_some() || self.order.weights.is_some() {
            return refused("works with datasets without weights, not with mix() or weights");
        }
        if matches!(self.options.on_error, OnError::Skip | OnError::Omit) {
            return refused("cannot skip a clip of a video; use on_error=\"replace\" or \"raise\"");
        }
        if self.clip_shapes().is_none() {
            return refused(
                "needs clips of one size; end the transforms with one that fixes it, such as Resize((h, w))",
            );
        }
        match self
            .fixed_num_clips()
            .and_then(|clips| u32::try_from(clips).ok())
        {
            Some(clips) => Ok(clips),
            None => {
                refused("needs a clip sampler that takes the same number of clips from each video")
            }
        }
    }
}
