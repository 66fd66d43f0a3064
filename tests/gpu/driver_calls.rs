//! Counts the driver calls per delivered frame, once memory, tables and decoders are there: what a
//! call costs a real driver is not known here, but each takes the lock of the context.

use std::collections::BTreeMap;
use std::sync::Arc;

use framespool::batch::BatchBuffer;
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_sampler::{ClipSamplerRef, PaddingPolicy, Random};
use framespool::dataset::{MediaLocation, Sample};
use framespool::loader::{BatchData, DecoderBackend, Loader, LoaderConfig, OnError};
use framespool::rng::RngKey;
use framespool::transforms::transform::{Size, Target, Transform};
use framespool::transforms::{Dtype, Filter, Layout, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, Video};

use super::{frames, gpu, gpu_config};
use crate::common::loaders::config;
use crate::exclusive;
use crate::simulated_driver::SimulatedGpu;

/// Bytes of a frame of [`pipeline`].
const FRAME_BYTES: u64 = 224 * 224 * 3;
/// Frames per clip.
const FRAMES: u32 = 16;

/// The functions of the driver by what they are for. All others are in the group "other".
const GROUPS: [(&str, &[&str]); 12] = [
    ("parse", &["cuvidParseVideoData"]),
    ("decode", &["cuvidDecodePicture"]),
    ("status", &["cuvidGetDecodeStatus"]),
    ("map", &["cuvidMapVideoFrame64", "cuvidUnmapVideoFrame64"]),
    ("launch", &["cuLaunchKernel"]),
    (
        "copy",
        &[
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoDAsync_v2",
            "cuMemcpy2DAsync_v2",
            "cuMemsetD8Async",
        ],
    ),
    (
        "event",
        &[
            "cuEventCreate",
            "cuEventRecord",
            "cuEventQuery",
            "cuStreamWaitEvent",
            "cuEventDestroy_v2",
        ],
    ),
    (
        "host wait",
        &[
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "cuCtxSynchronize",
        ],
    ),
    (
        "create",
        &[
            "cuvidCreateDecoder",
            "cuvidReconfigureDecoder",
            "cuvidDestroyDecoder",
        ],
    ),
    (
        "parser",
        &["cuvidCreateVideoParser", "cuvidDestroyVideoParser"],
    ),
    ("context", &["cuCtxGetCurrent", "cuCtxSetCurrent"]),
    ("capture mode", &["cuThreadExchangeStreamCaptureMode"]),
];

/// Calls by group, with all other functions by their names.
struct CallCounts {
    groups: BTreeMap<&'static str, u64>,
    others: BTreeMap<String, u64>,
    frames: u64,
}

impl CallCounts {
    /// Counts since the last reset of the counters.
    fn read(simulated: &SimulatedGpu, frames: u64) -> Self {
        let mut counts = Self {
            groups: GROUPS.iter().map(|(name, _)| (*name, 0)).collect(),
            others: BTreeMap::new(),
            frames,
        };
        for (function, calls) in simulated.all_calls() {
            match GROUPS
                .iter()
                .find(|(_, functions)| functions.contains(&function.as_str()))
            {
                Some((name, _)) => *counts.groups.get_mut(name).expect("all are there") += calls,
                None => drop(counts.others.insert(function, calls)),
            }
        }
        counts
    }

    fn print(&self, what: &str) {
        let per_frame = |calls: u64| calls as f64 / self.frames as f64;
        let groups = GROUPS.map(|(name, _)| format!("{name} {:.2}", per_frame(self.groups[name])));
        let others: u64 = self.others.values().sum();
        println!(
            "{what}: {} frames; per frame: {}, other {:.2}",
            self.frames,
            groups.join(", "),
            per_frame(others)
        );
        println!("  other: {:?}", self.others);
    }

    /// Asserts what no scheduling of threads changes.
    fn assert_few(&self, what: &str) {
        assert_eq!(
            (self.of(&["launch"]), self.of(&["host wait"])),
            (self.frames, 0),
            "{what}"
        );
        // Overlapping clips share a picture, so there may be fewer maps.
        assert!(
            self.of(&["map"]) <= 2 * self.frames,
            "{what}: {:?}",
            self.groups
        );
        assert!(
            self.of(&["map", "launch", "copy", "event"]) <= 4 * self.frames,
            "{what}: {:?}",
            self.groups
        );
    }

    fn of(&self, groups: &[&str]) -> u64 {
        groups.iter().map(|group| self.groups[group]).sum()
    }
}

fn pipeline() -> TransformPipeline {
    let target = Target::Exact(Size {
        height: 224,
        width: 224,
    });
    let resize = Transform::Resize {
        target,
        filter: Filter::Triangle,
        display_aspect: false,
    };
    TransformPipeline::new(vec![resize], Dtype::U8, Layout::Ntchw).expect("a pipeline")
}

/// The 1080p H.264 files of the test media.
fn samples() -> Vec<Sample> {
    let entries = crate::common::videos();
    let entries = entries
        .iter()
        .filter(|entry| entry.path.contains("1080p/bunny") && !entry.in_corpus());
    let place = |entry: &crate::common::Entry| MediaLocation::Path(entry.root.join(&entry.path));
    let samples = entries.map(|entry| Sample {
        location: place(entry),
        label: 0,
        extent: SegmentRange::Full,
    });
    samples.take(2).collect()
}

fn bytes(buffer: &BatchBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.copy_to_host(0, &mut bytes).expect("bytes");
    bytes
}

#[test]
fn clip_takes_few_driver_calls_and_no_wait() {
    let _guard = exclusive();
    let (Some(gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let entries = crate::common::videos();
    let entry = entries
        .iter()
        .find(|entry| entry.path.ends_with("bunny_30p.mkv"))
        .expect("it is generated");
    let video = Video::open(entry.source().expect("it is there")).expect("a video");
    let key = RngKey {
        seed: 1,
        epoch: 0,
        clip: 0,
        occurrence: 0,
    };
    for (what, stride) in [("16 consecutive frames", 1), ("16 frames, stride 4", 4)] {
        let mut decoder = ClipDecoder::with_gpu(pipeline(), 1, Some(gpu.clone()))
            .with_nvdec(&gpu)
            .expect("a session");
        for start in [0, 8] {
            let wanted: Vec<_> = (0..FRAMES)
                .map(|n| PresentationIndex(start + n * stride))
                .collect();
            simulated.reset_counts();
            let mut output = decoder.output();
            let decoded = decoder.decode_clip(&mut video.reader(), &wanted, key, &mut output);
            decoded.expect("a clip");
            let (clip, _) = output
                .into_clip()
                .expect("no error")
                .expect("frames were requested");
            let counts = CallCounts::read(&simulated, FRAMES.into());
            counts.assert_few(what);
            if start > 0 {
                assert_eq!(
                    counts.of(&["copy", "create"]),
                    0,
                    "{what}: with memory, tables and a decoder"
                );
            }
            assert!(
                Ok(bytes(&clip)) == frames(&video, &mut ClipDecoder::new(pipeline()), &wanted),
                "{what}, {start}"
            );
            drop(clip);
            counts.print(&format!("{what} from {start}"));
        }
        assert!(decoder.cpu_fallback.is_none());
    }
    simulated.assert_clean("clips");
}

/// The batches of an epoch.
fn batches(loader: &mut Loader, epoch: u64) -> Vec<BatchBuffer> {
    let pass = loader.start_epoch(epoch, 0).expect("a pass");
    let mut batches = Vec::new();
    while let Some(batch) = loader.next_batch(pass).expect("a batch") {
        let Some(BatchData::Dense(buffer, _)) = batch.data.into_iter().next() else {
            panic!("clips of one shape")
        };
        batches.push(buffer);
    }
    batches
}

#[test]
fn random_clips_of_a_loader_take_few_driver_calls() {
    let _guard = exclusive();
    let (Some(_gpu), Some(simulated)) = (gpu(), SimulatedGpu::open()) else {
        return;
    };
    let random: ClipSamplerRef =
        Arc::new(Random::new(FRAMES, 2, 2, PaddingPolicy::Loop).expect("a clip sampler"));
    let base = config(&samples(), &random, &pipeline(), OnError::Raise);
    let start = |config: LoaderConfig| Loader::start(config).expect("a loader");
    let mut on_gpu = start(gpu_config(&base, Some(0), DecoderBackend::Nvdec));
    for epoch in 0..2 {
        simulated.reset_counts();
        let got = batches(&mut on_gpu, epoch);
        let counts = CallCounts::read(
            &simulated,
            got.iter()
                .map(|batch| batch.len() as u64 / FRAME_BYTES)
                .sum(),
        );
        counts.print(&format!("random clips of a loader, epoch {epoch}"));
        counts.assert_few("a loader");
        let expected: Vec<_> = batches(&mut start(base.clone()), epoch)
            .iter()
            .map(bytes)
            .collect();
        assert!(
            got.iter().map(bytes).collect::<Vec<_>>() == expected,
            "epoch {epoch}"
        );
    }
    simulated.assert_clean("a loader");
}
