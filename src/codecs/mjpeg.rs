//! Motion JPEG: a picture may use the quantizer and Huffman tables of an earlier one. One that has
//! all its tables itself is a random access point, also if the container does not mark it.

use framespool_nvdec::session;

use super::codec::{Codec, INEXACT, PacketFlags, PictureParser};
use super::picture_info::{PictureInfo, RandomAccessPoint};

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

    fn has_end(&self, data: &[u8]) -> bool {
        const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
        const START_OF_SCAN: [u8; 2] = [0xff, 0xda];
        // A thumbnail has an end of its own, before the scans of the picture.
        let scan = memchr::memmem::rfind(data, &START_OF_SCAN);
        scan.is_none_or(|at| memchr::memmem::find(&data[at..], &END_OF_IMAGE).is_some())
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
        let source = self.source(data);
        PictureInfo {
            random_access: match source == TableSource::Own || flags.is_first {
                true => RandomAccessPoint::Open,
                false => RandomAccessPoint::None,
            },
            is_damaged: source == TableSource::Lost && !flags.is_first,
            ..PictureInfo::default()
        }
    }
}

/// Where the tables that a picture uses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableSource {
    /// The picture itself, or the default Huffman tables.
    Own,
    /// Pictures since the last one that has all its tables itself; or they are unknown.
    Earlier,
    /// A picture before that one, or none.
    Lost,
}

/// In decode order: which pictures can be decoded without earlier ones.
#[derive(Default)]
struct MjpegTableTracker {
    /// Tables that any picture has defined.
    seen: Tables,
    /// Those that are defined since the last picture that has all its tables itself.
    available: Tables,
}

impl MjpegTableTracker {
    fn source(&mut self, data: &[u8]) -> TableSource {
        let Some(PictureTables { defined, missing }) = find_tables(data) else {
            self.available = Tables::MAX; // it may have defined any
            return TableSource::Earlier;
        };
        let missing = missing & !(DEFAULT_TABLES & !self.seen);
        let source = if missing == 0 {
            self.available = defined;
            TableSource::Own
        } else if missing & !self.available == 0 {
            TableSource::Earlier
        } else {
            TableSource::Lost
        };
        self.available |= defined;
        self.seen |= defined;
        source
    }
}

/// A set of tables: bit n stands for the quantizer table n, bit 4 + n for the Huffman table n of DC
/// coefficients, bit 8 + n for that of AC coefficients.
type Tables = u16;

/// Two Huffman tables of each class exist without a definition: those of ITU-T T.81 K.3.
const DEFAULT_TABLES: Tables = 0b0011_0011_0000;

/// The table with number `table` of class 0 (quantizer), 1 (DC) or 2 (AC); `None` for others.
fn table_of(class: u8, table: u8) -> Option<Tables> {
    (class < 3 && table < 4).then(|| 1 << (4 * class + table))
}

/// Tables of one picture.
#[derive(Default)]
struct PictureTables {
    defined: Tables,
    /// Used by a scan, and not defined before it.
    missing: Tables,
}

/// The tables that a picture defines and uses (ITU-T T.81 B.2). `None` if that cannot be known
/// because its headers are damaged.
fn find_tables(data: &[u8]) -> Option<PictureTables> {
    const END_OF_IMAGE: u8 = 0xd9;
    const DEFINE_HUFFMAN_TABLES: u8 = 0xc4;
    const DEFINE_QUANTIZER_TABLES: u8 = 0xdb;
    const START_OF_SCAN: u8 = 0xda;
    const PROGRESSIVE: u8 = 0xc2;
    const LOSSLESS: u8 = 0xc3;
    const RESTART_INTERVAL: u8 = 0xdd;
    const APPLICATION_DATA: u8 = 0xe0;
    const COMMENT: u8 = 0xfe;
    let mut rest = data.strip_prefix(&START_OF_IMAGE)?;
    let mut tables = PictureTables::default();
    let mut frame: Option<(u8, Vec<(u8, u8)>)> = None; // process, and (identifier, quantizer table)
    let mut has_scan = false;
    loop {
        // As the decoder does, bytes that are no marker are skipped, such as those of a scan.
        let next = memchr::memchr_iter(0xff, rest)
            .find_map(|at| Some((at, *rest.get(at + 1).filter(|m| (0xc0..0xff).contains(*m))?)));
        // It ignores an end before the frame header.
        let is_end = |marker| marker == END_OF_IMAGE && frame.is_some();
        let Some((at, marker)) = next.filter(|&(_, marker)| !is_end(marker)) else {
            return has_scan.then_some(tables);
        };
        rest = &rest[at + 2..];
        let length = rest
            .first_chunk::<2>()
            .copied()
            .map_or(0, u16::from_be_bytes);
        let content = rest.get(2..usize::from(length));
        // Of other segments, and of one with a wrong length, it reads nothing.
        let is_read = matches!(
            marker,
            0xc0..=0xc4 | START_OF_SCAN | DEFINE_QUANTIZER_TABLES
        );
        let is_skipped = matches!(marker, RESTART_INTERVAL | APPLICATION_DATA..=0xef | COMMENT);
        let Some(mut content) = content.filter(|_| is_read || is_skipped) else {
            if is_read {
                return None;
            }
            continue;
        };
        rest = &rest[usize::from(length)..];
        match marker {
            DEFINE_QUANTIZER_TABLES => {
                // Fewer bytes are no table.
                while let Some(&head) = content.first().filter(|_| content.len() > 64) {
                    content = content.get(1 + (64 << (head >> 4).min(1))..)?;
                    tables.defined |= table_of(0, head & 15)?;
                }
            }
            DEFINE_HUFFMAN_TABLES => {
                while let Some(&head) = content.first() {
                    let values: usize = content.get(1..17)?.iter().map(|&n| usize::from(n)).sum();
                    content = content.get(17 + values..)?;
                    tables.defined |= table_of(1 + (head >> 4), head & 15)?;
                }
            }
            0xc0..=LOSSLESS => {
                let components = content.get(6..)?.chunks_exact(3);
                frame = Some((marker, components.map(|c| (c[0], c[2])).collect()));
            }
            START_OF_SCAN => {
                has_scan = true;
                // Of other processes, nothing is known.
                let (process, components) = frame.as_ref()?;
                let (&count, selected) = content.split_first()?;
                let (selected, spectral) = selected.split_at_checked(2 * usize::from(count))?;
                let [first, _, approximation] = *spectral.first_chunk::<3>()?;
                let is_progressive = *process == PROGRESSIVE;
                for scan in selected.chunks_exact(2) {
                    let (_, quantizer) = components.iter().find(|(id, _)| *id == scan[0])?;
                    let (dc, ac) = (scan[1] >> 4, scan[1] & 15);
                    let mut used = 0;
                    if *process != LOSSLESS {
                        used |= table_of(0, *quantizer)?;
                    }
                    if !is_progressive || (first == 0 && approximation >> 4 == 0) {
                        used |= table_of(1, dc)?;
                    }
                    if *process != LOSSLESS && (!is_progressive || first > 0) {
                        used |= table_of(2, ac)?;
                    }
                    tables.missing |= used & !tables.defined;
                }
                if !is_progressive && usize::from(count) == components.len() {
                    return Some(tables);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &[u8] = &[0xff, 0xd8];
    const END: &[u8] = &[0xff, 0xd9];

    fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
        let length = (2 + content.len() as u16).to_be_bytes();
        [&[0xff, marker], &length[..], content].concat()
    }

    fn quantizers(tables: &[u8]) -> Vec<u8> {
        let content = tables
            .iter()
            .flat_map(|&table| [&[table], &[1; 64][..]].concat());
        segment(0xdb, &content.collect::<Vec<u8>>())
    }

    fn codes(tables: &[u8]) -> Vec<u8> {
        let one = |&table: &u8| [&[table, 1], &[0; 15][..], &[7]].concat();
        segment(0xc4, &tables.iter().flat_map(one).collect::<Vec<u8>>())
    }

    /// Two components with tables 0 and 1; a scan of both.
    fn picture() -> Vec<u8> {
        let frame = segment(0xc0, &[8, 0, 8, 0, 8, 2, 1, 0x11, 0, 2, 0x11, 1]);
        [
            frame,
            segment(0xda, &[2, 1, 0x00, 2, 0x11, 0, 63, 0]),
            vec![0xff, 0, 9],
        ]
        .concat()
    }

    fn sources(images: &[&[Vec<u8>]]) -> Vec<TableSource> {
        let mut tracker = MjpegTableTracker::default();
        let images = images
            .iter()
            .map(|parts| [IMAGE, &parts.concat(), END].concat());
        images.map(|image| tracker.source(&image)).collect()
    }

    #[test]
    fn pictures_use_their_own_tables_or_earlier_ones() {
        use TableSource::{Earlier, Lost, Own};
        let (both, all) = (quantizers(&[0, 1]), codes(&[0x00, 0x10, 0x01, 0x11]));
        let usual = [both.clone(), picture()];
        let own = [both.clone(), all.clone(), picture()];
        let bare = [picture()];
        let half = [quantizers(&[0]), picture()];
        let found = sources(&[&usual, &bare, &half, &usual, &own, &usual, &own, &bare]);
        assert_eq!(
            found,
            [Own, Earlier, Earlier, Own, Own, Earlier, Own, Earlier]
        );
        // Only default Huffman tables may be undefined, and two of each class have a default.
        let high = segment(0xda, &[2, 1, 0x22, 2, 0x22, 0, 63, 0]);
        let frame = segment(0xc0, &[8, 0, 8, 0, 8, 2, 1, 0x11, 0, 2, 0x11, 1]);
        assert_eq!(sources(&[&bare]), [Lost]);
        assert_eq!(sources(&[&[both.clone(), frame, high]]), [Lost]);
        // Table 2 was defined before a picture that has all its tables itself.
        let second = segment(0xc0, &[8, 0, 8, 0, 8, 1, 1, 0x11, 2]);
        let scan = segment(0xda, &[1, 1, 0, 0, 63, 0]);
        let first = [quantizers(&[0, 1, 2]), picture()];
        assert_eq!(
            sources(&[&first, &[second.clone(), scan.clone()]]),
            [Own, Earlier]
        );
        assert_eq!(
            sources(&[&first, &usual, &[second, scan]]),
            [Own, Own, Lost]
        );
    }

    #[test]
    fn every_scan_of_a_picture_counts() {
        use TableSource::{Earlier, Own};
        let frame = segment(0xc2, &[8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
        let scan = |first: u8, last: u8| segment(0xda, &[1, 1, 0x00, first, last, 0]);
        let (dc, ac) = (codes(&[0x00]), codes(&[0x10]));
        let start = [
            quantizers(&[0]),
            frame,
            dc,
            scan(0, 0),
            vec![0xff, 0, 0xff, 0xd0, 9],
        ];
        let whole = [&start[..], &[ac, scan(1, 63)]].concat();
        let part = [&start[..], &[scan(1, 63)]].concat();
        assert_eq!(sources(&[&whole, &part, &whole]), [Own, Earlier, Own]);
    }

    #[test]
    fn damaged_headers_are_read_as_the_decoder_reads_them() {
        use TableSource::{Earlier, Own};
        let own = [quantizers(&[0, 1]), picture()];
        // The segment is longer than its data: what precedes the next marker is skipped.
        let junk = vec![0xff, 0xe0, 0, 2, 1, 2, 3, 0xff, 0xff];
        let found = sources(&[&own, &[junk.clone(), picture()], &[junk, own.concat()]]);
        assert_eq!(found, [Own, Earlier, Own]);
        for ignored in [
            vec![0xff, 0xe1, 0xff, 0xf0], // longer than the rest of the packet
            vec![0xff, 0xd9],             // an end before the picture
            vec![0xff, 0xdc, 0, 4, 0, 8], // another segment
            segment(0xdb, &[1; 64]),      // too short for a table
        ] {
            assert_eq!(sources(&[&own, &[ignored, own.concat()]]), [Own, Own]);
        }
        let mut cut = quantizers(&[0, 1]);
        cut[3] -= 1;
        assert_eq!(sources(&[&own, &[cut, picture()]]), [Own, Earlier]);
        for damaged in [
            quantizers(&[4]),
            codes(&[0x20]),
            codes(&[0x04]),
            vec![0xff, 0xdb],
        ] {
            // It may have defined the tables of the next picture.
            let next = [picture()];
            let found = sources(&[&own, &[damaged, own.concat()], &next]);
            assert_eq!(found, [Own, Earlier, Earlier]);
        }
    }
}
