//! Defines the error type of the crate. Errors about a file name the file, the location and the
//! next step. The variants separate what the caller, the owner of the file and the owner of the
//! machine can fix.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file and a location inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name of the source, usually a path.
    pub file: Arc<str>,
    /// Location inside the file.
    pub location: Location,
}

/// Location inside a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    WholeFile,
    /// A byte offset.
    Byte(u64),
    /// An MP4 box at a byte offset.
    Box(&'static str, u64),
    /// A packet, by decode index and, where its payload is contiguous in the file, byte offset.
    Packet(u32, Option<u64>),
    /// A frame, by presentation index.
    Frame(u32),
}

impl Site {
    /// The file as a whole.
    pub fn file(file: &Arc<str>) -> Self {
        Self {
            file: file.clone(),
            location: Location::WholeFile,
        }
    }

    /// Another location in the same file.
    pub fn with(&self, location: Location) -> Self {
        Self {
            file: self.file.clone(),
            location,
        }
    }

    /// Effect of a decode error at this site on other frames: none for an image, which is alone in
    /// its file.
    fn affected_frames_hint(&self) -> &'static str {
        match self.location {
            Location::WholeFile => "",
            _ => "frames up to the next key packet cannot be trusted, ",
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location {
            Location::WholeFile => write!(f, "{}", self.file),
            Location::Byte(offset) => write!(f, "{}, byte {offset}", self.file),
            Location::Box(name, offset) => {
                write!(f, "{}, box '{name}' at byte {offset}", self.file)
            }
            Location::Packet(index, Some(offset)) => {
                write!(f, "{}, packet {index} at byte {offset}", self.file)
            }
            Location::Packet(index, None) => write!(f, "{}, packet {index}", self.file),
            Location::Frame(index) => write!(f, "{}, frame {index}", self.file),
        }
    }
}

/// All errors of the crate. Cheap to clone, so that one failure can be reported to several waiting
/// clips.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist.
    #[error("{site}: no such file; check the path")]
    NotFound { site: Site },
    /// An operation of the operating system failed.
    #[error("{site}: {source}{}", hint(source))]
    Io {
        site: Site,
        /// The system's error.
        source: Arc<std::io::Error>,
    },
    /// A server did not answer for as long as the caller waits. Not an error of the file.
    #[error(
        "{site}: {reason}; check the server and the network, then try again. OnError(outage=) and FRAMESPOOL_REMOTE_TIMEOUT determine how long to wait"
    )]
    Unavailable {
        site: Site,
        /// The server, how long it has been unavailable, and the last error.
        reason: String,
    },
    /// The bytes are not a valid video or image.
    #[error(
        "{site}: {reason}; the file is damaged or of another type than expected, skip or replace it"
    )]
    Malformed {
        site: Site,
        /// What is wrong.
        reason: String,
    },
    /// The file is shorter than its headers state.
    #[error("{site}: {}; download it again or skip it", truncation(*offset, *end, *len))]
    Truncated {
        site: Site,
        /// First byte needed.
        offset: u64,
        /// One past the last byte needed.
        end: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// The container has no video stream that can be decoded.
    #[error("{site}: no video stream ({reason}); give a file with a video track")]
    NoVideo {
        site: Site,
        /// What the container has instead.
        reason: String,
    },
    /// The requested stream is not a video stream.
    #[error(
        "{site}: stream {stream} is not a video stream; the file has {streams}; give the index of a video stream, or none for the default one"
    )]
    NotVideo {
        site: Site,
        /// The requested index.
        stream: u32,
        /// The streams of the file.
        streams: String,
    },
    /// The file has no audio stream, or the requested stream is not one.
    #[error(
        "{site}: no audio stream ({reason}); give a file with audio, or allow silence with missing=\"zeros\""
    )]
    NoAudio {
        site: Site,
        /// What the file has instead.
        reason: String,
    },
    /// Valid, but not supported by this build.
    #[error("{site}: {what} is not supported by this build; convert the file or omit it")]
    Unsupported {
        site: Site,
        /// Codec, pixel format or feature.
        what: String,
    },
    /// A picture could not be decoded exactly.
    #[error("{site}: {reason}; {}skip or replace the file", site.affected_frames_hint())]
    Decode {
        site: Site,
        /// The decoder error.
        reason: String,
    },
    /// A number in the file exceeds the limit that protects memory.
    #[error(
        "{site}: {what} is {value}, above the limit of {cap}; the file is damaged or needs higher limits"
    )]
    Limit {
        site: Site,
        /// Which number.
        what: &'static str,
        value: u64,
        /// The limit.
        cap: u64,
    },
    /// A frame index that the video does not have.
    #[error("{site}: frame {index} requested, but there are {frames} frames (0 to {}, or -{frames} to -1 from the end)", .frames.saturating_sub(1))]
    FrameIndex {
        site: Site,
        /// The requested index.
        index: i64,
        /// Number of frames.
        frames: u32,
    },
    /// A time at which no frame is displayed.
    #[error(
        "{site}: no frame is displayed at {seconds} s; the video lasts from {begin} s up to, not including, {end} s"
    )]
    FrameTime {
        site: Site,
        /// The requested time.
        seconds: f64,
        /// Start of the first frame.
        begin: f64,
        /// End of the last frame.
        end: f64,
    },
    /// This video cannot provide the requested clip: it is too short, or smaller than a crop.
    #[error("{site}: {reason}")]
    Clip {
        site: Site,
        /// What was requested, what is available, and what to change.
        reason: String,
    },
    /// An argument of the caller is invalid.
    #[error("{0}")]
    Argument(String),
    /// A callback of the caller, run on a worker, raised an exception that must end the program,
    /// not just one clip.
    #[error("{reason}")]
    Callback {
        /// Which callback, and what it raised.
        reason: String,
        /// The exception object, for the language that raised it.
        raised: Arc<dyn Any + Send + Sync>,
    },
    /// The object was used in a forked child process.
    #[error(
        "{what} was created in process {owner_pid} and used in process {current_pid}: decoder threads do not survive fork(); create it in the process that uses it, or use the spawn or forkserver start method"
    )]
    Forked {
        /// Which object.
        what: &'static str,
        /// Process that created it.
        owner_pid: u32,
        /// Process that used it.
        current_pid: u32,
    },
    /// The GPU or its driver returned an error.
    #[error("{reason}")]
    Gpu {
        /// The requested operation, the driver's error, and what to do next.
        reason: String,
        /// This process cannot use the GPU any more.
        lost: bool,
    },
    /// The caller requested an interrupt.
    #[error("cancelled")]
    Interrupted,
    /// A worker thread panicked: a bug in this library, reported instead of hanging.
    #[error("{site}: a worker failed unexpectedly ({reason}); please report it with this file")]
    Internal {
        site: Site,
        /// The panic message.
        reason: String,
    },
}

fn truncation(offset: u64, end: u64, len: u64) -> String {
    match len {
        0 => "the file is empty".to_owned(),
        _ => format!("needs bytes {offset}..{end} but the file has {len}; it is truncated"),
    }
}

fn out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The next step, where the system's message does not suggest it.
fn hint(error: &std::io::Error) -> &'static str {
    match out_of_descriptors(error) {
        true => {
            "; this is not an error of the file: close unused files, or raise the limit (ulimit -n)"
        }
        false => "",
    }
}

/// An [`Error::Argument`] as the result of a function.
pub(crate) fn invalid_argument<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Argument(text.into()))
}

/// Errors with the same text are equal: an error of the system has no other comparison.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Error {
    /// Name of the error's kind: the key in statistics. Each kind maps to one Python class.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::NotFound { .. } => "not_found",
            Error::Io { .. } => "io",
            Error::Unavailable { .. } => "unavailable",
            Error::Malformed { .. } => "invalid_data",
            Error::Truncated { .. } => "truncated",
            Error::NoVideo { .. } | Error::NotVideo { .. } => "no_video",
            Error::NoAudio { .. } => "no_audio",
            Error::Unsupported { .. } => "unsupported",
            Error::Decode { .. } => "decode",
            Error::Limit { .. } => "limit",
            Error::FrameIndex { .. } => "frame_index",
            Error::FrameTime { .. } => "frame_time",
            Error::Clip { .. } => "clip_sampling",
            Error::Argument(_) | Error::Callback { .. } => "argument",
            Error::Forked { .. } => "forked",
            Error::Gpu { .. } => "gpu",
            Error::Interrupted => "cancelled",
            Error::Internal { .. } => "internal",
        }
    }

    /// The error of a file whose work has panicked.
    pub(crate) fn of_panic(site: Site, panic: &(dyn Any + Send)) -> Self {
        let message = panic.downcast_ref::<&str>().map(ToString::to_string);
        let reason = message
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Error::Internal { site, reason }
    }

    /// Whether the file (or its storage) is at fault, so that `on_error` may skip it. An invalid
    /// argument or a fork is the program's fault, a failing GPU the machine's and an outage the
    /// server's; those errors are always raised.
    pub fn is_file_error(&self) -> bool {
        self.site().is_some() && !self.is_out_of_descriptors() && !self.is_outage()
    }

    /// Whether the server of the file is unavailable.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Unavailable { .. })
    }

    /// Whether the process or the system has reached its limit of open files, which is not the
    /// fault of the file that was to be opened.
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { source, .. } if out_of_descriptors(source))
    }

    /// Location of the error, if it concerns a file.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Error::NotFound { site }
            | Error::Io { site, .. }
            | Error::Unavailable { site, .. }
            | Error::Malformed { site, .. }
            | Error::Truncated { site, .. }
            | Error::NoVideo { site, .. }
            | Error::NotVideo { site, .. }
            | Error::NoAudio { site, .. }
            | Error::Unsupported { site, .. }
            | Error::Decode { site, .. }
            | Error::Limit { site, .. }
            | Error::FrameIndex { site, .. }
            | Error::FrameTime { site, .. }
            | Error::Clip { site, .. }
            | Error::Internal { site, .. } => Some(site),
            Error::Argument(_)
            | Error::Callback { .. }
            | Error::Forked { .. }
            | Error::Gpu { .. }
            | Error::Interrupted => None,
        }
    }

    /// Converts `Argument` to `Clip` at `site`: the request is valid in general, but not for this
    /// video.
    pub(crate) fn into_clip_error(self, site: &Site) -> Self {
        match self {
            Error::Argument(reason) => Error::Clip {
                site: site.clone(),
                reason,
            },
            other => other,
        }
    }

    /// Wraps an `io::Error` at a site; a missing file becomes `NotFound`.
    pub fn io(site: &Site, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::NotFound {
            return Error::NotFound { site: site.clone() };
        }
        Error::Io {
            site: site.clone(),
            source: Arc::new(source),
        }
    }

    /// Creates the error of a file without bytes.
    pub(crate) fn empty(site: &Site) -> Self {
        Error::Truncated {
            site: site.clone(),
            offset: 0,
            end: 1,
            len: 0,
        }
    }

    /// Creates a `Malformed` error at a site.
    pub fn malformed(site: &Site, reason: impl Into<String>) -> Self {
        Error::Malformed {
            site: site.clone(),
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_file_position_values_and_next_step() {
        let site = Site::file(&Arc::from("a.mp4")).with(Location::Packet(3, Some(4096)));
        let text = Error::Truncated {
            site,
            offset: 4096,
            end: 5000,
            len: 4500,
        }
        .to_string();
        for part in ["a.mp4", "packet 3", "4096..5000", "4500", "skip it"] {
            assert!(text.contains(part), "{part} missing in: {text}");
        }
        let empty = Error::empty(&Site::file(&Arc::from("a.mp4"))).to_string();
        assert_eq!(
            empty,
            "a.mp4: the file is empty; download it again or skip it"
        );
    }
}
