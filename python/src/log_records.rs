//! Passes the engine's log records to Python's `logging`. The engine logs from its own threads,
//! which must not wait for the GIL: records are queued, and emitted by threads of Python while they
//! wait for the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// Records that wait; further ones are dropped.
const MAX_RECORDS: usize = 256;

/// Prefix of the targets of the engine's records. Those of other crates are ignored.
const TARGET: &str = "framespool";

static QUEUE: OnceLock<Queue> = OnceLock::new();
/// Whether the queue may have records, so that the usual case costs one load.
static PENDING: AtomicBool = AtomicBool::new(false);

struct LogRecord {
    level: Level,
    target: String,
    message: String,
}

struct Queue {
    sender: Sender<LogRecord>,
    receiver: Receiver<LogRecord>,
}

impl Log for Queue {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(TARGET)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (target, message) = (
            record.target().replace("::", "."),
            record.args().to_string(),
        );
        if self
            .sender
            .try_send(LogRecord {
                level: record.level(),
                target,
                message,
            })
            .is_ok()
        {
            PENDING.store(true, Ordering::Release);
        }
    }

    fn flush(&self) {}
}

/// Makes the engine's records go to the queue.
pub(crate) fn install() {
    let queue = QUEUE.get_or_init(|| {
        let (sender, receiver) = bounded(MAX_RECORDS);
        Queue { sender, receiver }
    });
    if log::set_logger(queue).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Emits the queued records by Python's `logging`. An exception of a user's log handler is
/// reported, but loses no batch.
///
/// # Errors
/// `KeyboardInterrupt` and others that end the program.
pub(crate) fn emit_log_records(py: Python<'_>) -> PyResult<()> {
    if !PENDING.load(Ordering::Acquire) {
        return Ok(());
    }
    PENDING.store(false, Ordering::Release);
    let Some(queue) = QUEUE.get() else {
        return Ok(());
    };
    for LogRecord {
        level,
        target,
        message,
    } in queue.receiver.try_iter()
    {
        let level = match level {
            Level::Error => 40,
            Level::Warn => 30,
            Level::Info => 20,
            Level::Debug | Level::Trace => 10,
        };
        let emitted = py
            .import("logging")
            .and_then(|logging| logging.call_method1("getLogger", (target,)))
            .and_then(|logger| logger.call_method1("log", (level, "%s", message)));
        report_exception(py, emitted)?;
    }
    Ok(())
}

/// Reports an exception of a user's log handler, which must not lose a batch.
///
/// # Errors
/// `KeyboardInterrupt` and others that end the program.
pub(crate) fn report_exception<T>(py: Python<'_>, logged: PyResult<T>) -> PyResult<()> {
    match logged {
        Err(error) if error.is_instance_of::<PyException>(py) => error.write_unraisable(py, None),
        other => drop(other?),
    }
    Ok(())
}
