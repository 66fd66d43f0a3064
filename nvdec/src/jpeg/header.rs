//! Parses the header of a JPEG file: the properties that determine the backend and the size of the
//! planes. It does not decode or allocate. After the header, it only checks that the file has an
//! end marker.

use crate::{Error, Result};

/// The coding process of a file, from its frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingProcess {
    /// Baseline sequential (SOF0).
    Baseline,
    /// Extended sequential with Huffman codes (SOF1).
    Extended,
    /// Progressive with Huffman codes (SOF2).
    Progressive,
    /// Lossless, hierarchical or arithmetic: the number of its SOF marker.
    Other(u8),
}

/// Color space of the components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorModel {
    /// One component.
    Gray,
    /// Luma and two chroma components, BT.601 in full range.
    YCbCr,
    /// Any other: RGB, CMYK, YCCK.
    Other,
}

/// The properties in the header of a JPEG file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegHeader {
    /// Coding process.
    pub process: CodingProcess,
    /// Width of the image as stored.
    pub width: u32,
    /// Height of the image as stored.
    pub height: u32,
    /// Bits per sample.
    pub depth_bits: u8,
    /// Number of components.
    pub components: u8,
    /// Horizontal and vertical sampling factors of the first four components.
    pub sampling_factors: [(u8, u8); 4],
    /// Color space of the components.
    pub color_model: ColorModel,
    /// Whether the first scan contains all components. In a sequential file, it is then the only
    /// scan.
    pub interleaved: bool,
    /// Whether there are Huffman tables before the first scan.
    pub has_huffman_tables: bool,
    /// Whether there is an end marker after the first scan's header. A truncated file has none.
    pub has_eoi: bool,
}

/// Parser position in the header.
struct MarkerReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> MarkerReader<'a> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self
            .bytes
            .get(self.at)
            .copied()
            .ok_or_else(|| truncated(self.at))?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns the next marker; bytes 0xFF before it are padding.
    fn marker(&mut self) -> Result<u8> {
        let at = self.at;
        if self.byte()? != 0xff {
            return Err(malformed(at, "a marker is expected"));
        }
        loop {
            match self.byte()? {
                0xff => (),
                0 => return Err(malformed(self.at - 1, "a marker is expected")),
                marker => return Ok(marker),
            }
        }
    }

    /// Returns the payload of a segment.
    fn segment(&mut self) -> Result<&'a [u8]> {
        let at = self.at;
        let len = usize::from(u16::from_be_bytes([self.byte()?, self.byte()?]));
        if len < 2 {
            return Err(malformed(
                at,
                "the segment is shorter than its own length field",
            ));
        }
        self.at = at + len;
        self.bytes
            .get(at + 2..at + len)
            .ok_or_else(|| truncated(self.bytes.len()))
    }
}

fn malformed(at: usize, what: &str) -> Error {
    Error::BadJpeg {
        reason: format!("byte {at} of the header: {what}"),
    }
}

fn truncated(at: usize) -> Error {
    Error::BadJpeg {
        reason: format!("the header is truncated after {at} bytes"),
    }
}

impl JpegHeader {
    /// Parses the header of a file.
    ///
    /// # Errors
    /// [`Error::BadJpeg`] if the bytes are not a JPEG file or the header is damaged.
    pub fn parse(file: &[u8]) -> Result<JpegHeader> {
        if file.get(..2) != Some(&[0xff, 0xd8]) {
            return Err(Error::BadJpeg {
                reason: "it does not start with a JPEG start-of-image marker".to_owned(),
            });
        }
        let mut reader = MarkerReader { bytes: file, at: 2 };
        let (mut frame, mut ids) = (None, [0u8; 4]);
        let (mut is_jfif, mut adobe, mut has_huffman_tables) = (false, None, false);
        loop {
            let at = reader.at;
            match reader.marker()? {
                0x01 | 0xd0..=0xd7 => (), // no payload
                0xd8 => return Err(malformed(at, "a second start-of-image marker")),
                0xd9 => return Err(malformed(at, "the end marker comes before any image")),
                marker @ 0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                    if frame.is_some() {
                        return Err(malformed(at, "a second frame header"));
                    }
                    let (header, found) = parse_frame_header(marker, reader.segment()?, at)?;
                    (frame, ids) = (Some(header), found);
                }
                0xc4 => {
                    reader.segment()?;
                    has_huffman_tables = true;
                }
                0xe0 => is_jfif |= reader.segment()?.starts_with(b"JFIF\0"),
                0xee => {
                    let segment = reader.segment()?;
                    if segment.starts_with(b"Adobe") {
                        adobe = segment.get(11).copied().or(adobe);
                    }
                }
                0xda => {
                    let scan = reader.segment()?;
                    let mut header: JpegHeader =
                        frame.ok_or_else(|| malformed(at, "a scan before the frame header"))?;
                    header.interleaved = scan.first() == Some(&header.components);
                    header.color_model = color_model(header.components, ids, is_jfif, adobe);
                    header.has_huffman_tables = has_huffman_tables;
                    header.has_eoi = has_eoi(&file[reader.at..]);
                    return Ok(header);
                }
                _ => {
                    reader.segment()?;
                }
            }
        }
    }

    /// Base-2 logarithm of the chroma subsampling, horizontally and vertically; `(0, 0)` for gray.
    /// `None` if chroma is not subsampled evenly.
    pub fn log2_chroma(&self) -> Option<(u8, u8)> {
        if self.components == 1 {
            return Some((0, 0));
        }
        let ([(luma_h, luma_v), blue, red, _], true) =
            (self.sampling_factors, self.components == 3)
        else {
            return None;
        };
        let (log2_w, log2_h) = (log2_ratio(luma_h, blue.0)?, log2_ratio(luma_v, blue.1)?);
        (blue == red).then_some((log2_w, log2_h))
    }
}

fn log2_ratio(luma: u8, chroma: u8) -> Option<u8> {
    match (
        chroma > 0 && luma.is_multiple_of(chroma),
        luma.checked_div(chroma)?,
    ) {
        (true, 1) => Some(0),
        (true, 2) => Some(1),
        (true, 4) => Some(2),
        _ => None,
    }
}

fn parse_frame_header(marker: u8, segment: &[u8], at: usize) -> Result<(JpegHeader, [u8; 4])> {
    let &[depth_bits, h1, h0, w1, w0, components, ref rest @ ..] = segment else {
        return Err(malformed(at, "the frame header is too short"));
    };
    let (width, height) = (
        u16::from_be_bytes([w1, w0]).into(),
        u16::from_be_bytes([h1, h0]).into(),
    );
    if width == 0 || height == 0 || components == 0 || rest.len() < 3 * usize::from(components) {
        return Err(malformed(
            at,
            "the frame header has no size or no components",
        ));
    }
    let (mut sampling_factors, mut ids) = ([(1, 1); 4], [0; 4]);
    for (component, entry) in rest
        .chunks_exact(3)
        .take(components.min(4).into())
        .enumerate()
    {
        ids[component] = entry[0];
        sampling_factors[component] = (entry[1] >> 4, entry[1] & 15);
        if !matches!(sampling_factors[component], (1..=4, 1..=4)) {
            return Err(malformed(at, "a sampling factor is not 1 to 4"));
        }
    }
    let process = match marker {
        0xc0 => CodingProcess::Baseline,
        0xc1 => CodingProcess::Extended,
        0xc2 => CodingProcess::Progressive,
        other => CodingProcess::Other(other),
    };
    let color_model = ColorModel::Other;
    let header = JpegHeader {
        process,
        width,
        height,
        depth_bits,
        components,
        sampling_factors,
        color_model,
        interleaved: false,
        has_huffman_tables: false,
        has_eoi: false,
    };
    Ok((header, ids))
}

/// Determines the color space by libjpeg's rules: JFIF is YCbCr, else Adobe's marker decides, else
/// the component ids.
fn color_model(components: u8, ids: [u8; 4], is_jfif: bool, adobe: Option<u8>) -> ColorModel {
    match (components, adobe) {
        (1, _) => ColorModel::Gray,
        (3, _) if is_jfif => ColorModel::YCbCr,
        (3, Some(0)) => ColorModel::Other,
        (3, Some(_)) => ColorModel::YCbCr,
        (3, None) if ids[..3] == *b"RGB" => ColorModel::Other,
        (3, None) => ColorModel::YCbCr,
        _ => ColorModel::Other,
    }
}

fn has_eoi(behind: &[u8]) -> bool {
    behind.windows(2).rev().any(|pair| pair == [0xff, 0xd9])
}
