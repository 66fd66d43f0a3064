//! Where decoding must start so that a packet's samples are exact.
//!
//! Codecs differ in what a packet's samples depend on. PCM and lossless codecs: on nothing before.
//! MP3 and Vorbis: on a limited number of packets before. AAC-LC and
//! AC-3: likewise, as their noise is made to depend on the packet alone. Others have a state that
//! all packets before have changed: the filters of SBR, the predictors of Opus, AMR and WMA. Those are decoded in blocks of packets which begin at fixed packets of the stream, each
//! with the same packets before it for the state to converge and with a new decoder, so that a
//! sample does not depend on the window for which it was decoded.

use std::ops::Range;

use crate::media::AudioParams;

/// The packets on which the samples of a packet depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// The packet and this number before it.
    After(usize),
    /// The packet, and those before it that have the bytes of its reservoir.
    Reservoir,
    /// Those of its block of `packets`, and this number before the block.
    Blocks { packets: usize, after: usize },
}

/// A run of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Packets whose samples are not used.
    pub before: Range<usize>,
    /// Packets whose samples are used.
    pub used: Range<usize>,
    /// The first packet on which the used ones are known to depend. Those before it let the decoder
    /// converge, and may refer to packets that it does not get.
    pub needed: usize,
    /// The first packet of whose bytes the used ones may have a part: decoding it may fail, because
    /// other packets are missing, but it must not be corrupt.
    pub intact: usize,
}

/// How far the reservoir of MP3 reaches back, in bytes of payload (ISO/IEC 11172-3, 2.4.2.7).
const RESERVOIR_BYTES: u32 = 511;
/// Header, checksum and side information of a packet of MP3, at most.
const MP3_HEADER_BYTES: u32 = 38;
/// Packets before an MP3 packet that must be exact: the overlap, and the state of the filter bank,
/// which depends on the overlap of the packet before if packets have one granule.
const MP3_OVERLAP_PACKETS: usize = 2;
/// Packets before the one where the reservoir begins.
const MP3_SPARE_PACKETS: usize = 1;
/// Packets that are decoded before an MP3 packet at most: 2.6 s at 22 kHz.
const MAX_RESERVOIR_PACKETS: usize = 100;

/// Duration of a block in seconds. Shorter blocks need more decoders and more packets before them,
/// longer ones more packets that no window needs: clips last a few seconds.
const BLOCK_SECONDS: f64 = 1.0;

/// FFmpeg's number of AAC-LC.
const AAC_LOW_COMPLEXITY: i32 = 1;

impl Restart {
    /// For a stream whose packets have about this number of samples.
    pub(super) fn of(params: &AudioParams, packet_samples: f64) -> Self {
        let packets_in = |seconds: f64| {
            let count = seconds * f64::from(params.sample_rate) / packet_samples.max(1.0);
            (count.ceil() as usize).max(1)
        };
        let blocks = |after: usize| Self::Blocks {
            packets: packets_in(BLOCK_SECONDS),
            after,
        };
        match &params.codec.name[..] {
            "flac" | "alac" => Self::After(0),
            // Its blocks do not end with packets, so that all packets before determine where one begins.
            "pcm_dvd" => Self::Blocks {
                packets: usize::MAX,
                after: 0,
            },
            name if name.starts_with("pcm_") => Self::After(0),
            "mp3" => Self::Reservoir,
            "mp1" | "mp2" => Self::After(MP3_OVERLAP_PACKETS),
            "vorbis" => Self::After(1),
            // The overlap is one packet, and scripts/ffmpeg.patch makes noise depend on the packet.
            "aac" if cfg!(ffmpeg_patched) && params.profile == AAC_LOW_COMPLEXITY => Self::After(1),
            // Other profiles predict from earlier packets, or have SBR with its own noise. SBR and PS
            // begin with a header, which encoders repeat about every half second.
            "aac" | "aac_latm" => blocks(packets_in(0.5)),
            // The overlap is one packet; noise depends on the packet, see `AudioDecoder::open`.
            "ac3" | "eac3" => Self::After(2),
            // RFC 7845, 4.6 requires 80 ms, after which predictors have almost converged.
            "opus" => blocks(packets_in(0.5)),
            _ => blocks(packets_in(0.5)),
        }
    }

    /// Whether a decoder that has decoded other packets gives the same samples as a new one. That of
    /// AC-3 continues its noise.
    pub(super) fn allows_reuse(self, params: &AudioParams) -> bool {
        !matches!(self, Self::Blocks { .. }) && !params.codec.name.ends_with("ac3")
    }

    /// The runs that decode these packets, given the size of each packet in bytes.
    pub(super) fn runs(self, packets: Range<usize>, size_of: impl Fn(usize) -> u32) -> Vec<Run> {
        let run = |first: usize, used: Range<usize>, after: usize, needed: usize| Run {
            before: first.saturating_sub(after)..used.start,
            used,
            needed,
            intact: needed,
        };
        if packets.is_empty() {
            return Vec::new();
        }
        match self {
            Self::After(after) => {
                let first = packets.start;
                vec![run(first, packets, after, first.saturating_sub(after))]
            }
            Self::Reservoir => {
                let first = packets.start;
                let exact = first.saturating_sub(MP3_OVERLAP_PACKETS);
                let (mut after, mut bytes) = (0, 0);
                while bytes < RESERVOIR_BYTES && after < exact.min(MAX_RESERVOIR_PACKETS) {
                    after += 1;
                    bytes += size_of(exact - after).saturating_sub(MP3_HEADER_BYTES);
                }
                let intact = exact - after;
                // What the packets before refer to in turn may be missing.
                let after = MP3_OVERLAP_PACKETS + after + MP3_SPARE_PACKETS;
                vec![Run {
                    intact,
                    ..run(first, packets, after, first)
                }]
            }
            Self::Blocks {
                packets: per_block,
                after,
            } => {
                let blocks = packets.start / per_block..=(packets.end - 1) / per_block;
                let of_block = |block: usize| {
                    let first = block * per_block;
                    let end = packets.end.min(first + per_block);
                    run(first, packets.start.max(first)..end, after, first)
                };
                blocks.map(of_block).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffmpeg::codec_params::codec_id;
    use crate::media::Codec;

    #[test]
    fn a_packet_is_decoded_from_the_same_start_in_every_window() {
        let restart = Restart::Blocks {
            packets: 10,
            after: 3,
        };
        let start_of = |packet: usize, window: Range<usize>| {
            let runs = restart.runs(window, |_| 0);
            let run = runs.iter().find(|run| run.used.contains(&packet)).unwrap();
            run.before.start
        };
        for packet in 0..60 {
            let alone = start_of(packet, packet..packet + 1);
            for begin in packet.saturating_sub(25)..=packet {
                for end in packet + 1..packet + 25 {
                    assert_eq!(start_of(packet, begin..end), alone);
                }
            }
        }
    }

    #[test]
    fn decoding_of_he_aac_begins_early_enough_for_a_header() {
        let name = "aac";
        let params = |profile| AudioParams {
            codec: Codec::of_stream(codec_id(name).unwrap(), name),
            tag: 0,
            extradata: Vec::new(),
            sample_rate: 48_000,
            channels: 2,
            channel_mask: 3,
            bits_per_coded_sample: 0,
            block_align: 0,
            bit_rate: 0,
            profile,
        };
        let (sbr, parametric_stereo) = (4, 28);
        for profile in [sbr, parametric_stereo] {
            let Restart::Blocks { after, .. } = Restart::of(&params(profile), 2048.0) else {
                panic!("it has a state of unlimited length");
            };
            assert!(
                after >= 10,
                "FDK's encoder repeats headers every ten packets"
            );
        }
    }

    #[test]
    fn runs_cover_the_window_once() {
        for restart in [
            Restart::After(2),
            Restart::Blocks {
                packets: 7,
                after: 2,
            },
        ] {
            for window in [0..0, 0..1, 5..9, 6..7, 7..30] {
                let used = restart.runs(window.clone(), |_| 0).into_iter();
                let used: Vec<usize> = used.flat_map(|run| run.used).collect();
                assert_eq!(used, window.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_reservoir_is_as_long_as_packets_are_small() {
        let before = |size: u32| {
            let run = &Restart::Reservoir.runs(200..201, |_| size)[0];
            (200 - run.before.start, run.needed)
        };
        assert_eq!(before(418), (2 + 2 + 1, 200));
        assert_eq!(before(48), (2 + 52 + 1, 200));
        assert_eq!(before(0), (2 + 100 + 1, 200));
        assert_eq!(Restart::Reservoir.runs(1..2, |_| 10)[0].before, 0..1);
    }

    #[test]
    fn the_packets_of_the_overlap_have_their_reservoir() {
        // A large packet has all bytes of its own reservoir, but not those of the one before.
        let size_of = |packet: usize| if packet == 199 { 1000 } else { 48 };
        let run = &Restart::Reservoir.runs(200..201, size_of)[0];
        assert_eq!(run.before, 200 - (2 + 52 + 1)..200);
    }
}
