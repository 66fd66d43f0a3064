//! In: calls of the CUDA driver, of NVCUVID and of nvJPEG.
//! Out: what they promise, on host memory, as late and in as bad an order as they allow.
//! Never: measured: nothing here is as fast or as slow as a GPU.
//!
//! A test double. It is opened as `libcuda.so.1`, `libnvcuvid.so.1` and `libnvjpeg.so.12` (`build.sh` makes the folder), and it is
//! worth something only where it is at least as unkind as a driver may be: work runs late, in any order that events do not forbid; memory is fenced;
//! misuse that a driver would let pass in silence is written down (`simulated_gpu_violations`, and the report at exit).
//!
//! | variable `FRAMESPOOL_SIMULATED_…` | what it does |
//! |---|---|
//! | `SEED=n` | chooses all that a driver leaves open; 0 (the default) runs nothing before somebody waits for it |
//! | `BEHAVIORS=name=0,name=1` | sets one such choice by name, see below |
//! | `FAULT=function:3=2,function:5+=700` | the 3rd call fails with CUresult 2; from the 5th on they fail with 700, which is sticky |
//! | `MEMORY=bytes` | device memory, 8 GiB by default; decode surfaces count and take none |
//! | `DEVICES=n`, `ENGINES=n` | 1 device with 7 engines by default |
//! | `JPEG_ENGINES=n` | 7 by default; with 0, nvJPEG has no hardware backend |
//! | `CODECS=h264,hevc,vp8,vp9,av1` | what the engines decode; all but av1 by default, as on an H200 |
//! | `REPORT=path` | at exit: calls, violations, notes, live objects, memory, as JSON; `%p` in the path is the process |
//! | `LOUD=1` | violations go to stderr as they happen |
//!
//! | behavior | a driver that… |
//! |---|---|
//! | `lazy` | runs nothing but what is waited for; else others run first, now and then or nearly always |
//! | `early` | also runs work at once, some of the time |
//! | `oldest_index` | hands out the picture index that is free longest; else the one that was shown just now |
//! | `wide_pitch` | pads surfaces by 512 bytes a row |
//! | `packet_lag` | VP8, VP9, AV1: needs the next packet (or ENDOFPICTURE) to be sure of one |
//! | `sequence_repeated` | announces an unchanged sequence again with each header at a random access point |
//! | `callback_failure_hidden` | says success though a callback failed |
//! | `jpeg_late` | nvJPEG's hardware backend begins some time after the call; else at the call, whatever the stream holds, as on an H100 |
//! | `jpeg_wide` | nvJPEG writes its planes' rows up to the pitch |
//! | `minimum_zero` | announces 0 as the least number of surfaces (only when set by name) |
//! | `captured` | a thread of the process captures a graph in mode "global": what that forbids fails (only when set by name) |
//!
//! Races are found when work is submitted, by vector clocks over streams, events and what the host has waited for: two operations on the
//! same bytes, one of them a write, that nothing puts in order. A kernel is known by the addresses in its arguments: each counts as
//! "read or written there", at that address only, so two kernels are never said to race.
//!
//! Coarser than the real thing: one decode callback for an AV1 temporal unit, even one that shows an older picture; P- and B-frames of a
//! damaged stream are concealed as libavcodec does it; nvJPEG's samples are libavcodec's, whatever the backend; no engine takes time; contexts other than primary ones do not exist.

mod call_log;
mod control;
mod cuda;
mod cuvid;
mod driver_state;
mod nvjpeg;
