//! In: where a dataset says that a video is.
//! Out: its bytes, and what messages call it.
//! Never: keeps anything open.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{ByteSource, FolderSource, FrameFolder, Member, MemorySource};
use crate::error::Result;

/// Where a video is.
#[derive(Clone)]
pub enum Place {
    /// A file.
    Path(PathBuf),
    /// A file inside an archive.
    Member(Member),
    /// Bytes in memory.
    Memory(MemorySource),
    /// Pictures of a folder, one for each frame.
    Frames(Arc<FrameFolder>),
    /// Bytes that a reader outside this crate finds.
    Opened(Arc<dyn Opener>),
}

/// Bytes that lie nowhere as they are: compressed in a page of a table, say.
pub trait Opener: Send + Sync {
    /// What messages call them. Openers of the same name give the same bytes.
    fn name(&self) -> Arc<str>;
    /// Finds them, each time anew: the source lives as long as its video is being read.
    fn open(&self) -> Result<Arc<dyn ByteSource>>;
}

impl Place {
    /// What messages call it.
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
