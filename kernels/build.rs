//! With the feature `shim`, compiles the kernels in `cuda/` as C++, for tests.

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
