//! Samples frames at given time offsets from each anchor frame, as LeRobot's `delta_timestamps`
//! does. Returns a frame within the tolerance, a masked boundary frame for timestamps outside the
//! video, or an error.

use super::common::{check_clip_index, check_nonzero};
use super::video_timing::PTS_EPSILON_SECONDS;
use super::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// One clip for each of the frames 0, `step`, 2·`step`, … of a video: the frames at `time(frame) +
/// delta` for each delta.
///
/// A timestamp that is more than the tolerance before the first or after the last frame is clamped
/// to that frame, and its mask is false. Any other timestamp must have a frame within the
/// tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    deltas: Vec<f64>,
    tolerance: f64,
    step: u32,
}

impl Delta {
    /// Checks the arguments.
    pub fn new(deltas: Vec<f64>, tolerance_seconds: f64, step: u32) -> Result<Self> {
        if deltas.is_empty() || u32::try_from(deltas.len()).is_err() {
            return Err(Error::Argument(
                "deltas_seconds must have at least one entry; use [0.0] for the frame itself"
                    .into(),
            ));
        }
        if let Some(odd) = deltas.iter().find(|d| !d.is_finite()) {
            return Err(Error::Argument(format!(
                "deltas_seconds must be finite, got {odd}"
            )));
        }
        if !(tolerance_seconds >= 0.0 && tolerance_seconds.is_finite()) {
            return Err(Error::Argument(format!(
                "tolerance_seconds must be at least 0, got {tolerance_seconds}; half a frame's duration \
                 accepts any time"
            )));
        }
        check_nonzero("step", step, "use 1 for a clip at every frame")?;
        Ok(Self {
            deltas,
            tolerance: tolerance_seconds,
            step,
        })
    }

    /// The frame at `pts_seconds(frame) + delta`, and whether it is that frame (true) or a
    /// replacement (false).
    fn at(&self, video: &dyn VideoTiming, frame: u32, delta: f64) -> Result<(u32, bool)> {
        let near = self.tolerance + PTS_EPSILON_SECONDS;
        let last = video.num_frames().saturating_sub(1);
        let wanted = video.pts_seconds(frame) + delta;
        if wanted < video.pts_seconds(0) - near {
            return Ok((0, false));
        }
        if wanted > video.pts_seconds(last) + near {
            return Ok((last, false));
        }
        let before = video.num_frames_until(wanted).saturating_sub(1);
        let after = (before + 1).min(last);
        let distance = |at: u32| (video.pts_seconds(at) - wanted).abs();
        let nearest = if distance(after) < distance(before) {
            after
        } else {
            before
        };
        if distance(nearest) <= near {
            return Ok((nearest, true));
        }
        Err(Error::Argument(format!(
            "frame {frame} at {} s and delta {delta} request {} s, but the nearest frame is {nearest} \
             at {} s, {:.6} s away and more than tolerance_seconds={}; use deltas that are multiples of the \
             frame duration, or a larger tolerance",
            video.pts_seconds(frame),
            wanted,
            video.pts_seconds(nearest),
            distance(nearest),
            self.tolerance
        )))
    }
}

impl ClipSampler for Delta {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        u64::from(video.num_frames().div_ceil(self.step))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.deltas.len() as u32) // checked by `new`
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frame = (number * u64::from(self.step)) as u32; // below the number of frames
        let frames = self
            .deltas
            .iter()
            .map(|&delta| self.at(video, frame, delta));
        let (indices, mask) = frames.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(ClipIndices { indices, mask })
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::FrameTimestamps;
    use super::*;

    fn clip(sampler: &Delta, video: &dyn VideoTiming, number: u64) -> Result<ClipIndices> {
        sampler.clip(video, number, &mut ScriptedRng(&[]))
    }

    #[test]
    fn every_step_th_frame_is_a_clip() {
        // The video has 25 frames per second.
        let sampler = Delta::new(vec![-0.08, 0.0, 0.04], 1e-4, 3).unwrap();
        assert_eq!(
            [0, 1, 3, 4, 10].map(|n| sampler.num_clips(&video(n))),
            [0, 1, 1, 2, 4]
        );
        let sample = clip(&sampler, &video(10), 1).unwrap();
        assert_eq!(
            (sample.indices, sample.mask),
            (vec![1, 3, 4], vec![true; 3])
        );
    }

    #[test]
    fn times_outside_of_the_video_are_clamped_and_masked() {
        let sampler = Delta::new(vec![-0.12, -0.04, 0.0, 0.04, 10.0], 1e-4, 1).unwrap();
        let sample = clip(&sampler, &video(5), 1).unwrap();
        assert_eq!(sample.indices, [0, 0, 1, 2, 4]);
        assert_eq!(sample.mask, [false, true, true, true, false]);
        let sample = clip(&sampler, &video(5), 4).unwrap();
        assert_eq!(
            (sample.indices, sample.mask),
            (vec![1, 3, 4, 4, 4], vec![true, true, true, false, false])
        );
    }

    #[test]
    fn time_between_frames_is_an_error_with_both_times() {
        let sampler = Delta::new(vec![0.05], 1e-4, 1).unwrap();
        let text = clip(&sampler, &video(9), 2).unwrap_err().to_string();
        assert!(
            text.contains("frame 2 at 0.08 s and delta 0.05 request 0.13 s"),
            "{text}"
        );
        assert!(
            text.contains("nearest frame is 3 at 0.12 s, 0.010000 s away"),
            "{text}"
        );
        // With a tolerance of half a frame duration the nearest frame matches; of two equally near
        // frames, the earlier.
        let sampler = Delta::new(vec![0.05], 0.02, 1).unwrap();
        assert_eq!(clip(&sampler, &video(9), 2).unwrap().indices, [3]);
        let sampler = Delta::new(vec![0.25, 0.375], 0.25, 1).unwrap();
        let halves = FrameTimestamps::new(vec![0.0, 0.5, 1.0], 1.5).unwrap();
        assert_eq!(clip(&sampler, &halves, 0).unwrap().indices, [0, 1]);
    }

    #[test]
    fn real_presentation_times_decide() {
        let video = FrameTimestamps::new(vec![0.0, 0.1, 0.35, 0.4], 0.5).unwrap();
        let sampler = Delta::new(vec![0.05, 0.25], 0.01, 1).unwrap();
        assert!(clip(&sampler, &video, 0).is_err());
        let sample = clip(&sampler, &video, 2).unwrap();
        assert_eq!(
            (sample.indices, sample.mask),
            (vec![3, 3], vec![true, false])
        );
        let sampler = Delta::new(vec![0.25], 0.01, 1).unwrap();
        assert_eq!(clip(&sampler, &video, 1).unwrap().indices, [2]);
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        assert!(Delta::new(vec![], 0.1, 1).is_err());
        assert!(Delta::new(vec![f64::NAN], 0.1, 1).is_err());
        for tolerance in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Delta::new(vec![0.0], tolerance, 1).is_err());
        }
        assert!(
            Delta::new(vec![0.0], 0.1, 0)
                .unwrap_err()
                .to_string()
                .contains("step must be at least 1, got 0")
        );
    }
}
