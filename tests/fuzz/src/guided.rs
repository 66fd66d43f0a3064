//! Runs inputs from libFuzzer on the target in FRAMESPOOL_FUZZ_TARGET, and aborts at the first
//! failure; libFuzzer keeps the input.
#![no_main]

use std::sync::OnceLock;

use framespool_fuzz::{Target, resource_limits, target};
use libfuzzer_sys::fuzz_target;

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("FRAMESPOOL_FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|reason| {
            eprintln!("FRAMESPOOL_FUZZ_TARGET: {reason}");
            std::process::exit(2)
        })
    })
}

fuzz_target!(init: resource_limits::begin(), |input: &[u8]| {
    if let Err(reason) = resource_limits::run(chosen(), input) {
        eprintln!("{}: {reason}", chosen().name);
        std::process::abort();
    }
});
