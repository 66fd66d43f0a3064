//! In: the names `simulated_gpu_fill` and `simulated_gpu_copy` in any PTX text.
//! Out: two kernels that every test can launch, whatever other kernels there are.
//! Never: checks an address: a wrong one is to fault.
#![allow(unsafe_code)]

/// Parameter of `simulated_gpu_fill`: { u64 to; u64 bytes; u64 value }; of `simulated_gpu_copy`: { u64 to; u64 from; u64 bytes }.
pub fn args_bytes(kernel: &str) -> Option<usize> {
    matches!(kernel, "simulated_gpu_fill" | "simulated_gpu_copy").then_some(24)
}

pub fn run(kernel: &str, args: &[u128]) -> Option<i32> {
    args_bytes(kernel)?;
    let (first, second, third) = (args[0] as u64 as usize, (args[0] >> 64) as usize, args[1] as u64 as usize);
    for at in 0..if kernel == "simulated_gpu_fill" { second } else { third } {
        // SAFETY: none of its own: it stands for a kernel, and runs under a guard that turns faults into errors.
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
