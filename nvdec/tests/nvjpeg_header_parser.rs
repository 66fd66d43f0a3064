//! Compares the header parser of a real libnvjpeg with `jpeg::JpegHeader`, and checks that it
//! survives every file that `jpeg::check_supported` accepts. No GPU is needed.
//!
//! FRAMESPOOL_NVJPEG_LIBRARY names the library (PyPI's nvidia-nvjpeg-cu12 contains it in lib/). If
//! it is not set, the test prints so and succeeds. A library that crashes ends this process; the
//! file that caused it is then `nvjpeg-reader-last.jpg` in the temporary folder.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use framespool_nvdec::jpeg::{JpegHeader, check_supported};
use libloading::Library;

type Info = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    usize,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
) -> i32;

/// Every image of the test media and of the corpus.
fn files() -> Vec<PathBuf> {
    let media = std::env::var_os("FRAMESPOOL_MEDIA").map(PathBuf::from);
    let media =
        media.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/media"));
    let corpus = std::env::var_os("FRAMESPOOL_CORPUS")
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    let roots = [Some(media), corpus].into_iter().flatten();
    let (mut folders, mut files) = (
        roots.map(|root| root.join("images")).collect::<Vec<_>>(),
        Vec::new(),
    );
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| {
            panic!(
                "{}: {error}; run scripts/setup.sh tests, which makes the media",
                folder.display()
            )
        });
        for entry in entries {
            let path = entry.expect("it can be listed").path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// SplitMix64: the same sequence in every run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20) as usize
}

#[test]
#[ignore = "needs NVIDIA's library: scripts/kernels.py nvjpeg runs it"]
fn library_header_parser_agrees_and_survives() {
    let path = std::env::var_os("FRAMESPOOL_NVJPEG_LIBRARY");
    let path = path.expect("FRAMESPOOL_NVJPEG_LIBRARY names a libnvjpeg.so.12");
    // SAFETY: NVIDIA's library, as the variable states. An instance requires a GPU, but the header
    // parser does not access it (observed in 12.4 and 13.3), so a block of zeros replaces it.
    let library = unsafe { Library::new(path) }.expect("the library that the variable names");
    // SAFETY: the header declares the function with this type.
    let info =
        unsafe { library.get::<Info>(b"nvjpegGetImageInfo\0") }.expect("every version has it");
    let mut instance = vec![0u64; 8192];
    let mut ask = |file: &[u8]| {
        let (mut components, mut subsampling, mut widths, mut heights) = (0, -1, [0; 4], [0; 4]);
        // SAFETY: the file is readable for its length, and the arrays have four elements.
        let code = unsafe {
            info(
                instance.as_mut_ptr().cast(),
                file.as_ptr(),
                file.len(),
                &mut components,
                &mut subsampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        (code, components, subsampling, widths, heights)
    };
    let (mut agreed, mut asked, mut refused) = (0, 0, 0);
    let last = std::env::temp_dir().join("nvjpeg-reader-last.jpg");
    let rounds: usize = std::env::var("ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(300);
    let mut state = 1;
    for path in files() {
        let file = std::fs::read(&path).expect("it can be read");
        let Ok(header) = JpegHeader::parse(&file) else {
            continue;
        };
        if check_supported(&header).is_ok() {
            let (code, components, subsampling, widths, heights) = ask(&file);
            let (w, h) = header.log2_chroma().expect("it suits");
            let known = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (2, 1)]
                .iter()
                .position(|&pair| pair == (w, h));
            let wanted = if header.components == 1 {
                6
            } else {
                known.expect("it suits") as i32
            };
            let all = (code, components, subsampling, widths[0], heights[0]);
            let luma = (
                0,
                i32::from(header.components),
                wanted,
                header.width as i32,
                header.height as i32,
            );
            assert_eq!(all, luma, "{}", path.display());
            if components == 3 {
                let chroma = (
                    header.width.div_ceil(1 << w) as i32,
                    header.height.div_ceil(1 << h) as i32,
                );
                assert_eq!(
                    [(widths[1], heights[1]), (widths[2], heights[2])],
                    [chroma; 2],
                    "{}",
                    path.display()
                );
            }
            agreed += 1;
        }
        for _ in 0..rounds {
            let mut damaged = file.clone();
            if next(&mut state).is_multiple_of(3) {
                damaged.truncate(1 + next(&mut state) % file.len());
            }
            let head = damaged.len().min(3000);
            for _ in 0..1 + next(&mut state) % 6 {
                let at = next(&mut state) % head;
                damaged[at] =
                    [0, 0xff, next(&mut state) as u8, next(&mut state) as u8][next(&mut state) % 4];
            }
            if JpegHeader::parse(&damaged).is_ok_and(|header| check_supported(&header).is_ok()) {
                std::fs::write(&last, &damaged).expect("it can be written");
                ask(&damaged);
                asked += 1;
            } else {
                refused += 1;
            }
        }
    }
    let _ = std::fs::remove_file(last);
    println!(
        "{agreed} files agree; of the damaged ones, {asked} were accepted and {refused} rejected"
    );
    assert!(agreed > 60 && asked > 0 && refused > 0);
}
