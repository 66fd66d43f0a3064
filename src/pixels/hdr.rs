//! In: what frames that are converted to RGB say of their transfer function.
//! Out: how their tones are mapped; once per process, the first video of high dynamic range that was converted as if it were not.
//! Never: changes a pixel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use framespool_kernels::{HdrCurve, ToneMap};

use crate::error::{Error, Result, Site};
use crate::media::ColourTags;

/// Set by the first frame that is noted; nothing is noted after it.
static NOTED: AtomicBool = AtomicBool::new(false);

/// Not told to the caller yet.
static PENDING: Mutex<Option<String>> = Mutex::new(None);

/// How the tones of a picture with these tags are mapped to `(source_peak, target_peak)`; `None` where none are, and of pictures that
/// are not of high dynamic range.
///
/// # Errors
/// `Unsupported` for primaries whose white is not D65.
pub(super) fn tone(site: &Site, tags: ColourTags, peaks: Option<(f64, f64)>) -> Result<Option<ToneMap>> {
    let Some((source_peak, target_peak)) = peaks else { return Ok(None) };
    let curve = match tags.transfer {
        16 => HdrCurve::Pq,
        18 => HdrCurve::Hlg,
        _ => return Ok(None),
    };
    // ITU-T H.273 table 2; unspecified is taken as BT.2020, which BT.2100 prescribes with both curves.
    let primaries = match tags.primaries {
        1 => [[0.640, 0.330], [0.300, 0.600], [0.150, 0.060]],
        2 | 9 => [[0.708, 0.292], [0.170, 0.797], [0.131, 0.046]],
        5 => [[0.64, 0.33], [0.29, 0.60], [0.15, 0.06]],
        6 | 7 => [[0.630, 0.340], [0.310, 0.595], [0.155, 0.070]],
        12 => [[0.680, 0.320], [0.265, 0.690], [0.150, 0.060]],
        22 => [[0.630, 0.340], [0.295, 0.605], [0.155, 0.077]],
        other => {
            let name = tags.primaries_name().unwrap_or_default();
            let what =
                format!("tone mapping from the primaries {name} (ColourPrimaries {other} of ITU-T H.273)");
            return Err(Error::Unsupported { site: site.clone(), what });
        }
    };
    Ok(Some(ToneMap { curve, primaries, source_peak, target_peak }))
}

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
