//! Compiles `src/image/libjpeg.c`, the C side of `src/image/libjpeg.rs`.
//! Uses the headers of the libjpeg-turbo that `turbojpeg-sys` built, never those of a system libjpeg.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/image/libjpeg.c");
    println!("cargo:rerun-if-changed=build.rs");
    let headers = std::env::var("DEP_TURBOJPEG_INCLUDE").expect("turbojpeg-sys sets its include folder");
    cc::Build::new()
        .file("src/image/libjpeg.c")
        .includes(headers.split(',').map(Path::new))
        .std("c11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("framespool_image");
}
