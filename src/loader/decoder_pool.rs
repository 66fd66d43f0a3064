//! The idle decoders of all workers. A surplus decoder is closed without holding the lock.

use std::sync::Arc;

use super::backends::DecoderBackends;
use super::config::LoaderConfig;
use super::stats::StatsCollector;
use crate::decode::{ImageReader, SoftwareDecoder};
use crate::index::VideoIndex;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::video::AnyDecoder;

/// Lends decoders to decode tasks.
pub(super) struct DecoderPool {
    idle: Mutex<IdleDecoders>,
    backends: Arc<DecoderBackends>,
    stats: Arc<StatsCollector>,
    /// Number of workers, each of which may need a decoder.
    workers: usize,
    /// Threads of a decoder on the CPU.
    frame_threads: u32,
}

#[derive(Default)]
struct IdleDecoders {
    closed: bool,
    /// Most recently used last.
    software: Vec<SoftwareDecoder>,
    #[expect(clippy::vec_box, reason = "moved between threads")]
    images: Vec<Box<ImageReader>>,
}

impl DecoderPool {
    pub(super) fn new(
        config: &LoaderConfig,
        backends: Arc<DecoderBackends>,
        stats: Arc<StatsCollector>,
    ) -> Self {
        Self {
            idle: Mutex::new(IdleDecoders::default()),
            workers: config.num_workers(&backends) as usize,
            frame_threads: config.frame_threads(),
            backends,
            stats,
        }
    }

    pub(super) fn backends(&self) -> &DecoderBackends {
        &self.backends
    }

    /// Returns a decoder for a video, if possible an idle one that decoded it before. With
    /// `on_gpu`, returns a hardware decoder if one is available for it.
    pub(super) fn acquire(&self, index: &VideoIndex, on_gpu: bool) -> AnyDecoder {
        if index.info.params.codec.is_image {
            return AnyDecoder::Image(self.lock().images.pop().unwrap_or_default());
        }
        if let Some(decoder) = on_gpu
            .then(|| self.backends.decoder(index, &self.stats))
            .flatten()
        {
            return decoder;
        }
        let mut idle = self.lock();
        AnyDecoder::Software(
            match idle.software.iter().rposition(|d| d.is_open_for(index)) {
                Some(at) => idle.software.remove(at),
                None => SoftwareDecoder::with_threads(self.frame_threads),
            },
        )
    }

    /// Keeps a decoder for a later task on the same video; at most as many of a kind as there are
    /// workers.
    pub(super) fn release(&self, mut decoder: AnyDecoder) {
        decoder.stop();
        match decoder {
            AnyDecoder::Software(decoder) => self.keep(decoder, |idle| &mut idle.software),
            AnyDecoder::Image(reader) => self.keep(reader, |idle| &mut idle.images),
            AnyDecoder::Hardware(decoder) => self.backends.recycle(decoder),
        }
    }

    fn keep<D>(&self, decoder: D, of_kind: impl FnOnce(&mut IdleDecoders) -> &mut Vec<D>) {
        let mut idle = self.lock();
        if idle.closed {
            return;
        }
        let kept = of_kind(&mut idle);
        kept.push(decoder);
        let surplus = kept.len().saturating_sub(self.workers);
        let old: Vec<D> = kept.drain(..surplus).collect();
        drop(idle);
        drop(old); // closing a decoder is slow: not under the lock
    }

    /// Closes all idle decoders, and from now on each decoder that is returned.
    pub(super) fn close(&self) {
        let closed = IdleDecoders {
            closed: true,
            ..IdleDecoders::default()
        };
        let idle = std::mem::replace(&mut *self.lock(), closed);
        drop(idle);
        self.backends.close();
    }

    fn lock(&self) -> MutexGuard<'_, IdleDecoders> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
