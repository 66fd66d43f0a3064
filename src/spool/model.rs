//! In: a small dataset, and shuttle's schedulers, which choose at every lock, wait and atomic number who runs next.
//! Out: the whole spool under thousands of orders of events: no clip lost or delivered twice, nothing stuck, the budget kept.
//! Never: a copy of what it models: lanes, desk, window, budget, clip store and batches are those that run. Waiting never times
//! out here, so a wake-up that is missing is a deadlock, which shuttle reports with the schedule that led to it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use shuttle::rand::{thread_rng, Rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::Runner;

use super::entries::Item;
use super::*;
use crate::order::{LastBatch, Shuffle, Slot};
use crate::pixels::transform::{Size, Target, Transform};
use crate::pixels::{Dtype, Filter, Layout};
use crate::sampling::footage::Extent;
use crate::sampling::{Draw, Footage, Rule, Sample};
use crate::source::{FrameFolder, Place};

/// Schedules that each scheduler tries; `FRAMESPOOL_MODEL_ROUNDS` says another number.
const ROUNDS: usize = 1500;
/// Frames of the videos; the last video's fourth frame is damaged.
const FRAMES: [u32; 3] = [6, 7, 6];
const DAMAGED: (u32, u32) = (2, 3);
const CLIPS: u64 = 3;
/// Bytes of a clip: three frames of 2x2 RGB.
const CLIP_BYTES: u64 = 3 * 2 * 2 * 3;

/// Clip `c` is the frames `c` to `c + 2`: clips of a video share pictures.
#[derive(Debug)]
struct Neighbours {
    /// Sampling clip 1 of the video with seven frames ends in a panic.
    panics: bool,
}

impl Rule for Neighbours {
    fn clips_in(&self, _: &dyn Footage) -> u64 {
        CLIPS
    }

    fn clips_each(&self) -> Option<u64> {
        Some(CLIPS)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(3)
    }

    fn clip(&self, video: &dyn Footage, clip: u64, _: &mut dyn Draw) -> Result<Sample> {
        assert!(!self.panics || video.num_frames() != FRAMES[1] || clip != 1, "a panic on purpose");
        Ok(Sample::real(frames_of(clip)))
    }

    fn needs(&self) -> String {
        "5 frames".into()
    }
}

fn frames_of(clip: u64) -> Vec<u32> {
    (clip as u32..clip as u32 + 3).collect()
}

/// What every value of a frame's picture is.
fn value(video: u32, frame: u32) -> u8 {
    (video * 64 + frame * 8) as u8
}

fn is_damaged(clip: u64) -> bool {
    (clip / CLIPS) as u32 == DAMAGED.0 && frames_of(clip % CLIPS).contains(&DAMAGED.1)
}

/// The clip that [`Neighbours`] does not survive.
const PANICKING: u64 = CLIPS + 1;

/// Folders of pictures, removed with it.
struct Videos(PathBuf);

impl Videos {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("framespool-model-{name}-{}", std::process::id()));
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
                let len = if (video, frame) == DAMAGED { png.len() / 2 } else { png.len() };
                std::fs::write(folder.join(format!("{frame}.png")), &png[..len]).unwrap();
            }
        }
        Self(place)
    }

    fn entries(&self, damaged: bool) -> Entries {
        let place = |video: usize| {
            let folder = self.0.join(video.to_string());
            let frames = FrameFolder { folder, pattern: None, first: 0, count: None, fps: (10, 1) };
            Place::Frames(Arc::new(frames))
        };
        let videos = if damaged { 3 } else { 2 };
        (0..videos)
            .map(|video| Item { place: place(video), label: video as i64, extent: Extent::Whole })
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

/// Numbers that decide who meets whom, drawn for each schedule.
fn config(videos: &Videos, panics: bool) -> SpoolConfig {
    let damaged = !panics && pick(&[true, false, false]);
    let fixed = pick(&[true, true, false]);
    let target = Target::Exact(Size { height: 2, width: 2 });
    let steps = if fixed { vec![Transform::Resize { target, filter: Filter::Triangle }] } else { Vec::new() };
    SpoolConfig {
        entries: Arc::new(videos.entries(damaged)),
        of_pictures: false,
        stream: None,
        sampling: Arc::new(Neighbours { panics }),
        order: OrderConfig {
            batch_size: pick(&[1, 2, 4]),
            shuffle: pick(&[Shuffle::Off, Shuffle::Full]),
            last_batch: pick(&[LastBatch::Partial, LastBatch::Fill]),
            seed: pick(&[1, 2, 3]),
            ..OrderConfig::default()
        },
        mixture: None,
        on_error: pick(&[OnError::Raise, OnError::Skip, OnError::Replace]),
        recipe: Recipe::new(steps, Dtype::U8, Layout::Nthwc).unwrap(),
        threads: pick(&[1, 2, 3]),
        prefetch: pick(&[0, 1, 2]),
        memory_budget: pick(&[0, CLIP_BYTES, 2 * CLIP_BYTES, 1 << 20]),
        look_ahead: pick(&[0, 2, 100]),
        index: None,
        gpu: GpuConfig::default(),
    }
}

/// One schedule: a spool is made, some of its batches are taken in one pass or two, and it goes.
fn play(videos: &Videos, panics: bool) {
    let config = config(videos, panics);
    let go_on = || Ok(());
    let mut spool = Spool::start(config.clone(), &go_on).expect("starts");
    let budget = spool.lanes.desk.budget.clone();
    let counter = spool.counter();
    let mut delivered = HashSet::new();
    let reader = pick(&[true, false]).then(|| shuttle::thread::spawn(move || counter()));
    for _ in 0..pick(&[1, 1, 2]) {
        let (epoch, first) = (pick(&[0, 5]), pick(&[0, 0, 1]));
        let pass = spool.begin(epoch, first).expect("begins");
        let mut number = first;
        for _ in 0..pick(&[0, 1, 2, 100]) {
            let slots =
                if number < spool.len_batches() { spool.order.batch(epoch, number) } else { Vec::new() };
            match spool.next_batch(pass, &go_on) {
                Ok(None) => {
                    assert!(slots.is_empty(), "batch {number} of {} is lost", spool.len_batches());
                    break;
                }
                Ok(Some(batch)) => {
                    check(&batch, &slots, config.on_error, panics);
                    let frames = |clip: &ClipFacts| {
                        clip.indices.clone().into_iter().map({
                            let video = clip.video_id;
                            move |frame| (video, frame)
                        })
                    };
                    delivered.extend(batch.clips.iter().flat_map(frames));
                    let counted = spool.counter()().decoding.pictures_decoded;
                    assert!(
                        counted >= delivered.len() as u64,
                        "{counted} pictures counted of {}",
                        delivered.len()
                    );
                }
                Err(error @ Error::Internal { .. }) => {
                    let its = |s: &Slot| s.clip == PANICKING;
                    let lost = if config.on_error == OnError::Skip {
                        slots.iter().all(its)
                    } else {
                        slots.iter().any(its)
                    };
                    assert!(panics && lost, "{error} in batch {number}: {slots:?}");
                }
                Err(error) => {
                    assert!(slots.iter().any(|s| is_damaged(s.clip)), "{error} in batch {number}: {slots:?}");
                    assert_eq!(config.on_error, OnError::Raise, "{error}");
                }
            }
            number += 1;
        }
        if pick(&[true, false]) {
            spool.rest().expect("rests");
        }
    }
    let peak = spool.counter()().clip_store_peak_bytes;
    assert!(peak <= config.memory_budget, "{peak} of {} bytes", config.memory_budget);
    drop(spool);
    assert_eq!(budget.used(), 0, "bytes are reserved for nothing");
    reader.into_iter().for_each(|thread| drop(thread.join().expect("reads")));
}

/// A batch against what the order and the rule say, without the machine.
fn check(batch: &Batch, slots: &[Slot], on_error: OnError, panics: bool) {
    let cannot = |clip: u64| if panics { clip == PANICKING } else { is_damaged(clip) };
    let wanted: Vec<u64> = match on_error {
        OnError::Skip => slots.iter().map(|s| s.clip).filter(|&clip| !cannot(clip)).collect(),
        _ => slots.iter().map(|s| s.clip).collect(),
    };
    let got: Vec<u64> = batch.clips.iter().map(|c| c.requested_id).collect();
    match wanted.is_empty() {
        true => assert!(got == [slots[0].clip] && batch.clips[0].padding, "{got:?} stand in for {slots:?}"),
        false => assert_eq!(got, wanted, "of {slots:?}"),
    }
    for (place, clip) in batch.clips.iter().enumerate() {
        let (video, frames) = (clip.video_id, frames_of(clip.clip_id % CLIPS));
        assert_eq!(u64::from(video), clip.clip_id / CLIPS);
        assert_eq!(clip.indices, frames.iter().map(|&f| i64::from(f)).collect::<Vec<_>>());
        assert!(clip.clip_id == clip.requested_id || cannot(clip.requested_id));
        let shown =
            |slab: &Slab, from: usize, len: usize| slab.bytes().expect("host memory")[from..][..len].to_vec();
        let bytes = match &batch.pixels {
            Pixels::Even(slab, shape) => {
                let len = shape.bytes().unwrap();
                shown(slab, place * len, len)
            }
            Pixels::Ragged(clips) => shown(&clips[place].0, 0, clips[place].1.bytes().unwrap()),
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

/// Tries schedules. One that failed is tried again, alone, with `FRAMESPOOL_MODEL_REPLAY=` the text that was printed.
fn explore(name: &str, panics: bool) {
    let videos = Arc::new(Videos::new(name));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut settings = shuttle::Config::new();
        settings.stack_size = 1 << 20; // decoders need more than shuttle's usual 32 KiB
        let videos = videos.clone();
        Runner::new(scheduler, settings).run(move || play(&videos, panics));
    };
    if let Ok(schedule) = std::env::var("FRAMESPOOL_MODEL_REPLAY") {
        return run(Box::new(ReplayScheduler::new_from_encoded(&schedule)));
    }
    let said = std::env::var("FRAMESPOOL_MODEL_ROUNDS").ok();
    let rounds = said.map_or(ROUNDS, |n| n.parse().expect("FRAMESPOOL_MODEL_ROUNDS is a number"));
    run(Box::new(RandomScheduler::new(rounds)));
    for depth in [2, 5] {
        run(Box::new(PctScheduler::new(depth, rounds / 2)));
    }
}

#[test]
fn whoever_runs_next_every_clip_comes_once_and_the_budget_is_kept() {
    explore("clips", false);
}

#[test]
fn a_panic_in_a_lane_is_an_error_whoever_runs_next() {
    explore("panics", true);
}
