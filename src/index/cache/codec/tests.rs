//! Tests with generated indices and damaged bytes; tests/engine/index_cache.rs covers indices of
//! real files.

use proptest::prelude::*;

use super::*;
use crate::index::NO_TIME;

const LIMITS: Limits = Limits {
    packets: 1_000_000,
    packet_bytes: 1 << 28,
    header_bytes: 1 << 30,
    table_bytes: 1 << 28,
    extradata_bytes: 1 << 20,
    picture_samples: 1 << 28,
};

fn read(bytes: &[u8]) -> Option<VideoIndex> {
    decode(bytes, Site::file(&"sketch".into()), &LIMITS)
}

prop_compose! {
    fn any_packet()(
        offset in 0..1u64 << 48, order: i32, late in -50i64..50, timed: bool, size in 0..1u32 << 20, flags: u32
    ) -> PacketRecord {
        let order = i64::from(order);
        PacketRecord { offset, order, dts: if timed { order + late } else { NO_TIME }, size, flags }
    }
}

prop_compose! {
    fn any_stream()(
        numbers: [u32; 4], extradata: Vec<u8>, bits: i32, reorder: Option<u8>, color: [u8; 3], full_range: Option<bool>,
        mirror: bool, quarter_turns_cw in 0..4u8, base in (1u32.., 1u32..),
        sample_aspect: Option<(u32, u32)>, frame_rate: Option<(u32, u32)>
    ) -> StreamInfo {
        let [primaries, transfer, matrix] = color;
        let codec = Codec { id: codec_id("h264").unwrap(), name: "h264".into(), is_image: false };
        let params = CodecParams {
            codec,
            tag: numbers[0],
            extradata,
            width: numbers[1] % 16_384,
            height: numbers[2] % 16_384,
            bits_per_coded_sample: bits,
            color: ColorTags { primaries, transfer, matrix, full_range },
            reorder: reorder.map(|depth| depth % 17),
        };
        let time_base = TimeBase::new(base.0, base.1).unwrap();
        let turn = DisplayOrientation { mirror, quarter_turns_cw };
        StreamInfo { stream: numbers[3], params, time_base, orientation: turn, sample_aspect, frame_rate }
    }
}

prop_compose! {
    fn any_summary()(
        kind in prop::sample::select(&StreamKind::ALL[..]), codec in "[a-z0-9_]{1,12}", width: u32, height: u32,
        num_frames in 0u64.., is_default: bool
    ) -> StreamSummary {
        let num_frames = Some(num_frames).filter(|&frames| frames > 0);
        StreamSummary { kind, codec, width, height, num_frames, is_default }
    }
}

prop_compose! {
    fn any_index()(
        info in any_stream(),
        streams in prop::collection::vec(any_summary(), 0..4),
        mut packets in prop::collection::vec(any_packet(), 1..80),
        shown in prop::collection::vec((any::<prop::sample::Index>(), any::<i32>()), 1..80),
        [in_band_headers, new_extradata] in prop::array::uniform2(
            prop::collection::vec((any::<prop::sample::Index>(), any::<Vec<u8>>()), 0..4)
        ),
        direct: bool, changes_parameters: bool, alternative_transfer: Option<u8>, damaged_units: u32, lasts in 0..i64::from(u32::MAX)
    ) -> VideoIndex {
        let count = packets.len();
        if !direct {
            packets.iter_mut().for_each(|p| p.offset = 0);
        }
        let mut frames: Vec<FrameRecord> = shown
            .iter()
            .take(count)
            .map(|(at, pts)| FrameRecord { packet: DecodeIndex(at.index(count) as u32), pts: (*pts).into() })
            .collect();
        frames.sort_by_key(|f| f.pts);
        let by_packet = |list: Vec<(prop::sample::Index, Vec<u8>)>| -> Vec<(u32, Vec<u8>)> {
            let list = list.into_iter().map(|(at, bytes)| (at.index(count) as u32, bytes));
            list.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
        };
        VideoIndex {
            site: Site::file(&"sketch".into()),
            container: "mov,mp4".into(),
            info,
            streams,
            sync_points: sync_points(&packets).collect(),
            end_pts: frames.last().unwrap().pts + lasts,
            packets,
            frames,
            direct,
            in_band_headers: by_packet(in_band_headers),
            new_extradata: by_packet(new_extradata),
            alternative_transfer,
            damaged_units,
            changes_parameters,
            first_field: OnceLock::new(),
            cpu_only: OnceLock::new(),
        }
    }
}

proptest! {
    #[test]
    fn index_survives_a_round_trip(index in any_index()) {
        let bytes = encode(&index).expect("a valid index");
        prop_assert_eq!(read(&bytes), Some(index));
    }

    #[test]
    fn damage_yields_nothing_or_a_usable_index(
        index in any_index(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>())
    ) {
        let mut bytes = encode(&index).expect("a valid index");
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let Some(index) = read(&bytes) else { return Ok(()) };
        for frame in (0..index.num_frames()).map(crate::units::PresentationIndex) {
            let start = index.sync_point_for(frame);
            let packet = index.frames[frame.as_usize()].packet;
            let _ = (index.headers_before(start), index.params_at(start), index.last_packet_of_picture(packet), index.site_of_packet(start));
            let _ = (index.duration_seconds(frame), index.pts_seconds(frame));
        }
        let _ = (index.average_fps(), index.key_frames(), index.memory_bytes());
    }
}

#[test]
fn index_that_would_not_round_trip_is_not_written() {
    let h264 = |mut index: VideoIndex| {
        index.info.params.codec = Codec {
            id: codec_id("h264").unwrap(),
            name: "h264".into(),
            is_image: false,
        };
        index
    };
    let index = h264(VideoIndex::synthetic(&[(0, true, true), (1, false, true)]));
    assert!(encode(&index).is_some());
    assert_eq!(
        encode(&VideoIndex {
            sync_points: vec![0, 1],
            ..index.clone()
        }),
        None
    );
    let mut renumbered = index.clone();
    renumbered.info.params.codec.id += 1;
    assert_eq!(encode(&renumbered), None);
}

#[test]
fn few_bytes_cannot_request_much_memory() {
    let mut index = VideoIndex::synthetic(&[(0, true, true)]);
    index.info.params.codec = Codec {
        id: codec_id("h264").unwrap(),
        name: "h264".into(),
        is_image: false,
    };
    let one = index.packets[0];
    index.packets = vec![PacketRecord { flags: 0, ..one }; 200_000];
    index.packets[0] = one;
    index
        .packets
        .iter_mut()
        .enumerate()
        .for_each(|(n, p)| p.offset = n as u64);
    let bytes = encode(&index).expect("a valid index");
    assert!(bytes.len() < 200, "{}", bytes.len());
    assert!(read(&bytes).is_some());
    let tight = Limits {
        packets: 199_999,
        ..LIMITS
    };
    assert_eq!(decode(&bytes, index.site.clone(), &tight), None);
}

#[test]
#[ignore = "measures"]
fn how_long_coding_takes() {
    let mut index = VideoIndex::synthetic(&[(0, true, true)]);
    index.info.params.codec = Codec {
        id: codec_id("h264").unwrap(),
        name: "h264".into(),
        is_image: false,
    };
    let one = index.packets[0];
    for count in [300u32, 10_000] {
        let mut seed = 1u64;
        index.packets = (0..count)
            .map(|n| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let i = i64::from(n);
                let order = 512 * (i / 4 * 4 + [0, 3, 1, 2][n as usize % 4]);
                let flags = if n % 250 == 0 { 7 } else { 4 };
                PacketRecord {
                    order,
                    dts: 512 * i - 1024,
                    size: 200 + (seed >> 50) as u32,
                    flags,
                    ..one
                }
            })
            .collect();
        let mut end = 0;
        for (n, p) in index.packets.iter_mut().enumerate() {
            p.offset = end
                + if n % 3 == 0 {
                    371 + (p.size as u64 % 13)
                } else {
                    0
                };
            end = p.offset + u64::from(p.size);
        }
        let mut frames: Vec<u32> = (0..count).collect();
        frames.sort_by_key(|&n| index.packets[n as usize].order);
        index.frames = frames
            .iter()
            .map(|&n| FrameRecord {
                packet: DecodeIndex(n),
                pts: index.packets[n as usize].order,
            })
            .collect();
        index.end_pts = 512 * i64::from(count);
        index.sync_points = sync_points(&index.packets).collect();
        let bytes = encode(&index).unwrap();
        let mut times = [f64::MAX; 2];
        for _ in 0..200 {
            let begun = std::time::Instant::now();
            std::hint::black_box(encode(&index));
            times[0] = times[0].min(begun.elapsed().as_secs_f64() * 1e6);
            let begun = std::time::Instant::now();
            std::hint::black_box(read(&bytes));
            times[1] = times[1].min(begun.elapsed().as_secs_f64() * 1e6);
        }
        println!(
            "{count} packets: {} bytes, {:.1} us to write down, {:.1} us to read",
            bytes.len(),
            times[0],
            times[1]
        );
    }
}
