//! In: `c/`, and the C++ build of the kernels where there is one.
//! Out: both as static libraries in the simulated GPU.
//! Never: fails for want of the kernels.

fn main() {
    println!("cargo:rerun-if-changed=c");
    let mut guard = cc::Build::new();
    guard.file("c/guard.c").opt_level(2).flag_if_supported("-U_FORTIFY_SOURCE");
    guard.compile("simulated_guard");
    cc::Build::new().file("c/placeholder.c").opt_level(2).compile("simulated_placeholder");
}
