//! What a loader delivers is the same for every budget, window, number of threads and of batches made ahead, under
//! every policy on errors; and the clips that wait keep within their budget.

#[path = "common/mod.rs"]
mod common;

use std::sync::Arc;

use framespool::order::{LastBatch, OrderConfig, Shuffle};
use framespool::pixels::transform::{Flip, Padding, Size, Span, Target, Transform};
use framespool::pixels::{Dtype, Filter, Layout, Normalize, Recipe};
use framespool::sampling::footage::Extent;
use framespool::sampling::{Pad, Random, Sampling, Short, Windows};
use framespool::spool::library::{Item, Place};
use framespool::spool::stats::Stats;
use framespool::spool::{OnError, Pixels, Spool, SpoolConfig, LOOK_AHEAD, MEMORY_BUDGET};
use md5::{Digest, Md5};

/// At most two small videos of each codec, container and condition: some thirty, damaged ones among them.
fn items() -> Vec<Item> {
    let mut seen: Vec<(String, String, bool)> = Vec::new();
    let mut items = Vec::new();
    for entry in common::videos() {
        let small = entry.facts["width"].as_u64().is_some_and(|w| w <= 720);
        let frames = entry.facts["frames_decoded"].as_u64().unwrap_or(0);
        let kind = (entry.codec().to_owned(), entry.facts["container"].to_string(), entry.is_corrupt());
        if small && (20..=160).contains(&frames) && seen.iter().filter(|&k| *k == kind).count() < 2 {
            seen.push(kind);
            let label = items.len() as i64;
            items.push(Item {
                place: Place::Path(entry.root.join(&entry.path)),
                label,
                extent: Extent::Whole,
            });
        }
    }
    items
}

fn config(items: &[Item], sampling: &Sampling, recipe: &Recipe, on_error: OnError) -> SpoolConfig {
    SpoolConfig {
        items: items.to_vec(),
        sampling: sampling.clone(),
        order: OrderConfig {
            batch_size: 5,
            shuffle: Shuffle::Full,
            seed: 11,
            last_batch: LastBatch::Fill,
            ..OrderConfig::default()
        },
        mixture: None,
        on_error,
        recipe: recipe.clone(),
        threads: 1,
        prefetch: 0,
        memory_budget: 0,
        look_ahead: 0,
        index: None,
        gpu: framespool::spool::GpuConfig::default(),
    }
}

/// One line for each batch: its bytes and facts hashed, or its error.
fn deliver(config: SpoolConfig) -> (Vec<String>, Stats) {
    let nothing = || Ok(());
    let mut spool = Spool::start(config, &nothing).expect("starts");
    let pass = spool.begin(2, 0).expect("begins");
    let mut lines = Vec::new();
    loop {
        match spool.next_batch(pass, &nothing) {
            Ok(None) => return (lines, spool.counter()()),
            Err(error) => lines.push(error.to_string()),
            Ok(Some(batch)) => {
                let mut md5 = Md5::new();
                match &batch.pixels {
                    Pixels::Even(slab, _) => md5.update(slab.bytes().expect("host memory")),
                    Pixels::Ragged(clips) => {
                        clips.iter().for_each(|(slab, _)| md5.update(slab.bytes().expect("host memory")))
                    }
                }
                let ids: Vec<u64> = batch.clips.iter().map(|c| c.clip_id).collect();
                md5.update(format!("{:?}", batch.clips));
                lines.push(format!("{ids:?} {:x}", md5.finalize()));
            }
        }
    }
}

fn resized_crop() -> Recipe {
    let crop = Transform::RandomResizedCrop {
        size: Size { height: 40, width: 48 },
        scale: Span::new(0.1, 1.0),
        ratio: Span::new(0.75, 1.25),
        filter: Filter::Triangle,
    };
    let flip = Transform::RandomFlip { flip: Flip::Horizontal, p: 0.5 };
    Recipe::new(vec![crop, flip], Dtype::U8, Layout::Ncthw).expect("a recipe")
}

/// Elements that are no codes: they wait as codes all the same.
fn normalized(layout: Layout, dtype: Dtype) -> Recipe {
    let crop = Transform::RandomCrop {
        size: Size { height: 24, width: 28 },
        padding: Padding { left: 3, ..Padding::default() },
        pad_if_needed: true,
        fill: [9.0; 3],
    };
    let normalize = Transform::Normalize(Normalize { mean: [0.3, 0.4, 0.5], std: [0.2, 0.3, 0.4] });
    Recipe::new(vec![crop, normalize], dtype, layout).expect("a recipe")
}

fn shorter_side() -> Recipe {
    let resize =
        Transform::Resize { target: Target::Shorter { size: 32, longest: None }, filter: Filter::Triangle };
    Recipe::new(vec![resize], Dtype::U8, Layout::Nthwc).expect("a recipe")
}

#[test]
fn what_is_delivered_depends_on_no_budget_window_thread_or_prefetch() {
    let items = items();
    if items.is_empty() {
        return;
    }
    let windows: Sampling = Arc::new(Windows::new(6, 3, Some(5), Pad::Constant).expect("a rule"));
    let random: Sampling = Arc::new(Random::new(8, 4, 3, Short::Loop).expect("a rule"));
    let mut batches = 0;
    for (sampling, recipe, on_error) in [
        (&windows, resized_crop(), OnError::Skip),
        (&random, normalized(Layout::Ntchw, Dtype::F32), OnError::Replace),
        (&random, normalized(Layout::Ncthw, Dtype::BF16), OnError::Skip),
        (&random, shorter_side(), OnError::Raise),
    ] {
        let base = || config(&items, sampling, &recipe, on_error);
        let (plain, plain_stats) = deliver(base());
        assert!(plain_stats.clip_store_hits == 0 && plain_stats.clip_store_peak_bytes == 0);
        assert!(plain_stats.errors.values().sum::<u64>() > 0, "damaged files are part of this test");
        batches += plain.len();
        for (memory_budget, look_ahead, threads, prefetch) in
            [(MEMORY_BUDGET, LOOK_AHEAD, 2, 2), (40 << 20, 60, 4, 3), (200_000, 300, 1, 0)]
        {
            let what =
                format!("{on_error:?}: {memory_budget} bytes, {look_ahead} tickets, {threads} threads");
            let (lines, stats) =
                deliver(SpoolConfig { memory_budget, look_ahead, threads, prefetch, ..base() });
            assert_eq!(lines, plain, "{what}");
            assert!(stats.clip_store_peak_bytes <= memory_budget, "{what}: {stats:?}");
            assert!(stats.decoding.pictures_decoded <= plain_stats.decoding.pictures_decoded, "{what}");
            if memory_budget == MEMORY_BUDGET {
                assert!(stats.clip_store_hits > 0 && stats.gops_shared > 0, "{what}: {stats:?}");
            }
        }
    }
    println!("{} videos, {batches} batches, four ways each", items.len());
}

#[test]
fn with_memory_enough_every_picture_is_decoded_once() {
    let items: Vec<Item> = common::videos()
        .into_iter()
        .filter(|e| ["h264_open_gop_720p.mp4", "base_640x360.mp4"].iter().any(|name| e.path.ends_with(name)))
        .map(|e| Item { place: Place::Path(e.root.join(&e.path)), label: 0, extent: Extent::Whole })
        .collect();
    if items.is_empty() {
        return;
    }
    let windows: Sampling = Arc::new(Windows::new(8, 1, Some(2), Pad::None).expect("a rule"));
    let recipe = shorter_side();
    let base = config(&items, &windows, &recipe, OnError::Raise);
    let ample = SpoolConfig { memory_budget: MEMORY_BUDGET, look_ahead: LOOK_AHEAD, ..base.clone() };
    let ((once, ample), (again, none)) = (deliver(ample), deliver(base));
    assert_eq!(once, again);
    // Four windows show each picture; it is decoded and painted for all of them at once.
    let delivered = ample.decoding.pictures_delivered;
    assert!(ample.frames > 3 * delivered, "{ample:?}");
    assert!(ample.decoding.pictures_decoded <= delivered + delivered / 10, "{ample:?}");
    assert!(none.decoding.pictures_decoded > 4 * delivered, "{none:?}");
}
