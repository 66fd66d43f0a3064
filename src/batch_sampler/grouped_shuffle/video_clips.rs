//! The clips of each video of a dataset.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

/// The clips of each video of a dataset. Clips are numbered video by video.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VideoClips {
    /// Each video has the same number of clips.
    Equal {
        /// Number of videos.
        videos: u64,
        /// Clips of each of them.
        clips: u64,
    },
    /// The first clip of each video, ascending, then the number of all clips.
    Offsets(Arc<[u64]>),
}

impl VideoClips {
    /// Number of videos.
    pub fn num_videos(&self) -> u64 {
        match self {
            Self::Equal { videos, .. } => *videos,
            Self::Offsets(offsets) => offsets.len().saturating_sub(1) as u64,
        }
    }

    /// Number of clips of all videos.
    pub fn num_clips(&self) -> u64 {
        match self {
            Self::Equal { videos, clips } => videos.saturating_mul(*clips),
            Self::Offsets(offsets) => offsets.last().copied().unwrap_or(0),
        }
    }

    /// Clips of the video that has the most.
    pub(crate) fn max_clips(&self) -> u64 {
        match self {
            Self::Equal { clips, .. } => *clips,
            Self::Offsets(offsets) => {
                let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
                lengths.max().unwrap_or(0)
            }
        }
    }

    /// Number of videos of each length in clips.
    pub fn lengths(&self) -> BTreeMap<u64, u64> {
        match self {
            Self::Equal { videos, clips } => BTreeMap::from([(*clips, *videos)]),
            Self::Offsets(offsets) => {
                let mut lengths = BTreeMap::new();
                for video in offsets.windows(2) {
                    *lengths.entry(video[1] - video[0]).or_default() += 1;
                }
                lengths
            }
        }
    }

    /// The videos of some clips, whose clips are numbered from 0; `None` if the range begins or
    /// ends within a video.
    pub fn part(&self, clips: Range<u64>) -> Option<Self> {
        match self {
            Self::Equal { clips: each, .. } => {
                let fits = clips.start.is_multiple_of(*each) && clips.end.is_multiple_of(*each);
                fits.then(|| Self::Equal {
                    videos: (clips.end - clips.start) / each,
                    clips: *each,
                })
            }
            Self::Offsets(offsets) => {
                let first = offsets.partition_point(|&start| start < clips.start);
                let last = offsets.partition_point(|&start| start < clips.end);
                let fits = offsets.get(first) == Some(&clips.start)
                    && offsets.get(last) == Some(&clips.end);
                fits.then(|| {
                    Self::Offsets(
                        offsets[first..=last]
                            .iter()
                            .map(|o| o - clips.start)
                            .collect(),
                    )
                })
            }
        }
    }

    /// The clips of a video.
    pub fn clips_of(&self, video: u64) -> Range<u64> {
        match self {
            Self::Equal { clips, .. } => video * clips..(video + 1) * clips,
            Self::Offsets(offsets) => offsets[video as usize]..offsets[video as usize + 1],
        }
    }

    /// The video of a clip.
    pub fn video_of(&self, clip: u64) -> u64 {
        match self {
            Self::Equal { clips, .. } => clip / (*clips).max(1),
            Self::Offsets(offsets) => offsets
                .partition_point(|&first| first <= clip)
                .saturating_sub(1) as u64,
        }
    }
}
