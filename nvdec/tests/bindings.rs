//! Generates `src/sys/bindings.rs` again from cuviddec.h and nvcuvid.h and compares it with the
//! committed file; FRAMESPOOL_WRITE_BINDINGS=1 writes it instead. Without the headers (Debian:
//! libffmpeg-nvenc-dev) or libclang it prints the reason and passes.

use std::fmt::Write as _;
use std::path::Path;

const HEADERS: &str = "/usr/include/ffnvcodec";
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sys/bindings.rs");

/// Handles of libcuda that appear in nvcuvid's structs; what is behind them is cuda.h's business.
const HANDLES: [&str; 3] = ["CUcontext", "CUstream", "CUvideoctxlock"];

/// Parameters of codecs that nothing here looks into.
const OPAQUE: [&str; 7] = ["MPEG2", "VC1", "MPEG4", "JPEG", "VP8", "VP9", "AV1"];

const FUNCTIONS: [&str; 11] = [
    "GetDecoderCaps",
    "CreateDecoder",
    "DestroyDecoder",
    "DecodePicture",
    "GetDecodeStatus",
    "ReconfigureDecoder",
    "MapVideoFrame64",
    "UnmapVideoFrame64",
    "CreateVideoParser",
    "ParseVideoData",
    "DestroyVideoParser",
];

#[test]
fn committed_bindings_are_what_the_headers_give() {
    let header = match std::fs::read_to_string(Path::new(HEADERS).join("dynlink_nvcuvid.h")) {
        Ok(text) => text,
        Err(error) => {
            panic!("{HEADERS}: {error}; run scripts/setup.sh tests, or install libffmpeg-nvenc-dev")
        }
    };
    let made = generate(&header);
    if std::env::var_os("FRAMESPOOL_WRITE_BINDINGS").is_some() {
        std::fs::write(COMMITTED, made).expect("the source tree can be written");
        return;
    }
    let committed = std::fs::read_to_string(COMMITTED).expect("the bindings are committed");
    assert!(
        tokens(&committed) == tokens(&made),
        "the headers give other bindings than {COMMITTED}; if that is meant, run this test with FRAMESPOOL_WRITE_BINDINGS=1"
    );
}

fn generate(header: &str) -> String {
    let end = header
        .find("*/")
        .expect("the header begins with its licence")
        + 2;
    let mut licence = String::from(
        "// Made by tests/bindings.rs from nvcuvid.h and cuviddec.h. Their licence:\n//\n",
    );
    for line in header[..end].lines() {
        let line = line
            .trim()
            .trim_start_matches("/*")
            .trim_end_matches("*/")
            .trim_start_matches('*')
            .trim();
        writeln!(licence, "{}", format!("// {line}").trim_end()).expect("a string takes it");
    }
    let mut builder = bindgen::Builder::default()
        .header_contents(
            "nvdec.h",
            "#include <dynlink_cuda.h>\n#include <dynlink_nvcuvid.h>\n",
        )
        .clang_arg(format!("-I{HEADERS}"))
        .use_core()
        .generate_comments(false)
        .layout_tests(true)
        .derive_debug(false)
        .derive_default(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .blocklist_type("CUresult|cudaError_enum|_CUcontextlock_st")
        .raw_line("pub type CUresult = ::core::ffi::c_int;")
        .allowlist_type("CUVID(PICPARAMS|PARSERPARAMS|EOFORMATEX|SOURCEDATAPACKET|PARSERDISPINFO)")
        .allowlist_type(
            "CUVID(DECODECAPS|DECODECREATEINFO|RECONFIGUREDECODERINFO|GETDECODESTATUS|PROCPARAMS)",
        )
        .allowlist_type("cudaVideo.*|cuvidDecodeStatus|CUvideopacketflags");
    for handle in HANDLES {
        builder = builder
            .blocklist_type(handle)
            .raw_line(format!("pub type {handle} = *mut ::core::ffi::c_void;"));
    }
    for codec in OPAQUE {
        builder = builder.opaque_type(format!("CUVID{codec}PICPARAMS"));
    }
    for function in FUNCTIONS {
        builder = builder.allowlist_type(format!("tcuvid{function}"));
    }
    licence + "\n" + &builder.generate().expect("the headers are C").to_string()
}

/// The text without what rustfmt and the version of bindgen may set otherwise.
fn tokens(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("/* automatically generated"));
    lines
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace() && *c != ',')
        .collect()
}
