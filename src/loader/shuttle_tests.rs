//! Runs the real loader under thousands of schedules of shuttle, which selects the thread to run at
//! each lock, wait and atomic. Tests that each clip is delivered exactly once within the memory
//! budget. Waits never time out here, so a missing wake-up is a deadlock, which shuttle reports
//! with its schedule.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use shuttle::Runner;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};

use super::*;
use crate::batch_sampler::grouped_shuffle::GroupedOptions;
use crate::batch_sampler::{LastBatchPolicy, SampledClip, Shuffle};
use crate::clip_sampler::video_timing::SegmentRange;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::dataset::MediaLocation;
use crate::dataset::{Sample, SampleTable};
use crate::source::ImageSequence;
use crate::transforms::transform::{Size, Target, Transform};
use crate::transforms::{Dtype, Filter, Layout, TransformPipeline};

/// Number of schedules that each scheduler tries; `FRAMESPOOL_MODEL_ROUNDS` overrides it.
const ROUNDS: usize = 1500;
/// Frames of the videos; the last video's fourth frame is damaged.
const FRAMES: [u32; 3] = [6, 7, 6];
const DAMAGED: (u32, u32) = (2, 3);
const CLIPS: u64 = 3;
/// Bytes of a clip: three frames of 2x2 RGB.
const CLIP_BYTES: u64 = 3 * 2 * 2 * 3;
/// What a suspended task reserves for a decoder of 4x4 frames.
const DECODER_BYTES: u64 = 4 * 4 * 2 * 20;

/// Clip `c` consists of frames `c` to `c + 2`, so that the clips of a video share frames.
#[derive(Debug)]
struct Neighbours {
    /// Whether sampling clip 1 of the video with seven frames panics.
    panics: bool,
}

impl ClipSampler for Neighbours {
    fn num_clips(&self, _: &dyn VideoTiming) -> u64 {
        CLIPS
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(CLIPS)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(3)
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        assert!(
            !self.panics || video.num_frames() != FRAMES[1] || clip != 1,
            "a panic on purpose"
        );
        Ok(ClipIndices::unpadded(frames_of(clip)))
    }

    fn min_length_hint(&self) -> String {
        "5 frames".into()
    }
}

fn frames_of(clip: u64) -> Vec<u32> {
    (clip as u32..clip as u32 + 3).collect()
}

/// The value of every byte of a frame.
fn value(video: u32, frame: u32) -> u8 {
    (video * 64 + frame * 8) as u8
}

fn is_damaged(clip: u64) -> bool {
    (clip / CLIPS) as u32 == DAMAGED.0 && frames_of(clip % CLIPS).contains(&DAMAGED.1)
}

/// The clip for which [`Neighbours`] panics.
const PANICKING: u64 = CLIPS + 1;

/// Folders of images, removed on drop.
struct Videos(PathBuf);

impl Videos {
    fn new(name: &str) -> Self {
        let place =
            std::env::temp_dir().join(format!("framespool-model-{name}-{}", std::process::id()));
        for (video, frames) in (0..).zip(FRAMES) {
            let folder = place.join(video.to_string());
            std::fs::create_dir_all(&folder).unwrap();
            for frame in 0..frames {
                let mut png = Vec::new();
                let mut encoder = png::Encoder::new(&mut png, 4, 4);
                encoder.set_color(png::ColorType::Rgb);
                let mut writer = encoder.write_header().unwrap();
                writer.write_image_data(&[value(video, frame); 48]).unwrap();
                drop(writer);
                let len = if (video, frame) == DAMAGED {
                    png.len() / 2
                } else {
                    png.len()
                };
                std::fs::write(folder.join(format!("{frame}.png")), &png[..len]).unwrap();
            }
        }
        Self(place)
    }

    fn entries(&self, damaged: bool) -> SampleTable {
        let place = |video: usize| {
            let folder = self.0.join(video.to_string());
            let frames = ImageSequence {
                folder,
                pattern: None,
                first: 0,
                count: None,
                fps: (10, 1),
            };
            MediaLocation::ImageSequence(Arc::new(frames))
        };
        let videos = if damaged { 3 } else { 2 };
        (0..videos)
            .map(|video| Sample {
                location: place(video),
                label: video as i64,
                extent: SegmentRange::Full,
            })
            .collect::<Vec<_>>()
            .into()
    }
}

impl Drop for Videos {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pick<T: Copy>(from: &[T]) -> T {
    from[thread_rng().gen_range(0..from.len())]
}

/// A configuration drawn at random for each schedule; it determines which threads compete.
fn config(videos: &Videos, panics: bool) -> LoaderConfig {
    let damaged = !panics && pick(&[true, false, false]);
    let fixed = pick(&[true, true, false]);
    let target = Target::Exact(Size {
        height: 2,
        width: 2,
    });
    let steps = if fixed {
        vec![Transform::Resize {
            target,
            filter: Filter::Triangle,
            display_aspect: false,
        }]
    } else {
        Vec::new()
    };
    LoaderConfig {
        samples: Arc::new(videos.entries(damaged)),
        views: vec![ClipView::new(
            Arc::new(Neighbours { panics }),
            TransformPipeline::new(steps, Dtype::U8, Layout::Nthwc).unwrap(),
        )],
        order: BatchSamplerConfig {
            batch_size: pick(&[1, 2, 4]),
            shuffle: pick(&[
                Shuffle::Off,
                Shuffle::Full,
                Shuffle::Grouped(GroupedOptions::default()),
            ]),
            repeats: pick(&[1, 1, 2]),
            last_batch: pick(&[LastBatchPolicy::Partial, LastBatchPolicy::Fill]),
            seed: pick(&[1, 2, 3]),
            ..BatchSamplerConfig::default()
        },
        mixture: None,
        index: None,
        options: LoaderOptions {
            group_clips: false,
            images: false,
            stream: None,
            on_error: pick(&[OnError::Raise, OnError::Skip, OnError::Replace]),
            outage_timeout: None,
            collate: super::Collate::default(),
            num_threads: pick(&[1, 2, 3]),
            prefetch_batches: pick(&[0, 1, 2]),
            memory_budget: pick(&[
                0,
                CLIP_BYTES,
                2 * CLIP_BYTES,
                DECODER_BYTES + CLIP_BYTES,
                1 << 20,
            ]),
            device_memory_budget: None,
            lookahead_clips: pick(&[0, 2, 100]),
            clip_store: None,
            // NVDEC workers that decode nothing, so that they leave all clips to those of the CPU.
            gpu: GpuConfig {
                nvdec_threads: pick(&[None, None, Some(1), Some(2)]),
                ..GpuConfig::default()
            },
            audio: None,
        },
    }
}

/// One schedule: starts a loader, takes some of its batches in one or two passes, and drops it.
fn play(videos: &Videos, panics: bool) {
    let config = config(videos, panics);
    let mut loader = Loader::start(config.clone()).expect("starts");
    let budget = loader.workers.scheduler.budget.clone();
    let counter = loader.counter();
    let mut delivered = HashSet::new();
    let (mut passes, mut is_whole) = (0, false);
    let reader = pick(&[true, false]).then(|| shuttle::thread::spawn(move || counter()));
    for _ in 0..pick(&[1, 1, 2]) {
        let (epoch, first) = (pick(&[0, 5]), pick(&[0, 0, 1]));
        let pass = loader.start_epoch(epoch, first).expect("begins");
        let mut number = first;
        passes += 1;
        for _ in 0..pick(&[0, 1, 2, 100]) {
            let slots = if number < loader.len_batches() {
                loader.order.batch(epoch, number)
            } else {
                Vec::new()
            };
            match loader.next_batch(pass) {
                Ok(None) => {
                    assert!(
                        slots.is_empty(),
                        "batch {number} of {} is lost",
                        loader.len_batches()
                    );
                    is_whole = first == 0;
                    break;
                }
                Ok(Some(batch)) => {
                    check(&batch, &slots, config.options.on_error, panics);
                    let frames = |clip: &ClipMetadata| {
                        clip.indices.clone().into_iter().map({
                            let video = clip.video_id;
                            move |frame| (video, frame)
                        })
                    };
                    delivered.extend(batch.clips.iter().flat_map(frames));
                    let counted = loader.counter()().frames_decoded;
                    assert!(
                        counted >= delivered.len() as u64,
                        "{counted} pictures counted of {}",
                        delivered.len()
                    );
                }
                Err(error @ Error::Internal { .. }) => {
                    let its = |s: &SampledClip| s.clip == PANICKING;
                    let lost = if config.options.on_error == OnError::Skip {
                        slots.iter().all(its)
                    } else {
                        slots.iter().any(its)
                    };
                    assert!(panics && lost, "{error} in batch {number}: {slots:?}");
                }
                Err(error) => {
                    assert!(
                        slots.iter().any(|s| is_damaged(s.clip)),
                        "{error} in batch {number}: {slots:?}"
                    );
                    assert_eq!(config.options.on_error, OnError::Raise, "{error}");
                }
            }
            number += 1;
        }
        if pick(&[true, false]) {
            loader.stop_epoch().expect("rests");
        }
    }
    let stats = loader.counter()();
    // Work of an earlier pass may still hold memory in the next one.
    if passes == 1 && fits(&config) {
        assert_eq!(stats.clips_evicted, 0, "all clips fit");
        if is_whole && config.options.lookahead_clips >= 100 && !has_errors(&config, panics) {
            let decoded = stats.frames_decoded;
            assert_eq!(
                decoded,
                delivered.len() as u64,
                "each picture is decoded once"
            );
        }
    }
    let peak = stats.clip_cache_peak_bytes;
    assert!(
        peak <= config.options.memory_budget,
        "{peak} of {} bytes",
        config.options.memory_budget
    );
    drop(loader);
    assert_eq!(budget.used(), 0, "bytes are reserved for nothing");
    reader
        .into_iter()
        .for_each(|thread| drop(thread.join().expect("reads")));
}

/// Whether all clips of a pass have one size and fit into the clip cache together.
fn fits(config: &LoaderConfig) -> bool {
    let order = &config.order;
    let clips = CLIPS * config.samples.len() as u64 * u64::from(order.repeats);
    let with_padding = clips + u64::from(order.batch_size);
    config.views[0].clip_shape().is_some()
        && with_padding * CLIP_BYTES <= config.options.memory_budget
}

/// Whether some clips are made alone: after an error of others, or because a decoder is missing.
fn has_errors(config: &LoaderConfig, panics: bool) -> bool {
    panics || config.samples.len() == FRAMES.len() || config.options.gpu.nvdec_threads.is_some()
}

/// Checks a batch against the order and the sampling, independently of the scheduler and the
/// workers.
fn check(batch: &Batch, slots: &[SampledClip], on_error: OnError, panics: bool) {
    let cannot = |clip: u64| {
        if panics {
            clip == PANICKING
        } else {
            is_damaged(clip)
        }
    };
    let wanted: Vec<u64> = match on_error {
        OnError::Skip => slots
            .iter()
            .map(|s| s.clip)
            .filter(|&clip| !cannot(clip))
            .collect(),
        _ => slots.iter().map(|s| s.clip).collect(),
    };
    let got: Vec<u64> = batch.clips.iter().map(|c| c.requested_id).collect();
    match wanted.is_empty() {
        true => assert!(
            got == [slots[0].clip] && batch.clips[0].padding,
            "{got:?} instead of {slots:?}"
        ),
        false => assert_eq!(got, wanted, "of {slots:?}"),
    }
    for (place, clip) in batch.clips.iter().enumerate() {
        let (video, frames) = (clip.video_id, frames_of(clip.clip_id % CLIPS));
        assert_eq!(u64::from(video), clip.clip_id / CLIPS);
        assert_eq!(
            clip.indices,
            frames.iter().map(|&f| i64::from(f)).collect::<Vec<_>>()
        );
        assert!(clip.clip_id == clip.requested_id || cannot(clip.requested_id));
        let shown = |buffer: &BatchBuffer, from: usize, len: usize| {
            buffer.bytes().expect("host memory")[from..][..len].to_vec()
        };
        let bytes = match &batch.data[0] {
            BatchData::Dense(buffer, shape) | BatchData::Padded(buffer, shape, _) => {
                let len = shape.bytes().unwrap();
                shown(buffer, place * len, len)
            }
            BatchData::Ragged(clips) => shown(&clips[place].0, 0, clips[place].1.bytes().unwrap()),
        };
        let each = bytes.len() / frames.len();
        for (pixels, &frame) in bytes.chunks(each).zip(&frames) {
            assert!(
                pixels.iter().all(|&v| v == value(video, frame)),
                "frame {frame} of {clip:?}: {pixels:?}"
            );
        }
    }
}

/// Tries schedules. To replay only a failed schedule, set `FRAMESPOOL_MODEL_REPLAY` to the printed
/// schedule.
fn explore(name: &str, panics: bool) {
    let videos = Arc::new(Videos::new(name));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut settings = shuttle::Config::new();
        settings.stack_size = 1 << 20; // decoders need more than shuttle's default of 32 KiB
        let videos = videos.clone();
        Runner::new(scheduler, settings).run(move || play(&videos, panics));
    };
    if let Ok(schedule) = std::env::var("FRAMESPOOL_MODEL_REPLAY") {
        return run(Box::new(ReplayScheduler::new_from_encoded(&schedule)));
    }
    let said = std::env::var("FRAMESPOOL_MODEL_ROUNDS").ok();
    let rounds = said.map_or(ROUNDS, |n| {
        n.parse().expect("FRAMESPOOL_MODEL_ROUNDS is a number")
    });
    run(Box::new(RandomScheduler::new(rounds)));
    for depth in [2, 5] {
        run(Box::new(PctScheduler::new(depth, rounds / 2)));
    }
}

#[test]
fn every_schedule_yields_each_clip_once_within_budget() {
    explore("clips", false);
}

#[test]
fn a_panic_in_a_worker_is_an_error() {
    explore("panics", true);
}
