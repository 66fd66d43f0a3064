//! Describes where a video of a dataset is stored, and opens it.
//! Keeps no files open.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{ByteSource, FolderSource, FrameFolder, Member, MemorySource};
use crate::error::Result;

/// Where a video is stored.
#[derive(Clone)]
pub enum Place {
    /// A file or a URL.
    Path(PathBuf),
    /// A file inside an archive.
    Member(Member),
    /// Bytes in memory.
    Memory(MemorySource),
    /// Images of a folder, one per frame.
    Frames(Arc<FrameFolder>),
    /// Bytes provided by a reader outside this crate.
    Opened(Arc<dyn Opener>),
}

/// Provides bytes that are not stored in this form, for example because they are compressed in a page of a
/// table.
pub trait Opener: Send + Sync {
    /// Name for messages. Openers of the same name return the same bytes.
    fn name(&self) -> Arc<str>;
    /// Reads the bytes again on each call; the source lives as long as its video is being read.
    fn open(&self) -> Result<Arc<dyn ByteSource>>;
}

impl Place {
    /// Name for messages.
    pub fn name(&self) -> Arc<str> {
        match self {
            Place::Path(path) => super::name_of(path),
            Place::Member(member) => member.label(),
            Place::Memory(memory) => memory.name().clone(),
            Place::Frames(frames) => Arc::from(frames.folder.to_string_lossy()),
            Place::Opened(opener) => opener.name(),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Those of [`super::open_again`], [`Member::open`], [`FolderSource::open`] and [`Opener::open`].
    pub fn open(&self) -> Result<Arc<dyn ByteSource>> {
        Ok(match self {
            Place::Path(path) => super::open_again(path)?,
            Place::Member(member) => Arc::new(member.open()?),
            Place::Memory(memory) => Arc::new(memory.clone()),
            Place::Frames(frames) => Arc::new(FolderSource::open(frames)?),
            Place::Opened(opener) => opener.open()?,
        })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name())
    }
}
