//! In: a folder. Out: the store in it: one per process, shared by all who open the same folder.
//! Also: where the store is unless a user says otherwise.
//! Never: leaves a damaged database as it is, if it may write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::database::{self, Access};
use super::process;
use super::writer::{Trouble, Writer};
use super::Store;
use crate::error::{Error, Result, Site};

/// Name of the database in its folder.
const FILE: &str = "framespool-index.sqlite3";

/// How often opening is tried again, and after which pause.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(4);

/// Stores of this process that are in use.
static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

/// Where indices are kept unless told otherwise: `FRAMESPOOL_INDEX`, else a folder in the user's cache. `None` if that variable
/// says "off", or if there is no such folder.
pub fn default_place() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(place) = folder("FRAMESPOOL_INDEX") {
        return (place != Path::new("off")).then_some(place);
    }
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("framespool").join("index"))
}

impl Store {
    /// The store in folder `place`. With [`Access::Write`] the folder is made if it does not exist; if it can only be read, the
    /// store is opened all the same, and [`Store::trouble`] says that nothing new is kept.
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
        // Somebody may remove the folder between the steps of opening: what is made again a moment later is as good.
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
                // Perhaps it can be read all the same: that is seen below.
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

/// A connection that writes, to a database that is emptied first if it is damaged.
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
