//! Fuzz targets: each passes bytes to the library as a file, a packet, a URL, a server's answer, or
//! the arguments of a call. A failure is a panic, too much memory or time, or a violated property
//! of the result. The report contains the input.

pub mod fuzz_input;
pub mod mutate;
pub mod random_driver;
pub mod resource_limits;
pub mod scratch;
pub mod seeds;
pub mod targets;

pub use targets::{TARGETS, Target};

/// Returns the target of this name.
///
/// # Errors
/// The available names.
pub fn target(name: &str) -> Result<&'static Target, String> {
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            format!("no target '{name}'; available are {}", names.join(", "))
        })
}
