//! Holds the visible clip requests in delivery order, with their states and grouped by video.
//! The `scheduler` decides which request is processed next.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use super::ClipMetadata;
use super::budget::MemoryReservation;
use super::pace::WorkerKind;
use crate::batch::{BatchBuffer, ClipSlot};
use crate::batch_sampler::SampledClip;
use crate::transforms::{ClipShape, Dtype};
use crate::units::DecodeIndex;

/// Position of a clip request in the delivery order of one pass, from 0.
pub(super) type SequenceNumber = u64;

/// Maximum number of requests of one video that are considered for a task: enough for any budget,
/// few enough to plan quickly.
pub(super) const MAX_REQUESTS_PER_TASK: usize = 4096;

/// A clip in the clip cache: finished before its turn.
pub(super) struct CachedClip {
    pub metadata: ClipMetadata,
    pub buffer: BatchBuffer,
    pub shape: ClipShape,
    /// Its memory reservation, released on drop; `None` for a clip of an open batch.
    #[expect(dead_code, reason = "held for its Drop")]
    pub reserved: Option<MemoryReservation>,
}

/// The state of a clip request.
pub(super) enum RequestState {
    /// No worker processes it.
    Pending,
    /// A worker processes it, or its task is suspended.
    InProgress,
    /// Made, and cached until its batch is opened or its bytes are copied into the batch buffer.
    Cached(Box<CachedClip>),
    /// Delivered to its batch.
    Done,
}

/// One clip request.
pub(super) struct RequestEntry {
    pub sampled: SampledClip,
    pub video: u32,
    /// Whether the clip is made alone, and only once it is due: making it together with others
    /// failed, or it shares no work with them.
    pub unshared: bool,
    pub state: RequestState,
    /// The kind of worker that makes the clip, if that is decided.
    pub kind: Option<WorkerKind>,
    /// Whether the clip is on disk: it is read, alone, once it is due.
    pub stored: bool,
    /// Whether it was evicted from the clip cache and not made again yet.
    pub evicted: bool,
    /// Its clip slot in the batch buffer, once its batch is open.
    pub slot: Option<ClipSlot>,
    /// Its decode ranges, kept from the first plan so that later plans do not sample the clip again
    /// only to find that it does not overlap their task. Empty if no plan has computed them.
    pub spans: Vec<(DecodeIndex, DecodeIndex)>,
}

impl RequestEntry {
    /// Whether a worker may take it together with others.
    fn may_share(&self) -> bool {
        matches!(self.state, RequestState::Pending) && !self.unshared && !self.stored
    }

    /// Takes a cached clip that needs no conversion to the output format: its elements are not of
    /// type `codes`.
    pub(super) fn take_finished(&mut self, codes: Option<Dtype>) -> Option<Box<CachedClip>> {
        match std::mem::replace(&mut self.state, RequestState::Done) {
            RequestState::Cached(cached) if codes != Some(cached.shape.dtype) => Some(cached),
            other => {
                self.state = other;
                None
            }
        }
    }
}

/// The window of visible clip requests.
#[derive(Default)]
pub(super) struct LookaheadWindow {
    first: SequenceNumber,
    entries: VecDeque<RequestEntry>,
    by_video: HashMap<u32, VecDeque<SequenceNumber>>,
    /// Cached clips of batches that are not open; these can be evicted.
    cached: BTreeSet<SequenceNumber>,
}

impl LookaheadWindow {
    /// Sequence number of the first request.
    pub(super) fn first(&self) -> SequenceNumber {
        self.first
    }

    /// Sequence number just after the last request.
    pub(super) fn end(&self) -> SequenceNumber {
        self.first + self.entries.len() as u64
    }

    /// `unshared`: the clip shares no work with others of the video.
    pub(super) fn push(&mut self, sampled: SampledClip, video: u32, unshared: bool) {
        let seq = self.end();
        self.by_video.entry(video).or_default().push_back(seq);
        self.entries.push_back(RequestEntry {
            sampled,
            video,
            unshared,
            state: RequestState::Pending,
            kind: None,
            stored: false,
            evicted: false,
            slot: None,
            spans: Vec::new(),
        });
    }

    /// Removes the first request.
    pub(super) fn pop(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.cached.remove(&self.first);
        if let Some(seqs) = self.by_video.get_mut(&entry.video) {
            seqs.pop_front();
            if seqs.is_empty() {
                self.by_video.remove(&entry.video);
            }
        }
        self.first += 1;
    }

    pub(super) fn get(&mut self, at: SequenceNumber) -> Option<&mut RequestEntry> {
        let offset = usize::try_from(at.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(offset)
    }

    /// Requests before `end` in order.
    pub(super) fn until(
        &self,
        end: SequenceNumber,
    ) -> impl Iterator<Item = (SequenceNumber, &RequestEntry)> {
        (self.first..end.min(self.end())).zip(&self.entries)
    }

    /// The pending requests in a range that may share decoding.
    pub(super) fn pending(
        &self,
        range: Range<SequenceNumber>,
    ) -> impl Iterator<Item = (SequenceNumber, &RequestEntry)> {
        let offset = |at: SequenceNumber| at.clamp(self.first, self.end()) - self.first;
        let entries = self
            .entries
            .range(offset(range.start) as usize..offset(range.end) as usize);
        (range.start.max(self.first)..)
            .zip(entries)
            .filter(|(_, entry)| entry.may_share())
    }

    /// The pending requests of a video that may share decoding, earliest deadline first.
    pub(super) fn pending_of(&self, video: u32) -> impl Iterator<Item = SequenceNumber> {
        let is_pending = |at: &SequenceNumber| self.entries[(at - self.first) as usize].may_share();
        let seqs = self.by_video.get(&video).into_iter().flatten().copied();
        seqs.filter(is_pending)
    }

    /// The pending requests of a video that a worker takes together.
    pub(super) fn pending_for_video(
        &self,
        video: u32,
        is_taken: impl Fn(&RequestEntry) -> bool,
    ) -> Vec<SequenceNumber> {
        self.pending_of(video)
            .filter(|at| is_taken(&self.entries[(at - self.first) as usize]))
            .take(MAX_REQUESTS_PER_TASK)
            .collect()
    }

    /// Caches a clip for a batch that is not open.
    pub(super) fn cache(&mut self, at: SequenceNumber, clip: CachedClip) {
        if let Some(entry) = self.get(at) {
            entry.state = RequestState::Cached(Box::new(clip));
            self.cached.insert(at);
        }
    }

    /// Protects a cached clip from eviction, because its batch is now open.
    pub(super) fn pin(&mut self, at: SequenceNumber) {
        self.cached.remove(&at);
    }

    /// Evicts the cached clip that is due last, if it is due after `due`. Returns whether a clip
    /// was evicted.
    pub(super) fn evict_due_after(&mut self, due: SequenceNumber) -> bool {
        let Some(&last) = self.cached.last().filter(|&&at| at > due) else {
            return false;
        };
        self.cached.remove(&last);
        if let Some(entry) = self.get(last) {
            (entry.state, entry.evicted) = (RequestState::Pending, true);
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::batch::MemoryPool;
    use crate::transforms::{Channels, Dtype, Layout};

    fn lookahead(videos: &[u32]) -> LookaheadWindow {
        let mut lookahead = LookaheadWindow::default();
        videos.iter().for_each(|&v| {
            lookahead.push(
                SampledClip {
                    clip: 0,
                    occurrence: 0,
                    repeat: 0,
                    padding: false,
                },
                v,
                false,
            )
        });
        lookahead
    }

    #[test]
    fn pending_requests_of_a_video_stay_in_order() {
        let mut lookahead = lookahead(&[7, 8, 7, 7, 8, 7]);
        assert_eq!(lookahead.pending_for_video(7, |_| true), [0, 2, 3, 5]);
        lookahead.get(2).unwrap().state = RequestState::InProgress;
        lookahead.get(3).unwrap().unshared = true;
        lookahead.pop();
        lookahead.pop();
        assert_eq!(
            (
                lookahead.pending_for_video(7, |_| true),
                lookahead.pending_for_video(8, |_| true),
                lookahead.pending_for_video(9, |_| true)
            ),
            (vec![5], vec![4], vec![])
        );
        assert_eq!((lookahead.first(), lookahead.end()), (2, 6));
        assert!(lookahead.get(1).is_none() && lookahead.get(6).is_none());
        let pending = |range| {
            lookahead
                .pending(range)
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        assert_eq!(pending(0..6), [4, 5]);
        assert_eq!((pending(5..9), pending(2..4)), (vec![5], vec![]));
    }

    pub(crate) fn cached_clip() -> CachedClip {
        let metadata = ClipMetadata {
            clip_id: 0,
            requested_id: 0,
            occurrence: 0,
            video_id: 0,
            view_id: 0,
            label: 0,
            indices: Vec::new(),
            pts_seconds: Vec::new(),
            mask: Vec::new(),
            size: (1, 1),
            first_frame: 0,
            num_frames: 1,
            average_fps: 1.0,
            duration_seconds: 1.0,
            geometry: Vec::new(),
            padding: false,
            content_key: None,
            has_frames: true,
            audio: None,
        };
        let (builder, slots) = BatchBuffer::allocate(&MemoryPool::new(0), 1, 1).unwrap();
        drop(slots);
        let shape = ClipShape {
            frames: 1,
            height: 1,
            width: 1,
            channels: Channels::Three,
            views: 0,
            dtype: Dtype::U8,
            layout: Layout::Nthwc,
        };
        CachedClip {
            metadata,
            buffer: builder.freeze().ok().unwrap(),
            shape,
            reserved: None,
        }
    }

    #[test]
    fn clip_that_is_due_last_is_evicted_first() {
        let mut lookahead = lookahead(&[7; 6]);
        [1, 4, 2, 5]
            .into_iter()
            .for_each(|at| lookahead.cache(at, cached_clip()));
        lookahead.pin(4); // its batch was opened
        let evicted = |lookahead: &mut LookaheadWindow| -> Vec<u64> {
            (0..6)
                .filter(|&at| lookahead.get(at).is_some_and(|entry| entry.evicted))
                .collect()
        };
        assert!(lookahead.evict_due_after(3));
        assert_eq!(evicted(&mut lookahead), [5]);
        assert_eq!(lookahead.pending_for_video(7, |_| true), [0, 3, 5]);
        // Neither clips that are due earlier nor those of open batches give way.
        assert!(!lookahead.evict_due_after(3) && !lookahead.evict_due_after(2));
        assert!(
            lookahead.evict_due_after(0)
                && lookahead.evict_due_after(0)
                && !lookahead.evict_due_after(0)
        );
        assert_eq!(evicted(&mut lookahead), [1, 2, 5]);
        // A clip that was delivered is not evicted.
        lookahead.cache(1, cached_clip());
        lookahead.pop();
        lookahead.pop();
        assert!(!lookahead.evict_due_after(0));
    }
}
