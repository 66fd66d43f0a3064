//! Compares every number, layout and function type of `jpeg::sys` and `jpeg::nvjpeg` with nvjpeg.h,
//! by a C compiler.
//!
//! FRAMESPOOL_NVJPEG_HEADER names the header (PyPI's nvidia-nvjpeg-cu11, -cu12 and nvidia-nvjpeg
//! contain it in include/). If it is not set, the test prints so and succeeds. The header is
//! proprietary, so no copy is kept here.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::process::Command;

use framespool_nvdec::jpeg::sys::{
    FLAGS_DEFAULT, Image, MAX_COMPONENT, backend, output, status, subsampling,
};

/// The declarations that the header takes from CUDA's headers.
const CUDA: &str = "#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef enum { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
";

/// The functions that are called, with the types that `nvjpeg.rs` declares: handles are pointers
/// there, enums and int are c_int.
const FUNCTIONS: [(&str, &str); 13] = [
    ("nvjpegGetProperty", "libraryPropertyType, int *"),
    (
        "nvjpegCreateEx",
        "nvjpegBackend_t, nvjpegDevAllocator_t *, nvjpegPinnedAllocator_t *, unsigned int, nvjpegHandle_t *",
    ),
    (
        "nvjpegGetHardwareDecoderInfo",
        "nvjpegHandle_t, unsigned int *, unsigned int *",
    ),
    (
        "nvjpegGetImageInfo",
        "nvjpegHandle_t, const unsigned char *, size_t, int *, nvjpegChromaSubsampling_t *, int *, int *",
    ),
    (
        "nvjpegJpegStateCreate",
        "nvjpegHandle_t, nvjpegJpegState_t *",
    ),
    ("nvjpegJpegStateDestroy", "nvjpegJpegState_t"),
    (
        "nvjpegJpegStreamCreate",
        "nvjpegHandle_t, nvjpegJpegStream_t *",
    ),
    ("nvjpegJpegStreamDestroy", "nvjpegJpegStream_t"),
    (
        "nvjpegJpegStreamParseHeader",
        "nvjpegHandle_t, const unsigned char *, size_t, nvjpegJpegStream_t",
    ),
    (
        "nvjpegDecodeBatchedSupported",
        "nvjpegHandle_t, nvjpegJpegStream_t, int *",
    ),
    (
        "nvjpegDecodeBatchedInitialize",
        "nvjpegHandle_t, nvjpegJpegState_t, int, int, nvjpegOutputFormat_t",
    ),
    (
        "nvjpegDecodeBatched",
        "nvjpegHandle_t, nvjpegJpegState_t, const unsigned char *const *, const size_t *, nvjpegImage_t *, cudaStream_t",
    ),
    (
        "nvjpegDecode",
        "nvjpegHandle_t, nvjpegJpegState_t, const unsigned char *, size_t, nvjpegOutputFormat_t, nvjpegImage_t *, cudaStream_t",
    ),
];

fn numbers() -> Vec<(&'static str, i64)> {
    let statuses = [
        status::SUCCESS,
        status::NOT_INITIALIZED,
        status::INVALID_PARAMETER,
        status::BAD_JPEG,
        status::JPEG_NOT_SUPPORTED,
        status::ALLOCATOR_FAILURE,
        status::EXECUTION_FAILED,
        status::ARCH_MISMATCH,
        status::INTERNAL_ERROR,
        status::IMPLEMENTATION_NOT_SUPPORTED,
        status::INCOMPLETE_BITSTREAM,
    ];
    let mut all: Vec<(&str, i64)> = statuses
        .iter()
        .map(|&code| (status::name(code), code.into()))
        .collect();
    let others = [
        ("NVJPEG_BACKEND_HYBRID", backend::HYBRID),
        ("NVJPEG_BACKEND_GPU_HYBRID", backend::GPU_HYBRID),
        ("NVJPEG_BACKEND_HARDWARE", backend::HARDWARE),
        ("NVJPEG_OUTPUT_YUV", output::YUV),
        ("NVJPEG_OUTPUT_Y", output::Y),
        ("NVJPEG_CSS_444", subsampling::S444),
        ("NVJPEG_CSS_422", subsampling::S422),
        ("NVJPEG_CSS_420", subsampling::S420),
        ("NVJPEG_CSS_440", subsampling::S440),
        ("NVJPEG_CSS_411", subsampling::S411),
        ("NVJPEG_CSS_410", subsampling::S410),
        ("NVJPEG_CSS_GRAY", subsampling::GRAY),
        ("NVJPEG_FLAGS_DEFAULT", FLAGS_DEFAULT as i32),
        ("NVJPEG_MAX_COMPONENT", MAX_COMPONENT as i32),
    ];
    all.extend(others.map(|(name, number)| (name, i64::from(number))));
    all
}

/// C code that compiles only if the header agrees with the declarations here.
fn claims(spoil: i64) -> String {
    let mut text = String::from("#include <nvjpeg.h>\n#include <stddef.h>\n");
    for (name, number) in numbers() {
        let _ = writeln!(
            text,
            "_Static_assert({name} == {}, \"{name}\");",
            number + spoil
        );
    }
    let (size, pitch) = (size_of::<Image>(), offset_of!(Image, pitch));
    let _ = writeln!(
        text,
        "_Static_assert(sizeof(nvjpegImage_t) == {size}, \"size\");"
    );
    let _ = writeln!(
        text,
        "_Static_assert(offsetof(nvjpegImage_t, pitch) == {pitch}, \"pitch\");"
    );
    let _ = writeln!(
        text,
        "_Static_assert(sizeof(nvjpegStatus_t) == sizeof(int), \"enums\");"
    );
    let _ = writeln!(
        text,
        "_Static_assert(sizeof(nvjpegChromaSubsampling_t) == sizeof(int), \"enums\");"
    );
    for (name, arguments) in FUNCTIONS {
        let _ = writeln!(
            text,
            "_Static_assert(__builtin_types_compatible_p(__typeof__(&{name}), nvjpegStatus_t (*)({arguments})), \"{name}\");"
        );
    }
    text
}

#[test]
#[ignore = "needs NVIDIA's header: scripts/kernels.py nvjpeg runs it"]
fn declarations_match_the_header() {
    let header = std::env::var_os("FRAMESPOOL_NVJPEG_HEADER").map(PathBuf::from);
    let header = header.expect("FRAMESPOOL_NVJPEG_HEADER names an nvjpeg.h");
    let folder = std::env::temp_dir().join(format!("framespool-nvjpeg-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::copy(&header, folder.join("nvjpeg.h")).expect("the header that the variable names");
    std::fs::write(folder.join("cuda_runtime_api.h"), CUDA).expect("it can be written");
    std::fs::write(folder.join("library_types.h"), "").expect("it can be written");
    let compile = |text: String| {
        let file = folder.join("claims.c");
        std::fs::write(&file, text).expect("it can be written");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command
            .args(["-std=gnu11", "-Wno-attributes", "-fsyntax-only", "-I"])
            .arg(&folder)
            .arg(&file);
        command.output().expect("a C compiler")
    };
    let (good, bad) = (compile(claims(0)), compile(claims(1)));
    let _ = std::fs::remove_dir_all(&folder);
    assert!(
        good.status.success(),
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    let text = String::from_utf8_lossy(&bad.stderr);
    assert!(
        !bad.status.success() && text.contains("static assertion"),
        "wrong numbers are accepted: {text}"
    );
}
