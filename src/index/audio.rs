//! The audio index: the packets of a file's audio by sample number.
//!
//! A position counts samples of the stream from its first audible one, after the encoder's delay.

mod build;
mod packet_samples;

use std::ops::Range;

use crate::error::Site;
use crate::media::AudioParams;

pub use build::build;
pub(crate) use packet_samples::opus as opus_samples;

/// Entry of the table of audio packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioPacket {
    /// Offset of the payload in the source; its presentation time in ticks, unless
    /// [`AudioIndex::direct`].
    pub place: i64,
    /// Position of its first sample that is kept.
    pub position: i64,
    /// Payload length in bytes.
    pub size: u32,
    /// Number of its samples that are kept.
    pub kept: u32,
    /// Number of samples before these, which are not.
    pub skipped: u32,
    /// The demuxer reports that bytes of the payload are missing or wrong.
    pub is_corrupt: bool,
}

/// Everything about the audio of a file except the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioIndex {
    /// Name of the source, for error messages.
    pub site: Site,
    /// Index of the stream among all streams of the file.
    pub stream: u32,
    /// Parameters of the stream; rate and channels are those that the decoder returns.
    pub params: AudioParams,
    /// Time of position 0, on the file's clock.
    pub begin_seconds: f64,
    /// Position after the last sample.
    pub len: i64,
    /// Packets in decode order. Positions do not decrease.
    pub packets: Vec<AudioPacket>,
    /// Packets can be read from the source at their offset; otherwise only libavformat can read
    /// them.
    pub direct: bool,
    /// See [`are_ascending`].
    pub ascending: bool,
}

/// Whether the places of packets never decrease, so that one is found by a binary search.
pub(in crate::index) fn are_ascending(packets: &[AudioPacket]) -> bool {
    packets.is_sorted_by_key(|packet| packet.place)
}

impl AudioIndex {
    /// Time after the last sample, on the file's clock.
    pub fn end_seconds(&self) -> f64 {
        self.begin_seconds + self.len as f64 / f64::from(self.params.sample_rate)
    }

    /// Length at another rate, in samples: the stream ends with the last one before its end.
    pub fn len_at(&self, sample_rate: u32) -> i64 {
        let samples = i128::from(self.len.max(0)) * i128::from(sample_rate);
        let len = -(-samples).div_euclid(i128::from(self.params.sample_rate));
        i64::try_from(len).unwrap_or(i64::MAX)
    }

    /// The packets with this size and this place, give or take one.
    pub(crate) fn packets_at(&self, place: i64, size: usize) -> impl Iterator<Item = usize> {
        let near = match self.ascending {
            true => {
                let before = |limit: i64| self.packets.partition_point(|p| p.place < limit);
                before(place.saturating_sub(1))..before(place.saturating_add(2))
            }
            false => 0..self.packets.len(),
        };
        let is = move |&number: &usize| {
            let packet = &self.packets[number];
            packet.place.abs_diff(place) <= 1 && packet.size as usize == size
        };
        near.filter(is)
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.packets.len() * size_of::<AudioPacket>()
            + self.params.extradata.len()
    }

    /// The packets whose kept samples overlap these positions.
    pub(crate) fn packets_of(&self, positions: &Range<i64>) -> Range<usize> {
        let end_of = |packet: &AudioPacket| packet.position + i64::from(packet.kept);
        let first = self
            .packets
            .partition_point(|packet| end_of(packet) <= positions.start);
        let end = self
            .packets
            .partition_point(|packet| packet.position < positions.end);
        first..end.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Codec;

    fn index(places: &[i64]) -> AudioIndex {
        let packet = |(number, &place): (usize, &i64)| AudioPacket {
            place,
            position: 0,
            size: number as u32 % 3,
            kept: 0,
            skipped: 0,
            is_corrupt: false,
        };
        let packets: Vec<_> = places.iter().enumerate().map(packet).collect();
        AudioIndex {
            site: Site::file(&"a.mkv".into()),
            stream: 0,
            params: AudioParams {
                codec: Codec::of_stream(0, "opus"),
                tag: 0,
                extradata: Vec::new(),
                sample_rate: 44_100,
                channels: 1,
                channel_mask: 4,
                bits_per_coded_sample: 0,
                block_align: 0,
                bit_rate: 0,
                profile: 0,
            },
            begin_seconds: 0.0,
            len: 441,
            ascending: are_ascending(&packets),
            packets,
            direct: false,
        }
    }

    #[test]
    fn packets_are_found_in_any_order_of_their_times() {
        let (sorted, mixed) = (
            [i64::MIN, 1, 2, 2, 2, 3, 7, 9],
            [2, 9, i64::MIN, 1, 3, 2, 2, 7],
        );
        assert!(index(&sorted).ascending && !index(&mixed).ascending);
        for places in [sorted, mixed] {
            let index = index(&places);
            for place in [i64::MIN, -1, 0, 1, 2, 3, 4, 6, 8, 10, i64::MAX] {
                for size in 0..3 {
                    let expected = (0..places.len()).filter(|&number| {
                        places[number].abs_diff(place) <= 1 && number % 3 == size
                    });
                    let found: Vec<usize> = index.packets_at(place, size).collect();
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{place} {size}");
                }
            }
        }
    }

    #[test]
    fn the_length_at_another_rate_is_that_of_the_resampled_stream() {
        let of = |len| AudioIndex { len, ..index(&[]) };
        assert_eq!(of(441).len_at(16_000), 160);
        assert_eq!(of(442).len_at(16_000), 161);
        assert_eq!(of(442).len_at(44_100), 442);
        assert_eq!(of(i64::MAX).len_at(768_000), i64::MAX);
    }
}
