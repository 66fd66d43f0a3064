//! Opens the videos of the dataset and maps clip numbers to videos. Indices stay in memory within a
//! byte budget and are rebuilt after eviction. Few file handles are kept, because a dataset has
//! more files than a process may open.

use crate::source::check_interrupt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::byte_lru::ByteLru;
use super::content_keys::ContentKeys;
use super::stats::StatsCollector;
use super::{LoaderConfig, Mixture, OnError};
use crate::batch_sampler::MixConfig;
use crate::batch_sampler::grouped_shuffle::VideoClips;
use crate::clip_sampler::video_timing::{SegmentRange, VideoSegment};
use crate::clip_sampler::{ClipIndices, ClipSamplerRef, RandomSource, VideoTiming};
use crate::dataset::MediaLocation;
use crate::dataset::SampleTable;
use crate::decode::PacketReader;
use crate::error::{Error, Result, Site};
use crate::index::cache::{IndexCache, index_of};
use crate::index::{VideoIndex, image};
use crate::limits::Limits;
use crate::rng::{Purpose, Rng, RngKey};
use crate::source::{ByteSource, Identity, ImageSequenceSource, stop_scope};
use crate::video::Video;

/// Number of frames and of clips of an item.
type Length = (u32, u64);

/// Maximum bytes of indices kept in memory: about 20 000 ten-second clips.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// Errors of files that an error about all of them repeats.
const MAX_NAMED_ERRORS: usize = 3;

/// Maximum number of idle open demuxers: each holds a file handle and a buffer.
const MAX_IDLE_READERS: usize = 16;

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
    /// For each item, the first item of the same file, if items are parts of files: their clips may
    /// share decoding.
    first_samples: Option<Vec<u32>>,
    clip_sampler: ClipSamplerRef,
    /// Whether the files are images, not videos.
    images: bool,
    /// Index of the stream to read in each file; `None` selects the best stream of each file.
    stream: Option<u32>,
    /// Number of clips up to and including each video; `None` if each video yields the same number.
    clips_up_to: Option<Vec<u64>>,
    fixed_num_clips: u64,
    longest: u32,
    /// Number of samples whose files could not be indexed, and the first errors.
    num_failed: usize,
    first_errors: Vec<String>,
    index_cache: Mutex<ByteLru<u32, CachedIndex>>,
    /// Idle readers, most recently used last.
    readers: Mutex<Vec<PacketReader>>,
    store: Option<Arc<IndexCache>>,
    /// How long an unavailable server is waited for; `None` for the default.
    pub(super) outage_timeout: Option<Duration>,
    /// The keys of its clips.
    pub(super) content_keys: ContentKeys,
}

/// The index of a video, and the identity of the file for which it was built.
#[derive(Clone)]
struct CachedIndex {
    identity: Identity,
    index: Arc<VideoIndex>,
    /// The list of files, if the video is an image sequence: listing them takes longer than reading
    /// a clip.
    sequence: Option<Arc<ImageSequenceSource>>,
}

impl CachedIndex {
    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self
                .sequence
                .as_ref()
                .map_or(0, |sequence| sequence.memory_bytes())
    }
}

impl VideoCatalog {
    pub(super) fn new(config: &LoaderConfig) -> Self {
        Self {
            samples: config.samples.clone(),
            first_samples: config.samples.first_sample_of_file(),
            clip_sampler: config.clip_sampler.clone(),
            images: config.options.images,
            stream: config.options.stream,
            clips_up_to: None,
            fixed_num_clips: config.clip_sampler.fixed_num_clips().unwrap_or(0),
            longest: 0,
            num_failed: 0,
            first_errors: Vec::new(),
            index_cache: Mutex::new(ByteLru::new(MAX_INDEX_BYTES)),
            readers: Mutex::default(),
            store: config.index.clone(),
            outage_timeout: config.options.outage_timeout,
            content_keys: ContentKeys::new(config),
        }
    }

    /// Determines the number of clips; indexes all videos if necessary. Meanwhile `progress` is
    /// called with the number of finished and of all samples; its error stops the indexing.
    pub(super) fn count_clips(
        mut self,
        threads: u32,
        on_error: OnError,
        stats: &StatsCollector,
        progress: &dyn Fn(usize, usize) -> Result<()>,
    ) -> Result<Self> {
        if self.fixed_num_clips > 0 {
            return Ok(self);
        }
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let outage_timeout = self.outage_timeout;
        let stop = Arc::new(AtomicBool::new(false));
        let lengths: Vec<Mutex<Option<Result<Length>>>> =
            (0..self.samples.len()).map(|_| Mutex::new(None)).collect();
        let counted = std::thread::scope(|scope| {
            for worker in 0..threads {
                let work = || loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = lengths.get(at) else { return };
                    let open = || -> Result<Length> {
                        let video = self.open(at as u32, stats)?;
                        let part = self.part(at as u32, video.index());
                        Ok((part.num_frames(), self.clip_sampler.num_clips(&part)))
                    };
                    let length = catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
                        Err(Error::Internal {
                            site: self.site(at as u32),
                            reason: "a panic while indexing".into(),
                        })
                    });
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(length);
                    done.fetch_add(1, Ordering::Release);
                };
                let stop = &stop;
                let work = move || {
                    let _scope =
                        stop_scope(stop, Some(stats.remote())).outage_timeout(outage_timeout);
                    work();
                };
                let name = format!("fsp-count-clips-{worker}");
                if std::thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, work)
                    .is_err()
                    && worker == 0
                {
                    return Err(Error::Argument(
                        "no thread can be started; raise the process limit".into(),
                    ));
                }
            }
            loop {
                let finished = done.load(Ordering::Acquire);
                if let Err(reason) = progress(finished, lengths.len()) {
                    stop.store(true, Ordering::Relaxed);
                    next.store(lengths.len(), Ordering::Relaxed);
                    return Err(reason);
                }
                if finished == lengths.len() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        counted?;
        let mut total = 0u64;
        let mut clips_up_to = Vec::with_capacity(lengths.len());
        for (sample, length) in (0..).zip(lengths) {
            let length = length.into_inner().unwrap_or_else(PoisonError::into_inner);
            match length.unwrap_or(Ok((0, 0))) {
                Ok((frames, clips)) => {
                    self.longest = self.longest.max(frames);
                    total += clips;
                }
                Err(error) if on_error == OnError::Raise || !error.is_file_error() => {
                    return Err(error);
                }
                Err(error) => {
                    stats.failure(sample, &error, false);
                    stats.add(|s| s.videos_failed += 1);
                    self.num_failed += 1;
                    if self.first_errors.len() < MAX_NAMED_ERRORS {
                        self.first_errors.push(error.to_string());
                    }
                }
            }
            clips_up_to.push(total);
        }
        self.clips_up_to = Some(clips_up_to);
        Ok(self)
    }

    /// Number of clips in the whole dataset.
    pub fn num_clips(&self) -> u64 {
        match &self.clips_up_to {
            Some(up_to) => up_to.last().copied().unwrap_or(0),
            None => self.fixed_num_clips * self.samples.len() as u64,
        }
    }

    /// The clips of each sample.
    pub(super) fn sample_clips(&self) -> VideoClips {
        match &self.clips_up_to {
            Some(up_to) => {
                VideoClips::Offsets(std::iter::once(0).chain(up_to.iter().copied()).collect())
            }
            None => VideoClips::Equal {
                videos: self.samples.len() as u64,
                clips: self.fixed_num_clips,
            },
        }
    }

    /// The clips of each video. Neighboring items that are parts of one file are one video, because
    /// their clips may share decoding; items of different datasets of a mixture are not.
    pub(super) fn video_clips(&self, mixture: Option<&Mixture>) -> VideoClips {
        let Some(first_samples) = &self.first_samples else {
            return self.sample_clips();
        };
        let datasets = mixture.map_or(&[][..], |mixture| &mixture.items);
        let mut dataset_starts = datasets.iter().scan(0, |items, more| {
            *items += *more as usize;
            Some(*items)
        });
        let mut next_dataset = dataset_starts.next();
        let mut offsets = vec![0];
        for sample in 0..first_samples.len() {
            let is_first = next_dataset == Some(sample);
            if is_first {
                next_dataset = dataset_starts.next();
            }
            let end = match &self.clips_up_to {
                Some(up_to) => up_to[sample],
                None => self.fixed_num_clips * (sample as u64 + 1),
            };
            match offsets.last_mut() {
                Some(last)
                    if sample > 0
                        && !is_first
                        && first_samples[sample] == first_samples[sample - 1] =>
                {
                    *last = end
                }
                _ => offsets.push(end),
            }
        }
        VideoClips::Offsets(offsets.into())
    }

    /// Converts a mixture by items into a mix by the number of clips in each dataset.
    pub(super) fn mix(&self, mixture: &Mixture) -> Result<MixConfig> {
        let mut items = 0;
        let mut before = 0;
        let mut sizes = Vec::with_capacity(mixture.items.len());
        for &more in &mixture.items {
            items += u64::from(more);
            let up_to = match &self.clips_up_to {
                Some(up_to) => items
                    .checked_sub(1)
                    .map_or(Some(0), |last| up_to.get(last as usize).copied()),
                None => Some(self.fixed_num_clips * items),
            };
            let Some(up_to) = up_to.filter(|_| items <= self.samples.len() as u64) else {
                break;
            };
            if up_to == before {
                return Err(Error::Argument(format!(
                    "dataset {} of the mix yields no clip; omit it, or use a clip sampler that its \
                     videos are long enough for",
                    sizes.len()
                )));
            }
            sizes.push(up_to - before);
            before = up_to;
        }
        if items != self.samples.len() as u64 {
            let have = self.samples.len();
            return Err(Error::Argument(format!(
                "the datasets of a mix must add up to all {have} samples, got {items}"
            )));
        }
        let Mixture {
            weights,
            replacement,
            epoch_clips,
            ..
        } = mixture.clone();
        Ok(MixConfig {
            sizes,
            weights,
            replacement,
            epoch_clips,
        })
    }

    /// The video of a clip number, and the number of the clip within the video.
    pub fn locate(&self, clip: u64) -> (u32, u64) {
        match &self.clips_up_to {
            Some(up_to) => {
                let video = up_to.partition_point(|&end| end <= clip);
                let before = video.checked_sub(1).map_or(0, |v| up_to[v]);
                (video as u32, clip - before)
            }
            None => (
                (clip / self.fixed_num_clips) as u32,
                clip % self.fixed_num_clips,
            ),
        }
    }

    /// Why there is no clip: the errors of the files, and the length of those that were indexed.
    pub(super) fn no_clips_error(&self) -> Error {
        let (failed, all) = (self.num_failed, self.samples.len());
        let mut reason = "no video yields a clip: ".to_owned();
        if failed > 0 {
            let more = failed - self.first_errors.len();
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            let errors = self.first_errors.join("; ");
            reason += &format!("{failed} of {all} videos cannot be read ({errors}{more})");
        }
        if failed < all {
            let others = if failed > 0 {
                ", and the longest of the others"
            } else {
                "the longest"
            };
            reason += &format!(
                "{others} has {} frames, a clip needs {}; use a shorter sequence_length or stride, or a pad mode",
                self.longest,
                self.clip_sampler.min_length_hint()
            );
        }
        Error::Argument(reason)
    }

    /// The site of a video for error messages.
    pub(super) fn site(&self, video: u32) -> Site {
        Site::file(&self.samples.location(video as usize).name())
    }

    /// The item that identifies an item's file: clips of items with the same result may share
    /// decoding.
    pub(super) fn file_of(&self, sample: u32) -> u32 {
        self.first_samples
            .as_ref()
            .map_or(sample, |first_samples| first_samples[sample as usize])
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

    /// As [`Self::sample`]; also returns whether the clip sampler drew no random numbers, so that
    /// the frames are the same in every epoch.
    pub(super) fn sample_watched(
        &self,
        index: &Arc<VideoIndex>,
        key: RngKey,
    ) -> Result<(ClipIndices, bool)> {
        let (sample, number) = self.locate(key.clip);
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
        let drawn = self.clip_sampler.clip(&part, number, &mut rng);
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

    /// Returns a packet reader for a video. If only libavformat can read the container, reuses a
    /// reader that is already open, if there is one.
    pub(super) fn reader(&self, video: &Video) -> PacketReader {
        if !video.index().direct {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = readers
                .iter()
                .rposition(|r| Arc::ptr_eq(r.index(), video.index()))
            {
                return readers.remove(at);
            }
        }
        video.reader()
    }

    /// Keeps a reader with an open demuxer for the next use of its video.
    pub(super) fn recycle_reader(&self, reader: PacketReader) {
        if reader.index().direct {
            return; // opening it again costs nothing
        }
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.push(reader);
        if readers.len() > MAX_IDLE_READERS {
            let oldest = readers.remove(0);
            drop(readers); // closing is slow: not under the lock
            drop(oldest);
        }
    }

    /// Opens a video with the index in memory, or else the stored one, or else a newly built one.
    /// If the process may not open more files, closes the idle readers and waits a limited time for
    /// other files to be closed.
    ///
    /// # Errors
    /// The errors of opening and indexing, and that of an interrupt.
    pub fn open(&self, sample: u32, stats: &StatsCollector) -> Result<Video> {
        const PAUSE: Duration = Duration::from_millis(20);
        const TRIES: u32 = 50;
        for _ in 0..TRIES {
            match self.open_once(sample, stats) {
                Err(error) if error.is_out_of_descriptors() => {}
                result => return result,
            }
            let idle =
                std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner));
            drop(idle);
            check_interrupt()?;
            std::thread::sleep(PAUSE);
        }
        self.open_once(sample, stats)
    }

    fn open_once(&self, sample: u32, stats: &StatsCollector) -> Result<Video> {
        let video = self.file_of(sample);
        let mut sequence = None;
        let cached = || {
            self.index_cache
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&video)
        };
        let location = self.samples.location(video as usize);
        let source: Arc<dyn ByteSource> = match &location {
            MediaLocation::ImageSequence(frames) => {
                if let Some(CachedIndex {
                    index,
                    sequence: Some(sequence),
                    ..
                }) = cached()
                    && sequence.is_current()
                {
                    return Ok(Video::with_index(sequence, index));
                }
                sequence
                    .insert(Arc::new(ImageSequenceSource::open(frames)?))
                    .clone()
            }
            other => other.open()?,
        };
        if self.images && sequence.is_none() {
            // Reading the header of an image is faster than a search in a table of indices, and
            // there may be millions of images.
            let index = image::index_file(&*source, &Limits::default())?;
            return Ok(Video::with_index(source, Arc::new(index)));
        }
        let identity = source.identity();
        if let Some(cached) = cached().filter(|cached| cached.identity == identity) {
            let reopened = Video::with_index(source, cached.index.clone());
            if sequence.is_some() {
                // The folder changed, but its content is the same: the new file list is used from
                // now on.
                self.cache_index(video, CachedIndex { sequence, ..cached });
            }
            return Ok(reopened);
        }
        let opened = match &location {
            MediaLocation::Path(path) => {
                let (index, stored) = index_of(self.store.as_deref(), path, &source, self.stream)?;
                stats.add(|s| {
                    *if stored {
                        &mut s.index_hits
                    } else {
                        &mut s.videos_indexed
                    } += 1
                });
                Video::with_index(source, index)
            }
            MediaLocation::ImageSequence(frames) => {
                let sequence = sequence.as_ref().expect("opened above");
                let index = image::index_image_sequence(sequence, frames.fps, &Limits::default())?;
                index.check_stream(self.stream)?;
                stats.add(|s| s.videos_indexed += 1);
                Video::with_index(source, Arc::new(index))
            }
            // Stored indices are keyed by the path and the state of a whole file, which archive
            // members share.
            MediaLocation::ArchiveMember(_)
            | MediaLocation::Memory(_)
            | MediaLocation::External(_) => {
                let opened = Video::open_stream(source, self.stream)?;
                stats.add(|s| s.videos_indexed += 1);
                opened
            }
        };
        self.cache_index(
            video,
            CachedIndex {
                identity,
                index: opened.index().clone(),
                sequence,
            },
        );
        Ok(opened)
    }

    /// Indices in memory, with their samples: the most recently used ones. Opens no file.
    pub(super) fn indices_in_memory(&self, most: usize) -> Vec<(u32, Arc<VideoIndex>)> {
        let cached = self
            .index_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        cached
            .iter()
            .take(most)
            .map(|(&sample, cached)| (sample, cached.index.clone()))
            .collect()
    }

    fn cache_index(&self, video: u32, cached: CachedIndex) {
        let bytes = cached.memory_bytes();
        self.index_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(video, cached, bytes);
    }
}
