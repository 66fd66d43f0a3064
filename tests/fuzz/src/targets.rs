//! The list of all targets: their inputs, limits and functions.
//! A target is a function of bytes that panics on failure. It does not depend on earlier inputs.

mod archives;
mod audio;
mod cache_record;
mod decode;
mod entries;
mod headers;
mod index;
mod lists;
mod order;
mod pixels;
mod remote;
mod sampling;
mod still;

use crate::seeds::Seeds;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Description of its inputs.
    pub about: &'static str,
    /// Number of bytes at the front of an input that are options, not content.
    pub options: usize,
    /// Initial inputs.
    pub seeds: fn(&Seeds) -> Vec<Vec<u8>>,
    /// The function under test.
    pub run: fn(&[u8]),
    /// Maximum input length in bytes.
    pub longest: usize,
    /// Limit on Rust allocations.
    pub memory_bytes: usize,
    /// Limit on the process's resident memory, for targets whose C code allocates.
    pub resident_bytes: Option<usize>,
    /// Limit on the CPU time of an input, in seconds, with a margin.
    pub seconds: u64,
    /// Number of changed seeds that the ordinary test runs.
    pub replayed: u64,
}

const MIB: usize = 1 << 20;

/// The defaults.
const USUAL: Target = Target {
    name: "",
    about: "",
    options: 0,
    seeds: |_| Vec::new(),
    run: |_| (),
    longest: 64 << 10,
    memory_bytes: 64 * MIB,
    resident_bytes: None,
    seconds: 10,
    replayed: 2000,
};

/// All targets.
pub const TARGETS: &[Target] = &[
    index::MP4,
    index::INDEX,
    headers::HEADERS,
    cache_record::CACHE_RECORD,
    archives::TAR,
    archives::TFRECORD,
    archives::RECORDIO,
    archives::LMDB,
    archives::PARQUET,
    archives::ARROW,
    lists::LISTS,
    lists::TABLES,
    lists::JSON_LINES,
    lists::FRAMES,
    still::STILL,
    entries::ENTRIES,
    sampling::SAMPLING,
    order::ORDER,
    pixels::TRANSFORMS,
    audio::AUDIO,
    remote::URLS,
    remote::ANSWERS,
    decode::DECODE,
];

/// Checks the result of a call that may return an error, but not an internal one.
fn check_error<T>(result: framespool::Result<T>) -> framespool::Result<T> {
    if let Err(error) = &result {
        assert!(
            !matches!(error.kind(), "internal" | "cancelled" | "forked"),
            "{error}"
        );
        assert!(
            error.to_string().len() < 64 << 10,
            "an error of {} bytes",
            error.to_string().len()
        );
    }
    result
}
