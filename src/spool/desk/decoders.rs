//! In: what lanes decode next, and what they have done with.
//! Out: a decoder for it, one that was used before if there is one.
//! Never: closes a decoder while others wait for the desk.

use super::Desk;
use crate::decode::FrameDecoder;
use crate::media::{CodecKind, CodecParams};
use crate::video::AnyDecoder;

impl Desk {
    /// A decoder, if possible one that is open for these parameters; one of the GPU's if that is asked for and can be had.
    pub fn decoder(&self, params: &CodecParams, by_gpu: bool) -> AnyDecoder {
        let by_gpu = by_gpu && params.codec.kind != CodecKind::Still;
        if let Some(decoder) = by_gpu.then(|| self.road.decoder(params, &self.meter)).flatten() {
            return decoder;
        }
        let mut state = self.lock();
        if params.codec.kind == CodecKind::Still {
            return AnyDecoder::Still(state.stills.pop().unwrap_or_default());
        }
        AnyDecoder::Software(match state.decoders.iter().rposition(|d| d.fits(params)) {
            Some(at) => state.decoders.remove(at),
            None => FrameDecoder::with_threads(self.frame_threads),
        })
    }

    /// Keeps a decoder for the next video like the last one; as many as there are lanes.
    pub fn keep_decoder(&self, mut decoder: AnyDecoder) {
        decoder.stop();
        let decoder = match decoder {
            AnyDecoder::Software(decoder) => decoder,
            AnyDecoder::Hardware(lane) => return self.road.keep(lane),
            AnyDecoder::Still(reader) => {
                let mut state = self.lock();
                if !state.closed && state.stills.len() < self.threads {
                    state.stills.push(reader);
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
            drop(old); // closing decoders takes a while: not under the lock
        }
    }
}
