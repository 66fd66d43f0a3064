//! Motion JPEG: a picture may use the quantizer and Huffman tables of an earlier one.

use framespool_nvdec::session;

use super::codec::{Codec, INEXACT, PacketDependencyParser, PacketFlags, PictureParser};
use super::picture_info::{Dependency, PictureInfo, RandomAccessPoint};
use crate::media::CodecParams;

pub(crate) struct Mjpeg;

/// The marker that an image begins with (ITU-T T.81 B.1.1.3).
const START_OF_IMAGE: [u8; 2] = [0xff, 0xd8];

impl Codec for Mjpeg {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(MjpegTableTracker::default())
    }

    /// The decoder searches for the next image, and completes one from the tables of an earlier
    /// packet.
    fn packet_error(&self, data: &[u8]) -> Option<&'static str> {
        (!data.starts_with(&START_OF_IMAGE)).then_some("it does not begin with a JPEG image")
    }

    fn dependency_parser(&self, _params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(MjpegDependencyParser::default()))
    }

    fn harmless_messages(&self) -> &'static [&'static str] {
        &[
            "invalid TIFF header in EXIF ",
            "error decoding EXIF ",
            "not enough bytes remaining in EXIF ",
            "too many entries: ",
            "error popping additional IFD",
            "error writing EXIF ",
            "error writing additional IFD",
            // `resumes_in_second_image` decides where the decoder continues.
            "app: invalid len ",
            "unable to decode APP ",
        ]
    }

    /// The segment has a wrong length, and the decoder continues within it: in the image that it
    /// contains, if any.
    fn resumes_in_second_image(&self, message: &str) -> bool {
        message.starts_with("app: ")
    }

    /// The data of the picture itself do not contain the mark of a beginning.
    fn has_second_image(&self, data: &[u8]) -> bool {
        let rest = data.get(START_OF_IMAGE.len()..).unwrap_or_default();
        memchr::memmem::find(rest, &START_OF_IMAGE).is_some()
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Err(INEXACT)
    }
}

impl PictureParser for MjpegTableTracker {
    fn parse(&mut self, data: &[u8], flags: PacketFlags) -> PictureInfo {
        let borrows = !self.is_self_contained(data);
        PictureInfo {
            random_access: match borrows && !flags.is_first {
                true => RandomAccessPoint::None,
                false => flags.random_access(),
            },
            ..PictureInfo::default()
        }
    }
}

/// Pictures without quantizer tables use those of an earlier picture.
#[derive(Default)]
struct MjpegDependencyParser {
    /// Whether pictures contain Huffman tables, or all use the default ones.
    own_huffman_tables: Option<bool>,
    inconsistent: bool,
}

impl PacketDependencyParser for MjpegDependencyParser {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let (quantisers, codes) = find_tables(data)?;
        self.inconsistent |= !quantisers || *self.own_huffman_tables.get_or_insert(codes) != codes;
        (!self.inconsistent).then_some(Dependency::Disposable { layer: 0 })
    }
}

/// In decode order: which pictures can be decoded without earlier ones.
#[derive(Default)]
struct MjpegTableTracker {
    seen_huffman_tables: bool,
}

impl MjpegTableTracker {
    /// Whether a picture contains all tables that it needs: it may rely on the default Huffman
    /// tables until a picture contains its own.
    fn is_self_contained(&mut self, data: &[u8]) -> bool {
        let Some((quantisers, codes)) = find_tables(data) else {
            return true;
        };
        let alone = quantisers && (codes || !self.seen_huffman_tables);
        self.seen_huffman_tables |= codes;
        alone
    }
}

/// Whether quantizer and Huffman tables precede the first scan (ITU-T T.81 B.2).
fn find_tables(data: &[u8]) -> Option<(bool, bool)> {
    const HUFFMAN: u8 = 0xc4;
    const QUANTISERS: u8 = 0xdb;
    const SCAN: u8 = 0xda;
    let mut rest = data.strip_prefix(&START_OF_IMAGE)?;
    let (mut quantisers, mut codes) = (false, false);
    loop {
        let (&[prefix, marker, high, low], _) = rest.split_first_chunk::<4>()?;
        if prefix != 0xff {
            return None;
        }
        match marker {
            0xff => {
                rest = &rest[1..]; // fill byte
                continue;
            }
            SCAN => return Some((quantisers, codes)),
            QUANTISERS => quantisers = true,
            HUFFMAN => codes = true,
            _ => {}
        }
        rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jpeg_without_own_tables_is_no_keyframe() {
        let (image, scan) = ([0xff, 0xd8], [0xff, 0xda, 0, 2]);
        let (quantisers, codes) = ([0xff, 0xdb, 0, 3, 0], [0xff, 0xc4, 0, 3, 0]);
        let usual = [&image[..], &quantisers, &scan].concat();
        let own = [&image[..], &quantisers, &codes, &scan].concat();
        let bare = [&image[..], &scan].concat();
        let mut jpeg = MjpegTableTracker::default();
        let alone =
            [&usual, &bare, &usual, &own, &usual, &own].map(|data| jpeg.is_self_contained(data));
        assert_eq!(alone, [true, false, true, true, false, true]);
    }

    #[test]
    fn jpeg_with_own_tables_is_disposable() {
        let quantisers = [0xff, 0xdb, 0, 3, 0];
        let scan = [0xff, 0xda, 0, 2];
        let whole = [&[0xff, 0xd8][..], &quantisers, &scan].concat();
        let mut jpeg = MjpegDependencyParser::default();
        assert_eq!(
            jpeg.parse(&whole),
            Some(Dependency::Disposable { layer: 0 })
        );
        assert_eq!(jpeg.parse(&whole[..4]), None);
        assert_eq!(jpeg.parse(&[&[0xff, 0xd8][..], &scan].concat()), None);
        assert_eq!(jpeg.parse(&whole), None);
    }
}
