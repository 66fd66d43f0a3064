//! In: access units in decode order, each with its id, its place on screen and whether its picture is wanted.
//! Out: every wanted picture once, in display order, as a surface that is on loan while a callback runs.
//! Never: hands on a picture that it cannot vouch for: it ends the run with an error instead.

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

/// An access unit as the parser wants it: Annex B, OBUs, or a VP9 superframe.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// Its bytes. Parameter sets that changed are in band.
    pub data: &'a [u8],
    /// Its name: comes back with its picture.
    pub id: u32,
    /// Its place on screen: ascends in display order, and no two are the same. The parser is given it as timestamp.
    pub order: i64,
    /// Whether its picture is to be handed on.
    pub wanted: bool,
    /// Whether it must be decoded. `false`: nobody needs its picture, neither the caller nor any other picture. Heeded for H.264,
    /// HEVC and AV1 (there only where it is a whole picture).
    pub decode: bool,
    /// Whether it is exactly one frame, so that the parser need not wait for the next unit to see its end. Never for two fields, for
    /// superframes, or for several frames in a unit.
    pub whole_picture: bool,
    /// How many pictures it shows. For VP8, VP9 and AV1, whose pictures are told apart by counting.
    pub shows: u8,
}

/// A decoded picture in device memory. Reads must be enqueued on the session's stream before the callback returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Where sample (0, 0) of the coded picture is.
    pub address: u64,
    /// Bytes from one row to the next, in every plane.
    pub pitch_bytes: usize,
    /// Where chroma begins: one plane of pairs, or two planes for 4:4:4, or none for gray. 0 is none.
    pub chroma_address: [u64; 2],
    /// Width and height of the coded picture.
    pub coded_size: (u32, u32),
    /// The part of it that is shown.
    pub display: Rect4,
    /// Bits of a sample.
    pub depth_bits: u8,
    /// How far a sample is shifted up in its 16 bits; 0 for 8 bit.
    pub shift: u8,
    /// Sampling of chroma.
    pub chroma: Chroma,
    /// How the planes lie.
    pub layout: Layout,
    /// Matrix coefficients, as numbered in H.273; 2 is unspecified.
    pub matrix: u8,
    /// Colour primaries, as numbered in H.273.
    pub primaries: u8,
    /// Transfer characteristics, as numbered in H.273.
    pub transfer: u8,
    /// Whether samples use their full range; `None` where the stream says "limited" or nothing, which the parser does not tell apart.
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

/// What a session did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units fed.
    pub units: u64,
    /// Pictures (or fields) given to the engine.
    pub decoded: u64,
    /// Pictures that nobody needed, and that the engine was not given.
    pub skipped: u64,
    /// Pictures handed on.
    pub mapped: u64,
    /// Pictures shown that nobody wanted.
    pub unwanted: u64,
    /// Pictures shown that belong to no unit.
    pub strangers: u64,
    /// Times that a surface was to be used again while its picture waited.
    pub guarded: u64,
    /// Decoders made.
    pub decoders_created: u64,
    /// Decoders taken as they were.
    pub reused: u64,
    /// Decoders set up for another size.
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

/// One decoding pass after another. One thread at a time, any thread.
pub struct Session {
    cuvid: &'static Cuvid,
    device: Arc<Device>,
    stream: Arc<Stream>,
    pool: Arc<DecoderPool>,
    state: State,
    counts: Counts,
}

enum State {
    /// Between passes, also after one that failed.
    Idle,
    /// Within a pass. The parser goes first: it calls back into nothing then.
    Running(Box<(Parser, Run<Hardware>)>),
}

impl Session {
    /// A session on a device, with a stream of its own.
    ///
    /// # Errors
    /// Where the device has no video engines that can be used, or no memory for a stream.
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

    /// Its stream: pictures are converted on it, and everything that reads them must be enqueued on it.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if let State::Running(running) = &self.state {
            counts.add(&running.1.counts);
        }
        counts
    }

    /// Begins a pass; one that was under way is given up. `headers` are the parameter sets in band (AV1: the sequence header's OBU), empty
    /// for VP8 and VP9.
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

    /// Feeds one unit. `each` is given the pictures that are due, with their units' ids: it enqueues its reads on the stream and returns.
    ///
    /// After an error the pass is over, and pictures that it handed on are not to be used: the error may concern them.
    pub fn feed<E: From<Error>>(
        &mut self,
        unit: &Unit<'_>,
        each: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        let what = format!("unit {}", unit.id);
        self.drive(&what, each, |run, each, parse| run.feed(unit, each, parse))
    }

    /// Ends the pass: all pictures that are owed come. The decoder goes back to the pool. Only a pass that was finished vouches for
    /// its pictures: what went wrong with one may show when a later one comes.
    pub fn finish<E: From<Error>>(
        &mut self,
        each: &mut dyn FnMut(u32, &Surface) -> Result<(), E>,
    ) -> Result<(), E> {
        self.drive("the end of the stream", each, |run, each, parse| run.finish(each, parse))?;
        self.stop();
        Ok(())
    }

    /// Gives the pass up, if there is one: nothing more is handed on, and the decoder goes back to the pool.
    pub fn stop(&mut self) {
        if let State::Running(running) = std::mem::replace(&mut self.state, State::Idle) {
            self.over(*running, true);
        }
    }

    /// Runs a step of the pass. Where it fails, the pass is over; so it is where it panics.
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
                // A taker that had enough says nothing about the decoder. Anything else does.
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
