//! In: which device was asked for, and who shall decode.
//! Out: that device, and its decoding sessions as long as there is room for more.
//! Never: fails a clip: what the GPU cannot do is left to the CPU, with the reason counted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use framespool_nvdec::{caps, jpeg};
use xxhash_rust::xxh3::xxh3_64;

use super::stats::Meter;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::media::CodecParams;
use crate::video::{AnyDecoder, HardwareLane};

/// Who decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecoderChoice {
    /// The GPU where batches land, and the CPU beside it; the CPU alone where they land in host memory.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU, but for what it cannot decode.
    Nvdec,
    /// For pictures' files: nvJPEG, but for what it does not take.
    Nvjpeg,
}

/// Lanes for each decoding engine: one decodes while others wait for pictures to be mapped, or for bytes to be read.
const LANES_PER_ENGINE: u32 = 3;

/// More than any GPU's engines can use.
const MOST_LANES: u32 = 64;

/// Device memory that one lane is thought to need: a decoder for 1080p with its surfaces.
const LANE_BYTES: u64 = 160 << 20;

/// Streams that are remembered as the CPU's.
const MOST_REFUSED: usize = 1 << 16;

/// Where batches land, and the GPU's decoders.
#[derive(Default)]
pub(super) struct Road {
    /// The GPU in whose memory batches are made.
    pub home: Option<Arc<Gpu>>,
    sessions: Option<Sessions>,
}

struct Sessions {
    gpu: Arc<Gpu>,
    lanes: u32,
    /// Each session has a clone, so that one that goes with its errand is not counted any more.
    seats: Arc<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nobody uses them; most recently used last.
    #[expect(clippy::vec_box, reason = "they go from hand to hand")]
    free: Vec<Box<HardwareLane>>,
    /// No more than this: the device had no room for another.
    most: Option<usize>,
    /// Streams that the GPU does not decode.
    refused: HashSet<u64>,
}

fn stream_key(params: &CodecParams) -> u64 {
    xxh3_64(&params.extradata)
        ^ (u64::from(params.codec.id) << 32)
        ^ (u64::from(params.width) << 16)
        ^ u64::from(params.height)
}

impl Road {
    /// Opens what was asked for.
    ///
    /// # Errors
    /// `Gpu` where the device that was asked for cannot be used, or by name its decoder.
    pub fn open(
        device: Option<u32>,
        choice: DecoderChoice,
        lanes: Option<u32>,
        meter: &Meter,
    ) -> Result<Self> {
        let home = device.map(Gpu::open).transpose()?;
        let decoding = match (choice, &home) {
            (DecoderChoice::Cpu, _) | (DecoderChoice::Auto, None) => {
                return Ok(Self { home, sessions: None })
            }
            (DecoderChoice::Nvjpeg, None) => {
                return Err(Error::Argument(
                    "decoder=\"nvjpeg\" decodes into a GPU's memory; give device=\"cuda:0\" with it".into(),
                ))
            }
            (DecoderChoice::Nvjpeg, Some(_)) => {
                jpeg::available()?;
                return Ok(Self { home, sessions: None });
            }
            (_, Some(gpu)) => gpu.clone(),
            (DecoderChoice::Nvdec, None) => Gpu::open(0)?,
        };
        match Sessions::open(decoding, lanes) {
            Ok(sessions) => Ok(Self { home, sessions: Some(sessions) }),
            Err(error) if choice == DecoderChoice::Auto => {
                meter.left_to_cpu(&error.to_string());
                Ok(Self { home, sessions: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The GPU, if one takes part.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.home.as_ref().or(self.sessions.as_ref().map(|s| &s.gpu))
    }

    /// Threads that decode by the GPU.
    pub fn lanes(&self) -> u32 {
        self.sessions.as_ref().map_or(0, |s| s.lanes)
    }

    /// A session for a stream, if the GPU may know it and has room.
    pub fn decoder(&self, params: &CodecParams, meter: &Meter) -> Option<AnyDecoder> {
        let sessions = self.sessions.as_ref()?;
        let mut state = sessions.lock();
        if state.refused.contains(&stream_key(params)) {
            return None;
        }
        if let Some(lane) = state.free.pop() {
            return Some(AnyDecoder::Hardware(lane));
        }
        if state.most.is_some_and(|most| sessions.live() >= most) {
            return None;
        }
        let seat = sessions.seats.clone();
        drop(state); // the driver takes its time
        match HardwareLane::new(&sessions.gpu) {
            Ok(lane) => Some(AnyDecoder::Hardware(Box::new(lane.with_seat(seat)))),
            Err(error) => {
                drop(seat);
                sessions.lock().most = Some(sessions.live());
                meter.left_to_cpu(&error.to_string());
                None
            }
        }
    }

    /// Takes a session back.
    pub fn keep(&self, lane: Box<HardwareLane>) {
        let Some(sessions) = &self.sessions else { return };
        let mut state = sessions.lock();
        if state.free.len() < sessions.lanes as usize {
            state.free.push(lane);
        } else {
            drop(state); // closing takes its time
            drop(lane);
        }
    }

    /// The GPU left a stream, or a stretch of it, to the CPU.
    pub fn left_to_cpu(&self, params: &CodecParams, error: &Error, meter: &Meter) {
        let reason = match error {
            // Or of which it mistook pictures for each other.
            Error::Unsupported { what: reason, .. } | Error::Internal { reason, .. } => {
                if let Some(sessions) = &self.sessions {
                    let mut state = sessions.lock();
                    if state.refused.len() < MOST_REFUSED {
                        state.refused.insert(stream_key(params));
                    }
                }
                reason.clone()
            }
            Error::Decode { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        meter.left_to_cpu(&reason);
    }

    /// Lets go of all sessions that nobody uses.
    pub fn close(&self) {
        if let Some(sessions) = &self.sessions {
            let free = std::mem::take(&mut sessions.lock().free);
            drop(free);
        }
    }
}

impl Sessions {
    fn open(gpu: Arc<Gpu>, lanes: Option<u32>) -> Result<Self> {
        let engines = caps::engines(gpu.device())?;
        let (free_bytes, _) = gpu.device().memory()?;
        let room = u32::try_from(free_bytes / 2 / LANE_BYTES).unwrap_or(MOST_LANES);
        let lanes = lanes.unwrap_or((engines * LANES_PER_ENGINE).min(room)).clamp(1, MOST_LANES);
        Ok(Self { gpu, lanes, seats: Arc::new(()), state: Mutex::default() })
    }

    /// Sessions that there are.
    fn live(&self) -> usize {
        Arc::strong_count(&self.seats) - 1
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
