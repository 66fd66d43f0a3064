//! Clips of several clip samplers from one video, such as two long and six short ones. The clips of
//! a sampler can be limited to the time span of the clips of an earlier one.

use std::sync::Arc;

use super::{ClipIndices, ClipSampler, ClipSamplerRef, RandomSource, VideoTiming};
use crate::clip_sampler::video_timing::Timestamp;
use crate::error::{Error, Result};
use crate::rng::{Purpose, Rng, RngKey};

/// One of the samplers.
#[derive(Clone, Debug)]
pub struct SamplerOfView {
    /// Selects the frames of its clips.
    pub clip_sampler: ClipSamplerRef,
    /// The earlier sampler to whose clips these are limited: clip *k* lies between the first and
    /// the last frame of clip *k* modulo the number of clips of that sampler. If it is the same
    /// object, the clips are the same.
    pub within: Option<usize>,
}

/// The clips of all samplers, those of the first one first.
#[derive(Clone, Debug)]
pub struct Views {
    samplers: Vec<SamplerOfView>,
    /// Number of clips of each sampler.
    counts: Vec<u64>,
}

impl Views {
    /// Checks that each sampler has a fixed number of clips.
    ///
    /// # Errors
    /// `Argument` if the number of clips depends on the video, or if `within` is not an earlier
    /// sampler.
    pub fn new(samplers: Vec<SamplerOfView>) -> Result<Self> {
        let count = |view: &SamplerOfView| {
            view.clip_sampler.fixed_num_clips().ok_or_else(|| {
                Error::Argument(
                    "views need clip samplers that take the same number of clips from each video; for videos that \
                     are too short choose a padding other than \"drop\""
                        .into(),
                )
            })
        };
        let counts = samplers.iter().map(count).collect::<Result<_>>()?;
        let mut numbered = samplers.iter().enumerate();
        if numbered.any(|(number, view)| view.within.is_some_and(|other| other >= number)) {
            return Err(Error::Argument(
                "a view can only be within one that is given before it".into(),
            ));
        }
        Ok(Self { samplers, counts })
    }

    /// The sampler of a clip, and the number of the clip among those of this sampler.
    pub fn locate(&self, clip: u64) -> (usize, u64) {
        let mut number = clip;
        for (view, &count) in self.counts.iter().enumerate() {
            if number < count {
                return (view, number);
            }
            number -= count;
        }
        (self.counts.len().saturating_sub(1), number)
    }

    fn num_clips_in_all(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl ClipSampler for Views {
    fn num_clips(&self, _video: &dyn VideoTiming) -> u64 {
        self.num_clips_in_all()
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(self.num_clips_in_all())
    }

    fn sequence_length(&self) -> Option<u32> {
        let mut lengths = self
            .samplers
            .iter()
            .map(|s| s.clip_sampler.sequence_length());
        let first = lengths.next()??;
        lengths.all(|length| length == Some(first)).then_some(first)
    }

    /// The clips of a video are sampled together, so that `within` can look at the earlier ones.
    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        super::common::check_clip_index(clip, self.num_clips_in_all(), video)?;
        let (wanted, number) = self.locate(clip);
        let mut sampled: Vec<Vec<ClipIndices>> = Vec::with_capacity(wanted + 1);
        for (view, (sampler, &count)) in self.samplers.iter().zip(&self.counts).enumerate() {
            let same = sampler.within.filter(|&other| {
                let other = &self.samplers[other].clip_sampler;
                std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&sampler.clip_sampler))
            });
            if let Some(other) = same {
                sampled.push(sampled[other].clone());
                if view == wanted {
                    sampled[view].truncate(number as usize + 1);
                    break;
                }
                continue;
            }
            // Every clip draws from the stream in the same order, regardless of which one is requested.
            let last = if view == wanted { number + 1 } else { count };
            let mut seed = None;
            let mut clips = Vec::with_capacity(last as usize);
            for k in 0..last {
                if !sampler.clip_sampler.shares_rng_per_video() {
                    seed = None;
                }
                let rng = &mut Substream {
                    parent: &mut *rng,
                    seed: &mut seed,
                    rng: None,
                };
                clips.push(match sampler.within.map(|other| &sampled[other]) {
                    Some(others) => {
                        let part = Part::spanning(video, &others[k as usize % others.len()]);
                        part.counted_from_video(sampler.clip_sampler.clip(&part, k, rng)?)
                    }
                    None => sampler.clip_sampler.clip(video, k, rng)?,
                });
            }
            sampled.push(clips);
            if view == wanted {
                break;
            }
        }
        let wanted = sampled.pop().and_then(|mut clips| clips.pop());
        Ok(wanted.unwrap_or_default())
    }

    /// Whether those of any sampler are; a loader asks the sampler of each view.
    fn pads_with_zeros(&self) -> bool {
        self.samplers
            .iter()
            .any(|view| view.clip_sampler.pads_with_zeros())
    }

    fn min_length_hint(&self) -> String {
        let hints = self
            .samplers
            .iter()
            .map(|view| view.clip_sampler.min_length_hint());
        hints.collect::<Vec<_>>().join(" and ")
    }
}

/// A random stream whose seed is drawn from another one at its first use: a sampler that draws
/// nothing leaves the other stream unused, so that its frames count as the same in every epoch.
struct Substream<'a> {
    parent: &'a mut dyn RandomSource,
    seed: &'a mut Option<u64>,
    rng: Option<Rng>,
}

impl Substream<'_> {
    fn rng(&mut self) -> &mut Rng {
        let seed = *self
            .seed
            .get_or_insert_with(|| self.parent.next_below(u64::MAX));
        self.rng.get_or_insert_with(|| {
            RngKey {
                seed,
                epoch: 0,
                clip: 0,
                occurrence: 0,
            }
            .rng(Purpose::Sampling)
        })
    }
}

impl RandomSource for Substream<'_> {
    fn next_below(&mut self, n: u64) -> u64 {
        RandomSource::next_below(self.rng(), n)
    }

    fn next_f64(&mut self) -> f64 {
        RandomSource::next_f64(self.rng())
    }
}

/// The frames of a video between two of them.
struct Part {
    video: Box<dyn VideoTiming + Send + Sync>,
    first: u32,
    num_frames: u32,
}

impl Part {
    /// From the first to the last frame of a clip.
    fn spanning(video: &dyn VideoTiming, clip: &ClipIndices) -> Self {
        let first = clip.indices.iter().copied().min().unwrap_or(0);
        let last = clip.indices.iter().copied().max().unwrap_or(0);
        Self {
            video: video.clone_box(),
            first,
            num_frames: last - first + 1,
        }
    }

    fn counted_from_video(&self, mut clip: ClipIndices) -> ClipIndices {
        clip.indices
            .iter_mut()
            .for_each(|index| *index += self.first);
        clip
    }

    fn frame(&self, frame: u32) -> u32 {
        self.first + frame.min(self.num_frames)
    }
}

impl VideoTiming for Part {
    fn num_frames(&self) -> u32 {
        self.num_frames
    }

    fn average_fps(&self) -> f64 {
        self.video.average_fps()
    }

    fn pts_seconds(&self, frame: u32) -> f64 {
        self.video.pts_seconds(self.frame(frame))
    }

    fn timestamp(&self, frame: u32) -> Timestamp {
        self.video.timestamp(self.frame(frame))
    }

    fn pts_tolerance_seconds(&self) -> f64 {
        self.video.pts_tolerance_seconds()
    }

    fn clone_box(&self) -> Box<dyn VideoTiming + Send + Sync> {
        Box::new(Self {
            video: self.video.clone_box(),
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::video;
    use super::super::{PaddingPolicy, Random, StartSampling, Uniform};
    use super::*;

    fn random(length: u32, stride: u32, clips: u32, group: StartSampling) -> ClipSamplerRef {
        Arc::new(
            Random::new(length, stride, clips, PaddingPolicy::Edge)
                .unwrap()
                .with_start_sampling(group),
        )
    }

    fn views(samplers: Vec<(ClipSamplerRef, Option<usize>)>) -> Views {
        let view = |(clip_sampler, within)| SamplerOfView {
            clip_sampler,
            within,
        };
        Views::new(samplers.into_iter().map(view).collect()).unwrap()
    }

    fn sample(sampler: &Views, seed: u64, clip: u64) -> Vec<u32> {
        let key = RngKey {
            seed,
            epoch: 0,
            clip: 0,
            occurrence: 0,
        };
        let mut rng = key.rng(Purpose::Sampling);
        sampler.clip(&video(500), clip, &mut rng).unwrap().indices
    }

    #[test]
    fn clips_lie_within_those_of_the_other_view() {
        for group in [StartSampling::Independent, StartSampling::Stratified] {
            let sampler = views(vec![
                (random(16, 4, 2, group), None),
                (random(8, 2, 6, group), Some(0)),
            ]);
            assert_eq!(sampler.fixed_num_clips(), Some(8));
            let mut starts = std::collections::BTreeSet::new();
            for seed in 0..50 {
                let long: Vec<_> = (0..2).map(|clip| sample(&sampler, seed, clip)).collect();
                for clip in 2..8 {
                    let short = sample(&sampler, seed, clip);
                    let span = &long[(clip - 2) as usize % 2];
                    assert_eq!(short.len(), 8);
                    assert!(
                        short[0] >= span[0] && short[7] <= span[15],
                        "{short:?} {span:?}"
                    );
                    starts.insert(short[0] - span[0]);
                }
            }
            assert!(
                starts.len() > 20,
                "they are spread over the span: {starts:?}"
            );
        }
    }

    #[test]
    fn a_view_within_one_of_its_own_length_has_the_same_frames() {
        let one = random(16, 4, 2, StartSampling::Independent);
        let sampler = views(vec![(one.clone(), None), (one, Some(0))]);
        for seed in 0..20 {
            for clip in 0..2 {
                assert_eq!(
                    sample(&sampler, seed, clip),
                    sample(&sampler, seed, clip + 2)
                );
            }
        }
    }

    #[test]
    fn samplers_that_draw_nothing_leave_the_stream_unused() {
        struct Unused;
        impl RandomSource for Unused {
            fn next_below(&mut self, _: u64) -> u64 {
                unreachable!("nothing is random")
            }
            fn next_f64(&mut self) -> f64 {
                unreachable!("nothing is random")
            }
        }
        let uniform: ClipSamplerRef = Arc::new(Uniform::new(8, 2, 3, PaddingPolicy::Edge).unwrap());
        let sampler = views(vec![(uniform.clone(), None), (uniform.clone(), None)]);
        for clip in 0..6 {
            assert_eq!(
                sampler.clip(&video(100), clip, &mut Unused).unwrap(),
                uniform.clip(&video(100), clip % 3, &mut Unused).unwrap()
            );
        }
        assert!(sampler.clip(&video(100), 6, &mut Unused).is_err());
    }

    #[test]
    fn numbers_of_clips_that_depend_on_the_video_are_refused() {
        let drop = Random::new(8, 2, 1, PaddingPolicy::Drop).unwrap();
        let view = |clip_sampler, within| SamplerOfView {
            clip_sampler,
            within,
        };
        let error = Views::new(vec![view(Arc::new(drop) as ClipSamplerRef, None)]).unwrap_err();
        assert!(
            error.to_string().contains("same number of clips"),
            "{error}"
        );
        let one = random(8, 2, 1, StartSampling::Independent);
        let error = Views::new(vec![view(one, Some(0))]).unwrap_err();
        assert!(error.to_string().contains("before"), "{error}");
    }
}
