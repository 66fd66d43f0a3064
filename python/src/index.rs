//! In: where a user wants indices to be kept.
//! Out: the store there, or why there is none.
//! Never: lets the default place stop anybody: without it, indices are built anew.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use framespool::index::store::{default_place, Access, Store};
use pyo3::prelude::*;

/// `False`: nowhere. `None` or `True`: at the default place. Else a folder.
#[derive(FromPyObject)]
pub enum Wanted {
    Flag(bool),
    Place(Option<PathBuf>),
}

/// Where indices are kept, if anywhere.
#[derive(Clone, Default)]
pub struct Kept {
    /// The store.
    pub store: Option<Arc<Store>>,
    /// Why there is none at the default place.
    pub why_not: Option<String>,
}

/// Stores stay open until Python ends, so that one video after the other finds them open.
static OPENED: Mutex<Vec<Arc<Store>>> = Mutex::new(Vec::new());

impl Kept {
    /// Opens what is wanted.
    pub fn open(wanted: &Wanted) -> framespool::Result<Self> {
        match wanted {
            Wanted::Flag(false) => Ok(Self::default()),
            Wanted::Place(Some(place)) => Ok(Self { store: Some(open(place.clone())?), why_not: None }),
            Wanted::Flag(true) | Wanted::Place(None) => Ok(match default_place().map(open) {
                None => Self::default(),
                Some(Ok(store)) => Self { store: Some(store), why_not: None },
                Some(Err(error)) => Self { store: None, why_not: Some(error.to_string()) },
            }),
        }
    }

    /// What keeps indices from being kept.
    pub fn trouble(&self) -> Option<String> {
        self.store.as_ref().map_or_else(|| self.why_not.clone(), |store| store.trouble())
    }
}

fn open(place: PathBuf) -> framespool::Result<Arc<Store>> {
    let store = Store::open(&place, Access::Write)?;
    // A thread that a fork left behind in the parent may hold the lock for ever: then go without.
    if let Ok(mut opened) = OPENED.try_lock() {
        if !opened.iter().any(|known| Arc::ptr_eq(known, &store)) {
            opened.retain(|known| known.is_in_place());
            opened.push(store.clone());
        }
    }
    Ok(store)
}

/// Waits until indices that were built are written, a few seconds at most.
#[pyfunction]
pub fn flush_index(py: Python<'_>) {
    py.detach(|| {
        let opened = OPENED.try_lock().map(|opened| opened.clone()).unwrap_or_default();
        for store in opened {
            store.flush(Duration::from_secs(5));
        }
    });
}
