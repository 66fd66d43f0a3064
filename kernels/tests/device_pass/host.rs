//! In: a pass, a frame and the shape of a slot.
//! Out: what the kernels write, run on this machine with host memory as device memory.
//! Never: lets an address leave: all memory that kernels see is made here and outlives them.

// Calls C++ with addresses inside a struct of bytes.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void, CString};

use framespool_kernels::*;

extern "C" {
    fn framespool_host_args_bytes(kernel: *const c_char) -> usize;
    fn framespool_host_launch(
        kernel: *const c_char,
        grid: *const c_uint,
        block: *const c_uint,
        shared_bytes: c_uint,
        args: *const c_void,
    ) -> c_int;
}

/// What every byte of a slot and of the guards around it holds before a run.
pub const UNTOUCHED: u8 = 0xEE;
/// Bytes before and behind a slot.
const GUARD: usize = 256;

/// Bytes of the argument of a kernel; 0 for unknown ones.
pub fn args_bytes(kernel: &str) -> usize {
    let name = CString::new(kernel).unwrap();
    // SAFETY: the name is a C string that outlives the call.
    unsafe { framespool_host_args_bytes(name.as_ptr()) }
}

/// Runs a launch.
///
/// # Safety
/// Every address in its argument must lead to memory of the size that the kernel takes it for.
unsafe fn launch(launch: &Launch) -> c_int {
    assert_eq!(launch.args.len(), args_bytes(launch.kernel), "{}", launch.kernel);
    let name = CString::new(launch.kernel).unwrap();
    let Launch { grid, block, shared_bytes, args, .. } = launch;
    // What every GPU can launch without being asked for more.
    assert!(*shared_bytes <= 48 << 10 && grid[1] <= 65_535 && grid[2] == 1 && args.len() <= 4096);
    // SAFETY: the argument is as long as the kernel's (above); grid and block are three numbers each; addresses by the caller.
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

/// Bytes whose end is the allocation's, `lead` bytes into it: a sanitizer sees what is read behind them.
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

    /// With rubbish in it, at a multiple of 16 as `malloc` gives.
    fn aligned(bytes: &[u8]) -> Self {
        let buffer = Self::new(bytes, 0);
        assert!(bytes.is_empty() || buffer.address().is_multiple_of(16));
        buffer
    }
}

/// The same planes in memory of their own, each `lead` bytes behind a multiple of 16.
fn upload(frame: &FrameView<'_>, lead: usize) -> (DeviceFrame, Vec<Buffer>) {
    let mut buffers = Vec::new();
    let mut place = |plane: Plane<'_>| {
        buffers.push(Buffer::new(plane.data, lead));
        let address = buffers.last().unwrap().address();
        DevicePlane { address, stride_bytes: plane.stride_bytes }
    };
    let planes = match frame.planes {
        Planes::Gray(plane) => DevicePlanes::Gray(place(plane)),
        Planes::PlanarRgb(planes) => DevicePlanes::PlanarRgb(planes.map(place)),
        Planes::PackedRgb { plane, pixel_bytes, offsets } => {
            DevicePlanes::PackedRgb { plane: place(plane), pixel_bytes, offsets }
        }
        Planes::Yuv { planes, log2_chroma_w, log2_chroma_h } => {
            DevicePlanes::Yuv { planes: planes.map(place), log2_chroma_w, log2_chroma_h }
        }
        Planes::SemiPlanar { luma, chroma, log2_chroma_w, log2_chroma_h } => {
            let (luma, chroma) = (place(luma), place(chroma));
            DevicePlanes::SemiPlanar { luma, chroma, log2_chroma_w, log2_chroma_h }
        }
    };
    let FrameView { width, height, depth_bits, shift, color, .. } = *frame;
    (DeviceFrame { width, height, depth_bits, shift, planes, color }, buffers)
}

/// Writes one frame into a slot of `bytes` bytes with these strides of channels, rows and columns, and gives its bytes.
/// What lies around it must stay as it was. Planes begin `lead` bytes, the slot as many elements, behind a multiple of 16.
pub fn run(
    pass: &PixelPass,
    frame: &FrameView<'_>,
    [channel_stride, row_stride, column_stride]: [usize; 3],
    bytes: usize,
    lead: usize,
) -> Result<Vec<u8>, PassError> {
    // What a device cannot see must hold here.
    let mut data = vec![0; bytes];
    let mut slot = OutputSlot { data: &mut data, channel_stride, row_stride, column_stride };
    let on_cpu = pass.clone().run(frame, &mut slot, &mut Scratch::new());
    if matches!(on_cpu, Err(PassError::PlaneTooShort { .. } | PassError::SlotTooShort { .. })) {
        return Err(on_cpu.unwrap_err());
    }
    let (frame, _planes) = upload(frame, lead);
    let device = pass.for_device(&frame.format())?;
    let tables = Buffer::aligned(device.tables());
    let scratch = Buffer::aligned(&vec![0x5A; device.scratch_bytes()]);
    let out = Buffer::new(&vec![UNTOUCHED; bytes + 2 * GUARD], lead * pass.output_spec().dtype.bytes());
    let address = out.address() + GUARD as u64;
    let slot = DeviceSlot { address, channel_stride, row_stride, column_stride };
    for step in device.launches(&frame, tables.address(), scratch.address(), slot)? {
        if let Some((address, bytes)) = step.clear {
            assert!(address == scratch.address() && bytes <= scratch.memory.len());
            // SAFETY: the memory is `scratch`'s (above), and nobody else looks at it.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        }
        // SAFETY: planes, slot and strides have passed the CPU's checks, which look at lengths; tables and scratch are as long as
        // the pass says; all of them live in buffers above.
        assert_eq!(unsafe { launch(&step) }, 0, "{}", step.kernel);
    }
    let (before, rest) = out.memory[out.lead..].split_at(GUARD);
    let (slot, behind) = rest.split_at(bytes);
    assert!(before.iter().chain(behind).all(|&byte| byte == UNTOUCHED), "written beside the slot");
    Ok(slot.to_vec())
}

/// Turns codes into elements; see [`DeviceLut::launch`].
pub fn expand(
    expand: &ElementLut,
    codes: &[u8],
    (plane_codes, planes): (usize, u32),
    turns: (usize, bool),
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
        .launch(codes.address(), (plane_codes as u64, planes), turns, tables.address(), address)
        .expect("aligned");
    // SAFETY: as many codes and elements as the launch is told of, in buffers that live until the end of this function.
    assert_eq!(unsafe { launch(&step) }, 0);
    let (before, rest) = out.memory[out.lead..].split_at(GUARD);
    let (elements, behind) = rest.split_at(bytes);
    assert!(before.iter().chain(behind).all(|&byte| byte == UNTOUCHED), "written beside the elements");
    elements.to_vec()
}

/// What the launcher says to a launch of nothing.
pub fn refusal(kernel: &str, block: [u32; 3]) -> c_int {
    let name = CString::new(kernel).unwrap();
    let (grid, args) = ([0u32, 1, 1], vec![0u8; args_bytes(kernel).max(1)]);
    // SAFETY: a grid without blocks reads no more than the name, grid and block.
    unsafe { framespool_host_launch(name.as_ptr(), grid.as_ptr(), block.as_ptr(), 0, args.as_ptr().cast()) }
}
