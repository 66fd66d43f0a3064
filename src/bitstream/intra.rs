//! Determines for codecs without temporal prediction whether their decoder keeps state between
//! packets. Lists only codecs whose libavcodec decoder is known to reset with every packet.
//! Intra-only is not sufficient: FFV1 keeps its coder state, MJPEG its tables, raw video a palette.

use super::picture_info::Dependency;
use crate::media::CodecParams;

/// Whether every packet of a stream can be decoded independently.
pub(crate) fn packets_are_independent(params: &CodecParams) -> bool {
    match params.codec.name.as_str() {
        "prores" | "dnxhd" | "v210" | "utvideo" | "jpeg2000" => true,
        "rawvideo" => params.bits_per_coded_sample > 8,
        _ => false,
    }
}

/// MJPEG: pictures without quantizer tables use those of an earlier picture.
#[derive(Default)]
pub(crate) struct MjpegDependencyParser {
    /// Whether pictures contain Huffman tables, or all use the default ones.
    own_huffman_tables: Option<bool>,
    inconsistent: bool,
}

impl MjpegDependencyParser {
    pub fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let (quantisers, codes) = find_tables(data)?;
        self.inconsistent |= !quantisers || *self.own_huffman_tables.get_or_insert(codes) != codes;
        (!self.inconsistent).then_some(Dependency::Disposable { layer: 0 })
    }
}

/// MJPEG in decode order: which pictures can be decoded without earlier ones.
#[derive(Default)]
pub(crate) struct MjpegTableTracker {
    seen_huffman_tables: bool,
}

impl MjpegTableTracker {
    /// Whether a picture contains all tables that it needs: it may rely on the default Huffman
    /// tables until a picture contains its own.
    pub fn is_self_contained(&mut self, data: &[u8]) -> bool {
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
    const IMAGE: [u8; 2] = [0xff, 0xd8];
    const HUFFMAN: u8 = 0xc4;
    const QUANTISERS: u8 = 0xdb;
    const SCAN: u8 = 0xda;
    let mut rest = data.strip_prefix(&IMAGE)?;
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
