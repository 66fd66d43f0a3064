//! Decodes access units and delivers every wanted picture exactly once, in presentation order. A
//! surface is valid while the callback runs. A picture that cannot be matched to its unit or is
//! known to be damaged ends the pass with an error instead of being delivered.

mod bitstream;
pub(crate) mod cuvid_driver;
pub(crate) mod decode_pass;
mod picture_tracker;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

pub use crate::format::{Chroma, Codec, Rect, SurfaceFormat};

use crate::cuda::{Device, Stream};
use crate::cuvid::Cuvid;
use crate::format::SequenceInfo;
use crate::parser::Parser;
use crate::pool::DecoderPool;
use crate::{Error, Result};
use cuvid_driver::CuvidDriver;
use decode_pass::{DecodePass, FrameCallback, Packet, StopReason};

/// An access unit in the form that the parser expects: Annex B, OBUs, or a VP9 superframe.
#[derive(Clone, Copy, Debug)]
pub struct AccessUnit<'a> {
    /// Its bytes, including any parameter sets that changed.
    pub data: &'a [u8],
    /// Identifier that is returned with its picture.
    pub id: u32,
    /// Presentation order: ascending and unique. It is passed to the parser as the timestamp.
    pub timestamp: i64,
    /// Whether its picture is to be delivered.
    pub wanted: bool,
    /// Whether it must be decoded. `false` means that neither the caller nor any other picture
    /// needs its picture, so it may be skipped; this applies to H.264, HEVC and AV1 (AV1 only if
    /// `single_frame` is set).
    pub decode: bool,
    /// Whether it is exactly one frame, so that the parser need not wait for the next unit to
    /// detect its end. Must be `false` for two fields, for superframes, and for several frames in a
    /// unit.
    pub single_frame: bool,
    /// How many pictures it displays. Used for VP8, VP9 and AV1, whose pictures are identified by
    /// counting.
    pub num_displayed: u8,
}

/// A decoded frame in device memory. Reads must be enqueued on the session's stream before the
/// callback returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Device address of sample (0, 0) of the coded picture.
    pub address: u64,
    /// Bytes from one row to the next, in every plane.
    pub pitch_bytes: usize,
    /// Device addresses of the chroma planes: one interleaved plane, or two planes for 4:4:4, or
    /// none for gray. 0 means no plane.
    pub chroma_address: [u64; 2],
    /// Width and height of the coded picture.
    pub coded_size: (u32, u32),
    /// The displayed region of the coded picture.
    pub display_area: Rect,
    /// Bits per sample.
    pub depth_bits: u8,
    /// Number of bits by which a sample is shifted up in its 16 bits; 0 for 8 bit.
    pub shift: u8,
    /// Chroma subsampling.
    pub chroma: Chroma,
    /// Memory layout of the planes.
    pub surface_format: SurfaceFormat,
    /// Matrix coefficients, as numbered in H.273; 2 is unspecified.
    pub matrix: u8,
    /// Color primaries, as numbered in H.273.
    pub primaries: u8,
    /// Transfer characteristics, as numbered in H.273.
    pub transfer: u8,
    /// Whether samples use their full range; `None` where the stream signals limited range or
    /// nothing, which the parser does not distinguish.
    pub full_range: Option<bool>,
    /// Whether the picture has the lines of two fields, which may show two times.
    pub is_interlaced: bool,
}

impl Surface {
    fn new(
        address: u64,
        pitch_bytes: usize,
        sequence: &SequenceInfo,
        is_interlaced: bool,
    ) -> Surface {
        let format = &sequence.format;
        let plane_bytes = pitch_bytes as u64 * u64::from(format.coded_size.1);
        let surface_format = format.surface_format();
        let chroma_address = match (format.chroma, surface_format) {
            (Chroma::Gray, _) => [0, 0],
            (_, SurfaceFormat::Yuv444 | SurfaceFormat::Yuv444P16) => {
                [address + plane_bytes, address + 2 * plane_bytes]
            }
            _ => [address + plane_bytes, 0],
        };
        Surface {
            address,
            pitch_bytes,
            chroma_address,
            coded_size: format.coded_size,
            display_area: sequence.display_area,
            depth_bits: format.depth_bits,
            shift: if format.depth_bits > 8 {
                16 - format.depth_bits
            } else {
                0
            },
            chroma: format.chroma,
            surface_format,
            matrix: sequence.matrix,
            primaries: sequence.primaries,
            transfer: sequence.transfer,
            full_range: sequence.full_range.then_some(true),
            is_interlaced,
        }
    }
}

/// Statistics of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Units fed.
    pub access_units: u64,
    /// Pictures (or fields) given to the engine.
    pub decoded: u64,
    /// Pictures that were not needed and were not given to the engine.
    pub skipped: u64,
    /// Pictures delivered.
    pub mapped: u64,
    /// Displayed pictures that were not wanted.
    pub unwanted: u64,
    /// Displayed pictures that belong to no unit.
    pub unmatched: u64,
    /// Times that a surface was about to be reused while its picture was still waiting to be
    /// mapped.
    pub early_maps: u64,
    /// Pictures mapped only because the driver did not report their decode status otherwise.
    pub maps_for_status: u64,
    /// Pictures whose decode status was unknown even after they were mapped.
    pub late_statuses: u64,
    pub decoders_created: u64,
    /// Decoders reused without change.
    pub reused: u64,
    /// Decoders reconfigured for another size.
    pub reconfigured: u64,
}

impl SessionStats {
    fn add(&mut self, other: &SessionStats) {
        self.access_units += other.access_units;
        self.decoded += other.decoded;
        self.skipped += other.skipped;
        self.mapped += other.mapped;
        self.unwanted += other.unwanted;
        self.unmatched += other.unmatched;
        self.early_maps += other.early_maps;
        self.maps_for_status += other.maps_for_status;
        self.late_statuses += other.late_statuses;
        self.decoders_created += other.decoders_created;
        self.reused += other.reused;
        self.reconfigured += other.reconfigured;
    }
}

/// Runs decoding passes one after another. It may be used from any thread, but by one thread at a
/// time.
pub struct Session {
    cuvid: &'static Cuvid,
    device: Arc<Device>,
    stream: Arc<Stream>,
    pool: Arc<DecoderPool>,
    state: SessionState,
    stats: SessionStats,
}

enum SessionState {
    /// Between passes, including after a pass that failed.
    Idle,
    /// During a pass. The parser is dropped first; its callbacks have no target at that time.
    Running(Box<(Parser, DecodePass<CuvidDriver>)>),
}

impl Session {
    /// Creates a session on a device, with its own stream.
    ///
    /// # Errors
    /// Fails if the device has no usable video engines, or if the stream cannot be created.
    pub fn new(device: &Arc<Device>) -> Result<Session> {
        Ok(Session {
            cuvid: Cuvid::get()?,
            device: device.clone(),
            stream: device.create_stream()?,
            pool: DecoderPool::for_device(device)?,
            state: SessionState::Idle,
            stats: SessionStats::default(),
        })
    }

    /// The session's stream: pictures are converted on it, and all work that reads them must be
    /// enqueued on it.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Statistics up to now.
    pub fn stats(&self) -> SessionStats {
        let mut stats = self.stats;
        if let SessionState::Running(running) = &self.state {
            stats.add(&running.1.stats);
        }
        stats
    }

    /// Starts a pass, abandoning any pass in progress. `headers` are the in-band parameter sets
    /// (AV1: the sequence header OBU), empty for VP8 and VP9.
    pub fn begin(&mut self, codec: Codec, headers: &[u8]) -> Result<()> {
        self.stop();
        let parser = Parser::new(self.cuvid, codec)?;
        let driver = CuvidDriver {
            pool: self.pool.clone(),
            stream: self.stream.clone(),
        };
        self.state = SessionState::Running(Box::new((parser, DecodePass::new(driver, codec))));
        if headers.is_empty() {
            return Ok(());
        }
        self.run_step(
            "the parameter sets",
            &mut |_, _| Ok(()),
            |pass, _, parse| pass.parse_headers(headers, parse),
        )
    }

    /// Feeds one unit. `on_frame` is called with the pictures that are ready and their units' ids;
    /// it must enqueue its reads on the stream before it returns.
    ///
    /// After an error the pass is over, and the pictures that it delivered must not be used: the
    /// error may concern them.
    pub fn feed<E: From<Error>>(
        &mut self,
        unit: &AccessUnit<'_>,
        on_frame: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        let what = format!("unit {}", unit.id);
        self.run_step(&what, on_frame, |pass, on_frame, parse| {
            pass.feed(unit, on_frame, parse)
        })
    }

    /// Ends the pass: delivers all remaining pictures and returns the decoder to the pool.
    /// Delivered pictures are guaranteed valid only after this succeeds, because an error in one
    /// may be detected when a later one is processed.
    pub fn finish<E: From<Error>>(
        &mut self,
        on_frame: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        self.run_step(
            "the end of the stream",
            on_frame,
            |pass, on_frame, parse| pass.finish(on_frame, parse),
        )?;
        self.stop();
        Ok(())
    }

    /// Abandons the pass, if there is one: nothing more is delivered, and the decoder returns to
    /// the pool.
    pub fn stop(&mut self) {
        if let SessionState::Running(running) =
            std::mem::replace(&mut self.state, SessionState::Idle)
        {
            self.end_pass(*running, true);
        }
    }

    /// Runs a step of the pass. The pass ends if the step fails or panics.
    fn run_step<E: From<Error>>(
        &mut self,
        what: &str,
        on_frame: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
        step: impl FnOnce(
            &mut DecodePass<CuvidDriver>,
            &mut FrameCallback<'_>,
            &mut ParseFn<'_>,
        ) -> Result<(), StopReason>,
    ) -> Result<(), E> {
        let SessionState::Running(mut running) =
            std::mem::replace(&mut self.state, SessionState::Idle)
        else {
            return Err(Error::Misuse(
                "no decoding pass is in progress: none was started, or it ended with an error",
            )
            .into());
        };
        let mut failure = None;
        let mut callback = |id: u32, surface: &Surface| match on_frame(id, surface) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let (parser, pass) = &mut *running;
        let driver = self.cuvid.driver();
        let outcome = self.device.with_current(|| {
            let mut parse = |packet: Packet<'_>, callbacks: &mut dyn crate::parser::Callbacks| {
                let bytes = packet.data.len();
                let code = parser.parse(packet.data, packet.flags, packet.timestamp, callbacks)?;
                driver
                    .check("cuvidParseVideoData", code)
                    .map_err(|error| match error {
                        Error::Call { code, name, .. } => Error::ParseFailed {
                            what: what.to_owned(),
                            bytes,
                            code,
                            name,
                        },
                        other => other,
                    })
            };
            step(pass, &mut callback, &mut parse)
        });
        match outcome {
            Ok(()) => {
                self.state = SessionState::Running(running);
                Ok(())
            }
            Err(stop_reason) => {
                // If the callback stopped the pass, the decoder is still valid. After any other
                // error it is not reused.
                self.end_pass(*running, matches!(stop_reason, StopReason::Callback));
                Err(match (stop_reason, failure) {
                    (StopReason::Error(error), _) => error.into(),
                    (StopReason::Callback, Some(error)) => error,
                    (StopReason::Callback, None) => {
                        Error::Misuse("a pass ended without a reason").into()
                    }
                })
            }
        }
    }

    fn end_pass(&mut self, (parser, pass): (Parser, DecodePass<CuvidDriver>), is_reusable: bool) {
        drop(parser);
        self.stats.add(&pass.stats);
        if is_reusable {
            pass.release();
        }
    }
}

type ParseFn<'a> = dyn FnMut(Packet<'_>, &mut dyn crate::parser::Callbacks) -> Result<()> + 'a;

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Session>();
};

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
