//! The picture whose decode callback is running, found by the bitstream's address: what a decoder
//! needs beyond the C struct. It also records which indices hold old pictures. Like the C struct,
//! it does not outlive the callback.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

/// The stream properties for which a decoder is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PictureFormat {
    pub codec: i32,
    pub width: u32,
    pub height: u32,
    pub chroma: i32,
    pub depth: u32,
}

pub struct PictureContext {
    pub parser: usize,
    /// Pictures of another epoch are no references: another stream, or the same one after its end
    /// or a new sequence.
    pub epoch: u64,
    pub index: i32,
    pub second_field: bool,
    pub picture_format: PictureFormat,
    pub headers: Arc<Vec<u8>>,
    pub version: u64,
    pub data: Vec<u8>,
    pub submitted: AtomicBool,
}

static CONTEXTS: Mutex<BTreeMap<usize, Arc<PictureContext>>> = Mutex::new(BTreeMap::new());
/// Parser and index of pictures that were not submitted: the surface holds older content.
static STALE: Mutex<BTreeSet<(usize, i32)>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// Parser and index of the decode callback that is running on this thread.
    static DECODING: Cell<Option<(usize, i32)>> = const { Cell::new(None) };
    static IN_SEQUENCE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Makes the picture available while `call` (the decode callback) runs.
pub fn during<T>(context: &Arc<PictureContext>, bitstream: usize, call: impl FnOnce() -> T) -> T {
    lock(&CONTEXTS).insert(bitstream, context.clone());
    let before = DECODING.replace(Some((context.parser, context.index)));
    let result = call();
    DECODING.set(before);
    lock(&CONTEXTS).remove(&bitstream);
    result
}

pub fn during_sequence<T>(call: impl FnOnce() -> T) -> T {
    let before = IN_SEQUENCE.replace(true);
    let result = call();
    IN_SEQUENCE.set(before);
    result
}

pub fn in_sequence_callback() -> bool {
    IN_SEQUENCE.get()
}

pub fn find(bitstream: usize) -> Option<Arc<PictureContext>> {
    lock(&CONTEXTS).get(&bitstream).cloned()
}

pub fn set_stale(parser: usize, index: i32, stale: bool) {
    if stale {
        lock(&STALE).insert((parser, index));
    } else {
        lock(&STALE).remove(&(parser, index));
    }
}

/// Whether the content at this index is older than the picture that the parser last assigned to it.
/// In that picture's own decode callback the older one is still expected.
pub fn is_stale(parser: usize, index: i32) -> bool {
    DECODING.get() != Some((parser, index)) && lock(&STALE).contains(&(parser, index))
}

pub fn forget_parser(parser: usize) {
    lock(&STALE).retain(|(p, _)| *p != parser);
}
