//! Audio of a video or of an audio file, as tensors.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use framespool::Error;
use framespool::audio::{AudioFormat, AudioReader, AudioTrack, AudioWindow};
use framespool::index::audio::AudioIndex;
use framespool::index::cache::audio_index_of;
use framespool::loader::ClipMetadata;
use framespool::source::{self, ByteSource, MemorySource};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::element_type::ElementType;
use crate::errors::check_same_process;
use crate::file_object::FileObject;
use crate::index_cache::{IndexCacheArg, IndexCacheHandle};
use crate::interrupt::{or_raise_pending, run_interruptible};
use crate::sources::{Source, SourceCache, VideoSource};
use crate::tensor::Tensor;

/// The audio of one file, opened when it is first requested.
pub(crate) struct FileAudio {
    source: Arc<dyn ByteSource>,
    /// The path from which the source was opened, if its indices can be stored.
    path: Option<PathBuf>,
    cache: IndexCacheHandle,
    /// Readers that are not in use, by the requested stream.
    opened: Mutex<Vec<(Option<u32>, AudioReader)>>,
    /// Indices, by the requested stream: another thread may use the reader.
    indices: Mutex<Vec<(Option<u32>, Arc<AudioIndex>)>>,
}

/// Stream, codec, sample rate, channels, begin and end in seconds.
type AudioInfo = (u32, String, u32, u32, f64, f64);

impl FileAudio {
    pub(crate) fn new(
        source: Arc<dyn ByteSource>,
        path: Option<PathBuf>,
        cache: IndexCacheHandle,
    ) -> Self {
        Self {
            source,
            path,
            cache,
            opened: Mutex::default(),
            indices: Mutex::default(),
        }
    }

    /// Takes the reader of a stream, or opens one.
    fn reader(&self, stream: Option<u32>) -> framespool::Result<AudioReader> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = opened.iter().position(|(of, _)| *of == stream) {
            return Ok(opened.swap_remove(at).1);
        }
        drop(opened);
        let indices = || self.indices.lock().unwrap_or_else(PoisonError::into_inner);
        let known = indices().iter().find(|(of, _)| *of == stream).cloned();
        let index = match known {
            Some((_, index)) => index,
            None => {
                let store = self.cache.store.as_deref().zip(self.path.as_deref());
                let (index, _) = audio_index_of(store, &self.source, stream)?;
                indices().push((stream, index.clone()));
                index
            }
        };
        Ok(AudioTrack::new(self.source.clone(), index).reader())
    }

    fn put_back(&self, stream: Option<u32>, reader: AudioReader) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.iter().all(|(of, _)| *of != stream) {
            opened.push((stream, reader));
        }
    }

    /// Returns the samples of a time span, (C, S) float32, their rate, and the time of the first.
    pub(crate) fn read(
        &self,
        py: Python<'_>,
        (start, seconds): (Option<f64>, Option<f64>),
        format: AudioFormat,
        stream: Option<u32>,
    ) -> PyResult<(Tensor, u32, f64)> {
        let window = run_interruptible(py, || {
            let mut reader = self.reader(stream)?;
            let index = reader.index().clone();
            let start = start.unwrap_or(index.begin_seconds);
            let window = match seconds {
                Some(seconds) => reader.read(start, seconds, format),
                None => reader.read_to_end(start, format),
            };
            if window.is_ok() {
                self.put_back(stream, reader);
            }
            window
        })?;
        let dims = vec![window.channels as usize, window.len()];
        let samples = Tensor::filled_with(dims, ElementType::F32, |bytes| {
            for (to, sample) in bytes.chunks_exact_mut(4).zip(&window.samples) {
                to.copy_from_slice(&sample.to_ne_bytes());
            }
        })?;
        Ok((samples, window.sample_rate, window.begin_seconds))
    }

    pub(crate) fn info(&self, py: Python<'_>, stream: Option<u32>) -> PyResult<AudioInfo> {
        let index: Arc<AudioIndex> = run_interruptible(py, || {
            let reader = self.reader(stream)?;
            let index = reader.index().clone();
            self.put_back(stream, reader);
            Ok(index)
        })?;
        let params = &index.params;
        Ok((
            index.stream,
            params.codec.name.clone(),
            params.sample_rate,
            params.channels,
            index.begin_seconds,
            index.end_seconds(),
        ))
    }
}

/// A file of which only the audio is used; it may have no video.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct AudioFile {
    audio: FileAudio,
    stream: Option<u32>,
    owner_pid: u32,
}

#[pymethods]
impl AudioFile {
    #[new]
    fn new(
        py: Python<'_>,
        source: VideoSource,
        name: &str,
        index: IndexCacheArg,
        stream: Option<u32>,
    ) -> PyResult<Self> {
        let source = match source {
            VideoSource::Stored(source) => Ok(source),
            VideoSource::Object(object) => Err(or_raise_pending(py, FileObject::open(py, object))?),
        };
        let mut cache = IndexCacheHandle::default();
        let mut path = None;
        let audio = run_interruptible(py, || {
            let source: Arc<dyn ByteSource> = match source {
                Err(object) => Arc::new(object),
                Ok(Source::Path(given)) => {
                    cache = IndexCacheHandle::open(&index);
                    let opened = source::open(&given)?;
                    path = Some(given);
                    opened
                }
                Ok(Source::Member(member)) => {
                    Arc::new(SourceCache::default().member(member).open()?)
                }
                Ok(Source::Cell(cell)) => SourceCache::default().cell(cell).open()?,
                Ok(Source::Bytes(bytes)) => Arc::new(MemorySource::new(name, bytes)),
                Ok(Source::ImageSequence(_)) => {
                    return Err(Error::Argument("an image sequence has no audio".into()));
                }
            };
            let audio = FileAudio::new(source, path, cache);
            let reader = audio.reader(stream)?;
            audio.put_back(stream, reader);
            Ok(audio)
        })?;
        audio.cache.log_error(py)?;
        Ok(Self {
            audio,
            stream,
            owner_pid: std::process::id(),
        })
    }

    /// Returns the samples of a time span, (C, S) float32, their rate, and the time of the first.
    fn audio(
        &self,
        py: Python<'_>,
        start: Option<f64>,
        seconds: Option<f64>,
        sample_rate: Option<u32>,
        channels: Option<u32>,
    ) -> PyResult<(Tensor, u32, f64)> {
        check_same_process(py, "AudioFile", self.owner_pid)?;
        let format = AudioFormat {
            sample_rate,
            channels,
        };
        self.audio.read(py, (start, seconds), format, self.stream)
    }

    /// Returns stream, codec, sample rate, channels, begin and end in seconds.
    fn info(&self, py: Python<'_>) -> PyResult<(u32, String, u32, u32, f64, f64)> {
        check_same_process(py, "AudioFile", self.owner_pid)?;
        self.audio.info(py, self.stream)
    }
}

/// Adds the audio of the clips of a batch to its dict: samples (N, C, S), zeros after the shorter
/// ones, which of them the file has, (N, S), and the time of the first, (N,). `by_clip`: the first
/// dimensions.
pub(crate) fn put_audio(
    py: Python<'_>,
    dict: &Bound<'_, PyDict>,
    clips: &[ClipMetadata],
    by_clip: &[usize],
) -> PyResult<()> {
    let windows: Option<Vec<&AudioWindow>> =
        clips.iter().map(|clip| clip.audio.as_deref()).collect();
    let Some(windows) = windows.filter(|windows| !windows.is_empty()) else {
        return Ok(());
    };
    let channels = windows[0].channels as usize;
    let len = windows.iter().map(|window| window.len()).max().unwrap_or(0);
    let samples = Tensor::filled_with(
        [by_clip, &[channels, len]].concat(),
        ElementType::F32,
        |bytes| {
            let rows = bytes.chunks_exact_mut(4 * len.max(1));
            // A window may be empty: then each of its channels is an empty row.
            let planes = windows.iter().flat_map(|window| {
                let own = window.len();
                (0..channels).map(move |channel| &window.samples[channel * own..][..own])
            });
            for (row, plane) in rows.zip(planes) {
                for (to, sample) in row.chunks_exact_mut(4).zip(plane) {
                    to.copy_from_slice(&sample.to_ne_bytes());
                }
            }
        },
    )?;
    let mask = Tensor::filled_with([by_clip, &[len]].concat(), ElementType::Bool, |bytes| {
        for (row, window) in bytes.chunks_exact_mut(len.max(1)).zip(&windows) {
            for span in &window.valid {
                row[span.clone()].fill(1);
            }
        }
    })?;
    let begins = windows
        .iter()
        .map(|window| window.begin_seconds.to_ne_bytes());
    let begins = Tensor::copied(begins, by_clip.to_vec(), ElementType::F64);
    dict.set_item("audio", Py::new(py, samples)?)?;
    dict.set_item("audio_mask", Py::new(py, mask)?)?;
    dict.set_item("audio_begins", Py::new(py, begins)?)
}
