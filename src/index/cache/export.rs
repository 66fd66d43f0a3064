//! Exports and imports cached indices as lines of JSON, so that they can be distributed with a
//! dataset. Paths are relative to a root; files are identified by length and fingerprint, not by
//! times or inodes. An import rejects indices of files that are missing, differ or are outside the
//! root.

use std::io::{BufRead, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use super::IndexCache;
use super::codec::{self, FORMAT};
use super::record::content_hash;
use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::source::{ByteSource, FileSource, check_interrupt, display_name};

/// Maximum length of a line; the index of a day of video takes less.
const MAX_LINE_BYTES: u64 = 1 << 28;

/// Result of an export or import.
#[derive(Debug, Default)]
pub struct TransferReport {
    /// Number of entries exported or imported.
    pub entries: u64,
    /// Videos that were skipped, and why.
    pub skipped: Vec<(PathBuf, String)>,
}

impl IndexCache {
    /// Exports the cached indices of `paths`, for stream `stream` or the best one of each, all
    /// below `root`, as lines of JSON.
    pub fn export(
        &self,
        root: &Path,
        paths: &[PathBuf],
        stream: Option<u32>,
        out: &mut dyn Write,
    ) -> Result<TransferReport> {
        let mut done = TransferReport::default();
        let root = absolute(root)?;
        for path in paths {
            check_interrupt()?;
            match self.export_line(&root, path, stream) {
                Ok(line) => {
                    let failed = |e| Error::io(&Site::file(&"the export".into()), e);
                    writeln!(out, "{line}").map_err(failed)?;
                    done.entries += 1;
                }
                Err(why) => done.skipped.push((path.clone(), why)),
            }
        }
        Ok(done)
    }

    fn export_line(
        &self,
        root: &Path,
        path: &Path,
        stream: Option<u32>,
    ) -> std::result::Result<Value, String> {
        let said = |error: Error| error.to_string();
        let whole = absolute(path).map_err(said)?;
        let below = whole
            .strip_prefix(root)
            .map_err(|_| format!("not below {}", display_name(root)))?;
        let name = below
            .to_str()
            .ok_or("the path is not UTF-8, which JSON needs")?;
        let source = FileSource::open(path).map_err(said)?;
        let index = self
            .get(path, &source, stream)
            .ok_or("not in the index, or changed since")?;
        let file_hash = content_hash(&source).map_err(said)?;
        let bytes = codec::encode(&index).ok_or("cannot be exported")?;
        let ffmpeg = super::writer::ffmpeg_version_of(&index);
        Ok(json!({
            "path": name,
            "stream": stream,
            "bytes": source.len(),
            "fingerprint": format!("{file_hash:016x}"),
            "codec": index.info.params.codec.name,
            "frames": index.frames.len(),
            "format": FORMAT,
            "ffmpeg": ffmpeg,
            "checksum": format!("{:016x}", checksum(source.len(), file_hash, stream, &ffmpeg, &bytes)),
            "index": BASE64.encode(bytes),
        }))
    }

    /// Imports lines written by [`IndexCache::export`] for the files below `root`; `name`
    /// identifies the input in error messages.
    pub fn import(
        &self,
        root: &Path,
        lines: &mut dyn BufRead,
        name: &str,
    ) -> Result<TransferReport> {
        let mut done = TransferReport::default();
        let site = Site::file(&name.into());
        let mut line = Vec::new();
        for number in 1u64.. {
            check_interrupt()?;
            line.clear();
            let got = lines
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
                .map_err(|e| Error::io(&site, e))?;
            if got == 0 {
                break;
            }
            if got as u64 == MAX_LINE_BYTES {
                return Err(Error::malformed(
                    &site,
                    format!("line {number} is longer than {MAX_LINE_BYTES} bytes"),
                ));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = || PathBuf::from(format!("line {number}"));
            match serde_json::from_slice::<Value>(&line) {
                Err(error) => done.skipped.push((place(), format!("not JSON ({error})"))),
                Ok(value) => match self.import_line(root, &value) {
                    Ok(()) => done.entries += 1,
                    Err(why) => {
                        let path = value["path"].as_str().map_or_else(place, PathBuf::from);
                        done.skipped.push((path, why));
                    }
                },
            }
        }
        Ok(done)
    }

    fn import_line(&self, root: &Path, line: &Value) -> std::result::Result<(), String> {
        let word = |name: &str| line[name].as_str().ok_or(format!("{name:?} is missing"));
        let hex = |name: &str| {
            u64::from_str_radix(word(name)?, 16)
                .map_err(|_| format!("{name:?} is not a valid number"))
        };
        if line["format"].as_u64() != Some(FORMAT.into()) {
            return Err(format!(
                "of format {}, this build reads format {FORMAT}",
                line["format"]
            ));
        }
        let (below, ffmpeg) = (Path::new(word("path")?), word("ffmpeg")?);
        if below
            .components()
            .any(|c| !matches!(c, Component::Normal(_) | Component::CurDir))
        {
            return Err("the path is outside the root".into());
        }
        let version = crate::ffmpeg::version();
        if !ffmpeg.is_empty() && ffmpeg != version {
            return Err(format!("read by FFmpeg {ffmpeg}, this build has {version}"));
        }
        let bytes = BASE64
            .decode(word("index")?)
            .map_err(|e| format!("the index is not base64 ({e})"))?;
        let (len, file_hash) = (
            line["bytes"].as_u64().ok_or("\"bytes\" is missing")?,
            hex("fingerprint")?,
        );
        let stream = match &line["stream"] {
            Value::Null => None,
            number => Some(
                number
                    .as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or("\"stream\" is not a valid number")?,
            ),
        };
        if checksum(len, file_hash, stream, ffmpeg, &bytes) != hex("checksum")? {
            return Err("the checksum is wrong: the line was damaged".into());
        }
        let path = root.join(below);
        let since = SystemTime::now();
        let source = FileSource::open(&path).map_err(|e| e.to_string())?;
        if source.len() != len {
            return Err(format!(
                "the file has {} bytes, the one that was indexed had {len}",
                source.len()
            ));
        }
        if content_hash(&source).map_err(|e| e.to_string())? != file_hash {
            return Err("the file differs in content from the one that was indexed".into());
        }
        let site = Site::file(source.name());
        let index = codec::decode(&bytes, site, &Limits::default().for_file_len(len))
            .ok_or("the index cannot be parsed")?;
        self.put_blocking(&path, &source, stream, since, &Arc::new(index));
        Ok(())
    }
}

/// Covers everything that is trusted except the path, because files may be moved.
fn checksum(len: u64, file_hash: u64, stream: Option<u32>, ffmpeg: &str, index: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&len.to_le_bytes());
    hash.update(&file_hash.to_le_bytes());
    hash.update(&stream.map_or(-1, i64::from).to_le_bytes());
    hash.update(&(ffmpeg.len() as u64).to_le_bytes());
    hash.update(ffmpeg.as_bytes());
    hash.update(index);
    hash.digest()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io(&Site::file(&display_name(path)), e))
}
