//! Sample tables as sent by another process: numbers and texts in eight pieces. Deserialization
//! fails, or every sample can be read and the table serializes unchanged. Sources are not opened.

use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::dataset::MediaLocation;
use framespool::dataset::{Sample, SampleTable, SampleTableBuilder, SerializedTable};
use framespool::source::ArchiveMember;

use super::{Target, USUAL};
use crate::seeds::Seeds;

pub const ENTRIES: Target = Target {
    name: "entries",
    about: "sample tables, as sent between processes",
    seeds: |_: &Seeds| {
        vec![
            joined(&some(7).serialize()),
            joined(&some(1).serialize()),
            joined(&SerializedTable::default()),
        ]
    },
    run,
    longest: 4 << 10,
    replayed: 20_000,
    ..USUAL
};

fn run(input: &[u8]) {
    let flat = decode_fields(input);
    let Some(entries) = SampleTable::deserialize(flat) else {
        return;
    };
    let mut built = SampleTableBuilder::default();
    for number in 0..entries.len() {
        let item = entries.sample(number);
        assert_eq!(
            (item.label, item.extent),
            (entries.label(number), entries.extent(number))
        );
        assert_eq!(item.location.name(), entries.location(number).name());
        entries.path_of(number);
        built.push(item);
    }
    assert_eq!(entries.labels().len(), entries.len());
    entries.first_sample_of_file();
    entries.memory_bytes();
    let again =
        SampleTable::deserialize(entries.serialize()).expect("a serialized table deserializes");
    assert_eq!(again.are_whole_videos(), entries.are_whole_videos());
    let built = built.finish();
    for other in [&again, &built] {
        assert_eq!(
            (other.len(), other.labels()),
            (entries.len(), entries.labels())
        );
        assert_eq!(other.are_whole_files(), entries.are_whole_files());
        for number in 0..entries.len() {
            assert_eq!(
                other.location(number).name(),
                entries.location(number).name()
            );
            assert_eq!(other.extent(number), entries.extent(number));
        }
    }
}

/// Each piece, preceded by its length.
fn joined(flat: &SerializedTable) -> Vec<u8> {
    let SerializedTable {
        kinds,
        prefix_ids,
        labels,
        suffixes,
        prefixes,
        byte_ranges,
        extents,
        ..
    } = flat;
    let pieces = [
        kinds,
        prefix_ids,
        labels,
        &suffixes.0,
        &suffixes.1,
        &prefixes.0,
        &prefixes.1,
        byte_ranges,
        extents,
    ];
    pieces
        .iter()
        .flat_map(|piece| [&(piece.len() as u16).to_le_bytes(), &piece[..]].concat())
        .collect()
}

fn decode_fields(mut input: &[u8]) -> SerializedTable {
    let mut piece = || {
        let Some((len, rest)) = input.split_first_chunk::<2>() else {
            return Vec::new();
        };
        let (piece, rest) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
        input = rest;
        piece.to_vec()
    };
    SerializedTable {
        kinds: piece(),
        prefix_ids: piece(),
        labels: piece(),
        suffixes: (piece(), piece()),
        prefixes: (piece(), piece()),
        byte_ranges: piece(),
        extents: piece(),
        other_locations: Vec::new(),
    }
}

fn some(count: i64) -> SampleTable {
    let mut builder = SampleTableBuilder::default();
    for label in 0..count {
        let file = std::path::Path::new("/data/shard.tar");
        let name = (label % 2 == 0).then(|| format!("{label}.mp4").into());
        let place = match label % 3 {
            0 => MediaLocation::Path(format!("/data/class{label}/a{label}.mp4").into()),
            _ => MediaLocation::ArchiveMember(ArchiveMember {
                file: file.into(),
                offset: 512,
                len: label as u64,
                name,
            }),
        };
        let extent = [
            SegmentRange::Full,
            SegmentRange::Frames(2, Some(9)),
            SegmentRange::Seconds(0.5, None),
        ][label as usize % 3];
        builder.push(Sample {
            location: place,
            label,
            extent,
        });
    }
    builder.finish()
}
