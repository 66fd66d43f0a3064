//! Plans a decode task: selects the clip requests of one video that can share decoding, and their
//! decode ranges. A clip that is not due joins a task only if the memory budget has room for it.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::super::LoaderConfig;
use super::super::catalog::VideoCatalog;
use super::super::catalog::audio::spanned;
use super::super::lookahead::SequenceNumber;
use super::super::pace::WorkerKind;
use super::super::scheduler::{ClipRequest, MemoryShortage, Scheduler, VideoRequests};
use super::super::stats::StatsCollector;
use super::super::stored_clips::{StoredClips, Ticket};
use super::{
    Clip, ClipDestination, ClipMetadata, DecodeTask, Error, MemoryReservation, Result, SlotOutput,
    ViewTransforms,
};
use crate::batch_sampler::SampledClip;
use crate::clip_sampler::{ClipIndices, VideoTiming};
use crate::clip_store::EVERY_EPOCH;
use crate::decode::plan::{DecodeRange, plan_decode_ranges};
use crate::index::VideoIndex;
use crate::rng::RngKey;
use crate::source::Identity;
use crate::sync::atomic::Ordering;
use crate::transforms::{ClipShape, TransformPipeline, maps_to_output};
use crate::units::{DecodeIndex, PresentationIndex};
use crate::video::{LazyClipOutput, RangeDecoder, Video};

/// Number of packets after which a task takes no further group of pictures: overlapping clips could
/// otherwise chain a whole film together.
pub(in super::super) const MAX_PACKETS_PER_TASK: u64 = 4096;

/// The same for clips in dataset order, whose chains are long: several workers share one video.
pub(in super::super) const MAX_PACKETS_PER_TASK_IN_ORDER: u64 = 512;

/// Parameters that are the same for all tasks.
pub(in super::super) struct TaskParams<'a> {
    pub catalog: &'a VideoCatalog,
    pub seed: u64,
    pub config: &'a LoaderConfig,
    /// Number of packets after which a task takes no further group of pictures.
    pub max_packets: u64,
    /// The kind of worker that runs the task.
    pub kind: WorkerKind,
}

/// The plan for a group of clip requests.
pub(in super::super) struct TaskPlan {
    pub task: Option<Box<DecodeTask>>,
    /// Requests that are not worth making now.
    pub returned: Vec<ClipRequest>,
    /// Requests that cannot be planned. They are made alone, which reports the error.
    pub unshared: Vec<ClipRequest>,
    /// Whether the file cannot be opened.
    pub failed: bool,
    /// Whether a suspended task holds a decoder whose memory the clips need; all requests are then
    /// returned.
    pub needs_memory: bool,
}

/// The frames of a clip request.
struct ResolvedRequest {
    key: RngKey,
    view: usize,
    sample: ClipIndices,
    frames: Vec<PresentationIndex>,
}

/// Plans one task for a video. The task makes the first request and all due requests that overlap
/// its decode ranges; other overlapping requests as far as the budget allows.
pub(in super::super) fn plan(
    group: VideoRequests,
    task_params: &TaskParams<'_>,
    views: &mut [ViewTransforms],
    scheduler: &Scheduler<DecodeTask>,
    stats: &StatsCollector,
) -> Result<TaskPlan> {
    let VideoRequests {
        pass,
        epoch,
        video,
        requests,
        fixed_kind,
        ..
    } = group;
    let mut task_plan = TaskPlan {
        task: None,
        returned: Vec::new(),
        unshared: Vec::new(),
        failed: false,
        needs_memory: false,
    };
    let open = || {
        let opened = task_params.catalog.open(video, stats)?;
        task_params.catalog.check_audio(video, &opened)?;
        Ok(opened)
    };
    let opened = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(opened)) => opened,
        Ok(Err(Error::Interrupted)) => return Err(Error::Interrupted),
        // Making each clip alone reports the error.
        Ok(Err(_)) | Err(_) => {
            let (due, later) = requests.into_iter().partition(|t| t.is_due);
            (task_plan.unshared, task_plan.returned, task_plan.failed) = (due, later, true);
            return Ok(task_plan);
        }
    };
    let index = opened.index().clone();
    let mut builder = TaskBuilder {
        task_params,
        index: &index,
        scheduler,
        packet_ranges: PacketRangeSet::default(),
        starts: BTreeSet::new(),
        chosen: Vec::new(),
        full: false,
        needs_memory: false,
    };
    let mut not_overlapping = Vec::new();
    for mut request in requests {
        if builder.needs_memory || builder.full && !request.is_due {
            task_plan.returned.push(request);
            continue;
        }
        let mut known = None;
        if request.spans.is_empty() {
            known = resolve(task_params, &index, epoch, &mut request).map(|(resolved, _)| resolved);
            if known.is_none() {
                let list = if request.is_due {
                    &mut task_plan.unshared
                } else {
                    &mut task_plan.returned
                };
                list.push(request);
                continue;
            }
        }
        not_overlapping.extend(builder.take(request, known, epoch, views));
    }
    // The added clips extend the decode ranges, so that further clips may overlap them.
    loop {
        let before = builder.chosen.len();
        not_overlapping = not_overlapping
            .into_iter()
            .filter_map(|request| builder.take(request, None, epoch, views))
            .collect();
        if builder.chosen.len() == before {
            break;
        }
    }
    task_plan.returned.extend(not_overlapping);
    let TaskBuilder {
        chosen,
        mut packet_ranges,
        needs_memory,
        ..
    } = builder;
    if needs_memory {
        task_plan
            .returned
            .extend(chosen.into_iter().map(|(request, ..)| request));
        task_plan.needs_memory = true;
        return Ok(task_plan);
    }
    if chosen.is_empty() {
        return Ok(task_plan);
    }
    let ahead = scheduler.stored.as_ref().map_or_else(Vec::new, |stored| {
        let identity = opened.identity();
        let context = (&index, task_params, scheduler, stats.has_delivered());
        clips_of_later_epochs(
            stored,
            &identity,
            (video, epoch),
            &chosen,
            &mut packet_ranges,
            context,
            views,
        )
    });
    let mut clips = Vec::with_capacity(chosen.len() + ahead.len());
    let mut wanted: HashMap<DecodeIndex, Vec<(usize, usize)>> = HashMap::new();
    let mut all = Vec::new();
    for (number, (request, resolved, reserved)) in chosen.into_iter().enumerate() {
        for (t, frame) in resolved.frames.iter().enumerate() {
            wanted
                .entry(index.frames[frame.as_usize()].packet)
                .or_default()
                .push((number, t));
        }
        all.extend_from_slice(&resolved.frames);
        clips.push(Some(resolved.into_clip(
            request,
            task_params,
            views,
            &opened,
            scheduler,
            reserved,
        )));
    }
    for (request, resolved, reserved, ticket) in ahead {
        let number = clips.len();
        for (t, frame) in resolved.frames.iter().enumerate() {
            wanted
                .entry(index.frames[frame.as_usize()].packet)
                .or_default()
                .push((number, t));
        }
        all.extend_from_slice(&resolved.frames);
        let clip = resolved.into_clip(
            request,
            task_params,
            views,
            &opened,
            scheduler,
            Some(reserved),
        );
        clips.push(Some(Clip {
            ticket: Some(ticket),
            ..clip
        }));
    }
    let deadline = |range: &DecodeRange| {
        let targets = range.wanted.iter().flat_map(|at| &wanted[at]).map(|w| w.0);
        targets
            .filter_map(|c| clips[c].as_ref())
            .map(|c| c.seq)
            .min()
    };
    let mut ranges: Vec<DecodeRange> = plan_decode_ranges(&index, &all);
    ranges.sort_by_key(|range| (deadline(range), range.start));
    task_plan.task = Some(Box::new(DecodeTask {
        pass,
        epoch,
        video,
        kind: task_params.kind,
        fixed_kind,
        reader: task_params.catalog.files.reader(&opened),
        bytes_counted: 0,
        index,
        decoder: RangeDecoder::default(),
        range_packets: (0, 0),
        ranges: ranges.into(),
        clips,
        wanted,
        suspended: None,
        finishes_range: false,
    }));
    Ok(task_plan)
}

/// A clip of a later epoch, which the task makes as well.
type ClipAhead = (ClipRequest, ResolvedRequest, MemoryReservation, Ticket);

/// Selects the clips of later epochs that are made together with these: as many as the memory
/// budget, the store and the length of a task allow.
fn clips_of_later_epochs(
    stored: &StoredClips,
    identity: &Identity,
    (video, epoch): (u32, u64),
    chosen: &[(ClipRequest, ResolvedRequest, Option<MemoryReservation>)],
    packet_ranges: &mut PacketRangeSet,
    (index, task_params, scheduler, has_delivered): (
        &Arc<VideoIndex>,
        &TaskParams<'_>,
        &Scheduler<DecodeTask>,
        bool,
    ),
    views: &mut [ViewTransforms],
) -> Vec<ClipAhead> {
    let mut ahead: Vec<ClipAhead> = Vec::new();
    let keys = &task_params.catalog.content_keys;
    let last = stored.last_epoch(video, epoch);
    for epoch in epoch + 1..=last.max(epoch + 1) {
        for (request, ..) in chosen
            .iter()
            .filter(|(request, ..)| !request.sampled.padding)
        {
            let mut request = ClipRequest {
                seq: SequenceNumber::MAX,
                sampled: request.sampled,
                slot: None,
                is_due: false,
                spans: Vec::new(),
            };
            let Some((resolved, is_fixed)) = resolve(task_params, index, epoch, &mut request)
            else {
                continue;
            };
            let Some(key) = keys.key(resolved.view, identity, &resolved.sample, resolved.key)
            else {
                return ahead;
            };
            let due = if is_fixed && !views[resolved.view].pipeline().is_random() {
                EVERY_EPOCH
            } else {
                epoch
            };
            // The consumer waits for its first batch, so these videos are decoded again in the next
            // epoch.
            if due != EVERY_EPOCH && (epoch > last || !has_delivered) || stored.store.contains(key)
            {
                continue;
            }
            if let Some((.., ticket)) = ahead.iter_mut().find(|(.., ticket)| ticket.key == key) {
                ticket.due = ticket.due.max(due);
                continue;
            }
            if !stored.store.has_room(due)
                || packet_ranges.with(&request.spans) > task_params.max_packets
            {
                continue;
            }
            let view = &mut views[resolved.view];
            let bytes = clip_bytes(index, view, &resolved, (task_params, scheduler));
            let Some(reserved) = bytes.and_then(|bytes| scheduler.reserve_ahead(bytes)) else {
                return ahead;
            };
            packet_ranges.add(&request.spans);
            ahead.push((request, resolved, reserved, Ticket { key, due }));
        }
    }
    ahead
}

/// Collects the clips of one task.
struct TaskBuilder<'a> {
    task_params: &'a TaskParams<'a>,
    index: &'a Arc<VideoIndex>,
    scheduler: &'a Scheduler<DecodeTask>,
    packet_ranges: PacketRangeSet,
    /// The random access points at which chosen clips begin.
    starts: BTreeSet<DecodeIndex>,
    chosen: Vec<(ClipRequest, ResolvedRequest, Option<MemoryReservation>)>,
    /// The budget is exhausted. Later requests get no memory either, because all cached clips are
    /// due before them.
    full: bool,
    /// The budget is exhausted because suspended tasks hold decoders.
    needs_memory: bool,
}

impl TaskBuilder<'_> {
    /// Adds a clip to the task if it overlaps the decode ranges and its memory can be reserved;
    /// otherwise returns it. The spans of the request are known; `known`: its frames, if this plan
    /// has sampled them.
    fn take(
        &mut self,
        mut request: ClipRequest,
        known: Option<ResolvedRequest>,
        epoch: u64,
        views: &mut [ViewTransforms],
    ) -> Option<ClipRequest> {
        let start = request.spans.first().map_or(DecodeIndex(0), |span| span.0);
        // A clip of a group of pictures that the task decodes anyway joins it in any case.
        let near = self.packet_ranges.touches(&request.spans)
            && (self.starts.contains(&start)
                || self.packet_ranges.with(&request.spans) <= self.task_params.max_packets);
        if !near && !self.chosen.is_empty() || self.needs_memory || self.full && !request.is_due {
            return Some(request);
        }
        let sample = || Some(resolve(self.task_params, self.index, epoch, &mut request)?.0);
        let Some(resolved) = known.or_else(sample) else {
            return Some(request);
        };
        let mut reserved = None;
        if !request.is_due {
            let view = &mut views[resolved.view];
            let of_loader = (self.task_params, self.scheduler);
            let Some(bytes) = clip_bytes(self.index, view, &resolved, of_loader) else {
                return Some(request);
            };
            match self.scheduler.reserve(bytes, request.seq) {
                Ok(memory) => reserved = Some(memory),
                Err(shortage) => {
                    self.full = true;
                    self.needs_memory = shortage == MemoryShortage::SuspendedDecoder;
                    return Some(request);
                }
            }
        }
        self.packet_ranges.add(&request.spans);
        self.starts.insert(start);
        self.chosen.push((request, resolved, reserved));
        None
    }
}

/// Builds the metadata of a clip that can be made.
pub(in super::super) fn metadata(
    opened: &Video,
    catalog: &VideoCatalog,
    sampled: SampledClip,
    clip_id: u64,
    sample: ClipIndices,
    (view, pipeline, key): (usize, &TransformPipeline, RngKey),
) -> ClipMetadata {
    let (video, view_id) = catalog.clips.locate(clip_id);
    let index = opened.index();
    let content_key = catalog
        .content_keys
        .key(view, &opened.identity(), &sample, key);
    let (params, display) = (&index.info.params, index.info.display());
    let part = catalog.part(video, index);
    // If the transforms do not fit the video, the clip is an error, which is reported when it is
    // made.
    let geometry = maps_to_output(
        pipeline,
        (params.width, params.height),
        display,
        (key, sample.indices.len()),
    );
    let seconds = |&i: &u32| index.pts_seconds(PresentationIndex(i));
    ClipMetadata {
        clip_id,
        requested_id: sampled.clip,
        occurrence: key.occurrence,
        video_id: video,
        view_id,
        label: catalog.label(video),
        pts_seconds: sample.indices.iter().map(seconds).collect(),
        indices: sample.indices.into_iter().map(i64::from).collect(),
        mask: sample.mask,
        size: index.info.shown_size(),
        first_frame: part.display_index(0).0,
        num_frames: part.num_frames(),
        average_fps: index.average_fps(),
        duration_seconds: part.duration_seconds(),
        geometry: geometry.unwrap_or_default(),
        padding: sampled.padding,
        content_key,
        has_frames: true,
        audio: None,
    }
}

/// Samples the frames of a clip request and sets its spans. `None` if the frames cannot be sampled:
/// then the spans are empty, so that the next plan samples again and reports the error. Also
/// returns whether the frames are the same in every epoch.
fn resolve(
    task_params: &TaskParams<'_>,
    index: &Arc<VideoIndex>,
    epoch: u64,
    request: &mut ClipRequest,
) -> Option<(ResolvedRequest, bool)> {
    let clip = request.sampled.clip;
    let sampling_key = request.sampled.sampling_key(task_params.seed, epoch, clip);
    let key = request.sampled.transform_key(task_params.seed, epoch, clip);
    request.spans.clear();
    // A panic also affects only this clip: the clips planned with it must not be lost.
    let sampled = catch_unwind(AssertUnwindSafe(|| {
        task_params.catalog.sample_watched(index, sampling_key)
    }));
    let Ok(Ok((sample, is_fixed))) = sampled else {
        return None;
    };
    let frames: Vec<PresentationIndex> = sample
        .indices
        .iter()
        .map(|&i| PresentationIndex(i))
        .collect();
    request.spans = plan_decode_ranges(index, &frames)
        .iter()
        .map(|r| (r.start, r.end))
        .collect();
    Some((
        ResolvedRequest {
            key,
            view: task_params
                .config
                .view_of(task_params.catalog.clips.locate(clip).1),
            sample,
            frames,
        },
        is_fixed,
    ))
}

impl ResolvedRequest {
    fn into_clip(
        self,
        request: ClipRequest,
        task_params: &TaskParams<'_>,
        views: &[ViewTransforms],
        opened: &Video,
        scheduler: &Scheduler<DecodeTask>,
        reserved: Option<MemoryReservation>,
    ) -> Clip {
        let ClipRequest {
            seq,
            sampled,
            slot,
            is_due,
            ..
        } = request;
        let view = &views[self.view];
        let destination = match slot.zip(view.shape) {
            Some((slot, shape)) => ClipDestination::BatchSlot(SlotOutput { slot, shape }),
            None => ClipDestination::Cache(
                LazyClipOutput::from_pool(scheduler.cache_pool.clone()),
                reserved,
            ),
        };
        let index = opened.index();
        let mut packets: Vec<_> = self
            .frames
            .iter()
            .map(|f| index.frames[f.as_usize()].packet)
            .collect();
        packets.sort_unstable();
        packets.dedup();
        let frames_remaining = self.frames.len();
        let transforms = (self.view, view.pipeline(), self.key);
        let metadata = metadata(
            opened,
            task_params.catalog,
            sampled,
            sampled.clip,
            self.sample,
            transforms,
        );
        Clip {
            seq,
            sampled,
            is_due,
            key: self.key,
            view: self.view,
            metadata,
            destination,
            ticket: None,
            shape: None,
            frames_remaining,
            packets,
        }
    }
}

/// The number of bytes that a cached clip takes, with its audio; `None` if it is unknown. Blocks are
/// of the exact size in use if all clips have the same shape.
fn clip_bytes(
    index: &VideoIndex,
    view: &mut ViewTransforms,
    resolved: &ResolvedRequest,
    (task_params, scheduler): (&TaskParams<'_>, &Scheduler<DecodeTask>),
) -> Option<usize> {
    let audio = task_params.config.options.audio.as_ref();
    let audio = audio.map_or(0, |audio| {
        let times = resolved.frames.iter().map(|&f| index.pts_seconds(f));
        let (frames, rate) = (resolved.frames.len(), index.average_fps());
        audio.bytes(spanned(times, frames, rate, audio.fps_of_view(resolved.view)).1)
    });
    let pixels = pixel_bytes(index, view, resolved, scheduler)?;
    Some(pixels.saturating_add(audio as usize))
}

/// The number of bytes of the frames of a cached clip.
fn pixel_bytes(
    index: &VideoIndex,
    view: &mut ViewTransforms,
    resolved: &ResolvedRequest,
    scheduler: &Scheduler<DecodeTask>,
) -> Option<usize> {
    let has_high_bit_depth = scheduler.has_high_bit_depth.load(Ordering::Relaxed);
    let cached_dtype = view.cached_dtype().filter(|_| !has_high_bit_depth);
    let in_cache = |shape: ClipShape| ClipShape {
        dtype: cached_dtype.unwrap_or(shape.dtype),
        ..shape
    };
    if let Some(shape) = view.shape {
        return in_cache(shape).bytes();
    }
    let executor = &mut view.batch;
    executor.begin(resolved.key, resolved.frames.len());
    let params = &index.info.params;
    let size = executor
        .size_of((params.width, params.height), index.info.display())
        .ok()?;
    let bytes = in_cache(executor.shape(resolved.frames.len(), size)).bytes()?;
    Some(scheduler.cache_pool.block_bytes(bytes))
}

/// The packet ranges that the task decodes anyway: disjoint and ascending.
#[derive(Default)]
pub(in super::super) struct PacketRangeSet {
    spans: Vec<(DecodeIndex, DecodeIndex)>,
}

impl PacketRangeSet {
    /// Whether any of these spans overlaps the set.
    pub(crate) fn touches(&self, spans: &[(DecodeIndex, DecodeIndex)]) -> bool {
        spans.iter().any(|&(start, end)| {
            let at = self.spans.partition_point(|s| s.1 < start);
            self.spans.get(at).is_some_and(|s| s.0 <= end)
        })
    }

    /// The number of packets in the set if these spans were added.
    pub(crate) fn with(&self, spans: &[(DecodeIndex, DecodeIndex)]) -> u64 {
        let mut sum = PacketRangeSet {
            spans: self.spans.clone(),
        };
        sum.add(spans);
        sum.spans
            .iter()
            .map(|(start, end)| u64::from(end.0 - start.0) + 1)
            .sum()
    }

    pub(crate) fn add(&mut self, spans: &[(DecodeIndex, DecodeIndex)]) {
        self.spans.extend_from_slice(spans);
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, kept| {
            let joined = next.0 <= kept.1;
            if joined {
                kept.1 = kept.1.max(next.1);
            }
            joined
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(pairs: &[(u32, u32)]) -> Vec<(DecodeIndex, DecodeIndex)> {
        pairs
            .iter()
            .map(|&(a, b)| (DecodeIndex(a), DecodeIndex(b)))
            .collect()
    }

    #[test]
    fn packets_read_anyway_are_distinguished() {
        let mut packet_ranges = PacketRangeSet::default();
        packet_ranges.add(&spans(&[(100, 149), (0, 20), (10, 30)]));
        assert_eq!(packet_ranges.spans, spans(&[(0, 30), (100, 149)]));
        assert!(
            packet_ranges.touches(&spans(&[(30, 40)]))
                && packet_ranges.touches(&spans(&[(50, 60), (149, 200)]))
        );
        assert!(!packet_ranges.touches(&spans(&[(31, 99)])));
        assert_eq!(
            (
                packet_ranges.with(&spans(&[(20, 40)])),
                packet_ranges.with(&[])
            ),
            (91, 81)
        );
        packet_ranges.add(&spans(&[(25, 120)]));
        assert_eq!(packet_ranges.spans, spans(&[(0, 149)]));
    }
}
