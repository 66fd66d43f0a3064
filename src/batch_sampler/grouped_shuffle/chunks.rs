//! The chunks into which a grouped shuffle cuts the clips of videos.

use std::ops::Range;
use std::sync::Arc;

use super::video_clips::VideoClips;
use super::weighted::{Copy, WeightedEpoch};

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
    max_chunk: u64,
}

impl Chunks {
    pub(super) fn new(clips: VideoClips, max_chunk: u32) -> Self {
        let max_chunk = u64::from(max_chunk.max(1));
        let largest = |clips: u64| clips.div_ceil(clips.div_ceil(max_chunk).max(1));
        match &clips {
            &VideoClips::Equal {
                videos,
                clips: each,
            } => {
                let parts = each.div_ceil(max_chunk);
                let equal_len = (parts > 0 && each % parts == 0).then(|| each / parts);
                let (cuts, num_chunks) = (Cuts::Equal(parts), videos.saturating_mul(parts));
                Self {
                    clips,
                    cuts,
                    equal_len,
                    num_chunks,
                    max_len: largest(each),
                    max_chunk,
                }
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
                Self {
                    clips,
                    cuts,
                    equal_len: None,
                    num_chunks,
                    max_len,
                    max_chunk,
                }
            }
        }
    }

    /// Sum of the squares of the chunks' lengths.
    pub(super) fn sum_of_squares(&self) -> u128 {
        let of_video = |clips: u64, parts: u64| {
            let (length, longer) = (
                u128::from(clips / parts.max(1)),
                u128::from(clips % parts.max(1)),
            );
            let shorter = u128::from(parts) - longer.min(u128::from(parts));
            longer * (length + 1) * (length + 1) + shorter * length * length
        };
        match (&self.clips, &self.cuts) {
            (&VideoClips::Equal { videos, clips }, &Cuts::Equal(parts)) => {
                u128::from(videos) * of_video(clips, parts)
            }
            (clips, _) => (0..clips.num_videos())
                .map(|video| {
                    let own = clips.clips_of(video);
                    of_video(own.end - own.start, self.parts_of(video))
                })
                .sum(),
        }
    }

    /// The expected number of chunks of an epoch, and of the sum of the squares of their lengths,
    /// from the expected number of delivered clips of each video.
    pub(super) fn expected(&self, clips_of_videos: impl Iterator<Item = f64>) -> (u64, u128) {
        let (mut num_chunks, mut squares) = (0.0, 0.0);
        for (video, expected) in clips_of_videos.enumerate() {
            let own = self.clips.clips_of(video as u64);
            let clips = (own.end - own.start) as f64;
            let parts = self.parts_of(video as u64) as f64;
            if clips > 0.0 {
                num_chunks += expected / clips * parts;
                squares += expected * clips / parts;
            }
        }
        (num_chunks as u64, squares as u128)
    }

    fn parts_of(&self, video: u64) -> u64 {
        match &self.cuts {
            Cuts::Equal(parts) => *parts,
            Cuts::Offsets(firsts) => firsts[video as usize + 1] - firsts[video as usize],
        }
    }

    /// The chunks of an epoch that consist of copies of videos: of so many that they have at least
    /// `num_clips` clips.
    pub(super) fn draw(&self, epoch: WeightedEpoch, num_clips: u64) -> DrawnChunks {
        let max_chunk = self.max_chunk;
        let parts_of = |copy: &Copy| (copy.clips.end - copy.clips.start).div_ceil(max_chunk);
        if let Some(len) = self.equal_len {
            let parts = parts_of(&epoch.copy(0));
            let copies = num_clips.div_ceil(len * parts);
            return DrawnChunks {
                epoch,
                cuts: Cuts::Equal(parts),
                num_chunks: copies * parts,
            };
        }
        let (mut firsts, mut sum) = (vec![0], 0);
        for copy in (0..).map(|number| epoch.copy(number)) {
            sum += copy.clips.end - copy.clips.start;
            firsts.push(firsts[firsts.len() - 1] + parts_of(&copy));
            if sum >= num_clips {
                break;
            }
        }
        let num_chunks = firsts[firsts.len() - 1];
        DrawnChunks {
            epoch,
            cuts: Cuts::Offsets(firsts.into()),
            num_chunks,
        }
    }

    /// The clips of a chunk.
    pub(super) fn get(&self, chunk: u64) -> Range<u64> {
        let (video, parts, part) = self.cuts.of(chunk);
        part_of(self.clips.clips_of(video), parts, part)
    }
}

impl Cuts {
    /// The video of a chunk, the number of its parts, and which of them the chunk is.
    fn of(&self, chunk: u64) -> (u64, u64, u64) {
        match self {
            Self::Equal(parts) => (chunk / parts, *parts, chunk % parts),
            Self::Offsets(firsts) => {
                let video = firsts.partition_point(|&first| first <= chunk) - 1;
                (
                    video as u64,
                    firsts[video + 1] - firsts[video],
                    chunk - firsts[video],
                )
            }
        }
    }
}

/// One of `parts` runs of these clips that are equally long to one clip.
fn part_of(clips: Range<u64>, parts: u64, part: u64) -> Range<u64> {
    let len = u128::from(clips.end - clips.start);
    let bound = |part: u64| clips.start + (len * u128::from(part) / u128::from(parts)) as u64;
    bound(part)..bound(part + 1)
}

/// The chunks of an epoch whose videos are drawn by weight.
#[derive(Clone, Debug)]
pub(super) struct DrawnChunks {
    epoch: WeightedEpoch,
    /// How the copies of videos are cut.
    cuts: Cuts,
    pub num_chunks: u64,
}

impl DrawnChunks {
    /// The clips of a chunk and their occurrence.
    pub(super) fn get(&self, chunk: u64) -> Copy {
        let (copy, parts, part) = self.cuts.of(chunk);
        let Copy { clips, occurrence } = self.epoch.copy(copy);
        Copy {
            clips: part_of(clips, parts, part),
            occurrence,
        }
    }
}
