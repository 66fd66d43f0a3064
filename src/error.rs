//! In: what went wrong. Out: one typed error that names the file, the place, the facts and the next step.
//! The variant says who must act: the caller, the file's owner, or the machine's owner.
//! Never: a bare message without its file.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name of the source, usually a path.
    pub file: Arc<str>,
    /// Place inside it.
    pub place: Place,
}

/// Place inside a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A byte offset.
    Byte(u64),
    /// An MP4 box at a byte offset.
    Box(&'static str, u64),
    /// A packet, by decode index and, where packets lie in one piece, byte offset.
    Packet(u32, Option<u64>),
    /// A frame, by display index.
    Frame(u32),
}

impl Site {
    /// The file as a whole.
    pub fn file(file: &Arc<str>) -> Self {
        Self { file: file.clone(), place: Place::Whole }
    }

    /// Another place of the same file.
    pub fn with(&self, place: Place) -> Self {
        Self { file: self.file.clone(), place }
    }

    /// What is lost with a picture that could not be decoded here: a still image is alone in its file.
    fn reach_of_damage(&self) -> &'static str {
        match self.place {
            Place::Whole => "",
            _ => "frames up to the next key packet cannot be trusted, ",
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Whole => write!(f, "{}", self.file),
            Place::Byte(offset) => write!(f, "{}, byte {offset}", self.file),
            Place::Box(name, offset) => write!(f, "{}, box '{name}' at byte {offset}", self.file),
            Place::Packet(index, Some(offset)) => write!(f, "{}, packet {index} at byte {offset}", self.file),
            Place::Packet(index, None) => write!(f, "{}, packet {index}", self.file),
            Place::Frame(index) => write!(f, "{}, frame {index}", self.file),
        }
    }
}

/// Everything that can go wrong. Cheap to clone, so that one failure can be told to several waiting clips.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist.
    #[error("{site}: no such file; check the path")]
    NotFound {
        /// Where.
        site: Site,
    },
    /// The operating system refused or failed.
    #[error("{site}: {source}{}", advice(source))]
    Io {
        /// Where.
        site: Site,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// The bytes are not a video or an image that can be understood.
    #[error("{site}: {reason}; the file is damaged or not what it seems to be, skip or replace it")]
    Malformed {
        /// Where.
        site: Site,
        /// The facts.
        reason: String,
    },
    /// The file ends before what its header promises.
    #[error(
        "{site}: needs bytes {offset}..{end} but the file has {len}; it is truncated, fetch it again or skip it"
    )]
    Truncated {
        /// Where.
        site: Site,
        /// First byte needed.
        offset: u64,
        /// One past the last byte needed.
        end: u64,
        /// Bytes there are.
        len: u64,
    },
    /// The container holds no video that could be played.
    #[error("{site}: no video stream ({reason}); give a file with a video track")]
    NoVideo {
        /// Where.
        site: Site,
        /// What it holds instead.
        reason: String,
    },
    /// The stream that was asked for is no video stream.
    #[error("{site}: stream {stream} is not a video stream; the file has {streams}; give the index of a video stream, or none for the default one")]
    NotVideo {
        /// Where.
        site: Site,
        /// Index that was asked for.
        stream: u32,
        /// The streams of the file.
        streams: String,
    },
    /// Understood, but beyond what this build does.
    #[error("{site}: {what} is not supported by this build; convert the file or leave it out")]
    Unsupported {
        /// Where.
        site: Site,
        /// Codec, pixel format, feature.
        what: String,
    },
    /// A picture could not be decoded exactly.
    #[error("{site}: {reason}; {}skip or replace the file", site.reach_of_damage())]
    Decode {
        /// Where.
        site: Site,
        /// What the decoder said.
        reason: String,
    },
    /// A number in the file is beyond the cap that protects memory.
    #[error(
        "{site}: {what} is {value}, above the limit of {cap}; the file is damaged or needs higher limits"
    )]
    Limit {
        /// Where.
        site: Site,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The cap.
        cap: u64,
    },
    /// A frame number that the video does not have.
    #[error("{site}: frame {index} asked for, but there are {frames} frames (0 to {}, or -{frames} to -1 from the end)", .frames.saturating_sub(1))]
    FrameIndex {
        /// Where.
        site: Site,
        /// What was asked for.
        index: i64,
        /// Number of frames.
        frames: u32,
    },
    /// A time at which nothing is on screen.
    #[error("{site}: nothing is on screen at {seconds} s; the video plays from {begin} s up to, not including, {end} s")]
    FrameTime {
        /// Where.
        site: Site,
        /// What was asked for.
        seconds: f64,
        /// Start of the first frame.
        begin: f64,
        /// End of the last frame.
        end: f64,
    },
    /// This video cannot give the clip that was asked for: too short, or smaller than a crop.
    #[error("{site}: {reason}")]
    Clip {
        /// Where.
        site: Site,
        /// What was asked for, what there is, and what to change.
        reason: String,
    },
    /// The caller's argument is wrong.
    #[error("{0}")]
    Argument(String),
    /// A function of the caller's, called from a worker, raised what is to end the program rather than one clip.
    #[error("{reason}")]
    Callback {
        /// Which function, and what it raised.
        reason: String,
        /// The exception itself, for the language that raised it.
        raised: Arc<dyn Any + Send + Sync>,
    },
    /// The object was carried across a fork.
    #[error("{what} was made in process {made_in} and used in process {used_in}: decoder threads do not survive fork(); make it in the process that uses it, or use the spawn or forkserver start method")]
    Forked {
        /// Which object.
        what: &'static str,
        /// Process that made it.
        made_in: u32,
        /// Process that used it.
        used_in: u32,
    },
    /// The GPU or its driver refused or failed.
    #[error("{reason}")]
    Gpu {
        /// What was asked of it, what it answered, and what to do next.
        reason: String,
        /// Nothing on this GPU will work again in this process.
        lost: bool,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A worker thread panicked: a bug of this library, reported instead of hanging.
    #[error("{site}: a worker failed unexpectedly ({reason}); please report it with this file")]
    Internal {
        /// Where.
        site: Site,
        /// What the panic said.
        reason: String,
    },
}

fn out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The next step, where the system's own words do not suggest it.
fn advice(error: &std::io::Error) -> &'static str {
    match out_of_descriptors(error) {
        true => "; the file is not to blame: close files that are not used, or raise the limit (ulimit -n)",
        false => "",
    }
}

impl Error {
    /// One slug per kind: counted in stats, and mapped to one Python class each.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::NotFound { .. } => "not_found",
            Error::Io { .. } => "io",
            Error::Malformed { .. } => "malformed",
            Error::Truncated { .. } => "truncated",
            Error::NoVideo { .. } | Error::NotVideo { .. } => "no_video",
            Error::Unsupported { .. } => "unsupported",
            Error::Decode { .. } => "decode",
            Error::Limit { .. } => "limit",
            Error::FrameIndex { .. } => "frame_index",
            Error::FrameTime { .. } => "frame_time",
            Error::Clip { .. } => "clip",
            Error::Argument(_) | Error::Callback { .. } => "argument",
            Error::Forked { .. } => "forked",
            Error::Gpu { .. } => "gpu",
            Error::Interrupted => "interrupted",
            Error::Internal { .. } => "internal",
        }
    }

    /// Whether the file (or its place on disk) is at fault, so that `on_error` may pass over it.
    /// A wrong argument or a fork is the program's fault, a failing GPU the machine's: always raised.
    pub fn blames_file(&self) -> bool {
        self.site().is_some() && !self.is_out_of_descriptors()
    }

    /// Whether the process or the system has as many files open as it may: no fault of the file that was to be opened next.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { source, .. } if out_of_descriptors(source))
    }

    /// Where it happened, if in a file.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Error::NotFound { site }
            | Error::Io { site, .. }
            | Error::Malformed { site, .. }
            | Error::Truncated { site, .. }
            | Error::NoVideo { site, .. }
            | Error::NotVideo { site, .. }
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

    /// The same for a request that is fine in itself, but not for the video at `site`.
    pub fn of_video(self, site: &Site) -> Self {
        match self {
            Error::Argument(reason) => Error::Clip { site: site.clone(), reason },
            other => other,
        }
    }

    /// From an `io::Error` at a site.
    pub fn io(site: &Site, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::NotFound {
            return Error::NotFound { site: site.clone() };
        }
        Error::Io { site: site.clone(), source: Arc::new(source) }
    }

    /// `Malformed` at a site.
    pub fn malformed(site: &Site, reason: impl Into<String>) -> Self {
        Error::Malformed { site: site.clone(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_place_facts_and_next_step() {
        let site = Site::file(&Arc::from("a.mp4")).with(Place::Packet(3, Some(4096)));
        let text = Error::Truncated { site, offset: 4096, end: 5000, len: 4500 }.to_string();
        for part in ["a.mp4", "packet 3", "4096..5000", "4500", "skip it"] {
            assert!(text.contains(part), "{part} missing in: {text}");
        }
    }
}
