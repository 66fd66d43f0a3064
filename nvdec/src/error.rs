//! Defines the crate's error type, whose variants reflect who must act and whose messages name the
//! next step. Driver codes are always reported with their names.

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call on the GPU failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable driver or no device: decode on the CPU.
    #[error("no NVIDIA GPU can be used here: {reason}; decode on the CPU instead")]
    NoDriver {
        /// What was tried, and the result.
        reason: String,
    },
    /// CUDA is available, but its video library is not.
    #[error("this GPU's video engines cannot be used: {reason}; decode on the CPU instead")]
    NoNvcuvid {
        /// What was tried, and the result.
        reason: String,
    },
    /// CUDA is available, but its JPEG library is not.
    #[error("nvJPEG cannot be used here: {reason}; decode JPEG on the CPU instead")]
    NoNvjpeg {
        /// What was tried, and the result.
        reason: String,
    },
    /// CUDA was initialized in another process.
    #[error(
        "CUDA was started in process {parent} and cannot be used in its forked child {child}; \
         start the worker with multiprocessing's \"spawn\" or \"forkserver\" method, or open the GPU after the fork"
    )]
    Forked {
        /// The process in which CUDA was initialized.
        parent: u32,
        /// The process that made the call.
        child: u32,
    },
    /// The device is out of memory.
    #[error(
        "the GPU has no memory left for {what} ({bytes} bytes); lower batch_size, prefetch_batches or Gpu(threads=), \
         or free memory that other processes use on this GPU"
    )]
    OutOfMemory {
        /// What the memory was needed for.
        what: String,
        /// How many bytes were requested; estimated for decoders.
        bytes: u64,
    },
    /// The driver provides no more page-locked host memory.
    #[error(
        "the driver cannot page-lock {bytes} bytes of host memory; lower batch_size or prefetch_batches, or use \
         pin_memory=False"
    )]
    NotPageLocked {
        /// How many bytes were requested.
        bytes: u64,
    },
    /// This GPU or driver cannot decode this stream.
    #[error("{reason}; decode it on the CPU instead")]
    Unsupported {
        /// What is not supported.
        reason: String,
    },
    /// A JPEG file that is damaged, or data that is not a JPEG file.
    #[error("not a valid JPEG file: {reason}; decode it on the CPU for more details")]
    BadJpeg {
        /// Where, and what is wrong.
        reason: String,
    },
    /// A call of nvJPEG failed for a reason that is not in the file.
    #[error("{call} returned {status} {name}; decode JPEG on the CPU instead")]
    Nvjpeg {
        call: &'static str,
        /// Its `nvjpegStatus_t`.
        status: i32,
        /// The name of that status.
        name: &'static str,
    },
    /// The engine reported that a picture was not decoded cleanly.
    #[error(
        "the picture of access unit {id} is damaged (decode status {status}: {}); decode this range on the CPU to locate it",
        decode_status_name(*.status)
    )]
    DamagedPicture {
        /// The access unit of the picture.
        id: u32,
        /// The status from `cuvidGetDecodeStatus`: 8 error, 9 concealed error.
        status: u32,
    },
    /// A requested picture was not output.
    #[error(
        "the decoder did not output the picture of access unit {id} ({count} missing in total); decode this range on the CPU instead"
    )]
    MissingPicture {
        /// The first access unit, in decode order, whose picture is missing.
        id: u32,
        /// How many access units' pictures are missing.
        count: u32,
    },
    /// Pictures and access units could not be matched, so no frame of this pass can be trusted.
    #[error(
        "the video parser's pictures do not match the access units fed to it: {reason}; decode this range on the CPU instead"
    )]
    Mismatch {
        /// What was expected, and what the parser reported.
        reason: String,
    },
    /// The parser rejected an access unit, or reported a failed callback although none failed.
    #[error(
        "the video parser rejected {what} ({bytes} bytes, code {code} {name}); the stream is damaged there"
    )]
    ParseFailed {
        /// What was parsed, such as "access unit 7".
        what: String,
        /// Its length in bytes.
        bytes: usize,
        /// The driver's code.
        code: i32,
        name: String,
    },
    /// The driver rejected the PTX of a kernel.
    #[error(
        "the driver (CUDA {driver_version}) rejected the kernels: code {code} {name}; its log: {log}"
    )]
    ModuleLoad {
        /// The version from `cuDriverGetVersion`, such as 12040 for 12.4.
        driver_version: u32,
        /// The driver's code.
        code: i32,
        name: String,
        /// The log of the just-in-time compiler.
        log: String,
    },
    /// The CUDA context of the process is permanently broken.
    #[error(
        "the GPU's context is lost: {call} returned {code} {name}; all CUDA code in this process is affected, \
         so save a checkpoint and restart the process"
    )]
    ContextLost {
        /// The call that reported it; the cause may be an earlier one.
        call: &'static str,
        /// The driver's code.
        code: i32,
        name: String,
    },
    /// Another failure of a driver call.
    #[error("{call} returned {code} {name}: {text}")]
    Call {
        call: &'static str,
        /// The driver's code.
        code: i32,
        name: String,
        /// The driver's description.
        text: String,
    },
    /// A call that is not allowed in this state: a bug of the caller.
    #[error("{0}")]
    Misuse(&'static str),
}

impl Error {
    /// Whether freeing memory and retrying may help.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::OutOfMemory { .. })
    }

    /// Whether no further GPU call can succeed in this process.
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::ContextLost { .. } | Error::Forked { .. })
    }

    /// Whether the cause is the stream rather than the machine, so that the CPU may still decode
    /// it.
    pub fn is_about_stream(&self) -> bool {
        matches!(
            self,
            Error::Unsupported { .. }
                | Error::BadJpeg { .. }
                | Error::DamagedPicture { .. }
                | Error::MissingPicture { .. }
                | Error::Mismatch { .. }
                | Error::ParseFailed { .. }
                // The driver refuses parameters of a damaged picture.
                | Error::Call { call: "cuvidDecodePicture", .. }
        )
    }
}

fn decode_status_name(status: u32) -> &'static str {
    match status {
        8 => "error",
        9 => "error, concealed",
        _ => "not decoded",
    }
}

/// Formats an error with its cause, because libloading's own message lacks the details.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Whether a context never works again after this code. Other codes concern one call.
pub(crate) fn is_sticky(code: i32) -> bool {
    // 4 deinitialized, 214 ECC, 220 NVLink, 226 contained by the GPU, 700 illegal address, 702
    // timeout, 709 context destroyed, 710 device-side assert, 714 to 719 faults of a kernel, 721
    // tensor memory leak, 806 connection to the MPS server lost, 810 terminated by that server, 911
    // failure of another device.
    matches!(
        code,
        4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 806 | 810 | 911
    )
}

/// What makes the device available again after a code by which the driver does not provide it.
pub(crate) fn unavailable(code: i32) -> Option<&'static str> {
    Some(match code {
        46 => {
            "another process uses the device exclusively, or the device allows no process: \
             \"nvidia-smi -q -d COMPUTE\" shows its compute mode"
        }
        102 => "the virtual GPU has no license: check its license server",
        802 => "the system is not ready: check that nvidia-fabricmanager runs",
        803 | 804 => {
            "the library libcuda.so.1 does not fit the kernel driver: install the library of that \
             driver, and no cuda-compat package"
        }
        805 | 807 => "the MPS server does not answer: start nvidia-cuda-mps-control again",
        808 | 809 => "the MPS server has no room for another process: end one of its processes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_kernel_are_sticky_and_bad_arguments_are_not() {
        let sticky = [
            4, 214, 220, 226, 700, 702, 709, 714, 715, 716, 717, 718, 719, 721, 806, 810, 911,
        ];
        assert!(sticky.into_iter().all(is_sticky));
        let of_one_call = [
            0, 1, 2, 46, 201, 205, 222, 400, 600, 701, 704, 720, 801, 805, 808, 900, 910,
        ];
        assert!(!of_one_call.into_iter().any(is_sticky));
        assert!(sticky.into_iter().all(|code| unavailable(code).is_none()));
    }

    #[test]
    fn an_error_says_the_next_step() {
        let text = Error::Forked {
            parent: 7,
            child: 8,
        }
        .to_string();
        assert!(
            text.contains("spawn") && text.contains('7') && text.contains('8'),
            "{text}"
        );
        let text = Error::DamagedPicture { id: 3, status: 9 }.to_string();
        assert!(
            text.contains("unit 3") && text.contains("concealed") && text.contains("CPU"),
            "{text}"
        );
    }
}
