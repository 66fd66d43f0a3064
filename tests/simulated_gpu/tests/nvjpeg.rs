//! Tests the simulated libnvjpeg: planes equal libavcodec's, the hardware ignores stream order, one
//! violation for each misuse.
#![allow(unsafe_code, clippy::macro_metavars_in_unsafe)]

mod common;

use common::demux::media;
use common::{
    allocate, assert_no_violations, assert_violation, context, exclusive, live, set_fault, stream,
    violations,
};

const POISON: u8 = 0xDB;
const HYBRID: i32 = 1;
const HARDWARE: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Image {
    channel: [usize; 4],
    pitch: [usize; 4],
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(media().join("images").join(path)).expect("tests/media generates it")
}

fn baseline() -> Vec<u8> {
    file("odd/subsampling_420-odd-both.jpg")
}

fn instance(backend: i32) -> usize {
    let mut handle = 0usize;
    let null = std::ptr::null::<u8>();
    let code = call!(nvjpegCreateEx(backend => i32, null => *const u8, null => *const u8, 0 => u32, &mut handle => *mut usize));
    assert_eq!(code, 0);
    handle
}

fn state(instance: usize) -> usize {
    let mut state = 0usize;
    assert_eq!(
        call!(nvjpegJpegStateCreate(instance => usize, &mut state => *mut usize)),
        0
    );
    state
}

fn destroy(state: usize) -> i32 {
    call!(nvjpegJpegStateDestroy(state => usize))
}

fn info(instance: usize, file: &[u8]) -> (i32, i32, i32, [i32; 4], [i32; 4]) {
    let (mut components, mut subsampling, mut widths, mut heights) = (0, 0, [0; 4], [0; 4]);
    let code = call!(nvjpegGetImageInfo(instance => usize, file.as_ptr() => *const u8, file.len() => usize,
        &mut components => *mut i32, &mut subsampling => *mut i32, widths.as_mut_ptr() => *mut i32, heights.as_mut_ptr() => *mut i32));
    (code, components, subsampling, widths, heights)
}

/// Memory for the planes of a file, one after another.
fn room(instance: usize, file: &[u8]) -> (Image, usize, usize) {
    let (_, components, _, widths, heights) = info(instance, file);
    let mut image = Image::default();
    let bytes: i32 = (0..components as usize)
        .map(|c| (widths[c] + 5) * heights[c])
        .sum();
    let base = allocate(bytes as usize);
    let mut at = base;
    for c in 0..components as usize {
        (image.channel[c], image.pitch[c]) = (at, widths[c] as usize + 5);
        at += image.pitch[c] * heights[c] as usize;
    }
    (image, base, bytes as usize)
}

fn begin(instance: usize, state: usize, format: i32) -> i32 {
    call!(nvjpegDecodeBatchedInitialize(instance => usize, state => usize, 1 => i32, 1 => i32, format => i32))
}

fn batched(instance: usize, state: usize, file: &[u8], image: &Image, stream: usize) -> i32 {
    let (data, length, mut image) = (file.as_ptr(), file.len(), *image);
    call!(nvjpegDecodeBatched(instance => usize, state => usize, &data => *const *const u8, &length => *const usize,
        &mut image => *mut Image, stream => usize))
}

fn single(
    instance: usize,
    state: usize,
    file: &[u8],
    format: i32,
    image: &Image,
    stream: usize,
) -> i32 {
    let mut image = *image;
    call!(nvjpegDecode(instance => usize, state => usize, file.as_ptr() => *const u8, file.len() => usize, format => i32,
        &mut image => *mut Image, stream => usize))
}

fn download(from: usize, bytes: usize, stream: usize) -> Vec<u8> {
    let mut to = vec![0u8; bytes];
    let code = call!(cuMemcpyDtoHAsync_v2(to.as_mut_ptr() => *mut u8, from => usize, bytes => usize, stream => usize));
    assert_eq!(code, 0);
    to
}

fn copy(to: usize, from: usize, bytes: usize, stream: usize) -> i32 {
    call!(cuMemcpyDtoDAsync_v2(to => usize, from => usize, bytes => usize, stream => usize))
}

fn synchronize(stream: usize) -> i32 {
    call!(cuStreamSynchronize(stream => usize))
}

/// Asserts that only races were recorded, at most one for each plane.
#[track_caller]
fn raced() {
    let all = violations();
    assert!(
        (1..=3).contains(&all.len()) && all.iter().all(|v| v.contains("race")),
        "{all:#?}"
    );
    common::control::<extern "C" fn()>("simulated_gpu_reset")();
}

fn free(address: usize) {
    assert_eq!(call!(cuMemFree_v2(address => usize)), 0);
}

#[test]
fn software_writes_late_and_in_stream_order() {
    let _guard = exclusive("");
    let file = baseline();
    context();
    let (instance, s) = (instance(HYBRID), stream());
    let state = state(instance);
    let (image, base, bytes) = room(instance, &file);
    let kept = allocate(bytes);
    // A reader that has not run yet must see the content from before the image.
    assert_eq!(copy(kept, base, bytes, s), 0);
    assert_eq!(single(instance, state, &file, 1, &image, s), 0);
    let planes = download(base, bytes, s);
    assert_eq!(download(kept, bytes, s), vec![POISON; bytes]);
    assert!(planes.iter().filter(|&&b| b == POISON).count() < bytes / 4);
    assert_no_violations();
    // One state, one stream: the next image may follow at once. Another stream needs
    // synchronization.
    assert_eq!(single(instance, state, &file, 1, &image, s), 0);
    assert_no_violations();
    let other = stream();
    assert_eq!(single(instance, state, &file, 1, &image, other), 0);
    assert!(
        violations()
            .iter()
            .any(|v| v.contains("may be in progress")),
        "{:?}",
        violations()
    );
    common::control::<extern "C" fn()>("simulated_gpu_reset")();
    assert_eq!([synchronize(s), synchronize(other), destroy(state)], [0; 3]);
    assert_no_violations();
    free(base);
    free(kept);
}

#[test]
fn hardware_writes_at_once_ignoring_the_stream() {
    let _guard = exclusive("jpeg_late=0,jpeg_wide=0");
    let file = baseline();
    context();
    let (instance, s) = (instance(HARDWARE), stream());
    let state = state(instance);
    let (image, base, bytes) = room(instance, &file);
    let kept = allocate(bytes);
    assert_eq!(begin(instance, state, 1), 0);
    assert_eq!(copy(kept, base, bytes, s), 0);
    assert_eq!(batched(instance, state, &file, &image, s), 0);
    raced();
    // The reader, enqueued first, read the new image: this is the error. The image itself is
    // complete after the call.
    let planes = download(base, bytes, s);
    assert!(
        download(kept, bytes, s) == planes
            && planes.iter().filter(|&&b| b == POISON).count() < bytes / 4
    );
    // A wait on the host prevents it; a wait of the stream for an event does not.
    assert_eq!(copy(kept, base, bytes, s), 0);
    assert_eq!(synchronize(s), 0);
    assert_eq!(batched(instance, state, &file, &image, s), 0);
    assert_no_violations();
    assert_eq!(synchronize(s), 0);
    let (t, mut event) = (stream(), 0usize);
    assert_eq!(copy(kept, base, bytes, s), 0);
    assert_eq!(call!(cuEventCreate(&mut event => *mut usize, 2 => u32)), 0);
    assert_eq!(call!(cuEventRecord(event => usize, s => usize)), 0);
    assert_eq!(
        call!(cuStreamWaitEvent(t => usize, event => usize, 0 => u32)),
        0
    );
    assert_eq!(batched(instance, state, &file, &image, t), 0);
    raced();
    assert_eq!(
        [
            synchronize(s),
            synchronize(t),
            call!(cuEventDestroy_v2(event => usize)),
            destroy(state)
        ],
        [0; 4]
    );
    assert_no_violations();
    free(base);
    free(kept);
}

#[test]
fn hardware_may_start_late_before_stream_readers() {
    let _guard = exclusive("jpeg_late=1");
    let file = baseline();
    context();
    let (instance, s) = (instance(HARDWARE), stream());
    let state = state(instance);
    let (image, base, _) = room(instance, &file);
    assert_eq!(begin(instance, state, 1), 0);
    assert_eq!(batched(instance, state, &file, &image, s), 0);
    // Another stream is not ordered with it; its own is.
    assert_eq!(download(base, 100, stream()), vec![POISON; 100]);
    raced();
    assert!(download(base, 100, s).iter().any(|&b| b != POISON));
    assert_no_violations();
    assert_eq!(destroy(state), 0);
    assert_no_violations();
    free(base);
}

#[test]
fn rows_are_written_up_to_the_pitch_with_jpeg_wide() {
    let file = baseline();
    for (behavior, padding) in [("jpeg_wide=0", POISON), ("jpeg_wide=1", 0xa7)] {
        let _guard = exclusive(behavior);
        context();
        let (instance, s) = (instance(HYBRID), stream());
        let state = state(instance);
        let (image, base, _) = room(instance, &file);
        assert_eq!(single(instance, state, &file, 1, &image, s), 0);
        let row = download(base, image.pitch[0], s);
        assert_eq!(row[image.pitch[0] - 5..], [padding; 5]);
        assert_eq!(destroy(state), 0);
        free(base);
        assert_no_violations();
    }
}

#[test]
fn headers_and_supported_formats_are_reported() {
    let _guard = exclusive("");
    let odd = baseline();
    let progressive = file("odd/grey_progressive.jpg");
    let wide = file("odd/subsampling_411-non-multiple-4-width.jpg");
    context();
    let (hardware, hybrid) = (instance(HARDWARE), instance(HYBRID));
    let (code, components, subsampling, widths, heights) = info(hybrid, &odd);
    assert_eq!((code, components, subsampling), (0, 3, 2));
    assert_eq!(
        (widths[1], heights[1]),
        ((widths[0] + 1) / 2, (heights[0] + 1) / 2)
    );
    assert_eq!(info(hybrid, &odd[..100]).0, 3, "half a header is bad");
    assert_eq!(info(hybrid, b"no JPEG at all").0, 3);
    let refused = |instance: usize, file: &[u8]| {
        let (mut header, mut refused) = (0usize, -1);
        assert_eq!(
            call!(nvjpegJpegStreamCreate(instance => usize, &mut header => *mut usize)),
            0
        );
        let code = call!(nvjpegJpegStreamParseHeader(instance => usize, file.as_ptr() => *const u8, file.len() => usize, header => usize));
        assert_eq!(code, 0);
        let code = call!(nvjpegDecodeBatchedSupported(instance => usize, header => usize, &mut refused => *mut i32));
        assert_eq!(
            (code, call!(nvjpegJpegStreamDestroy(header => usize))),
            (0, 0)
        );
        refused != 0
    };
    assert!(
        !refused(hardware, &odd) && refused(hardware, &progressive) && refused(hardware, &wide)
    );
    assert!(!refused(hybrid, &progressive) && !refused(hybrid, &wide));
    // Decoding it nevertheless is an error.
    let (state, s) = (state(hardware), stream());
    let (image, base, _) = room(hardware, &progressive);
    assert_eq!(begin(hardware, state, 2), 0);
    assert_eq!(batched(hardware, state, &progressive, &image, s), 4);
    assert_eq!(destroy(state), 0);
    free(base);
    assert_no_violations();
}

#[test]
fn misuse_is_written_down() {
    let _guard = exclusive("");
    let file = baseline();
    context();
    let (hardware, hybrid, s) = (instance(HARDWARE), instance(HYBRID), stream());
    let state = state(hardware);
    let (image, base, bytes) = room(hardware, &file);
    assert_eq!(batched(hardware, state, &file, &image, s), 2);
    assert_violation("before nvjpegDecodeBatchedInitialize");
    assert_eq!(begin(hybrid, state, 1), 2);
    assert_violation("another instance");
    assert_eq!(begin(hardware, state, 1), 0);
    let narrow = Image {
        pitch: [8; 4],
        ..image
    };
    assert_eq!(batched(hardware, state, &file, &narrow, s), 2);
    assert_violation("pitch of 8");
    let last = Image {
        channel: [base, base + bytes - 10, base, 0],
        ..image
    };
    assert_eq!(batched(hardware, state, &file, &last, s), 6);
    assert_violation("plane 1");
    assert_eq!(batched(hardware, state, &file, &image, s), 0);
    assert_eq!(destroy(state), 0);
    assert_violation("may be in progress");
    assert_eq!(destroy(state), 2);
    assert_violation("no such object");
    // Without a context.
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(info(hybrid, &file).0, 6));
    });
    assert_violation("without a current context");
    free(base);
    assert_eq!((live("jpeg_states"), live("jpeg_headers")), (0, 0));
}

#[test]
fn damage_is_refused_and_faults_are_injected() {
    let _guard = exclusive("");
    let file = baseline();
    context();
    let (hybrid, s) = (instance(HYBRID), stream());
    let state = state(hybrid);
    let (image, base, _) = room(hybrid, &file);
    // More Huffman codes of each length than there can be.
    let mut damaged = file.clone();
    let table = damaged
        .windows(2)
        .position(|pair| pair == [0xff, 0xc4])
        .unwrap();
    damaged[table + 5..table + 21].fill(0xff);
    assert_eq!(single(hybrid, state, &damaged, 1, &image, s), 3);
    assert_eq!(
        single(hybrid, state, &file[..file.len() / 2], 1, &image, s),
        3
    );
    // A missing end marker is accepted, as by a lenient decoder.
    assert_eq!(
        single(hybrid, state, &file[..file.len() - 2], 1, &image, s),
        0
    );
    common::control::<extern "C" fn()>("simulated_gpu_reset_counts")();
    set_fault("nvjpegDecode:2=8");
    assert_eq!(single(hybrid, state, &file, 1, &image, s), 0);
    assert_eq!(single(hybrid, state, &file, 1, &image, s), 8);
    assert_eq!(single(hybrid, state, &file, 1, &image, s), 0);
    assert_eq!([synchronize(s), destroy(state)], [0; 2]);
    free(base);
    assert_no_violations();
}
