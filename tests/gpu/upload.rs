//! Tests of frames that the CPU makes and the device receives: the same bytes as on the host, by
//! few driver calls that do not wait, also without page-locked memory; and of page-locked batches
//! on the host.

use std::sync::Arc;

use framespool::batch::{BatchBuffer, MemoryPool, OutputMut};
use framespool::gpu::Gpu;
use framespool::loader::{DecoderBackend, GpuConfig, LoaderConfig, LoaderOptions, OnError};
use framespool::rng::RngKey;
use framespool::transforms::transform::{EraseFill, Size, Target, Transform, UniformRange};
use framespool::transforms::{Dtype, Filter, Layout, Normalize, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, Video};

use super::{few_items, frames, gpu, samplings};
use crate::common::loaders::{config, deliver, normalized, resized_crop, shorter_side};
use crate::exclusive;
use crate::simulated_driver::SimulatedGpu;

const LAYOUTS: [Layout; 3] = [Layout::Nthwc, Layout::Ntchw, Layout::Ncthw];

/// A video of the test media, by the end of its path.
fn video(path: &str) -> Video {
    let entries = crate::common::videos();
    let entry = entries
        .iter()
        .find(|entry| entry.path.ends_with(path))
        .expect("it is generated");
    Video::open(entry.source().expect("it is there")).expect("it is valid")
}

fn first(count: u32) -> Vec<PresentationIndex> {
    (0..count).map(PresentationIndex).collect()
}

fn to_device(pipeline: &TransformPipeline, gpu: &Arc<Gpu>) -> ClipDecoder {
    ClipDecoder::with_gpu(pipeline.clone(), 1, Some(gpu.clone()))
}

fn float_pipeline(steps: Vec<Transform>, dtype: Dtype, layout: Layout) -> TransformPipeline {
    let normalize = Transform::Normalize(Normalize {
        mean: [0.3, 0.4, 0.5],
        std: [0.2, 0.3, 0.4],
    });
    TransformPipeline::new([steps, vec![normalize]].concat(), dtype, layout).expect("a pipeline")
}

fn pipelines() -> Vec<TransformPipeline> {
    let mut all = vec![resized_crop(), shorter_side()];
    for layout in LAYOUTS {
        for dtype in [Dtype::U16, Dtype::F16, Dtype::BF16, Dtype::F32] {
            all.push(match dtype {
                Dtype::U16 => TransformPipeline::new(Vec::<Transform>::new(), dtype, layout)
                    .expect("a pipeline"),
                _ => normalized(layout, dtype),
            });
        }
        let crops = Transform::FiveCrop {
            size: Size {
                height: 20,
                width: 24,
            },
        };
        all.push(float_pipeline(vec![crops], Dtype::F16, layout));
        let erase = Transform::RandomErasing {
            p: 1.0,
            count: 1,
            scale: UniformRange::new(0.1, 0.3),
            ratio: UniformRange::new(0.5, 2.0),
            cover: EraseFill::Noise,
        };
        all.push(float_pipeline(vec![erase], Dtype::F32, layout));
    }
    // A size that depends on the number of frames of the clip.
    let by_length = Transform::Resize {
        target: Target::Multiple {
            factor: 4,
            min_pixels: 64,
            max_pixels: 1 << 20,
            total_pixels: Some(7 * 200),
        },
        filter: Filter::Triangle,
        display_aspect: false,
    };
    all.push(float_pipeline(vec![by_length], Dtype::F32, Layout::Ncthw));
    all
}

#[test]
fn uploaded_frames_equal_those_of_the_host() {
    let _guard = exclusive();
    let Some(gpu) = gpu() else { return };
    let simulated = SimulatedGpu::open();
    for path in ["tiny_34x26_h264.mp4", "vp9_10bit.webm"] {
        let (video, wanted) = (video(path), first(7));
        for (number, pipeline) in pipelines().iter().enumerate() {
            for seed in 0..3 {
                if let Some(simulated) = &simulated {
                    simulated.set_seed(seed);
                }
                let expected = frames(&video, &mut ClipDecoder::new(pipeline.clone()), &wanted);
                assert!(expected.is_ok(), "{expected:?}");
                let mut decoder = to_device(pipeline, &gpu);
                // The second clip uses memory that the first one has used.
                for _ in 0..2 {
                    let got = frames(&video, &mut decoder, &wanted);
                    assert!(got == expected, "{path}, pipeline {number}, seed {seed}");
                }
                assert!(decoder.take_report().upload_fallbacks.is_empty());
            }
        }
    }
    if let Some(simulated) = simulated {
        simulated.set_seed(0);
        simulated.assert_clean("uploads");
    }
}

/// Driver calls since the last reset: copies, launches, waits of the host.
fn calls(simulated: &SimulatedGpu) -> [u64; 3] {
    let waits = [
        "cuStreamSynchronize",
        "cuEventSynchronize",
        "cuCtxSynchronize",
    ];
    let launches = simulated.calls("cuLaunchKernel");
    [
        simulated.calls("cuMemcpyHtoDAsync_v2"),
        launches,
        waits.iter().map(|call| simulated.calls(call)).sum(),
    ]
}

/// Decodes a clip on the CPU into device memory, and returns the driver calls that this took.
fn calls_for(
    decoder: &mut ClipDecoder,
    video: &Video,
    count: u32,
    simulated: &SimulatedGpu,
) -> [u64; 3] {
    let key = RngKey {
        seed: 1,
        epoch: 0,
        clip: 0,
        occurrence: 0,
    };
    let mut output = decoder.output();
    let before = calls(simulated);
    decoder
        .decode_clip(&mut video.reader(), &first(count), key, &mut output)
        .expect("a clip");
    let after = calls(simulated);
    std::array::from_fn(|n| after[n] - before[n])
}

#[test]
fn frame_takes_few_driver_calls_and_no_wait() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let video = video("tiny_34x26_h264.mp4");
    let frames = 24;
    let pipeline = |dtype, layout| match dtype {
        Dtype::U8 => {
            TransformPipeline::new(Vec::<Transform>::new(), dtype, layout).expect("a pipeline")
        }
        _ => float_pipeline(Vec::new(), dtype, layout),
    };
    // Copies and launches of a frame. Codes are copied at once, also where the frame is not
    // contiguous in the clip.
    for (dtype, layout, expected) in [
        (Dtype::U8, Layout::Ntchw, [1, 0]),
        (Dtype::U8, Layout::Ncthw, [3, 0]),
        (Dtype::F32, Layout::Nthwc, [1, 1]),
        (Dtype::F16, Layout::Ntchw, [1, 1]),
        (Dtype::BF16, Layout::Ncthw, [1, 3]),
    ] {
        let mut decoder = to_device(&pipeline(dtype, layout), &gpu);
        calls_for(&mut decoder, &video, frames, &simulated); // tables and memory
        let [copies, launches, waits] = calls_for(&mut decoder, &video, frames, &simulated);
        println!(
            "{dtype:?} {layout:?}: {copies} copies, {launches} launches, {waits} waits for {frames} frames"
        );
        let frames = u64::from(frames);
        assert_eq!(
            [copies, launches],
            expected.map(|each| each * frames),
            "{dtype:?} {layout:?}"
        );
        assert_eq!(waits, 0, "{dtype:?} {layout:?}");
    }
    simulated.assert_clean("driver calls");
}

#[test]
fn memory_that_cannot_be_page_locked_changes_no_byte() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let (video, wanted) = (video("tiny_34x26_h264.mp4"), first(6));
    let pipeline = normalized(Layout::Ncthw, Dtype::F32);
    let expected = frames(&video, &mut ClipDecoder::new(pipeline.clone()), &wanted);
    // Without page-locked memory at all, and with one of two segments.
    for fault in [
        "cuMemHostAlloc:1+=2",
        "cuMemHostAlloc:2+=2",
        "cuMemHostAlloc:1+=801",
    ] {
        simulated.reset();
        simulated.set_fault(fault);
        let mut decoder = to_device(&pipeline, &gpu);
        assert!(frames(&video, &mut decoder, &wanted) == expected, "{fault}");
        let reasons = decoder.take_report().upload_fallbacks;
        assert!(
            matches!(&reasons[..], [reason] if reason.contains("pageable")),
            "{fault}: {reasons:?}"
        );
        assert!(
            frames(&video, &mut decoder, &wanted) == expected
                && decoder.take_report().upload_fallbacks.is_empty()
        );
        simulated.set_fault("");
        drop(decoder);
        assert_eq!(simulated.live("pinned"), 0, "{fault}");
        simulated.assert_clean(fault);
    }
}

#[test]
fn loader_counts_memory_that_cannot_be_page_locked() {
    let _guard = exclusive();
    let (Some(_gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let base = config(
        &few_items(),
        &samplings()[1],
        &normalized(Layout::Ntchw, Dtype::F16),
        OnError::Raise,
    );
    let (expected, _) = deliver(base.clone());
    let on_device = GpuConfig {
        device: Some(0),
        decoder: DecoderBackend::Cpu,
        ..GpuConfig::default()
    };
    let on_device = LoaderConfig {
        options: LoaderOptions {
            gpu: on_device,
            ..base.options
        },
        ..base
    };
    let (got, stats) = deliver(on_device.clone());
    assert!(
        got == expected && stats.upload_fallbacks.is_empty(),
        "{:?}",
        stats.upload_fallbacks
    );
    simulated.set_fault("cuMemHostAlloc:1+=2");
    let (got, stats) = deliver(on_device);
    simulated.set_fault("");
    assert!(
        got == expected
            && stats
                .upload_fallbacks
                .keys()
                .all(|reason| reason.contains("page-lock"))
    );
    assert!(!stats.upload_fallbacks.is_empty());
    assert_eq!(simulated.live("pinned"), 0);
    simulated.assert_clean("loaders");
}

#[test]
fn page_locked_batch_is_not_written_while_it_is_copied() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let device = gpu.device().clone();
    let pool = MemoryPool::new(1);
    pool.page_lock(device.clone(), true);
    let (stream, len) = (device.create_stream().expect("a stream"), 1 << 16);
    let copy = device.allocate(len).expect("memory");
    let write = |byte| {
        let (builder, mut parts) = BatchBuffer::allocate(&pool, 1, len).expect("memory");
        let OutputMut::Host(bytes) = parts[0].target().expect("no copy") else {
            panic!("memory of the host")
        };
        bytes.fill(byte);
        drop(parts);
        builder.freeze().ok().expect("its clip slot is returned")
    };
    let first = write(1);
    assert!(first.is_page_locked() && simulated.live("pinned") == 1);
    let address = first.address();
    // As PyTorch copies: the bytes are read when the stream gets to it.
    stream
        .upload(copy.address(), first.bytes().expect("of the host"))
        .expect("a copy");
    first.add_reader_event(stream.record().expect("an event"));
    drop(first);
    let second = write(2);
    assert_eq!(second.address(), address, "the pool has one block");
    let mut bytes = vec![0; len];
    stream.download(&mut bytes, copy.address()).expect("bytes");
    assert!(
        bytes.iter().all(|&byte| byte == 1),
        "the copy has bytes of the next batch"
    );
    assert!(
        second
            .bytes()
            .expect("of the host")
            .iter()
            .all(|&byte| byte == 2)
    );
    // Freeing waits too.
    stream
        .upload(copy.address(), second.bytes().expect("of the host"))
        .expect("a copy");
    second.add_reader_event(stream.record().expect("an event"));
    drop((second, pool));
    assert_eq!(simulated.live("pinned"), 0);
    stream.download(&mut bytes, copy.address()).expect("bytes");
    assert!(bytes.iter().all(|&byte| byte == 2));
    simulated.assert_clean("page-locked batches");
}

#[test]
fn page_locked_batch_is_not_reused_before_a_wait_for_its_copies_succeeds() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let device = gpu.device().clone();
    let (stream, len) = (device.create_stream().expect("a stream"), 1 << 16);
    let copy = device.allocate(len).expect("memory");
    let mut bytes = vec![0; len];
    // The copy is on a stream that is not known, or an event cannot be recorded.
    for is_recorded in [false, true] {
        let pool = MemoryPool::new(1);
        pool.page_lock(device.clone(), true);
        let write = |byte| {
            let (builder, mut parts) = BatchBuffer::allocate(&pool, 1, len).expect("memory");
            let OutputMut::Host(bytes) = parts[0].target().expect("no copy") else {
                panic!("memory of the host")
            };
            bytes.fill(byte);
            drop(parts);
            builder.freeze().ok().expect("its clip slot is returned")
        };
        let first = write(1);
        stream
            .upload(copy.address(), first.bytes().expect("of the host"))
            .expect("a copy");
        if is_recorded {
            first.mark_unsynchronized();
        }
        let address = first.address();
        // As while a graph is captured: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
        simulated.set_fault("cuCtxSynchronize:1+=900");
        drop(first);
        let (second, third) = (write(2), write(3));
        assert!(![second.address(), third.address()].contains(&address));
        drop((second, third));
        simulated.set_fault("");
        stream.download(&mut bytes, copy.address()).expect("bytes");
        assert!(bytes.iter().all(|&byte| byte == 1), "{is_recorded}");
        let again = write(4);
        drop(again);
        assert_eq!(simulated.live("pinned"), 1, "the others are freed");
        drop(pool);
        assert_eq!(simulated.live("pinned"), 0);
    }
    simulated.assert_clean("page-locked batches during a capture");
}

#[test]
fn rows_further_apart_than_the_driver_copies_are_copied() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let device = gpu.device().clone();
    let stream = device.create_stream().expect("a stream");
    let (from, to) = (
        device.allocate(64).expect("memory"),
        device.allocate(64).expect("memory"),
    );
    stream.upload(from.address(), &[7; 64]).expect("a copy");
    // The longest pitch of the driver, and a longer one.
    for pitch in [i32::MAX as usize, 1 << 31] {
        stream.fill(to.address(), 0, 64).expect("a fill");
        stream
            .copy_rows(to.address(), pitch, from.address(), 64, 1)
            .expect("a copy");
        let mut bytes = [0; 64];
        stream.download(&mut bytes, to.address()).expect("bytes");
        assert_eq!(bytes, [7; 64]);
    }
    simulated.assert_clean("rows");
}
