//! In: runs and a packet reader. Out: exactly the wanted frames, one after another, each with its packet's number.
//! A picture that did not decode cleanly, and all that may refer to it, is an error and never delivered.
//! Never: knows what frames are for.

mod ahead;
mod counts;
mod hardware;
mod pass;
mod still;

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::demux::read::PacketReader;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::{Decoder, Frame, Packet};
use crate::index::VideoIndex;
use crate::media::{CodecKind, CodecParams};
use crate::plan::Run;
use crate::units::DecodeIndex;

pub use counts::{Counts, Times};
pub use hardware::HardwareDecoder;
use pass::Pass;
pub use still::{StillPicture, StillReader};

/// Packets below which a run is not worth several threads.
const FEW: u32 = 6;

/// What one step of a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// All wanted frames were handed on.
    Done,
}

/// A decoder that is kept between runs, and between videos of the same parameters. A run may be left in the middle and
/// gone on with later: everything that it needs is in here.
pub struct FrameDecoder {
    open: Option<(CodecParams, Decoder)>,
    /// The video that it decoded last.
    of: Weak<VideoIndex>,
    packet: Packet,
    frame: Frame,
    pass: Option<Pass>,
    /// Threads that work for it.
    threads: u32,
    /// Work done so far.
    pub counts: Counts,
    /// Time spent so far.
    pub times: Times,
}

/// Whether a start of this codec leaves nothing of what was decoded before. Others keep tables that a stream may rely on having
/// sent, or not having sent: MJPEG its Huffman codes and which way is up, MPEG-4 the layout of its layer.
fn forgets(kind: CodecKind) -> bool {
    match kind {
        CodecKind::H264
        | CodecKind::Hevc
        | CodecKind::Vp8
        | CodecKind::Vp9
        | CodecKind::Av1
        | CodecKind::Mpeg12
        | CodecKind::Still => true,
        CodecKind::Mpeg4 | CodecKind::Other => false,
    }
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameDecoder {
    /// A decoder that works on the calling thread and leaves out pictures that nobody needs.
    pub fn new() -> Self {
        Self {
            open: None,
            of: Weak::new(),
            packet: Packet::new(),
            frame: Frame::new(),
            pass: None,
            threads: 1,
            counts: Counts::default(),
            times: Times::default(),
        }
    }

    /// A decoder with several threads, each at a picture of its own: for when there is only one clip to be made.
    pub fn with_threads(threads: u32) -> Self {
        Self { threads: threads.max(1), ..Self::new() }
    }

    /// Whether its decoder can be used for a stream of these parameters without being opened anew.
    pub fn fits(&self, params: &CodecParams) -> bool {
        self.open.as_ref().is_some_and(|(have, _)| have == params)
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
        self.begin(reader.index(), run.clone())?;
        while self.step(reader, watch, &mut each)? == Step::More {}
        Ok(())
    }

    /// Begins a run; one that is under way is given up.
    ///
    /// # Errors
    /// `Unsupported` or `Malformed` where no decoder can be opened.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, run: Run) -> Result<()> {
        self.stop();
        // For a handful of pictures, waking threads takes longer than it saves.
        // And libavcodec's threads conceal damage in these codecs otherwise than one alone does, in silence.
        let conceals =
            matches!(index.info.params.codec.kind, CodecKind::Vp8 | CodecKind::Mpeg12 | CodecKind::Mpeg4);
        let alone = run.packets() < FEW || conceals;
        let threads = if alone { 1 } else { self.threads };
        let of = Arc::downgrade(index);
        let kind = index.info.params.codec.kind;
        // A damaged picture may change the layout of MPEG-4's layer without being noticed: it must not outlive its run.
        if kind == CodecKind::Mpeg4 || !forgets(kind) && !Weak::ptr_eq(&self.of, &of) {
            self.open = None;
        }
        self.of = of;
        self.ready(&index.site, &index.info.params, threads)?;
        self.counts.runs += 1;
        let threaded = self.open.as_ref().is_some_and(|(_, decoder)| decoder.threads() > 1);
        self.pass = Some(Pass::new(index.clone(), run, true, threaded));
        Ok(())
    }

    /// Deals with one packet of the run. After an error, and after [`Step::Done`], the run is over.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let Some(mut pass) = self.pass.take() else { return Ok(Step::Done) };
        let result = watch().and_then(|()| self.step_inner(&mut pass, reader, watch, each));
        match result {
            Ok(Step::More) => self.pass = Some(pass),
            Ok(Step::Done) => {
                if pass.index.changes_parameters {
                    self.open = None; // no later run shall inherit its state
                }
            }
            Err(error) => {
                self.open = None;
                // What was left out is not to blame by the standards; if a decoder sees it differently, it gets everything.
                // And only a decoder that works on one thread can tell which packet a complaint is about.
                // And a start may be none, whatever the container says.
                if matches!(error, Error::Decode { .. }) && (pass.in_full() || pass.goes_back()) {
                    self.counts.runs_repeated += 1;
                    self.ready(&pass.index.site, &pass.index.info.params, 1)?;
                    self.pass = Some(pass);
                    return Ok(Step::More);
                }
                return Err(error);
            }
        }
        result
    }

    fn step_inner(
        &mut self,
        pass: &mut Pass,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let Some(at) = pass.next() else { return self.finish(pass, each) };
        let begun = Instant::now();
        pass.look_ahead(at, reader, watch)?;
        if let Some(error) = pass.barrier(at) {
            pass.cut_off(at, error);
            return self.finish(pass, each);
        }
        if pass.passes_over(at) {
            self.counts.pictures_skipped += 1;
            return Ok(Step::More);
        }
        let read = pass.read(at, reader, &mut self.packet, watch);
        let spared = read.as_ref().is_ok_and(|()| pass.spares(at, self.packet.data()));
        let have = Instant::now();
        self.times.reading += have - begun;
        if let Err(error) = read {
            pass.cut_off(at, error);
            return self.finish(pass, each);
        }
        if spared {
            self.counts.pictures_skipped += 1;
            return Ok(Step::More);
        }
        // To libavcodec an empty packet is the end of the stream.
        if self.packet.data().is_empty() {
            return Ok(Step::More);
        }
        self.counts.pictures_decoded += u64::from(!pass.index.packets[at.at()].is_part());
        let (_, decoder) = self.open.as_mut().expect("made ready when the run began");
        let refused = decoder.send(&self.packet).err();
        pass.sent(at, refused.as_deref());
        let painting = pass.collect(decoder, &mut self.frame, each, &mut self.counts)?;
        self.times.painting += painting;
        self.times.decoding += have.elapsed().saturating_sub(painting);
        if pass.is_damaged() {
            return self.finish(pass, each);
        }
        Ok(Step::More)
    }

    fn finish(
        &mut self,
        pass: &mut Pass,
        each: &mut dyn FnMut(DecodeIndex, &Frame) -> Result<()>,
    ) -> Result<Step> {
        let begun = Instant::now();
        let (_, decoder) = self.open.as_mut().expect("made ready when the run began");
        decoder.drain();
        let painting = pass.collect(decoder, &mut self.frame, each, &mut self.counts)?;
        decoder.flush();
        self.times.painting += painting;
        self.times.decoding += begun.elapsed().saturating_sub(painting);
        pass.verdict().map(|()| Step::Done)
    }

    /// Gives up the run that is under way, if there is one.
    pub fn stop(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        if pass.index.changes_parameters {
            self.open = None; // as at the end of a run
        } else if let Some((_, decoder)) = &mut self.open {
            decoder.flush();
        }
    }

    /// Opens a decoder unless the one at hand fits.
    fn ready(&mut self, site: &Site, params: &CodecParams, threads: u32) -> Result<()> {
        // One that has several threads does for few pictures too, one that has a single one is not kept for many.
        let fits = self.open.as_ref().is_some_and(|(have, d)| have == params && d.threads() >= threads);
        if !fits {
            self.open = None; // free the old one's memory before the new one takes its own
            let decoder = Decoder::open(site, params, threads)?;
            self.counts.decoders_opened += 1;
            self.open = Some((params.clone(), decoder));
        }
        Ok(())
    }
}
