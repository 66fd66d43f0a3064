//! Opens libnvcuvid.so.1 at run time and wraps each of its functions to return a `Result`.
//! Owns no decoder or parser, and does not make a context current.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use crate::cuda::Driver;
use crate::error::with_cause;
use crate::sys;
use crate::{Error, Result};

macro_rules! table {
    ($($field:ident: $kind:ident = $symbol:literal;)*) => {
        struct FunctionTable { $($field: sys::$kind,)* }

        impl FunctionTable {
            fn load(library: &'static Library) -> Result<FunctionTable, String> {
                Ok(FunctionTable { $($field: {
                    // SAFETY: the header declares the symbol with this type (an Option of a
                    // function pointer, None if null); the library is never closed.
                    let symbol = unsafe { library.get::<sys::$kind>($symbol) };
                    *symbol.map_err(|error| format!("libnvcuvid.so.1 lacks a function ({}); install a newer driver", with_cause(&error)))?
                },)* })
            }
        }
    };
}

table! {
    get_decoder_caps: tcuvidGetDecoderCaps = b"cuvidGetDecoderCaps\0";
    create_decoder: tcuvidCreateDecoder = b"cuvidCreateDecoder\0";
    destroy_decoder: tcuvidDestroyDecoder = b"cuvidDestroyDecoder\0";
    decode_picture: tcuvidDecodePicture = b"cuvidDecodePicture\0";
    get_decode_status: tcuvidGetDecodeStatus = b"cuvidGetDecodeStatus\0";
    reconfigure_decoder: tcuvidReconfigureDecoder = b"cuvidReconfigureDecoder\0";
    map_video_frame: tcuvidMapVideoFrame64 = b"cuvidMapVideoFrame64\0";
    unmap_video_frame: tcuvidUnmapVideoFrame64 = b"cuvidUnmapVideoFrame64\0";
    create_video_parser: tcuvidCreateVideoParser = b"cuvidCreateVideoParser\0";
    parse_video_data: tcuvidParseVideoData = b"cuvidParseVideoData\0";
    destroy_video_parser: tcuvidDestroyVideoParser = b"cuvidDestroyVideoParser\0";
}

/// The functions of libnvcuvid. All but those of the parser need a current context.
pub(crate) struct Cuvid {
    table: FunctionTable,
    driver: &'static Driver,
}

/// Handle of a decoder; destroyed once, by its owner.
#[derive(Clone, Copy)]
pub(crate) struct RawDecoder(sys::CUvideodecoder);

/// Handle of a parser; destroyed once, by its owner.
#[derive(Clone, Copy)]
pub(crate) struct RawParser(sys::CUvideoparser);

// SAFETY: opaque handles of the driver, which may be used from any thread, by one at a time; owners
// ensure that through `&mut`.
unsafe impl Send for RawDecoder {}
// SAFETY: as above.
unsafe impl Send for RawParser {}

/// Calls a function of the table, or returns an error if the library has a null pointer for it.
macro_rules! call {
    ($cuvid:ident, $field:ident, $name:literal, $($argument:expr),*) => {{
        let function = $cuvid.table.$field.ok_or(Error::Misuse(concat!("libnvcuvid has no ", $name)))?;
        function($($argument),*)
    }};
}

impl Cuvid {
    /// Returns the library, opened once per process.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without CUDA, [`Error::NoNvcuvid`] if there is CUDA but no libnvcuvid.
    pub(crate) fn get() -> Result<&'static Cuvid> {
        static CUVID: OnceLock<Result<Cuvid, String>> = OnceLock::new();
        let driver = Driver::get()?;
        let open = || {
            Ok(Cuvid {
                table: FunctionTable::load(open_library()?)?,
                driver,
            })
        };
        CUVID
            .get_or_init(open)
            .as_ref()
            .map_err(|reason| Error::NoNvcuvid {
                reason: reason.clone(),
            })
    }

    pub(crate) fn decoder_caps(&self, caps: &mut sys::CUVIDDECODECAPS) -> Result<()> {
        // SAFETY: the struct has the header's layout, is zeroed except for the query, and outlives
        // the call.
        let code = unsafe { call!(self, get_decoder_caps, "cuvidGetDecoderCaps", caps) };
        self.driver.check("cuvidGetDecoderCaps", code)
    }

    pub(crate) fn create_decoder(
        &self,
        info: &mut sys::CUVIDDECODECREATEINFO,
    ) -> Result<RawDecoder> {
        let mut decoder = null_mut();
        // SAFETY: both structs outlive the call; the only pointer in the info is the lock, which is
        // null.
        let code = unsafe {
            call!(
                self,
                create_decoder,
                "cuvidCreateDecoder",
                &mut decoder,
                info
            )
        };
        self.driver.check("cuvidCreateDecoder", code)?;
        Ok(RawDecoder(decoder))
    }

    pub(crate) fn destroy_decoder(&self, decoder: RawDecoder) -> Result<()> {
        // SAFETY: called from the Drop of the only owner.
        let code = unsafe { call!(self, destroy_decoder, "cuvidDestroyDecoder", decoder.0) };
        self.driver.check("cuvidDestroyDecoder", code)
    }

    pub(crate) fn reconfigure_decoder(
        &self,
        decoder: RawDecoder,
        info: &mut sys::CUVIDRECONFIGUREDECODERINFO,
    ) -> Result<()> {
        // SAFETY: the decoder's owner holds it by `&mut`; the struct outlives the call and has no
        // pointers.
        let code = unsafe {
            call!(
                self,
                reconfigure_decoder,
                "cuvidReconfigureDecoder",
                decoder.0,
                info
            )
        };
        self.driver.check("cuvidReconfigureDecoder", code)
    }

    /// Enqueues a picture for decoding; blocks while the driver's queue is full.
    ///
    /// # Safety
    /// `picture` must be what the parser passed to the decode callback that is running: its
    /// pointers are valid until that returns.
    pub(crate) unsafe fn decode_picture(
        &self,
        decoder: RawDecoder,
        picture: &mut sys::CUVIDPICPARAMS,
    ) -> Result<()> {
        // SAFETY: the decoder's owner holds it by `&mut`; the pointers in `picture` are valid by
        // this function's contract.
        let code = unsafe {
            call!(
                self,
                decode_picture,
                "cuvidDecodePicture",
                decoder.0,
                picture
            )
        };
        self.driver.check("cuvidDecodePicture", code)
    }

    /// Waits until a picture is decoded and enqueues its conversion. Returns address and pitch of
    /// the result.
    pub(crate) fn map_frame(
        &self,
        decoder: RawDecoder,
        index: c_int,
        params: &mut sys::CUVIDPROCPARAMS,
    ) -> Result<(u64, usize)> {
        let (mut address, mut pitch) = (0, 0);
        // SAFETY: the decoder's owner holds it by `&mut`; all three structs outlive the call; the
        // stream in `params` is alive.
        let code = unsafe {
            call!(
                self,
                map_video_frame,
                "cuvidMapVideoFrame64",
                decoder.0,
                index,
                &mut address,
                &mut pitch,
                params
            )
        };
        self.driver.check("cuvidMapVideoFrame64", code)?;
        Ok((address, pitch as usize))
    }

    pub(crate) fn unmap_frame(&self, decoder: RawDecoder, address: u64) -> Result<()> {
        // SAFETY: the decoder's owner holds it by `&mut`; the driver returns an error code for a
        // wrong address.
        let code = unsafe {
            call!(
                self,
                unmap_video_frame,
                "cuvidUnmapVideoFrame64",
                decoder.0,
                address
            )
        };
        self.driver.check("cuvidUnmapVideoFrame64", code)
    }

    /// Decode status of a picture: 1 in progress, 2 success, 8 error, 9 concealed error.
    pub(crate) fn decode_status(&self, decoder: RawDecoder, index: c_int) -> Result<u32> {
        let mut status = sys::CUVIDGETDECODESTATUS::default();
        // SAFETY: the decoder's owner holds it by `&mut`; the struct outlives the call.
        let code = unsafe {
            call!(
                self,
                get_decode_status,
                "cuvidGetDecodeStatus",
                decoder.0,
                index,
                &mut status
            )
        };
        self.driver.check("cuvidGetDecodeStatus", code)?;
        Ok(status.decodeStatus)
    }

    /// # Safety
    /// `pUserData` must match what the callbacks in `parameters` expect, until the parser is
    /// destroyed.
    pub(crate) unsafe fn create_parser(
        &self,
        parameters: &mut sys::CUVIDPARSERPARAMS,
    ) -> Result<RawParser> {
        let mut parser = null_mut();
        // SAFETY: both structs outlive the call; the callbacks are valid by this function's
        // contract.
        let code = unsafe {
            call!(
                self,
                create_video_parser,
                "cuvidCreateVideoParser",
                &mut parser,
                parameters
            )
        };
        self.driver.check("cuvidCreateVideoParser", code)?;
        Ok(RawParser(parser))
    }

    /// Parses data and returns the driver's code; the callbacks run within this call.
    pub(crate) fn parse(
        &self,
        parser: RawParser,
        data: &[u8],
        flags: u32,
        timestamp: i64,
    ) -> Result<c_int> {
        let mut packet = sys::CUVIDSOURCEDATAPACKET {
            flags: flags.into(),
            payload_size: data.len() as sys::tcu_ulong,
            payload: if data.is_empty() {
                std::ptr::null()
            } else {
                data.as_ptr()
            },
            timestamp,
        };
        // SAFETY: the parser's owner holds it by `&mut`; the payload is readable for its size.
        Ok(unsafe {
            call!(
                self,
                parse_video_data,
                "cuvidParseVideoData",
                parser.0,
                &mut packet
            )
        })
    }

    pub(crate) fn destroy_parser(&self, parser: RawParser) -> Result<()> {
        // SAFETY: called from the Drop of the only owner.
        let code = unsafe {
            call!(
                self,
                destroy_video_parser,
                "cuvidDestroyVideoParser",
                parser.0
            )
        };
        self.driver.check("cuvidDestroyVideoParser", code)
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }
}

/// Names the folder of the driver's libraries, where the dynamic linker does not find them.
const FOLDER_VARIABLE: &str = "FRAMESPOOL_NVIDIA_DRIVER_DIR";

/// Opens the library by its name, then in the folder of the libcuda that this process uses, then in
/// the folder that the user names: some containers mount the driver in a folder of which only
/// libcuda is on the path.
fn open_library() -> Result<&'static Library, String> {
    let names = ["libnvcuvid.so.1", "libnvcuvid.so"];
    let folders = [
        folder_of_libcuda(),
        std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from),
    ];
    let in_folders = folders
        .into_iter()
        .flatten()
        .map(|folder| folder.join(names[0]));
    let mut reason = String::new();
    for path in names.map(PathBuf::from).into_iter().chain(in_folders) {
        // SAFETY: the initializers of NVIDIA's library may be run by dlopen at any time.
        match unsafe { Library::new(&path) } {
            // Never closed: the driver has its own threads and exit handlers.
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => reason += &format!("{}: {}. ", path.display(), with_cause(&error)),
        }
    }
    Err(format!(
        "{reason}It comes with the driver; a container needs NVIDIA_DRIVER_CAPABILITIES=video or all, and \
         {FOLDER_VARIABLE} can name the driver's folder"
    ))
}

/// The folder that the loaded libcuda was opened from.
fn folder_of_libcuda() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_libcuda = |path: &&Path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"))
    };
    paths
        .into_iter()
        .find(is_libcuda)
        .and_then(Path::parent)
        .map(Path::to_path_buf)
}
