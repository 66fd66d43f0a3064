//! Size of the index cache: what it contains, which files it has entries of, and the removal of
//! entries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::{is_missing, path_of};
use super::{AccessMode, IndexCache, database, fork_guard, open};
use crate::error::{Error, Result, Site};
use crate::source::{as_url, display_name};

/// How long a query waits for writers.
const WAIT: Duration = Duration::from_secs(20);

/// What an index cache contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSummary {
    /// Number of indices.
    pub entries: u64,
    /// Bytes of the database in use.
    pub used_bytes: u64,
    /// Maximum of `used_bytes`.
    pub max_bytes: u64,
    /// The earliest day of the last use of an index, in days since 1970.
    pub oldest_day: Option<i64>,
}

impl IndexCache {
    /// Returns what the cache contains.
    pub fn summary(&self) -> Result<CacheSummary> {
        self.look(|connection| {
            let (entries, oldest_day) = database::summary(connection)?;
            let (used_bytes, max_bytes) = (
                database::used_bytes(connection)?,
                open::max_bytes(&self.errors),
            );
            Ok(CacheSummary {
                entries,
                used_bytes,
                max_bytes,
                oldest_day,
            })
        })
    }

    /// Returns the local files below `root` that have an index, in their order.
    pub fn paths(&self, root: &Path) -> Result<Vec<PathBuf>> {
        let root = absolute(root)?;
        let mut found = Vec::new();
        self.look(|connection| {
            database::each(connection, |_, value| {
                let path =
                    path_of(value).filter(|path| as_url(path).is_none() && path.starts_with(&root));
                found.extend(path.map(Path::to_owned));
                true
            })
        })?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Removes entries of files that no longer exist and returns their number: all such files below
    /// `root`, or without a root those whose folder exists. Another thread removes them.
    pub fn prune(&self, root: Option<&Path>) -> Result<u64> {
        let root = root.map(absolute).transpose()?;
        let is_gone = |path: &Path| match &root {
            Some(_) => matches!(path.try_exists(), Ok(false)),
            None => is_missing(path),
        };
        let mut entries = Vec::new();
        self.look(|connection| {
            database::each(connection, |id, value| {
                let path = path_of(value).filter(|path| as_url(path).is_none());
                let path =
                    path.filter(|path| root.as_ref().is_none_or(|root| path.starts_with(root)));
                entries.extend(path.map(|path| (id, path.to_owned())));
                true
            })
        })?;
        // Checked afterwards: a query blocks writers, and a file system may be slow.
        let gone: Vec<_> = entries
            .iter()
            .filter(|(_, path)| is_gone(path))
            .map(|&(id, _)| id)
            .collect();
        let count = gone.len() as u64;
        match &self.writer {
            Some(writer) if count > 0 => writer.remove(gone),
            Some(_) => {}
            None => return Ok(0),
        }
        Ok(count)
    }

    /// Removes the entries that have not been used for the longest time until the rest has at most
    /// `max_bytes`, by default the limit of the cache, and gives the free space back to the file
    /// system. Returns their number.
    pub fn shrink(&self, max_bytes: Option<u64>) -> Result<u64> {
        let Some(_guard) =
            fork_guard::enter(self.owner_pid).filter(|_| self.access == AccessMode::Write)
        else {
            return Ok(0);
        };
        let shrink = || {
            let mut connection = database::writer(self.file())?;
            let max_bytes = max_bytes.unwrap_or_else(|| open::max_bytes(&self.errors));
            let removed = database::remove_least_recently_used(&mut connection, max_bytes)?;
            connection.execute_batch("VACUUM")?;
            Ok(removed)
        };
        shrink().map_err(|error| self.error(&error))
    }

    /// Runs a query on a connection of its own.
    fn look<T>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let guard = fork_guard::enter(self.owner_pid);
        if guard.is_none() {
            return Err(Error::Forked {
                what: "index cache",
                owner_pid: self.owner_pid,
                current_pid: std::process::id(),
            });
        }
        let access = if self.writer.is_some() {
            self.access
        } else {
            AccessMode::Read
        };
        let connection = database::reader(self.file(), access);
        let found = connection.and_then(|connection| {
            connection.busy_timeout(WAIT)?;
            query(&connection)
        });
        found.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &rusqlite::Error) -> Error {
        Error::io(
            &Site::file(&display_name(self.file())),
            std::io::Error::other(error.to_string()),
        )
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io(&Site::file(&display_name(path)), e))
}
