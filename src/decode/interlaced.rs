//! Logs that frames are interlaced, once per process for each codec in each container.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::index::VideoIndex;

const LOG_TARGET: &str = "framespool::decode";

static LOGGED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Logs a warning unless there was one for another file of this kind.
pub(super) fn warn(index: &VideoIndex) {
    let kind = (index.info.params.codec.name.clone(), index.container.clone());
    let (codec, container) = (kind.0.clone(), kind.1.clone());
    if LOGGED.lock().unwrap_or_else(PoisonError::into_inner).insert(kind) {
        log::warn!(
            target: LOG_TARGET,
            "{}: interlaced video; its frames are delivered as stored, with the lines of two fields, which show moving \
             objects at two times. To avoid that, deinterlace the file, for example with FFmpeg's filter bwdif. Other \
             files of this kind ({codec} in {container}) are not reported",
            index.site.file
        );
    }
}
