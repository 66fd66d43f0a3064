//! Implements [`Backend`] with the driver and decoders from the pool. Never waits for the stream.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::run::Backend;
use crate::cuda::Stream;
use crate::format::Facts;
use crate::pool::decoder::{Decoder, MapHow};
use crate::pool::shape::Fit;
use crate::pool::shelf::{Origin, Pooled};
use crate::pool::DecoderPool;
use crate::sys;
use crate::Result;

/// The GPU backend: a pool of decoders, and the stream on which pictures are converted and read.
pub(crate) struct Hardware {
    pub pool: Arc<DecoderPool>,
    pub stream: Arc<Stream>,
}

impl Backend for Hardware {
    type Decoder = Pooled<Decoder>;

    fn take(&mut self, facts: &Facts) -> Result<(Self::Decoder, Origin)> {
        let (mut pooled, origin) = self.pool.take(&facts.format)?;
        pooled.decoder.adopt(&self.stream)?;
        Ok((pooled, origin))
    }

    fn put(&mut self, mut pooled: Self::Decoder) {
        // Without the recorded event the next user could overtake this user's readers, so the decoder is
        // dropped.
        if pooled.decoder.release().is_ok() {
            self.pool.put(pooled);
        }
    }

    fn fit(&self, pooled: &Self::Decoder, facts: &Facts) -> Fit {
        pooled.shape.fit(&facts.format)
    }

    fn reconfigure(&mut self, pooled: &mut Self::Decoder, facts: &Facts) -> Result<()> {
        self.pool.reconfigure(pooled, &facts.format)
    }

    fn surfaces(&self, pooled: &Self::Decoder) -> u32 {
        pooled.shape.surfaces
    }

    fn decode(&mut self, pooled: &mut Self::Decoder, picture: &mut sys::CUVIDPICPARAMS) -> Result<()> {
        // SAFETY: a run calls this only from within its decode callback, with the picture that the parser
        // passed to it.
        unsafe { pooled.decoder.decode(picture) }
    }

    fn map(&mut self, pooled: &mut Self::Decoder, index: i32, how: &MapHow) -> Result<(u64, usize)> {
        pooled.decoder.map(index, how, &self.stream)
    }

    fn unmap(&mut self, pooled: &mut Self::Decoder, address: u64) -> Result<()> {
        pooled.decoder.unmap(address)
    }

    fn status(&mut self, pooled: &mut Self::Decoder, index: i32) -> Result<u32> {
        pooled.decoder.status(index)
    }
}
