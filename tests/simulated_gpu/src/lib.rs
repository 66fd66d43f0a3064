//! In: calls of the CUDA driver and of NVCUVID.
//! Out: what they promise, on host memory, as late and in as bad an order as they allow.
//! Never: measured: nothing here is as fast or as slow as a GPU.
//!
//! A test double. It is opened as `libcuda.so.1` and as `libnvcuvid.so.1` (`folder.sh` makes the folder), and it is worth something
//! only where it is at least as unkind as a driver may be: work runs late, in any order that events do not forbid; memory is fenced;
//! misuse that a driver would let pass in silence is written down (`simulated_gpu_violations`, and the report at exit).

mod control;
mod cuda;
mod cuvid;
mod ledger;
mod world;
