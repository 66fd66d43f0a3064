//! Tests that a loader delivers the same batches for every memory budget, look-ahead, number of
//! threads and prefetch depth, under every error policy, and that cached clips stay within the
//! budget.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::common::loaders::{
    config, deliver, deliver_resuming, items, normalized, resized_crop, shorter_side, two_views,
};
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_sampler::{ClipSamplerRef, PadMode, PaddingPolicy, Random, Windows};
use framespool::dataset::MediaLocation;
use framespool::dataset::Sample;
use framespool::error::Error;
use framespool::loader::{LOOK_AHEAD, LoaderConfig, LoaderOptions, MEMORY_BUDGET, OnError};
use framespool::source::interrupt_scope;
use framespool::transforms::{Dtype, Layout};

#[test]
fn output_is_independent_of_loader_settings() {
    let items = items();
    let windows: ClipSamplerRef =
        Arc::new(Windows::new(6, 3, Some(12), PadMode::Blank).expect("a clip sampler"));
    let random: ClipSamplerRef =
        Arc::new(Random::new(8, 4, 3, PaddingPolicy::Loop).expect("a clip sampler"));
    let settings = [
        (MEMORY_BUDGET, LOOK_AHEAD, 2, 2),
        (40 << 20, 60, 4, 3),
        (200_000, 300, 1, 0),
    ];
    let mut batches = 0;
    // Every setting with each sampler; the dtypes differ only in what is cached.
    let of = |sampler, pipeline, on_error| config(&items, sampler, &pipeline, on_error);
    let floats = |layout, dtype, on_error| of(&random, normalized(layout, dtype), on_error);
    for (base, settings) in [
        (of(&windows, resized_crop(), OnError::Skip), &settings[..]),
        (
            floats(Layout::Ntchw, Dtype::F32, OnError::Replace),
            &settings[..2],
        ),
        (
            floats(Layout::Ncthw, Dtype::BF16, OnError::Skip),
            &settings[..1],
        ),
        (of(&random, shorter_side(), OnError::Raise), &settings),
        (two_views(&items, OnError::Replace), &settings),
    ] {
        let on_error = base.options.on_error;
        let base = || base.clone();
        let (plain, plain_stats) = deliver(base());
        assert!(plain_stats.clip_cache_hits == 0 && plain_stats.clip_cache_peak_bytes == 0);
        assert!(
            plain_stats.errors.values().sum::<u64>() > 0,
            "damaged files are part of this test"
        );
        batches += plain.len();
        for &(memory_budget, lookahead_clips, threads, prefetch_batches) in settings {
            let what = format!(
                "{on_error:?}: {memory_budget} bytes, {lookahead_clips} clip requests, {threads} threads"
            );
            let mut config = base();
            config.options = LoaderOptions {
                memory_budget,
                lookahead_clips,
                num_threads: threads,
                prefetch_batches,
                ..config.options
            };
            let (lines, stats) = deliver(config);
            assert_eq!(lines, plain, "{what}");
            assert!(
                stats.clip_cache_peak_bytes <= memory_budget,
                "{what}: {stats:?}"
            );
            let (decoded, plainly) = (stats.frames_decoded, plain_stats.frames_decoded);
            if memory_budget >= 40 << 20 {
                assert_eq!(stats.clips_evicted, 0, "{what}: all clips fit");
            }
            // With less memory, the schedule determines which clips are evicted and decoded again.
            // A decode range with damage is decoded again for each of its clips separately.
            assert!(
                stats.clips_evicted > 0 || decoded <= plainly + plainly / 50,
                "{what}: {decoded} frames decoded, {plainly} without a budget"
            );
            if memory_budget == MEMORY_BUDGET {
                assert!(stats.gops_shared > 0, "{what}: {stats:?}");
                // With views, all clips of a video are in one batch: only workers that are ahead of
                // the open batches use the cache.
                let is_grouped = base().options.group_clips;
                assert!(is_grouped || stats.clip_cache_hits > 0, "{what}: {stats:?}");
            }
        }
    }
    println!("{} videos, {batches} batches", items.len());
}

#[test]
fn every_frame_is_decoded_once_with_enough_memory() {
    let items: Vec<Sample> = ["h264_open_gop_720p.mp4", "base_640x360.mp4"]
        .map(|name| crate::common::named(&format!("video/derived/{name}")))
        .into_iter()
        .map(|e| Sample {
            location: MediaLocation::Path(e.root.join(&e.path)),
            label: 0,
            extent: SegmentRange::Full,
        })
        .collect();
    let windows: ClipSamplerRef =
        Arc::new(Windows::new(8, 1, Some(2), PadMode::Drop).expect("a clip sampler"));
    let pipeline = shorter_side();
    let base = config(&items, &windows, &pipeline, OnError::Raise);
    let ample = LoaderConfig {
        options: LoaderOptions {
            memory_budget: MEMORY_BUDGET,
            lookahead_clips: LOOK_AHEAD,
            ..base.options.clone()
        },
        ..base.clone()
    };
    let ((once, ample), (again, none)) = (deliver(ample), deliver(base));
    assert_eq!(once, again);
    // Each frame is in four windows; it is decoded and transformed once for all of them.
    let delivered = ample.frames_used;
    assert!(ample.frames > 3 * delivered, "{ample:?}");
    assert!(
        ample.frames_decoded <= delivered + delivered / 10,
        "{ample:?}"
    );
    assert!(none.frames_decoded > 4 * delivered, "{none:?}");
}

#[test]
fn interrupts_at_any_time_lose_no_batch() {
    let bad = |item: &Sample| matches!(&item.location, MediaLocation::Path(path) if path.to_string_lossy().contains("/corrupt/"));
    let (mut damaged, intact): (Vec<Sample>, Vec<Sample>) = items().into_iter().partition(bad);
    damaged.truncate(3);
    assert!(damaged.len() >= 2, "{} damaged clips", damaged.len());
    let items: Vec<Sample> = damaged
        .into_iter()
        .chain(intact.into_iter().take(1))
        .collect();
    let clip_sampler: ClipSamplerRef =
        Arc::new(Random::new(4, 1, 1, PaddingPolicy::Loop).expect("a clip sampler"));
    // A batch of one bad clip is empty, so the caller's thread makes another one instead.
    let mut base = config(&items, &clip_sampler, &shorter_side(), OnError::Skip);
    base.order.batch_size = 1;
    let (expected, stats) = deliver(base.clone());
    assert!(stats.errors.values().sum::<u64>() > 0, "{stats:?}");
    let mut interrupted = 0;
    for moment in 1.. {
        let left = Rc::new(Cell::new(moment));
        let counted = left.clone();
        let interrupt = move || {
            let left = &counted;
            left.set(left.get() - 1);
            if left.get() == 0 {
                Err(Error::Interrupted)
            } else {
                Ok(())
            }
        };
        let _scope = interrupt_scope(interrupt, None);
        match deliver_resuming(base.clone(), true) {
            Ok((got, _)) => assert_eq!(got, expected, "interrupted at call {moment}"),
            Err(Error::Interrupted) => {} // while the loader was started
            Err(other) => panic!("{other}"),
        }
        if left.get() > 0 || moment > 100 {
            break;
        }
        interrupted += 1;
    }
    assert!(
        interrupted > expected.len(),
        "{interrupted} of {} batches",
        expected.len()
    );
}
