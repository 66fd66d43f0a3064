//! Decodes JPEG files with libjpeg, through the C functions in `libjpeg.c`.
//! libjpeg never calls Rust code, and never writes outside the memory that it is given.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

// Linked for its static library, which provides the libjpeg interface that `libjpeg.c` calls.
use turbojpeg_sys as _;

/// One plane, as libjpeg writes it: whole blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JpegPlane {
    pub row_bytes: u32,
    pub rows: u32,
    pub log2_w: u32,
    pub log2_h: u32,
}

/// The same struct as in `libjpeg.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawJpegInfo {
    full_width: u32,
    full_height: u32,
    width: u32,
    height: u32,
    layout: u32,
    planes: [JpegPlane; 3],
}

#[repr(C)]
struct RawDecoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn framespool_jpeg_new() -> *mut RawDecoder;
    fn framespool_jpeg_free(decoder: *mut RawDecoder);
    fn framespool_jpeg_message(decoder: *const RawDecoder) -> *const c_char;
    fn framespool_jpeg_open(
        decoder: *mut RawDecoder,
        data: *const u8,
        len: usize,
        scale: c_int,
        exact: c_int,
        scan_limit: c_int,
        max_memory: c_long,
        info: *mut RawJpegInfo,
    ) -> c_int;
    fn framespool_jpeg_close(decoder: *mut RawDecoder);
    fn framespool_jpeg_read(
        decoder: *mut RawDecoder,
        planes: *const *mut u8,
        strides: *const usize,
        first: usize,
        end: usize,
    ) -> c_int;
}

/// Color components of a JPEG and their layout in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JpegLayout {
    /// One plane.
    Gray,
    /// Y, Cb, Cr planes.
    Yuv,
    /// R, G, B bytes side by side.
    Rgb,
    /// C, M, Y, K bytes side by side, as stored.
    Cmyk,
}

/// Sizes of an opened picture.
#[derive(Clone, Debug)]
pub(super) struct JpegInfo {
    /// Full size, as stored.
    pub full: (u32, u32),
    /// Width at the requested scale.
    pub width: u32,
    /// Height at the requested scale.
    pub height: u32,
    pub layout: JpegLayout,
    planes: [JpegPlane; 3],
}

impl JpegInfo {
    /// The planes that are used.
    pub(super) fn planes(&self) -> &[JpegPlane] {
        &self.planes[..if self.layout == JpegLayout::Yuv { 3 } else { 1 }]
    }
}

/// Why libjpeg did not decode the picture, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JpegError {
    Damaged(String),
    Unsupported(String),
    Limit(String),
    Bug(String),
}

/// Resource limits of a picture, and how it is to be decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct JpegParams {
    /// Divisor of the size: 1, 2, 4 or 8.
    pub scale: u8,
    /// RGB rather than planes.
    pub exact: bool,
    pub scan_limit: u16,
    /// Maximum memory of libjpeg itself, mostly for the coefficients of progressive files.
    pub memory_bytes: u64,
}

/// libjpeg's decompressor. No state of a picture, not even its tables, is kept for the next one.
pub(super) struct Decompressor(NonNull<RawDecoder>);

// SAFETY: libjpeg keeps no state outside its struct that depends on the thread; `&mut self` keeps
// threads apart.
unsafe impl Send for Decompressor {}

impl Decompressor {
    /// `None` when out of memory.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: no arguments.
        NonNull::new(unsafe { framespool_jpeg_new() }).map(Self)
    }

    /// Reads the header.
    pub(super) fn open<'a>(
        &'a mut self,
        bytes: &'a [u8],
        params: JpegParams,
    ) -> Result<OpenJpeg<'a>, JpegError> {
        let mut raw = RawJpegInfo::default();
        // SAFETY: the decompressor is alive; libjpeg keeps the pointer to `bytes`, which `OpenJpeg`
        // borrows until it has read or closed; `raw` is the struct that the C side fills, and
        // outlives the call.
        let status = unsafe {
            framespool_jpeg_open(
                self.0.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
                c_int::from(params.scale),
                c_int::from(params.exact),
                c_int::from(params.scan_limit),
                c_long::try_from(params.memory_bytes).unwrap_or(c_long::MAX),
                &mut raw,
            )
        };
        self.check(status)?;
        let layout = match raw.layout {
            1 => JpegLayout::Gray,
            2 => JpegLayout::Yuv,
            3 => JpegLayout::Rgb,
            _ => JpegLayout::Cmyk,
        };
        let info = JpegInfo {
            full: (raw.full_width, raw.full_height),
            width: raw.width,
            height: raw.height,
            layout,
            planes: raw.planes,
        };
        Ok(OpenJpeg {
            decompressor: self,
            info,
            open: true,
            bytes: PhantomData,
        })
    }

    fn check(&self, status: c_int) -> Result<(), JpegError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a NUL-terminated string inside the live struct, copied before anything writes
        // there again.
        let message = unsafe { CStr::from_ptr(framespool_jpeg_message(self.0.as_ptr())) }
            .to_string_lossy()
            .into_owned();
        Err(match status {
            1 => JpegError::Damaged(message),
            2 => JpegError::Unsupported(message),
            3 => JpegError::Limit(message),
            _ => JpegError::Bug(message),
        })
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: made by `framespool_jpeg_new`, freed once.
        unsafe { framespool_jpeg_free(self.0.as_ptr()) }
    }
}

/// A picture whose header was read.
pub(super) struct OpenJpeg<'a> {
    decompressor: &'a mut Decompressor,
    info: JpegInfo,
    open: bool,
    bytes: PhantomData<&'a [u8]>,
}

impl OpenJpeg<'_> {
    pub(super) fn info(&self) -> &JpegInfo {
        &self.info
    }

    /// Decodes into `planes`, one for each plane of the info, with rows `strides` bytes apart. Of
    /// gray and YUV planes, only the pixels of `rows` are defined.
    pub(super) fn read(
        mut self,
        planes: &mut [&mut [u8]],
        strides: &[usize],
        rows: Range<u32>,
    ) -> Result<JpegInfo, JpegError> {
        let wanted = self.info.planes();
        if planes.len() != wanted.len() || strides.len() != wanted.len() {
            return Err(JpegError::Bug(format!(
                "{} planes provided, {} needed",
                planes.len(),
                wanted.len()
            )));
        }
        let mut pointers = [std::ptr::null_mut(); 3];
        let mut distances = [0; 3];
        for (n, plane) in wanted.iter().enumerate() {
            let (rows, row_bytes) = (plane.rows as usize, plane.row_bytes as usize);
            if strides[n] < row_bytes
                || strides[n]
                    .checked_mul(rows)
                    .is_none_or(|need| need > planes[n].len())
            {
                return Err(JpegError::Bug(format!(
                    "plane {n} has {} bytes, too few",
                    planes[n].len()
                )));
            }
            pointers[n] = planes[n].as_mut_ptr();
            distances[n] = strides[n];
        }
        self.open = false;
        // SAFETY: the decompressor is open on bytes that `self` still borrows; it writes
        // `row_bytes` into each of `rows` rows of each plane, which the loop above found to be
        // inside the slices, and those are borrowed exclusively.
        let status = unsafe {
            let (first, end) = (rows.start as usize, rows.end as usize);
            framespool_jpeg_read(
                self.decompressor.0.as_ptr(),
                pointers.as_ptr(),
                distances.as_ptr(),
                first,
                end,
            )
        };
        self.decompressor.check(status)?;
        Ok(self.info.clone())
    }
}

impl Drop for OpenJpeg<'_> {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: alive, and open on a picture that is not read any more.
            unsafe { framespool_jpeg_close(self.decompressor.0.as_ptr()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn media() -> PathBuf {
        let folder = std::env::var_os("FRAMESPOOL_MEDIA").map(PathBuf::from);
        folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/target/media").into())
    }

    /// Every image of the test media and of the corpus, the damaged ones included.
    fn files() -> Vec<(PathBuf, Vec<u8>)> {
        let corpus = std::env::var_os("FRAMESPOOL_CORPUS")
            .filter(|name| !name.is_empty())
            .map(PathBuf::from);
        let roots = [Some(media()), corpus].into_iter().flatten();
        let mut folders: Vec<_> = roots.map(|root| root.join("images")).collect();
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder);
            let entries = entries.unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; run scripts/setup.sh tests, which makes the media",
                    folder.display()
                )
            });
            for path in entries.map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found
    }

    #[test]
    fn libjpeg_writes_only_the_given_planes() {
        let mut decompressor = Decompressor::new().unwrap();
        let mut layouts = std::collections::BTreeSet::new();
        let files = files();
        // libjpeg does not scale lossless pictures; `jpeg::check_supported` rejects those.
        for (path, bytes) in files
            .iter()
            .filter(|(path, _)| !path.to_string_lossy().contains("lossless"))
        {
            for (scale, exact) in [1, 2, 4, 8]
                .into_iter()
                .flat_map(|k| [(k, false), (k, true)])
            {
                let params = JpegParams {
                    scale,
                    exact,
                    scan_limit: 100,
                    memory_bytes: 1 << 30,
                };
                let Ok(opened) = decompressor.open(bytes, params) else {
                    continue;
                };
                let info = opened.info().clone();
                drop(opened);
                // Of larger pictures only the header is read.
                let samples = u64::from(info.full.0) * u64::from(info.full.1);
                if samples > crate::limits::Limits::default().picture_samples {
                    continue;
                }
                let k = u32::from(scale);
                assert_eq!(
                    (info.width, info.height),
                    (info.full.0.div_ceil(k), info.full.1.div_ceil(k))
                );
                for plane in info.planes() {
                    let wide = match info.layout {
                        JpegLayout::Gray | JpegLayout::Yuv => 1,
                        JpegLayout::Rgb => 3,
                        JpegLayout::Cmyk => 4,
                    };
                    assert!(
                        plane.row_bytes >= info.width.div_ceil(1 << plane.log2_w) * wide,
                        "{path:?}"
                    );
                    assert!(
                        plane.rows >= info.height.div_ceil(1 << plane.log2_h),
                        "{path:?}"
                    );
                }
                // Strides larger than the rows, and one row more than needed.
                let strides: Vec<usize> = info
                    .planes()
                    .iter()
                    .map(|p| p.row_bytes as usize + 7)
                    .collect();
                let rows: Vec<usize> = info.planes().iter().map(|p| p.rows as usize).collect();
                let mut twice = Vec::new();
                for canary in [0x5a, 0xa5] {
                    let mut planes: Vec<Vec<u8>> = strides
                        .iter()
                        .zip(&rows)
                        .map(|(stride, rows)| vec![canary; stride * (rows + 1)])
                        .collect();
                    let Ok(opened) = decompressor.open(bytes, params) else {
                        panic!("it opened before")
                    };
                    let mut lent: Vec<&mut [u8]> =
                        planes.iter_mut().map(|plane| &mut plane[..]).collect();
                    if opened.read(&mut lent, &strides, 0..info.height).is_err() {
                        continue;
                    }
                    for (n, plane) in planes.iter().enumerate() {
                        for (y, row) in plane.chunks(strides[n]).enumerate() {
                            let begin = if y < rows[n] { strides[n] - 7 } else { 0 };
                            assert!(
                                row[begin..].iter().all(|b| *b == canary),
                                "{path:?}, plane {n}, row {y}"
                            );
                        }
                    }
                    twice.push(planes);
                    layouts.insert(info.layout as u8);
                }
                // All visible pixels were written: they do not depend on the previous content.
                for (n, plane) in info
                    .planes()
                    .iter()
                    .enumerate()
                    .filter(|_| twice.len() == 2)
                {
                    let wide = strides[n] - 7 - (plane.row_bytes as usize - wide_of(&info, plane));
                    for y in 0..info.height.div_ceil(1 << plane.log2_h) as usize {
                        let row = y * strides[n]..y * strides[n] + wide;
                        assert_eq!(
                            twice[0][n][row.clone()],
                            twice[1][n][row],
                            "{path:?}, plane {n}, row {y}"
                        );
                    }
                }
            }
        }
        assert_eq!(layouts.len(), 4, "{layouts:?}");
    }

    fn wide_of(info: &JpegInfo, plane: &JpegPlane) -> usize {
        match info.layout {
            JpegLayout::Gray | JpegLayout::Yuv => info.width.div_ceil(1 << plane.log2_w) as usize,
            JpegLayout::Rgb | JpegLayout::Cmyk => plane.row_bytes as usize,
        }
    }

    #[test]
    fn memory_limit_is_checked_before_libjpeg() {
        let bytes = std::fs::read(media().join("images/odd/grey_128x128.jpg")).unwrap();
        let mut decompressor = Decompressor::new().unwrap();
        let params = JpegParams {
            scale: 1,
            exact: true,
            scan_limit: 100,
            memory_bytes: 1 << 30,
        };
        let mut memory = vec![0; 128 * 128];
        for (len, stride) in [
            (128 * 128 - 1, 128),
            (128 * 128, 127),
            (128 * 128, usize::MAX),
        ] {
            let opened = decompressor
                .open(&bytes, params)
                .map_err(|e| format!("{e:?}"))
                .unwrap();
            let error = opened
                .read(&mut [&mut memory[..len]], &[stride], 0..128)
                .unwrap_err();
            assert!(matches!(error, JpegError::Bug(_)), "{error:?}");
        }
        let opened = decompressor
            .open(&bytes, params)
            .map_err(|e| format!("{e:?}"))
            .unwrap();
        opened.read(&mut [&mut memory], &[128], 0..128).unwrap();
        assert!(memory.iter().any(|sample| *sample != 0));
    }
}
