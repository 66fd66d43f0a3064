//! Decodes JPEG files with libjpeg, through the C functions in `libjpeg.c`.
//! libjpeg never calls Rust code, and never writes outside the memory that it is given.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long, CStr};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

// Linked for its static library, which provides the libjpeg interface that `libjpeg.c` calls.
use turbojpeg_sys as _;

/// One plane, as libjpeg writes it: whole blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plane {
    pub row_bytes: u32,
    pub rows: u32,
    pub log2_w: u32,
    pub log2_h: u32,
}

/// The same struct as in `libjpeg.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawPicture {
    full_width: u32,
    full_height: u32,
    width: u32,
    height: u32,
    layout: u32,
    planes: [Plane; 3],
}

#[repr(C)]
struct Still {
    _opaque: [u8; 0],
}

extern "C" {
    fn still_new() -> *mut Still;
    fn still_free(still: *mut Still);
    fn still_words(still: *const Still) -> *const c_char;
    fn still_open(
        still: *mut Still,
        data: *const u8,
        len: usize,
        shrink: c_int,
        exact: c_int,
        scan_limit: c_int,
        max_memory: c_long,
        picture: *mut RawPicture,
    ) -> c_int;
    fn still_close(still: *mut Still);
    fn still_read(
        still: *mut Still,
        planes: *const *mut u8,
        strides: *const usize,
        first: usize,
        end: usize,
    ) -> c_int;
}

/// Layout of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
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
pub(super) struct Facts {
    /// Full size, as stored.
    pub full: (u32, u32),
    /// Width at the requested scale.
    pub width: u32,
    /// Height at the requested scale.
    pub height: u32,
    pub layout: Layout,
    planes: [Plane; 3],
}

impl Facts {
    /// The planes that are used.
    pub fn planes(&self) -> &[Plane] {
        &self.planes[..if self.layout == Layout::Yuv { 3 } else { 1 }]
    }
}

/// Why libjpeg did not decode the picture, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Damaged(String),
    Unsupported(String),
    Limit(String),
    Bug(String),
}

/// Resource limits of a picture, and how it is to be decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Divisor of the size: 1, 2, 4 or 8.
    pub shrink: u8,
    /// RGB rather than planes.
    pub exact: bool,
    pub scan_limit: u16,
    /// Maximum memory of libjpeg itself, mostly for the coefficients of progressive files.
    pub memory_bytes: u64,
}

/// libjpeg's decompressor. No state of a picture, not even its tables, is kept for the next one.
pub(super) struct Decompressor(NonNull<Still>);

// SAFETY: libjpeg keeps no state outside its struct that depends on the thread; `&mut self` keeps threads
// apart.
unsafe impl Send for Decompressor {}

impl Decompressor {
    /// `None` when out of memory.
    pub fn new() -> Option<Self> {
        // SAFETY: no arguments.
        NonNull::new(unsafe { still_new() }).map(Self)
    }

    /// Reads the header.
    pub fn open<'a>(&'a mut self, bytes: &'a [u8], terms: Terms) -> Result<Opened<'a>, Refusal> {
        let mut raw = RawPicture::default();
        // SAFETY: the decompressor is alive; libjpeg keeps the pointer to `bytes`, which `Opened` borrows
        // until it has read or closed; `raw` is the struct that the C side fills, and outlives the call.
        let answer = unsafe {
            still_open(
                self.0.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
                c_int::from(terms.shrink),
                c_int::from(terms.exact),
                c_int::from(terms.scan_limit),
                c_long::try_from(terms.memory_bytes).unwrap_or(c_long::MAX),
                &mut raw,
            )
        };
        self.check(answer)?;
        let layout = match raw.layout {
            1 => Layout::Gray,
            2 => Layout::Yuv,
            3 => Layout::Rgb,
            _ => Layout::Cmyk,
        };
        let facts = Facts {
            full: (raw.full_width, raw.full_height),
            width: raw.width,
            height: raw.height,
            layout,
            planes: raw.planes,
        };
        Ok(Opened { still: self, facts, open: true, bytes: PhantomData })
    }

    fn check(&self, answer: c_int) -> Result<(), Refusal> {
        if answer == 0 {
            return Ok(());
        }
        // SAFETY: a NUL-terminated string inside the live struct, copied before anything writes there again.
        let words = unsafe { CStr::from_ptr(still_words(self.0.as_ptr())) }.to_string_lossy().into_owned();
        Err(match answer {
            1 => Refusal::Damaged(words),
            2 => Refusal::Unsupported(words),
            3 => Refusal::Limit(words),
            _ => Refusal::Bug(words),
        })
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: made by `still_new`, freed once.
        unsafe { still_free(self.0.as_ptr()) }
    }
}

/// A picture whose header was read.
pub(super) struct Opened<'a> {
    still: &'a mut Decompressor,
    facts: Facts,
    open: bool,
    bytes: PhantomData<&'a [u8]>,
}

impl Opened<'_> {
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Decodes into `planes`, one for each of the facts' planes, with rows `strides` bytes apart. Of gray and
    /// YUV planes, only the pixels of `rows` are defined.
    pub fn read(
        mut self,
        planes: &mut [&mut [u8]],
        strides: &[usize],
        rows: Range<u32>,
    ) -> Result<Facts, Refusal> {
        let wanted = self.facts.planes();
        if planes.len() != wanted.len() || strides.len() != wanted.len() {
            return Err(Refusal::Bug(format!("{} planes lent, {} needed", planes.len(), wanted.len())));
        }
        let mut pointers = [std::ptr::null_mut(); 3];
        let mut distances = [0; 3];
        for (n, plane) in wanted.iter().enumerate() {
            let (rows, row_bytes) = (plane.rows as usize, plane.row_bytes as usize);
            if strides[n] < row_bytes
                || strides[n].checked_mul(rows).is_none_or(|need| need > planes[n].len())
            {
                return Err(Refusal::Bug(format!("plane {n} was lent {} bytes, too few", planes[n].len())));
            }
            pointers[n] = planes[n].as_mut_ptr();
            distances[n] = strides[n];
        }
        self.open = false;
        // SAFETY: the decompressor is open on bytes that `self` still borrows; it writes `row_bytes` into
        // each of `rows` rows of each plane, which the loop above found to be inside the slices, and those
        // are borrowed exclusively.
        let answer = unsafe {
            let (first, end) = (rows.start as usize, rows.end as usize);
            still_read(self.still.0.as_ptr(), pointers.as_ptr(), distances.as_ptr(), first, end)
        };
        self.still.check(answer)?;
        Ok(self.facts.clone())
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: alive, and open on a picture that is not read any more.
            unsafe { still_close(self.still.0.as_ptr()) }
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
        let corpus = std::env::var_os("FRAMESPOOL_CORPUS").filter(|name| !name.is_empty()).map(PathBuf::from);
        let roots = [Some(media()), corpus].into_iter().flatten();
        let mut folders: Vec<_> = roots.map(|root| root.join("images")).collect();
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder);
            let entries = entries.unwrap_or_else(|error| {
                panic!("{}: {error}; run scripts/setup.sh tests, which makes the media", folder.display())
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
    fn libjpeg_writes_the_planes_it_was_lent_and_nothing_beside_them() {
        let mut decompressor = Decompressor::new().unwrap();
        let mut layouts = std::collections::BTreeSet::new();
        let files = files();
        // libjpeg does not scale lossless pictures; `jpeg::refuse` rejects those.
        for (path, bytes) in files.iter().filter(|(path, _)| !path.to_string_lossy().contains("lossless")) {
            for (shrink, exact) in [1, 2, 4, 8].into_iter().flat_map(|k| [(k, false), (k, true)]) {
                let terms = Terms { shrink, exact, scan_limit: 100, memory_bytes: 1 << 30 };
                let Ok(opened) = decompressor.open(bytes, terms) else { continue };
                let facts = opened.facts().clone();
                drop(opened);
                // Of larger pictures only the header is read.
                let samples = u64::from(facts.full.0) * u64::from(facts.full.1);
                if samples > crate::limits::Limits::default().picture_samples {
                    continue;
                }
                let k = u32::from(shrink);
                assert_eq!((facts.width, facts.height), (facts.full.0.div_ceil(k), facts.full.1.div_ceil(k)));
                for plane in facts.planes() {
                    let wide = match facts.layout {
                        Layout::Gray | Layout::Yuv => 1,
                        Layout::Rgb => 3,
                        Layout::Cmyk => 4,
                    };
                    assert!(plane.row_bytes >= facts.width.div_ceil(1 << plane.log2_w) * wide, "{path:?}");
                    assert!(plane.rows >= facts.height.div_ceil(1 << plane.log2_h), "{path:?}");
                }
                // Strides larger than the rows, and one row more than needed.
                let strides: Vec<usize> = facts.planes().iter().map(|p| p.row_bytes as usize + 7).collect();
                let rows: Vec<usize> = facts.planes().iter().map(|p| p.rows as usize).collect();
                let mut twice = Vec::new();
                for canary in [0x5a, 0xa5] {
                    let mut planes: Vec<Vec<u8>> = strides
                        .iter()
                        .zip(&rows)
                        .map(|(stride, rows)| vec![canary; stride * (rows + 1)])
                        .collect();
                    let Ok(opened) = decompressor.open(bytes, terms) else { panic!("it opened before") };
                    let mut lent: Vec<&mut [u8]> = planes.iter_mut().map(|plane| &mut plane[..]).collect();
                    if opened.read(&mut lent, &strides, 0..facts.height).is_err() {
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
                    layouts.insert(facts.layout as u8);
                }
                // All visible pixels were written: they do not depend on the previous content.
                for (n, plane) in facts.planes().iter().enumerate().filter(|_| twice.len() == 2) {
                    let wide = strides[n] - 7 - (plane.row_bytes as usize - wide_of(&facts, plane));
                    for y in 0..facts.height.div_ceil(1 << plane.log2_h) as usize {
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

    fn wide_of(facts: &Facts, plane: &Plane) -> usize {
        match facts.layout {
            Layout::Gray | Layout::Yuv => facts.width.div_ceil(1 << plane.log2_w) as usize,
            Layout::Rgb | Layout::Cmyk => plane.row_bytes as usize,
        }
    }

    #[test]
    fn too_little_memory_is_refused_before_libjpeg_is_asked() {
        let bytes = std::fs::read(media().join("images/odd/grey_128x128.jpg")).unwrap();
        let mut decompressor = Decompressor::new().unwrap();
        let terms = Terms { shrink: 1, exact: true, scan_limit: 100, memory_bytes: 1 << 30 };
        let mut memory = vec![0; 128 * 128];
        for (len, stride) in [(128 * 128 - 1, 128), (128 * 128, 127), (128 * 128, usize::MAX)] {
            let opened = decompressor.open(&bytes, terms).map_err(|e| format!("{e:?}")).unwrap();
            let refusal = opened.read(&mut [&mut memory[..len]], &[stride], 0..128).unwrap_err();
            assert!(matches!(refusal, Refusal::Bug(_)), "{refusal:?}");
        }
        let opened = decompressor.open(&bytes, terms).map_err(|e| format!("{e:?}")).unwrap();
        opened.read(&mut [&mut memory], &[128], 0..128).unwrap();
        assert!(memory.iter().any(|sample| *sample != 0));
    }
}
