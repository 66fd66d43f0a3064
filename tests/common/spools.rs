//! Small loaders over the test media, and what they deliver, as lines that can be compared.

use std::sync::Arc;

use framespool::batch::Slab;
use framespool::order::{LastBatch, OrderConfig, Shuffle};
use framespool::pixels::transform::{Flip, Padding, Size, Span, Target, Transform};
use framespool::pixels::{Dtype, Filter, Layout, Normalize, Recipe};
use framespool::sampling::footage::Extent;
use framespool::sampling::Sampling;
use framespool::source::Place;
use framespool::spool::entries::Item;
use framespool::spool::stats::Stats;
use framespool::spool::{OnError, Pixels, Spool, SpoolConfig};
use framespool::{Error, Result};
use md5::{Digest, Md5};

/// At most two small videos of each codec, container and condition: some thirty, damaged ones among them.
pub fn items() -> Vec<Item> {
    let mut seen: Vec<(String, String, bool)> = Vec::new();
    let mut items = Vec::new();
    for entry in super::videos() {
        if entry.damage_is_unreported() {
            continue;
        }
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

pub fn config(items: &[Item], sampling: &Sampling, recipe: &Recipe, on_error: OnError) -> SpoolConfig {
    SpoolConfig {
        of_pictures: false,
        stream: None,
        entries: Arc::new(items.to_vec().into()),
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

fn fetched(slab: &Slab) -> Result<Vec<u8>> {
    let mut bytes = vec![0; slab.len()];
    slab.download(0, &mut bytes)?;
    Ok(bytes)
}

/// One line for each batch: its bytes and facts hashed, or its error.
pub fn deliver(config: SpoolConfig) -> (Vec<String>, Stats) {
    try_deliver(config, &|| Ok(())).expect("delivers")
}

/// The same, where starting may fail, and what lies on a device may not come to the host.
pub fn try_deliver(config: SpoolConfig, watch: &dyn Fn() -> Result<()>) -> Result<(Vec<String>, Stats)> {
    asked_on(config, watch, false)
}

/// The same; `asks_on`: a caller who was interrupted asks for the next batch all the same.
#[allow(dead_code)]
pub fn asked_on(
    config: SpoolConfig,
    watch: &dyn Fn() -> Result<()>,
    asks_on: bool,
) -> Result<(Vec<String>, Stats)> {
    let mut spool = Spool::start(config, watch)?;
    let pass = spool.begin(2, 0)?;
    let mut lines = Vec::new();
    loop {
        match spool.next_batch(pass, watch) {
            Ok(None) => return Ok((lines, spool.counter()())),
            Err(Error::Interrupted) if asks_on => {}
            Err(error @ (Error::Gpu { .. } | Error::Interrupted)) => return Err(error),
            Err(error) => lines.push(error.to_string()),
            Ok(Some(batch)) => {
                let mut md5 = Md5::new();
                match &batch.pixels {
                    Pixels::Even(slab, _) => md5.update(fetched(slab)?),
                    Pixels::Ragged(clips) => {
                        for (slab, _) in clips {
                            md5.update(fetched(slab)?);
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

pub fn resized_crop() -> Recipe {
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
pub fn normalized(layout: Layout, dtype: Dtype) -> Recipe {
    let crop = Transform::RandomCrop {
        size: Size { height: 24, width: 28 },
        padding: Padding { left: 3, ..Padding::default() },
        pad_if_needed: true,
        fill: [9.0; 3],
    };
    let normalize = Transform::Normalize(Normalize { mean: [0.3, 0.4, 0.5], std: [0.2, 0.3, 0.4] });
    Recipe::new(vec![crop, normalize], dtype, layout).expect("a recipe")
}

pub fn shorter_side() -> Recipe {
    let resize =
        Transform::Resize { target: Target::Shorter { size: 32, longest: None }, filter: Filter::Triangle };
    Recipe::new(vec![resize], Dtype::U8, Layout::Nthwc).expect("a recipe")
}
