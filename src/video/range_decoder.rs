//! Decodes one decode range after another with the decoders that its owner provides. The rules of
//! the fallback from the GPU to the CPU are only here, and so is the second attempt of frames that
//! a damaged picture prevented.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decoder::AnyDecoder;
use crate::decode::plan::{self, DecodeRange};
use crate::decode::{PacketReader, Step};
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::transforms::InputFrame;
use crate::units::{DecodeIndex, PresentationIndex};

/// Provides decoders to a [`RangeDecoder`], and takes them back.
pub(crate) trait DecoderProvider {
    /// Whether videos are decoded on the GPU where that is possible.
    fn prefers_gpu(&self) -> bool;

    /// A decoder for this video: of the GPU if `on_gpu` is set and the GPU decodes the video as far
    /// as is known.
    fn acquire(&mut self, index: &Arc<VideoIndex>, on_gpu: bool) -> AnyDecoder;

    /// Whether a decoder of the GPU that decodes this video may go on with its next range.
    fn keeps_gpu_decoder(&self, index: &VideoIndex) -> bool;

    /// Takes a decoder back. `is_fallback`: it is one of the CPU in place of one of the GPU.
    fn release(&mut self, decoder: AnyDecoder, is_fallback: bool);

    /// Records why a video, or a part of it, falls back to the CPU. `began`: whether the decode
    /// range had begun, so that the reason is in this file and not in all streams like it.
    fn record_fallback(&mut self, index: &VideoIndex, error: &Error, began: bool);
}

/// The outcome of one step of a decode range.
pub(crate) enum RangeStep {
    /// The range continues.
    More,
    /// The range is over.
    Done,
    /// The GPU noticed damage, or that it confused pictures. Frames of the range that
    /// it has delivered may be wrong, so the range is over, and none of them counts.
    Distrusted(Error),
}

/// Decodes one decode range at a time.
#[derive(Default)]
pub(crate) struct RangeDecoder {
    decoder: Option<AnyDecoder>,
    /// The range in progress, or the one that failed last: its packets from the random access point
    /// on, and the frames that the present decoder has to deliver.
    range: Option<DecodeRange>,
    /// A decoder of the CPU is used in place of one of the GPU.
    is_fallback: bool,
}

impl RangeDecoder {
    /// Whether a range is in progress or has failed.
    pub(crate) fn is_in_range(&self) -> bool {
        self.range.is_some()
    }

    /// Ends the range, and returns it.
    pub(crate) fn take_range(&mut self) -> Option<DecodeRange> {
        self.range.take()
    }

    /// The decoder, if it holds one, and whether that is a fallback.
    pub(crate) fn decoder(&mut self) -> Option<(&mut AnyDecoder, bool)> {
        self.decoder
            .as_mut()
            .map(|decoder| (decoder, self.is_fallback))
    }

    /// Whether frames come from the GPU now.
    pub(crate) fn is_on_gpu(&self) -> bool {
        self.decoder.as_ref().is_some_and(AnyDecoder::is_hardware)
    }

    /// Whether only the end of a range shows that its frames are right.
    pub(crate) fn verifies_at_end(&self) -> bool {
        self.decoder
            .as_ref()
            .is_some_and(AnyDecoder::verifies_at_end)
    }

    /// Gives the decoder back.
    pub(crate) fn release(&mut self, decoders: &mut dyn DecoderProvider) {
        if let Some(decoder) = self.decoder.take() {
            decoders.release(decoder, self.is_fallback);
        }
    }

    /// Begins a decode range of this video; a range in progress is abandoned. Streams that the GPU
    /// does not decode begin on the CPU.
    ///
    /// # Errors
    /// Those of [`AnyDecoder::begin`] on the CPU; `Gpu` if the device is lost.
    pub(crate) fn begin(
        &mut self,
        index: &Arc<VideoIndex>,
        range: DecodeRange,
        decoders: &mut dyn DecoderProvider,
    ) -> Result<()> {
        self.range = Some(range.clone());
        let cpu_only = index.cpu_only.get();
        if self.is_on_gpu() && (cpu_only.is_some() || !decoders.keeps_gpu_decoder(index)) {
            self.release(decoders);
        }
        if self.decoder.is_none() {
            let prefers_gpu = decoders.prefers_gpu();
            let decoder = decoders.acquire(index, prefers_gpu && cpu_only.is_none());
            self.is_fallback = prefers_gpu && matches!(decoder, AnyDecoder::Software(_));
            self.decoder = Some(decoder);
        }
        let decoder = self.decoder.as_mut().expect("set above");
        match decoder.begin(index, range.clone()) {
            Err(error) if decoder.is_hardware() && is_about_gpu(&error) => {
                decoders.record_fallback(index, &error, false);
                self.begin_on_cpu(index, range, decoders)
            }
            begun => begun,
        }
    }

    fn begin_on_cpu(
        &mut self,
        index: &Arc<VideoIndex>,
        range: DecodeRange,
        decoders: &mut dyn DecoderProvider,
    ) -> Result<()> {
        self.release(decoders);
        self.is_fallback = true;
        self.range = Some(range.clone());
        self.decoder
            .insert(decoders.acquire(index, false))
            .begin(index, range)
    }

    /// Processes one packet of the range. What the GPU cannot decode, the CPU decodes: the frames
    /// that are still missing.
    ///
    /// # Errors
    /// Any error from reading, decoding on the CPU or `on_frame`; `Gpu` if the device is lost.
    /// Frames delivered before the error count.
    pub(crate) fn step(
        &mut self,
        reader: &mut PacketReader,
        decoders: &mut dyn DecoderProvider,
        on_frame: &mut dyn FnMut(DecodeIndex, InputFrame<'_>) -> Result<()>,
    ) -> Result<RangeStep> {
        let (Some(decoder), Some(range)) = (&mut self.decoder, &self.range) else {
            return Ok(RangeStep::Done);
        };
        let error = match decoder.step(reader, on_frame) {
            Ok(Step::More) => return Ok(RangeStep::More),
            Ok(Step::Done) => {
                self.range = None;
                return Ok(RangeStep::Done);
            }
            Err(error) => error,
        };
        let Some(missing) = decoder.missing_on_gpu() else {
            return Err(error);
        };
        let index = reader.index().clone();
        if let Error::Unsupported { .. } | Error::Decode { .. } | Error::Internal { .. } = error {
            let _ = index.cpu_only.set(error.clone()); // it may have been set before
        }
        match &error {
            _ if is_about_gpu(&error) && !missing.is_empty() => {
                decoders.record_fallback(&index, &error, true);
                let rest = DecodeRange::remaining(range, missing, &index);
                self.begin_on_cpu(&index, rest, decoders)?;
                Ok(RangeStep::More)
            }
            Error::Decode { .. } | Error::Internal { .. } => {
                decoders.record_fallback(&index, &error, true);
                self.release(decoders);
                Ok(RangeStep::Distrusted(error))
            }
            _ => Err(error),
        }
    }

    /// Decodes a whole range. `on_frame` may get a frame twice: the second one counts.
    ///
    /// A frame that does not depend on a damaged picture is delivered when it is requested alone.
    /// After damage, each missing frame is therefore decoded alone, so that it is delivered or
    /// refused however it is requested.
    ///
    /// # Errors
    /// That of the first frame that cannot be decoded alone; any error from reading or `on_frame`.
    pub(crate) fn run(
        &mut self,
        reader: &mut PacketReader,
        range: DecodeRange,
        decoders: &mut dyn DecoderProvider,
        on_frame: &mut dyn FnMut(DecodeIndex, InputFrame<'_>) -> Result<()>,
    ) -> Result<()> {
        let index = reader.index().clone();
        let mut missing: BTreeSet<DecodeIndex> = range.wanted.iter().copied().collect();
        self.begin(&index, range.clone(), decoders)?;
        loop {
            let step = self.step(reader, decoders, &mut |packet, picture| {
                missing.remove(&packet);
                on_frame(packet, picture)
            });
            match step {
                Ok(RangeStep::More) => {}
                Ok(RangeStep::Done) => return Ok(()),
                Ok(RangeStep::Distrusted(_)) => {
                    missing = range.wanted.iter().copied().collect();
                    self.begin_on_cpu(&index, range.clone(), decoders)?;
                }
                Err(Error::Decode { .. }) if self.can_decode_frames_alone() => break,
                Err(error) => return Err(error),
            }
        }
        let frames = index.frames.iter().enumerate();
        let frames = frames.filter(|(_, frame)| missing.contains(&frame.packet));
        for (number, _) in frames {
            for range in plan::plan_decode_ranges(&index, &[PresentationIndex(number as u32)]) {
                self.range = Some(range.clone());
                let decoder = self.decoder.as_mut().expect("it has failed a step");
                decoder.begin(&index, range)?;
                while decoder.step(reader, on_frame)? == Step::More {}
            }
        }
        Ok(())
    }

    /// Whether the range that failed has other frames than the failed one.
    fn can_decode_frames_alone(&self) -> bool {
        matches!(self.decoder, Some(AnyDecoder::Software(_)))
            && self
                .range
                .as_ref()
                .is_some_and(|range| range.wanted.len() > 1)
    }
}

/// Whether an error of the GPU's decoder is about what it can decode, so that the CPU may decode
/// it. A lost device is another matter: results have no place there any more.
fn is_about_gpu(error: &Error) -> bool {
    matches!(
        error,
        Error::Unsupported { .. } | Error::Gpu { lost: false, .. }
    )
}
