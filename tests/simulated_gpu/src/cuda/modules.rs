//! Loads PTX modules, whose launches run the C++ build of the same kernels, asynchronously and
//! within the device's limits. Of the PTX text, only the entry points are parsed.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CString, c_char, c_void};

use super::copies::memory_access;
use super::{driver, read, slice, text, write};
use crate::call_log::{
    Code, INVALID_HANDLE, INVALID_PTX, INVALID_SOURCE, INVALID_VALUE, NOT_FOUND, refuse,
};
use crate::driver_state::race::AccessKind;
use crate::driver_state::streams::{Failure, Outcome, Work};
use crate::driver_state::{DriverState, Function, Module, current, driver_state};

mod builtin_kernels;

const SHARED_BYTES: u32 = 48 << 10;
const SHARED_BYTES_OPT_IN: u32 = 232_448;
const PARAMETER_BYTES: usize = 4096;

unsafe extern "C" {
    fn framespool_host_args_bytes(kernel: *const c_char) -> usize;
    fn framespool_host_launch(
        kernel: *const c_char,
        grid: *const u32,
        block: *const u32,
        shared_bytes: u32,
        args: *const c_void,
    ) -> i32;
    fn simulated_guarded(
        call: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        address: *mut usize,
    ) -> i32;
}

fn args_bytes(kernel: &str) -> usize {
    if let Some(bytes) = builtin_kernels::args_bytes(kernel) {
        return bytes;
    }
    let Ok(name) = CString::new(kernel) else {
        return 0;
    };
    // SAFETY: the C++ build reads a C string.
    unsafe { framespool_host_args_bytes(name.as_ptr()) }
}

struct KernelCall {
    kernel: CString,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// Sixteen bytes each, so that the struct in them is aligned.
    args: Vec<u128>,
    result: i32,
}

extern "C" fn call_kernel(argument: *mut c_void) {
    // SAFETY: `run` passes only its own `Call`, which is alive until the guarded call returns.
    let call = unsafe { &mut *argument.cast::<KernelCall>() };
    call.result = match builtin_kernels::run(call.kernel.to_str().unwrap_or(""), &call.args) {
        Some(result) => result,
        // SAFETY: the arguments are as long as `framespool_host_args_bytes` said; addresses in them
        // are fenced memory.
        None => unsafe {
            let (grid, block, args) = (call.grid.as_ptr(), call.block.as_ptr(), call.args.as_ptr());
            framespool_host_launch(
                call.kernel.as_ptr(),
                grid,
                block,
                call.shared_bytes,
                args.cast(),
            )
        },
    };
}

fn run(mut call: KernelCall) -> Outcome {
    let mut address = 0usize;
    // SAFETY: one guarded call at a time (the driver state's lock is held); a fault returns its
    // address. Objects of a kernel that are skipped by the return have no destructors.
    let faulted = unsafe { simulated_guarded(call_kernel, (&raw mut call).cast(), &mut address) };
    match (faulted, call.result) {
        (0, 0) => Ok(()),
        (0, result) => Err(Failure::Refused(format!(
            "the C++ build of the kernel returned {result}"
        ))),
        _ => Err(Failure::Fault(address)),
    }
}

/// Addresses among the arguments: every aligned word that points into live device memory.
fn addresses(driver_state: &DriverState, args: &[u8], label: &str) -> Result<Vec<usize>, Code> {
    let words = args
        .chunks_exact(8)
        .map(|word| usize::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut found = Vec::new();
    for word in words {
        if driver_state.memory.find(word).is_some() && !found.contains(&word) {
            driver_state.usable(word, 1, label)?;
            found.push(word);
        }
    }
    Ok(found)
}

#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

fn check_launch_config(config: &LaunchConfig, limit_bytes: u32, name: &str) -> Result<(), Code> {
    let LaunchConfig {
        grid,
        block,
        shared_bytes,
    } = *config;
    let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
    let grid_fits = grid[0] <= i32::MAX as u32 && grid[1] <= 65535 && grid[2] <= 65535;
    let block_fits = block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && threads <= 1024;
    if grid.contains(&0) || block.contains(&0) || !grid_fits || !block_fits {
        return refuse(
            INVALID_VALUE,
            format!("launch of {name}: grid {grid:?} of blocks {block:?} is beyond the device"),
        );
    }
    if shared_bytes > limit_bytes {
        return refuse(
            INVALID_VALUE,
            format!(
                "launch of {name}: {shared_bytes} bytes of shared memory, {limit_bytes} are allowed; set MAX_DYNAMIC_SHARED_SIZE_BYTES"
            ),
        );
    }
    Ok(())
}

fn launch(
    function: usize,
    config: LaunchConfig,
    stream: usize,
    params: *const *const u8,
    extra: *const usize,
) -> Result<(), Code> {
    let device = current("cuLaunchKernel")?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, "cuLaunchKernel")?;
    let Some(f) = driver_state.functions.get(&function) else {
        return refuse(
            INVALID_HANDLE,
            format!("cuLaunchKernel: {function:#x} is no live function"),
        );
    };
    let (name, limit) = (f.name.clone(), f.shared_limit_bytes);
    if driver_state
        .modules
        .get(&f.module)
        .is_none_or(|m| m.device != device)
    {
        return refuse(
            INVALID_HANDLE,
            format!("launch of {name}: its module is of another device, or unloaded"),
        );
    }
    check_launch_config(&config, limit, &name)?;
    let bytes = args_bytes(&name);
    let args = if !params.is_null() {
        slice(
            read(params, "kernel parameters")?,
            bytes,
            "the kernel's one parameter",
        )?
        .to_vec()
    } else if !extra.is_null() {
        let (mut from, mut given) = (0usize, 0usize);
        for pair in 0..4 {
            match read(extra.wrapping_add(pair * 2), "launch extra")? {
                1 => from = read(extra.wrapping_add(pair * 2 + 1), "launch extra")?,
                2 => {
                    given = read(
                        read(extra.wrapping_add(pair * 2 + 1), "launch extra")? as *const usize,
                        "size",
                    )?
                }
                _ => break,
            }
        }
        if given != bytes {
            return refuse(
                INVALID_VALUE,
                format!("launch of {name}: {given} bytes of arguments, its parameter has {bytes}"),
            );
        }
        slice(from as *const u8, bytes, "the kernel's one parameter")?.to_vec()
    } else {
        return refuse(
            INVALID_VALUE,
            format!("launch of {name} without parameters"),
        );
    };
    if bytes > PARAMETER_BYTES {
        return refuse(
            INVALID_VALUE,
            format!("launch of {name}: {bytes} bytes of parameters, 4096 are allowed"),
        );
    }
    let label = format!("kernel {name}");
    let given = addresses(&driver_state, &args, &label)?;
    let accesses = given
        .into_iter()
        .map(|address| memory_access(address, 1, AccessKind::Unknown))
        .collect();
    let mut words = vec![0u128; bytes.div_ceil(16)];
    for (word, part) in words.iter_mut().zip(args.chunks(16)) {
        let mut full = [0u8; 16];
        full[..part.len()].copy_from_slice(part);
        *word = u128::from_ne_bytes(full);
    }
    let kernel = CString::new(name).map_err(|_| INVALID_VALUE)?;
    let LaunchConfig {
        grid,
        block,
        shared_bytes,
    } = config;
    let call = KernelCall {
        kernel,
        grid,
        block,
        shared_bytes,
        args: words,
        result: 0,
    };
    let work: Work = Box::new(move || run(call));
    driver_state.submit(id, label, accesses, work).map(drop)
}

fn load(out: *mut usize, image: *const c_char, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    let text = text(image, "image")?;
    let lines = || {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
    };
    if !lines()
        .next()
        .is_some_and(|line| line.starts_with(".version"))
    {
        return refuse(
            INVALID_SOURCE,
            format!("{call}: the image does not start like PTX"),
        );
    }
    let version = lines()
        .next()
        .and_then(|line| line[8..].trim().parse::<f32>().ok())
        .unwrap_or(99.0);
    if version > 9.0 {
        return Err(222);
    }
    if !lines().any(|line| line.starts_with(".target")) {
        return refuse(INVALID_PTX, format!("{call}: PTX without .target"));
    }
    let mut driver_state = driver_state();
    let id = driver_state.handle();
    driver_state.modules.insert(id, Module { device, text });
    write(out, id, "module")
}

/// Whether the entry point exists, as a complete word.
fn has_entry(ptx: &str, name: &str) -> bool {
    let named = |rest: &str| {
        rest.trim_start()
            .strip_prefix(name)
            .is_some_and(|after| after.trim_start().starts_with(['(', '{']))
    };
    ptx.split(".entry").skip(1).any(named)
}

driver! {
    fn cuModuleLoadData(out: *mut usize, image: *const c_char) { load(out, image, "cuModuleLoadData") }
    fn cuModuleLoadDataEx(out: *mut usize, image: *const c_char, count: u32, options: *const i32, values: *const usize) {
        // CU_JIT_ERROR_LOG_BUFFER 5, _SIZE_BYTES 6; CU_JIT_INFO_LOG_BUFFER 3, _SIZE_BYTES 4: an
        // error leaves a line there.
        let loaded = load(out, image, "cuModuleLoadDataEx");
        let (mut log, mut room) = (0usize, 0usize);
        for at in 0..count as usize {
            let value = read(values.wrapping_add(at), "a JIT option's value")?;
            match read(options.wrapping_add(at), "a JIT option")? {
                5 => log = value,
                6 => room = value & 0xFFFF_FFFF,
                3 if value != 0 => write(value as *mut u8, 0, "log")?,
                _ => (),
            }
        }
        let line = if loaded.is_err() { "ptxas simulated: the image was refused" } else { "" };
        if log != 0 && room > line.len() {
            for (at, &byte) in line.as_bytes().iter().chain(&[0]).enumerate() {
                write((log + at) as *mut u8, byte, "log")?;
            }
        }
        loaded
    }
    fn cuModuleUnload(module: usize) {
        let device = current("cuModuleUnload")?;
        let mut driver_state = driver_state();
        if driver_state.modules.remove(&module).is_none() {
            return refuse(INVALID_HANDLE, format!("cuModuleUnload: {module:#x} is no live module"));
        }
        driver_state.synchronize_device(device)?;
        driver_state.functions.retain(|_, f| f.module != module);
        Ok(())
    }
    fn cuModuleGetFunction(out: *mut usize, module: usize, name: *const c_char) {
        current("cuModuleGetFunction")?;
        let name = text(name, "name")?;
        let mut driver_state = driver_state();
        let Some(loaded) = driver_state.modules.get(&module) else {
            return refuse(INVALID_HANDLE, format!("cuModuleGetFunction: {module:#x} is no live module"));
        };
        if !has_entry(&loaded.text, &name) {
            return Err(NOT_FOUND);
        }
        if args_bytes(&name) == 0 {
            return refuse(NOT_FOUND, format!("kernel {name} is in the PTX, but not in the C++ build"));
        }
        let id = driver_state.handle();
        driver_state.functions.insert(id, Function { module, name, shared_limit_bytes: SHARED_BYTES });
        write(out, id, "function")
    }
    fn cuFuncGetAttribute(value: *mut i32, which: i32, function: usize) {
        let driver_state = driver_state();
        let Some(f) = driver_state.functions.get(&function) else {
            return refuse(INVALID_HANDLE, format!("cuFuncGetAttribute: {function:#x} is no live function"));
        };
        write(value, match which { 0 => 1024, 1 => 0, 4 => 56, 5 | 6 => 90, 8 => f.shared_limit_bytes as i32, _ => 0 }, "value")
    }
    fn cuFuncSetAttribute(function: usize, which: i32, value: i32) {
        let mut driver_state = driver_state();
        let Some(f) = driver_state.functions.get_mut(&function) else {
            return refuse(INVALID_HANDLE, format!("cuFuncSetAttribute: {function:#x} is no live function"));
        };
        match (which, u32::try_from(value)) {
            (8, Ok(bytes)) if bytes <= SHARED_BYTES_OPT_IN => f.shared_limit_bytes = bytes.max(SHARED_BYTES),
            (9, _) => (),
            _ => return refuse(INVALID_VALUE, format!("cuFuncSetAttribute({which}, {value})")),
        }
        Ok(())
    }
    fn cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, stream: usize,
        params: *const *const u8, extra: *const usize,
    ) {
        let config = LaunchConfig { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes };
        launch(function, config, stream, params, extra)
    }
}
