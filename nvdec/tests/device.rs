//! Tests streams, events, memory, kernels and contexts on a CUDA device, which may be the simulated
//! one. Without a driver, each test prints so and succeeds.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use framespool_nvdec::Error;
use framespool_nvdec::cuda::{Device, UploadRing, device_count};

/// One kernel, in PTX that every driver since 520 accepts: each of `bytes` threads writes `value`.
/// The simulated GPU knows it by name.
const FILL: &str = "
.version 7.8
.target sm_70
.address_size 64
.visible .entry simulated_gpu_fill(.param .align 16 .b8 args[24])
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [args];
    ld.param.u64 %rd2, [args+8];
    ld.param.u64 %rd3, [args+16];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd4, %r4;
    setp.ge.u64 %p, %rd4, %rd2;
    @%p ret;
    cvta.to.global.u64 %rd1, %rd1;
    add.u64 %rd5, %rd1, %rd4;
    st.global.u8 [%rd5], %rd3;
    ret;
}
";

fn device() -> Option<Arc<Device>> {
    match Device::open(0) {
        Ok(device) => Some(device),
        Err(Error::NoDriver { reason }) => {
            println!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The context that is current on this thread, queried without using the crate.
fn current() -> *mut c_void {
    // SAFETY: the driver is loaded already; the out-parameter outlives the call.
    unsafe {
        let driver = libloading::Library::new("libcuda.so.1").expect("it is open");
        let mut context = std::ptr::null_mut();
        let ask = driver.get::<unsafe extern "C" fn(*mut *mut c_void) -> i32>(b"cuCtxGetCurrent\0");
        assert_eq!(ask.expect("every driver has it")(&mut context), 0);
        context
    }
}

#[test]
fn streams_have_the_least_priority_unless_that_is_turned_off() {
    const VARIABLE: &str = "FRAMESPOOL_GPU_DISABLE";
    const NAME: &str = "streams_have_the_least_priority_unless_that_is_turned_off";
    let Some(device) = device() else { return };
    let stream = device.create_stream().unwrap();
    let (mut least, mut greatest, mut priority) = (0, 0, 0);
    device
        .with_current(|| {
            // SAFETY: the driver is loaded already; the stream and the out-parameters outlive the
            // calls.
            unsafe {
                let driver = libloading::Library::new("libcuda.so.1").expect("it is open");
                let range = driver
                    .get::<unsafe extern "C" fn(*mut i32, *mut i32) -> i32>(
                        b"cuCtxGetStreamPriorityRange\0",
                    )
                    .expect("every driver has it");
                let of_stream = driver
                    .get::<unsafe extern "C" fn(u64, *mut i32) -> i32>(b"cuStreamGetPriority\0")
                    .expect("every driver has it");
                assert_eq!(range(&mut least, &mut greatest), 0);
                assert_eq!(of_stream(stream.raw(), &mut priority), 0);
            }
            Ok::<(), Error>(())
        })
        .unwrap();
    assert!(greatest < least, "lower numbers come first");
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "least-priority") {
        assert_eq!(priority, greatest);
        return;
    }
    assert_eq!(priority, least);
    // The variable is read once per process.
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(VARIABLE, "least-priority")
        .status()
        .unwrap();
    assert!(again.success());
}

#[test]
fn one_device_per_ordinal_with_its_properties() {
    let Some(device) = device() else { return };
    assert!(Arc::ptr_eq(&device, &Device::open(0).unwrap()));
    assert!(
        device_count().unwrap() >= 1
            && !device.name().is_empty()
            && !device.pci_bus_id().is_empty()
    );
    let (free, total) = device.memory_info().unwrap();
    assert!(0 < free && free <= total);
    assert!(device.compute_capability() >= (5, 0) && device.driver_version() >= 11_080);
}

/// Whether this process runs under `variable=value`. If not, runs the test `name` in one that does,
/// on the simulated driver; on another one, the test is skipped.
fn is_run_with(variable: &str, value: &str, name: &str) -> bool {
    if std::env::var(variable).is_ok_and(|set| set == value) {
        return true;
    }
    if device().is_some_and(|device| device.name().starts_with("Simulated")) {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(variable, value)
            .status()
            .unwrap();
        assert!(again.success());
    }
    false
}

#[test]
fn unavailable_device_is_no_lost_context_and_says_what_helps() {
    const NAME: &str = "unavailable_device_is_no_lost_context_and_says_what_helps";
    let fault = "cuDevicePrimaryCtxRetain:1=46";
    if is_run_with("FRAMESPOOL_SIMULATED_FAULT", fault, NAME) {
        let error = Device::open(0).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::NoDriver { .. }), "{error:?}");
        assert!(
            text.contains("returned 46") && text.contains("compute mode"),
            "{text}"
        );
        assert!(Device::open(0).is_ok(), "another attempt may succeed");
    }
}

#[test]
fn instance_in_mig_mode_has_its_own_uuid() {
    const NAME: &str = "instance_in_mig_mode_has_its_own_uuid";
    if is_run_with("FRAMESPOOL_SIMULATED_BEHAVIORS", "mig=1", NAME) {
        let device = Device::open(0).unwrap();
        // The first byte differs from that of the GPU.
        assert_eq!(device.uuid(), "MIG-6d696d75-6c61-7465-6420-475055202030");
    } else if let Some(device) = device() {
        let uuid = device.uuid();
        let lengths: Vec<usize> = uuid.split('-').skip(1).map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
    }
}

#[test]
fn events_order_copies_between_streams() {
    let Some(device) = device() else { return };
    let (first, second) = (
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    );
    let (a, b) = (
        device.allocate(1 << 16).unwrap(),
        device.allocate(1 << 16).unwrap(),
    );
    let mut sent: Vec<u8> = (0..1 << 16).map(|i: u32| (i * 7 / 8) as u8).collect();
    first.upload(a.address(), &sent).unwrap();
    let kept = sent.clone();
    sent.fill(0); // may be reused after the return
    let uploaded = first.record().unwrap();
    second.wait(&uploaded).unwrap();
    second.fill(b.address(), 9, 1 << 16).unwrap();
    second.copy(b.address(), a.address(), 1 << 15).unwrap();
    let mut got = vec![0; 1 << 16];
    second.download(&mut got, b.address()).unwrap();
    assert!(got[..1 << 15] == kept[..1 << 15] && got[1 << 15..].iter().all(|&byte| byte == 9));
    uploaded.synchronize().unwrap();
    assert!(uploaded.is_complete().unwrap());
    second.synchronize().unwrap();
    device.synchronize().unwrap();
}

#[test]
fn kernel_gets_its_struct_and_foreign_streams_wait() {
    let Some(device) = device() else { return };
    let stream = device.create_stream().unwrap();
    let memory = device.allocate(1000).unwrap();
    let fill = device
        .load_module(FILL)
        .unwrap()
        .function("simulated_gpu_fill")
        .unwrap();
    let args: Vec<u8> = [memory.address(), 1000, 0xab]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    stream
        .launch(&fill, [4, 1, 1], [256, 1, 1], 0, &args)
        .unwrap();
    let done = stream.record().unwrap();
    // The default stream, which torch's consumers use: 1. Its later work runs after the kernel.
    device.wait_on_external(1, &done).unwrap();
    let after = device.record_on_external(1).unwrap();
    let reader = device.create_stream().unwrap();
    reader.wait(&after).unwrap();
    let mut got = vec![0; 1000];
    reader.download(&mut got, memory.address()).unwrap();
    assert!(got.iter().all(|&byte| byte == 0xab));
    let missing = device
        .load_module(FILL)
        .unwrap()
        .function("no_such_kernel")
        .err()
        .expect("there is none");
    assert!(missing.to_string().contains("no_such_kernel"), "{missing}");
}

#[test]
fn a_thread_keeps_the_context_that_it_had() {
    let Some(device) = device() else { return };
    std::thread::scope(|scope| {
        let work = || {
            assert!(current().is_null(), "a new thread has none");
            let memory = device.allocate(100).unwrap();
            assert!(current().is_null());
            assert!(
                !device
                    .with_current(|| Ok::<_, Error>(current()))
                    .unwrap()
                    .is_null()
            );
            drop(memory);
            assert!(current().is_null());
            device.make_current().unwrap();
            assert!(!current().is_null(), "unless it is one of ours");
            drop(device.create_stream().unwrap());
            assert!(!current().is_null());
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, work)
            .unwrap();
    });
}

#[test]
fn ring_reserves_no_bytes_that_a_copy_still_reads() {
    let Some(device) = device() else { return };
    let stream = device.create_stream().unwrap();
    let (frames, len) = (64, 100_000);
    let memory = device.allocate(frames * len).unwrap();
    let mut ring = UploadRing::new(stream.clone());
    assert_eq!(ring.bytes(), 0, "no memory before the first frame");
    for frame in 0..frames {
        // Bytes that are reserved but not copied are reserved again.
        ring.reserve(len).unwrap().fill(255);
        let (reserved, half) = (ring.reserve(len).unwrap(), len / 2);
        reserved.fill(frame as u8);
        let to = memory.address() + (frame * len) as u64;
        ring.upload(to, 0..half).unwrap();
        ring.upload(to + half as u64, half..len).unwrap();
    }
    assert!(
        ring.bytes() < frames * len / 2,
        "the segments were used again: {} bytes",
        ring.bytes()
    );
    let mut got = vec![0; frames * len];
    stream.download(&mut got, memory.address()).unwrap();
    assert!(
        got.chunks(len)
            .enumerate()
            .all(|(frame, bytes)| bytes.iter().all(|&b| b == frame as u8))
    );
    // A frame that is larger than a segment, and one that follows it.
    let large = device.allocate(3 << 20).unwrap();
    for byte in [7, 8] {
        ring.reserve(3 << 20).unwrap().fill(byte);
        ring.upload(large.address(), 0..3 << 20).unwrap();
    }
    assert!(matches!(
        ring.upload(large.address(), 0..(3 << 20) + 1),
        Err(Error::Misuse(_))
    ));
    drop(ring); // waits for the copies
    let mut got = vec![0; 3 << 20];
    stream.download(&mut got, large.address()).unwrap();
    assert!(got.iter().all(|&b| b == 8));
}

#[test]
fn out_of_memory_and_bad_kernels_are_distinguished() {
    let Some(device) = device() else { return };
    let error = device
        .allocate(1 << 50)
        .err()
        .expect("no device has a pebibyte");
    assert!(error.is_out_of_memory() && !error.is_lost(), "{error}");
    assert!(matches!(&error, Error::OutOfMemory { bytes, .. } if *bytes == 1 << 50));
    match device
        .load_module(".version 99.9\n.target sm_999\nnonsense")
        .err()
    {
        Some(Error::ModuleLoad { code, .. }) => assert_ne!(code, 0),
        other => panic!("{other:?}"),
    }
    assert!(
        device.allocate(0).unwrap().is_empty(),
        "no bytes are no error"
    );
    let error = device
        .allocate_host(1 << 50)
        .err()
        .expect("no host has a pebibyte");
    assert!(
        matches!(&error, Error::NotPageLocked { bytes } if *bytes == 1 << 50),
        "{error}"
    );
    assert!(device.allocate_host(0).unwrap().is_empty());
}

#[test]
fn forked_child_gets_an_error_and_calls_nothing() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
    }
    let Some(device) = device() else { return };
    let (memory, stream) = (
        device.allocate(64).unwrap(),
        device.create_stream().unwrap(),
    );
    stream.fill(memory.address(), 5, 64).unwrap();
    // SAFETY: the child only drops values and calls this crate, then exits without running exit
    // handlers.
    let child = unsafe { fork() };
    if child == 0 {
        let is_fork_error = matches!(Device::open(0), Err(Error::Forked { .. }))
            && matches!(device.allocate(1), Err(Error::Forked { .. }))
            && matches!(stream.record(), Err(Error::Forked { .. }));
        drop((memory, stream));
        // SAFETY: see above.
        unsafe { _exit(if is_fork_error { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child is ours, the out-parameter outlives the call.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child did not get the error");
    let mut got = [0; 64];
    stream.download(&mut got, memory.address()).unwrap();
    assert_eq!(got, [5; 64], "the parent's memory is unchanged");
}
