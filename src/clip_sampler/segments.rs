//! Sparse sampling as in Temporal Segment Networks: one clip of snippets from equal segments of the
//! video. A snippet stays inside the video if the video is long enough for it.

use serde::Deserialize;

use super::clip_spec::{ClipSpec, check_length};
use super::common::{check_clip_index, check_nonzero};
use super::random::{part_start, random_in_part};
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Where a snippet starts in its segment.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SegmentMode {
    /// At a random start, sampled for each segment.
    #[default]
    Random,
    Middle,
}

/// Clips of `num_segments` snippets of `frames_per_segment` frames, `stride` frames apart.
///
/// The *F* starts at which a whole snippet fits into the video are divided into *S* equal parts:
/// segment *s* starts at or after `floor(s·F / S)` and before `floor((s + 1)·F / S)`, or at the
/// former if that range is empty. The middle is `floor((s·(C + 1) + c + 1)·F / (S·(C + 1)))` for
/// clip *c* of *C*: for one clip the middle of the segment, for several clips positions spread
/// evenly within it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segments {
    num_segments: u32,
    snippet: ClipSpec,
    frames: u32,
    mode: SegmentMode,
    clips_per_video: u32,
    padding: PaddingPolicy,
}

impl Segments {
    /// Checks the arguments.
    pub fn new(
        num_segments: u32,
        (frames_per_segment, stride): (u32, u32),
        mode: SegmentMode,
        clips_per_video: u32,
        padding: PaddingPolicy,
    ) -> Result<Self> {
        check_nonzero(
            "num_segments",
            num_segments,
            "it is the number of segments that a video is divided into",
        )?;
        check_nonzero(
            "frames_per_segment",
            frames_per_segment,
            "use 1 for one frame of each segment",
        )?;
        let snippet = ClipSpec::new(frames_per_segment, stride)?;
        check_nonzero(
            "clips_per_video",
            clips_per_video,
            "use 1 for one clip of each video",
        )?;
        let Some(frames) = num_segments.checked_mul(frames_per_segment) else {
            return Err(Error::Argument(format!(
                "num_segments={num_segments} times frames_per_segment={frames_per_segment} is more than {} frames; \
                 use fewer",
                u32::MAX
            )));
        };
        Ok(Self {
            num_segments,
            snippet,
            frames,
            mode,
            clips_per_video,
            padding,
        })
    }

    fn middle(&self, starts: u64, segment: u32, clip: u64) -> u64 {
        let views = u64::from(self.clips_per_video) + 1;
        part_start(
            starts,
            u64::from(segment) * views + clip + 1,
            u64::from(self.num_segments) * views,
        )
    }
}

impl ClipSampler for Segments {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.padding
            .num_clips(video, u64::from(self.clips_per_video), || {
                self.snippet.num_starts(video) > 0
            })
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.padding
            .fixed_num_clips(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.frames)
    }

    /// In random mode: takes one random number per segment, in order, below the number of starts in
    /// it (1 if there is none). If no snippet fits into the video, all start at frame 0 and no
    /// random number is taken.
    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        check_length(u64::from(self.frames))?;
        let starts = self.snippet.num_starts(video);
        let mut clip = ClipIndices::default();
        for segment in 0..self.num_segments {
            let start = match self.mode {
                _ if starts == 0 => 0,
                SegmentMode::Random => random_in_part(
                    starts,
                    u64::from(segment),
                    u64::from(self.num_segments),
                    rng,
                ),
                SegmentMode::Middle => self.middle(starts, segment, number),
            };
            let snippet = self.snippet.clip(video, start as u32, self.padding, rng)?; // below num_frames
            clip.indices.extend(snippet.indices);
            clip.mask.extend(snippet.mask);
        }
        Ok(clip)
    }

    fn pads_with_zeros(&self) -> bool {
        self.padding == PaddingPolicy::Blank
    }

    fn min_length_hint(&self) -> String {
        self.padding.min_length_hint(self.snippet.min_length_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::*;

    fn clip(sampler: &Segments, frames: u32, number: u64, drawn: &[u64]) -> Vec<u32> {
        sampler
            .clip(&video(frames), number, &mut ScriptedRng(drawn))
            .unwrap()
            .indices
    }

    #[test]
    fn every_segment_yields_its_own_snippet() {
        let sampler =
            Segments::new(3, (1, 1), SegmentMode::Random, 1, PaddingPolicy::Repeat).unwrap();
        // 10 frames in three parts: 0..3, 3..6, 6..10.
        assert_eq!(clip(&sampler, 10, 0, &[0, 0, 0]), [0, 3, 6]);
        assert_eq!(clip(&sampler, 10, 0, &[2, 2, 3]), [2, 5, 9]);
        let sampler =
            Segments::new(2, (3, 2), SegmentMode::Random, 1, PaddingPolicy::Repeat).unwrap();
        // A snippet spans 5 frames: 6 starts, 0..3 and 3..6; the last snippet ends with the video.
        assert_eq!(clip(&sampler, 10, 0, &[2, 2]), [2, 4, 6, 5, 7, 9]);
    }

    #[test]
    fn the_middle_of_a_segment_is_rounded_down() {
        let middle = |segments, clips, frames, number| {
            let sampler = Segments::new(
                segments,
                (1, 1),
                SegmentMode::Middle,
                clips,
                PaddingPolicy::Repeat,
            )
            .unwrap();
            clip(&sampler, frames, number, &[])
        };
        assert_eq!(middle(3, 1, 10, 0), [1, 5, 8]); // 10/6, 30/6, 50/6
        assert_eq!(middle(4, 1, 8, 0), [1, 3, 5, 7]);
        // Two clips, at thirds of each segment: 10/6, 20/6, then 40/6, 50/6.
        assert_eq!(
            (middle(2, 2, 10, 0), middle(2, 2, 10, 1)),
            (vec![1, 6], vec![3, 8])
        );
    }

    #[test]
    fn short_video_repeats_frames_across_segments() {
        let sampler =
            Segments::new(5, (1, 1), SegmentMode::Random, 1, PaddingPolicy::Repeat).unwrap();
        assert_eq!(clip(&sampler, 2, 0, &[0; 5]), [0, 0, 0, 1, 1]); // floor(2s / 5)
        let sampler =
            Segments::new(5, (1, 1), SegmentMode::Middle, 1, PaddingPolicy::Repeat).unwrap();
        assert_eq!(clip(&sampler, 2, 0, &[]), [0, 0, 1, 1, 1]); // floor((2s + 1) * 2 / 10)
    }

    #[test]
    fn snippets_longer_than_the_video_are_padded() {
        let sampler = |padding| Segments::new(2, (4, 2), SegmentMode::Random, 1, padding).unwrap();
        let sample = sampler(PaddingPolicy::Repeat)
            .clip(&video(4), 0, &mut ScriptedRng(&[]))
            .unwrap();
        assert_eq!(sample.indices, [0, 2, 2, 2, 0, 2, 2, 2]);
        assert_eq!(
            sample.mask,
            [true, true, false, false, true, true, false, false]
        );
        assert_eq!(
            clip(&sampler(PaddingPolicy::Wrap), 4, 0, &[]),
            [0, 2, 0, 2, 0, 2, 0, 2]
        );
        assert_eq!(
            clip(&sampler(PaddingPolicy::Loop), 5, 0, &[])[..4],
            [0, 2, 4, 1]
        );
        assert_eq!(
            [6, 7].map(|n| sampler(PaddingPolicy::Drop).num_clips(&video(n))),
            [0, 1]
        );
    }

    #[test]
    fn too_many_frames_are_rejected_by_name() {
        let refused = |a, b| {
            Segments::new(a, (b, 1), SegmentMode::Random, 1, PaddingPolicy::Repeat)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(1 << 20, 1 << 20).contains("num_segments=1048576"));
        assert!(refused(0, 1).starts_with("num_segments must be at least 1, got 0"));
        assert!(refused(1, 0).starts_with("frames_per_segment must be at least 1, got 0"));
    }
}
