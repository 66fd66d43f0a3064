//! Index cache records from a damaged or forged database: decoding gives no index, or one that is
//! consistent and is encoded again unchanged. No database is opened; tests/engine/index_cache.rs
//! damages complete ones.

use framespool::index::cache::fuzz_api;

use super::index::{check, indices, limits};
use super::{Target, USUAL};

pub const CACHE_RECORD: Target = Target {
    name: "stored",
    about: "indices in the database's format, and their checksummed records",
    options: 1,
    seeds: |seeds| {
        let all = indices(seeds);
        let all = all
            .iter()
            .filter_map(|(_, index)| fuzz_api::encode_index(index));
        all.flat_map(|bytes| {
            [
                [&[0], &bytes[..]].concat(),
                [&[1], &fuzz_api::encode_record(&bytes)[..]].concat(),
            ]
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
    // A sequence of equal numbers needs few bytes at any length: the limits bound what one index
    // may contain.
    let Some(index) = fuzz_api::decode_index(bytes, &limits()) else {
        return;
    };
    check(&index);
    let written = fuzz_api::encode_index(&index).expect("a decoded index can be encoded");
    assert_eq!(fuzz_api::decode_index(&written, &limits()), Some(index));
}

fn seal(bytes: &[u8]) {
    for fix_checksum in [false, true] {
        if let Some(again) = fuzz_api::reencode_record(bytes, fix_checksum) {
            assert_eq!(
                fuzz_api::reencode_record(&again, false),
                Some(again),
                "encoded differently the second time"
            );
        }
    }
}
