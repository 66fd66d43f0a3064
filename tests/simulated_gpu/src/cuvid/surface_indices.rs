//! Assigns picture indices and reuses them as early as a parser may.
//! An index of a reference, or of a picture that is not displayed yet, is never reused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use super::codec::BufferObserver;
use crate::call_log::behavior;

/// State of a picture until it is displayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PictureInfo {
    pub index: Option<i32>,
    pub timestamp: i64,
    pub progressive: bool,
    pub top_first: bool,
    /// No picture refers to it.
    pub disposable: bool,
}

#[derive(Default)]
struct IndexState {
    count: i32,
    free: Vec<i32>,
    /// Buffers freed while a picture is decoded wait here: that picture may have referred to them.
    later: Option<Vec<i32>>,
    /// Released before they had an index.
    gone: BTreeSet<u64>,
    pictures: BTreeMap<u64, PictureInfo>,
}

#[derive(Default)]
pub struct SurfaceIndices(Mutex<IndexState>);

impl BufferObserver for SurfaceIndices {
    fn on_freed(&self, serial: u64) {
        let mut state = self.state();
        match state
            .pictures
            .remove(&serial)
            .and_then(|picture_info| picture_info.index)
        {
            Some(index) => state.put_back(index),
            None if state.later.is_some() => drop(state.gone.insert(serial)),
            None => (),
        }
    }
}

impl IndexState {
    fn put_back(&mut self, index: i32) {
        if index < self.count
            && !self.free.contains(&index)
            && self.pictures.values().all(|s| s.index != Some(index))
        {
            match &mut self.later {
                Some(later) => later.push(index),
                None => self.free.push(index),
            }
        }
    }
}

impl SurfaceIndices {
    fn state(&self) -> MutexGuard<'_, IndexState> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the number of indices; those in use stay in use.
    pub fn resize(&self, count: i32) {
        let mut state = self.state();
        state.count = count;
        state.later = state.later.take().map(|_| Vec::new());
        state.free = (0..count)
            .rev()
            .filter(|n| state.pictures.values().all(|s| s.index != Some(*n)))
            .collect();
    }

    /// Buffers were used under these numbers; nothing is released until `thaw`.
    pub fn freeze(&self) {
        self.state().later.get_or_insert_default();
    }

    pub fn thaw(&self) {
        let mut state = self.state();
        let later = state.later.take().unwrap_or_default();
        state.free.extend(later);
        state.gone.clear();
    }

    /// An index for the picture; the picture keeps it until its buffer is freed.
    pub fn assign(&self, serial: u64, picture_info: PictureInfo) -> Option<i32> {
        let mut state = self.state();
        // The one freed last, so that the picture just displayed is overwritten first; or the one
        // free for the longest time.
        let index = if behavior("oldest_index") && !state.free.is_empty() {
            state.free.remove(0)
        } else {
            state.free.pop()?
        };
        if state.gone.remove(&serial) {
            state.put_back(index);
        } else {
            state.pictures.insert(
                serial,
                PictureInfo {
                    index: Some(index),
                    ..picture_info
                },
            );
        }
        Some(index)
    }

    /// Displayed and not referenced: the next picture may use its index, also while the decoder
    /// holds it.
    pub fn release(&self, index: i32) {
        let mut state = self.state();
        let Some(serial) = state
            .pictures
            .iter()
            .find(|(_, s)| s.index == Some(index))
            .map(|(&serial, _)| serial)
        else {
            return;
        };
        state.pictures.remove(&serial);
        let frozen = state.later.take();
        state.put_back(index);
        state.later = frozen;
    }

    pub fn picture_info(&self, serial: u64) -> Option<PictureInfo> {
        self.state().pictures.get(&serial).copied()
    }

    pub fn held(&self) -> usize {
        self.state().pictures.len()
    }
}
