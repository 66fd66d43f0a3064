//! Opens a path, a URL or bytes in memory as a [`ByteSource`], readable at an offset from any
//! thread. Does not interpret the bytes.

mod archive_member;
mod image_sequence;
mod interrupt;
#[cfg(feature = "remote")]
mod remote;
mod url_signature;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result, Site};

pub use archive_member::ArchiveMember;
pub use image_sequence::{IMAGE_EXTENSIONS, ImageSequence, ImageSequenceSource};
pub use interrupt::{
    InterruptScope, RemoteStats, TrafficCounters, check_interrupt, inner_interrupt_scope,
    interrupt_scope, stop_scope,
};
#[cfg(feature = "remote")]
#[doc(hidden)]
pub use remote::fuzzing;
pub use url_signature::without_signature;

/// Schemes of the URLs that can be read, in lower case.
pub const URL_SCHEMES: [&str; 8] = ["https", "http", "hf", "s3", "gs", "az", "abfs", "abfss"];

/// Bytes that can be read at an offset, by several threads at once.
pub trait ByteSource: Send + Sync {
    /// Name for messages, usually the path.
    fn name(&self) -> &Arc<str>;
    /// Name of one of its files, for a source that consists of several: each file is one packet,
    /// with the same number.
    fn name_of_file(&self, _number: usize) -> Arc<str> {
        self.name().clone()
    }
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads into `buffer` from `offset` on; returns the number of bytes read, which is less than
    /// the length of the buffer only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Key for cached indexes: changes when the bytes may have changed.
    fn identity(&self) -> Identity;
    /// Announces ranges that will be read, in about this order, so that a remote source can fetch
    /// them early. Local sources ignore it.
    fn prefetch(&self, _ranges: &mut dyn Iterator<Item = Range<u64>>) {}

    /// Fills all of `buffer`, or returns `Truncated`.
    fn read_exact_at(&self, site: &Site, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.len() || self.read_at(offset, buffer)? < buffer.len() {
            return Err(Error::Truncated {
                site: site.clone(),
                offset,
                end,
                len: self.len(),
            });
        }
        Ok(())
    }
}

/// Key of a source's content, as far as it is available without reading the content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A file, or a part of one. Times are nanoseconds since 1970.
    File {
        /// Device number of the file system, on this machine.
        device: u64,
        /// Inode number of the file.
        inode: u64,
        /// Length in bytes.
        len: u64,
        /// Modification time of the content. Any program may set it: tools that copy files restore
        /// the old one.
        mtime_ns: i128,
        /// Time of the last change of content or metadata; set only by the system.
        ctime_ns: i128,
        /// First byte of the part.
        start: u64,
    },
    /// Bytes in memory: address and length, valid in this process only.
    Memory(usize, usize),
    /// A file on a server, or a part of one.
    Remote {
        /// Its URL, without secrets and signatures.
        url: Arc<str>,
        /// Length in bytes.
        len: u64,
        /// Its ETag, or the time of its last modification; empty if the server sends neither.
        tag: Arc<str>,
        /// First byte of the part.
        start: u64,
    },
}

/// Opens a path, which may be a URL (`https://`, `http://`, `s3://`, `gs://`, `az://`, `abfss://`,
/// `hf://`).
///
/// # Errors
/// Those of [`FileSource::open`]; for URLs `NotFound`, `Io` with the server's error, `Unsupported`
/// without the feature `remote`.
pub fn open(path: &Path) -> Result<Arc<dyn ByteSource>> {
    open_path(path, false)
}

/// Like [`open`], for files that are opened repeatedly: a known URL is opened without a request.
/// Whether the file still has the same version is checked by the next read that needs a request; if
/// not, that read returns an error.
///
/// # Errors
/// Those of [`open`].
pub fn reopen(path: &Path) -> Result<Arc<dyn ByteSource>> {
    open_path(path, true)
}

fn open_path(path: &Path, trust_cached: bool) -> Result<Arc<dyn ByteSource>> {
    match as_url(path) {
        Some(url) => open_url(url, trust_cached),
        None => Ok(Arc::new(FileSource::open(path)?)),
    }
}

#[cfg(feature = "remote")]
fn open_url(url: &str, trust_cached: bool) -> Result<Arc<dyn ByteSource>> {
    Ok(Arc::new(remote::RemoteSource::open(url, trust_cached)?))
}

#[cfg(not(feature = "remote"))]
fn open_url(url: &str, _trust_cached: bool) -> Result<Arc<dyn ByteSource>> {
    let scheme = url.split("://").next().unwrap_or_default();
    Err(Error::Unsupported {
        site: Site::file(&format!("{scheme}://…").into()),
        what: "reading by URL (the feature `remote` is not enabled)".into(),
    })
}

/// Traffic of this process from reading by URL, over all callers.
pub fn remote_stats() -> RemoteStats {
    #[cfg(feature = "remote")]
    return remote::process_traffic();
    #[cfg(not(feature = "remote"))]
    RemoteStats::default()
}

/// Name of a path in messages: the path itself; for a URL without user name, password and content
/// of the query.
pub fn display_name(path: &Path) -> Arc<str> {
    let Some((scheme, rest)) = as_url(path).and_then(|url| url.split_once("://")) else {
        return path.to_string_lossy().into();
    };
    let is_any_of = |names: &[&str]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name));
    // Parsers of http URLs accept any number of these characters instead of two slashes.
    let is_web = is_any_of(&["http", "https"]);
    let rest = rest.trim_start_matches(|c| is_web && matches!(c, '/' | '\\' | '\t' | '\n' | '\r'));
    let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = match host.rsplit_once('@') {
        // Not a user, but the container in a storage account.
        Some((container, _))
            if is_any_of(&["az", "abfs", "abfss"]) && !container.contains([':', '@']) =>
        {
            host
        }
        Some((_, host)) => host,
        None => host,
    };
    // Keys of objects may contain these characters.
    let has_query = !is_any_of(&["s3", "gs", "az", "abfs", "abfss"]);
    match rest.find(['?', '#']).filter(|_| has_query) {
        Some(end) => format!(
            "{scheme}://{host}{}{}",
            &rest[..end],
            if rest[end..].starts_with('?') {
                "?…"
            } else {
                ""
            }
        ),
        None => format!("{scheme}://{host}{rest}"),
    }
    .into()
}

/// The path as a URL, if it has the form `scheme://…`.
pub fn as_url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = |text: &str| {
        text.len() > 1 // a single letter is a drive
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    is_scheme(scheme).then_some(text)
}

/// A regular file, read with positioned reads.
#[derive(Debug)]
pub struct FileSource {
    name: Arc<str>,
    file: File,
    len: u64,
    identity: Identity,
}

impl FileSource {
    /// Opens `path`. A directory or a missing file is an error at once, not at the first read; so
    /// is a named pipe, without waiting for its writer.
    pub fn open(path: &Path) -> Result<Self> {
        let name = display_name(path);
        let site = Site::file(&name);
        // Without the flag, opening a pipe waits for a writer; for regular files it has no effect.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = file.map_err(|e| Error::io(&site, e))?;
        let meta = file.metadata().map_err(|e| Error::io(&site, e))?;
        if !meta.is_file() {
            let what = match meta.is_dir() {
                true => {
                    "is a directory; give a file, or framespool.datasets.ImageSequence for a folder of frames"
                }
                false => "is not a regular file; give a file",
            };
            return Err(Error::io(
                &site,
                std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
            ));
        }
        let ns = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        let identity = Identity::File {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
            start: 0,
        };
        Ok(Self {
            name,
            len: meta.len(),
            identity,
            file,
        })
    }
}

impl ByteSource for FileSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset.saturating_add(buffer.len() as u64) > i64::MAX as u64 {
            return Ok(0); // beyond the end of any file; the system would return an error
        }
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(&Site::file(&self.name), e)),
            }
        }
        Ok(done)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }
}

/// Bytes in memory.
#[derive(Clone)]
pub struct MemorySource {
    name: Arc<str>,
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
}

impl MemorySource {
    /// Takes ownership of (a handle to) the bytes.
    pub fn new(name: impl Into<Arc<str>>, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            bytes: Arc::new(bytes),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }
}

impl ByteSource for MemorySource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn len(&self) -> u64 {
        self.as_bytes().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.as_bytes();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let n = buffer.len().min(bytes.len() - start);
        buffer[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn identity(&self) -> Identity {
        Identity::Memory(self.as_bytes().as_ptr() as usize, self.as_bytes().len())
    }
}

/// A range of another source, such as a member of an archive.
pub struct SubrangeSource {
    name: Arc<str>,
    inner: Arc<dyn ByteSource>,
    start: u64,
    len: u64,
}

impl SubrangeSource {
    /// Bytes `start..start + len` of `inner`; `name` is used in messages.
    pub fn new(
        name: impl Into<Arc<str>>,
        inner: Arc<dyn ByteSource>,
        start: u64,
        len: u64,
    ) -> Result<Self> {
        let name = name.into();
        let end = start.saturating_add(len);
        if end > inner.len() {
            return Err(Error::Truncated {
                site: Site::file(&name),
                offset: start,
                end,
                len: inner.len(),
            });
        }
        Ok(Self {
            name,
            inner,
            start,
            len,
        })
    }
}

impl ByteSource for SubrangeSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = buffer.len().min(left);
        if n == 0 {
            return Ok(0); // the offset may have any value, and the sum below may overflow
        }
        self.inner
            .read_at(self.start + offset, &mut buffer[..n])
            .map_err(|error| match error {
                // The failed read was one of this part, so the error names the part.
                Error::Io { source, .. } => Error::Io {
                    site: Site::file(&self.name),
                    source,
                },
                other => other,
            })
    }

    fn identity(&self) -> Identity {
        match self.inner.identity() {
            Identity::File {
                device,
                inode,
                mtime_ns,
                ctime_ns,
                start,
                ..
            } => Identity::File {
                device,
                inode,
                len: self.len,
                mtime_ns,
                ctime_ns,
                start: start + self.start,
            },
            Identity::Memory(address, _) => {
                Identity::Memory(address + self.start as usize, self.len as usize)
            }
            Identity::Remote {
                url, tag, start, ..
            } => Identity::Remote {
                url,
                len: self.len,
                tag,
                start: start + self.start,
            },
        }
    }

    fn prefetch(&self, ranges: &mut dyn Iterator<Item = Range<u64>>) {
        let inside = |at: u64| self.start + at.min(self.len);
        self.inner
            .prefetch(&mut ranges.map(|range| inside(range.start)..inside(range.end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_never_reads_outside_itself() {
        let inner: Arc<dyn ByteSource> = Arc::new(MemorySource::new("tar", b"0123456789".to_vec()));
        let subrange = SubrangeSource::new("tar!b", inner.clone(), 3, 4).unwrap();
        let mut buffer = [0u8; 8];
        assert_eq!(subrange.read_at(2, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"56");
        assert_eq!(subrange.read_at(9, &mut buffer).unwrap(), 0);
        assert_eq!(subrange.read_at(u64::MAX, &mut buffer).unwrap(), 0);
        assert!(matches!(
            SubrangeSource::new("tar!c", inner, 8, 3),
            Err(Error::Truncated { .. })
        ));
    }

    #[test]
    fn reads_past_the_end_are_empty() {
        let file = FileSource::open(Path::new("Cargo.toml")).unwrap();
        for offset in [file.len(), i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
            assert_eq!(file.read_at(offset, &mut [0; 4]).unwrap(), 0, "{offset}");
        }
    }

    #[test]
    fn a_short_source_is_reported_with_its_length() {
        let source = MemorySource::new("m", vec![0u8; 10]);
        let err = source
            .read_exact_at(&Site::file(source.name()), 8, &mut [0; 4])
            .unwrap_err();
        assert!(
            matches!(
                err,
                Error::Truncated {
                    offset: 8,
                    end: 12,
                    len: 10,
                    ..
                }
            ),
            "{err}"
        );
    }

    #[test]
    fn missing_file_and_directory_are_distinguished() {
        assert!(matches!(
            FileSource::open(Path::new("no/such.mp4")),
            Err(Error::NotFound { .. })
        ));
        let error = FileSource::open(Path::new("src")).unwrap_err();
        assert!(matches!(error, Error::Io { .. }));
        assert!(error.to_string().contains("ImageSequence"), "{error}");
    }

    #[test]
    fn url_is_recognized_by_its_scheme() {
        for url in ["https://host/a.mp4", "s3://b/k", "HTTP://x", "gs+x://b"] {
            assert_eq!(as_url(Path::new(url)), Some(url));
        }
        for path in [
            "a.mp4",
            "/data/a:b/c",
            "c://x",
            "://x",
            "a b://c",
            "./https://x",
            "https:/x",
        ] {
            assert_eq!(as_url(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn url_name_has_no_secrets() {
        for (url, name) in [
            (
                "https://me:pa@ss@host:1/a/b.mp4?sig=1&x=2#t",
                "https://host:1/a/b.mp4?…",
            ),
            ("http://host/a@b.mp4#t", "http://host/a@b.mp4"),
            ("https://user@host", "https://host"),
            ("https://host?token=1", "https://host?…"),
            ("http:///me:hush@host/x", "http://host/x"),
            ("HTTPS:///\\/me:hush@host/x", "HTTPS://host/x"),
            ("s3://bucket/a?b#c@d", "s3://bucket/a?b#c@d"),
            ("gs://me@bucket/a?b#c@d", "gs://bucket/a?b#c@d"),
            ("abfss://c@account/a?b", "abfss://c@account/a?b"),
            ("az://me:hush@account/a?b", "az://account/a?b"),
            ("/data/a?b@c.mp4", "/data/a?b@c.mp4"),
        ] {
            assert_eq!(&*display_name(Path::new(url)), name);
        }
    }

    #[cfg(not(feature = "remote"))]
    #[test]
    fn url_is_rejected_without_the_remote_feature() {
        let error = open(Path::new("https://me:secret@host/a.mp4"))
            .err()
            .unwrap();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(
            error.to_string().contains("feature `remote`") && !error.to_string().contains("secret")
        );
    }

    #[test]
    fn pipe_without_a_writer_is_rejected_at_once() {
        let path = std::env::temp_dir().join(format!("framespool-pipe-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "mkfifo is part of coreutils"
        );
        // Would never return if it waited for a writer: there is none.
        let error = FileSource::open(&path).unwrap_err();
        std::fs::remove_file(path).unwrap();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
