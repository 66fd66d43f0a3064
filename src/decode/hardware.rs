//! In: runs and a packet reader, as for a decoder on the CPU.
//! Out: exactly the wanted frames as surfaces of the GPU, each with its packet's number, or the reason why the CPU must do it.
//! Never: judges a file: what the hardware does not decode cleanly is decoded again on the CPU, which says what is wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_nvdec::cuda::{Device, Stream};
use framespool_nvdec::session::{Session, Surface, Unit};

use super::pass::Pass;
use super::{Counts, Step, Times};
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::ffmpeg::Packet;
use crate::index::access::{Access, Shape, CROPPED};
use crate::index::VideoIndex;
use crate::media::ColourTags;
use crate::plan::Run;
use crate::units::DecodeIndex;

/// A session of the hardware decoder, kept between runs and between videos.
pub struct HardwareDecoder {
    session: Session,
    access: Option<(Arc<VideoIndex>, Access)>,
    packet: Packet,
    unit: Vec<u8>,
    pass: Option<Pass>,
    /// What the run's headers stated of colour, of codecs of which the parser does not report it.
    colour: Option<ColourTags>,
    /// Work done so far.
    pub counts: Counts,
    /// Time spent so far.
    pub times: Times,
}

/// Matrix coefficients that say "these planes are red, green and blue" (ITU-T H.273 table 4).
const RGB: u8 = 0;

/// What the calls of the session say: the session's own trouble, or that of whoever took a picture.
enum Trouble {
    Session(framespool_nvdec::Error),
    Taker(Error),
}

impl From<framespool_nvdec::Error> for Trouble {
    fn from(error: framespool_nvdec::Error) -> Self {
        Self::Session(error)
    }
}

impl HardwareDecoder {
    /// # Errors
    /// `Gpu` where the device has no stream to give.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Ok(Self {
            session: Session::new(device)?,
            access: None,
            packet: Packet::new(),
            unit: Vec::new(),
            pass: None,
            colour: None,
            counts: Counts::default(),
            times: Times::default(),
        })
    }

    /// The stream on which its surfaces may be read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.session.stream()
    }

    /// Begins a run; one that is under way is given up.
    ///
    /// # Errors
    /// `Unsupported` for a stream that is left to the CPU, `Gpu` where the driver fails.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, run: Run) -> Result<()> {
        self.stop();
        if self.access.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, index)) {
            let access = Access::new(index).map_err(|what| Error::Unsupported {
                site: index.site.clone(),
                what: format!("on the GPU, {what}"),
            })?;
            self.access = Some((index.clone(), access));
        }
        let (_, access) = self.access.as_ref().expect("made above");
        self.session.begin(access.codec, &access.headers).map_err(|error| match error {
            framespool_nvdec::Error::Unsupported { reason: what } => {
                Error::Unsupported { site: index.site.clone(), what }
            }
            other => other.into(),
        })?;
        self.counts.runs += 1;
        self.colour = access.colour;
        self.pass = Some(Pass::new(index.clone(), run, true, false));
        Ok(())
    }

    /// Whether the pictures of its stream are told apart by counting those that are shown.
    pub fn counts_pictures(&self) -> bool {
        self.access.as_ref().is_some_and(|(_, access)| !access.codec.reorders())
    }

    /// The wanted packets whose pictures were not handed on yet, of the run under way or the one that failed last.
    pub fn missing(&self) -> Vec<DecodeIndex> {
        self.pass.as_ref().map_or(Vec::new(), |pass| pass.missing().to_vec())
    }

    /// Deals with one packet of the run. After [`Step::Done`] the run is over; after an error [`missing`](Self::missing) says
    /// what is still owed, and [`stop`](Self::stop) must be called.
    ///
    /// # Errors
    /// What reading or `each` reports; `Decode` and `Unsupported` for what the hardware cannot do, which may only mean that
    /// the CPU must.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(mut pass) = self.pass.take() else { return Ok(Step::Done) };
        let step = watch().and_then(|()| self.step_inner(&mut pass, reader, watch, each));
        if !matches!(step, Ok(Step::Done)) {
            self.pass = Some(pass);
        }
        step
    }

    fn step_inner(
        &mut self,
        pass: &mut Pass,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(at) = pass.next() else { return self.finish(pass, each) };
        let begun = Instant::now();
        pass.look_ahead(at, reader, watch)?;
        // A picture of HEVC that leads the start on screen may refer to what lies before it, and no picture behind it refers to
        // it: it need not even be parsed.
        let leads = pass.leads(at);
        if leads && pass.index.info.params.codec.kind == crate::media::CodecKind::Hevc {
            self.counts.pictures_skipped += 1;
            return Ok(Step::More);
        }
        if let Some(error) = pass.barrier(at) {
            return Err(error); // the CPU says which pictures can be had all the same
        }
        let over = pass.passes_over(at);
        pass.read(at, reader, &mut self.packet, watch).map_err(|error| match error {
            Error::Interrupted => error,
            // The CPU may not need this packet, or has something to say of it.
            other => Error::Decode { site: pass.index.site_of_packet(at), reason: other.to_string() },
        })?;
        if self.packet.data().is_empty() {
            return Ok(Step::More);
        }
        let spared = over || pass.spares(at, self.packet.data());
        let wanted = pass.wants(at);
        let decode = wanted || !(spared || leads);
        let (_, access) = self.access.as_ref().expect("made when the run began");
        let shape = access.unit(self.packet.data(), &mut self.unit);
        self.heed(&shape, &pass.index)?;
        let have = Instant::now();
        self.times.reading += have - begun;
        if !pass.index.packets[at.at()].is_part() {
            *if decode { &mut self.counts.pictures_decoded } else { &mut self.counts.pictures_skipped } += 1;
        }
        let unit = Unit {
            data: &self.unit,
            id: at.0,
            order: pass.index.packets[at.at()].order,
            wanted,
            decode,
            whole_picture: shape.whole,
            shows: shape.shows,
        };
        let mut painting = Duration::ZERO;
        let counts = &mut self.counts;
        let colour = self.colour;
        let fed = self.session.feed(&unit, &mut |id, surface| {
            hand_on(pass, id, &coloured(surface, colour), each, counts, &mut painting)
        });
        self.times.painting += painting;
        self.times.decoding += have.elapsed().saturating_sub(painting);
        fed.map_err(|trouble| blame(pass, at, trouble))?;
        Ok(Step::More)
    }

    fn finish(
        &mut self,
        pass: &mut Pass,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let begun = Instant::now();
        let mut painting = Duration::ZERO;
        let counts = &mut self.counts;
        let colour = self.colour;
        let finished = self.session.finish(&mut |id, surface| {
            hand_on(pass, id, &coloured(surface, colour), each, counts, &mut painting)
        });
        self.times.painting += painting;
        self.times.decoding += begun.elapsed().saturating_sub(painting);
        finished.map_err(|trouble| blame(pass, pass.last(), trouble))?;
        pass.verdict().map(|()| Step::Done)
    }

    /// Takes note of what a unit states.
    ///
    /// # Errors
    /// `Unsupported` for what a hardware decoder's pictures cannot tell of.
    fn heed(&mut self, shape: &Shape, index: &VideoIndex) -> Result<()> {
        let refuse = |what: &str| Err(Error::Unsupported { site: index.site.clone(), what: what.to_owned() });
        if shape.resized {
            return refuse("on the GPU, pictures that ask to be shown at another size than their own");
        }
        if shape.cropped {
            return refuse(&format!("on the GPU, {CROPPED}"));
        }
        let Some(now) = shape.colour else { return Ok(()) };
        if now.matrix == RGB {
            return refuse("on the GPU, planes of red, green and blue");
        }
        if self.colour.is_some_and(|before| before != now) {
            return refuse("on the GPU, a colour space that changes within the stream");
        }
        self.colour = Some(now);
        Ok(())
    }

    /// Gives up the run that is under way, if there is one.
    pub fn stop(&mut self) {
        if self.pass.take().is_some() {
            self.session.stop();
        }
    }
}

/// The surface with the colour that the stream's own headers stated, where they were read.
fn coloured(surface: &Surface, stated: Option<ColourTags>) -> Surface {
    match stated {
        None => *surface,
        Some(ColourTags { primaries, transfer, matrix, full_range }) => {
            Surface { primaries, transfer, matrix, full_range, ..*surface }
        }
    }
}

fn hand_on(
    pass: &mut Pass,
    id: u32,
    surface: &Surface,
    each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    counts: &mut Counts,
    painting: &mut Duration,
) -> Result<(), Trouble> {
    let at = DecodeIndex(id);
    if !pass.wants(at) {
        return Ok(());
    }
    let begun = Instant::now();
    let taken = each(at, surface);
    *painting += begun.elapsed();
    taken.map_err(Trouble::Taker)?;
    // Only now: a picture that could not be painted is still owed, to be made by the CPU.
    pass.take(at);
    counts.pictures_delivered += 1;
    Ok(())
}

/// What a session's trouble means for the run. `at`: the packet fed last.
fn blame(pass: &Pass, at: DecodeIndex, trouble: Trouble) -> Error {
    use framespool_nvdec::Error as Nvdec;
    let error = match trouble {
        Trouble::Taker(error) => return error,
        Trouble::Session(error) => error,
    };
    let packet = match error {
        Nvdec::Damaged { id, .. } | Nvdec::Missing { id, .. } => DecodeIndex(id),
        _ => at,
    };
    match error {
        Nvdec::Unsupported { reason } => Error::Unsupported { site: pass.index.site.clone(), what: reason },
        // Nobody knows since when pictures were taken for others: this is not a matter of what is still missing.
        error @ Nvdec::Mismatch { .. } => {
            Error::Internal { site: pass.index.site_of_packet(packet), reason: error.to_string() }
        }
        error if error.is_about_stream() => {
            Error::Decode { site: pass.index.site_of_packet(packet), reason: error.to_string() }
        }
        error => error.into(),
    }
}
