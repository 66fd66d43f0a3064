//! Runs the kernels on this machine, with host memory as device memory.
//! All memory that kernels access is allocated here and outlives them.

// Calls C++ with addresses inside a struct of bytes.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use framespool_kernels::*;

unsafe extern "C" {
    fn framespool_host_args_bytes(kernel: *const c_char) -> usize;
    fn framespool_host_launch(
        kernel: *const c_char,
        grid: *const c_uint,
        block: *const c_uint,
        shared_bytes: c_uint,
        args: *const c_void,
    ) -> c_int;
}

/// Initial value of every byte of a slot and of the guards around it.
pub const UNTOUCHED: u8 = 0xEE;
/// Guard bytes before and after a slot.
const GUARD: usize = 256;

/// Size of a kernel's argument in bytes; 0 for unknown kernels.
pub fn args_bytes(kernel: &str) -> usize {
    let name = CString::new(kernel).unwrap();
    // SAFETY: the name is a C string that outlives the call.
    unsafe { framespool_host_args_bytes(name.as_ptr()) }
}

/// Runs a launch.
///
/// # Safety
/// Every address in its argument must point to memory of the size that the kernel assumes.
unsafe fn launch(launch: &Launch) -> c_int {
    assert_eq!(
        launch.args.len(),
        args_bytes(launch.kernel),
        "{}",
        launch.kernel
    );
    let name = CString::new(launch.kernel).unwrap();
    let Launch {
        grid,
        block,
        shared_bytes,
        args,
        ..
    } = launch;
    // The shared memory that every GPU supports without an opt-in.
    assert!(*shared_bytes <= 48 << 10 && grid[1] <= 65_535 && grid[2] == 1 && args.len() <= 4096);
    // SAFETY: the argument is as long as the kernel's (above); grid and block are three numbers
    // each; addresses by the caller.
    unsafe {
        framespool_host_launch(
            name.as_ptr(),
            grid.as_ptr(),
            block.as_ptr(),
            *shared_bytes,
            args.as_ptr().cast(),
        )
    }
}

/// Bytes that end at the end of the allocation, `lead` bytes into it, so that a sanitizer detects
/// overreads.
struct Buffer {
    memory: Box<[u8]>,
    lead: usize,
}

impl Buffer {
    fn new(bytes: &[u8], lead: usize) -> Self {
        let mut memory = vec![0xCC; lead + bytes.len()].into_boxed_slice();
        memory[lead..].copy_from_slice(bytes);
        Self { memory, lead }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64 + self.lead as u64
    }

    /// Filled with garbage, at a multiple of 16 as `malloc` returns.
    fn aligned(bytes: &[u8]) -> Self {
        let buffer = Self::new(bytes, 0);
        assert!(bytes.is_empty() || buffer.address().is_multiple_of(16));
        buffer
    }
}

/// The same planes in separate allocations, each `lead` bytes after a multiple of 16.
fn upload(frame: &FrameView<'_>, lead: usize) -> (DeviceFrame, Vec<Buffer>) {
    let mut buffers = Vec::new();
    let planes = frame.planes.map(|_, plane| {
        buffers.push(Buffer::new(plane.data, lead));
        let address = buffers.last().unwrap().address();
        DevicePlane {
            address,
            stride_bytes: plane.stride_bytes,
        }
    });
    let FrameView {
        width,
        height,
        depth_bits,
        shift,
        color,
        ..
    } = *frame;
    (
        DeviceFrame {
            width,
            height,
            depth_bits,
            shift,
            planes,
            color,
        },
        buffers,
    )
}

/// Writes one frame into a slot of `bytes` bytes with these strides of channels, rows and columns,
/// and returns its bytes. Memory around the slot must stay unchanged. Planes start `lead` bytes,
/// the slot as many elements, after a multiple of 16.
pub fn run(
    pass: &PixelPass,
    frame: &FrameView<'_>,
    [channel_stride, row_stride, column_stride]: [usize; 3],
    bytes: usize,
    lead: usize,
) -> Result<Vec<u8>, PassError> {
    // Properties that a device cannot check are checked here.
    let mut data = vec![0; bytes];
    let mut slot = OutputSlot {
        data: &mut data,
        channel_stride,
        row_stride,
        column_stride,
    };
    let on_cpu = pass.clone().run(frame, &mut slot, &mut Scratch::new());
    if matches!(
        on_cpu,
        Err(PassError::PlaneTooShort { .. } | PassError::SlotTooShort { .. })
    ) {
        return Err(on_cpu.unwrap_err());
    }
    let (frame, _planes) = upload(frame, lead);
    let device = pass.for_device(&frame.format())?;
    let tables = Buffer::aligned(device.tables());
    let scratch = Buffer::aligned(&vec![0x5A; device.scratch_bytes()]);
    let out = Buffer::new(
        &vec![UNTOUCHED; bytes + 2 * GUARD],
        lead * pass.output_spec().dtype.bytes(),
    );
    let address = out.address() + GUARD as u64;
    let slot = DeviceSlot {
        address,
        channel_stride,
        row_stride,
        column_stride,
    };
    for step in device.launches(&frame, tables.address(), scratch.address(), slot)? {
        if let Some((address, bytes)) = step.clear {
            assert!(address == scratch.address() && bytes <= scratch.memory.len());
            // SAFETY: the memory belongs to `scratch` (above), and has no other user.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        }
        // SAFETY: planes, slot and strides have passed the CPU's length checks; tables and scratch
        // have the sizes that the pass reports; all of them are in buffers above.
        assert_eq!(unsafe { launch(&step) }, 0, "{}", step.kernel);
    }
    let (before, rest) = out.memory[out.lead..].split_at(GUARD);
    let (slot, behind) = rest.split_at(bytes);
    assert!(
        before.iter().chain(behind).all(|&byte| byte == UNTOUCHED),
        "written outside the slot"
    );
    Ok(slot.to_vec())
}

/// Converts codes to elements; see [`DeviceLut::launch`].
pub fn expand(
    expand: &ElementLut,
    codes: &[u8],
    (plane_codes, planes): (usize, u32),
    turns: (usize, usize, bool),
    lead: usize,
    element_bytes: usize,
) -> Vec<u8> {
    assert_eq!(plane_codes * planes as usize, codes.len());
    let device = expand.for_device();
    let (tables, codes) = (Buffer::aligned(device.tables()), Buffer::new(codes, lead));
    let bytes = (codes.memory.len() - lead) * element_bytes;
    let out = Buffer::new(&vec![UNTOUCHED; bytes + 2 * GUARD], lead * element_bytes);
    let address = out.address() + GUARD as u64;
    let step = device
        .launch(
            codes.address(),
            (plane_codes as u64, planes),
            turns,
            tables.address(),
            address,
        )
        .expect("aligned");
    // SAFETY: the buffers have the lengths passed to the launch, and live until the end of this
    // function.
    assert_eq!(unsafe { launch(&step) }, 0);
    let (before, rest) = out.memory[out.lead..].split_at(GUARD);
    let (elements, behind) = rest.split_at(bytes);
    assert!(
        before.iter().chain(behind).all(|&byte| byte == UNTOUCHED),
        "written outside the elements"
    );
    elements.to_vec()
}

/// Applies an operation to the planes of a frame; see [`DeviceOperation::launches`].
pub fn operate(operation: &RgbOperation, codes: &[u8], size: (u32, u32), lead: usize) -> Vec<u8> {
    let device = operation.for_device(size).expect("it fits");
    let tables = Buffer::aligned(device.tables());
    let scratch = Buffer::aligned(&vec![0x5A; device.scratch_bytes()]);
    let source = Buffer::new(codes, lead);
    let out = Buffer::new(&vec![UNTOUCHED; codes.len() + 2 * GUARD], lead);
    let address = out.address() + GUARD as u64;
    // Addresses of memory without bytes are not aligned.
    let aligned = |buffer: &Buffer| {
        if buffer.memory.is_empty() {
            0
        } else {
            buffer.address()
        }
    };
    let launches = device.launches(
        source.address(),
        address,
        aligned(&tables),
        aligned(&scratch),
    );
    for step in launches.expect("aligned") {
        if let Some((address, bytes)) = step.clear {
            assert!(address == scratch.address() && bytes <= scratch.memory.len());
            // SAFETY: the memory belongs to `scratch` (above), and has no other user.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        }
        // SAFETY: the buffers have the sizes that the operation reports, and live until the end of
        // this function.
        assert_eq!(unsafe { launch(&step) }, 0);
    }
    let (before, rest) = out.memory[lead..].split_at(GUARD);
    let (planes, behind) = rest.split_at(codes.len());
    assert!(
        before.iter().chain(behind).all(|&byte| byte == UNTOUCHED),
        "written outside the planes"
    );
    planes.to_vec()
}

/// Deinterlaces a frame and returns the codes of each component; see [`Deinterlace::launches`].
pub fn deinterlaced_codes(
    deinterlace: Deinterlace,
    frame: &FrameView<'_>,
    components: usize,
    lead: usize,
) -> Vec<Vec<Vec<u32>>> {
    let bytes = Deinterlace::memory_bytes(frame).expect("a valid frame");
    let (device, _planes) = upload(frame, lead);
    let out = Buffer::aligned(&vec![UNTOUCHED; bytes + GUARD]);
    let (device, launches) = deinterlace
        .launches(&device, out.address())
        .expect("aligned");
    for step in launches {
        // SAFETY: the frame has passed the CPU's length checks, and `out` has the size that it
        // requires.
        assert_eq!(unsafe { launch(&step) }, 0);
    }
    assert!(
        out.memory[bytes..].iter().all(|&byte| byte == UNTOUCHED),
        "written after the planes"
    );
    let planes = device.planes.map(|_, plane| Plane {
        data: &out.memory[(plane.address - out.address()) as usize..bytes],
        stride_bytes: plane.stride_bytes,
    });
    let DeviceFrame {
        width,
        height,
        depth_bits,
        shift,
        color,
        ..
    } = device;
    let view = FrameView {
        width,
        height,
        depth_bits,
        shift,
        planes,
        color,
    };
    (0..components)
        .map(|component| reference::codes(&view, None, component))
        .collect()
}

/// The launcher's result for an empty launch.
pub fn refusal(kernel: &str, block: [u32; 3]) -> c_int {
    let name = CString::new(kernel).unwrap();
    let (grid, args) = ([0u32, 1, 1], vec![0u8; args_bytes(kernel).max(1)]);
    // SAFETY: a grid without blocks reads no more than the name, grid and block.
    unsafe {
        framespool_host_launch(
            name.as_ptr(),
            grid.as_ptr(),
            block.as_ptr(),
            0,
            args.as_ptr().cast(),
        )
    }
}
