//! Files that are or were videos: their indices must be consistent for any content. Two targets:
//! MP4's tables alone, which are parsed often and fast, and complete indices, also through
//! libavformat.

use std::cell::Cell;
use std::sync::Arc;

use framespool::decode::plan;
use framespool::demux::mp4;
use framespool::error::Error;
use framespool::index::cache::fuzz_api;
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::source::{ByteSource, MemorySource, interrupt_scope};
use framespool::units::PresentationIndex;

use super::{MIB, Target, USUAL, check_error};
use crate::seeds::Seeds;

pub const MP4: Target = Target {
    name: "mp4",
    about: "sample tables of MP4 and MOV",
    seeds: |seeds| {
        seeds
            .videos(8 * MIB as u64, 200)
            .iter()
            .filter_map(|file| without_payload(file))
            .collect()
    },
    run: tables,
    ..USUAL
};

pub const INDEX: Target = Target {
    name: "index",
    about: "complete indices, of any container",
    seeds: |seeds| seeds.videos(100_000, 60),
    run: |input| drop(indexed(input)),
    longest: 100_000,
    memory_bytes: 128 * MIB,
    resident_bytes: Some(1024 * MIB),
    seconds: 60,
    replayed: 60,
    ..USUAL
};

/// Limits as small as the inputs.
pub fn limits() -> Limits {
    Limits {
        packets: 100_000,
        packet_bytes: 1 << 24,
        table_bytes: 1 << 24,
        picture_samples: 1 << 22,
        ..Limits::default()
    }
}

fn tables(input: &[u8]) {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("fuzzed.mp4", input.to_vec()));
    let Ok(Some(track)) = check_error(mp4::read_track(&source, None, &limits())) else {
        return;
    };
    assert!(
        track.packets.len() <= input.len(),
        "{} packets in {} bytes",
        track.packets.len(),
        input.len()
    );
    for packet in &track.packets {
        let offset = packet.offset.expect("tables contain packet offsets");
        assert!(
            offset.checked_add(packet.size.into()).is_some(),
            "{packet:?}"
        );
    }
}

/// The index of a file, if any, and the file.
pub fn indexed(input: &[u8]) -> Option<(Arc<dyn ByteSource>, Arc<VideoIndex>)> {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("fuzzed", input.to_vec()));
    // A file of this length has no more packets than bytes, and is not read repeatedly.
    let steps = Cell::new(0);
    let _scope = interrupt_scope(
        move || {
            steps.set(steps.get() + 1);
            if steps.get() > 2_000_000 {
                Err(Error::Interrupted)
            } else {
                Ok(())
            }
        },
        None,
    );
    let index = check_error(build(&source, &limits())).ok()?;
    check(&index);
    let again = build(&source, &limits());
    assert_eq!(
        again.as_ref().ok(),
        Some(&index),
        "a different index the second time: {:?}",
        again.as_ref().err()
    );
    // Codecs without a name cannot be distinguished in the index cache, and no decoder supports
    // them.
    let written = fuzz_api::encode_index(&index);
    assert!(
        written.is_some() || index.info.params.codec.id == 0,
        "an index that cannot be stored"
    );
    if let Some(written) = written {
        let read = fuzz_api::decode_index(&written, &limits()).expect("the index that was stored");
        assert_eq!(
            VideoIndex {
                site: index.site.clone(),
                ..read
            },
            index
        );
    }
    Some((source, Arc::new(index)))
}

/// Checks the properties of every index, also of cached ones.
pub fn check(index: &VideoIndex) {
    let (frames, packets) = (index.num_frames(), index.packets.len());
    assert!(
        frames > 0 && frames as usize <= packets,
        "{frames} frames of {packets} packets"
    );
    assert!(index.sync_points.is_sorted() && index.in_band_headers.is_sorted_by_key(|p| p.0));
    assert!(index.new_extradata.is_sorted_by_key(|p| p.0));
    assert!(
        index
            .sync_points
            .iter()
            .all(|&start| index.packets[start as usize].is_sync())
    );
    assert!(
        index
            .packets
            .iter()
            .all(|packet| packet.offset.checked_add(packet.size.into()).is_some())
    );
    assert!(index.frames.is_sorted_by_key(|frame| frame.pts));
    assert!(index.average_fps() >= 0.0 && index.duration_seconds(PresentationIndex(0)) >= 0.0);
    assert!(index.begin_seconds() <= index.end_seconds());
    assert!(index.key_frames().is_sorted());
    // A subset, including both ends.
    let step = (frames / 16).max(1);
    let some: Vec<PresentationIndex> = (0..frames)
        .step_by(step as usize)
        .chain([frames - 1])
        .map(PresentationIndex)
        .collect();
    for &frame in &some {
        let (start, packet) = (
            index.sync_point_for(frame),
            index.frames[frame.as_usize()].packet,
        );
        assert!(start <= packet && index.last_packet_of_picture(packet).as_usize() < packets);
        index.headers_before(start);
        index.params_at(start);
        index.site_of_packet(packet);
        assert_eq!(
            index.resolve(i64::from(frame.0) - i64::from(frames)).ok(),
            Some(frame)
        );
        let seconds = index.pts_seconds(frame);
        if let Ok(shown) = index.frame_at(seconds) {
            assert!(
                shown >= frame && index.pts_seconds(shown) == seconds,
                "{shown:?} at the time of {frame:?}"
            );
        }
    }
    let runs = plan::plan_decode_ranges(index, &some);
    assert!(runs.is_sorted_by_key(|run| run.start));
    assert!(runs.iter().all(|run| {
        run.wanted
            .iter()
            .all(|at| (run.start..=run.end).contains(at))
    }));
    let wanted: usize = runs.iter().map(|run| run.wanted.len()).sum();
    let different: std::collections::BTreeSet<_> = some
        .iter()
        .map(|f| index.frames[f.as_usize()].packet)
        .collect();
    assert_eq!(wanted, different.len());
}

/// An MP4 whose payload is a few bytes; `None` for other files, and for one that consists of
/// tables.
fn without_payload(file: &[u8]) -> Option<Vec<u8>> {
    const KEPT: usize = 6000;
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(head) = file.get(at..at + 8) {
        let said = u32::from_be_bytes(head[..4].try_into().ok()?) as usize;
        let (size, kind) = (if said == 0 { file.len() - at } else { said }, &head[4..]);
        let end = at
            .checked_add(size)
            .filter(|&end| size >= 8 && end <= file.len())?;
        if !kind.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        match (kind, size > KEPT) {
            (b"mdat", true) => {
                out.extend((KEPT as u32).to_be_bytes());
                out.extend(kind);
                out.resize(out.len() + KEPT - 8, 0x55);
            }
            _ => out.extend(&file[at..end]),
        }
        at = end;
    }
    (out.len() <= MP4.longest && at == file.len()).then_some(out)
}

/// Indices of small videos.
pub fn indices(seeds: &Seeds) -> Vec<(Arc<dyn ByteSource>, VideoIndex)> {
    let sources = seeds.videos(100_000, 60).into_iter();
    let sources =
        sources.map(|file| Arc::new(MemorySource::new("seed", file)) as Arc<dyn ByteSource>);
    sources
        .filter_map(|source| Some((source.clone(), build(&source, &limits()).ok()?)))
        .collect()
}
