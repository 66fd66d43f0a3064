//! In: tables of entries as another process sends them: numbers and texts in eight pieces.
//! Out: no table, or one of which every entry can be asked for, and that is sent on as it came.
//! Never: opens what an entry names.

use framespool::clip_sampler::video_timing::Extent;
use framespool::loader::entries::{Entries, EntriesBuilder, Flat, Item};
use framespool::source::{Member, Place};

use super::{Target, USUAL};
use crate::seeds::Seeds;

pub const ENTRIES: Target = Target {
    name: "entries",
    about: "tables of entries, as they travel between processes",
    seeds: |_: &Seeds| vec![joined(&some(7).to_flat()), joined(&some(1).to_flat()), joined(&Flat::default())],
    run,
    longest: 4 << 10,
    replayed: 20_000,
    ..USUAL
};

fn run(input: &[u8]) {
    let flat = taken_apart(input);
    let Some(entries) = Entries::from_flat(flat) else { return };
    let mut built = EntriesBuilder::default();
    for number in 0..entries.len() {
        let item = entries.item(number);
        assert_eq!((item.label, item.extent), (entries.label(number), entries.extent(number)));
        assert_eq!(item.place.name(), entries.place(number).name());
        entries.path_of(number);
        built.push(item);
    }
    assert_eq!(entries.labels().len(), entries.len());
    entries.shared_files();
    entries.memory_bytes();
    let again = Entries::from_flat(entries.to_flat()).expect("what was sent on comes back");
    assert_eq!(again.are_whole(), entries.are_whole());
    let built = built.finish();
    for other in [&again, &built] {
        assert_eq!((other.len(), other.labels()), (entries.len(), entries.labels()));
        assert_eq!(other.are_files(), entries.are_files());
        for number in 0..entries.len() {
            assert_eq!(other.place(number).name(), entries.place(number).name());
            assert_eq!(other.extent(number), entries.extent(number));
        }
    }
}

/// Each piece with its length in front.
fn joined(flat: &Flat) -> Vec<u8> {
    let Flat { kinds, heads, labels, tails, shared, spans, extents, .. } = flat;
    let pieces = [kinds, heads, labels, &tails.0, &tails.1, &shared.0, &shared.1, spans, extents];
    pieces.iter().flat_map(|piece| [&(piece.len() as u16).to_le_bytes(), &piece[..]].concat()).collect()
}

fn taken_apart(mut input: &[u8]) -> Flat {
    let mut piece = || {
        let Some((len, rest)) = input.split_first_chunk::<2>() else { return Vec::new() };
        let (piece, rest) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
        input = rest;
        piece.to_vec()
    };
    Flat {
        kinds: piece(),
        heads: piece(),
        labels: piece(),
        tails: (piece(), piece()),
        shared: (piece(), piece()),
        spans: piece(),
        extents: piece(),
        others: Vec::new(),
    }
}

fn some(count: i64) -> Entries {
    let mut builder = EntriesBuilder::default();
    for label in 0..count {
        let file = std::path::Path::new("/data/shard.tar");
        let name = (label % 2 == 0).then(|| format!("{label}.mp4").into());
        let place = match label % 3 {
            0 => Place::Path(format!("/data/class{label}/a{label}.mp4").into()),
            _ => Place::Member(Member { file: file.into(), offset: 512, len: label as u64, name }),
        };
        let extent =
            [Extent::Whole, Extent::Frames(2, Some(9)), Extent::Seconds(0.5, None)][label as usize % 3];
        builder.push(Item { place, label, extent });
    }
    builder.finish()
}
