//! In: bytes that stand for a file, a packet, a URL, an answer of a server, or the numbers of a call.
//! Out: nothing, where the library does with them what it promises; else a report, and the bytes that show it.
//! Never: judges by "no panic" alone: memory, time and what each target claims of its results are held too.

pub mod fuzz_input;
pub mod mutate;
pub mod random_driver;
pub mod resource_limits;
pub mod scratch;
pub mod seeds;
pub mod targets;

pub use targets::{Target, TARGETS};

/// The target of this name.
///
/// # Errors
/// The names that there are.
pub fn target(name: &str) -> Result<&'static Target, String> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("no target '{name}'; one of {}", names.join(", "))
    })
}
