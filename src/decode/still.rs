//! In: runs over files that are one picture each.
//! Out: their wanted pictures, still encoded: how much of one must be decoded is known where it is painted.
//! Never: looks at a picture that nobody wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_kernels::FrameView;

use super::{Counts, Step, Times};
use crate::demux::read::PacketReader;
use crate::error::{Result, Site};
use crate::index::VideoIndex;
use crate::limits::Limits;
use crate::plan::Run;
use crate::source::{ByteSource, Identity};
use crate::still::{self, Ask, Header, StillDecoder};
use crate::units::DecodeIndex;

/// Largest file whose memory is kept for the next one.
const KEPT_BYTES: usize = 16 << 20;

/// A file that was read: its header is looked at again, since it may have changed since it was indexed, and each frame of a
/// folder has its own.
struct Held<'a> {
    name: &'a Arc<str>,
    bytes: &'a [u8],
}

impl ByteSource for Held<'_> {
    fn name(&self) -> &Arc<str> {
        self.name
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let behind = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let read = behind.len().min(buffer.len());
        buffer[..read].copy_from_slice(&behind[..read]);
        Ok(read)
    }

    fn identity(&self) -> Identity {
        Identity::Memory(self.bytes.as_ptr() as usize, self.bytes.len())
    }
}

/// A picture's file in memory, and what decodes it.
pub struct StillPicture<'a> {
    site: Site,
    header: Header,
    bytes: &'a [u8],
    decoder: &'a mut StillDecoder,
    decoding: &'a mut Duration,
}

impl StillPicture<'_> {
    /// (width, height) as stored.
    pub fn size(&self) -> (u32, u32) {
        (self.header.width, self.header.height)
    }

    /// The facts of its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its exact pixels, in rows of R, G, B without a gap; `false` where they do not come so, or not as many.
    ///
    /// # Errors
    /// Those of [`StillDecoder::decode_into`].
    pub fn decode_into(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let begun = Instant::now();
        let decoded = self.decoder.decode_into(&self.site, &self.header, self.bytes, rgb);
        *self.decoding += begun.elapsed();
        decoded
    }

    /// Its pixels.
    ///
    /// # Errors
    /// Those of [`StillDecoder::decode`].
    pub fn decode(&mut self, ask: Ask) -> Result<FrameView<'_>> {
        let begun = Instant::now();
        let decoded = self.decoder.decode(&self.site, &self.header, self.bytes, ask);
        *self.decoding += begun.elapsed();
        decoded
    }
}

/// Reads pictures' files and keeps what decodes them. One user at a time.
#[derive(Default)]
pub struct StillReader {
    decoder: StillDecoder,
    file: Vec<u8>,
    /// The run under way, and how many of its pictures were handed on.
    run: Option<(Arc<VideoIndex>, Run, usize)>,
    limits: Limits,
    /// Work done so far.
    pub counts: Counts,
    /// Time spent so far.
    pub times: Times,
}

impl StillReader {
    /// Begins a run; one that is under way is given up.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, run: Run) {
        self.counts.runs += 1;
        self.run = Some((index.clone(), run, 0));
    }

    /// Deals with one picture of the run. After an error, and after [`Step::Done`], the run is over.
    ///
    /// # Errors
    /// What reading or `each` reports.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        watch: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(DecodeIndex, StillPicture<'_>) -> Result<()>,
    ) -> Result<Step> {
        let Some((index, run, done)) = self.run.take() else { return Ok(Step::Done) };
        let Some(&at) = run.wanted.get(done) else { return Ok(Step::Done) };
        watch()?;
        let begun = Instant::now();
        if self.file.capacity() > KEPT_BYTES {
            self.file = Vec::new();
        }
        reader.fetch(at, &mut self.file)?;
        let site = reader.site_of_file(at);
        let header = still::header(&Held { name: &site.file, bytes: &self.file }, &self.limits)?;
        let have = Instant::now();
        self.times.reading += have - begun;
        self.counts.pictures_decoded += 1;
        let mut decoding = Duration::ZERO;
        let picture = StillPicture {
            site,
            header,
            bytes: &self.file,
            decoder: &mut self.decoder,
            decoding: &mut decoding,
        };
        let painted = each(at, picture);
        self.times.decoding += decoding;
        self.times.painting += have.elapsed().saturating_sub(decoding);
        painted?;
        self.counts.pictures_delivered += 1;
        if done + 1 == run.wanted.len() {
            return Ok(Step::Done);
        }
        self.run = Some((index, run, done + 1));
        Ok(Step::More)
    }

    /// Gives up the run that is under way, if there is one.
    pub fn stop(&mut self) {
        self.run = None;
    }
}
