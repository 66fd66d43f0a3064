//! Reads the audio of clips. Audio indices stay in memory within a byte budget of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::VideoCatalog;
use crate::audio::{AudioReader, AudioWindow};
use crate::dataset::MediaLocation;
use crate::error::{Error, Result};
use crate::index::audio::AudioIndex;
use crate::index::cache::{IndexCache, audio_index_of};
use crate::loader::byte_lru::ByteLru;
use crate::loader::stats::StatsCollector;
use crate::loader::{AudioOptions, ClipMetadata, LoaderConfig};
use crate::rng::RngKey;
use crate::source::{ByteSource, Identity};
use crate::video::Video;

/// Maximum bytes of audio indices in memory: about 20 000 ten-second clips.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// The audio of the clips of a dataset.
pub(super) struct ClipAudio {
    pub options: Option<AudioOptions>,
    store: Option<Arc<IndexCache>>,
    indices: Mutex<ByteLru<u32, CachedAudio>>,
    /// Held while a file is indexed, so that one worker does it.
    indexing: Mutex<HashMap<u32, Arc<Mutex<()>>>>,
}

/// The audio index of a file, or why it has none, and the identity of the file.
#[derive(Clone)]
struct CachedAudio {
    identity: Identity,
    index: Result<Arc<AudioIndex>>,
}

impl ClipAudio {
    pub(super) fn new(config: &LoaderConfig) -> Self {
        Self {
            options: config.options.audio.clone(),
            store: config.index.clone(),
            indices: Mutex::new(ByteLru::new(MAX_INDEX_BYTES)),
            indexing: Mutex::default(),
        }
    }
}

/// The random parameters of the audio of a clip: the shift of its begin in seconds, and the factor
/// of its samples.
pub(super) fn shift_and_factor(options: &AudioOptions, key: RngKey) -> (f64, f32) {
    let mut rng = key.audio_rng();
    let shift = options.shift * (2.0 * rng.next_f64() - 1.0);
    let (low, high) = options.gain;
    let gain = low + (high - low) * rng.next_f64();
    (shift, 10f64.powf(gain / 20.0) as f32)
}

impl VideoCatalog {
    /// The audio of a clip, whose random parameters are drawn with `key`; `None` if the loader
    /// delivers none.
    ///
    /// # Errors
    /// `NoAudio` if the file has no audio and silence is not allowed; those of indexing and reading.
    pub(in crate::loader) fn audio_of(
        &self,
        clip: &ClipMetadata,
        key: RngKey,
        stats: &StatsCollector,
    ) -> Result<Option<Arc<AudioWindow>>> {
        let Some(options) = &self.audio.options else {
            return Ok(None);
        };
        let file = self.clips.file_of(clip.video_id);
        let video = self.files.open(file, stats)?;
        let (begin, seconds) = span(clip, options);
        let (shift, factor) = shift_and_factor(options, key);
        let index = match self.index_of_audio(file, &video, options) {
            Err(Error::NoAudio { .. }) if options.allows_silence => {
                let site = &video.index().site;
                let silence = AudioWindow::silence(site, seconds, options.format())?;
                return Ok(Some(Arc::new(silence)));
            }
            index => index?,
        };
        let read = |reader: &mut AudioReader| reader.read(begin + shift, seconds, options.format());
        let mut window = self.read_audio((file, video.source(), &index), stats, read)?;
        amplify(&mut window, factor);
        Ok(Some(Arc::new(window)))
    }

    /// Checks that a clip of this file can have audio, before its frames are decoded.
    ///
    /// # Errors
    /// `NoAudio` if the file has none and silence is not allowed; those of indexing.
    pub(in crate::loader) fn check_audio(&self, sample: u32, video: &Video) -> Result<()> {
        match &self.audio.options {
            Some(options) if !options.allows_silence => {
                let file = self.clips.file_of(sample);
                self.index_of_audio(file, video, options).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn index_of_audio(
        &self,
        file: u32,
        video: &Video,
        options: &AudioOptions,
    ) -> Result<Arc<AudioIndex>> {
        if video.index().info.params.codec.is_image {
            return Err(Error::NoAudio {
                site: video.index().site.clone(),
                reason: "it is an image".into(),
            });
        }
        Ok(self.audio_index(file, video.source(), options)?.0)
    }

    /// Reads audio of a file, with an idle reader if there is one.
    pub(super) fn read_audio<T>(
        &self,
        (file, source, index): (u32, &Arc<dyn ByteSource>, &Arc<AudioIndex>),
        stats: &StatsCollector,
        read: impl FnOnce(&mut AudioReader) -> Result<T>,
    ) -> Result<T> {
        let mut reader = self.files.audio_reader(file, source, index);
        let before = reader.bytes_read();
        let result = read(&mut reader);
        let bytes = reader.bytes_read() - before;
        stats.add(|s| s.bytes_read += bytes);
        if result.is_ok() {
            self.files.recycle_audio_reader(file, reader);
        }
        result
    }

    /// The index of the audio of a file, and, if it was not in memory, whether it was stored.
    pub(super) fn audio_index(
        &self,
        file: u32,
        source: &Arc<dyn ByteSource>,
        options: &AudioOptions,
    ) -> Result<(Arc<AudioIndex>, Option<bool>)> {
        let identity = source.identity();
        let known = || {
            let indices = self.audio.indices.lock();
            let known = indices.unwrap_or_else(PoisonError::into_inner).get(&file);
            known.filter(|known| known.identity == identity)
        };
        if let Some(known) = known() {
            return Ok((known.index?, None));
        }
        let indexing = || {
            let indexing = self.audio.indexing.lock();
            indexing.unwrap_or_else(PoisonError::into_inner)
        };
        let of_file = indexing().entry(file).or_default().clone();
        let _guard = of_file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known() {
            return Ok((known.index?, None));
        }
        let path = match self.samples.location(file as usize) {
            MediaLocation::Path(path) => Some(path.to_path_buf()),
            _ => None,
        };
        let stored = self.audio.store.as_deref().zip(path.as_deref());
        let found = audio_index_of(stored, source, options.stream);
        let index = match &found {
            Ok((index, _)) => Ok(index.clone()),
            Err(error) => Err(error.clone()),
        };
        if let Ok(_) | Err(Error::NoAudio { .. }) = &index {
            let bytes = index.as_ref().map_or(256, |index| index.memory_bytes());
            let cached = CachedAudio { identity, index };
            let mut indices = self.audio.indices.lock();
            let indices = indices.as_deref_mut().unwrap_or_else(|e| e.get_mut());
            indices.insert(file, cached, bytes);
        }
        indexing().remove(&file);
        found.map(|(index, was_stored)| (index, Some(was_stored)))
    }
}

/// Multiplies all samples by a factor.
pub(super) fn amplify(window: &mut AudioWindow, factor: f32) {
    if factor != 1.0 {
        window
            .samples
            .iter_mut()
            .for_each(|sample| *sample *= factor);
    }
}

/// Begin and length in seconds of the audio of a clip.
fn span(clip: &ClipMetadata, options: &AudioOptions) -> (f64, f64) {
    let frames = clip.pts_seconds.iter().zip(&clip.mask);
    let real = frames
        .filter(|(_, is_real)| **is_real)
        .map(|(&time, _)| time);
    let (begin, spanned) = spanned(
        real,
        clip.pts_seconds.len(),
        clip.average_fps,
        options.fps_of(clip.view_id),
    );
    match options.seconds {
        Some(seconds) if options.centered => (begin + (spanned - seconds) / 2.0, seconds),
        Some(seconds) => (begin, seconds),
        None => (begin, spanned),
    }
}

/// Begin and length in seconds of a clip, from the times of its real frames: each frame is shown
/// until the next one of the clip begins, and the last one as long as the others on average.
pub(in crate::loader) fn spanned(
    times: impl Iterator<Item = f64>,
    num_frames: usize,
    average_fps: f64,
    fps: Option<f64>,
) -> (f64, f64) {
    let (mut begin, mut last, mut real) = (f64::INFINITY, f64::NEG_INFINITY, 0u32);
    for time in times {
        (begin, last, real) = (begin.min(time), last.max(time), real + 1);
    }
    if begin > last {
        (begin, last) = (0.0, 0.0);
    }
    let step = match (fps, real) {
        (Some(fps), _) => 1.0 / fps,
        (None, 0 | 1) if average_fps > 0.0 => 1.0 / average_fps,
        (None, 0 | 1) => 0.0,
        (None, real) => (last - begin) / f64::from(real - 1),
    };
    (begin, step * num_frames as f64)
}
