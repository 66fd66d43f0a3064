//! Writes call log and device state to a JSON file at process exit, if FRAMESPOOL_SIMULATED_REPORT
//! is set (`%p` in the path is replaced by the process id). A forked child writes no report.
#![allow(unsafe_code)]

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::{HAS_EXITED, OWNER_PID, call_log, variable};
use crate::driver_state::{ObjectCounts, driver_state};

pub fn at_exit() {
    extern "C" fn write() {
        if OWNER_PID.load(Ordering::Relaxed) != std::process::id() {
            return;
        }
        let _ = std::panic::catch_unwind(|| {
            if let Some(path) = variable("REPORT") {
                let path = path.replace("%p", &std::process::id().to_string());
                if let Err(error) = std::fs::write(&path, text()) {
                    eprintln!("simulated GPU: the report could not be written to {path}: {error}");
                }
            }
        });
        HAS_EXITED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler is a plain function that does not unwind. This library is never unloaded
    // while handlers may run, because it has thread-local variables with destructors.
    unsafe { libc::atexit(write) };
}

/// The current report.
pub fn text() -> String {
    let object_counts: ObjectCounts = driver_state().object_counts();
    let mut decoding = crate::cuvid::object_counts();
    decoding.extend(crate::nvjpeg::object_counts());
    let call_log = call_log();
    let mut out = String::from("{\n");
    let _ = writeln!(out, "  \"violations\": {},", list(&call_log.violations));
    let _ = writeln!(out, "  \"notes\": {},", list(&call_log.notes));
    let calls: Vec<String> = call_log
        .calls
        .iter()
        .map(|(name, count)| format!("\"{name}\": {count}"))
        .collect();
    let _ = writeln!(out, "  \"calls\": {{{}}},", calls.join(", "));
    let live = object_counts.live.iter().chain(&decoding);
    let live: Vec<String> = live
        .map(|(kind, count)| format!("\"{kind}\": {count}"))
        .collect();
    let _ = writeln!(out, "  \"live\": {{{}}},", live.join(", "));
    let _ = writeln!(out, "  \"memory_bytes\": {},", object_counts.memory_bytes);
    let _ = writeln!(
        out,
        "  \"memory_peak_bytes\": {},",
        object_counts.memory_peak_bytes
    );
    let _ = writeln!(
        out,
        "  \"operations_run\": {},",
        object_counts.operations_run
    );
    let _ = writeln!(
        out,
        "  \"operations_waiting\": {},",
        object_counts.operations_waiting
    );
    let _ = writeln!(out, "  \"lost\": {}", super::lost_context_code());
    out.push_str("}\n");
    out
}

fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
