//! Describes where a video of a dataset is stored, and opens it.
//! Keeps no files open.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::source::{ArchiveMember, ByteSource, ImageSequence, ImageSequenceSource, MemorySource};

/// Where a video is stored.
#[derive(Clone)]
pub enum MediaLocation {
    /// A file or a URL.
    Path(PathBuf),
    /// A file inside an archive.
    ArchiveMember(ArchiveMember),
    /// Bytes in memory.
    Memory(MemorySource),
    /// Images of a folder, one per frame.
    ImageSequence(Arc<ImageSequence>),
    /// Bytes provided by a reader outside this crate.
    External(Arc<dyn SourceOpener>),
}

/// Provides bytes that are not stored in this form, for example because they are compressed in a
/// page of a table.
pub trait SourceOpener: Send + Sync {
    /// Name for messages. Openers of the same name return the same bytes.
    fn name(&self) -> Arc<str>;
    /// Reads the bytes again on each call; the source lives as long as its video is being read.
    fn open(&self) -> Result<Arc<dyn ByteSource>>;
}

impl MediaLocation {
    /// Name for messages.
    pub fn name(&self) -> Arc<str> {
        match self {
            MediaLocation::Path(path) => crate::source::display_name(path),
            MediaLocation::ArchiveMember(member) => member.label(),
            MediaLocation::Memory(memory) => memory.name().clone(),
            MediaLocation::ImageSequence(images) => Arc::from(images.folder.to_string_lossy()),
            MediaLocation::External(opener) => opener.name(),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Those of [`crate::source::reopen`], [`ArchiveMember::open`], [`ImageSequenceSource::open`]
    /// and [`SourceOpener::open`].
    pub fn open(&self) -> Result<Arc<dyn ByteSource>> {
        Ok(match self {
            MediaLocation::Path(path) => crate::source::reopen(path)?,
            MediaLocation::ArchiveMember(member) => Arc::new(member.open()?),
            MediaLocation::Memory(memory) => Arc::new(memory.clone()),
            MediaLocation::ImageSequence(images) => Arc::new(ImageSequenceSource::open(images)?),
            MediaLocation::External(opener) => opener.open()?,
        })
    }
}

impl fmt::Debug for MediaLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MediaLocation({})", self.name())
    }
}
