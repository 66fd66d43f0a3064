//! Tests the simulated libcuda: late streams, fenced memory, races, faults, and one violation for
//! each misuse.
#![allow(unsafe_code, clippy::macro_metavars_in_unsafe)]

mod common;

use std::ffi::CString;

use common::{
    allocate, assert_no_violations, assert_violation, context, exclusive, live, notes, set_fault,
    set_memory, stream,
};

const POISON: u8 = 0xDB;
const PTX: &str = "//\n.version 7.8\n.target sm_70\n.address_size 64\n.visible .entry simulated_gpu_fill(\n)\n{}\n.visible .entry simulated_gpu_copy(){}\n.entry nowhere(){}\n";

fn fill(to: usize, byte: u8, bytes: usize, stream: usize) -> i32 {
    call!(cuMemsetD8Async(to => usize, byte => u8, bytes => usize, stream => usize))
}

fn copy(to: usize, from: usize, bytes: usize, stream: usize) -> i32 {
    call!(cuMemcpyDtoDAsync_v2(to => usize, from => usize, bytes => usize, stream => usize))
}

fn upload(to: usize, from: &[u8], stream: usize) -> i32 {
    call!(cuMemcpyHtoDAsync_v2(to => usize, from.as_ptr() => *const u8, from.len() => usize, stream => usize))
}

fn download(from: usize, bytes: usize, stream: usize) -> Vec<u8> {
    let mut to = vec![0u8; bytes];
    assert_eq!(
        call!(cuMemcpyDtoHAsync_v2(to.as_mut_ptr() => *mut u8, from => usize, bytes => usize, stream => usize)),
        0
    );
    to
}

fn synchronize(stream: usize) -> i32 {
    call!(cuStreamSynchronize(stream => usize))
}

fn free(address: usize) -> i32 {
    call!(cuMemFree_v2(address => usize))
}

fn event() -> usize {
    let mut event = 0usize;
    assert_eq!(call!(cuEventCreate(&mut event => *mut usize, 2 => u32)), 0);
    event
}

fn record(event: usize, stream: usize) -> i32 {
    call!(cuEventRecord(event => usize, stream => usize))
}

fn wait(stream: usize, event: usize) -> i32 {
    call!(cuStreamWaitEvent(stream => usize, event => usize, 0 => u32))
}

fn module(text: &str) -> (i32, usize) {
    let (text, mut module) = (CString::new(text).unwrap(), 0usize);
    (
        call!(cuModuleLoadData(&mut module => *mut usize, text.as_ptr() => *const i8)),
        module,
    )
}

fn function(module: usize, name: &str) -> (i32, usize) {
    let (name, mut function) = (CString::new(name).unwrap(), 0usize);
    (
        call!(cuModuleGetFunction(&mut function => *mut usize, module => usize, name.as_ptr() => *const i8)),
        function,
    )
}

fn launch(function: usize, args: &[u64; 3], block: u32, stream: usize) -> i32 {
    let params = [args.as_ptr()];
    call!(cuLaunchKernel(function => usize, 1 => u32, 1 => u32, 1 => u32, block => u32, 1 => u32, 1 => u32, 0 => u32,
        stream => usize, params.as_ptr() => *const *const u64, std::ptr::null() => *const usize))
}

#[test]
fn work_runs_only_when_it_is_waited_for() {
    let _guard = exclusive("");
    context();
    let (s, t, a) = (stream(), stream(), allocate(64));
    assert_eq!(fill(a, 7, 64, s), 0);
    // Another stream reads before the first one ran: it reads unwritten memory, and this is a race.
    assert_eq!(download(a, 64, t), vec![POISON; 64]);
    assert_violation("race");
    assert_eq!(synchronize(s), 0);
    assert_eq!(download(a, 64, t), vec![7; 64]);
    assert_no_violations();
    assert_eq!(free(a), 0);
}

#[test]
fn events_order_streams_and_inform_the_host() {
    let _guard = exclusive("");
    context();
    let (s, t, a, b, e) = (stream(), stream(), allocate(1000), allocate(1000), event());
    fill(a, 3, 1000, s);
    record(e, s);
    wait(t, e);
    copy(b, a, 1000, t);
    // The event is recorded again after the wait: the wait still refers to the first recording.
    fill(a, 4, 10, t);
    record(e, t);
    assert_eq!(download(b, 1000, t), vec![3; 1000]);
    assert_no_violations();
    // A query finally returns "done", and then the host knows.
    fill(a, 5, 1000, s);
    record(e, s);
    let asked = (0..100).find(|_| call!(cuEventQuery(e => usize)) == 0);
    assert!(asked.is_some());
    fill(a, 6, 1000, t);
    assert_no_violations();
    assert_eq!(
        [free(a), free(b), call!(cuEventDestroy_v2(e => usize))],
        [0; 3]
    );
}

#[test]
fn legacy_default_and_blocking_streams_synchronize() {
    let _guard = exclusive("");
    context();
    let mut blocking = 0usize;
    assert_eq!(
        call!(cuStreamCreate(&mut blocking => *mut usize, 0 => u32)),
        0
    );
    let (a, mine) = (allocate(256), 2usize);
    fill(a, 1, 256, blocking);
    fill(a, 2, 128, 0);
    fill(a, 3, 64, blocking);
    fill(a, 4, 32, 1);
    fill(a, 5, 16, mine);
    let got = download(a, 256, mine);
    // `mine` and `blocking` are ordered only through the default stream: the last fill of `mine` is
    // after the fill of 4.
    assert_eq!(
        (got[0], got[16], got[32], got[64], got[128]),
        (5, 4, 3, 2, 1)
    );
    assert_no_violations();
    assert_eq!(free(a), 0);
}

#[test]
fn nonblocking_streams_ignore_the_default_stream() {
    let _guard = exclusive("");
    context();
    let (s, a) = (stream(), allocate(64));
    let bytes = [9u8; 64];
    // Documented: the copy from pageable memory may return before it is complete.
    assert_eq!(
        call!(cuMemcpyHtoD_v2(a => usize, bytes.as_ptr() => *const u8, 64 => usize)),
        0
    );
    assert_eq!(download(a, 64, s), vec![POISON; 64]);
    assert_violation("race");
    assert_eq!(free(a), 0);
}

#[test]
fn pageable_is_read_at_the_call_pinned_when_it_runs() {
    let _guard = exclusive("");
    context();
    let (s, a, mut pinned) = (stream(), allocate(64), 0usize);
    assert_eq!(
        call!(cuMemHostAlloc(&mut pinned => *mut usize, 64 => usize, 0 => u32)),
        0
    );
    // SAFETY: 64 bytes of live pinned memory, which has no other user.
    let bytes = unsafe { std::slice::from_raw_parts_mut(pinned as *mut u8, 64) };
    bytes.fill(1);
    assert_eq!(upload(a, bytes, s), 0);
    bytes.fill(2); // too early
    assert_eq!(download(a, 64, s), vec![2; 64]);
    let mut own = vec![3u8; 64];
    assert_eq!(upload(a, &own, s), 0);
    own.fill(4);
    assert_eq!(download(a, 64, s), vec![3; 64]);
    assert_eq!(call!(cuMemFreeHost(pinned => usize)), 0);
    assert_eq!(free(a), 0);
    assert_no_violations();
}

#[test]
fn illegal_address_in_a_kernel_loses_the_context() {
    let _guard = exclusive("");
    context();
    let (code, m) = module(PTX);
    assert_eq!(code, 0);
    let (s, a) = (stream(), allocate(100));
    let f = function(m, "simulated_gpu_fill");
    assert_eq!(f.0, 0);
    assert_eq!(launch(f.1, &[a as u64, 100, 8], 32, s), 0);
    assert_eq!(synchronize(s), 0);
    assert_eq!(download(a, 100, s), vec![8; 100]);
    assert_no_violations();
    // Within the slack after the end: the fence is broken.
    assert_eq!(launch(f.1, &[a as u64, 110, 8], 32, s), 0);
    assert_eq!(synchronize(s), 700);
    assert_violation("wrote outside of allocation");
    // Further: it faults as it would on the device, and all later calls fail.
    assert_eq!(launch(f.1, &[a as u64, 5000, 8], 32, s), 0);
    assert_eq!(synchronize(s), 700);
    assert_eq!(call!(cuCtxSynchronize()), 700);
    assert_violation("illegal address");
    // Freed memory is not device memory.
    assert_eq!(free(a), 0);
    assert_eq!(launch(f.1, &[a as u64, 1, 8], 32, s), 0);
    assert_eq!(synchronize(s), 700);
    assert_violation("freed");
    assert_eq!(call!(cuModuleUnload(m => usize)), 0);
    assert_eq!(launch(f.1, &[a as u64, 1, 8], 32, s), 400);
    assert_violation("no live function");
}

#[test]
fn free_waits_for_pending_work() {
    let _guard = exclusive("");
    context();
    let (s, a, b) = (stream(), allocate(64), allocate(64));
    fill(a, 1, 64, s);
    copy(b, a, 64, s);
    assert_eq!(free(a), 0);
    assert!(
        notes().iter().any(|n| n.contains("cuMemFree_v2")),
        "{:?}",
        notes()
    );
    assert_eq!(download(b, 64, s), vec![1; 64]);
    assert_eq!(free(b), 0);
    assert_no_violations();
}

#[test]
fn memory_misuse_is_recorded() {
    let _guard = exclusive("");
    let c = context();
    let (s, a) = (stream(), allocate(64));
    assert_eq!(fill(a, 0, 65, s), 1);
    assert_violation("65 bytes");
    assert_eq!(copy(a, a + 60, 8, s), 1);
    assert_violation("8 bytes");
    assert_eq!(fill(0x1234, 0, 1, s), 1);
    assert_violation("no device memory");
    assert_eq!(free(a + 8), 1);
    assert_violation("no start of an allocation");
    assert_eq!(free(a), 0);
    assert_eq!(free(a), 1);
    assert_violation("freed");
    assert_eq!(fill(a, 0, 1, s), 1);
    assert_violation("freed");
    assert_eq!(call!(cuCtxSetCurrent(0 => usize)), 0);
    assert_eq!(fill(a, 0, 1, s), 201);
    assert_violation("without a current context");
    assert_eq!(call!(cuCtxSetCurrent(c => usize)), 0);
    assert_eq!(call!(cuStreamDestroy_v2(s => usize)), 0);
    assert_eq!(synchronize(s), 400);
    assert_violation("no stream");
    assert_eq!(call!(cuStreamDestroy_v2(s => usize)), 400);
    assert_violation("no stream");
    let e = event();
    assert_eq!(call!(cuEventDestroy_v2(e => usize)), 0);
    assert_eq!(record(e, 0), 400);
    assert_violation("no live event");
}

#[test]
fn module_and_launch_misuse_is_recorded() {
    let _guard = exclusive("");
    context();
    assert_eq!(module("ELF").0, 300);
    assert_violation("does not start like PTX");
    assert_eq!(module(".version 9.9\n.target sm_70\n").0, 222);
    let (_, m) = module(PTX);
    assert_eq!(function(m, "simulated_gpu").0, 500); // no whole name
    assert_no_violations();
    assert_eq!(function(m, "nowhere").0, 500);
    assert_violation("not in the C++ build");
    let (s, a) = (stream(), allocate(8));
    let (_, f) = function(m, "simulated_gpu_fill");
    assert_eq!(launch(f, &[a as u64, 8, 0], 1025, s), 1);
    assert_violation("beyond the device");
    assert_eq!(launch(f, &[a as u64, 8, 0], 0, s), 1);
    assert_violation("beyond the device");
    assert_eq!(free(a), 0);
}

#[test]
fn memory_limit_and_injected_faults_apply() {
    let _guard = exclusive("");
    context();
    let mut address = 0usize;
    set_memory(1 << 20);
    let (mut free_bytes, mut total) = (0usize, 0usize);
    assert_eq!(
        call!(cuMemGetInfo_v2(&mut free_bytes => *mut usize, &mut total => *mut usize)),
        0
    );
    assert_eq!(total, 1 << 20);
    assert_eq!(
        call!(cuMemAlloc_v2(&mut address => *mut usize, free_bytes + 1 => usize)),
        2
    );
    set_memory(8 << 30);
    set_fault("cuMemAlloc_v2:2=2, cuStreamSynchronize:1+=719");
    control_reset_counts();
    let a = allocate(8);
    assert_eq!(
        call!(cuMemAlloc_v2(&mut address => *mut usize, 8 => usize)),
        2
    );
    let b = allocate(8);
    let s = stream();
    assert_eq!(synchronize(s), 719);
    set_fault("");
    assert_eq!(synchronize(s), 719); // sticky
    assert_no_violations();
    common::control::<extern "C" fn()>("simulated_gpu_reset")();
    assert_eq!([free(a), free(b)], [0, 0]);
    assert_eq!(live("mapped"), 0);
}

fn control_reset_counts() {
    common::control::<extern "C" fn()>("simulated_gpu_reset_counts")();
}

#[test]
fn every_seed_keeps_event_order() {
    let _guard = exclusive("");
    context();
    let workers: Vec<usize> = (0..4).map(|_| stream()).collect();
    for seed in 0..60u64 {
        common::control::<extern "C" fn(u64)>("simulated_gpu_set_seed")(seed);
        let a = allocate(400);
        let e = event();
        for step in 0..40usize {
            let (mine, next) = (workers[step % 4], workers[(step + 1) % 4]);
            fill(a + step * 10, step as u8, 400 - step * 10, mine);
            record(e, mine);
            wait(next, e);
        }
        let got = download(a, 400, workers[0]);
        assert!(
            got.iter()
                .enumerate()
                .all(|(at, &byte)| usize::from(byte) == at / 10),
            "seed {seed}: {got:?}"
        );
        assert_no_violations();
        assert_eq!([free(a), call!(cuEventDestroy_v2(e => usize))], [0, 0]);
    }
}

#[test]
fn rectangle_copies_leave_other_bytes_unchanged() {
    let _guard = exclusive("");
    context();
    let (s, a) = (stream(), allocate(100));
    let from: Vec<u8> = (0..50).collect();
    fill(a, 0, 100, s);
    // 3 columns, 4 rows, from pitch 5 at (1, 2) to pitch 10 at (2, 1).
    let p: [usize; 16] = [
        1,
        2,
        1,
        from.as_ptr() as usize,
        0,
        0,
        5,
        2,
        1,
        2,
        0,
        a,
        0,
        10,
        3,
        4,
    ];
    assert_eq!(
        call!(cuMemcpy2DAsync_v2(p.as_ptr() => *const usize, s => usize)),
        0
    );
    let got = download(a, 100, s);
    for (at, &byte) in got.iter().enumerate() {
        let (row, column) = (at / 10, at % 10);
        let inside = (1..5).contains(&row) && (2..5).contains(&column);
        assert_eq!(
            usize::from(byte),
            if inside {
                (row + 1) * 5 + column - 1
            } else {
                0
            },
            "at {at}"
        );
    }
    assert_no_violations();
    assert_eq!(free(a), 0);
}
