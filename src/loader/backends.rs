//! Opens the output device and provides hardware decoders, as many as the device has room for.
//! What the GPU cannot decode falls back to the CPU, and the reason is counted; it fails no clip.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use framespool_nvdec::session::{Chroma, Codec};
use framespool_nvdec::switches::Mechanism;
use framespool_nvdec::{caps, jpeg};
use xxhash_rust::xxh3::xxh3_64;

use serde::Deserialize;

use super::pace::WorkerKind;
use super::stats::StatsCollector;
use crate::decode::{BitstreamFilter, nvdec_exclusion};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::index::VideoIndex;
use crate::media::CodecParams;
use crate::units::DecodeIndex;
use crate::video::{AnyDecoder, NvdecDecoder};

/// The decoder backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecoderBackend {
    /// The GPU that holds the batches or is named for decoding, together with the CPU; only the
    /// CPU if there is none.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU, with fallback to the CPU for what the GPU cannot decode.
    Nvdec,
    /// For image files: nvJPEG, with fallback to the CPU for what nvJPEG cannot decode.
    Nvjpeg,
}

/// Selects the work that runs on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuConfig {
    /// The GPU whose memory holds the batches; host memory if `None`.
    pub device: Option<u32>,
    /// For batches in host memory: the GPU that decodes. `None` with [`DecoderBackend::Nvdec`] is
    /// GPU 0.
    pub decode_device: Option<u32>,
    /// The decoder backend.
    pub decoder: DecoderBackend,
    /// Worker threads that decode on the GPU. Default: two per NVDEC engine, fewer if device memory
    /// is short.
    pub nvdec_threads: Option<u32>,
}

impl GpuConfig {
    /// Whether a GPU may decode.
    pub(super) fn may_decode(&self) -> bool {
        match self.decoder {
            DecoderBackend::Cpu => false,
            DecoderBackend::Auto => self.device.is_some() || self.decode_device.is_some(),
            DecoderBackend::Nvdec | DecoderBackend::Nvjpeg => true,
        }
    }
}

/// Workers per NVDEC engine: one decodes while the other waits for frames to be mapped, or for
/// bytes to be read. On an H200, two reach the rate of raw sessions; with three, a batch shares the
/// engines with more later clips.
const WORKERS_PER_ENGINE: u32 = 2;

/// Maximum number of GPU workers: more than the engines of any GPU can use.
const MAX_WORKERS: u32 = 64;

/// Estimated device memory of one GPU worker: a decoder for 1080p with its surfaces.
const BYTES_PER_SESSION: u64 = 160 << 20;

/// Maximum number of streams, and of files, that are remembered as not decodable by the GPU.
const MAX_REMEMBERED: usize = 1 << 16;

/// The output device and the hardware decoders.
#[derive(Default)]
pub(super) struct DecoderBackends {
    /// The GPU whose memory holds the batches.
    pub output_device: Option<Arc<Gpu>>,
    sessions: Option<SessionPool>,
    workers: u32,
}

struct SessionPool {
    gpu: Arc<Gpu>,
    workers: u32,
    /// Each session holds a clone, so that a session dropped with its task is no longer counted.
    permits: Arc<()>,
    state: Mutex<SessionPoolState>,
}

#[derive(Default)]
struct SessionPoolState {
    /// Idle sessions, most recently used last.
    #[expect(clippy::vec_box, reason = "moved between threads")]
    free: Vec<Box<NvdecDecoder>>,
    /// Limit on the number of sessions, set when the device had no room for another.
    max_sessions: Option<usize>,
    /// Streams that the GPU cannot decode.
    unsupported_streams: HashSet<u64>,
    /// Files in which the GPU reported damage, or that it cannot decode. Files with the same
    /// parameters may differ.
    failed_files: HashSet<u64>,
}

impl SessionPoolState {
    /// Whether the GPU is known not to decode a video.
    fn is_for_cpu(&self, index: &VideoIndex) -> bool {
        self.failed_files.contains(&file_key(index))
            || self
                .unsupported_streams
                .contains(&stream_key(&index.info.params))
    }
}

fn stream_key(params: &CodecParams) -> u64 {
    xxh3_64(&params.extradata)
        ^ (u64::from(params.codec.id) << 32)
        ^ (u64::from(params.width) << 16)
        ^ u64::from(params.height)
}

fn file_key(index: &VideoIndex) -> u64 {
    xxh3_64(index.site.file.as_bytes())
}

impl DecoderBackends {
    /// Opens the requested devices and decoders.
    ///
    /// # Errors
    /// `Gpu` if the requested device, or a decoder requested by name, cannot be used.
    pub(super) fn open(config: GpuConfig, stats: &StatsCollector) -> Result<Self> {
        let (choice, workers) = (config.decoder, config.nvdec_threads);
        let output_device = config.device.map(Gpu::open).transpose()?;
        let decoding = match (choice, &output_device) {
            (DecoderBackend::Cpu, _) => {
                return Ok(Self {
                    output_device,
                    ..Self::default()
                });
            }
            (DecoderBackend::Auto, None) => match config.decode_device {
                Some(number) => Gpu::open(number)?,
                None => {
                    // The model of the loader has NVDEC workers that decode nothing.
                    let is_model = cfg!(all(test, feature = "model"));
                    return Ok(Self {
                        workers: workers.filter(|_| is_model).unwrap_or(0),
                        ..Self::default()
                    });
                }
            },
            (DecoderBackend::Nvjpeg, None) => return Err(Error::Argument(
                "decoder=\"nvjpeg\" decodes into a GPU's memory; give device=\"cuda:0\" with it"
                    .into(),
            )),
            (DecoderBackend::Nvjpeg, Some(_)) => {
                jpeg::available()?;
                return Ok(Self {
                    output_device,
                    ..Self::default()
                });
            }
            (_, Some(gpu)) => gpu.clone(),
            (DecoderBackend::Nvdec, None) => Gpu::open(config.decode_device.unwrap_or(0))?,
        };
        match SessionPool::open(decoding, workers) {
            Ok(sessions) => Ok(Self {
                output_device,
                workers: sessions.workers,
                sessions: Some(sessions),
            }),
            Err(error) if choice == DecoderBackend::Auto => {
                stats.record_cpu_fallback(&error.to_string());
                Ok(Self {
                    output_device,
                    ..Self::default()
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The GPU, if one is used.
    pub(super) fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.output_device
            .as_ref()
            .or(self.sessions.as_ref().map(|s| &s.gpu))
    }

    /// Number of threads that decode on the GPU.
    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    /// Whether the GPU has failed to decode a video, or a stream with its parameters.
    pub(super) fn has_failed(&self, index: &VideoIndex) -> bool {
        let sessions = self.sessions.as_ref();
        sessions.is_some_and(|sessions| sessions.lock().is_for_cpu(index))
    }

    /// The codec of a video that NVDEC decodes, as far as its index shows. The file may still turn
    /// out to have something that NVDEC does not decode.
    ///
    /// # Errors
    /// The reason why the CPU decodes it.
    fn nvdec_codec(
        sessions: &SessionPool,
        index: &VideoIndex,
    ) -> std::result::Result<Codec, String> {
        if let Some(reason) = nvdec_exclusion(index) {
            return Err(reason.to_owned());
        }
        let codec = BitstreamFilter::new(index, DecodeIndex(0))?.codec;
        // Every GPU that decodes a codec decodes 4:2:0 with 8 bits. Failing calls are reported when
        // a range begins.
        match caps::query(sessions.gpu.device(), codec, Chroma::C420, 8) {
            Ok(caps) if !caps.supported => {
                Err(format!("{} is not decoded by this GPU", codec.name()))
            }
            _ => Ok(codec),
        }
    }

    /// Returns a session for a video; `None` if the GPU is known not to decode it, or has no room
    /// for a session.
    pub(super) fn decoder(&self, index: &VideoIndex, stats: &StatsCollector) -> Option<AnyDecoder> {
        let sessions = self.sessions.as_ref()?;
        if let Some(reason) = nvdec_exclusion(index) {
            stats.record_cpu_fallback(reason);
            return None;
        }
        let mut state = sessions.lock();
        if state.is_for_cpu(index) {
            return None;
        }
        if let Some(worker) = state.free.pop() {
            return Some(AnyDecoder::Hardware(worker));
        }
        if state
            .max_sessions
            .is_some_and(|max_sessions| sessions.session_count() >= max_sessions)
        {
            return None;
        }
        let permit = sessions.permits.clone();
        drop(state); // the driver call is slow: not under the lock
        match NvdecDecoder::new(&sessions.gpu) {
            Ok(worker) => Some(AnyDecoder::Hardware(Box::new(worker.with_permit(permit)))),
            Err(error) => {
                drop(permit);
                sessions.lock().max_sessions = Some(sessions.session_count());
                stats.record_cpu_fallback(&error.to_string());
                None
            }
        }
    }

    /// The only kind of worker that makes clips of a video, if there is one as far as is known.
    pub(super) fn fixed_kind(
        &self,
        index: &VideoIndex,
        stats: &StatsCollector,
    ) -> Option<WorkerKind> {
        let sessions = self.sessions.as_ref()?;
        // The reason for an earlier failure is recorded.
        if index.info.params.codec.is_image || self.has_failed(index) {
            return Some(WorkerKind::Cpu);
        }
        match Self::nvdec_codec(sessions, index) {
            Err(reason) => {
                stats.record_cpu_fallback(&reason);
                Some(WorkerKind::Cpu)
            }
            // NVDEC does not report all damage of these, so which frames a damaged file has would
            // depend on who takes it.
            Ok(Codec::Vp8 | Codec::Vp9 | Codec::Av1) => Some(WorkerKind::Nvdec),
            Ok(_) => None,
        }
    }

    /// Returns a session to the idle ones.
    pub(super) fn recycle(&self, worker: Box<NvdecDecoder>) {
        let Some(sessions) = &self.sessions else {
            return;
        };
        let mut state = sessions.lock();
        if state.free.len() < sessions.workers as usize {
            state.free.push(worker);
        } else {
            drop(state); // closing is slow: not under the lock
            drop(worker);
        }
    }

    /// Records that a video, or a part of it, falls back to the CPU. `began`: whether its decode
    /// range had begun, so that the error is about this file and not about all streams with its
    /// parameters.
    pub(super) fn record_cpu_fallback(
        &self,
        index: &VideoIndex,
        error: &Error,
        began: bool,
        stats: &StatsCollector,
    ) {
        let (reason, is_unsupported, is_about_file) = match error {
            Error::Unsupported { what, .. } => (what.clone(), true, true),
            Error::Internal { reason, .. } | Error::Decode { reason, .. } => {
                (reason.clone(), false, true)
            }
            other => (other.to_string(), false, false),
        };
        if let Some(sessions) = &self.sessions {
            let mut state = sessions.lock();
            if is_unsupported && !began {
                if state.unsupported_streams.len() < MAX_REMEMBERED {
                    state
                        .unsupported_streams
                        .insert(stream_key(&index.info.params));
                }
            } else if is_about_file && state.failed_files.len() < MAX_REMEMBERED {
                state.failed_files.insert(file_key(index));
            }
        }
        stats.record_cpu_fallback(&reason);
    }

    /// Drops all idle sessions.
    pub(super) fn close(&self) {
        if let Some(sessions) = &self.sessions {
            let free = std::mem::take(&mut sessions.lock().free);
            drop(free);
        }
    }
}

impl SessionPool {
    fn open(gpu: Arc<Gpu>, workers: Option<u32>) -> Result<Self> {
        let engines = caps::engines(gpu.device())?;
        let (free_bytes, _) = gpu.device().memory_info()?;
        let fitting_workers =
            u32::try_from(free_bytes / 2 / BYTES_PER_SESSION).unwrap_or(MAX_WORKERS);
        let workers = workers
            .unwrap_or((engines * WORKERS_PER_ENGINE).min(fitting_workers))
            .clamp(1, MAX_WORKERS);
        let workers = if Mechanism::ParallelSessions.is_enabled() {
            workers
        } else {
            1
        };
        Ok(Self {
            gpu,
            workers,
            permits: Arc::new(()),
            state: Mutex::default(),
        })
    }

    /// Number of existing sessions.
    fn session_count(&self) -> usize {
        Arc::strong_count(&self.permits) - 1
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_may_decode_for_batches_in_host_memory() {
        let config = |decoder, device, decode_device| GpuConfig {
            device,
            decode_device,
            decoder,
            nvdec_threads: None,
        };
        use DecoderBackend::{Auto, Cpu, Nvdec};
        assert!(config(Auto, Some(0), None).may_decode());
        assert!(config(Auto, None, Some(0)).may_decode());
        assert!(config(Nvdec, None, None).may_decode());
        assert!(!config(Auto, None, None).may_decode());
        assert!(!config(Cpu, Some(0), None).may_decode());
    }
}
