//! Simulates the CUDA driver, NVCUVID and nvJPEG on host memory, with the latest and least
//! convenient order that they allow. It is not for measurements: it is neither as fast nor as slow
//! as a GPU.
//!
//! It is a test double, opened as `libcuda.so.1`, `libnvcuvid.so.1` and `libnvjpeg.so.12`, and as
//! `libtorch_cuda.so` for PyTorch's current stream (`build.sh` creates the folder). It must be at
//! least as strict as any driver: work runs late, in any order that events allow; memory is fenced;
//! misuse that a driver accepts silently is recorded (`simulated_gpu_violations`, and the report at
//! exit).
//!
//! | variable `FRAMESPOOL_SIMULATED_…` | what it does |
//! |---|---|
//! | `SEED=n` | selects everything that a driver leaves unspecified; with 0 (the default) work runs only when it is waited for |
//! | `BEHAVIORS=name=0,name=1` | sets such choices by name, see below |
//! | `MODES=n` | enables a combination of the behaviors marked "mode" below, chosen by n and the seed; with 0 (the default) none |
//! | `FAULT=function:3=2,function:5+=700` | the 3rd call fails with CUresult 2; from the 5th on they fail with 700, which is sticky |
//! | `MEMORY=bytes` | device memory, 8 GiB by default; decode surfaces count but use no memory |
//! | `DEVICES=n`, `ENGINES=n` | 1 device with 7 engines by default |
//! | `JPEG_ENGINES=n` | 7 by default; with 0, nvJPEG has no hardware backend |
//! | `CODECS=h264,hevc,vp8,vp9,av1` | codecs of the engines; all but av1 by default, as on an H200 |
//! | `REPORT=path` | at exit: calls, violations, notes, live objects, memory, as JSON; `%p` in the path is the process id |
//! | `LOUD=1` | prints violations to stderr immediately |
//!
//! | behavior | a driver that… |
//! |---|---|
//! | `lazy` | runs only what is waited for; else other work runs first, sometimes or nearly always |
//! | `early` | also runs work immediately, some of the time |
//! | `oldest_index` | reuses the picture index that is free for the longest time; else that of the picture just displayed |
//! | `wide_pitch` | pads surface rows by 512 bytes |
//! | `packet_lag` | VP8, VP9, AV1: needs the next packet (or ENDOFPICTURE) to complete one |
//! | `sequence_repeated` | announces an unchanged sequence again with each header at a random access point |
//! | `callback_failure_hidden` | returns success although a callback failed |
//! | `jpeg_late` | nvJPEG's hardware backend starts some time after the call; else at the call, also if the stream has work, as on an H100 |
//! | `jpeg_wide` | nvJPEG writes complete rows of its planes, up to the pitch |
//! | `minimum_zero` | announces 0 as the minimum number of surfaces (only when set by name) |
//! | `captured` | a thread of the process captures a graph in mode "global": calls that this forbids fail (only when set by name) |
//! | `conceals_silently` | H.264, HEVC: reports a concealed picture as intact (only when set by name) |
//! | `mig` | is in MIG mode: its devices are instances with UUIDs of their own (only when set by name) |
//! | `held_overwritten` | mode: overwrites a surface when it is unmapped, before reads that wait for a stream to which nothing is mapped |
//! | `unmapped_overwritten` | overwrites a surface when it is unmapped, before all reads that are left (only when set by name) |
//! | `status_after_map` | mode: reports "in progress" for a picture until it is mapped |
//! | `pageable_waits` | mode: waits for the stream in an upload from pageable memory |
//! | `more_surfaces` | mode: announces more surfaces than the stream needs |
//! | `hevc_padded` | mode: rounds coded sizes of HEVC up to multiples of 32, since those of the test media are multiples of 16 |
//! | `timestamp_queue` | mode: keeps 16 timestamps of pictures and fields that are not displayed yet; an older one becomes 0 |
//! | `slow_create` | mode: creates decoders one after another, each in 30 ms |
//! | `failing_create` | mode: has no memory for every third decoder |
//! | `busy_map` | mode: decodes a picture in 0.3 ms, and waits for it in the map |
//!
//! Races are detected when work is enqueued, by vector clocks over streams, events and host waits:
//! two operations on the same bytes, one of them a write, without a defined order. A kernel's
//! accesses are the addresses in its arguments: each counts as "read or written there", at that
//! address only, so no race between two kernels is reported.
//!
//! Less precise than the real driver: one decode callback for an AV1 temporal unit, even one that
//! displays an older picture; P- and B-frames of a damaged stream are concealed as in libavcodec;
//! nvJPEG's samples are libavcodec's, for every backend; engines need no time, except in
//! `busy_map`; there are only primary contexts.

mod call_log;
mod control;
mod cuda;
mod cuvid;
mod driver_state;
mod nvjpeg;
