//! Opens the index cache in a folder, once per process and folder, and defines the default folder.
//! A damaged database is emptied when it is opened for writing.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::IndexCache;
use super::database::{self, AccessMode};
use super::fork_guard;
use super::writer::{CacheErrors, Writer};
use crate::error::{Error, Result, Site};

/// Name of the database file in its folder.
const FILE_NAME: &str = "framespool-index.sqlite3";

/// Maximum size of the database, unless `FRAMESPOOL_INDEX_MAX_BYTES` is another one.
const MAX_BYTES: u64 = 1 << 30;

/// Number of further attempts to open, and the pause between them.
const OPEN_RETRIES: u32 = 25;
const RETRY_INTERVAL: Duration = Duration::from_millis(4);

/// Caches of this process that are in use.
static OPEN: Mutex<Vec<Weak<IndexCache>>> = Mutex::new(Vec::new());
/// Folders that could not be opened; the next failure is returned at once.
static UNUSABLE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns the default folder of the cache: `FRAMESPOOL_INDEX`, else a folder in the user's cache
/// directory. Returns `None` if that variable is "off" or if there is no such directory.
pub fn default_dir() -> Option<PathBuf> {
    let folder = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(place) = folder("FRAMESPOOL_INDEX") {
        return (place != Path::new("off")).then_some(place);
    }
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("framespool").join("index"))
}

impl IndexCache {
    /// Opens the cache in folder `place`. With [`AccessMode::Write`] the folder is created if it
    /// does not exist; if it is not writable, the cache is opened for reading and
    /// [`IndexCache::last_error`] reports that new indices are not cached.
    pub fn open(place: &Path, access: AccessMode) -> Result<Arc<Self>> {
        let refuse = |reason: &str| {
            let site = Site::file(&place.to_string_lossy().into());
            Err(Error::Io {
                site,
                source: Arc::new(std::io::Error::other(reason)),
            })
        };
        let Some(_guard) = fork_guard::enter_to_open() else {
            return refuse(
                "the index cannot be used in this process: it was forked while its parent was using one; \
                 use the spawn or forkserver start method, or index=False",
            );
        };
        // Another process may remove the folder between the steps of opening; creating it again is
        // harmless.
        let unusable = || UNUSABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let retries = if unusable().contains(place) {
            0
        } else {
            OPEN_RETRIES
        };
        for _ in 0..retries {
            match Self::open_once(place, access) {
                Err(_) if access == AccessMode::Write => std::thread::sleep(RETRY_INTERVAL),
                result => return result,
            }
        }
        let result = Self::open_once(place, access);
        match &result {
            Ok(_) => unusable().remove(place),
            Err(_) => access == AccessMode::Write && unusable().insert(place.to_owned()),
        };
        result
    }

    fn open_once(place: &Path, access: AccessMode) -> Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|store| store.strong_count() > 0);
        if access == AccessMode::Write {
            std::fs::create_dir_all(place).map_err(|e| io_error(place, e))?;
        }
        let place = place.canonicalize().map_err(|e| io_error(place, e))?;
        let file = place.join(FILE_NAME);
        let same = |s: &Arc<Self>| {
            s.file == file
                && s.access == access
                && s.owner_pid == std::process::id()
                && s.is_same_file()
        };
        if let Some(store) = open.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(store);
        }
        let store = Arc::new(Self::start(file, access)?);
        open.push(Arc::downgrade(&store));
        Ok(store)
    }

    fn start(file: PathBuf, access: AccessMode) -> Result<Self> {
        let errors = Arc::new(CacheErrors::default());
        let failed = |e: rusqlite::Error| io_error(&file, std::io::Error::other(e.to_string()));
        let writer = match access {
            AccessMode::Read => None,
            AccessMode::Write => match writer(&file, &errors) {
                Ok(connection) => {
                    let max_bytes = max_bytes(&errors);
                    let started =
                        Writer::start(file.clone(), connection, errors.clone(), max_bytes);
                    Some(started.map_err(|e| io_error(&file, e))?)
                }
                // It may still be readable, which is checked below.
                Err(error) if database::is_denied(&error) => {
                    let what = file.display();
                    errors.record(
                        format!("{what}: cannot be written, new indices are not stored ({error})"),
                        0,
                    );
                    None
                }
                Err(error) => return Err(failed(error)),
            },
        };
        let access_of_readers = if writer.is_some() {
            access
        } else {
            AccessMode::Read
        };
        let reader = database::reader(&file, access_of_readers).map_err(failed)?;
        match database::get(&reader, 0, |_, _| ()) {
            Err(error) if !database::is_busy(&error) => return Err(failed(error)),
            _ => {}
        }
        Ok(Self {
            file_id: file_id(&file),
            file,
            access,
            owner_pid: std::process::id(),
            readers: Mutex::new(vec![reader]),
            writer,
            errors,
        })
    }
}

/// Maximum size of the database; an invalid value of the environment variable is recorded as an
/// error.
pub(super) fn max_bytes(errors: &CacheErrors) -> u64 {
    let Some(value) =
        std::env::var_os("FRAMESPOOL_INDEX_MAX_BYTES").filter(|value| !value.is_empty())
    else {
        return MAX_BYTES;
    };
    value.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let given = value.to_string_lossy();
        let what = format!(
            "FRAMESPOOL_INDEX_MAX_BYTES must be a number of bytes, got {given:?}; {MAX_BYTES} is used"
        );
        errors.record(what, 0);
        MAX_BYTES
    })
}

/// Opens a connection for writing; a damaged database is emptied first.
fn writer(file: &Path, errors: &CacheErrors) -> rusqlite::Result<rusqlite::Connection> {
    let readable = |connection: rusqlite::Connection| {
        database::get(&connection, 0, |_, _| ()).map(|_| connection)
    };
    match database::writer(file).and_then(readable) {
        Err(error) if database::is_damage(&error) => {
            if database::reset(file)? {
                errors.record(
                    format!(
                        "{}: was damaged ({error}) and has been emptied; videos are indexed again",
                        file.display()
                    ),
                    0,
                );
            }
            database::writer(file)
        }
        other => other,
    }
}

pub(super) fn file_id(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file)
        .ok()
        .map(|meta| (meta.dev(), meta.ino()))
}

fn io_error(place: &Path, error: std::io::Error) -> Error {
    Error::io(&Site::file(&place.to_string_lossy().into()), error)
}
