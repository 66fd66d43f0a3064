//! The videos of a dataset: the numbers of their clips, their indices, and the frames of each clip.

pub(super) mod audio;
pub(super) mod audio_windows;
mod counting;
mod numbering;
mod opening;

use std::sync::Arc;
use std::time::Duration;

use super::LoaderConfig;
use super::content_keys::ContentKeys;
use super::stats::StatsCollector;
use crate::clip_sampler::video_timing::{SegmentRange, VideoSegment};
use crate::clip_sampler::{ClipIndices, ClipSampler, ClipSamplerRef, RandomSource, VideoTiming};
use crate::dataset::SampleTable;
use crate::error::{Error, Result, Site};
use crate::index::VideoIndex;
use crate::rng::{Purpose, Rng, RngKey};
use crate::video::Video;

use numbering::ClipNumbers;
use opening::VideoOpener;

/// Random numbers, and whether any was drawn.
struct WatchedRng {
    rng: Rng,
    is_used: bool,
}

impl RandomSource for WatchedRng {
    fn next_below(&mut self, n: u64) -> u64 {
        self.is_used = true;
        RandomSource::next_below(&mut self.rng, n)
    }

    fn next_f64(&mut self) -> f64 {
        self.is_used = true;
        RandomSource::next_f64(&mut self.rng)
    }
}

/// The dataset's videos.
pub struct VideoCatalog {
    samples: Arc<SampleTable>,
    clip_sampler: ClipSamplerRef,
    /// The numbers of the clips.
    pub(super) clips: ClipNumbers,
    /// Opens the files.
    pub(super) files: VideoOpener,
    /// The audio of its clips.
    audio: audio::ClipAudio,
    /// How long an unavailable server is waited for; `None` for the default.
    pub(super) outage_timeout: Option<Duration>,
    /// The keys of its clips.
    pub(super) content_keys: ContentKeys,
    /// What counting found.
    counted: counting::Counted,
}

impl VideoCatalog {
    /// # Errors
    /// `Argument` if the views of the configuration do not fit together.
    pub(super) fn new(config: &LoaderConfig) -> Result<Self> {
        let clip_sampler = config.clip_sampler()?;
        let clips_per_sample = match config.options.windows() {
            Some(windows) => windows.fixed_num_windows(),
            None => clip_sampler.fixed_num_clips(),
        }
        .unwrap_or(0);
        Ok(Self {
            samples: config.samples.clone(),
            clip_sampler,
            clips: ClipNumbers::equal(&config.samples, clips_per_sample),
            files: VideoOpener::new(config),
            audio: audio::ClipAudio::new(config),
            outage_timeout: config.options.outage_timeout,
            content_keys: ContentKeys::new(config),
            counted: counting::Counted::default(),
        })
    }

    /// Opens the video of a sample.
    ///
    /// # Errors
    /// The errors of opening and indexing, and that of an interrupt.
    pub fn open(&self, sample: u32, stats: &StatsCollector) -> Result<Video> {
        self.files.open(self.clips.file_of(sample), stats)
    }

    /// The site of a video for error messages.
    pub(super) fn site(&self, video: u32) -> Site {
        Site::file(&self.samples.location(video as usize).name())
    }

    pub(super) fn part(&self, sample: u32, index: &Arc<VideoIndex>) -> VideoSegment {
        VideoSegment::new(index.clone(), self.samples.extent(sample as usize))
    }

    /// The frames of clip `key.clip`, as presentation indices of its video.
    ///
    /// # Errors
    /// `Clip` if the video yields no such clip, or the clip sampler requests frames that it does
    /// not have.
    pub(super) fn sample(&self, index: &Arc<VideoIndex>, key: RngKey) -> Result<ClipIndices> {
        Ok(self.sample_watched(index, key)?.0)
    }

    /// The clip sampler of a sample.
    pub(super) fn clip_sampler_of(&self, sample: u32) -> &dyn ClipSampler {
        let own = self.clip_sampler.for_sample(sample);
        &**own.unwrap_or(&self.clip_sampler)
    }

    /// As [`Self::sample`]; also returns whether the clip sampler drew no random numbers, so that
    /// the frames are the same in every epoch.
    pub(super) fn sample_watched(
        &self,
        index: &Arc<VideoIndex>,
        key: RngKey,
    ) -> Result<(ClipIndices, bool)> {
        let (sample, number) = self.clips.locate(key.clip);
        let part = self.part(sample, index);
        if part.num_frames() == 0 {
            let reason = match self.samples.extent(sample as usize) {
                SegmentRange::Full => "the video has no frames; omit it".to_owned(),
                extent => format!(
                    "the segment {extent} contains no frame of the video, which has {} and ends at {:.3} s; \
                     correct it or omit it",
                    index.num_frames(),
                    index.end_seconds()
                ),
            };
            return Err(Error::Argument(reason).into_clip_error(&index.site));
        }
        let owner = if self.clip_sampler.shares_rng_per_video() {
            RngKey {
                clip: key.clip - number,
                ..key
            }
        } else {
            key
        };
        let mut rng = WatchedRng {
            rng: owner.rng(Purpose::Sampling),
            is_used: false,
        };
        let drawn = self.clip_sampler_of(sample).clip(&part, number, &mut rng);
        let mut sample = drawn.map_err(|e| e.into_clip_error(&index.site))?;
        let frames = part.num_frames();
        let wrong = match sample.indices.iter().find(|&&i| i >= frames) {
            Some(beyond) => Some(format!(
                "the clip sampler requests frame {beyond} of {frames}"
            )),
            None if sample.indices.is_empty() => {
                Some("the clip sampler returns a clip without frames".to_owned())
            }
            None => None,
        };
        if let Some(reason) = wrong {
            return Err(Error::Argument(reason).into_clip_error(&index.site));
        }
        sample
            .indices
            .iter_mut()
            .for_each(|i| *i = part.display_index(*i).0);
        Ok((sample, !rng.is_used))
    }

    /// Label of a video.
    pub fn label(&self, video: u32) -> i64 {
        self.samples.label(video as usize)
    }
}
