//! Compiles `c/` and the kernels' sources to static libraries of the simulated GPU.

include!("../../kernels/cuda/shim/compile.rs");

fn main() {
    println!("cargo:rerun-if-changed=c");
    let mut guard = cc::Build::new();
    guard
        .file("c/guard.c")
        .opt_level(2)
        .flag_if_supported("-U_FORTIFY_SOURCE");
    guard.compile("simulated_guard");
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    compile_shim(
        &std::path::Path::new(&manifest).join("../../kernels/cuda"),
        false,
    );
}
