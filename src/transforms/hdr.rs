//! Determines how HDR frames are tone-mapped when they are converted to RGB.
//! Also warns, once per process, about the first HDR video that is converted as if it were SDR.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use framespool_kernels::{HdrCurve, ToneMap};

use crate::error::{Error, Result, Site};
use crate::media::ColorTags;

/// Set by the first frame that is recorded; no frame is recorded after it.
static NOTED: AtomicBool = AtomicBool::new(false);

/// The warning that has not been passed to the caller yet.
static PENDING: Mutex<Option<String>> = Mutex::new(None);

/// Returns how a frame with these tags is tone-mapped to `(source_peak, target_peak)`; `None`
/// without tone mapping and for frames that are not HDR.
///
/// # Errors
/// `Unsupported` for primaries whose white point is not D65.
pub(super) fn tone(
    site: &Site,
    tags: ColorTags,
    peaks: Option<(f64, f64)>,
) -> Result<Option<ToneMap>> {
    let Some((source_peak, target_peak)) = peaks else {
        return Ok(None);
    };
    let curve = match tags.transfer {
        16 => HdrCurve::Pq,
        18 => HdrCurve::Hlg,
        _ => return Ok(None),
    };
    // ITU-T H.273 table 2; unspecified is treated as BT.2020, which BT.2100 prescribes with both
    // curves.
    let primaries = match tags.primaries {
        1 => [[0.640, 0.330], [0.300, 0.600], [0.150, 0.060]],
        2 | 9 => [[0.708, 0.292], [0.170, 0.797], [0.131, 0.046]],
        5 => [[0.64, 0.33], [0.29, 0.60], [0.15, 0.06]],
        6 | 7 => [[0.630, 0.340], [0.310, 0.595], [0.155, 0.070]],
        12 => [[0.680, 0.320], [0.265, 0.690], [0.150, 0.060]],
        22 => [[0.630, 0.340], [0.295, 0.605], [0.155, 0.077]],
        other => {
            let name = tags.primaries_name().unwrap_or_default();
            let what = format!(
                "tone mapping from the primaries {name} (ColorPrimaries {other} of ITU-T H.273)"
            );
            return Err(Error::Unsupported {
                site: site.clone(),
                what,
            });
        }
    };
    Ok(Some(ToneMap {
        curve,
        primaries,
        source_peak,
        target_peak,
    }))
}

/// Records the file of this frame if its transfer function is PQ or HLG and no other file was
/// recorded in this process.
pub(super) fn note(site: &Site, tags: ColorTags) {
    let Some(transfer) = tags.hdr_name() else {
        return;
    };
    if NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let text = format!(
        "{}: video of high dynamic range (transfer function {transfer}) is converted to RGB as if it were of standard dynamic range, so \
         that colors look dull and dark; add transforms.ToneMap() to the transforms, or to keep these values pass Video hdr=\"ignore\", or ignore framespool.errors.HdrWarning. \
         Other files of this process are not reported",
        site.file
    );
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// Takes the warning that has not been passed to the caller yet.
pub fn take_hdr_warning() -> Option<String> {
    if !NOTED.load(Ordering::Relaxed) {
        return None;
    }
    PENDING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
}
