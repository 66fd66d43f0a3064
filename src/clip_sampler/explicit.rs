//! Clips of explicitly listed frame numbers or timestamps in seconds.
//! Negative frame numbers count from the end; timestamps are relative to the first frame.

use super::common::check_clip_index;
use super::frame_position::{FramePosition, OutOfRange};
use super::padding::{length_of, seconds};
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The requested frames of each clip.
#[derive(Clone, Debug, PartialEq)]
enum ExplicitClips {
    Frames(Vec<Vec<i64>>),
    Seconds(Vec<Vec<f64>>),
}

/// The same clips for every video, given by frame number or by timestamp.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplicitFrames {
    clips: ExplicitClips,
    lengths: Vec<u32>,
    padding: PaddingPolicy,
}

impl ExplicitFrames {
    /// Clips by frame number; -1 is the last frame.
    pub fn frames(clips: Vec<Vec<i64>>, padding: PaddingPolicy) -> Result<Self> {
        let lengths = lengths("frame", clips.iter().map(Vec::len))?;
        Ok(Self {
            clips: ExplicitClips::Frames(clips),
            lengths,
            padding,
        })
    }

    /// Clips by timestamp, in seconds after the first frame appears.
    pub fn seconds(clips: Vec<Vec<f64>>, padding: PaddingPolicy) -> Result<Self> {
        let lengths = lengths("moment", clips.iter().map(Vec::len))?;
        if let Some(odd) = clips.iter().flatten().find(|at| !at.is_finite()) {
            return Err(Error::Argument(format!(
                "seconds must be finite, got {odd}"
            )));
        }
        Ok(Self {
            clips: ExplicitClips::Seconds(clips),
            lengths,
            padding,
        })
    }

    fn positions(&self, video: &dyn VideoTiming, clip: usize) -> Vec<FramePosition> {
        match &self.clips {
            ExplicitClips::Frames(clips) => {
                let frames = i64::from(video.num_frames());
                let from_end = |at: i64| {
                    if at < 0 {
                        at.saturating_add(frames)
                    } else {
                        at
                    }
                };
                clips[clip]
                    .iter()
                    .map(|&at| FramePosition::at_frame(video, from_end(at)))
                    .collect()
            }
            ExplicitClips::Seconds(clips) => {
                let begin = video.pts_seconds(0);
                clips[clip]
                    .iter()
                    .map(|&at| FramePosition::at_seconds(video, begin + at))
                    .collect()
            }
        }
    }

    fn out_of_range_error(&self, video: &dyn VideoTiming, outside: OutOfRange) -> Error {
        let frames = i64::from(video.num_frames());
        let wanted = match outside {
            OutOfRange::Frame(at) if at < 0 => format!("frame {}", at.saturating_sub(frames)),
            OutOfRange::Frame(at) => format!("frame {at}"),
            OutOfRange::Seconds(at) => format!("second {}", seconds(at - video.pts_seconds(0))),
        };
        Error::Argument(format!(
            "{wanted} requested, but the video has {}; set padding= to choose a replacement frame",
            length_of(video)
        ))
    }
}

/// Number of frames of each clip.
fn lengths(what: &str, lengths: impl Iterator<Item = usize>) -> Result<Vec<u32>> {
    let lengths: Vec<u32> = lengths
        .map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        .collect();
    if lengths.is_empty() || lengths.contains(&0) {
        return Err(Error::Argument(format!(
            "a clip needs at least one {what}; give a list that is not empty"
        )));
    }
    Ok(lengths)
}

impl ClipSampler for ExplicitFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        let fits = || {
            (0..self.lengths.len())
                .all(|clip| self.positions(video, clip).iter().all(|s| s.is_in_range()))
        };
        self.padding
            .num_clips(video, self.lengths.len() as u64, fits)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.padding.fixed_num_clips(self.lengths.len() as u64)
    }

    fn sequence_length(&self) -> Option<u32> {
        self.lengths
            .iter()
            .all(|&n| n == self.lengths[0])
            .then_some(self.lengths[0])
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let positions = self.positions(video, number as usize); // below the number of lists
        self.padding.fill(video, &positions, |outside| {
            self.out_of_range_error(video, outside)
        })
    }

    fn pads_with_zeros(&self) -> bool {
        self.padding == PaddingPolicy::Blank
    }

    fn min_length_hint(&self) -> String {
        let whole = match &self.clips {
            ExplicitClips::Frames(clips) => {
                let frames = |&at: &i64| {
                    if at < 0 {
                        at.unsigned_abs()
                    } else {
                        at.unsigned_abs() + 1
                    }
                };
                format!(
                    "{} frames",
                    clips.iter().flatten().map(frames).max().unwrap_or(1)
                )
            }
            ExplicitClips::Seconds(clips) => {
                format!(
                    "more than {} seconds",
                    seconds(clips.iter().flatten().copied().fold(0.0, f64::max))
                )
            }
        };
        self.padding.min_length_hint(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::FrameTimestamps;
    use super::*;

    fn clip(sampler: &ExplicitFrames, video: &dyn VideoTiming, number: u64) -> Result<ClipIndices> {
        sampler.clip(video, number, &mut ScriptedRng(&[]))
    }

    #[test]
    fn negative_indices_count_from_the_end() {
        let sampler =
            ExplicitFrames::frames(vec![vec![5, 0, -1, -10, 5]], PaddingPolicy::Error).unwrap();
        let sample = clip(&sampler, &video(10), 0).unwrap();
        assert_eq!(
            (sample.indices, sample.mask),
            (vec![5, 0, 9, 0, 5], vec![true; 5])
        );
        let text = clip(&sampler, &video(9), 0).unwrap_err().to_string();
        assert!(
            text.starts_with("frame -10 requested, but the video has 9 frames (0.36 s); "),
            "{text}"
        );
    }

    #[test]
    fn times_count_from_the_first_frame() {
        let video = FrameTimestamps::new(vec![10.0, 10.5, 10.75, 12.0], 12.5).unwrap();
        let sampler =
            ExplicitFrames::seconds(vec![vec![0.0, 0.49, 0.5, 1.9, 2.4]], PaddingPolicy::Error)
                .unwrap();
        assert_eq!(clip(&sampler, &video, 0).unwrap().indices, [0, 0, 1, 2, 3]);
        for (moment, said) in [
            (2.5, "second 2.5 requested"),
            (-0.25, "second -0.25 requested"),
        ] {
            let sampler =
                ExplicitFrames::seconds(vec![vec![moment]], PaddingPolicy::Error).unwrap();
            let text = clip(&sampler, &video, 0).unwrap_err().to_string();
            assert!(
                text.starts_with(said) && text.contains("4 frames (2.5 s)"),
                "{text}"
            );
        }
    }

    #[test]
    fn clips_may_differ_in_length() {
        let sampler =
            ExplicitFrames::frames(vec![vec![0], vec![1, 2]], PaddingPolicy::Edge).unwrap();
        assert_eq!(
            (sampler.sequence_length(), sampler.fixed_num_clips()),
            (None, Some(2))
        );
        assert_eq!(clip(&sampler, &video(2), 1).unwrap().indices, [1, 1]);
        let even =
            ExplicitFrames::seconds(vec![vec![0.0, 1.0], vec![1.0, 2.0]], PaddingPolicy::Edge)
                .unwrap();
        assert_eq!(even.sequence_length(), Some(2));
    }

    #[test]
    fn video_that_lacks_one_frame_is_dropped() {
        let sampler = ExplicitFrames::frames(vec![vec![0], vec![4]], PaddingPolicy::Drop).unwrap();
        assert_eq!(
            (
                [0, 4, 5].map(|n| sampler.num_clips(&video(n))),
                sampler.min_length_hint()
            ),
            ([0, 0, 2], "5 frames".to_owned())
        );
    }

    #[test]
    fn empty_clip_is_rejected() {
        for clips in [vec![], vec![vec![]], vec![vec![1], vec![]]] {
            assert!(ExplicitFrames::frames(clips, PaddingPolicy::Error).is_err());
        }
        assert!(ExplicitFrames::seconds(vec![vec![f64::NAN]], PaddingPolicy::Error).is_err());
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let sampler =
            ExplicitFrames::frames(vec![vec![i64::MIN, i64::MAX, -1]], PaddingPolicy::Error)
                .unwrap();
        let text = clip(&sampler, &video(3), 0).unwrap_err().to_string();
        assert!(
            text.starts_with("frame -9223372036854775808 requested"),
            "{text}"
        );
        assert_eq!(sampler.min_length_hint(), "9223372036854775808 frames");
    }
}
