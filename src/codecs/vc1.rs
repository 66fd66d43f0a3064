//! VC-1 and WMV3 (SMPTE 421M): picture types, which give the presentation order.

use framespool_nvdec::session;

use super::codec::{Codec, OrderRule, PacketFlags, PictureParser};
use super::configuration::{ConfigurationTracker, StartCodeTracker, Syntax, Unit};
use super::nal::{BitReader, find_start_code, unescape_rbsp};
use super::picture_info::PictureInfo;

/// VC-1, and WMV3 (Windows Media Video 9), which is its simple and main profiles.
pub(crate) struct Vc1 {
    /// Headers may occur in packets.
    pub is_advanced: bool,
}

/// Sequence header and entry point header (annex G). An entry point header may differ only in the
/// state of its rate control.
static CONFIGURATION: Syntax = Syntax {
    unit: |code, _| match code {
        0x0f => Unit::Header(0),
        0x0e => Unit::Header(ENTRY_POINT),
        0x0b..=0x0d => Unit::Picture,
        _ => Unit::Other,
    },
    required: &[0, ENTRY_POINT],
    accumulates: true,
    ignored_if_present: Some(ENTRY_POINT),
};
const ENTRY_POINT: usize = 1;

impl Codec for Vc1 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(Vc1PictureParser { sequence: None })
    }

    fn configuration_tracker(&self, extradata: &[u8]) -> Option<Box<dyn ConfigurationTracker>> {
        let tracker = || Box::new(StartCodeTracker::new(&CONFIGURATION, extradata)) as _;
        self.is_advanced.then(tracker)
    }

    fn order_rule(&self, extradata: &[u8]) -> OrderRule {
        match Vc1Sequence::parse(extradata) {
            Some(_) => OrderRule::PictureTypesIfUntimed,
            None => OrderRule::DecoderOutput,
        }
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Err("NVDEC was not tried with it")
    }
}

struct Vc1PictureParser {
    sequence: Option<Vc1Sequence>,
}

impl PictureParser for Vc1PictureParser {
    fn set_extradata(&mut self, extradata: &[u8]) {
        self.sequence = Vc1Sequence::parse(extradata);
    }

    fn parse(&mut self, data: &[u8], flags: PacketFlags) -> PictureInfo {
        PictureInfo {
            random_access: flags.random_access(),
            is_b_picture: self
                .sequence
                .and_then(|sequence| sequence.is_b_picture(data))
                .unwrap_or(false),
            ..PictureInfo::default()
        }
    }
}

/// What the sequence header says about picture headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vc1Sequence {
    /// Simple and main profile (annex J.1.1).
    Main {
        frame_interpolation: bool,
        range_reduction: bool,
        b_pictures: bool,
    },
    /// Advanced profile (6.1).
    Advanced { interlace: bool },
}

impl Vc1Sequence {
    /// Reads a codec configuration: the structure C of WMV3, or start codes and headers of the
    /// advanced profile.
    fn parse(config: &[u8]) -> Option<Self> {
        const ADVANCED: u32 = 3;
        if let Some(at) = find_start_code(config, 0x0f..=0x0f) {
            let header = unescape_rbsp(config.get(at..)?);
            let mut bits = BitReader::plain(&header);
            if bits.take(2)? != ADVANCED {
                return None;
            }
            bits.skip(3 + 2 + 3 + 5 + 1)?; // level, chroma format, frame and bit rate, postprocessing
            bits.skip(12 + 12 + 1)?; // size, pulldown
            return Some(Self::Advanced {
                interlace: bits.bit()? == 1,
            });
        }
        let mut bits = BitReader::plain(config);
        if bits.take(2)? == ADVANCED {
            return None;
        }
        bits.skip(2 + 3 + 5)?; // reserved, frame and bit rate
        bits.skip(1 + 1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 1)?; // loop filter to synchronization markers
        let range_reduction = bits.bit()? == 1;
        let b_pictures = bits.take(3)? > 0;
        bits.skip(2)?; // quantizer
        Some(Self::Main {
            frame_interpolation: bits.bit()? == 1,
            range_reduction,
            b_pictures,
        })
    }

    /// Whether a packet's picture is a B or BI picture, which is shown at once (7.1.1.4, 9.1.1.42,
    /// J.2).
    fn is_b_picture(self, data: &[u8]) -> Option<bool> {
        match self {
            Self::Main {
                frame_interpolation,
                range_reduction,
                b_pictures,
            } => {
                // A packet of one byte repeats the previous picture.
                if !b_pictures || data.len() < 2 {
                    return Some(false);
                }
                let mut bits = BitReader::plain(data);
                bits.skip(2 + u32::from(frame_interpolation) + u32::from(range_reduction))?;
                Some(bits.bit()? == 0 && bits.bit()? == 0)
            }
            Self::Advanced { interlace } => {
                let frame = match data.starts_with(&[0, 0, 1]) {
                    true => data.get(find_start_code(data, 0x0d..=0x0d)?..)?,
                    false => data,
                };
                let mut bits = BitReader::plain(frame);
                // A frame of two fields is coded as 11, with the types of both.
                if interlace && bits.bit()? == 1 && bits.bit()? == 1 {
                    return Some(bits.bit()? == 1);
                }
                // P is 0, B 10, I 110, BI 1110, and a skipped picture 1111.
                let mut ones = 0;
                while ones < 4 && bits.bit()? == 1 {
                    ones += 1;
                }
                Some(ones == 1 || ones == 3)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::nal::test_headers::bits;
    use super::*;

    #[test]
    fn picture_types_of_the_main_profile() {
        // Profile main, no range reduction, three B pictures, no frame interpolation.
        let config = bits("01 0 0 000 00000 1 0 0 1 1 0 00 1 0 1 0 0 011 00 0 1");
        let sequence = Vc1Sequence::parse(&config).expect("complete");
        let expected = Vc1Sequence::Main {
            frame_interpolation: false,
            range_reduction: false,
            b_pictures: true,
        };
        assert_eq!(sequence, expected);
        let types = ["00 1", "00 01", "00 00"]
            .map(|head| sequence.is_b_picture(&bits(&format!("{head} 11111111"))));
        assert_eq!(types, [Some(false), Some(false), Some(true)], "P, I, B");
        let reduced = Vc1Sequence::Main {
            frame_interpolation: true,
            range_reduction: true,
            b_pictures: true,
        };
        assert_eq!(
            reduced.is_b_picture(&bits("1 00 1 00 11111111")),
            Some(true)
        );
        assert_eq!(
            sequence.is_b_picture(&[0]),
            Some(false),
            "a repeated picture"
        );
        let plain = Vc1Sequence::Main {
            frame_interpolation: false,
            range_reduction: false,
            b_pictures: false,
        };
        assert_eq!(
            plain.is_b_picture(&bits("00 00 11111111")),
            Some(false),
            "no B pictures"
        );
    }

    #[test]
    fn picture_types_of_the_advanced_profile() {
        let header = |interlace: u8| {
            let fields =
                format!("11 000 01 000 00000 0 000000000000 000000000000 0 {interlace} 0 0 1 0");
            [&[0, 0, 1, 0x0f][..], &bits(&fields), &[0, 0, 1, 0x0e, 0]].concat()
        };
        let frames = Vc1Sequence::parse(&header(0)).expect("complete");
        assert_eq!(frames, Vc1Sequence::Advanced { interlace: false });
        for (head, is_b) in [
            ("0", false),
            ("10", true),
            ("110", false),
            ("1110", true),
            ("1111", false),
        ] {
            let data = bits(&format!("{head} 0000 11111111"));
            assert_eq!(frames.is_b_picture(&data), Some(is_b), "{head}");
            let started = [&[0, 0, 1, 0x0e, 9, 0, 0, 1, 0x0d][..], &data].concat();
            assert_eq!(
                frames.is_b_picture(&started),
                Some(is_b),
                "{head} with start codes"
            );
        }
        let interlaced = Vc1Sequence::parse(&header(1)).expect("complete");
        assert_eq!(interlaced, Vc1Sequence::Advanced { interlace: true });
        for (head, is_b) in [
            ("0 10", true),
            ("10 10", true),
            ("10 110", false),
            ("11 100", true),
            ("11 011", false),
        ] {
            assert_eq!(
                interlaced.is_b_picture(&bits(&format!("{head} 11111111"))),
                Some(is_b),
                "{head}"
            );
        }
        assert_eq!(
            interlaced.is_b_picture(&[0, 0, 1, 0x0f, 7]),
            None,
            "no picture"
        );
        assert_eq!(Vc1Sequence::parse(&[]), None);
    }
}
