//! In: what frames that are converted to RGB say of their transfer function.
//! Out: once per process, the first video of high dynamic range that was converted as if it were not.
//! Never: changes a pixel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Site;
use crate::media::ColourTags;

/// Set by the first frame that is noted; nothing is noted after it.
static NOTED: AtomicBool = AtomicBool::new(false);

/// Not told to the caller yet.
static PENDING: Mutex<Option<String>> = Mutex::new(None);

/// Remembers the file of this frame if its transfer function is PQ or HLG and no other was remembered in this process.
pub(super) fn note(site: &Site, tags: ColourTags) {
    let Some(transfer) = tags.hdr_name() else { return };
    if NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let text = format!(
        "{}: video of high dynamic range (transfer function {transfer}) is converted to RGB as if it were of standard dynamic range, so \
         that colors look dull and dark; add transforms.ToneMap() to the transforms, or pass hdr=\"ignore\" to keep these values. \
         Other files of this process are not reported",
        site.file
    );
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// The warning that the caller has not been given yet.
pub fn take_hdr_warning() -> Option<String> {
    if !NOTED.load(Ordering::Relaxed) {
        return None;
    }
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).take()
}
