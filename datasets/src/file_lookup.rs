//! Looks up files by name or by stem in folders. Each folder is listed once, which takes moments
//! where checking each file separately would take minutes.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};
use framespool::source::{as_url, display_name};
use serde::Deserialize;

use crate::lines::site;
use crate::{VIDEO_EXTENSIONS, has_extension};

/// How to handle samples whose file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingFilePolicy {
    Error,
    /// Skip them, and add a note to the dataset.
    Skip,
}

/// The files of folders. A folder is listed on first use.
#[derive(Default)]
pub(crate) struct FileLookup {
    folders: HashMap<PathBuf, FolderListing>,
}

#[derive(Default)]
struct FolderListing {
    names: HashSet<OsString>,
    /// File names of videos by their stem.
    stems: HashMap<OsString, Vec<OsString>>,
}

impl FileLookup {
    /// The path, if its folder has a file of that name.
    pub(crate) fn existing(&mut self, path: PathBuf) -> Result<Option<PathBuf>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        Ok(self.listing(folder)?.names.contains(name).then_some(path))
    }

    /// The sorted names of the videos in a folder that have this stem.
    pub(crate) fn with_stem(&mut self, folder: &Path, stem: &str) -> Result<&[OsString]> {
        Ok(self
            .listing(folder)?
            .stems
            .get(OsStr::new(stem))
            .map_or(&[][..], Vec::as_slice))
    }

    fn listing(&mut self, folder: &Path) -> Result<&FolderListing> {
        if !self.folders.contains_key(folder) {
            self.folders.insert(folder.to_owned(), list_folder(folder)?);
        }
        Ok(&self.folders[folder])
    }
}

fn list_folder(folder: &Path) -> Result<FolderListing> {
    check_listable(folder)?;
    let failed = |e| Error::io(&site(folder), e);
    // An empty path is the current directory.
    let path = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let items = match std::fs::read_dir(path) {
        Ok(items) => items,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(FolderListing::default());
        }
        Err(e) => return Err(failed(e)),
    };
    let mut listing = FolderListing::default();
    for item in items {
        let name = item.map_err(failed)?.file_name();
        let path = Path::new(&name);
        if let (true, Some(stem)) = (has_extension(path, &VIDEO_EXTENSIONS), path.file_stem()) {
            listing
                .stems
                .entry(stem.to_owned())
                .or_default()
                .push(name.clone());
        }
        listing.names.insert(name);
    }
    listing.stems.values_mut().for_each(|names| names.sort());
    Ok(listing)
}

/// Returns an error for a folder that is a URL, since HTTP has no standard way to list a folder.
pub(crate) fn check_listable(folder: &Path) -> Result<()> {
    match as_url(folder) {
        Some(_) => Err(Error::Argument(format!(
            "{}: a URL cannot be listed; name the files, with their extensions, in a list",
            display_name(folder)
        ))),
        None => Ok(()),
    }
}

/// Counts samples whose file does not exist.
#[derive(Default)]
pub(crate) struct MissingFiles {
    first: Option<(String, String)>,
    count: u64,
}

impl MissingFiles {
    /// Adds one: its position in the list, and what was looked for.
    pub(crate) fn add(&mut self, what: impl FnOnce() -> (String, String)) {
        self.count += 1;
        self.first.get_or_insert_with(what);
    }

    /// The error or the note if any files are missing. `missing` is `None` if the user cannot
    /// choose; `samples` is the number of samples whose files exist.
    pub(crate) fn report(
        self,
        list: &str,
        missing: Option<MissingFilePolicy>,
        samples: usize,
    ) -> Result<Option<String>> {
        let Some((place, what)) = self.first else {
            return Ok(None);
        };
        let all = self.count + samples as u64;
        if missing == Some(MissingFilePolicy::Skip) && samples > 0 {
            return Ok(Some(format!(
                "{list}: {} of {all} samples are skipped because their files are missing; the first: {what}",
                self.count
            )));
        }
        let others = match (self.count, missing) {
            (count, _) if samples == 0 => format!("none of {count} files exists, check root"),
            (count, None) => format!("{count} of {all} files are missing"),
            (1, _) => "skip such samples with missing=\"skip\"".to_owned(),
            (count, _) => format!("{count} of {all} are missing; skip them with missing=\"skip\""),
        };
        Err(Error::Argument(format!("{place}: {what}; {others}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn files_are_found_by_name_and_by_stem() {
        let root = TempFolder::new();
        ["a.mp4", "a.webm", "b.c.MKV", "a.txt"]
            .iter()
            .for_each(|name| drop(root.write(name, "")));
        let mut lookup = FileLookup::default();
        let mut exists = |name: &str| lookup.existing(root.0.join(name)).unwrap().is_some();
        assert!(
            exists("a.txt") && !exists("A.txt") && !exists("none/a.mp4") && !exists("a.mp4/a.mp4")
        );
        assert_eq!(lookup.with_stem(&root.0, "a").unwrap(), ["a.mp4", "a.webm"]);
        assert_eq!(lookup.with_stem(&root.0, "b.c").unwrap(), ["b.c.MKV"]);
        assert!(lookup.with_stem(&root.0, "b").unwrap().is_empty());
    }

    #[test]
    fn missing_files_are_reported_with_first_line() {
        let missing_files = |count: u64| {
            let mut missing_files = MissingFiles::default();
            (0..count).for_each(|n| {
                missing_files.add(|| (format!("l.csv, line {}", n + 2), format!("file {n}")))
            });
            missing_files
        };
        let (list, error, skip) = (
            "l.csv",
            Some(MissingFilePolicy::Error),
            Some(MissingFilePolicy::Skip),
        );
        assert_eq!(missing_files(0).report(list, error, 1).unwrap(), None);
        let note = missing_files(2).report(list, skip, 5).unwrap().unwrap();
        assert!(
            note.contains("l.csv: 2 of 7") && note.contains("file 0"),
            "{note}"
        );
        let error = missing_files(2)
            .report(list, error, 5)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("l.csv, line 2: file 0; 2 of 7 are missing"),
            "{error}"
        );
        let error = missing_files(3)
            .report(list, skip, 0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("none of 3 files exists, check root"),
            "{error}"
        );
    }
}
