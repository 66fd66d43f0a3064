//! Opens the index cache in a folder, once per process and folder, and defines the default folder.
//! A damaged database is emptied when it is opened for writing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::database::{self, Access};
use super::process;
use super::writer::{Trouble, Writer};
use super::Store;
use crate::error::{Error, Result, Site};

/// Name of the database file in its folder.
const FILE: &str = "framespool-index.sqlite3";

/// Number of further attempts to open, and the pause between them.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(4);

/// Caches of this process that are in use.
static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

/// Returns the default folder of the cache: `FRAMESPOOL_INDEX`, else a folder in the user's cache directory.
/// Returns `None` if that variable is "off" or if there is no such directory.
pub fn default_place() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(place) = folder("FRAMESPOOL_INDEX") {
        return (place != Path::new("off")).then_some(place);
    }
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("framespool").join("index"))
}

impl Store {
    /// Opens the cache in folder `place`. With [`Access::Write`] the folder is created if it does not exist;
    /// if it is not writable, the cache is opened for reading and [`Store::trouble`] reports that new indices
    /// are not cached.
    pub fn open(place: &Path, access: Access) -> Result<Arc<Self>> {
        let refuse = |reason: &str| {
            let site = Site::file(&place.to_string_lossy().into());
            Err(Error::Io { site, source: Arc::new(std::io::Error::other(reason)) })
        };
        let Some(_inside) = process::enter_to_open() else {
            return refuse(
                "the index cannot be used in this process: it was forked while its parent was using one; \
                 use the spawn or forkserver start method, or index=False",
            );
        };
        // Another process may remove the folder between the steps of opening; creating it again is harmless.
        for _ in 0..TRIES {
            match Self::open_once(place, access) {
                Err(_) if access == Access::Write => std::thread::sleep(PAUSE),
                result => return result,
            }
        }
        Self::open_once(place, access)
    }

    fn open_once(place: &Path, access: Access) -> Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|store| store.strong_count() > 0);
        if access == Access::Write {
            std::fs::create_dir_all(place).map_err(|e| of(place, e))?;
        }
        let place = place.canonicalize().map_err(|e| of(place, e))?;
        let file = place.join(FILE);
        let same = |s: &Arc<Self>| {
            s.file == file && s.access == access && s.made_in == std::process::id() && s.is_in_place()
        };
        if let Some(store) = open.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(store);
        }
        let store = Arc::new(Self::start(file, access)?);
        open.push(Arc::downgrade(&store));
        Ok(store)
    }

    fn start(file: PathBuf, access: Access) -> Result<Self> {
        let trouble = Arc::new(Trouble::default());
        let failed = |e: rusqlite::Error| of(&file, std::io::Error::other(e.to_string()));
        let writer = match access {
            Access::Read => None,
            Access::Write => match writer(&file, &trouble) {
                Ok(connection) => {
                    Some(Writer::start(file.clone(), connection, trouble.clone()).map_err(|e| of(&file, e))?)
                }
                // It may still be readable, which is checked below.
                Err(error) if database::is_denied(&error) => {
                    let what = file.display();
                    trouble
                        .note(format!("{what}: cannot be written, so what is new is not kept ({error})"), 0);
                    None
                }
                Err(error) => return Err(failed(error)),
            },
        };
        let access_of_readers = if writer.is_some() { access } else { Access::Read };
        let reader = database::reader(&file, access_of_readers).map_err(failed)?;
        match database::get(&reader, 0, |_| ()) {
            Err(error) if !database::is_busy(&error) => return Err(failed(error)),
            _ => {}
        }
        Ok(Self {
            opened: identity(&file),
            file,
            access,
            made_in: std::process::id(),
            readers: Mutex::new(vec![reader]),
            writer,
            trouble,
        })
    }
}

/// Opens a connection for writing; a damaged database is emptied first.
fn writer(file: &Path, trouble: &Trouble) -> rusqlite::Result<rusqlite::Connection> {
    let sound = |connection: rusqlite::Connection| database::get(&connection, 0, |_| ()).map(|_| connection);
    match database::writer(file).and_then(sound) {
        Err(error) if database::is_damage(&error) => {
            if database::reset(file)? {
                trouble.note(
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

pub(super) fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn of(place: &Path, error: std::io::Error) -> Error {
    Error::io(&Site::file(&place.to_string_lossy().into()), error)
}
