//! In: `cuda/`. Out: with the feature `shim`, the kernels compiled as C++, for tests. Never: anything without it.

#[cfg(feature = "shim")]
include!("cuda/shim/compile.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "shim")]
    {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
        compile_shim(&std::path::Path::new(&manifest).join("cuda"), cfg!(feature = "sanitize"));
    }
}
