//! Reads files that each contain many videos or images, on several threads, into one list of
//! samples. The order of samples is that of the files, regardless of the number of threads. Omitted
//! samples are counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use framespool::error::{Error, Result, Site};
use framespool::source::{self, ArchiveMember};

use crate::SegmentBounds;
use crate::column_value::{Column, ColumnsBuilder, Value};

/// How to handle a sample, or the rest of a file, that is damaged or lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// Return the first error.
    Raise,
    /// Skip the sample and count it.
    Skip,
}

/// Where the bytes of a video or an image are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleLocation {
    /// A byte range of a file.
    Member(ArchiveMember),
    /// In memory, because the bytes are not contiguous in the file.
    Memory(Vec<u8>),
    /// A separate file, or anything else that a path can refer to.
    Path(PathBuf),
    /// A cell of a table, in a page that must be decoded.
    TableCell {
        /// The file of the table.
        file: Arc<Path>,
        /// The column, as its path of names.
        column: Arc<str>,
        /// The row, from 0.
        row: u64,
    },
}

/// One video or image.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveSample {
    /// Where the bytes are stored.
    pub location: SampleLocation,
    /// The label, or [`NO_LABEL`](crate::NO_LABEL).
    pub label: i64,
    /// The name of the label, where the file gives one.
    pub label_name: Option<String>,
    /// The segment of the video that the sample covers; `None` is the whole video.
    pub segment: Option<SegmentBounds>,
    /// Further values for the columns, by name.
    pub column_values: Vec<(String, Value)>,
}

impl ArchiveSample {
    /// A sample for a whole video or image.
    pub(crate) fn new(location: SampleLocation, label: i64) -> Self {
        Self {
            location,
            label,
            label_name: None,
            segment: None,
            column_values: Vec::new(),
        }
    }
}

/// The contents of the files.
#[derive(Debug, Default)]
pub struct ArchiveListing {
    /// Videos and images, in the order in which the files store them.
    pub samples: Vec<ArchiveSample>,
    /// Number of samples skipped. The lost rest of a damaged file counts once.
    pub skipped: u64,
    /// The reasons for the first ones.
    pub errors: Vec<Error>,
}

/// Number of reasons kept. When thousands of samples fail, the reason is usually the same.
const MAX_ERRORS: usize = 8;

impl ArchiveListing {
    /// Handles an error: returns it or counts it. An outage of a server is not counted, because no
    /// sample causes it.
    pub(crate) fn handle_error(&mut self, error: Error, on_error: ErrorPolicy) -> Result<()> {
        if on_error == ErrorPolicy::Raise
            || matches!(error, Error::Interrupted)
            || error.is_outage()
        {
            return Err(error);
        }
        self.skipped += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
        Ok(())
    }

    /// Moves the further values of the samples into columns, each as long as `samples`.
    ///
    /// # Errors
    /// `Argument` if there are more names than columns are allowed, which means that the names are
    /// data themselves.
    pub fn take_columns(&mut self) -> Result<Vec<Column>> {
        let mut columns = ColumnsBuilder::default();
        for (number, sample) in self.samples.iter_mut().enumerate() {
            for (name, value) in sample.column_values.drain(..) {
                columns.set(number, &name, value).map_err(Error::Argument)?;
            }
        }
        Ok(columns.finish(self.samples.len()))
    }

    fn append(&mut self, mut other: Self) {
        self.samples.append(&mut other.samples);
        self.skipped += other.skipped;
        let room = MAX_ERRORS - self.errors.len();
        self.errors.extend(other.errors.into_iter().take(room));
    }
}

/// Reads files on several threads, and joins what they list. `nothing` describes what was looked
/// for, for the error if there are no samples.
///
/// # Errors
/// As [`read_each`]; `Argument` if there are no samples at all.
pub(crate) fn read_files(
    files: &[PathBuf],
    threads: u32,
    nothing: &str,
    read: impl Fn(&Arc<Path>) -> Result<ArchiveListing> + Sync,
) -> Result<ArchiveListing> {
    let mut all = ArchiveListing::default();
    for packed in read_each(files, threads, read)? {
        all.append(packed);
    }
    if all.samples.is_empty() {
        let why = all.errors.first().map_or(String::new(), |reason| {
            format!("; the first reason: {reason}")
        });
        let first = files
            .first()
            .map_or("no file at all".into(), |file| source::display_name(file));
        return Err(Error::Argument(format!(
            "nothing to load in {} file(s), the first is {first}: {nothing} ({} skipped{why})",
            files.len(),
            all.skipped,
        )));
    }
    Ok(all)
}

/// Reads files on several threads, including the caller's; returns the results in file order.
/// `read` must call [`check_interrupt`](source::check_interrupt) between samples.
///
/// # Errors
/// The error of the first file, in file order, for which `read` fails.
pub(crate) fn read_each<T: Send>(
    files: &[PathBuf],
    threads: u32,
    read: impl Fn(&Arc<Path>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    // Files are taken in order, so every file before a failing one is in progress and will be
    // finished.
    let (failed, stop) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let done: Vec<Mutex<Option<Result<T>>>> = files.iter().map(|_| Mutex::new(None)).collect();
    let work = || -> Result<()> {
        while !failed.load(Ordering::Relaxed) {
            source::check_interrupt().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(path), Some(slot)) = (files.get(at), done.get(at)) else {
                break;
            };
            let packed = catch_unwind(AssertUnwindSafe(|| read(&Arc::from(path.as_path()))));
            let packed = packed.unwrap_or_else(|_| {
                let site = Site::file(&source::display_name(path));
                Err(Error::Internal {
                    site,
                    reason: "a panic while listing".into(),
                })
            });
            if matches!(packed, Err(Error::Interrupted)) {
                // A signal is reported only once, so the thread that receives it stops the others.
                stop.store(true, Ordering::Relaxed);
                return Err(Error::Interrupted);
            }
            if packed.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed);
        }
        Ok(())
    };
    let extra_threads = threads
        .min(u32::try_from(files.len()).unwrap_or(u32::MAX))
        .saturating_sub(1);
    std::thread::scope(|scope| {
        for thread in 0..extra_threads {
            let builder = Builder::new().name(format!("listing-{thread}"));
            let help = || {
                let _scope = source::stop_scope(&stop, None);
                work()
            };
            if builder.spawn_scoped(scope, help).is_err() {
                break; // the threads that exist do the work
            }
        }
        let finished = work();
        if finished.is_ok() {
            // Other threads may still be reading and must remain interruptible.
            while !stop.load(Ordering::Relaxed)
                && done.iter().take(next.load(Ordering::Relaxed)).any(|slot| {
                    slot.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .is_none()
                })
            {
                if source::check_interrupt().is_err() {
                    stop.store(true, Ordering::Relaxed);
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        finished
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted); // takes precedence over any other result
    }
    // What follows a file that failed may be missing.
    done.into_iter()
        .map_while(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Barrier;

    use super::*;

    fn files(count: usize) -> Vec<PathBuf> {
        (0..count).map(|n| PathBuf::from(format!("{n}"))).collect()
    }

    fn number(path: &Path) -> i64 {
        path.to_str().unwrap().parse().unwrap()
    }

    fn packed(label: i64) -> ArchiveListing {
        let sample = ArchiveSample::new(SampleLocation::Memory(Vec::new()), label);
        ArchiveListing {
            samples: vec![sample],
            ..ArchiveListing::default()
        }
    }

    #[test]
    fn order_does_not_depend_on_threads() {
        for threads in [1, 2, 7, 100] {
            let all = read_files(&files(50), threads, "", |path| Ok(packed(number(path)))).unwrap();
            let labels: Vec<i64> = all.samples.iter().map(|sample| sample.label).collect();
            assert_eq!(labels, (0..50).collect::<Vec<i64>>());
        }
    }

    #[test]
    fn first_failed_file_is_the_error() {
        for threads in [1, 2, 7] {
            for _ in 0..20 {
                let read = |path: &Arc<Path>| match number(path) {
                    n @ (17 | 18 | 30) => Err(Error::Argument(format!("file {n}"))),
                    n => Ok(packed(n)),
                };
                let error = read_files(&files(50), threads, "", read).unwrap_err();
                assert_eq!(error.to_string(), "file 17");
            }
        }
    }

    /// Reports a signal once, at call `moment`, as an interpreter does.
    fn interrupt_at(moment: u32) -> source::InterruptScope {
        let calls = Cell::new(0);
        let interrupt = move || {
            calls.set(calls.get() + 1);
            match calls.get() == moment {
                true => Err(Error::Interrupted),
                false => Ok(()),
            }
        };
        source::interrupt_scope(interrupt, None)
    }

    /// Reads a file without an end: only an interrupt stops it.
    fn read_forever(_: &Arc<Path>) -> Result<ArchiveListing> {
        loop {
            source::check_interrupt()?;
            std::thread::yield_now();
        }
    }

    #[test]
    fn interrupt_stops_all_threads() {
        for threads in [1, 3] {
            for moment in [1, 2, 9] {
                let _scope = interrupt_at(moment);
                let error = read_files(&files(9), threads, "", read_forever).unwrap_err();
                assert_eq!(error.kind(), "cancelled");
            }
        }
    }

    #[test]
    fn interrupt_stops_the_last_file_of_another_thread() {
        let (caller, both_read) = (std::thread::current().id(), Barrier::new(2));
        let read = |path: &Arc<Path>| {
            both_read.wait();
            match std::thread::current().id() == caller {
                true => Ok(packed(number(path))),
                false => read_forever(path),
            }
        };
        let _scope = interrupt_at(5);
        let error = read_files(&files(2), 2, "", read).unwrap_err();
        assert_eq!(error.kind(), "cancelled");
    }

    #[test]
    fn empty_listing_names_what_was_looked_for() {
        let read = |_: &Arc<Path>| {
            let mut none = ArchiveListing::default();
            for n in 0..20 {
                none.handle_error(Error::Argument(format!("reason {n}")), ErrorPolicy::Skip)?;
            }
            Ok(none)
        };
        let text = read_files(&files(3), 2, "looked for x", read)
            .unwrap_err()
            .to_string();
        for part in ["3 file(s)", "looked for x", "60 skipped", "reason 0"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            read_files(&[], 2, "x", read)
                .unwrap_err()
                .to_string()
                .contains("no file at all")
        );
    }
}
