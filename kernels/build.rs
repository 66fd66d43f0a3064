//! Decompresses the PTX in `cuda/gen`. With the feature `shim`, also compiles the kernels in
//! `cuda/` as C++, for tests.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "shim")]
include!("cuda/shim/compile.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let cuda = folder("CARGO_MANIFEST_DIR").join("cuda");
    decompress_ptx(&cuda.join("gen/pixel_pass.ptx.gz"));
    #[cfg(feature = "shim")]
    compile_shim(&cuda, cfg!(feature = "sanitize"));
}

/// Writes `pixel_pass.ptx` into the output folder, from where `src/cuda.rs` includes it.
fn decompress_ptx(compressed: &Path) {
    println!("cargo:rerun-if-changed={}", compressed.display());
    let file =
        File::open(compressed).unwrap_or_else(|error| panic!("{}: {error}", compressed.display()));
    let mut out = File::create(folder("OUT_DIR").join("pixel_pass.ptx"))
        .expect("the output folder is writable");
    io::copy(&mut flate2::read::GzDecoder::new(file), &mut out).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run scripts/kernels.py generate",
            compressed.display()
        )
    });
}

/// The folder that this environment variable of cargo names.
fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).expect("cargo sets it").into()
}
