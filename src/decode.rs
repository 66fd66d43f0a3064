//! In: runs and a packet reader. Out: exactly the wanted frames, one after another, each with its packet's number.
//! A picture that did not decode cleanly, and all that may refer to it, is an error and never delivered.
//! Never: knows what frames are for.

use crate::error::{Error, Result, Site};
use crate::ffmpeg::{log, Decoder, Frame, Packet, Received};
use crate::index::VideoIndex;
use crate::media::{CodecKind, CodecParams};
use crate::plan::Run;
use crate::units::DecodeIndex;

use crate::demux::read::PacketReader;

/// Counts of work done; they do not depend on the machine's mood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets given to decoders.
    pub packets_fed: u64,
    /// Pictures handed on.
    pub frames_delivered: u64,
    /// Decoding passes.
    pub runs: u64,
    /// Decoders opened.
    pub decoders_opened: u64,
}

impl Counts {
    /// What was done since an earlier reading.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            packets_fed: self.packets_fed.saturating_sub(before.packets_fed),
            frames_delivered: self.frames_delivered.saturating_sub(before.frames_delivered),
            runs: self.runs.saturating_sub(before.runs),
            decoders_opened: self.decoders_opened.saturating_sub(before.decoders_opened),
        }
    }
}

/// A decoder that is kept between runs, and between videos of the same parameters.
pub struct FrameDecoder {
    open: Option<(CodecParams, Decoder)>,
    packet: Packet,
    frame: Frame,
    /// Work done so far.
    pub counts: Counts,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameDecoder {
    /// A decoder that works on the calling thread.
    pub fn new() -> Self {
        Self { open: None, packet: Packet::new(), frame: Frame::new(), counts: Counts::default() }
    }

    /// Decodes one run and hands each wanted frame to `each`, in the order in which they become ready. `watch` is
    /// called before each packet; an error from it stops the run.
    ///
    /// # Errors
    /// What reading, decoding or `each` reports. Frames from before the damage in decode order are handed on first.
    pub fn run(
        &mut self,
        reader: &mut PacketReader,
        run: &Run,
        watch: &dyn Fn() -> Result<()>,
        mut each: impl FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<()> {
        let result = self.run_inner(reader, run, watch, &mut each);
        if result.is_err() || reader.index().changes_parameters {
            self.open = None; // no later run shall inherit its state
        }
        result
    }

    fn run_inner(
        &mut self,
        reader: &mut PacketReader,
        run: &Run,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<()> {
        let index = reader.index().clone();
        self.ready(&index.site, &index.info.params)?;
        let (_, decoder) = self.open.as_mut().expect("made ready");
        self.counts.runs += 1;
        let start_order = index.packets[run.start.at()].order;
        // Pictures that lead the start on screen may refer to what lies before it: they are fed because the decoder's
        // bookkeeping counts them, but they are nobody's, and their errors say nothing about the others.
        let leads = |at: DecodeIndex| index.packets[at.at()].order < start_order;
        let tie_by_time = index.info.params.codec.kind == CodecKind::Vp9;
        let missing = run.wanted.clone();
        let mut pass = Pass { run, index: &index, refusals: 0, missing, damage: None, tie_by_time };
        for at in (run.start.0..=run.end.0).map(DecodeIndex) {
            watch()?;
            if let Err(error) = reader.read(at, at == run.start, &mut self.packet, watch) {
                pass.damage = Some((at, error));
                break;
            }
            self.counts.packets_fed += 1;
            let sent = decoder.send(&self.packet);
            let complaint = sent.err().or_else(log::first);
            if let Some(reason) = complaint.filter(|_| !leads(at)) {
                pass.hurt(at, &reason);
            }
            pass.collect(decoder, &mut self.frame, &leads, each, &mut self.counts)?;
            if pass.damage.is_some() {
                break;
            }
        }
        decoder.drain();
        pass.collect(decoder, &mut self.frame, &leads, each, &mut self.counts)?;
        decoder.flush();
        pass.finish()
    }

    /// Opens a decoder unless the one at hand fits.
    fn ready(&mut self, site: &Site, params: &CodecParams) -> Result<()> {
        if self.open.as_ref().is_none_or(|(have, _)| have != params) {
            self.open = None; // free the old one's memory before the new one takes its own
            let decoder = Decoder::open(site, params)?;
            self.counts.decoders_opened += 1;
            self.open = Some((params.clone(), decoder));
        }
        Ok(())
    }
}

/// State of one run.
struct Pass<'a> {
    run: &'a Run,
    index: &'a VideoIndex,
    /// Times the decoder refused to go on.
    refusals: u32,
    missing: Vec<DecodeIndex>,
    /// First packet whose picture cannot be trusted, and why.
    damage: Option<(DecodeIndex, Error)>,
    tie_by_time: bool,
}

impl Pass<'_> {
    fn hurt(&mut self, at: DecodeIndex, reason: &str) {
        if self.damage.as_ref().is_none_or(|(first, _)| at < *first) {
            let site = self.index.site_of_packet(at);
            self.damage = Some((at, Error::Decode { site, reason: reason.to_owned() }));
        }
    }

    fn collect(
        &mut self,
        decoder: &mut Decoder,
        frame: &mut Frame,
        leads: &dyn Fn(DecodeIndex) -> bool,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
        counts: &mut Counts,
    ) -> Result<()> {
        loop {
            match decoder.receive(frame) {
                Ok(Received::NeedsInput | Received::End) => return Ok(()),
                Ok(Received::Frame) => {}
                Err(reason) => {
                    let at = self.missing.first().copied().unwrap_or(self.run.end);
                    self.hurt(at, &reason);
                    self.refusals += 1;
                    if self.refusals > 64 {
                        return Ok(()); // a decoder that fails for ever must not hold us for ever
                    }
                    continue;
                }
            }
            let Some(tie) = frame.tie(self.tie_by_time) else { continue };
            if let Some(reason) = frame.damage().filter(|_| !leads(tie)) {
                self.hurt(tie, reason);
            }
            let trusted = self.damage.as_ref().is_none_or(|(first, _)| tie < *first);
            if let Some(place) = self.missing.iter().position(|&w| w == tie).filter(|_| trusted) {
                self.missing.remove(place);
                counts.frames_delivered += 1;
                each(tie, frame)?;
            }
        }
    }

    fn finish(self) -> Result<()> {
        match (self.missing.first(), self.damage) {
            (None, _) => Ok(()),
            (Some(_), Some((_, error))) => Err(error),
            (Some(&at), None) => Err(Error::Decode {
                site: self.index.site_of_packet(at),
                reason: "the decoder gave no picture for it".into(),
            }),
        }
    }
}
