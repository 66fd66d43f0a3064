//! The clips of each video of a dataset, and the chunks into which a grouped shuffle cuts them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The clips of each video of a dataset. Clips are numbered video by video.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// The videos of some clips, whose clips are numbered from 0; `None` if the range begins or ends within a video.
    pub fn part(&self, clips: Range<u64>) -> Option<Self> {
        match self {
            Self::Equal { clips: each, .. } => {
                let fits = clips.start.is_multiple_of(*each) && clips.end.is_multiple_of(*each);
                fits.then(|| Self::Equal { videos: (clips.end - clips.start) / each, clips: *each })
            }
            Self::Offsets(offsets) => {
                let first = offsets.partition_point(|&start| start < clips.start);
                let last = offsets.partition_point(|&start| start < clips.end);
                let fits = offsets.get(first) == Some(&clips.start) && offsets.get(last) == Some(&clips.end);
                fits.then(|| Self::Offsets(offsets[first..=last].iter().map(|o| o - clips.start).collect()))
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
            Self::Offsets(offsets) => {
                offsets.partition_point(|&first| first <= clip).saturating_sub(1) as u64
            }
        }
    }
}

/// How videos are cut into chunks.
#[derive(Clone, Debug)]
enum Cuts {
    /// Each video into this many.
    Equal(u64),
    /// First chunk of each video, then the number of all chunks.
    Offsets(Arc<[u64]>),
}

/// The chunks of a dataset.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    clips: VideoClips,
    cuts: Cuts,
    /// Clips of every chunk, if all have the same number.
    pub equal_len: Option<u64>,
    pub num_chunks: u64,
    /// Clips of the largest chunk.
    pub max_len: u64,
}

impl Chunks {
    pub fn new(clips: VideoClips, max_chunk: u32) -> Self {
        let max_chunk = u64::from(max_chunk.max(1));
        let largest = |clips: u64| clips.div_ceil(clips.div_ceil(max_chunk).max(1));
        match &clips {
            &VideoClips::Equal { videos, clips: each } => {
                let parts = each.div_ceil(max_chunk);
                let equal_len = (parts > 0 && each % parts == 0).then(|| each / parts);
                let (cuts, num_chunks) = (Cuts::Equal(parts), videos.saturating_mul(parts));
                Self { clips, cuts, equal_len, num_chunks, max_len: largest(each) }
            }
            VideoClips::Offsets(offsets) => {
                let lengths = || offsets.windows(2).map(|pair| pair[1] - pair[0]);
                let max_len = lengths().map(largest).max().unwrap_or(0);
                let num_chunks = lengths().map(|length| length.div_ceil(max_chunk)).sum();
                let cuts = if lengths().all(|length| (1..=max_chunk).contains(&length)) {
                    Cuts::Equal(1)
                } else {
                    let firsts = lengths().scan(0, |next, length| {
                        let first = *next;
                        *next += length.div_ceil(max_chunk);
                        Some(first)
                    });
                    Cuts::Offsets(firsts.chain([num_chunks]).collect())
                };
                Self { clips, cuts, equal_len: None, num_chunks, max_len }
            }
        }
    }

    /// Sum of the squares of the chunks' lengths.
    pub fn sum_of_squares(&self) -> u128 {
        let of_video = |clips: u64, parts: u64| {
            let (length, longer) = (u128::from(clips / parts.max(1)), u128::from(clips % parts.max(1)));
            let shorter = u128::from(parts) - longer.min(u128::from(parts));
            longer * (length + 1) * (length + 1) + shorter * length * length
        };
        match (&self.clips, &self.cuts) {
            (&VideoClips::Equal { videos, clips }, &Cuts::Equal(parts)) => {
                u128::from(videos) * of_video(clips, parts)
            }
            (clips, cuts) => (0..clips.num_videos())
                .map(|video| {
                    let own = clips.clips_of(video);
                    let parts = match cuts {
                        Cuts::Equal(parts) => *parts,
                        Cuts::Offsets(firsts) => firsts[video as usize + 1] - firsts[video as usize],
                    };
                    of_video(own.end - own.start, parts)
                })
                .sum(),
        }
    }

    /// The clips of a chunk.
    pub fn get(&self, chunk: u64) -> Range<u64> {
        let (video, parts, part) = match &self.cuts {
            Cuts::Equal(parts) => (chunk / parts, *parts, chunk % parts),
            Cuts::Offsets(firsts) => {
                let video = firsts.partition_point(|&first| first <= chunk) - 1;
                (video as u64, firsts[video + 1] - firsts[video], chunk - firsts[video])
            }
        };
        let clips = self.clips.clips_of(video);
        let len = u128::from(clips.end - clips.start);
        let bound = |part: u64| clips.start + (len * u128::from(part) / u128::from(parts)) as u64;
        bound(part)..bound(part + 1)
    }
}
