//! Tests that decoding on the GPU gives the same bytes as on the CPU, for every video and for
//! loaders of every kind. If a driver call fails, the result is the same or a clean error, without
//! leaks or endless waits. Faults need the simulated GPU (`tests/simulated_gpu/build.sh`).

#[path = "driver_calls.rs"]
mod driver_calls;
#[path = "fault_injection.rs"]
mod fault_injection;
#[path = "formats.rs"]
mod formats;
#[path = "upload.rs"]
mod upload;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::common::loaders::{
    config, deliver, normalized, resized_crop, shorter_side, try_deliver, two_views,
};
use crate::exclusive;
use crate::simulated_driver::SimulatedGpu;
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_sampler::{ClipSamplerRef, PadMode, PaddingPolicy, Random, Windows};
use framespool::dataset::MediaLocation;
use framespool::dataset::Sample;
use framespool::gpu::Gpu;
use framespool::loader::{
    DecoderBackend, GpuConfig, LOOK_AHEAD, LoaderConfig, LoaderOptions, MEMORY_BUDGET, OnError,
};
use framespool::rng::RngKey;
use framespool::transforms::transform::{Size, Target, Transform};
use framespool::transforms::{Dtype, Filter, Layout, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, Video};
use framespool::{Error, Result};

/// Returns the first GPU, or `None` (and prints a line) if there is none.
fn gpu() -> Option<Arc<Gpu>> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(
                std::env::var_os("FRAMESPOOL_GPU_TESTS").is_none(),
                "a GPU must be here: {error}"
            );
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

fn small_pipeline() -> TransformPipeline {
    let target = Target::Exact(Size {
        height: 48,
        width: 64,
    });
    let resize = Transform::Resize {
        target,
        filter: Filter::Triangle,
        display_aspect: false,
    };
    TransformPipeline::new(vec![resize], Dtype::U8, Layout::Nthwc).expect("a pipeline")
}

fn full_size_pipeline() -> TransformPipeline {
    TransformPipeline::new(Vec::<Transform>::new(), Dtype::U8, Layout::Nthwc).expect("a pipeline")
}

/// Returns the bytes of the frames, or the error message.
fn frames(
    video: &Video,
    clip_decoder: &mut ClipDecoder,
    wanted: &[PresentationIndex],
) -> Result<Vec<u8>, String> {
    let key = RngKey {
        seed: 1,
        epoch: 0,
        clip: 0,
        occurrence: 0,
    };
    let mut output = clip_decoder.output();
    let made = clip_decoder.decode_clip(&mut video.reader(), wanted, key, &mut output);
    made.map_err(|e| e.to_string())?;
    let (buffer, _) = output
        .into_clip()
        .map_err(|e| e.to_string())?
        .expect("frames were requested");
    let mut bytes = vec![0; buffer.len()];
    buffer
        .copy_to_host(0, &mut bytes)
        .map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Returns requests for frames of one video: one request for frames at the beginning, spread over
/// the video, around random access points and at the end; one with a stride; and single frames. The
/// requests are longer if FRAMESPOOL_GPU_LONG is set; otherwise frames of large videos that are
/// deep in a GOP are omitted.
fn frame_selections(video: &Video, is_large: bool) -> Vec<Vec<PresentationIndex>> {
    let long = std::env::var_os("FRAMESPOOL_GPU_LONG").is_some();
    let index = video.index();
    let n = index.num_frames();
    let (first, spread, starts_met, strides, singles) = match (long, is_large) {
        (true, _) => (24, 12, 4, 16, 10),
        (false, false) => (8, 3, 2, 5, 2),
        (false, true) => {
            let start = index
                .key_frames()
                .get(1)
                .map_or(n / 8, |f| f.0)
                .min(n / 8 + 20)
                .min(n - 1);
            let some = (0..n.min(3))
                .chain(start.saturating_sub(1)..(start + 2).min(n))
                .map(PresentationIndex);
            return vec![some.collect()];
        }
    };
    let spread = (0..spread).map(|i| i * n / spread);
    let mut some: Vec<u32> = (0..n.min(first))
        .chain(spread)
        .chain(n.saturating_sub(3)..n)
        .collect();
    let starts: Vec<u32> = index.key_frames().iter().map(|f| f.0).collect();
    for &start in starts
        .iter()
        .skip(1)
        .step_by((starts.len() / starts_met).max(1))
    {
        some.extend(start.saturating_sub(3)..(start + 4).min(n));
    }
    some.sort_unstable();
    some.dedup();
    let alone = some
        .iter()
        .rev()
        .step_by(some.len() / singles + 1)
        .map(|&f| vec![PresentationIndex(f)]);
    let strided: Vec<PresentationIndex> = (n / 5..n)
        .step_by(5)
        .take(strides)
        .map(PresentationIndex)
        .collect();
    let all = some.iter().copied().map(PresentationIndex).collect();
    [all, strided]
        .into_iter()
        .filter(|w: &Vec<_>| !w.is_empty())
        .chain(alone)
        .collect()
}

#[derive(Default)]
struct ComparisonStats {
    files: u32,
    requests: u32,
    unnoticed: u32,
    by_gpu: u32,
    by_cpu: u32,
    decoded: u64,
    skipped: u64,
    reasons: BTreeMap<String, u32>,
    differences: Vec<String>,
}

/// Decodes one video on the GPU and on the CPU, resized, and at full size if the video is small.
fn compare(entry: &crate::common::Entry, gpu: &Arc<Gpu>, stats: &Mutex<ComparisonStats>) {
    if entry.damage_is_unreported() && !entry.in_corpus() {
        return; // the pixels of such a frame depend on what was decoded before it
    }
    let begun = Instant::now();
    let Ok(source) = entry.source() else { return };
    let Ok(video) = Video::open(source) else {
        return;
    };
    let on_gpu = |pipeline| {
        ClipDecoder::with_gpu(pipeline, 1, Some(gpu.clone()))
            .with_nvdec(gpu)
            .expect("a session")
    };
    let width = entry.properties["width"].as_u64().unwrap_or(u64::MAX);
    let (is_small, is_large) = (width <= 480, width > 720);
    let sizes = [Some(small_pipeline()), is_small.then(full_size_pipeline)];
    for (n, pipeline) in sizes.into_iter().flatten().enumerate() {
        let (mut cpu, mut device) = (ClipDecoder::new(pipeline.clone()), on_gpu(pipeline));
        let mut choices = frame_selections(&video, is_large);
        if n > 0 {
            choices.truncate(1);
            choices[0].truncate(9);
        }
        for wanted in &choices {
            let (expected, got) = (
                frames(&video, &mut cpu, wanted),
                frames(&video, &mut device, wanted),
            );
            let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
            stats.requests += 1;
            // The GPU may not detect damage that libavcodec detects. Damage that it does detect is
            // decoded again by libavcodec, so the result must be the same.
            let unnoticed = entry.is_corrupt() && expected.is_err() && got != expected;
            stats.unnoticed += u32::from(unnoticed);
            if !unnoticed && got != expected {
                let (got, expected) = (got.err(), expected.err());
                println!("DIFFERS {}: {got:?} against {expected:?}", entry.path);
                stats.differences.push(format!(
                    "{}: {wanted:?}: {got:?} against {expected:?}",
                    entry.path
                ));
            }
        }
        let (counts, _) = device.take_nvdec_stats();
        let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.decoded += counts.frames_decoded;
        stats.skipped += counts.packets_skipped;
        match device.cpu_fallback.take() {
            None => stats.by_gpu += 1,
            Some(reason) => {
                stats.by_cpu += 1;
                let text = match &reason {
                    Error::Unsupported { what, .. } => what.clone(),
                    other => format!("{}: {other}", entry.path),
                };
                *stats.reasons.entry(text).or_default() += 1;
            }
        }
    }
    stats.lock().unwrap_or_else(PoisonError::into_inner).files += 1;
    if std::env::var_os("FRAMESPOOL_GPU_VERBOSE").is_some() {
        println!("{:8.2} s {}", begun.elapsed().as_secs_f64(), entry.path);
    }
}

#[test]
fn every_video_is_equal_on_gpu_and_cpu() {
    let _guard = exclusive();
    let Some(gpu) = gpu() else { return };
    let simulated = SimulatedGpu::open();
    let (mut entries, next, stats) = (
        crate::common::videos(),
        AtomicUsize::new(0),
        Mutex::new(ComparisonStats::default()),
    );
    if let Ok(only) = std::env::var("FRAMESPOOL_GPU_ONLY") {
        entries.retain(|entry| entry.path.contains(&only));
    }
    // "2/12": the third of twelve parts, for tests of many modes that together test every video.
    if let Ok(part) = std::env::var("FRAMESPOOL_GPU_PART") {
        let (part, parts) = part.split_once('/').expect("part/parts");
        let (part, parts): (usize, usize) =
            (part.parse().expect("a part"), parts.parse().expect("parts"));
        entries = entries.into_iter().skip(part).step_by(parts).collect();
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compare(entry, &gpu, &stats);
                }
            });
        }
    });
    let stats = stats.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ComparisonStats {
        files,
        requests,
        unnoticed,
        by_gpu,
        by_cpu,
        decoded,
        skipped,
        reasons,
        differences,
    } = stats;
    println!(
        "{files} videos, {requests} requests; decoded by the GPU alone {by_gpu}, with the CPU's help {by_cpu}"
    );
    println!(
        "{decoded} frames decoded by the GPU, {skipped} skipped; damage undetected by the GPU: {unnoticed} requests"
    );
    for (reason, count) in &reasons {
        println!("  {count:4} {reason}");
    }
    assert!(
        differences.is_empty(),
        "{}: {differences:#?}",
        differences.len()
    );
    if let Some(simulated) = &simulated {
        simulated.assert_clean("all videos");
    }
    let of_other_codecs: u32 = reasons
        .iter()
        .filter(|(reason, _)| reason.contains("bit-exact"))
        .map(|(_, count)| count)
        .sum();
    assert!(
        files < 20 || by_gpu > by_cpu - of_other_codecs,
        "the GPU must decode most videos alone whose codec it decodes exactly"
    );
}

fn gpu_config(base: &LoaderConfig, device: Option<u32>, decoder: DecoderBackend) -> LoaderConfig {
    LoaderConfig {
        options: LoaderOptions {
            gpu: GpuConfig {
                device,
                decoder,
                nvdec_threads: Some(3),
                ..GpuConfig::default()
            },
            ..base.options.clone()
        },
        ..base.clone()
    }
}

/// Returns small videos: one of each codec, and two that are damaged.
fn one_item_per_kind() -> Vec<Sample> {
    let mut seen: Vec<(String, bool)> = Vec::new();
    let mut items = Vec::new();
    for entry in crate::common::videos() {
        let is_small = entry.properties["width"].as_u64().is_some_and(|w| w <= 430);
        let frames = entry.properties["frames_decoded"].as_u64().unwrap_or(0);
        let kind = (entry.codec().to_owned(), entry.is_corrupt());
        let damaged = seen.iter().filter(|(_, corrupt)| *corrupt).count();
        let by_gpu = ["h264", "hevc", "vp8", "vp9", "mpeg4"].contains(&entry.codec());
        let is_known = seen.contains(&kind) || (kind.1 && damaged >= 2);
        if is_small && by_gpu && !is_known && (20..=130).contains(&frames) {
            seen.push(kind);
            let place = MediaLocation::Path(entry.root.join(&entry.path));
            items.push(Sample {
                location: place,
                label: items.len() as i64,
                extent: SegmentRange::Full,
            });
        }
    }
    items
}

/// Returns three of them, undamaged and of three codecs.
fn few_items() -> Vec<Sample> {
    one_item_per_kind()
        .into_iter()
        .filter(|item| !is_named(item, "/corrupt/") && !is_named(item, "mpeg4"))
        .take(3)
        .collect()
}

fn is_named(item: &Sample, name: &str) -> bool {
    matches!(&item.location, MediaLocation::Path(path) if path.to_string_lossy().contains(name))
}

fn samplings() -> [ClipSamplerRef; 2] {
    let windows = Arc::new(Windows::new(6, 3, Some(5), PadMode::Blank).expect("a clip sampler"));
    [
        windows,
        Arc::new(Random::new(8, 4, 3, PaddingPolicy::Loop).expect("a clip sampler")),
    ]
}

#[test]
fn batches_do_not_depend_on_device_or_backend() {
    let _guard = exclusive();
    let Some(_gpu) = gpu() else { return };
    let simulated = SimulatedGpu::open();
    let items = one_item_per_kind();
    let [windows, random] = samplings();
    let (mut batches, mut ways) = (0, 0);
    let of = |sampler, pipeline, on_error| config(&items, sampler, &pipeline, on_error);
    let floats = |layout, dtype, on_error| of(&random, normalized(layout, dtype), on_error);
    for base in [
        of(&windows, resized_crop(), OnError::Skip),
        floats(Layout::Ntchw, Dtype::F32, OnError::Replace),
        floats(Layout::Ncthw, Dtype::BF16, OnError::Skip),
        of(&random, shorter_side(), OnError::Raise),
        two_views(&items, OnError::Replace),
    ] {
        let on_error = base.options.on_error;
        let (expected, _) = deliver(base.clone());
        batches += expected.len();
        for (device, decoder, memory_budget, lookahead_clips) in [
            (Some(0), DecoderBackend::Nvdec, MEMORY_BUDGET, LOOK_AHEAD),
            (Some(0), DecoderBackend::Auto, 8 << 20, 60),
            (Some(0), DecoderBackend::Nvdec, 0, 0),
            (Some(0), DecoderBackend::Cpu, MEMORY_BUDGET, LOOK_AHEAD),
            (None, DecoderBackend::Nvdec, 8 << 20, 60),
        ] {
            let what =
                format!("{on_error:?} {device:?} {decoder:?} {memory_budget} {lookahead_clips}");
            let base = LoaderConfig {
                options: LoaderOptions {
                    memory_budget,
                    lookahead_clips,
                    prefetch_batches: 2,
                    num_threads: 2,
                    ..base.options.clone()
                },
                ..base.clone()
            };
            let begun = Instant::now();
            let (lines, stats) = deliver(gpu_config(&base, device, decoder));
            println!(
                "{:6.1} s {what} {:?}",
                begun.elapsed().as_secs_f64(),
                stats.cpu_fallbacks.values().sum::<u64>()
            );
            assert_eq!(lines, expected, "{what}");
            assert!(
                stats.clip_cache_peak_bytes <= memory_budget,
                "{what}: {stats:?}"
            );
            let by_gpu = stats.frames_decoded_by_gpu > 0;
            assert_eq!(by_gpu, decoder != DecoderBackend::Cpu, "{what}: {stats:?}");
            if let Some(simulated) = &simulated {
                simulated.assert_clean(&what);
            }
            ways += 1;
        }
    }
    println!("{} videos, {batches} batches, {ways} loaders", items.len());
}

/// Files of VP8 and VP9, whose damage NVDEC does not report, are NVDEC's alone, and what NVDEC does
/// not decode is the CPU's alone, independently of which worker takes a clip first.
#[test]
fn kind_of_worker_does_not_depend_on_timing() {
    let _guard = exclusive();
    let Some(_gpu) = gpu() else { return };
    let items = one_item_per_kind();
    let [_, random] = samplings();
    let of_codec = |items: &[Sample], codec: &str| -> Vec<Sample> {
        let is_intact = |item: &&Sample| is_named(item, codec) && !is_named(item, "/corrupt/");
        let items: Vec<Sample> = items.iter().filter(is_intact).cloned().collect();
        items
            .iter()
            .cycle()
            .take(24 * items.len())
            .cloned()
            .collect()
    };
    for (codec, by_nvdec) in [("vp8", true), ("vp9", true), ("mpeg4", false)] {
        let items = of_codec(&items, codec);
        assert!(!items.is_empty(), "{codec}");
        let base = config(&items, &random, &resized_crop(), OnError::Raise);
        let base = LoaderConfig {
            options: LoaderOptions {
                memory_budget: MEMORY_BUDGET,
                lookahead_clips: LOOK_AHEAD,
                prefetch_batches: 2,
                num_threads: 3,
                ..base.options.clone()
            },
            ..base
        };
        let (_, stats) = deliver(gpu_config(&base, Some(0), DecoderBackend::Auto));
        let (by_gpu, by_fallback) = (
            stats.frames_decoded_by_gpu,
            stats.frames_decoded_by_fallback,
        );
        // A driver that fails to create a decoder is the one reason for the CPU to decode a part.
        let (alone, other) = match by_nvdec {
            true => (by_gpu, by_fallback),
            false => (by_fallback, by_gpu),
        };
        assert_eq!(alone + other, stats.frames_decoded, "{codec}: {stats:?}");
        let is_alone = !by_nvdec || stats.cpu_fallbacks.is_empty();
        assert!(!is_alone || other == 0, "{codec}: {stats:?}");
    }
}

#[test]
fn results_are_equal_for_every_allowed_order() {
    let _guard = exclusive();
    let (Some(_gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let items = one_item_per_kind();
    let base = config(
        &items,
        &samplings()[1],
        &normalized(Layout::Ncthw, Dtype::F16),
        OnError::Skip,
    );
    let base = LoaderConfig {
        options: LoaderOptions {
            memory_budget: 1 << 20,
            lookahead_clips: 100,
            prefetch_batches: 2,
            num_threads: 2,
            ..base.options
        },
        ..base
    };
    let (expected, _) = deliver(base.clone());
    for seed in 1..=6 {
        simulated.set_seed(seed);
        let (lines, _) = deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
        assert_eq!(lines, expected, "seed {seed}");
        simulated.assert_clean(&format!("seed {seed}"));
    }
    simulated.set_seed(0);
}

/// The functions that are made to fail, each at several of its calls.
const FUNCTIONS: [&str; 27] = [
    "cuCtxSetCurrent",
    "cuMemAlloc_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamCreateWithPriority",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuLaunchKernel",
    "cuMemGetInfo_v2",
    "cuMemFree_v2",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuvidGetDecoderCaps",
    "cuvidCreateVideoParser",
    "cuvidParseVideoData",
    "cuvidDestroyVideoParser",
    "cuvidCreateDecoder",
    "cuvidDecodePicture",
    "cuvidMapVideoFrame64",
    "cuvidUnmapVideoFrame64",
    "cuvidGetDecodeStatus",
    "cuvidDestroyDecoder",
];

/// A test of each kind of failure, so that they run at the same time.
mod failing_calls_give_an_error_or_the_same_result {
    #[test]
    fn once() {
        super::check_failing_calls(999, "");
    }

    #[test]
    fn once_for_lack_of_memory() {
        super::check_failing_calls(2, "");
    }

    #[test]
    fn from_then_on() {
        super::check_failing_calls(999, "+");
    }
}

/// Makes several calls of each function fail, one in each loader, with a CUDA error code. `and_on`:
/// "+" if all later calls fail too.
fn check_failing_calls(code: u32, and_on: &str) {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let items = &few_items()[..2];
    let base = config(
        items,
        &samplings()[1],
        &normalized(Layout::Ncthw, Dtype::F32),
        OnError::Raise,
    );
    let base = LoaderConfig {
        options: LoaderOptions {
            memory_budget: 1 << 20,
            lookahead_clips: 20,
            prefetch_batches: 1,
            num_threads: 1,
            ..base.options
        },
        ..base
    };
    let (expected, _) = deliver(base.clone());
    let (mut same, mut errors, mut untouched) = (0, 0, 0);
    for function in FUNCTIONS {
        for nth in [1, 2, 5, 20] {
            let fault = format!("{function}:{nth}{and_on}={code}");
            if std::env::var("FRAMESPOOL_GPU_ONLY").is_ok_and(|only| !fault.contains(&only)) {
                continue;
            }
            simulated.reset();
            let before = simulated.live_objects(&gpu);
            simulated.set_fault(&fault);
            println!("{fault}"); // the last line if it hangs
            let delivered = try_deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
            let calls = simulated.calls(function);
            simulated.set_fault("");
            match delivered {
                Ok((lines, _)) if lines == expected => same += 1,
                Ok((lines, _)) => panic!("{fault}: other batches, and no error: {lines:?}"),
                Err(Error::Gpu { reason, .. }) => {
                    assert!(!reason.is_empty());
                    errors += 1;
                }
                Err(other) => panic!("{fault}: {other}"),
            }
            if calls < nth {
                untouched += 1;
            }
            // If the driver refuses to free an object, the object stays; a decoder whose frames
            // cannot be unmapped is destroyed while they are mapped.
            let refused = ["Free", "Destroy", "Unmap", "CtxSetCurrent"]
                .iter()
                .any(|word| function.contains(word));
            let left = simulated.live_objects(&gpu);
            if !refused {
                simulated.assert_clean(&fault);
            }
            assert!(
                left == before || refused,
                "{fault}: {left:?} left, {before:?} before"
            );
        }
    }
    println!(
        "{} faults: {same} with the same result, {errors} with an error; {untouched} without reaching the faulty call",
        same + errors
    );
    simulated.reset();
    let (lines, _) = deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
    assert_eq!(lines, expected, "after all that");
}

#[test]
fn missing_gpu_memory_falls_back_or_is_an_error() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let base = config(
        &few_items(),
        &samplings()[1],
        &resized_crop(),
        OnError::Raise,
    );
    let base = LoaderConfig {
        options: LoaderOptions {
            memory_budget: 1 << 20,
            lookahead_clips: 20,
            prefetch_batches: 1,
            num_threads: 1,
            ..base.options
        },
        ..base
    };
    let (expected, _) = deliver(base.clone());
    let (mut same, mut errors) = (0, 0);
    for kibibytes in [
        4u64,
        64,
        200,
        500,
        1 << 10,
        2 << 10,
        5 << 10,
        9 << 10,
        20 << 10,
        50 << 10,
        100 << 10,
        200 << 10,
    ] {
        simulated.reset();
        let before = simulated.live_objects(&gpu);
        simulated.set_memory_bytes(kibibytes << 10);
        match try_deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec)) {
            Ok((lines, _)) => {
                assert_eq!(lines, expected, "{kibibytes} KiB");
                same += 1;
            }
            Err(Error::Gpu { reason, .. }) => {
                assert!(reason.contains("memory"), "{kibibytes} KiB: {reason}");
                errors += 1;
            }
            Err(other) => panic!("{kibibytes} KiB: {other}"),
        }
        simulated.assert_clean(&format!("{kibibytes} KiB"));
        assert_eq!(simulated.live_objects(&gpu), before, "{kibibytes} KiB");
    }
    simulated.set_memory_bytes(64 << 30);
    println!("{same} sizes were enough, {errors} were not");
    assert!(same > 0 && errors > 0);
}
