//! Decodes ranges of packets on the GPU and delivers exactly the wanted frames as device surfaces.
//! Returns the reason if the CPU must decode a range instead. It never declares a file damaged: what the
//! hardware does not decode cleanly is decoded again on the CPU, which reports what is wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_nvdec::cuda::{Device, Stream};
use framespool_nvdec::session::{AccessUnit, Session, Surface};

use super::range_state::RangeState;
use super::{DecodeStats, DecodeTimes, Step};
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::ffmpeg::Packet;
use crate::index::access::{Access, Shape, CROPPED};
use crate::index::VideoIndex;
use crate::media::ColorTags;
use crate::plan::DecodeRange;
use crate::units::DecodeIndex;

/// An NVDEC session that is reused across decode ranges and videos.
pub struct HardwareDecoder {
    session: Session,
    access: Option<(Arc<VideoIndex>, Access)>,
    packet: Packet,
    unit: Vec<u8>,
    pass: Option<RangeState>,
    /// Color description from the headers of the decode range, for codecs whose parser does not report it.
    color: Option<ColorTags>,
    /// Work done so far.
    pub counts: DecodeStats,
    /// Time spent so far.
    pub times: DecodeTimes,
}

/// Matrix coefficients value for planes of red, green and blue (ITU-T H.273 table 4).
const RGB: u8 = 0;

/// Errors of the session calls: from the session itself, or from the callback that receives a frame.
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
    /// `Gpu` if no stream can be created on the device.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Ok(Self {
            session: Session::new(device)?,
            access: None,
            packet: Packet::new(),
            unit: Vec::new(),
            pass: None,
            color: None,
            counts: DecodeStats::default(),
            times: DecodeTimes::default(),
        })
    }

    /// The CUDA stream on which its surfaces may be read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.session.stream()
    }

    /// Begins a decode range; a range in progress is abandoned.
    ///
    /// # Errors
    /// `Unsupported` for a stream that falls back to the CPU, `Gpu` if the driver fails.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, run: DecodeRange) -> Result<()> {
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
        self.color = access.color;
        self.pass = Some(RangeState::new(index.clone(), run, true, false));
        Ok(())
    }

    /// Whether the pictures of the stream are identified by counting the displayed ones.
    pub fn counts_pictures(&self) -> bool {
        self.access.as_ref().is_some_and(|(_, access)| !access.codec.reorders())
    }

    /// Wanted packets whose frames have not been delivered, of the decode range in progress or of the one
    /// that failed last.
    pub fn missing(&self) -> Vec<DecodeIndex> {
        self.pass.as_ref().map_or(Vec::new(), |pass| pass.missing().to_vec())
    }

    /// Processes one packet of the decode range. After [`Step::Done`] the range is over; after an error,
    /// [`missing`](Self::missing) returns the packets not delivered, and [`stop`](Self::stop) must be called.
    ///
    /// # Errors
    /// Any error from reading or `each`; `Decode` and `Unsupported` for what the hardware cannot decode,
    /// which may only mean that the CPU must decode it.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        interrupt: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(mut pass) = self.pass.take() else { return Ok(Step::Done) };
        let step = interrupt().and_then(|()| self.step_inner(&mut pass, reader, interrupt, each));
        if !matches!(step, Ok(Step::Done)) {
            self.pass = Some(pass);
        }
        step
    }

    fn step_inner(
        &mut self,
        pass: &mut RangeState,
        reader: &mut PacketReader,
        interrupt: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let Some(at) = pass.next() else { return self.finish(pass, each) };
        let begun = Instant::now();
        pass.look_ahead(at, reader, interrupt)?;
        // An HEVC leading picture of the random access point may refer to pictures before that point, and no
        // trailing picture refers to it: it need not even be parsed.
        let is_leading = pass.is_leading(at);
        if is_leading && pass.index.info.params.codec.kind == crate::media::CodecKind::Hevc {
            self.counts.pictures_skipped += 1;
            return Ok(Step::More);
        }
        if let Some(error) = pass.barrier(at) {
            return Err(error); // the CPU decoder determines which pictures can still be decoded
        }
        let over = pass.can_skip_read(at);
        pass.read(at, reader, &mut self.packet, interrupt).map_err(|error| match error {
            Error::Interrupted => error,
            // The CPU decoder may not need this packet, or reports what is wrong with it.
            other => Error::Decode { site: pass.index.site_of_packet(at), reason: other.to_string() },
        })?;
        if self.packet.data().is_empty() {
            return Ok(Step::More);
        }
        let spared = over || pass.can_skip_decode(at, self.packet.data());
        let wanted = pass.wants(at);
        let decode = wanted || !(spared || is_leading);
        let (_, access) = self.access.as_ref().expect("made when the run began");
        let shape = access.unit(self.packet.data(), &mut self.unit);
        self.heed(&shape, &pass.index)?;
        let have = Instant::now();
        self.times.reading += have - begun;
        if !pass.index.packets[at.at()].is_part() {
            *if decode { &mut self.counts.pictures_decoded } else { &mut self.counts.pictures_skipped } += 1;
        }
        let unit = AccessUnit {
            data: &self.unit,
            id: at.0,
            timestamp: pass.index.packets[at.at()].order,
            wanted,
            decode,
            single_frame: shape.whole,
            num_displayed: shape.shows,
        };
        let mut transforming = Duration::ZERO;
        let counts = &mut self.counts;
        let color = self.color;
        let fed = self.session.feed(&unit, &mut |id, surface| {
            hand_on(pass, id, &colored(surface, color), each, counts, &mut transforming)
        });
        self.times.transforming += transforming;
        self.times.decoding += have.elapsed().saturating_sub(transforming);
        fed.map_err(|trouble| blame(pass, at, trouble))?;
        Ok(Step::More)
    }

    fn finish(
        &mut self,
        pass: &mut RangeState,
        each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    ) -> Result<Step> {
        let begun = Instant::now();
        let mut transforming = Duration::ZERO;
        let counts = &mut self.counts;
        let color = self.color;
        let finished = self.session.finish(&mut |id, surface| {
            hand_on(pass, id, &colored(surface, color), each, counts, &mut transforming)
        });
        self.times.transforming += transforming;
        self.times.decoding += begun.elapsed().saturating_sub(transforming);
        finished.map_err(|trouble| blame(pass, pass.last(), trouble))?;
        pass.finish().map(|()| Step::Done)
    }

    /// Records the properties that an access unit declares.
    ///
    /// # Errors
    /// `Unsupported` for properties that the surfaces of a hardware decoder do not report.
    fn heed(&mut self, shape: &Shape, index: &VideoIndex) -> Result<()> {
        let refuse = |what: &str| Err(Error::Unsupported { site: index.site.clone(), what: what.to_owned() });
        if shape.resized {
            return refuse("on the GPU, pictures that ask to be shown at another size than their own");
        }
        if shape.cropped {
            return refuse(&format!("on the GPU, {CROPPED}"));
        }
        let Some(now) = shape.color else { return Ok(()) };
        if now.matrix == RGB {
            return refuse("on the GPU, planes of red, green and blue");
        }
        if self.color.is_some_and(|before| before != now) {
            return refuse("on the GPU, a color space that changes within the stream");
        }
        self.color = Some(now);
        Ok(())
    }

    /// Abandons the decode range in progress, if any.
    pub fn stop(&mut self) {
        if self.pass.take().is_some() {
            self.session.stop();
        }
    }
}

/// The surface with the color description from the headers of the stream, if they were parsed.
fn colored(surface: &Surface, stated: Option<ColorTags>) -> Surface {
    match stated {
        None => *surface,
        Some(ColorTags { primaries, transfer, matrix, full_range }) => {
            Surface { primaries, transfer, matrix, full_range, ..*surface }
        }
    }
}

fn hand_on(
    pass: &mut RangeState,
    id: u32,
    surface: &Surface,
    each: &mut dyn FnMut(DecodeIndex, &Surface) -> Result<()>,
    counts: &mut DecodeStats,
    transforming: &mut Duration,
) -> Result<(), Trouble> {
    let at = DecodeIndex(id);
    if !pass.wants(at) {
        return Ok(());
    }
    let begun = Instant::now();
    let taken = each(at, surface);
    *transforming += begun.elapsed();
    taken.map_err(Trouble::Taker)?;
    // Only now: a frame whose transforms failed is still missing, and the CPU decodes it.
    pass.take(at);
    counts.pictures_delivered += 1;
    Ok(())
}

/// Converts an error of a session call to the error of the decode range. `at`: the packet sent last.
fn blame(pass: &RangeState, at: DecodeIndex, trouble: Trouble) -> Error {
    use framespool_nvdec::Error as Nvdec;
    let error = match trouble {
        Trouble::Taker(error) => return error,
        Trouble::Session(error) => error,
    };
    let packet = match error {
        Nvdec::DamagedPicture { id, .. } | Nvdec::MissingPicture { id, .. } => DecodeIndex(id),
        _ => at,
    };
    match error {
        Nvdec::Unsupported { reason } => Error::Unsupported { site: pass.index.site.clone(), what: reason },
        // It is unknown since when pictures have been mistaken for one another: decoding only the missing
        // ones is not enough.
        error @ Nvdec::Mismatch { .. } => {
            Error::Internal { site: pass.index.site_of_packet(packet), reason: error.to_string() }
        }
        error if error.is_about_stream() => {
            Error::Decode { site: pass.index.site_of_packet(packet), reason: error.to_string() }
        }
        error => error.into(),
    }
}
