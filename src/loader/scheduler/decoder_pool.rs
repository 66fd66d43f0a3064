//! Provides decoders to workers, and reuses the decoders that they return.
//! A surplus software decoder is closed without holding the scheduler's lock.

use super::{Scheduler, SuspendedTask};
use crate::decode::SoftwareDecoder;
use crate::index::VideoIndex;
use crate::video::AnyDecoder;

impl<T: SuspendedTask> Scheduler<T> {
    /// Returns a decoder for a video, if possible an idle one that decoded it before. With
    /// `on_gpu`, returns a hardware decoder if one is available for it.
    pub fn decoder(&self, index: &VideoIndex, on_gpu: bool) -> AnyDecoder {
        let params = &index.info.params;
        let on_gpu = on_gpu && !params.codec.is_image;
        if let Some(decoder) = on_gpu
            .then(|| self.backends.decoder(index, &self.stats))
            .flatten()
        {
            return decoder;
        }
        let mut state = self.lock();
        if params.codec.is_image {
            return AnyDecoder::Image(state.image_readers.pop().unwrap_or_default());
        }
        AnyDecoder::Software(
            match state.decoders.iter().rposition(|d| d.is_open_for(index)) {
                Some(at) => state.decoders.remove(at),
                None => SoftwareDecoder::with_threads(self.frame_threads),
            },
        )
    }

    /// Keeps a decoder for a later task on the same video; at most as many as there are workers.
    pub fn recycle_decoder(&self, mut decoder: AnyDecoder) {
        decoder.stop();
        let decoder = match decoder {
            AnyDecoder::Software(decoder) => decoder,
            AnyDecoder::Hardware(worker) => return self.backends.recycle(worker),
            AnyDecoder::Image(reader) => {
                let mut state = self.lock();
                if !state.closed && state.image_readers.len() < self.threads {
                    state.image_readers.push(reader);
                }
                return;
            }
        };
        let mut state = self.lock();
        if !state.closed {
            state.decoders.push(decoder);
            let surplus = state.decoders.len().saturating_sub(self.threads);
            let old: Vec<_> = state.decoders.drain(..surplus).collect();
            drop(state);
            drop(old); // closing a decoder is slow: not under the lock
        }
    }
}
