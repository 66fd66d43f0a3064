//! Compiles `src/image/libjpeg.c`, the C side of `src/image/libjpeg.rs`. Uses the headers of the
//! libjpeg-turbo that `turbojpeg-sys` built, never those of a system libjpeg. Sets `ffmpeg_patched`
//! if the FFmpeg to link is known to contain `scripts/ffmpeg.patch`.

use std::env;
use std::path::{Path, PathBuf};

/// Messages that the patch adds to the decoders of H.264 and HEVC.
const PATCH_MESSAGES: [&str; 2] = [
    "The slice data end before the last macroblock.",
    "The slices end at block %d of %d.",
];

/// The libavcodec that is linked, if it is a static library in a prefix that a variable names.
fn libavcodec() -> Option<PathBuf> {
    for name in ["FFMPEG_DIR", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // As ffmpeg-sys-next searches: the folder first, then the first prefix that pkg-config finds.
    let library = match env::var_os("FFMPEG_DIR") {
        Some(folder) => Path::new(&folder).join("lib/libavcodec.a"),
        None => env::split_paths(&env::var_os("PKG_CONFIG_PATH")?)
            .find(|folder| folder.join("libavcodec.pc").is_file())?
            .join("../libavcodec.a"),
    };
    println!("cargo:rerun-if-changed={}", library.display());
    Some(library)
}

/// Whether it is known to report pictures of which blocks are missing.
fn is_patched() -> bool {
    let Some(library) = libavcodec().and_then(|path| std::fs::read(path).ok()) else {
        return false;
    };
    let contains = |message: &str| {
        library
            .windows(message.len())
            .any(|bytes| bytes == message.as_bytes())
    };
    PATCH_MESSAGES.iter().all(|message| contains(message))
}

fn main() {
    println!("cargo:rustc-check-cfg=cfg(ffmpeg_patched)");
    if is_patched() {
        println!("cargo:rustc-cfg=ffmpeg_patched");
    }
    println!("cargo:rerun-if-changed=src/image/libjpeg.c");
    println!("cargo:rerun-if-changed=build.rs");
    let headers =
        std::env::var("DEP_TURBOJPEG_INCLUDE").expect("turbojpeg-sys sets its include folder");
    cc::Build::new()
        .file("src/image/libjpeg.c")
        .includes(headers.split(',').map(Path::new))
        .std("c11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("framespool_image");
}
