//! In: inputs from libFuzzer, which is told by FRAMESPOOL_FUZZ_TARGET for which target.
//! Out: an abort for the first that goes wrong; libFuzzer keeps the input.
//! Never: chooses inputs; libFuzzer does, by the code that they reach.
#![no_main]

use std::sync::OnceLock;

use framespool_fuzz::{resource_limits, target, Target};
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
