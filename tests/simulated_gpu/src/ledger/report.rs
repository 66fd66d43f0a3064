//! In: the ledger and the world at the end of the process.
//! Out: a JSON file, where FRAMESPOOL_SIMULATED_REPORT names one (`%p` in it becomes the process' number).
//! Never: written by a forked child.
#![allow(unsafe_code)]

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::{ledger, variable, OVER, OWNER};
use crate::world::{world, Census};

pub fn at_exit() {
    extern "C" fn write() {
        if OWNER.load(Ordering::Relaxed) != std::process::id() {
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
        OVER.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler is a plain function that lets no panic out; this library is never unloaded while handlers may run,
    // since it has thread-local variables with destructors.
    unsafe { libc::atexit(write) };
}

/// The report as it stands.
pub fn text() -> String {
    let census: Census = world().census();
    let mut decoding = crate::cuvid::census();
    decoding.extend(crate::nvjpeg::census());
    let ledger = ledger();
    let mut out = String::from("{\n");
    let _ = writeln!(out, "  \"violations\": {},", list(&ledger.violations));
    let _ = writeln!(out, "  \"notes\": {},", list(&ledger.notes));
    let calls: Vec<String> =
        ledger.calls.iter().map(|(name, count)| format!("\"{name}\": {count}")).collect();
    let _ = writeln!(out, "  \"calls\": {{{}}},", calls.join(", "));
    let live = census.live.iter().chain(&decoding);
    let live: Vec<String> = live.map(|(kind, count)| format!("\"{kind}\": {count}")).collect();
    let _ = writeln!(out, "  \"live\": {{{}}},", live.join(", "));
    let _ = writeln!(out, "  \"memory_bytes\": {},", census.memory_bytes);
    let _ = writeln!(out, "  \"memory_peak_bytes\": {},", census.memory_peak_bytes);
    let _ = writeln!(out, "  \"operations_run\": {},", census.operations_run);
    let _ = writeln!(out, "  \"operations_waiting\": {},", census.operations_waiting);
    let _ = writeln!(out, "  \"lost\": {}", super::lost());
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
