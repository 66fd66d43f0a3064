//! Reads the wanted image files of a decode range in which each packet is one file, and delivers
//! them still encoded. The transforms determine how much of each image is decoded. Unwanted files
//! are not read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_kernels::FrameView;

use super::{DecodeStats, DecodeTimes, Step};
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::error::{Result, Site};
use crate::image::{self, DecodeOptions, ImageDecoder, ImageHeader};
use crate::index::VideoIndex;
use crate::limits::Limits;
use crate::source::{ByteSource, Identity, check_interrupt};
use crate::units::DecodeIndex;

/// Largest file buffer that is kept for the next file.
const MAX_RETAINED_BYTES: usize = 16 << 20;

/// A file that has been read. Its header is parsed again, since the file may have changed since it
/// was indexed, and since each frame of a folder has its own header.
struct MemoryFile<'a> {
    name: &'a Arc<str>,
    bytes: &'a [u8],
}

impl ByteSource for MemoryFile<'_> {
    fn name(&self) -> &Arc<str> {
        self.name
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let behind = usize::try_from(offset)
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .unwrap_or_default();
        let read = behind.len().min(buffer.len());
        buffer[..read].copy_from_slice(&behind[..read]);
        Ok(read)
    }

    fn identity(&self) -> Identity {
        Identity::Memory(self.bytes.as_ptr() as usize, self.bytes.len())
    }
}

/// An image file in memory, with its decoder.
pub struct EncodedImage<'a> {
    site: Site,
    header: ImageHeader,
    bytes: &'a [u8],
    decoder: &'a mut ImageDecoder,
    decoding: &'a mut Duration,
}

impl EncodedImage<'_> {
    /// (width, height) as stored.
    pub fn size(&self) -> (u32, u32) {
        (self.header.width, self.header.height)
    }

    /// The parsed header.
    pub fn header(&self) -> &ImageHeader {
        &self.header
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Decodes the exact pixels, as rows of R, G, B without padding. Returns `false` if the decoder
    /// does not output such rows, or not as many bytes as `rgb` holds.
    ///
    /// # Errors
    /// Any error from [`ImageDecoder::decode_into`].
    pub fn decode_into(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let begun = Instant::now();
        let decoded = self
            .decoder
            .decode_into(&self.site, &self.header, self.bytes, rgb);
        *self.decoding += begun.elapsed();
        decoded
    }

    /// Decodes the pixels.
    ///
    /// # Errors
    /// Any error from [`ImageDecoder::decode`].
    pub fn decode(&mut self, options: DecodeOptions) -> Result<FrameView<'_>> {
        let begun = Instant::now();
        let decoded = self
            .decoder
            .decode(&self.site, &self.header, self.bytes, options);
        *self.decoding += begun.elapsed();
        decoded
    }
}

/// Reads image files and reuses their decoder. One user at a time.
#[derive(Default)]
pub struct ImageReader {
    decoder: ImageDecoder,
    file: Vec<u8>,
    /// The decode range in progress, and how many of its images have been delivered.
    range: Option<(Arc<VideoIndex>, DecodeRange, usize)>,
    limits: Limits,
    /// Work done so far.
    pub stats: DecodeStats,
    /// Time spent so far.
    pub times: DecodeTimes,
}

impl ImageReader {
    /// Begins a decode range; a range in progress is abandoned.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, range: DecodeRange) {
        self.stats.decode_ranges += 1;
        self.range = Some((index.clone(), range, 0));
    }

    /// Processes one image of the decode range. After an error, and after [`Step::Done`], the range
    /// is over.
    ///
    /// # Errors
    /// Any error from reading or `on_frame`.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, EncodedImage<'_>) -> Result<()>,
    ) -> Result<Step> {
        let Some((index, range, done)) = self.range.take() else {
            return Ok(Step::Done);
        };
        let Some(&at) = range.wanted.get(done) else {
            return Ok(Step::Done);
        };
        check_interrupt()?;
        let begun = Instant::now();
        if self.file.capacity() > MAX_RETAINED_BYTES {
            self.file = Vec::new();
        }
        reader.fetch(at, &mut self.file)?;
        let site = reader.site_of_file(at);
        let header = image::read_header(
            &MemoryFile {
                name: &site.file,
                bytes: &self.file,
            },
            &self.limits,
        )?;
        let have = Instant::now();
        self.times.reading += have - begun;
        self.stats.frames_decoded += 1;
        let mut decoding = Duration::ZERO;
        let picture = EncodedImage {
            site,
            header,
            bytes: &self.file,
            decoder: &mut self.decoder,
            decoding: &mut decoding,
        };
        let applied = on_frame(at, picture);
        self.times.decoding += decoding;
        self.times.transforming += have.elapsed().saturating_sub(decoding);
        applied?;
        self.stats.frames_used += 1;
        if done + 1 == range.wanted.len() {
            return Ok(Step::Done);
        }
        self.range = Some((index, range, done + 1));
        Ok(Step::More)
    }

    /// Abandons the decode range in progress, if any.
    pub fn stop(&mut self) {
        self.range = None;
    }
}
