//! Opens the videos of a dataset. Indices stay in memory within a byte budget and are rebuilt after
//! eviction. Few file handles are kept, because a dataset has more files than a process may open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::audio::{AudioReader, AudioTrack};
use crate::dataset::{MediaLocation, SampleTable};
use crate::decode::PacketReader;
use crate::error::{Error, Result, Site};
use crate::index::audio::AudioIndex;
use crate::index::cache::{IndexCache, index_of};
use crate::index::{VideoIndex, image};
use crate::limits::Limits;
use crate::loader::LoaderConfig;
use crate::loader::byte_lru::ByteLru;
use crate::loader::stats::StatsCollector;
use crate::source::{ByteSource, Identity, ImageSequenceSource, check_interrupt};
use crate::video::Video;

/// Maximum bytes of indices kept in memory: about 20 000 ten-second clips.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// Maximum number of idle open demuxers, of pictures and of audio each. One holds a file handle and
/// a buffer.
const MAX_IDLE_READERS: usize = 16;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens files, each named by the first sample that is in it.
pub(in crate::loader) struct VideoOpener {
    samples: Arc<SampleTable>,
    /// Whether the files are images, not videos.
    images: bool,
    /// Index of the stream to read in each file; `None` selects the best stream of each file.
    stream: Option<u32>,
    index_cache: Mutex<ByteLru<u32, CachedIndex>>,
    /// Idle readers, most recently used last.
    readers: Mutex<Vec<PacketReader>>,
    /// Idle readers of audio with an open demuxer, by file, most recently used last.
    audio_readers: Mutex<Vec<(u32, AudioReader)>>,
    store: Option<Arc<IndexCache>>,
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

impl VideoOpener {
    pub(crate) fn new(config: &LoaderConfig) -> Self {
        Self {
            samples: config.samples.clone(),
            images: config.options.images,
            stream: config.options.stream,
            index_cache: Mutex::new(ByteLru::new(MAX_INDEX_BYTES)),
            readers: Mutex::default(),
            audio_readers: Mutex::default(),
            store: config.index.clone(),
        }
    }

    /// Returns a packet reader for a video. If only libavformat can read the container, reuses a
    /// reader that is already open, if there is one.
    pub(crate) fn reader(&self, video: &Video) -> PacketReader {
        if !video.index().direct {
            let mut readers = lock(&self.readers);
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
    pub(crate) fn recycle_reader(&self, reader: PacketReader) {
        if reader.index().direct {
            return; // opening it again costs nothing
        }
        let mut readers = lock(&self.readers);
        readers.push(reader);
        if readers.len() > MAX_IDLE_READERS {
            let oldest = readers.remove(0);
            drop(readers); // closing is slow: not under the lock
            drop(oldest);
        }
    }

    /// Returns a reader of a file's audio, as [`Self::reader`] one of its pictures.
    pub(super) fn audio_reader(
        &self,
        file: u32,
        source: &Arc<dyn ByteSource>,
        index: &Arc<AudioIndex>,
    ) -> AudioReader {
        if !index.direct {
            let mut readers = lock(&self.audio_readers);
            if let Some(at) = readers
                .iter()
                .rposition(|(of, reader)| *of == file && Arc::ptr_eq(reader.index(), index))
            {
                return readers.remove(at).1;
            }
        }
        AudioTrack::new(source.clone(), index.clone()).reader()
    }

    /// Keeps a reader of audio with an open demuxer for the next use of its file.
    pub(super) fn recycle_audio_reader(&self, file: u32, reader: AudioReader) {
        if reader.index().direct {
            return;
        }
        let mut readers = lock(&self.audio_readers);
        readers.push((file, reader));
        if readers.len() > MAX_IDLE_READERS {
            let oldest = readers.remove(0);
            drop(readers); // closing is slow: not under the lock
            drop(oldest);
        }
    }

    /// Opens the file of this first sample, with the index in memory, or else the stored one, or else a newly built one.
    /// If the process may not open more files, closes the idle readers and waits a limited time for
    /// other files to be closed.
    ///
    /// # Errors
    /// The errors of opening and indexing, and that of an interrupt.
    pub(crate) fn open(&self, file: u32, stats: &StatsCollector) -> Result<Video> {
        self.with_descriptors(|| self.open_once(file, stats))
    }

    /// Opens the bytes of a file of audio, as [`Self::open`] a video.
    ///
    /// # Errors
    /// `NoAudio` for an image sequence; the errors of opening, and that of an interrupt.
    pub(crate) fn open_audio(&self, file: u32) -> Result<Arc<dyn ByteSource>> {
        self.with_descriptors(|| match self.samples.location(file as usize) {
            MediaLocation::ImageSequence(frames) => Err(Error::NoAudio {
                site: Site::file(&MediaLocation::ImageSequence(frames).name()),
                reason: "it consists of images only".into(),
            }),
            other => other.open(),
        })
    }

    fn with_descriptors<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        const PAUSE: Duration = Duration::from_millis(20);
        const TRIES: u32 = 50;
        for _ in 0..TRIES {
            match open() {
                Err(error) if error.is_out_of_descriptors() => {}
                result => return result,
            }
            let idle = std::mem::take(&mut *lock(&self.readers));
            let idle_audio = std::mem::take(&mut *lock(&self.audio_readers));
            drop((idle, idle_audio));
            check_interrupt()?;
            std::thread::sleep(PAUSE);
        }
        open()
    }

    fn open_once(&self, file: u32, stats: &StatsCollector) -> Result<Video> {
        let mut sequence = None;
        let cached = || lock(&self.index_cache).get(&file);
        let location = self.samples.location(file as usize);
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
                self.cache_index(file, CachedIndex { sequence, ..cached });
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
            file,
            CachedIndex {
                identity,
                index: opened.index().clone(),
                sequence,
            },
        );
        Ok(opened)
    }

    /// Indices in memory, with the first samples of their files: the most recently used ones. Opens no file.
    pub(crate) fn indices_in_memory(&self, most: usize) -> Vec<(u32, Arc<VideoIndex>)> {
        let cached = lock(&self.index_cache);
        cached
            .iter()
            .take(most)
            .map(|(&file, cached)| (file, cached.index.clone()))
            .collect()
    }

    fn cache_index(&self, file: u32, cached: CachedIndex) {
        let bytes = cached.memory_bytes();
        lock(&self.index_cache).insert(file, cached, bytes);
    }
}
