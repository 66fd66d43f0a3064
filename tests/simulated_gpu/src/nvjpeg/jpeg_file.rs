//! Reads JPEG headers, and the planes as libavcodec decodes them.
//! A plane of another size than the header's, or a decoder error, is an error.

use ffmpeg_sys_next::AVPixelFormat as Format;

use super::{BAD_JPEG, HARDWARE, JPEG_NOT_SUPPORTED};
use crate::call_log::Code;
use crate::cuvid::abi::JPEG;
use crate::cuvid::codec::Codec;

/// The fields of SOF and the first SOS that nvJPEG's functions report.
#[derive(Clone, Debug)]
pub struct Header {
    sof: u8,
    depth: u8,
    width: usize,
    height: usize,
    pub components: usize,
    factors: Vec<(usize, usize)>,
    in_first_scan: usize,
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

impl Header {
    pub fn read(file: &[u8]) -> Result<Header, Code> {
        let header = Header::parse_segments(file).ok_or(BAD_JPEG)?;
        let whole = header.width > 0
            && header.height > 0
            && header.factors.iter().all(|&(h, v)| h > 0 && v > 0);
        if whole && header.components > 0 {
            Ok(header)
        } else {
            Err(BAD_JPEG)
        }
    }

    fn parse_segments(file: &[u8]) -> Option<Header> {
        let mut header: Option<Header> = None;
        let mut at = 2;
        if file.get(..2)? != [0xff, 0xd8] {
            return None;
        }
        loop {
            while file.get(at)? == &0xff && file.get(at + 1)? == &0xff {
                at += 1;
            }
            let (0xff, marker) = (*file.get(at)?, *file.get(at + 1)?) else {
                return None;
            };
            at += 2;
            if matches!(marker, 1 | 0xd0..=0xd7) {
                continue;
            }
            let length = number(file, at)?;
            let segment = file.get(at + 2..at + length)?;
            match marker {
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    let components = usize::from(*segment.get(5)?);
                    let factor = |component: usize| {
                        let both = *segment.get(7 + 3 * component)?;
                        Some((usize::from(both >> 4), usize::from(both & 15)))
                    };
                    header = Some(Header {
                        sof: marker,
                        depth: *segment.first()?,
                        width: number(segment, 3)?,
                        height: number(segment, 1)?,
                        components,
                        factors: (0..components).map(factor).collect::<Option<_>>()?,
                        in_first_scan: 0,
                    });
                }
                0xda => {
                    let mut header = header?;
                    header.in_first_scan = usize::from(*segment.first()?);
                    return Some(header);
                }
                _ => (),
            }
            at += length;
        }
    }

    /// Width and height of a component; zeros for a missing one.
    pub fn size_of(&self, component: usize) -> (usize, usize) {
        let Some(&(h, v)) = self.factors.get(component) else {
            return (0, 0);
        };
        let max_h = self.factors.iter().map(|f| f.0).max().unwrap_or(1);
        let max_v = self.factors.iter().map(|f| f.1).max().unwrap_or(1);
        (
            (self.width * h).div_ceil(max_h),
            (self.height * v).div_ceil(max_v),
        )
    }

    /// nvjpegChromaSubsampling_t.
    pub fn subsampling(&self) -> i32 {
        match self.factors[..] {
            [_] => 6,
            [(h, v), blue, red] if blue == red && h % blue.0 == 0 && v % blue.1 == 0 => {
                match (h / blue.0, v / blue.1) {
                    (1, 1) => 0,
                    (2, 1) => 1,
                    (2, 2) => 2,
                    (1, 2) => 3,
                    (4, 1) => 4,
                    (4, 2) => 5,
                    _ => -1,
                }
            }
            _ => -1,
        }
    }

    /// Whether a backend supports such a file.
    pub fn supported_by(&self, backend: i32) -> bool {
        let known = (0..=6).contains(&self.subsampling()) && self.depth == 8;
        let engines = self.sof == 0xc0
            && self.in_first_scan == self.components
            && !matches!(self.subsampling(), 4 | 5);
        known
            && if backend == HARDWARE {
                engines
            } else {
                matches!(self.sof, 0xc0..=0xc2)
            }
    }
}

/// One plane without padding.
pub struct Plane {
    pub width: usize,
    pub height: usize,
    pub samples: Vec<u8>,
}

/// The planes of a file.
pub fn decode(header: &Header, file: &[u8]) -> Result<Vec<Plane>, Code> {
    let mut codec = Codec::open(JPEG, None).ok_or(JPEG_NOT_SUPPORTED)?;
    let done = codec.decode(Some(file));
    let Some(picture) = done
        .displayed
        .first()
        .filter(|_| !done.refused && done.logged_errors == 0)
    else {
        return Err(BAD_JPEG);
    };
    // libavcodec converts unusual samplings to another layout.
    if (picture.width(), picture.height()) != header.size_of(0)
        || !is_stored_format(header.subsampling(), picture.format())
    {
        return Err(JPEG_NOT_SUPPORTED);
    }
    let plane = |component: usize| {
        let (width, height) = header.size_of(component);
        let samples = (0..height)
            .flat_map(|row| picture.row(component, row, width))
            .copied()
            .collect();
        Plane {
            width,
            height,
            samples,
        }
    };
    Ok((0..header.components).map(plane).collect())
}

/// Whether a decoded frame's format matches the file.
fn is_stored_format(subsampling: i32, format: i32) -> bool {
    let formats = match subsampling {
        0 => [Format::AV_PIX_FMT_YUV444P, Format::AV_PIX_FMT_YUVJ444P],
        1 => [Format::AV_PIX_FMT_YUV422P, Format::AV_PIX_FMT_YUVJ422P],
        2 => [Format::AV_PIX_FMT_YUV420P, Format::AV_PIX_FMT_YUVJ420P],
        3 => [Format::AV_PIX_FMT_YUV440P, Format::AV_PIX_FMT_YUVJ440P],
        4 => [Format::AV_PIX_FMT_YUV411P, Format::AV_PIX_FMT_YUVJ411P],
        6 => [Format::AV_PIX_FMT_GRAY8, Format::AV_PIX_FMT_GRAY8],
        _ => return false,
    };
    formats.iter().any(|&known| known as i32 == format)
}
