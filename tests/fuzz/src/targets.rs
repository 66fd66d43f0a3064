//! In: the list of all targets. Out: what each is fed, how much it may use, and what it does with an input.
//! A target is a function of bytes; whatever it finds wrong it says by a panic.
//! Never: depends on the input before.

mod archives;
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

/// What is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What its inputs stand for.
    pub about: &'static str,
    /// Bytes at the front of an input that are options, not content.
    pub options: usize,
    /// Inputs to begin with.
    pub seeds: fn(&Seeds) -> Vec<Vec<u8>>,
    /// What is done with an input.
    pub run: fn(&[u8]),
    /// Longest input in bytes.
    pub longest: usize,
    /// What Rust code may ask for meanwhile.
    pub memory_bytes: usize,
    /// What the process may have resident meanwhile, where C code asks for memory.
    pub resident_bytes: Option<usize>,
    /// How long an input may take of processors, generously.
    pub seconds: u64,
    /// Changed seeds that the ordinary test runs.
    pub replayed: u64,
}

const MIB: usize = 1 << 20;

/// What most targets are.
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

/// All of them.
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
    lists::JSON_LINES,
    lists::FRAMES,
    still::STILL,
    entries::ENTRIES,
    sampling::SAMPLING,
    order::ORDER,
    pixels::TRANSFORMS,
    remote::URLS,
    remote::ANSWERS,
    decode::DECODE,
];

/// The result of a call that may refuse, but not give up.
fn check_error<T>(result: framespool::Result<T>) -> framespool::Result<T> {
    if let Err(error) = &result {
        assert!(!matches!(error.kind(), "internal" | "cancelled" | "forked"), "{error}");
        assert!(error.to_string().len() < 64 << 10, "an error of {} bytes", error.to_string().len());
    }
    result
}
