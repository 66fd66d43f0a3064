//! Number of samples of an audio packet, read from its header: decoding all packets of a file to
//! count them would take long.

use crate::media::AudioParams;

/// How the number of samples of a packet of this codec is found.
#[derive(Clone, Copy)]
pub(super) enum PacketSamples {
    /// Samples of all channels, each of this number of bytes.
    Pcm { bytes: u32 },
    /// The same in all packets; found by decoding some.
    Constant,
    /// By the header of this codec.
    Header(fn(&[u8]) -> Option<u32>),
    /// By decoding the packet.
    Decoded,
}

impl PacketSamples {
    pub(super) fn of(params: &AudioParams) -> Self {
        match &params.codec.name[..] {
            "aac" | "aac_latm" | "ac3" | "alac" => Self::Constant,
            "amr_nb" => Self::Header(|data| amr(data, &AMR_NB_BYTES, 160)),
            "amr_wb" => Self::Header(|data| amr(data, &AMR_WB_BYTES, 320)),
            "mp1" | "mp2" | "mp3" => Self::Header(mpeg_audio),
            "opus" => Self::Header(opus),
            "flac" => Self::Header(flac),
            "eac3" => Self::Header(eac3),
            "pcm_u8" | "pcm_s8" | "pcm_alaw" | "pcm_mulaw" => Self::Pcm { bytes: 1 },
            "pcm_s16le" | "pcm_s16be" => Self::Pcm { bytes: 2 },
            "pcm_s24le" | "pcm_s24be" => Self::Pcm { bytes: 3 },
            "pcm_s32le" | "pcm_s32be" | "pcm_f32le" | "pcm_f32be" => Self::Pcm { bytes: 4 },
            "pcm_f64le" | "pcm_f64be" => Self::Pcm { bytes: 8 },
            _ => Self::Decoded,
        }
    }
}

/// ISO/IEC 11172-3, 2.4.2.3 and ISO/IEC 13818-3, 2.4.2.3.
fn mpeg_audio(data: &[u8]) -> Option<u32> {
    let &[0xff, second, ..] = data else {
        return None;
    };
    let is_version_1 = second >> 3 & 3 == 3;
    match second >> 1 & 3 {
        3 => Some(384),
        2 => Some(1152),
        1 if is_version_1 => Some(1152),
        1 => Some(576),
        _ => None,
    }
}

/// RFC 6716, 3.1 and 3.2, at 48 kHz.
pub(crate) fn opus(data: &[u8]) -> Option<u32> {
    let &first = data.first()?;
    let samples = match first >> 3 {
        config @ 0..12 => [480, 960, 1920, 2880][usize::from(config & 3)],
        config @ 12..16 => [480, 960][usize::from(config & 1)],
        config => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(data.get(1)? & 0x3f),
    };
    Some(samples * frames).filter(|&all| all <= 5760)
}

/// Bytes of a frame of each type of AMR with its header (3GPP TS 26.101 and 26.201, annex A).
const AMR_NB_BYTES: [usize; 9] = [13, 14, 16, 18, 20, 21, 27, 32, 6];
const AMR_WB_BYTES: [usize; 10] = [18, 24, 33, 37, 41, 47, 51, 59, 61, 6];

/// The samples of all frames of a packet of AMR; frames of other types have no data.
fn amr(mut data: &[u8], bytes: &[usize], samples: u32) -> Option<u32> {
    let mut all = 0;
    while let Some(&header) = data.first() {
        let len = bytes.get(usize::from(header >> 3 & 15)).copied();
        all += samples;
        data = data.get(len.unwrap_or(1)..).unwrap_or_default();
    }
    Some(all).filter(|&all| all > 0)
}

/// RFC 9639, 9.1.
fn flac(data: &[u8]) -> Option<u32> {
    if data.len() < 6 || data[0] != 0xff || data[1] & 0xfc != 0xf8 {
        return None;
    }
    // The coded number of the frame or sample is as long as a character of UTF-8.
    let number = match data[4].leading_ones() {
        0 => 1,
        ones @ 2..=7 => ones as usize,
        _ => return None,
    };
    let byte = |at: usize| data.get(4 + number + at).copied().map(u32::from);
    match data[2] >> 4 {
        1 => Some(192),
        code @ 2..=5 => Some(576 << (code - 2)),
        6 => Some(byte(0)? + 1),
        7 => Some((byte(0)? << 8 | byte(1)?) + 1),
        code @ 8..=15 => Some(256 << (code - 8)),
        _ => None,
    }
}

/// ETSI TS 102 366, E.1.2: the frames of the first independent substream in the packet.
fn eac3(mut data: &[u8]) -> Option<u32> {
    let mut samples = 0;
    while data.len() >= 5 {
        if data[..2] != [0x0b, 0x77] {
            return None;
        }
        let bsid = data.get(5)? >> 3;
        if bsid <= 10 {
            return Some(1536); // an AC-3 frame in a stream of E-AC-3
        }
        let (kind, substream) = (data[2] >> 6, data[2] >> 3 & 7);
        let words = u32::from(data[2] & 7) << 8 | u32::from(data[3]);
        let blocks = match (data[4] >> 6, data[4] >> 4 & 3) {
            (3, _) => 6,
            (_, code) => [1, 2, 3, 6][usize::from(code)],
        };
        if kind != 1 && substream == 0 {
            samples += 256 * blocks;
        }
        data = data.get(2 * (words as usize + 1)..).unwrap_or_default();
    }
    Some(samples).filter(|&samples| samples > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_state_the_number_of_samples() {
        assert_eq!(mpeg_audio(&[0xff, 0xfb, 0x90, 0]), Some(1152));
        assert_eq!(mpeg_audio(&[0xff, 0xf3, 0x90, 0]), Some(576));
        assert_eq!(mpeg_audio(&[0xff, 0xfd, 0x90, 0]), Some(1152));
        assert_eq!(mpeg_audio(&[0x00, 0xfd]), None);
        assert_eq!(opus(&[0xfc]), Some(960)); // CELT, 20 ms, one frame
        assert_eq!(opus(&[0x1b, 0x02]), Some(5760)); // SILK, 60 ms, two frames
        assert_eq!(opus(&[0xff, 0x3f]), None); // more than 120 ms
        assert_eq!(opus(&[]), None);
        let flac_header = |code: u8, rest: &[u8]| {
            let head = [0xff, 0xf8, code << 4, 0, 0];
            flac(&[&head[..], rest, &[0; 4]].concat())
        };
        assert_eq!(flac_header(12, &[]), Some(4096));
        assert_eq!(flac_header(6, &[99]), Some(100));
        assert_eq!(flac_header(7, &[1, 0]), Some(257));
        assert_eq!(flac_header(0, &[]), None);
        let frames = [[0x3c; 32], [0x3c; 32]].concat();
        assert_eq!(amr(&frames, &AMR_NB_BYTES, 160), Some(320));
        assert_eq!(amr(&[0x7c, 0x7c], &AMR_NB_BYTES, 160), Some(320));
        // Two independent frames of one block, and one of a dependent substream.
        let frame = |kind: u8| [0x0b, 0x77, kind << 6, 2, 0, 0x80];
        let packet = [frame(0), frame(0), frame(1)].concat();
        assert_eq!(eac3(&packet), Some(512));
    }

    #[test]
    fn no_prefix_of_a_header_panics() {
        let heads: [&[u8]; 4] = [
            &[0xff, 0xfb, 0x90, 0],
            &[0x1b, 0x02],
            &[
                0xff, 0xf8, 0x70, 0, 0xfe, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0,
            ],
            &[0x0b, 0x77, 0, 0, 0, 0x80],
        ];
        for head in heads {
            for len in 0..=head.len() {
                for read in [mpeg_audio, opus, flac, eac3] {
                    let _ = read(&head[..len]);
                }
            }
        }
    }
}
