//! Optional mechanisms of the hardware path. `FRAMESPOOL_GPU_DISABLE` turns each of them off, so
//! that a mechanism that fails with some driver can be avoided without another build.

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::{Error, Result};

/// The environment variable: names separated by commas.
const VARIABLE: &str = "FRAMESPOOL_GPU_DISABLE";

/// A mechanism that makes decoding faster or stricter; without it, intact streams decode to the
/// same frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Asking the driver whether a picture was damaged.
    DecodeStatus,
    /// Setting another picture size on an existing decoder.
    Reconfigure,
    /// Using the decoder of an earlier pass again.
    DecoderReuse,
    /// Not decoding pictures that no requested picture depends on.
    Skipping,
    /// Decoding with several sessions at a time.
    ParallelSessions,
    /// Unmapping a picture when the work that reads it is enqueued, not when that work is done.
    EarlyUnmap,
    /// nvJPEG's hardware backend.
    NvjpegHardware,
    /// Copying frames to the device from page-locked memory.
    LockedUpload,
    /// Copying 8-bit codes to the device, which converts them to elements.
    CodeUpload,
    /// Streams of the least priority, behind the work of the training step; without it, of the
    /// greatest.
    LeastPriority,
}

/// All mechanisms with their names.
const NAMES: [(Mechanism, &str); 10] = [
    (Mechanism::DecodeStatus, "decode-status"),
    (Mechanism::Reconfigure, "reconfigure"),
    (Mechanism::DecoderReuse, "decoder-reuse"),
    (Mechanism::Skipping, "skipping"),
    (Mechanism::ParallelSessions, "parallel-sessions"),
    (Mechanism::EarlyUnmap, "early-unmap"),
    (Mechanism::NvjpegHardware, "nvjpeg-hardware"),
    (Mechanism::LockedUpload, "locked-upload"),
    (Mechanism::CodeUpload, "code-upload"),
    (Mechanism::LeastPriority, "least-priority"),
];

impl Mechanism {
    /// Whether the mechanism may be used. A variable that cannot be read turns nothing off;
    /// `check` reports it.
    pub fn is_enabled(self) -> bool {
        !disabled()
            .as_ref()
            .is_ok_and(|disabled| disabled.contains(&self))
    }
}

/// Checks the variable, before the first use of a device.
///
/// # Errors
/// [`Error::Unsupported`] for a name that is not a mechanism.
pub(crate) fn check() -> Result<()> {
    disabled()
        .as_ref()
        .map(|_| ())
        .map_err(|reason| Error::Unsupported {
            reason: reason.clone(),
        })
}

/// The mechanisms that are turned off; read once per process.
fn disabled() -> &'static Result<Vec<Mechanism>, String> {
    static DISABLED: OnceLock<Result<Vec<Mechanism>, String>> = OnceLock::new();
    DISABLED.get_or_init(|| parse(&std::env::var_os(VARIABLE).unwrap_or_default()))
}

fn parse(value: &OsStr) -> Result<Vec<Mechanism>, String> {
    let value = value.to_string_lossy();
    let names = value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let find = |name: &str| {
        NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(mechanism, _)| *mechanism)
            .ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|(_, known)| *known).collect();
                format!(
                    "{VARIABLE} contains {name:?}, but the mechanisms are {}",
                    known.join(", ")
                )
            })
    };
    names.map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let parsed = |value: &str| parse(OsStr::new(value));
        assert_eq!(parsed(""), Ok(vec![]));
        assert_eq!(
            parsed("skipping, reconfigure,"),
            Ok(vec![Mechanism::Skipping, Mechanism::Reconfigure])
        );
        let error = parsed("skiping").unwrap_err();
        assert!(
            error.contains("\"skiping\"") && error.contains("skipping"),
            "{error}"
        );
    }
}
