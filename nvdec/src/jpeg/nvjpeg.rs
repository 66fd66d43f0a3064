//! Opens libnvjpeg at run time and wraps each of its functions to return a `Result`.
//! Handles are destroyed once, by their owners. It does not make a context current.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use super::plane_layout::ImageInfo;
use super::sys::{self, backend, output, status};
use crate::error::with_cause;
use crate::{Error, Result};

type Handle = *mut c_void;

/// Environment variable with the path of the library to open as libnvjpeg, instead of searching for
/// one.
const LIBRARY_VARIABLE: &str = "FRAMESPOOL_NVJPEG";

/// File names to search for. 12 comes first: drivers of CUDA 12 and of CUDA 13 support it.
const LIBRARY_NAMES: [&str; 4] = [
    "libnvjpeg.so.12",
    "libnvjpeg.so.13",
    "libnvjpeg.so.11",
    "libnvjpeg.so",
];

macro_rules! table {
    ($($field:ident = $symbol:literal : fn($($argument:ty),*);)*) => {
        struct FunctionTable { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl FunctionTable {
            fn load(library: &'static Library) -> Result<FunctionTable, String> {
                Ok(FunctionTable { $($field: {
                    // SAFETY: the type is that of the header for this symbol; the library is never
                    // closed.
                    let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol) };
                    *symbol.map_err(|error| format!("it lacks a required function ({}); install a newer one", with_cause(&error)))?
                },)* })
            }
        }
    };
}

table! {
    property = b"nvjpegGetProperty\0": fn(c_int, *mut c_int);
    create = b"nvjpegCreateEx\0": fn(c_int, *mut c_void, *mut c_void, c_uint, *mut Handle);
    engines = b"nvjpegGetHardwareDecoderInfo\0": fn(Handle, *mut c_uint, *mut c_uint);
    image_info = b"nvjpegGetImageInfo\0": fn(Handle, *const u8, usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    state_create = b"nvjpegJpegStateCreate\0": fn(Handle, *mut Handle);
    state_destroy = b"nvjpegJpegStateDestroy\0": fn(Handle);
    jpeg_stream_create = b"nvjpegJpegStreamCreate\0": fn(Handle, *mut Handle);
    jpeg_stream_destroy = b"nvjpegJpegStreamDestroy\0": fn(Handle);
    jpeg_stream_parse_header = b"nvjpegJpegStreamParseHeader\0": fn(Handle, *const u8, usize, Handle);
    supported = b"nvjpegDecodeBatchedSupported\0": fn(Handle, Handle, *mut c_int);
    batched_initialize = b"nvjpegDecodeBatchedInitialize\0": fn(Handle, Handle, c_int, c_int, c_int);
    decode_batched = b"nvjpegDecodeBatched\0": fn(Handle, Handle, *const *const u8, *const usize, *mut sys::Image, *mut c_void);
    decode = b"nvjpegDecode\0": fn(Handle, Handle, *const u8, usize, c_int, *mut sys::Image, *mut c_void);
}

/// A decoding backend of nvJPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// The JPEG engines of A100, A30, Hopper, Ada data center cards and Blackwell.
    Hardware,
    /// Everything on the GPU's ordinary units, with the CPU's help for Huffman codes. Used only on
    /// request: which of the two hybrid backends is faster for single images has not been measured.
    GpuHybrid,
    /// Huffman codes on the CPU, the rest on the GPU's ordinary units; supports progressive files
    /// too.
    Hybrid,
}

impl Backend {
    fn to_raw(self) -> c_int {
        match self {
            Backend::Hardware => backend::HARDWARE,
            Backend::GpuHybrid => backend::GPU_HYBRID,
            Backend::Hybrid => backend::HYBRID,
        }
    }
}

/// An instance of the library for one device and backend. Any thread may use it. Like the device's
/// context, it is never destroyed.
#[derive(Clone, Copy)]
pub(crate) struct Instance {
    raw: Handle,
    pub backend: Backend,
}

/// State of one decoding operation between its calls; used by one thread at a time. Destroyed once,
/// by its owner.
pub(crate) struct RawState(Handle);

/// A parsed header; used by one thread at a time. Destroyed once, by its owner.
pub(crate) struct RawJpegStream(Handle);

// SAFETY: an opaque pointer of the library. Its documentation allows any thread to use an instance,
// also concurrently.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}
// SAFETY: opaque; may be used from any thread, by one at a time, which owners ensure by `&mut`.
unsafe impl Send for RawState {}
// SAFETY: as above.
unsafe impl Send for RawJpegStream {}

/// The functions of libnvjpeg. All but `version` need a current context.
pub(crate) struct Nvjpeg {
    table: FunctionTable,
    /// The name or path that it was opened with.
    name: String,
}

/// Describes where libnvjpeg was found and its version, such as "libnvjpeg.so.12, version 12.4.0".
///
/// # Errors
/// [`Error::NoNvjpeg`] with the reason. Does not check whether a GPU can be used with it.
pub fn available() -> Result<String> {
    Nvjpeg::get().map(|nvjpeg| format!("{}, version {}", nvjpeg.name, nvjpeg.version()))
}

impl Nvjpeg {
    /// Returns the library, opened once per process; the result, also a failure, is cached.
    pub(super) fn get() -> Result<&'static Nvjpeg> {
        static NVJPEG: OnceLock<Result<Nvjpeg, String>> = OnceLock::new();
        NVJPEG
            .get_or_init(open)
            .as_ref()
            .map_err(|reason| Error::NoNvjpeg {
                reason: reason.clone(),
            })
    }

    fn version(&self) -> String {
        let part = |which: c_int| {
            let mut value = -1;
            // SAFETY: the out-parameter outlives the call; 0, 1, 2 are major, minor and patch
            // level.
            match unsafe { (self.table.property)(which, &mut value) } {
                status::SUCCESS => value.to_string(),
                _ => "?".to_owned(),
            }
        };
        format!("{}.{}.{}", part(0), part(1), part(2))
    }

    pub(super) fn create(&self, backend: Backend) -> Result<Instance> {
        let mut raw = null_mut();
        // SAFETY: no allocators of ours (null: the library's own), no flags; the out-parameter
        // outlives the call.
        let code = unsafe {
            (self.table.create)(
                backend.to_raw(),
                null_mut(),
                null_mut(),
                sys::FLAGS_DEFAULT,
                &mut raw,
            )
        };
        check("nvjpegCreateEx", code)?;
        Ok(Instance { raw, backend })
    }

    /// How many JPEG engines the instance has. Informational: older libraries may not report it.
    pub(super) fn engines(&self, instance: Instance) -> Result<u32> {
        let (mut engines, mut cores) = (0, 0);
        // SAFETY: the instance is never destroyed; the out-parameters outlive the call.
        let code = unsafe { (self.table.engines)(instance.raw, &mut engines, &mut cores) };
        check("nvjpegGetHardwareDecoderInfo", code)?;
        Ok(engines)
    }

    /// Reads the library's view of a file's header.
    pub(crate) fn image_info(&self, instance: Instance, file: &[u8]) -> Result<ImageInfo> {
        let (mut components, mut subsampling) = (0, -1);
        let (mut widths, mut heights) = ([0; sys::MAX_COMPONENT], [0; sys::MAX_COMPONENT]);
        // SAFETY: the file is readable for its length; both arrays have the length that the header
        // requires.
        let code = unsafe {
            (self.table.image_info)(
                instance.raw,
                file.as_ptr(),
                file.len(),
                &mut components,
                &mut subsampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        check("nvjpegGetImageInfo", code)?;
        Ok(ImageInfo {
            components,
            subsampling,
            sizes: std::array::from_fn(|i| (widths[i], heights[i])),
        })
    }

    pub(crate) fn create_state(&self, instance: Instance) -> Result<RawState> {
        let mut raw = null_mut();
        // SAFETY: the instance is never destroyed; the out-parameter outlives the call.
        check("nvjpegJpegStateCreate", unsafe {
            (self.table.state_create)(instance.raw, &mut raw)
        })?;
        Ok(RawState(raw))
    }

    /// Called from the Drop of the only owner, when no work of the state is in flight.
    pub(crate) fn destroy_state(&self, state: &mut RawState) -> Result<()> {
        // SAFETY: the owner's last use of it.
        check("nvjpegJpegStateDestroy", unsafe {
            (self.table.state_destroy)(state.0)
        })
    }

    pub(crate) fn create_jpeg_stream(&self, instance: Instance) -> Result<RawJpegStream> {
        let mut raw = null_mut();
        // SAFETY: as for a state.
        check("nvjpegJpegStreamCreate", unsafe {
            (self.table.jpeg_stream_create)(instance.raw, &mut raw)
        })?;
        Ok(RawJpegStream(raw))
    }

    /// Called from the Drop of the only owner.
    pub(crate) fn destroy_jpeg_stream(&self, jpeg_stream: &mut RawJpegStream) -> Result<()> {
        // SAFETY: the owner's last use of it.
        check("nvjpegJpegStreamDestroy", unsafe {
            (self.table.jpeg_stream_destroy)(jpeg_stream.0)
        })
    }

    /// Whether the instance's batched decoding supports a file.
    pub(super) fn supports(
        &self,
        instance: Instance,
        jpeg_stream: &mut RawJpegStream,
        file: &[u8],
    ) -> Result<bool> {
        // SAFETY: the header's owner holds it by `&mut`; the file is readable for its length. The
        // library uses the file's bytes only until the next call: nothing of the file is kept (no
        // metadata, no stream).
        let code = unsafe {
            (self.table.jpeg_stream_parse_header)(
                instance.raw,
                file.as_ptr(),
                file.len(),
                jpeg_stream.0,
            )
        };
        check("nvjpegJpegStreamParseHeader", code)?;
        let mut refused = -1;
        // SAFETY: as above; the out-parameter outlives the call. 0 means yes.
        let code = unsafe { (self.table.supported)(instance.raw, jpeg_stream.0, &mut refused) };
        check("nvjpegDecodeBatchedSupported", code)?;
        Ok(refused == 0)
    }

    /// Prepares a state for batches of one image, of luma alone or with chroma.
    pub(super) fn initialize_batched(
        &self,
        instance: Instance,
        state: &mut RawState,
        is_gray: bool,
    ) -> Result<()> {
        // SAFETY: the state's owner holds it by `&mut`, and no work of it is in flight: decoders
        // wait before they call.
        let code = unsafe {
            (self.table.batched_initialize)(
                instance.raw,
                state.0,
                1,
                1,
                if is_gray { output::Y } else { output::YUV },
            )
        };
        check("nvjpegDecodeBatchedInitialize", code)
    }

    /// Starts decoding: a batch of one with the hardware backend, whose calls are the batched ones,
    /// else one image.
    ///
    /// # Safety
    /// Until the host knows that this decoding is complete: `file` stays readable and unchanged,
    /// the planes in `image` stay allocated, only work after it in the stream accesses them, and
    /// the stream stays alive.
    pub(super) unsafe fn decode(
        &self,
        instance: Instance,
        state: &mut RawState,
        file: &[u8],
        is_gray: bool,
        image: &sys::Image,
        stream: u64,
    ) -> Result<()> {
        let mut image = *image;
        let stream = stream as usize as *mut c_void;
        let (data, len) = (file.as_ptr(), file.len());
        if instance.backend == Backend::Hardware {
            // SAFETY: the state's owner holds it by `&mut` and prepared it for batches of one, so
            // arrays of length one suffice. The rest is this function's contract.
            let code = unsafe {
                (self.table.decode_batched)(instance.raw, state.0, &data, &len, &mut image, stream)
            };
            return check("nvjpegDecodeBatched", code);
        }
        let format = if is_gray { output::Y } else { output::YUV };
        // SAFETY: as above, without arrays.
        let code = unsafe {
            (self.table.decode)(instance.raw, state.0, data, len, format, &mut image, stream)
        };
        check("nvjpegDecode", code)
    }
}

/// Converts a status to an error, chosen by who must act.
fn check(call: &'static str, code: c_int) -> Result<()> {
    let name = status::name(code);
    Err(match code {
        status::SUCCESS => return Ok(()),
        status::BAD_JPEG | status::INCOMPLETE_BITSTREAM => Error::BadJpeg {
            reason: format!("{call} returned {code} {name}"),
        },
        status::JPEG_NOT_SUPPORTED
        | status::ARCH_MISMATCH
        | status::IMPLEMENTATION_NOT_SUPPORTED => Error::Unsupported {
            reason: format!("nvJPEG does not support this here: {call} returned {code} {name}"),
        },
        status::ALLOCATOR_FAILURE => Error::OutOfMemory {
            what: call.to_owned(),
            bytes: 0,
        },
        _ => Error::Nvjpeg {
            call,
            status: code,
            name,
        },
    })
}

fn open() -> Result<Nvjpeg, String> {
    let (library, name) = open_library(std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from))?;
    // Never closed: the library has its own threads and exit handlers.
    let table = FunctionTable::load(Box::leak(Box::new(library)))
        .map_err(|reason| format!("{name}: {reason}"))?;
    Ok(Nvjpeg { table, name })
}

fn open_library(named: Option<PathBuf>) -> Result<(Library, String), String> {
    if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
        // SAFETY: the initializers of NVIDIA's library may be run by dlopen. That the file is this
        // library is the responsibility of the user who sets the variable.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(|e| {
            format!(
                "{LIBRARY_VARIABLE} names {}: {}",
                path.display(),
                with_cause(&e)
            )
        })?;
        return Ok((library, path.display().to_string()));
    }
    // Preferred: one that this process has already loaded, as torch loads its bundled one. Its CUDA
    // is known to work here.
    if let Some(found) = LIBRARY_NAMES
        .into_iter()
        .find_map(|name| Some((loaded(name)?, name.to_owned())))
    {
        return Ok(found);
    }
    let mut reason = String::new();
    for name in LIBRARY_NAMES {
        // SAFETY: as above.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok((library, name.to_owned())),
            Err(error) => reason += &format!("{}. ", with_cause(&error)),
        }
    }
    Err(reason
        + "It comes with the CUDA toolkit and with the Python package nvidia-nvjpeg-cu12, and is found where the loader looks, where \
           the process has loaded it, or where "
        + LIBRARY_VARIABLE
        + " names its file")
}

/// Opens a library only if it is already loaded, by its soname.
#[cfg(target_os = "linux")]
fn loaded(name: &str) -> Option<Library> {
    use libloading::os::unix::{Library as Unix, RTLD_LAZY, RTLD_LOCAL};
    /// RTLD_NOLOAD of dlfcn.h: open it only if it is loaded.
    const RTLD_NOLOAD: c_int = 4;
    // SAFETY: nothing is loaded, so no initializer runs.
    unsafe { Unix::open(Some(name), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL) }
        .ok()
        .map(Library::from)
}

#[cfg(not(target_os = "linux"))]
fn loaded(_name: &str) -> Option<Library> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_a_reason_not_a_panic() {
        let reason = open_library(Some("/no/such/libnvjpeg.so".into())).expect_err("there is none");
        assert!(
            reason.contains(LIBRARY_VARIABLE) && reason.contains("/no/such/libnvjpeg.so"),
            "{reason}"
        );
        match (available(), available()) {
            (Ok(one), Ok(other)) => assert_eq!(one, other),
            (Err(Error::NoNvjpeg { reason }), Err(again)) => {
                assert!(
                    reason.contains("libnvjpeg.so.12") || reason.contains(LIBRARY_VARIABLE),
                    "{reason}"
                );
                assert!(again.to_string().contains("CPU"), "{again}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statuses_say_who_must_act() {
        assert_eq!(check("call", status::SUCCESS), Ok(()));
        for (code, about_file) in [
            (3, true),
            (10, true),
            (4, true),
            (7, true),
            (9, true),
            (6, false),
            (8, false),
            (1, false),
        ] {
            let error = check("nvjpegDecode", code).unwrap_err();
            assert_eq!(error.is_about_stream(), about_file, "{error}");
            assert!(
                error.to_string().contains(&code.to_string()) && error.to_string().contains("CPU"),
                "{error}"
            );
        }
        assert!(
            check("nvjpegDecode", status::ALLOCATOR_FAILURE)
                .unwrap_err()
                .is_out_of_memory()
        );
        assert!(
            check("nvjpegDecode", 77)
                .unwrap_err()
                .to_string()
                .contains("newer")
        );
    }
}
