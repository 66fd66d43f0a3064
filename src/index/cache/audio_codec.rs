//! Encodes an audio index in a few bytes per packet and decodes it; decoding checks every value that
//! is used as an index or a length. Any change of the encoding, or of the index that is built from
//! the same file, requires a new [`AUDIO_FORMAT`].

use super::delta_column::{read_column, write_column};
use super::varint::{VarintReader, write_bytes, write_signed_varint, write_varint};
use crate::error::Site;
use crate::ffmpeg::audio_decoder::{MAX_CHANNELS, MAX_SAMPLE_RATE};
use crate::ffmpeg::codec_params::codec_id;
use crate::index::audio::{AudioIndex, AudioPacket, are_ascending};
use crate::limits::Limits;
use crate::media::{AudioParams, Codec};

/// Entries of another format are rebuilt.
const AUDIO_FORMAT: u8 = 3;

/// Maximum number of samples of an index: numbers stay exact, and sums cannot overflow.
const MAX_LEN: i64 = 1 << 55;

/// Maximum length of a codec name.
const MAX_NAME_BYTES: u64 = 256;

/// Encodes an index; `None` for one that would not decode to the same value.
pub(super) fn encode(index: &AudioIndex) -> Option<Vec<u8>> {
    let params = &index.params;
    if codec_id(&params.codec.name) != Some(params.codec.id) {
        return None;
    }
    let mut out = vec![AUDIO_FORMAT, u8::from(index.direct)];
    write_varint(&mut out, index.stream.into());
    // By name, because libavcodec may renumber codecs in its next major version.
    write_bytes(&mut out, params.codec.name.as_bytes());
    for number in [params.tag, params.sample_rate, params.channels] {
        write_varint(&mut out, number.into());
    }
    write_varint(&mut out, params.channel_mask);
    write_bytes(&mut out, &params.extradata);
    write_signed_varint(&mut out, params.bits_per_coded_sample.into());
    write_signed_varint(&mut out, params.block_align.into());
    write_signed_varint(&mut out, params.bit_rate);
    write_signed_varint(&mut out, params.profile.into());
    out.extend(index.begin_seconds.to_le_bytes());
    write_signed_varint(&mut out, index.len);
    write_varint(&mut out, index.packets.len() as u64);
    for column in COLUMNS {
        let values: Vec<i64> = index.packets.iter().map(column).collect();
        write_column(&mut out, &values);
    }
    Some(out)
}

/// The properties of a packet.
const COLUMNS: [fn(&AudioPacket) -> i64; 6] = [
    |packet| packet.place,
    |packet| packet.position,
    |packet| packet.size.into(),
    |packet| packet.kept.into(),
    |packet| packet.skipped.into(),
    |packet| packet.is_corrupt.into(),
];

/// Decodes an index; `None` if it is invalid.
pub(super) fn decode(bytes: &[u8], site: Site, limits: &Limits) -> Option<AudioIndex> {
    let reader = &mut VarintReader::new(bytes);
    if reader.byte()? != AUDIO_FORMAT {
        return None;
    }
    let direct = reader.byte().filter(|&direct| direct < 2)? == 1;
    let stream = reader.varint_u32()?;
    let name = reader.text(MAX_NAME_BYTES)?;
    let codec = Codec::of_stream(codec_id(name)?, name);
    let params = AudioParams {
        codec,
        tag: reader.varint_u32()?,
        sample_rate: reader
            .varint_u32()
            .filter(|rate| (1..=MAX_SAMPLE_RATE).contains(rate))?,
        channels: reader
            .varint_u32()
            .filter(|channels| (1..=MAX_CHANNELS).contains(channels))?,
        channel_mask: reader.varint()?,
        extradata: reader.bytes(limits.extradata_bytes)?.to_vec(),
        bits_per_coded_sample: i32::try_from(reader.signed_varint()?).ok()?,
        block_align: i32::try_from(reader.signed_varint()?).ok()?,
        bit_rate: reader.signed_varint()?,
        profile: i32::try_from(reader.signed_varint()?).ok()?,
    };
    let begin_seconds = f64::from_bits(reader.u64_le()?);
    let len = reader
        .signed_varint()
        .filter(|len| (0..=MAX_LEN).contains(len))?;
    let count = reader
        .varint()
        .filter(|&count| count <= limits.packets)
        .and_then(|count| usize::try_from(count).ok())?;
    let mut column = || read_column(reader, count);
    let (places, positions, sizes) = (column()?, column()?, column()?);
    let (kept, skipped, corrupt) = (column()?, column()?, column()?);
    if !reader.rest().is_empty() || !begin_seconds.is_finite() {
        return None;
    }
    let small = |value: i64| u32::try_from(value).ok();
    let mut packets = Vec::with_capacity(count);
    let mut end = 0;
    for at in 0..count {
        let packet = AudioPacket {
            place: places[at],
            position: positions[at],
            size: small(sizes[at]).filter(|&size| u64::from(size) <= limits.packet_bytes)?,
            kept: small(kept[at])?,
            skipped: small(skipped[at])?,
            is_corrupt: match corrupt[at] {
                0 => false,
                1 => true,
                _ => return None,
            },
        };
        if packet.position < end || (direct && packet.place < 0) {
            return None;
        }
        end = packet.position.checked_add(packet.kept.into())?;
        packets.push(packet);
    }
    (end == len).then_some(AudioIndex {
        site,
        stream,
        params,
        begin_seconds,
        len,
        ascending: are_ascending(&packets),
        packets,
        direct,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> AudioIndex {
        let packet = |n: i64| AudioPacket {
            place: 1000 + 417 * n + n % 3,
            position: (1024 * n - 1024).max(0) + i64::from(n > 5) * 5000,
            size: 400 + n as u32 % 5,
            kept: if n == 0 { 0 } else { 1024 },
            skipped: if n == 0 { 1024 } else { 0 },
            is_corrupt: n % 7 == 3,
        };
        let packets: Vec<_> = (0..50).map(packet).collect();
        let last = packets[49];
        let name = "aac";
        AudioIndex {
            site: Site::file(&"a.mp4".into()),
            stream: 1,
            params: AudioParams {
                codec: Codec::of_stream(codec_id(name).unwrap(), name),
                tag: 5,
                extradata: vec![0x12, 0x10],
                sample_rate: 44_100,
                channels: 2,
                channel_mask: 3,
                bits_per_coded_sample: 16,
                block_align: -1,
                bit_rate: 128_000,
                profile: 1,
            },
            begin_seconds: -0.25,
            len: last.position + i64::from(last.kept),
            ascending: are_ascending(&packets),
            packets,
            direct: true,
        }
    }

    #[test]
    fn an_index_is_restored() {
        let index = index();
        let encoded = encode(&index).unwrap();
        assert!(encoded.len() < 200, "{}", encoded.len());
        let decoded = decode(&encoded, index.site.clone(), &Limits::default());
        assert_eq!(decoded, Some(index));
    }

    #[test]
    fn damage_gives_a_valid_index_or_none() {
        let encoded = encode(&index()).unwrap();
        let read = |bytes: &[u8]| decode(bytes, index().site, &Limits::default());
        for bit in 0..8 * encoded.len() {
            let mut damaged = encoded.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Some(index) = read(&damaged) {
                let ends = index.packets.windows(2);
                let ends = ends.map(|two| (two[0].position + i64::from(two[0].kept), two[1]));
                assert!(ends.into_iter().all(|(end, next)| end <= next.position));
            }
        }
        assert!((0..encoded.len()).all(|len| read(&encoded[..len]).is_none()));
    }
}
