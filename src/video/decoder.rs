//! In: runs.
//! Out: their wanted pictures, from libavcodec or from a GPU's decoder, by one interface.
//! Never: gives up on a run that the GPU cannot do: the CPU goes on with what is still owed, and its verdict counts.

use std::sync::Arc;

use crate::decode::{Counts, FrameDecoder, HardwareDecoder, Step, StillReader, Times};
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::index::VideoIndex;
use crate::media::{CodecKind, CodecParams, ColourTags};
use crate::pixels::{Easel, Picture};
use crate::plan::Run;
use crate::units::DecodeIndex;

/// A session of a GPU's decoder, with what paints its surfaces.
pub struct HardwareLane {
    decoder: HardwareDecoder,
    easel: Easel,
    container: ColourTags,
    /// Held for whoever counts the sessions that there are.
    #[expect(dead_code, reason = "held for its Drop")]
    seat: Option<Arc<()>>,
}

impl HardwareLane {
    /// # Errors
    /// `Gpu` where the device has not what it takes.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let decoder = HardwareDecoder::new(gpu.device())?;
        let easel = Easel::new(gpu.clone(), decoder.stream().clone());
        Ok(Self { decoder, easel, container: ColourTags::default(), seat: None })
    }

    /// The same, holding this for as long as it lives.
    pub fn with_seat(self, seat: Arc<()>) -> Self {
        Self { seat: Some(seat), ..self }
    }
}

/// What a container says of colour, as far as libavcodec heeds it: streams of HEVC, VP8, VP9 and AV1 speak for themselves, also by
/// saying nothing.
fn container(params: &CodecParams) -> ColourTags {
    match params.codec.kind {
        CodecKind::H264 => params.colour,
        _ => ColourTags::default(),
    }
}

/// Whatever decodes.
#[expect(clippy::large_enum_variant, reason = "few, and they go from hand to hand")]
pub enum AnyDecoder {
    /// libavcodec.
    Software(FrameDecoder),
    /// A GPU's decoder.
    Hardware(Box<HardwareLane>),
    /// For files that are pictures.
    Still(Box<StillReader>),
}

impl AnyDecoder {
    /// Whether it is a GPU's.
    pub fn is_hardware(&self) -> bool {
        matches!(self, Self::Hardware(_))
    }

    /// Begins a run; one that is under way is given up.
    ///
    /// # Errors
    /// `Unsupported` for what it does not decode.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, run: Run) -> Result<()> {
        match self {
            Self::Software(decoder) => decoder.begin(index, run),
            Self::Still(reader) => {
                reader.begin(index, run);
                Ok(())
            }
            Self::Hardware(lane) => {
                lane.container = container(&index.info.params);
                lane.decoder.begin(index, run)
            }
        }
    }

    /// Deals with one packet of the run.
    ///
    /// # Errors
    /// What reading, decoding or `each` reports.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, Picture<'_>) -> Result<()>,
    ) -> Result<Step> {
        match self {
            Self::Software(decoder) => {
                decoder.step(reader, watch, &mut |at, frame| each(at, Picture::Host(frame)))
            }
            Self::Still(still) => {
                still.step(reader, watch, &mut |at, picture| each(at, Picture::Still(picture)))
            }
            Self::Hardware(lane) => {
                let HardwareLane { decoder, easel, container, .. } = &mut **lane;
                decoder.step(reader, watch, &mut |at, surface| {
                    each(at, Picture::Device { surface, container: *container, easel })
                })
            }
        }
    }

    /// After an error of a step that means that the CPU shall go on: the packets whose pictures are still owed.
    ///
    /// Not after damage: what became of pictures before it was noticed is for the CPU to say too, so all is to be done again.
    pub fn left_to_cpu(&self, error: &Error) -> Option<Vec<DecodeIndex>> {
        let Self::Hardware(lane) = self else { return None };
        let about_hardware = match error {
            Error::Gpu { lost, .. } => !lost,
            Error::Unsupported { .. } => true,
            _ => false,
        };
        let missing = lane.decoder.missing();
        (about_hardware && !missing.is_empty()).then_some(missing)
    }

    /// Whether only the end of a run shows that none of its pictures was taken for another: a GPU's decoder tells those of VP8, VP9
    /// and AV1 apart by counting them, and one that never comes may be missed late.
    pub fn vouches_late(&self) -> bool {
        matches!(self, Self::Hardware(lane) if lane.decoder.counts_pictures())
    }

    /// Gives up the run that is under way, if there is one.
    pub fn stop(&mut self) {
        match self {
            Self::Software(decoder) => decoder.stop(),
            Self::Still(reader) => reader.stop(),
            Self::Hardware(lane) => lane.decoder.stop(),
        }
    }

    /// The work done since it was asked last.
    pub fn take_work(&mut self) -> (Counts, Times) {
        let (counts, times) = match self {
            Self::Software(decoder) => (&mut decoder.counts, &mut decoder.times),
            Self::Still(reader) => (&mut reader.counts, &mut reader.times),
            Self::Hardware(lane) => (&mut lane.decoder.counts, &mut lane.decoder.times),
        };
        (std::mem::take(counts), std::mem::take(times))
    }
}
