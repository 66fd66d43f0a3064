//! Exports the CUDA driver API under its C names, on the simulated devices.
//! It contains only the calls that this repository and the compared libraries make.

mod context;
mod copies;
mod device;
mod error_names;
mod events;
mod memory;
mod modules;
mod pointers;
mod streams;

pub use context::is_forbidden;
pub use copies::fill_bytes;
pub use pointers::{read, slice, text, write};
pub use streams::CAPTURING;

/// Exports functions under their C names; each body is a closure that ends in `Result<(), Code>`,
/// run behind `call_log::api_call`.
macro_rules! driver {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> i32 {
            $crate::call_log::api_call(stringify!($name), move || $body)
        }
    )*};
}
pub(crate) use driver;
