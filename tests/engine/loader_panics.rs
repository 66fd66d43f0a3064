//! Tests that a panic while a clip is made ends the request of that clip, and of no other.

use std::sync::Arc;

use framespool::Result;
use framespool::clip_sampler::video_timing::{SegmentRange, VideoTiming};
use framespool::clip_sampler::{ClipIndices, ClipSampler, ClipSamplerRef};
use framespool::dataset::{MediaLocation, Sample};
use framespool::loader::OnError;
use framespool::rng::RandomSource;

use crate::common::loaders::{config, deliver, resized_crop};
use crate::common::named;

/// Two clips of the same frames. The mask of one of them is too long, so that filling its padding
/// panics once its frames are decoded.
#[derive(Debug)]
struct TwoClips {
    panics: u64,
}

impl ClipSampler for TwoClips {
    fn num_clips(&self, _: &dyn VideoTiming) -> u64 {
        2
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(2)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(2)
    }

    fn clip(
        &self,
        _: &dyn VideoTiming,
        clip: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let mut indices = ClipIndices::unpadded(vec![0, 1]);
        if clip == self.panics {
            indices.mask.push(false);
        }
        Ok(indices)
    }

    fn pads_with_zeros(&self) -> bool {
        true
    }

    fn min_length_hint(&self) -> String {
        "2 frames".into()
    }
}

#[test]
fn panic_while_a_decoded_clip_is_delivered_fails_only_that_clip() {
    let video = named("video/derived/base_640x360.mp4");
    let sample = Sample {
        location: MediaLocation::Path(video.root.join(&video.path)),
        label: 0,
        extent: SegmentRange::Full,
    };
    for panics in 0..2 {
        let sampler: ClipSamplerRef = Arc::new(TwoClips { panics });
        let of = |on_error| {
            let mut config = config(
                std::slice::from_ref(&sample),
                &sampler,
                &resized_crop(),
                on_error,
            );
            config.order.batch_size = 2;
            deliver(config).0
        };
        let [raised] = &of(OnError::Raise)[..] else {
            panic!("one batch");
        };
        assert!(raised.contains("a worker failed unexpectedly"), "{raised}");
        let [skipped] = &of(OnError::Skip)[..] else {
            panic!("one batch");
        };
        assert!(
            skipped.starts_with(&format!("[{}] ", 1 - panics)),
            "{skipped}"
        );
    }
}
