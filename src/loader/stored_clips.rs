//! Takes clips from a store on disk instead of decoding them, and stores clips of later epochs,
//! which a decode task makes together with those of its own epoch.
//!
//! Frames and random parameters of every epoch are known, so a video that is decoded for a clip of
//! this epoch is decoded for its clips of the next ones as well. In epoch `e` these are the epochs
//! before the next one, `f`, for which `f % epochs` is the phase of the video, a hash. Thus the
//! first epoch makes the clips of `(epochs + 1) / 2` epochs on average, and each later one decodes
//! every `epochs`-th video.

use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_64;

use super::content_keys::ContentKeys;
use super::{ClipView, LoaderConfig};
use crate::clip_sampler::ClipIndices;
use crate::clip_store::{ClipStore, EVERY_EPOCH, StoreCounts, StoredClip};
use crate::error::{Error, Result};
use crate::transforms::{ClipShape, Dtype, TransformPipeline};

/// The clips on disk of one loader.
pub(super) struct StoredClips {
    pub store: ClipStore,
    seed: u64,
    epochs: u64,
    /// Whether the clip sampler returns the same frames again; set once it is known.
    is_repeatable: OnceLock<bool>,
}

/// Where a clip of a later epoch is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub key: u128,
    /// The epoch in which it is due, or [`EVERY_EPOCH`].
    pub due: u64,
}

impl StoredClips {
    /// Opens the store of a configuration; `None` if it has none.
    ///
    /// # Errors
    /// `Argument` if the folder cannot be used.
    pub(super) fn open(config: &LoaderConfig, keys: &ContentKeys) -> Result<Option<Arc<Self>>> {
        let Some(store) = &config.options.clip_store else {
            return Ok(None);
        };
        // A GPU may conceal damage that the CPU reports.
        let on_gpu = config.options.gpu.may_decode();
        // Epochs of loaders with other samples or another seed are unrelated.
        let samples = &config.samples;
        let ends = [0, samples.len() / 2, samples.len() - 1].map(|at| samples.location(at).name());
        let clips = |view: &ClipView| {
            let sampler = &view.clip_sampler;
            format!(
                "{:?} {:?} ",
                sampler.sequence_length(),
                sampler.fixed_num_clips()
            )
        };
        let run = format!(
            "{:x} {on_gpu} {} {ends:?} {} {}",
            keys.settings(),
            samples.len(),
            config.order.seed,
            config.views.iter().map(clips).collect::<String>(),
        );
        Ok(Some(Arc::new(Self {
            store: ClipStore::open(store.clone(), xxh3_64(run.as_bytes()))?,
            seed: config.order.seed,
            epochs: store.epochs.max(1).into(),
            is_repeatable: OnceLock::new(),
        })))
    }

    pub(super) fn counts(&self) -> StoreCounts {
        self.store.counts()
    }

    /// Checks once that the clip sampler returns the same frames when it is asked again, after
    /// another epoch. `sample`: the frames of a clip in an epoch, if they can be sampled.
    ///
    /// # Errors
    /// `Argument` if it keeps state of its own: the clips of later epochs are not known then.
    pub(super) fn check_sampler(
        &self,
        epoch: u64,
        sample: impl Fn(u64) -> Option<ClipIndices>,
    ) -> Result<()> {
        let is_repeatable = self.is_repeatable.get().copied().or_else(|| {
            let first = sample(epoch)?;
            sample(epoch.saturating_add(1))?;
            let is_equal = first.indices == sample(epoch)?.indices;
            Some(*self.is_repeatable.get_or_init(|| is_equal))
        });
        if is_repeatable != Some(false) {
            return Ok(());
        }
        Err(Error::Argument(
            "the clip sampler returned other frames when it was asked again for a clip of an epoch: it keeps state of its \
             own, so the clips of later epochs are not known in advance; let it draw only from the rng that it is given, or \
             omit the disk of the cache"
                .into(),
        ))
    }

    /// The last epoch for whose clips a video is decoded in this epoch.
    pub(super) fn last_epoch(&self, video: u32, epoch: u64) -> u64 {
        last_epoch_of_run((self.seed, self.epochs), video, epoch)
    }

    /// Stores a clip.
    pub(super) fn put(&self, ticket: Ticket, shape: &ClipShape, bytes: &[u8]) {
        let sizes = [shape.frames, shape.height, shape.width].map(u32::try_from);
        if let [Ok(frames), Ok(height), Ok(width)] = sizes {
            self.store.put(
                ticket.key,
                ticket.due,
                [frames, height, width, code_of(shape.dtype)],
                bytes,
            );
        }
    }

    /// The shape of a stored clip; `None` if it does not belong to this pipeline.
    pub(super) fn shape(clip: &StoredClip, pipeline: &TransformPipeline) -> Option<ClipShape> {
        let [frames, height, width, code] = clip.tag();
        let shape = pipeline.shape(frames as usize, (width, height));
        let dtype = [pipeline.dtype, Dtype::U8]
            .into_iter()
            .find(|&dtype| code_of(dtype) == code)?;
        Some(ClipShape { dtype, ..shape })
            .filter(|shape| shape.bytes().map(|b| b as u64) == Some(clip.num_bytes()))
    }
}

/// The epochs in which a video is decoded are those with this remainder, if it is decoded for
/// `epochs` epochs at once.
pub(super) fn phase((seed, epochs): (u64, u64), video: u32) -> u64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..].copy_from_slice(&video.to_le_bytes());
    xxh3_64(&bytes) % epochs
}

/// The last epoch for whose clips a video is decoded in this epoch.
pub(super) fn last_epoch_of_run((seed, epochs): (u64, u64), video: u32, epoch: u64) -> u64 {
    // The number of epochs from the next one to the next one of this phase.
    let ahead = (phase((seed, epochs), video) + epochs - (epoch % epochs + 1) % epochs) % epochs;
    epoch.saturating_add(ahead).min(EVERY_EPOCH - 1)
}

fn code_of(dtype: Dtype) -> u32 {
    dtype as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_before_the_phase_of_the_video() {
        let folder = std::env::temp_dir().join(format!("framespool-runs-{}", std::process::id()));
        let config = crate::clip_store::ClipStoreConfig {
            folder: folder.clone(),
            bytes: 0,
            epochs: 8,
        };
        let clips = StoredClips {
            store: ClipStore::open(config, 0).unwrap(),
            seed: 3,
            epochs: 8,
            is_repeatable: OnceLock::new(),
        };
        let mut first = 0;
        for video in 0..1000 {
            let mut epoch = 0;
            let mut lengths = Vec::new();
            while epoch < 30 {
                let last = clips.last_epoch(video, epoch);
                assert!(last >= epoch);
                lengths.push(last + 1 - epoch);
                epoch = last + 1;
            }
            assert!(
                lengths[1..].iter().all(|&length| length == 8),
                "{lengths:?}"
            );
            first += lengths[0];
        }
        // (8 + 1) / 2 epochs on average
        assert!((4200..4800).contains(&first), "{first}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
