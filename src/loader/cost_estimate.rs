//! Estimates how many packets a loader processes per clip, by planning the decode tasks of a part
//! of an epoch without decoding them. It follows the scheduler: earliest deadline first, sharing
//! within the lookahead window, eviction of the clips that are due last.

mod disk_cache;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::catalog::VideoCatalog;
use super::decode_task::{MAX_PACKETS_PER_TASK, PacketRangeSet};
use super::lookahead::MAX_REQUESTS_PER_TASK;
use super::stats::StatsCollector;
use crate::batch_sampler::BatchSampler;
use crate::batch_sampler::grouped_shuffle::VideoClips;
use crate::decode::plan::plan_decode_ranges;
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::rng::RngKey;
use crate::source::check_interrupt;
use crate::units::{DecodeIndex, PresentationIndex};
use crate::video::Video;

pub use disk_cache::DiskCacheCost;

/// Number of videos that are opened; all others are taken to be like these.
const MAX_SAMPLED_VIDEOS: u64 = 32;

/// Limit on the number of planned clips.
const MAX_CLIPS: u64 = 60_000;

/// What an estimate needs to know of a loader.
pub(super) struct CostModel<'a> {
    pub catalog: &'a VideoCatalog,
    pub stats: &'a StatsCollector,
    pub seed: u64,
    /// Number of clips that the clip cache holds.
    pub cached_clips: u64,
    /// Number of clip requests after the open batches that are considered.
    pub lookahead_clips: u64,
}

/// A video whose clips stand for those of others.
struct SampledVideo {
    index: Arc<VideoIndex>,
    video: Video,
    first_clip: u64,
    num_clips: u64,
}

/// Requests of an epoch, without repeats, which cost nothing but their transforms.
struct EpochPart {
    requests: Vec<Request>,
    /// Those whose cost is counted: the others fill the clip cache, or are in the lookahead window
    /// of these.
    counted: Range<u64>,
    lookahead: u64,
}

/// A clip and its occurrence.
type Request = (u64, u32);

/// The cost of a task: of its requests, with the packets that it reads.
type TaskCost<'a> = dyn FnMut(&[Request], &PacketRangeSet) -> Result<f64> + 'a;

/// The packets that clips need.
struct ClipModel<'a> {
    model: &'a CostModel<'a>,
    video_clips: VideoClips,
    videos: Vec<SampledVideo>,
    /// The epoch of the requests.
    epoch: u64,
}

impl CostModel<'_> {
    /// Mean number of packets that are processed for a clip: of a long epoch, in its middle, when
    /// the clip cache is in use.
    ///
    /// # Errors
    /// The error of the last video if none of the sampled ones can be read, and that of
    /// an interrupt.
    pub(super) fn packets_per_clip(&self, order: &BatchSampler) -> Result<f64> {
        let clips = self.sample_videos()?;
        let part = self.part_of_epoch(order, 0);
        let (requests, counted) = (&part.requests, part.counted.clone());
        let packets = &mut |_: &[Request], ranges: &PacketRangeSet| Ok(ranges.with(&[]) as f64);
        self.simulate(&clips, requests, part.lookahead, counted, packets)
    }

    /// The requests in the middle of an epoch.
    fn part_of_epoch(&self, order: &BatchSampler, epoch: u64) -> EpochPart {
        let config = order.config();
        // Repeats are no requests of their own here.
        let window = order.lookahead_clips() / u64::from(config.repeats.max(1));
        let lookahead = self.lookahead_clips.max(window).min(MAX_CLIPS);
        // Until the clip cache is as full as in the rest of the epoch, more is decoded.
        let warm_up = (2 * self.cached_clips)
            .max(lookahead.min(4 * self.cached_clips))
            .min(MAX_CLIPS / 3);
        let measured = warm_up.clamp(2000, MAX_CLIPS / 3);
        let each = u64::from(config.batch_size.max(1));
        let (batches, part) = (order.len_batches(), (warm_up + measured).div_ceil(each));
        let is_part = part < batches;
        let first = if is_part { (batches - part) / 2 } else { 0 };
        let until = (first + part + lookahead.div_ceil(each)).min(batches);
        let slots = (first..until).flat_map(|batch| order.batch(epoch, batch));
        let requests: Vec<Request> = slots
            .filter(|sampled| !sampled.padding && sampled.repeat == 0)
            .map(|sampled| (sampled.clip, sampled.occurrence))
            .collect();
        let counted = if is_part {
            warm_up..warm_up + measured
        } else {
            0..requests.len() as u64
        };
        EpochPart {
            requests,
            counted,
            lookahead,
        }
    }

    /// Opens some videos at even distances.
    fn sample_videos(&self) -> Result<ClipModel<'_>> {
        let video_clips = self.catalog.clips.video_clips(None);
        let count = video_clips.num_videos().min(MAX_SAMPLED_VIDEOS);
        let mut videos = Vec::new();
        let mut failed = None;
        for n in 0..count {
            let video =
                (u128::from(video_clips.num_videos()) * u128::from(n) / u128::from(count)) as u64;
            let clips = video_clips.clips_of(video);
            if clips.is_empty() {
                continue;
            }
            match self
                .catalog
                .open(self.catalog.clips.locate(clips.start).0, self.stats)
            {
                Ok(opened) => videos.push(SampledVideo {
                    index: opened.index().clone(),
                    video: opened,
                    first_clip: clips.start,
                    num_clips: clips.end - clips.start,
                }),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if videos.is_empty() => Err(error),
            _ => Ok(ClipModel {
                model: self,
                video_clips,
                videos,
                epoch: 0,
            }),
        }
    }

    /// Cost per clip of the requests in `counted`. `task_cost`: that of the requests of a task,
    /// with its packets.
    fn simulate(
        &self,
        clips: &ClipModel<'_>,
        requests: &[Request],
        lookahead: u64,
        counted: Range<u64>,
        task_cost: &mut TaskCost<'_>,
    ) -> Result<f64> {
        let file_of = |clip: u64| {
            self.catalog
                .clips
                .file_of(self.catalog.clips.locate(clip).0)
        };
        let file_of: Vec<u32> = requests.iter().map(|&(clip, _)| file_of(clip)).collect();
        let mut by_video: HashMap<u32, VecDeque<u64>> = HashMap::new();
        let (mut end, mut sum) = (0_usize, 0.0);
        let (mut held, mut done) = (BTreeSet::new(), vec![false; requests.len()]);
        // The cost of a task is divided among its clips, of which some are counted.
        let mut cost = vec![0.0; requests.len()];
        for at in 0..counted.end.min(requests.len() as u64) {
            while end < requests.len() && end as u64 <= at + lookahead {
                by_video
                    .entry(file_of[end])
                    .or_default()
                    .push_back(end as u64);
                end += 1;
            }
            let video = file_of[at as usize];
            if !held.remove(&at) {
                check_interrupt()?;
                let pending = by_video
                    .get(&video)
                    .into_iter()
                    .flatten()
                    .copied()
                    .filter(|&n| !done[n as usize]);
                let pending = pending.take(MAX_REQUESTS_PER_TASK);
                let mut chosen = Vec::new();
                let mut ranges = PacketRangeSet::default();
                let mut left: Vec<(u64, Vec<_>)> = pending
                    .map(|n| (n, clips.spans(requests[n as usize])))
                    .collect();
                loop {
                    let before = chosen.len();
                    left.retain(|(n, spans)| {
                        let near =
                            ranges.touches(spans) && ranges.with(spans) <= MAX_PACKETS_PER_TASK;
                        if !chosen.is_empty() && !near {
                            return true;
                        }
                        if *n != at && !self.make_room(&mut held, &mut done, *n) {
                            return true;
                        }
                        if *n != at {
                            held.insert(*n);
                        }
                        ranges.add(spans);
                        done[*n as usize] = true;
                        chosen.push(*n);
                        false
                    });
                    if chosen.len() == before {
                        break;
                    }
                }
                let of_task: Vec<_> = chosen.iter().map(|&n| requests[n as usize]).collect();
                let each = task_cost(&of_task, &ranges)? / chosen.len().max(1) as f64;
                chosen.iter().for_each(|&n| cost[n as usize] += each);
            }
            done[at as usize] = true;
            // Requests are processed in order, so this is the first one of its video.
            by_video.get_mut(&video).map(VecDeque::pop_front);
            if counted.contains(&at) {
                sum += cost[at as usize];
            }
        }
        let count = counted
            .end
            .min(requests.len() as u64)
            .saturating_sub(counted.start);
        Ok(sum / count.max(1) as f64)
    }

    /// Makes room in the clip cache for the clip that is due at `due`; returns whether there is
    /// room.
    fn make_room(&self, held: &mut BTreeSet<u64>, done: &mut [bool], due: u64) -> bool {
        if (held.len() as u64) < self.cached_clips {
            return true;
        }
        let Some(&last) = held.last().filter(|&&last| last > due) else {
            return false;
        };
        held.remove(&last);
        done[last as usize] = false;
        true
    }
}

impl ClipModel<'_> {
    /// A sampled video that has about as many clips as a video: one of all that come equally close.
    /// Returns its number.
    fn like(&self, video: u64) -> Option<usize> {
        let clips = self.video_clips.clips_of(video);
        let num_clips = clips.end - clips.start;
        let closest = self
            .videos
            .iter()
            .map(|sampled| sampled.num_clips.abs_diff(num_clips))
            .min()?;
        let is_equal = |n: &usize| self.videos[*n].num_clips.abs_diff(num_clips) == closest;
        let equal = || (0..self.videos.len()).filter(is_equal);
        equal().nth(video as usize % equal().count().max(1))
    }

    /// The packets of a clip, as those of a sampled video's clip.
    fn spans(&self, request: Request) -> Vec<(DecodeIndex, DecodeIndex)> {
        let Some((sampled, frames)) = self.frames(request, 0) else {
            return Vec::new();
        };
        plan_decode_ranges(&self.videos[sampled].index, &frames)
            .iter()
            .map(|r| (r.start, r.end))
            .collect()
    }

    /// The frames of a clip some epochs later, as those of a sampled video's clip, and the number
    /// of that video. `None` if they cannot be sampled.
    fn frames(
        &self,
        (clip, occurrence): Request,
        later: u64,
    ) -> Option<(usize, Vec<PresentationIndex>)> {
        let video = self.video_clips.video_of(clip);
        let number = self.like(video)?;
        let sampled = &self.videos[number];
        let like = sampled.first_clip
            + (clip - self.video_clips.clips_of(video).start).min(sampled.num_clips - 1);
        // Other random numbers for each video for which a sampled one stands.
        let epoch = (video / self.videos.len() as u64) << 32 | (self.epoch + later);
        let key = RngKey {
            seed: self.model.seed,
            epoch,
            clip: like,
            occurrence: occurrence.into(),
        };
        let sample = self.model.catalog.sample(&sampled.index, key).ok()?;
        Some((
            number,
            sample.indices.into_iter().map(PresentationIndex).collect(),
        ))
    }
}
