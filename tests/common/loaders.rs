//! Builds small loaders over the test media, and summarizes their batches as lines that tests
//! compare.

use std::sync::Arc;

use framespool::batch::BatchBuffer;
use framespool::batch_sampler::{BatchSamplerConfig, LastBatchPolicy, Shuffle};
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_sampler::{ClipSamplerRef, PaddingPolicy, Random};
use framespool::dataset::MediaLocation;
use framespool::dataset::Sample;
use framespool::loader::stats::Stats;
use framespool::loader::{BatchData, ClipView, Loader, LoaderConfig, LoaderOptions, OnError};
use framespool::transforms::transform::{Padding, Size, Target, Transform, UniformRange};
use framespool::transforms::{Dtype, Filter, Layout, Normalize, TransformPipeline};
use framespool::{Error, Result};
use md5::{Digest, Md5};

/// Returns at most two small videos of each codec, container and condition: about thirty, some of
/// them damaged.
pub fn items() -> Vec<Sample> {
    let mut seen: Vec<(String, String, bool)> = Vec::new();
    let mut items = Vec::new();
    for entry in super::videos() {
        if entry.damage_is_unreported() {
            continue;
        }
        let small = entry.properties["width"].as_u64().is_some_and(|w| w <= 720);
        let frames = entry.properties["frames_decoded"].as_u64().unwrap_or(0);
        let kind = (
            entry.codec().to_owned(),
            entry.properties["container"].to_string(),
            entry.is_corrupt(),
        );
        if small && (20..=160).contains(&frames) && seen.iter().filter(|&k| *k == kind).count() < 2
        {
            seen.push(kind);
            let label = items.len() as i64;
            items.push(Sample {
                location: MediaLocation::Path(entry.root.join(&entry.path)),
                label,
                extent: SegmentRange::Full,
            });
        }
    }
    items
}

pub fn config(
    items: &[Sample],
    clip_sampler: &ClipSamplerRef,
    pipeline: &TransformPipeline,
    on_error: OnError,
) -> LoaderConfig {
    LoaderConfig {
        samples: Arc::new(items.to_vec().into()),
        views: vec![ClipView::new(clip_sampler.clone(), pipeline.clone())],
        order: BatchSamplerConfig {
            batch_size: 5,
            shuffle: Shuffle::Full,
            seed: 11,
            last_batch: LastBatchPolicy::Fill,
            ..BatchSamplerConfig::default()
        },
        mixture: None,
        index: None,
        options: LoaderOptions {
            group_clips: false,
            images: false,
            stream: None,
            on_error,
            outage_timeout: None,
            collate: framespool::loader::Collate::default(),
            num_threads: 1,
            prefetch_batches: 0,
            memory_budget: 0,
            device_memory_budget: None,
            lookahead_clips: 0,
            clip_store: None,
            gpu: framespool::loader::GpuConfig::default(),
            audio: None,
        },
    }
}

fn copy_to_host_vec(buffer: &BatchBuffer) -> Result<Vec<u8>> {
    let mut bytes = vec![0; buffer.len()];
    buffer.copy_to_host(0, &mut bytes)?;
    Ok(bytes)
}

/// Returns one line per batch: its clip numbers and a hash of its contents, or its error.
pub fn deliver(config: LoaderConfig) -> (Vec<String>, Stats) {
    try_deliver(config).expect("delivers")
}

/// The same, but returns an error if starting the loader or copying from a device fails.
pub fn try_deliver(config: LoaderConfig) -> Result<(Vec<String>, Stats)> {
    deliver_resuming(config, false)
}

/// The same; with `asks_on`, the caller requests the next batch even after an interrupt.
#[allow(dead_code)]
pub fn deliver_resuming(config: LoaderConfig, asks_on: bool) -> Result<(Vec<String>, Stats)> {
    let mut loader = Loader::start(config)?;
    let pass = loader.start_epoch(2, 0)?;
    let mut lines = Vec::new();
    loop {
        match loader.next_batch(pass) {
            Ok(None) => return Ok((lines, loader.counter()())),
            Err(Error::Interrupted) if asks_on => {}
            Err(error @ (Error::Gpu { .. } | Error::Interrupted)) => return Err(error),
            Err(error) => lines.push(error.to_string()),
            Ok(Some(batch)) => {
                let mut md5 = Md5::new();
                for view in &batch.data {
                    match view {
                        BatchData::Dense(buffer, _) | BatchData::Padded(buffer, ..) => {
                            md5.update(copy_to_host_vec(buffer)?)
                        }
                        BatchData::Ragged(clips) => {
                            for (buffer, _) in clips {
                                md5.update(copy_to_host_vec(buffer)?);
                            }
                        }
                    }
                }
                let ids: Vec<u64> = batch.clips.iter().map(|c| c.clip_id).collect();
                md5.update(format!("{:?}", batch.clips));
                lines.push(format!("{ids:?} {:02x?}", md5.finalize()));
            }
        }
    }
}

/// Two views of each video: clips of one size, and smaller ones within their time span.
#[allow(dead_code)]
pub fn two_views(items: &[Sample], on_error: OnError) -> LoaderConfig {
    let sampler = |frames, stride, clips| -> ClipSamplerRef {
        Arc::new(Random::new(frames, stride, clips, PaddingPolicy::Edge).expect("a clip sampler"))
    };
    let mut config = config(items, &sampler(6, 3, 2), &resized_crop(), on_error);
    config.views.push(ClipView {
        clip_sampler: sampler(3, 2, 3),
        within: Some(0),
        pipeline: normalized(Layout::Ntchw, Dtype::F32),
    });
    config.options.group_clips = true;
    config.order.batch_size = 2;
    config
}

pub fn resized_crop() -> TransformPipeline {
    let crop = Transform::RandomResizedCrop {
        size: Size {
            height: 40,
            width: 48,
        },
        scale: UniformRange::new(0.1, 1.0),
        ratio: UniformRange::new(0.75, 1.25),
        filter: Filter::Triangle,
        display_aspect: false,
    };
    let flip = Transform::RandomHorizontalFlip { p: 0.5 };
    TransformPipeline::new(vec![crop, flip], Dtype::U8, Layout::Ncthw).expect("a recipe")
}

/// A pipeline to a normalized dtype: its clips are cached before normalization, as 8-bit codes.
pub fn normalized(layout: Layout, dtype: Dtype) -> TransformPipeline {
    let crop = Transform::RandomCrop {
        size: Size {
            height: 24,
            width: 28,
        },
        padding: Padding {
            left: 3,
            ..Padding::default()
        },
        pad_if_needed: true,
        fill: [9.0; 3],
    };
    let normalize = Transform::Normalize(Normalize {
        mean: [0.3, 0.4, 0.5],
        std: [0.2, 0.3, 0.4],
    });
    TransformPipeline::new(vec![crop, normalize], dtype, layout).expect("a recipe")
}

pub fn shorter_side() -> TransformPipeline {
    let resize = Transform::Resize {
        target: Target::Shorter {
            size: 32,
            longest: None,
        },
        filter: Filter::Triangle,
        display_aspect: false,
    };
    TransformPipeline::new(vec![resize], Dtype::U8, Layout::Nthwc).expect("a recipe")
}
