//! In: bytes as a damaged or forged database would give them.
//! Out: no index, or one that no later code trips over, and that is written down as it was read.
//! Never: opens a database; tests/engine/index_cache.rs damages whole ones.

use framespool::index::cache::fuzz_api;

use super::index::{check, indices, limits};
use super::{Target, USUAL};

pub const CACHE_RECORD: Target = Target {
    name: "stored",
    about: "indices as the database keeps them, and what they are sealed in",
    options: 1,
    seeds: |seeds| {
        let all = indices(seeds);
        let all = all.iter().filter_map(|(_, index)| fuzz_api::encode_index(index));
        all.flat_map(|bytes| {
            [[&[0], &bytes[..]].concat(), [&[1], &fuzz_api::encode_record(&bytes)[..]].concat()]
        })
        .collect()
    },
    run: |input| match input.split_first() {
        Some((option, bytes)) if option & 1 == 0 => index(bytes),
        Some((_, bytes)) => seal(bytes),
        None => {}
    },
    longest: 16 << 10,
    ..USUAL
};

fn index(bytes: &[u8]) {
    // A run of equal numbers takes a few bytes, whatever its length: what one index may hold is what the cap says.
    let Some(index) = fuzz_api::decode_index(bytes, &limits()) else { return };
    check(&index);
    let written = fuzz_api::encode_index(&index).expect("what was read can be written");
    assert_eq!(fuzz_api::decode_index(&written, &limits()), Some(index));
}

fn seal(bytes: &[u8]) {
    for believed in [false, true] {
        if let Some(again) = fuzz_api::reencode_record(bytes, believed) {
            assert_eq!(
                fuzz_api::reencode_record(&again, false),
                Some(again),
                "sealed otherwise the second time"
            );
        }
    }
}
