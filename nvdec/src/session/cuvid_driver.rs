//! Implements [`DecoderDriver`] with the driver and decoders from the pool. Waits for the stream
//! only without [`Mechanism::EarlyUnmap`].
#![allow(unsafe_code)]

use std::sync::Arc;

use super::decode_pass::DecoderDriver;
use crate::Result;
use crate::cuda::Stream;
use crate::format::SequenceInfo;
use crate::pool::DecoderPool;
use crate::pool::decoder::Decoder;
use crate::pool::decoder_cache::{CacheOutcome, CachedDecoder};
use crate::pool::decoder_config::Compatibility;
use crate::switches::Mechanism;
use crate::sys;

/// Decode status of a picture without damage.
const SUCCESS: u32 = 2;

/// The GPU backend: a pool of decoders, and the stream on which pictures are converted and read.
pub(crate) struct CuvidDriver {
    pub pool: Arc<DecoderPool>,
    pub stream: Arc<Stream>,
}

impl DecoderDriver for CuvidDriver {
    type Decoder = CachedDecoder<Decoder>;

    fn take(&mut self, sequence: &SequenceInfo) -> Result<(Self::Decoder, CacheOutcome)> {
        let (mut cached, outcome) = self.pool.take(&sequence.format)?;
        cached.decoder.begin_use(&self.stream)?;
        Ok((cached, outcome))
    }

    fn put(&mut self, mut cached: Self::Decoder) {
        // Without the recorded event the next user could overtake this user's readers, so the
        // decoder is dropped.
        if Mechanism::DecoderReuse.is_enabled() && cached.decoder.end_use().is_ok() {
            self.pool.put(cached);
        }
    }

    fn compatibility(&self, cached: &Self::Decoder, sequence: &SequenceInfo) -> Compatibility {
        cached.config.compatibility(&sequence.format)
    }

    fn reconfigure(&mut self, cached: &mut Self::Decoder, sequence: &SequenceInfo) -> Result<()> {
        self.pool.reconfigure(cached, &sequence.format)
    }

    fn surfaces(&self, cached: &Self::Decoder) -> u32 {
        cached.config.surfaces
    }

    fn decode(
        &mut self,
        cached: &mut Self::Decoder,
        picture: &mut sys::CUVIDPICPARAMS,
    ) -> Result<()> {
        // SAFETY: a pass calls this only from within its decode callback, with the picture that the
        // parser passed to it.
        unsafe { cached.decoder.decode(picture) }
    }

    fn map(&mut self, cached: &mut Self::Decoder, index: i32) -> Result<(u64, usize)> {
        cached.decoder.map(index, &self.stream)
    }

    fn unmap(&mut self, cached: &mut Self::Decoder, address: u64) -> Result<()> {
        // A driver that does not order its next picture after the enqueued work needs the wait;
        // tested with `unmapped_overwritten` of the simulated driver.
        if !Mechanism::EarlyUnmap.is_enabled() {
            self.stream.synchronize()?;
        }
        cached.decoder.unmap(address)
    }

    fn status(&mut self, cached: &mut Self::Decoder, index: i32) -> Result<u32> {
        match Mechanism::DecodeStatus.is_enabled() {
            true => cached.decoder.status(index),
            false => Ok(SUCCESS),
        }
    }
}
