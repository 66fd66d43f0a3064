//! Tests injected faults on a simulated GPU: work in progress gives the same result, or an error
//! that loses no data. On a real GPU these tests are skipped.

use framespool::batch::{BatchBuffer, MemoryPool, OutputMut};
use framespool::index::VideoIndex;
use framespool::loader::Loader;
use framespool::media::ColorTags;
use framespool::source::{FileSource, MemorySource};
use framespool::video::FrameStream;

use super::*;

fn open(item: &Sample) -> Video {
    let MediaLocation::Path(path) = &item.location else {
        panic!("a path")
    };
    let source = Arc::new(FileSource::open(path).expect("it is there"));
    Video::open(source).expect("a video")
}

fn first_frames(video: &Video, frames: u32) -> Vec<PresentationIndex> {
    (0..video.index().num_frames().min(frames))
        .map(PresentationIndex)
        .collect()
}

#[test]
fn failed_gpu_transform_falls_back_to_cpu() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let mut helped = 0;
    for item in few_items() {
        let video = open(&item);
        let wanted = first_frames(&video, 12);
        let expected = frames(&video, &mut ClipDecoder::new(small_pipeline()), &wanted)
            .expect("a valid video");
        for fault in (1..12).map(|nth| format!("cuLaunchKernel:{nth}=999")) {
            simulated.reset();
            let clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()));
            let mut clip_decoder = clip_decoder.with_nvdec(&gpu).expect("a session");
            simulated.set_fault(&fault);
            let got = frames(&video, &mut clip_decoder, &wanted);
            simulated.set_fault("");
            assert!(got.as_ref() == Ok(&expected), "{fault}: {:?}", got.err());
            helped += u32::from(clip_decoder.cpu_fallback.is_some());
        }
    }
    simulated.assert_clean("launches that fail");
    assert!(helped > 0, "some launch failed");
}

#[test]
fn frame_stream_continues_after_gpu_failure() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    for item in few_items() {
        let video = open(&item);
        simulated.reset();
        let expected = all_frames(&video, ClipDecoder::new(full_size_pipeline()), &mut |_| {});
        let clip_decoder = ClipDecoder::with_gpu(full_size_pipeline(), 1, Some(gpu.clone()))
            .with_nvdec(&gpu)
            .expect("a session");
        simulated.set_fault(&format!(
            "cuvidParseVideoData:{}=999",
            expected.len() * 2 / 3
        ));
        // Other objects of this process own allocations too, so the test compares the numbers at
        // the first and the last frame.
        let (mut first, mut last) = (0, 0);
        let got = all_frames(&video, clip_decoder, &mut |at| match at {
            1 => first = simulated.live("allocations"),
            _ => last = simulated.live("allocations"),
        });
        simulated.set_fault("");
        assert_eq!(got, expected);
        assert!(
            last < first + 20,
            "{first} blocks at the first of {} frames, {last} at the last",
            expected.len()
        );
    }
    simulated.assert_clean("streams of frames");
}

/// Returns a digest of each frame; calls `seen` with the number of frames so far while the stream
/// is alive.
fn all_frames(
    video: &Video,
    clip_decoder: ClipDecoder,
    seen: &mut dyn FnMut(usize),
) -> Vec<String> {
    let mut stream = FrameStream::start(video, clip_decoder).expect("a thread");
    let mut digests = Vec::new();
    for frame in stream.by_ref() {
        let (buffer, _) = frame.expect("a frame");
        let mut bytes = vec![0; buffer.len()];
        buffer.copy_to_host(0, &mut bytes).expect("bytes");
        digests.push(crate::common::digest(&bytes));
        seen(digests.len());
    }
    digests
}

#[test]
fn container_color_tags_apply_on_the_gpu() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let mut by_gpu = 0;
    for item in one_item_per_kind()
        .iter()
        .filter(|item| !is_named(item, "/corrupt/") && !is_named(item, "mpeg4"))
    {
        let plain = open(item);
        for matrix in [2, 1, 9] {
            for full_range in [None, Some(false), Some(true)] {
                let mut index: VideoIndex = (**plain.index()).clone();
                index.info.params.color = ColorTags {
                    primaries: matrix,
                    transfer: matrix,
                    matrix,
                    full_range,
                };
                let MediaLocation::Path(path) = &item.location else {
                    panic!("a path")
                };
                let source = Arc::new(FileSource::open(path).expect("it is there"));
                let video = Video::with_index(source, Arc::new(index));
                let wanted = first_frames(&video, 4);
                let expected = frames(&video, &mut ClipDecoder::new(full_size_pipeline()), &wanted);
                let clip_decoder =
                    ClipDecoder::with_gpu(full_size_pipeline(), 1, Some(gpu.clone()));
                let mut clip_decoder = clip_decoder.with_nvdec(&gpu).expect("a session");
                let got = frames(&video, &mut clip_decoder, &wanted);
                by_gpu += u32::from(clip_decoder.cpu_fallback.is_none());
                assert!(
                    got == expected,
                    "{}: {matrix} {full_range:?}",
                    video.index().site.file
                );
            }
        }
    }
    simulated.assert_clean("colors");
    assert!(by_gpu > 10, "{by_gpu} by the GPU alone");
}

#[test]
fn memory_with_unrecorded_writers_is_not_reused() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let device = gpu.device().clone();
    let pool = MemoryPool::on(Some(device.clone()), 4);
    let (old, new) = (
        device.create_stream().expect("a stream"),
        device.create_stream().expect("a stream"),
    );
    let len = 1 << 16;
    let write = |stream, byte| {
        let (builder, mut parts) = BatchBuffer::allocate(&pool, 1, len).expect("memory");
        let OutputMut::Device(mut slot) = parts[0].target().expect("memory") else {
            panic!("memory of the device")
        };
        slot.begin(stream).expect("no earlier user to wait for");
        stream
            .fill(slot.address, byte, len)
            .expect("an order taken");
        (builder, parts)
    };
    let (builder, mut parts) = write(&old, 1);
    simulated.set_fault("cuEventRecord:1+=999");
    assert!(parts[0].record_write().is_err());
    drop((parts, builder));
    simulated.set_fault("");
    let (builder, mut parts) = write(&new, 2);
    parts[0].record_write().expect("marked");
    drop(parts);
    let buffer = builder.freeze().ok().expect("its clip slot is returned");
    let mut bytes = vec![0; len];
    for _ in 0..2 {
        buffer.copy_to_host(0, &mut bytes).expect("bytes");
        assert!(
            bytes.iter().all(|&b| b == 2),
            "the previous writer overwrote the new data"
        );
        old.synchronize().expect("done");
    }
    drop(buffer);
    simulated.assert_clean("an abandoned clip slot");
}

/// The clip numbers of a batch, and a digest of its bytes.
type DeliveredBatch = (Vec<u64>, String);

fn delivered_batch(batch: &framespool::loader::Batch) -> DeliveredBatch {
    let framespool::loader::BatchData::Dense(buffer, _) = &batch.data[0] else {
        panic!("clips of one shape")
    };
    let mut bytes = vec![0; buffer.len()];
    buffer.copy_to_host(0, &mut bytes).expect("bytes");
    (
        batch.clips.iter().map(|c| c.clip_id).collect(),
        crate::common::digest(&bytes),
    )
}

#[test]
fn single_batch_memory_loses_no_batch_on_error() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let base = config(
        &few_items(),
        &samplings()[0],
        &normalized(Layout::Ncthw, Dtype::F32),
        OnError::Raise,
    );
    let base = LoaderConfig {
        options: LoaderOptions {
            prefetch_batches: 2,
            ..base.options
        },
        ..base
    };
    let start = |config| {
        let mut loader = Loader::start(config).expect("a loader");
        let pass = loader.start_epoch(0, 0).expect("a pass");
        (loader, pass)
    };
    let mut expected = Vec::new();
    let (mut loader, pass) = start(base.clone());
    while let Some(batch) = loader.next_batch(pass).expect("a batch") {
        expected.push(delivered_batch(&batch));
    }
    assert!(expected.len() > 4);
    let (mut loader, pass) = start(gpu_config(&base, Some(0), DecoderBackend::Cpu));
    simulated.live_objects(&gpu);
    let batch_bytes = 5 * 6 * 3 * 24 * 28 * 4;
    simulated.set_memory_bytes(simulated.memory_bytes() + batch_bytes * 3 / 2);
    let mut errors = 0;
    let mut got = Vec::new();
    let mut held = None;
    loop {
        match loader.next_batch(pass) {
            Ok(Some(batch)) => {
                got.push(delivered_batch(&batch));
                // The consumer still holds every other batch when it requests the next one.
                held = (got.len() % 2 == 0).then_some(batch);
            }
            Ok(None) => break,
            Err(Error::Gpu { reason, .. }) => {
                assert!(
                    reason.contains("memory") && held.is_some(),
                    "after {} batches: {reason}",
                    got.len()
                );
                held = None;
                errors += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    simulated.set_memory_bytes(64 << 30);
    assert_eq!(got, expected);
    assert!(errors > 0, "memory was short");
    drop(loader);
    simulated.assert_clean("memory for one batch");
}

#[test]
fn graph_capture_of_another_thread_is_not_disturbed() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    simulated.live_objects(&gpu);
    simulated.reset();
    simulated.set_behaviors("captured=1");
    for decoder in [DecoderBackend::Nvdec, DecoderBackend::Cpu] {
        let base = config(
            &few_items(),
            &samplings()[0],
            &normalized(Layout::Ncthw, Dtype::F16),
            OnError::Raise,
        );
        let (expected, _) = deliver(base.clone());
        let (got, stats) = deliver(gpu_config(&base, Some(0), decoder));
        assert_eq!(got, expected, "{decoder:?}");
        let by_gpu = stats.frames_decoded_by_gpu;
        assert!(
            (by_gpu > 0) == matches!(decoder, DecoderBackend::Nvdec),
            "{stats:?}"
        );
    }
    simulated.set_behaviors("captured=0");
    simulated.assert_clean("loaders during a capture");
}

#[test]
fn idle_decoders_are_freed_for_a_batch() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    simulated.live_objects(&gpu);
    let before = simulated.memory_bytes();
    let video = open(&few_items()[0]);
    let mut clip_decoder = ClipDecoder::with_gpu(small_pipeline(), 1, Some(gpu.clone()))
        .with_nvdec(&gpu)
        .expect("a session");
    // Where every third creation fails, the CPU decodes the first clip or the next one has a
    // decoder.
    for _ in 0..1 + u32::from(simulated.behavior("failing_create")) {
        frames(&video, &mut clip_decoder, &first_frames(&video, 3)).expect("frames");
    }
    drop(clip_decoder);
    let idle = simulated.memory_bytes() - before;
    assert!(idle > 4096, "a decoder is kept: {idle} bytes");
    simulated.set_memory_bytes(simulated.memory_bytes());
    let builder = BatchBuffer::allocate(
        &MemoryPool::on(Some(gpu.device().clone()), 1),
        1,
        idle as usize / 2,
    );
    simulated.set_memory_bytes(64 << 30);
    assert!(builder.is_ok(), "{:?}", builder.err());
}

#[test]
fn two_concurrent_loaders_share_the_decoders() {
    let _guard = exclusive();
    let (Some(gpu), simulated) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let bases = [
        config(
            &one_item_per_kind(),
            &samplings()[1],
            &resized_crop(),
            OnError::Skip,
        ),
        config(
            &few_items(),
            &samplings()[0],
            &normalized(Layout::Ntchw, Dtype::F16),
            OnError::Raise,
        ),
    ];
    let bases = bases.map(|base| LoaderConfig {
        options: LoaderOptions {
            lookahead_clips: 40,
            memory_budget: 4 << 20,
            prefetch_batches: 1,
            ..base.options
        },
        ..base
    });
    let expected = bases.each_ref().map(|base| deliver(base.clone()).0);
    for seed in 0..3 {
        if let Some(simulated) = &simulated {
            simulated.set_seed(seed);
        }
        let made = || {
            framespool_nvdec::pool::DecoderPool::for_device(gpu.device())
                .expect("engines")
                .stats()
                .created
        };
        let before = made();
        let got = std::thread::scope(|scope| {
            let loaders = bases.each_ref().map(|base| {
                let base = gpu_config(base, Some(0), DecoderBackend::Nvdec);
                scope.spawn(move || deliver(base))
            });
            loaders.map(|loader| loader.join().expect("no panic"))
        });
        for ((lines, stats), expected) in got.iter().zip(&expected) {
            assert_eq!(lines, expected, "seed {seed}");
            assert!(stats.frames_decoded_by_gpu > 0, "{stats:?}");
        }
        println!("seed {seed}: {} decoders made", made() - before);
        if let Some(simulated) = &simulated {
            simulated.assert_clean(&format!("two loaders, seed {seed}"));
        }
    }
    if let Some(simulated) = &simulated {
        simulated.set_seed(0);
    }
}

/// Runs a test of `video` in a new process, in which these environment variables configure the
/// simulated GPU.
pub(super) fn run_in_subprocess(test: &str, variables: &[(&str, &str)]) {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", &format!("video::{test}"), "--nocapture"]);
    let done = command
        .envs(variables.iter().copied())
        .env("FRAMESPOOL_GPU_SUBPROCESS", test)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

/// Returns whether this is the process that [`run_in_subprocess`] started for this test.
pub(super) fn is_subprocess(test: &str) -> bool {
    std::env::var("FRAMESPOOL_GPU_SUBPROCESS").is_ok_and(|name| name == test)
}

/// Returns whether the GPU is simulated, while no other test runs: opening it resets its faults.
fn has_simulated_gpu() -> bool {
    let _guard = exclusive();
    gpu().is_some() && SimulatedGpu::open().is_some()
}

/// The simulated GPU with an engine for AV1, in a process of its own; `None` in the process that
/// starts it.
pub(super) fn with_av1(test: &str) -> Option<(Arc<Gpu>, SimulatedGpu)> {
    if is_subprocess(test) {
        let found = gpu().zip(SimulatedGpu::open());
        return Some(found.expect("it was found before"));
    }
    if has_simulated_gpu() {
        let codecs = ("FRAMESPOOL_SIMULATED_CODECS", "h264,hevc,vp8,vp9,av1");
        run_in_subprocess(test, &[codecs]);
    }
    None
}

#[test]
fn second_gpu_gives_the_same_batches() {
    let name = "fault_injection::second_gpu_gives_the_same_batches";
    if !is_subprocess(name) {
        if has_simulated_gpu() {
            run_in_subprocess(name, &[("FRAMESPOOL_SIMULATED_DEVICES", "2")]);
        }
        return;
    }
    assert!(gpu().is_some());
    let simulated = SimulatedGpu::open().expect("it was found before");
    assert_eq!(framespool::gpu::device_count(), 2);
    let base = config(
        &few_items(),
        &samplings()[1],
        &normalized(Layout::Ncthw, Dtype::F32),
        OnError::Raise,
    );
    let base = LoaderConfig {
        options: LoaderOptions {
            prefetch_batches: 1,
            lookahead_clips: 20,
            memory_budget: 1 << 20,
            ..base.options
        },
        ..base
    };
    let (expected, _) = deliver(base.clone());
    for seed in 0..3 {
        simulated.set_seed(seed);
        for device in [1, 0, 1] {
            let (lines, stats) = deliver(gpu_config(&base, Some(device), DecoderBackend::Auto));
            assert_eq!(lines, expected, "cuda:{device}");
            assert!(stats.frames_decoded_by_gpu > 0, "cuda:{device}: {stats:?}");
        }
        // Both GPUs at the same time; the batches of each thread are in the memory of its GPU.
        std::thread::scope(|scope| {
            let both = [0, 1].map(|device| {
                let base = gpu_config(&base, Some(device), DecoderBackend::Nvdec);
                scope.spawn(move || deliver(base).0)
            });
            for loader in both {
                assert_eq!(loader.join().expect("no panic"), expected);
            }
        });
    }
    let second = Gpu::open(1).expect("it was open");
    let mut loader =
        Loader::start(gpu_config(&base, Some(1), DecoderBackend::Auto)).expect("a loader");
    let pass = loader.start_epoch(0, 0).expect("a pass");
    let batch = loader.next_batch(pass).expect("a batch").expect("a batch");
    let framespool::loader::BatchData::Dense(buffer, _) = &batch.data[0] else {
        panic!("clips of one shape")
    };
    assert_eq!(
        buffer.device().map(|device| device.ordinal()),
        Some(second.ordinal())
    );
    drop((batch, loader));
    simulated.assert_clean("the second GPU");
}

#[test]
fn av1_clips_around_hidden_frames_equal_the_cpu() {
    let name = "fault_injection::av1_clips_around_hidden_frames_equal_the_cpu";
    let Some((_, simulated)) = with_av1(name) else {
        return;
    };
    let path = crate::common::media().join("video/codecs/av1_10bit_426x240.webm");
    let mut bytes = std::fs::read(&path).expect("readable");
    let intact =
        Video::open(Arc::new(MemorySource::new("intact", bytes.clone()))).expect("a video");
    // Replaces a picture in the middle of a GOP with padding.
    let packets = &intact.index().packets;
    let starts: Vec<usize> = (0..packets.len())
        .filter(|&at| packets[at].is_sync())
        .collect();
    println!(
        "{} packets, starts {:?}",
        packets.len(),
        &starts[..starts.len().min(5)]
    );
    let hole = (10..60)
        .find(|&at| packets[at].size > 200 && !packets[at].is_sync())
        .expect("a picture");
    let hole = packets[hole];
    let place = &mut bytes[hole.offset as usize..][..hole.size as usize];
    let payload = place.len() - 5;
    place.fill(0);
    place[0] = 15 << 3 | 2;
    for (n, byte) in place[1..5].iter_mut().enumerate() {
        *byte = (payload >> (7 * n)) as u8 & 0x7f | if n < 3 { 0x80 } else { 0 };
    }
    let folder = std::env::temp_dir().join(format!("framespool-av1-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("hole.webm");
    std::fs::write(&file, &bytes).expect("written");
    let items = [Sample {
        location: MediaLocation::Path(file),
        label: 0,
        extent: SegmentRange::Full,
    }];
    let windows: ClipSamplerRef =
        Arc::new(Windows::new(4, 1, Some(4), PadMode::Blank).expect("a clip sampler"));
    let base = config(&items, &windows, &small_pipeline(), OnError::Skip);
    let base = LoaderConfig {
        options: LoaderOptions {
            lookahead_clips: 60,
            memory_budget: 8 << 20,
            ..base.options
        },
        ..base
    };
    let (expected, _) = deliver(base.clone());
    let (lines, stats) = deliver(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
    println!("{:?}", stats.cpu_fallbacks);
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(lines, expected);
    assert!(
        stats.frames_decoded_by_gpu > 0 && !stats.cpu_fallbacks.is_empty(),
        "{stats:?}"
    );
    simulated.assert_clean("a hole in AV1");
}
