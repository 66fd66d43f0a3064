//! Two kernels that every test can launch: `simulated_gpu_fill` and `simulated_gpu_copy`,
//! recognized by name in any PTX text. They check no address, so that a wrong one faults.
#![allow(unsafe_code)]

/// Parameter of `simulated_gpu_fill`: { u64 to; u64 bytes; u64 value }; of `simulated_gpu_copy`: {
/// u64 to; u64 from; u64 bytes }.
pub fn args_bytes(kernel: &str) -> Option<usize> {
    matches!(kernel, "simulated_gpu_fill" | "simulated_gpu_copy").then_some(24)
}

pub fn run(kernel: &str, args: &[u128]) -> Option<i32> {
    args_bytes(kernel)?;
    let (first, second, third) = (
        args[0] as u64 as usize,
        (args[0] >> 64) as usize,
        args[1] as u64 as usize,
    );
    for at in 0..if kernel == "simulated_gpu_fill" {
        second
    } else {
        third
    } {
        // SAFETY: none of its own: it replaces a kernel, and runs under a guard that converts
        // faults to errors.
        unsafe {
            let byte = if kernel == "simulated_gpu_fill" {
                third as u8
            } else {
                ((second + at) as *const u8).read_volatile()
            };
            ((first + at) as *mut u8).write_volatile(byte);
        }
    }
    Some(0)
}
