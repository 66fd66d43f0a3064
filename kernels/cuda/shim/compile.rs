// Compiles the kernels of `kernels/cuda` as C++ for this machine, to the static library
// `framespool_host`. It is not part of a wheel. Build scripts `include!` this file; they need the
// crate `cc`.

/// Compiles the kernels as C++ and links them with cargo. `sanitized` enables AddressSanitizer and
/// UBSan; the process that runs them must then preload libasan.
#[allow(dead_code)]
fn compile_shim(cuda: &std::path::Path, sanitized: bool) {
    for file in [
        "args.h",
        "arithmetic.h",
        "block.h",
        "color.h",
        "deinterlace.h",
        "elements.h",
        "layout.h",
        "pixel_pass.cu",
        "resample.h",
        "rgb_operation.h",
        "tone.h",
    ] {
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
        // One phase reads shared memory as words, the next as 16-bit numbers.
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
