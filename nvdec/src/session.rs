//! Decodes access units and delivers every wanted picture exactly once, in presentation order.
//! A surface is valid while the callback runs. A picture that cannot be matched to its unit or is known to be
//! damaged ends the pass with an error instead of being delivered.

mod bitstream;
pub(crate) mod hardware;
mod ledger;
pub(crate) mod run;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

pub use crate::format::{Chroma, Codec, Layout, Rect4};

use crate::api::Cuvid;
use crate::cuda::{Device, Stream};
use crate::format::Facts;
use crate::parser::Parser;
use crate::pool::DecoderPool;
use crate::{Error, Result};
use hardware::Hardware;
use run::{Each, Halt, Packet, Run};

/// An access unit in the form that the parser expects: Annex B, OBUs, or a VP9 superframe.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// Its bytes, including any parameter sets that changed.
    pub data: &'a [u8],
    /// Identifier that is returned with its picture.
    pub id: u32,
    /// Presentation order: ascending and unique. It is passed to the parser as the timestamp.
    pub order: i64,
    /// Whether its picture is to be delivered.
    pub wanted: bool,
    /// Whether it must be decoded. `false` means that neither the caller nor any other picture needs its
    /// picture, so it may be skipped; this applies to H.264, HEVC and AV1 (AV1 only if `whole_picture` is
    /// set).
    pub decode: bool,
    /// Whether it is exactly one frame, so that the parser need not wait for the next unit to detect its end.
    /// Must be `false` for two fields, for superframes, and for several frames in a unit.
    pub whole_picture: bool,
    /// How many pictures it displays. Used for VP8, VP9 and AV1, whose pictures are identified by counting.
    pub shows: u8,
}

/// A decoded frame in device memory. Reads must be enqueued on the session's stream before the callback
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Device address of sample (0, 0) of the coded picture.
    pub address: u64,
    /// Bytes from one row to the next, in every plane.
    pub pitch_bytes: usize,
    /// Device addresses of the chroma planes: one interleaved plane, or two planes for 4:4:4, or none for
    /// gray. 0 means no plane.
    pub chroma_address: [u64; 2],
    /// Width and height of the coded picture.
    pub coded_size: (u32, u32),
    /// The displayed region of the coded picture.
    pub display: Rect4,
    /// Bits per sample.
    pub depth_bits: u8,
    /// Number of bits by which a sample is shifted up in its 16 bits; 0 for 8 bit.
    pub shift: u8,
    /// Chroma subsampling.
    pub chroma: Chroma,
    /// Memory layout of the planes.
    pub layout: Layout,
    /// Matrix coefficients, as numbered in H.273; 2 is unspecified.
    pub matrix: u8,
    /// Color primaries, as numbered in H.273.
    pub primaries: u8,
    /// Transfer characteristics, as numbered in H.273.
    pub transfer: u8,
    /// Whether samples use their full range; `None` where the stream signals limited range or nothing, which
    /// the parser does not distinguish.
    pub full_range: Option<bool>,
}

impl Surface {
    fn new(address: u64, pitch_bytes: usize, facts: &Facts) -> Surface {
        let format = &facts.format;
        let plane_bytes = pitch_bytes as u64 * u64::from(format.coded_size.1);
        let layout = format.layout();
        let chroma_address = match (format.chroma, layout) {
            (Chroma::Gray, _) => [0, 0],
            (_, Layout::Yuv444 | Layout::Yuv444P16) => [address + plane_bytes, address + 2 * plane_bytes],
            _ => [address + plane_bytes, 0],
        };
        Surface {
            address,
            pitch_bytes,
            chroma_address,
            coded_size: format.coded_size,
            display: facts.display,
            depth_bits: format.depth_bits,
            shift: if format.depth_bits > 8 { 16 - format.depth_bits } else { 0 },
            chroma: format.chroma,
            layout,
            matrix: facts.matrix,
            primaries: facts.primaries,
            transfer: facts.transfer,
            full_range: facts.full_range.then_some(true),
        }
    }
}

/// Statistics of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units fed.
    pub units: u64,
    /// Pictures (or fields) given to the engine.
    pub decoded: u64,
    /// Pictures that were not needed and were not given to the engine.
    pub skipped: u64,
    /// Pictures delivered.
    pub mapped: u64,
    /// Displayed pictures that were not wanted.
    pub unwanted: u64,
    /// Displayed pictures that belong to no unit.
    pub strangers: u64,
    /// Times that a surface was about to be reused while its picture was still waiting to be mapped.
    pub guarded: u64,
    /// Decoders created.
    pub decoders_created: u64,
    /// Decoders reused without change.
    pub reused: u64,
    /// Decoders reconfigured for another size.
    pub reconfigured: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.units += other.units;
        self.decoded += other.decoded;
        self.skipped += other.skipped;
        self.mapped += other.mapped;
        self.unwanted += other.unwanted;
        self.strangers += other.strangers;
        self.guarded += other.guarded;
        self.decoders_created += other.decoders_created;
        self.reused += other.reused;
        self.reconfigured += other.reconfigured;
    }
}

/// Runs decoding passes one after another. It may be used from any thread, but by one thread at a time.
pub struct Session {
    cuvid: &'static Cuvid,
    device: Arc<Device>,
    stream: Arc<Stream>,
    pool: Arc<DecoderPool>,
    state: State,
    counts: Counts,
}

enum State {
    /// Between passes, including after a pass that failed.
    Idle,
    /// During a pass. The parser is dropped first; its callbacks have no target at that time.
    Running(Box<(Parser, Run<Hardware>)>),
}

impl Session {
    /// Creates a session on a device, with its own stream.
    /// |
    /// # Errors
    /// Fails if the device has no usable video engines, or if the stream cannot be created.
    pub fn new(device: &Arc<Device>) -> Result<Session> {
        Ok(Session {
            cuvid: Cuvid::get()?,
            device: device.clone(),
            stream: device.stream()?,
            pool: DecoderPool::of(device)?,
            state: State::Idle,
            counts: Counts::default(),
        })
    }

    /// The session's stream: pictures are converted on it, and all work that reads them must be enqueued on
    /// it.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Statistics up to now.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if let State::Running(running) = &self.state {
            counts.add(&running.1.counts);
        }
        counts
    }

    /// Begins a pass, abandoning any pass in progress. `headers` are the in-band parameter sets (AV1: the
    /// sequence header OBU), empty for VP8 and VP9.
    pub fn begin(&mut self, codec: Codec, headers: &[u8]) -> Result<()> {
        self.stop();
        let parser = Parser::new(self.cuvid, codec)?;
        let hardware = Hardware { pool: self.pool.clone(), stream: self.stream.clone() };
        self.state = State::Running(Box::new((parser, Run::new(hardware, codec))));
        if headers.is_empty() {
            return Ok(());
        }
        self.drive("the parameter sets", &mut |_, _| Ok(()), |run, _, parse| run.headers(headers, parse))
    }

    /// Feeds one unit. `each` is called with the pictures that are ready and their units' ids; it must
    /// enqueue its reads on the stream before it returns.
    /// |
    /// After an error the pass is over, and the pictures that it delivered must not be used: the error may
    /// concern them.
    pub fn feed<E: From<Error>>(
        &mut self,
        unit: &Unit<'_>,
        each: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        let what = format!("unit {}", unit.id);
        self.drive(&what, each, |run, each, parse| run.feed(unit, each, parse))
    }

    /// Ends the pass: delivers all remaining pictures and returns the decoder to the pool. Delivered pictures
    /// are guaranteed valid only after this succeeds, because an error in one may be detected when a later
    /// one is processed.
    pub fn finish<E: From<Error>>(
        &mut self,
        each: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        self.drive("the end of the stream", each, |run, each, parse| run.finish(each, parse))?;
        self.stop();
        Ok(())
    }

    /// Abandons the pass, if there is one: nothing more is delivered, and the decoder returns to the pool.
    pub fn stop(&mut self) {
        if let State::Running(running) = std::mem::replace(&mut self.state, State::Idle) {
            self.over(*running, true);
        }
    }

    /// Runs a step of the pass. The pass ends if the step fails or panics.
    fn drive<E: From<Error>>(
        &mut self,
        what: &str,
        each: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
        step: impl FnOnce(&mut Run<Hardware>, &mut Each<'_>, &mut Parse<'_>) -> Result<(), Halt>,
    ) -> Result<(), E> {
        let State::Running(mut running) = std::mem::replace(&mut self.state, State::Idle) else {
            return Err(Error::Misuse(
                "no decoding pass is under way: it was not begun, or ended with an error",
            )
            .into());
        };
        let mut failure = None;
        let mut taker = |id: u32, surface: &Surface| match each(id, surface) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let (parser, run) = &mut *running;
        let driver = self.cuvid.driver();
        let outcome = self.device.with_current(|| {
            let mut parse = |packet: Packet<'_>, callbacks: &mut dyn crate::parser::Callbacks| {
                let bytes = packet.data.len();
                let code = parser.parse(packet.data, packet.flags, packet.timestamp, callbacks)?;
                driver.check("cuvidParseVideoData", code).map_err(|error| match error {
                    Error::Call { code, name, .. } => {
                        Error::Refused { what: what.to_owned(), bytes, code, name }
                    }
                    other => other,
                })
            };
            step(run, &mut taker, &mut parse)
        });
        match outcome {
            Ok(()) => {
                self.state = State::Running(running);
                Ok(())
            }
            Err(halt) => {
                // If the callback stopped the pass, the decoder is still valid. After any other error it is
                // not reused.
                self.over(*running, matches!(halt, Halt::Taker));
                Err(match (halt, failure) {
                    (Halt::Error(error), _) => error.into(),
                    (Halt::Taker, Some(error)) => error,
                    (Halt::Taker, None) => Error::Misuse("a pass ended without a reason").into(),
                })
            }
        }
    }

    fn over(&mut self, (parser, run): (Parser, Run<Hardware>), is_sound: bool) {
        drop(parser);
        self.counts.add(&run.counts);
        if is_sound {
            run.release();
        }
    }
}

type Parse<'a> = dyn FnMut(Packet<'_>, &mut dyn crate::parser::Callbacks) -> Result<()> + 'a;

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Session>();
};

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
