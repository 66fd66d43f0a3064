//! Opens a range of a file as a source: an uncompressed member of an archive, a value in a record.
//! Archives are not kept open: a dataset may have more of them than a process may have open files.

use std::path::Path;
use std::sync::Arc;

use super::{SubrangeSource, display_name, reopen};
use crate::error::Result;

/// A file stored inside another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveMember {
    /// The archive; one shared path for all its members, of which there may be millions.
    pub file: Arc<Path>,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Name inside the archive, for messages; without one, messages give the byte range.
    pub name: Option<Box<str>>,
}

impl ArchiveMember {
    /// Name for messages, such as `shard.tar!a.mp4`.
    pub fn label(&self) -> Arc<str> {
        let file = display_name(&self.file);
        match &self.name {
            Some(name) => format!("{file}!{name}").into(),
            None => format!(
                "{file}!{}..{}",
                self.offset,
                self.offset.saturating_add(self.len)
            )
            .into(),
        }
    }

    /// Opens the archive and returns this member as a source.
    ///
    /// # Errors
    /// Those of [`open`](super::open); `Truncated` where the archive ends before the member does.
    pub fn open(&self) -> Result<SubrangeSource> {
        SubrangeSource::new(self.label(), reopen(&self.file)?, self.offset, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::source::ByteSource;

    #[test]
    fn member_has_its_bytes_and_both_names() {
        let path = std::env::temp_dir().join(format!("framespool-member-{}", std::process::id()));
        std::fs::write(&path, b"headMEMBERtail").unwrap();
        let file: Arc<Path> = path.as_path().into();
        let member = ArchiveMember {
            file: file.clone(),
            offset: 4,
            len: 6,
            name: Some("a.mp4".into()),
        };
        let source = member.open().unwrap();
        let mut bytes = [0; 20];
        assert_eq!(
            (source.len(), source.read_at(0, &mut bytes).unwrap()),
            (6, 6)
        );
        assert_eq!(&bytes[..6], b"MEMBER");
        assert_eq!(**source.name(), *format!("{}!a.mp4", path.display()));
        let nameless = ArchiveMember {
            name: None,
            ..member.clone()
        };
        assert!(nameless.label().ends_with("!4..10"), "{}", nameless.label());
        // Two members of one archive are two sources, so that their indexes are never confused.
        assert_ne!(
            source.identity(),
            ArchiveMember {
                offset: 5,
                ..member.clone()
            }
            .open()
            .unwrap()
            .identity()
        );
        let beyond = ArchiveMember {
            len: 11,
            ..member.clone()
        }
        .open()
        .err()
        .unwrap();
        assert!(
            matches!(
                beyond,
                Error::Truncated {
                    offset: 4,
                    end: 15,
                    len: 14,
                    ..
                }
            ),
            "{beyond}"
        );
        assert!(beyond.to_string().contains("!a.mp4"), "{beyond}");
        assert!(matches!(
            ArchiveMember {
                offset: u64::MAX,
                ..member.clone()
            }
            .open(),
            Err(Error::Truncated { .. })
        ));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(member.open(), Err(Error::NotFound { .. })));
    }
}
