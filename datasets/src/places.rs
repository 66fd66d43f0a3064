//! Looks up files by name or by stem in folders.
//! Each folder is listed once, which takes moments where checking each file separately would take minutes.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};
use framespool::source::{name_of, url_in};

use crate::text::{site, wrong};
use crate::{has_extension, VIDEO_EXTENSIONS};

/// How to handle entries whose file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An error.
    Error,
    /// Leave them out, and add a note to the dataset.
    Skip,
}

/// The files of folders. A folder is listed on first use.
#[derive(Default)]
pub(crate) struct Places {
    folders: HashMap<PathBuf, Listing>,
}

#[derive(Default)]
struct Listing {
    names: HashSet<OsString>,
    /// File names of videos by their stem.
    stems: HashMap<OsString, Vec<OsString>>,
}

impl Places {
    /// Whether a folder has a file of that name. A folder that does not exist has none.
    pub fn has(&mut self, folder: &Path, name: &str) -> Result<bool> {
        Ok(self.listing(folder)?.names.contains(OsStr::new(name)))
    }

    /// The sorted names of the videos in a folder that have this stem.
    pub fn with_stem(&mut self, folder: &Path, stem: &str) -> Result<&[OsString]> {
        Ok(self.listing(folder)?.stems.get(OsStr::new(stem)).map_or(&[][..], Vec::as_slice))
    }

    fn listing(&mut self, folder: &Path) -> Result<&Listing> {
        match self.folders.entry(folder.to_owned()) {
            Slot::Occupied(known) => Ok(known.into_mut()),
            Slot::Vacant(new) => Ok(new.insert(list(folder)?)),
        }
    }
}

fn list(folder: &Path) -> Result<Listing> {
    check_listable(folder)?;
    let failed = |e| Error::io(&site(folder), e);
    // An empty path is the current directory.
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let items = match std::fs::read_dir(place) {
        Ok(items) => items,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Listing::default())
        }
        Err(e) => return Err(failed(e)),
    };
    let mut listing = Listing::default();
    for item in items {
        let name = item.map_err(failed)?.file_name();
        let path = Path::new(&name);
        if let (true, Some(stem)) = (has_extension(path, &VIDEO_EXTENSIONS), path.file_stem()) {
            listing.stems.entry(stem.to_owned()).or_default().push(name.clone());
        }
        listing.names.insert(name);
    }
    listing.stems.values_mut().for_each(|names| names.sort());
    Ok(listing)
}

/// Returns an error for a folder that is a URL, since HTTP has no standard way to list a folder.
pub(crate) fn check_listable(folder: &Path) -> Result<()> {
    match url_in(folder) {
        Some(_) => Err(Error::Argument(format!(
            "{}: what is at a URL cannot be listed; name the files, with their extensions, in a list",
            name_of(folder)
        ))),
        None => Ok(()),
    }
}

/// Counts entries whose file is not there.
#[derive(Default)]
pub(crate) struct Absent {
    first: Option<(Option<u64>, String)>,
    count: u64,
}

impl Absent {
    /// Adds one: the line of the list, if it has lines, and what was looked for.
    pub fn add(&mut self, line: Option<u64>, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((line, what()));
        }
    }

    /// The error or the note if any files are missing; `entries` is the number of entries whose files exist.
    pub fn tell(self, list: &Path, missing: Missing, entries: usize) -> Result<Option<String>> {
        let Some((line, what)) = self.first else { return Ok(None) };
        let all = self.count + entries as u64;
        if missing == Missing::Skip && entries > 0 {
            return Ok(Some(format!(
                "{}: {} of {all} entries are left out, their files are missing; the first: {what}",
                list.display(),
                self.count
            )));
        }
        let others = match (self.count, missing) {
            (count, _) if entries == 0 => format!("none of {count} files is there, check root"),
            (1, _) => "leave such entries out with missing=\"skip\"".to_owned(),
            (count, _) => format!("{count} of {all} are missing; leave them out with missing=\"skip\""),
        };
        let reason = format!("{what}; {others}");
        Err(match line {
            Some(line) => wrong(list, line, &reason),
            None => Error::Argument(format!("{}: {reason}", list.display())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn files_are_found_by_name_and_by_stem() {
        let root = TempFolder::new();
        ["a.mp4", "a.webm", "b.c.MKV", "a.txt"].iter().for_each(|name| drop(root.write(name, "")));
        let mut places = Places::default();
        assert!(places.has(&root.0, "a.txt").unwrap() && !places.has(&root.0, "A.txt").unwrap());
        assert_eq!(places.with_stem(&root.0, "a").unwrap(), ["a.mp4", "a.webm"]);
        assert_eq!(places.with_stem(&root.0, "b.c").unwrap(), ["b.c.MKV"]);
        assert!(places.with_stem(&root.0, "b").unwrap().is_empty());
        assert!(!places.has(&root.0.join("none"), "a.mp4").unwrap());
        assert!(!places.has(&root.0.join("a.mp4"), "a.mp4").unwrap());
    }

    #[test]
    fn what_is_missing_is_told_with_the_first_line_and_the_count() {
        let absent = |count: u64| {
            let mut absent = Absent::default();
            (0..count).for_each(|n| absent.add(Some(n + 2), || format!("file {n}")));
            absent
        };
        let list = Path::new("l.csv");
        assert_eq!(absent(0).tell(list, Missing::Error, 1).unwrap(), None);
        let note = absent(2).tell(list, Missing::Skip, 5).unwrap().unwrap();
        assert!(note.contains("l.csv: 2 of 7") && note.contains("file 0"), "{note}");
        let error = absent(2).tell(list, Missing::Error, 5).unwrap_err().to_string();
        assert!(error.contains("l.csv, line 2: file 0; 2 of 7 are missing"), "{error}");
        let error = absent(3).tell(list, Missing::Skip, 0).unwrap_err().to_string();
        assert!(error.contains("none of 3 files is there, check root"), "{error}");
    }
}
