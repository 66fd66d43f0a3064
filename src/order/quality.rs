//! In: an order, an epoch, and which video each clip is of. Out: how far clips are moved, and how mixed batches are.
//! A sample of the epoch's batches is looked at, and the same of a full shuffle.
//! Never: changes the order, or looks at more places than it says.

use std::collections::HashSet;

use super::config::refuse;
use super::{Kind, Order, OrderConfig, Shuffle};
use crate::error::Result;

/// About how many places are looked at where an epoch has more.
pub const MOST_PLACES: u64 = 100_000;

/// How well an order mixes, and what a full shuffle of the same clips would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// This order.
    pub own: Mixing,
    /// A full shuffle with the same seed, ranks and batches.
    pub full: Mixing,
}

/// How mixed the batches of one rank are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mixing {
    /// Mean distance, in clips, between the clip that is delivered and the one that would be without shuffling.
    pub mean_clips: f64,
    /// Median of these distances.
    pub median_clips: f64,
    /// Greatest of these distances.
    pub most_clips: u64,
    /// The same as shares of the dataset.
    pub mean_share: f64,
    /// The same as shares of the dataset.
    pub median_share: f64,
    /// The same as shares of the dataset.
    pub most_share: f64,
    /// Mean number of different videos in a batch, padding not counted.
    pub videos_per_batch: f64,
}

/// Looks at an epoch of an order; `video_of` tells the video of a clip.
///
/// Where the epoch has more than [`MOST_PLACES`] places, it is whole batches at even distances. An order with a mix is
/// refused: its clips have no place without shuffling.
pub fn quality(order: &Order, epoch: u64, video_of: &dyn Fn(u64) -> u64) -> Result<Quality> {
    let config = order.config();
    if config.mix.is_some() {
        return refuse("quality is of orders without a mix, got one; measure each dataset by itself");
    }
    let still = Order::new(OrderConfig { shuffle: Shuffle::Off, ..config.clone() })?;
    let plain = OrderConfig { kind: Kind::Framespool, stick_to_shard: false, ..config.clone() };
    let full = Order::new(OrderConfig { shuffle: Shuffle::Full, ..plain.clone() })?;
    let full_still = Order::new(OrderConfig { shuffle: Shuffle::Off, ..plain })?;
    Ok(Quality {
        own: mixing(order, &still, epoch, video_of),
        full: mixing(&full, &full_still, epoch, video_of),
    })
}

/// Compares an order with its unshuffled twin, place by place.
fn mixing(order: &Order, still: &Order, epoch: u64, video_of: &dyn Fn(u64) -> u64) -> Mixing {
    let batches = order.len_batches();
    let looked_at = (MOST_PLACES / u64::from(order.config().batch_size).max(1)).clamp(1, batches.max(1));
    let mut distances = Vec::new();
    let (mut videos, mut filled) = (0, 0_u64);
    for n in 0..looked_at {
        let batch = (u128::from(batches) * u128::from(n) / u128::from(looked_at)) as u64;
        let (moved, unmoved) = (order.batch(epoch, batch), still.batch(epoch, batch));
        let real = || moved.iter().zip(&unmoved).filter(|(slot, _)| !slot.padding);
        distances.extend(real().map(|(slot, at)| slot.clip.abs_diff(at.clip)));
        let different: HashSet<u64> = real().map(|(slot, _)| video_of(slot.clip)).collect();
        videos += different.len();
        filled += u64::from(!different.is_empty());
    }
    distances.sort_unstable();
    let Some(&most_clips) = distances.last() else { return Mixing::default() };
    let count = distances.len();
    let mean_clips = distances.iter().map(|&d| d as f64).sum::<f64>() / count as f64;
    let median_clips = (distances[(count - 1) / 2] as f64 + distances[count / 2] as f64) / 2.0;
    let share = |clips: f64| clips / order.config().num_clips.max(1) as f64;
    Mixing {
        mean_clips,
        median_clips,
        most_clips,
        mean_share: share(mean_clips),
        median_share: share(median_clips),
        most_share: share(most_clips as f64),
        videos_per_batch: videos as f64 / filled.max(1) as f64,
    }
}
