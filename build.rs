//! In: `src/still/libjpeg.c` and the headers of the libjpeg-turbo that `turbojpeg-sys` built.
//! Out: the C side of `src/still/libjpeg.rs`.
//! Never: looks for a libjpeg of the system's.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/still/libjpeg.c");
    println!("cargo:rerun-if-changed=build.rs");
    let headers = std::env::var("DEP_TURBOJPEG_INCLUDE").expect("turbojpeg-sys says where its headers are");
    cc::Build::new()
        .file("src/still/libjpeg.c")
        .includes(headers.split(',').map(Path::new))
        .std("c11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("framespool_still");
}
