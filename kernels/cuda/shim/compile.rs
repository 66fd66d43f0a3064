// In: the folder `kernels/cuda`. Out: the static library `framespool_host`: the kernels, compiled as C++ for this machine.
// Never: part of a wheel. Build scripts `include!` this file; they need the crate `cc`.

/// Compiles the kernels as C++ and tells cargo to link them. `sanitized` puts AddressSanitizer and UBSan in; what runs them must then
/// preload libasan.
#[allow(dead_code)]
fn compile_shim(cuda: &std::path::Path, sanitized: bool) {
    for file in
        ["args.h", "arithmetic.h", "block.h", "color.h", "elements.h", "layout.h", "pixel_pass.cu", "resample.h"]
    {
        println!("cargo:rerun-if-changed={}", cuda.join(file).display());
    }
    println!("cargo:rerun-if-changed={}", cuda.join("shim").display());
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .cpp_link_stdlib(None)
        .file(cuda.join("shim/host.cpp"))
        .include(cuda)
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag("-ffp-contract=off")
        // Shared memory is words to one phase and 16-bit numbers to the next.
        .flag("-fno-strict-aliasing")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-Wno-unknown-pragmas");
    if sanitized {
        build.flag("-fsanitize=address,undefined").flag("-fno-sanitize-recover=all").flag("-g1");
        println!("cargo:rustc-link-lib=dylib=asan");
        println!("cargo:rustc-link-lib=dylib=ubsan");
    }
    build.compile("framespool_host");
}
