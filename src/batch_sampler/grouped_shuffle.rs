//! Shuffles videos globally and spreads the clips of each video over a window of bounded length, so
//! that a loader can decode a video once for all its clips. Any position has random access.
//!
//! The order of an epoch is built in four steps:
//!
//! 1. Each video is cut into chunks of at most `max_chunk` consecutive clips, equally long to one
//!    clip.
//! 2. A keyed permutation orders all chunks. Written out clip by clip, each chunk in a keyed order
//!    of its own, they form the list L.
//! 3. L is cut into `num_streams` contiguous streams whose lengths differ by at most one clip.
//! 4. A stream delivers its clips in the order of integer keys. With `D = block_size /
//!    num_streams`, the i-th of the `k` clips of a chunk that starts at place `x` of the stream has
//!    the key `x + D (i + u) / k`, in units of 2^-20 with `u` uniform in [0, 1): one random place
//!    in each k-th of a window of `D` places. With a `block_size` of twice all clips or more, all
//!    keys are random: each stream is shuffled fully.
//!
//! If chunks are long in relation to `D`, a stream first rotates its part of L by a random number
//! of places. Otherwise streams of equally long chunks would begin their chunks together and hold
//! many clips at the same time.
//!
//! Position `p` of the order is place `p / num_streams` of stream `p % num_streams`.

mod chunks;
mod parameters;
mod video_clips;
pub(in crate::batch_sampler) mod weighted;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

pub use parameters::{Consumers, DEFAULT_CACHED_CLIPS, DEFAULT_MAX_CHUNK, GroupedOptions};
pub use video_clips::VideoClips;
pub use weighted::WeightConfig;

use super::order::{GroupedConfig, Order};
use super::permutation::{Permutation, mix};
use crate::error::{Result, invalid_argument};
use crate::rng::{Purpose, RngKey};
use chunks::{Chunks, DrawnChunks};
use parameters::MAX_SPREAD;
use weighted::WeightedVideos;

/// Keys of a stream are in units of 2^-20 of a place.
const FRACTION_BITS: u32 = 20;
/// A lookup of the chunk at a place of L evaluates at most this many permuted chunks.
const CHUNKS_PER_SUM: u64 = 256;
/// From this many chunks on, the sums of an epoch are computed on several threads.
const PARALLEL_CHUNKS: u64 = 1 << 20;
/// From this many chunks of different lengths on, the next epoch is prepared in advance.
const PREPARED_CHUNKS: u64 = 1 << 16;
/// Maximum number of chunks of different lengths: an epoch starts with a pass over all of them.
const MAX_UNEQUAL_CHUNKS: u64 = 1 << 30;
/// Minimum number of places that are computed at once.
const MIN_WINDOW: u64 = 64;

/// A grouped shuffle of a dataset.
#[derive(Clone, Debug)]
pub struct GroupedShuffle {
    chunks: Chunks,
    /// Selects the chunks of each epoch, if videos have weights.
    weights: Option<WeightedVideos>,
    /// Clips of an epoch.
    num_clips: u64,
    num_streams: u64,
    /// Places of a stream over which the clips of a chunk are spread.
    spread: u64,
    /// Whether each stream is shuffled fully.
    uniform: bool,
    /// Whether each stream rotates its part of L.
    rotates: bool,
}

impl GroupedShuffle {
    /// Prepares what all epochs share.
    ///
    /// # Errors
    /// `Argument` if `num_streams` or `max_chunk` is 0.
    pub fn new(clips: VideoClips, config: GroupedConfig) -> Result<Self> {
        Self::with_weights(clips, config, None)
    }

    /// With weights, videos come as often as these call for.
    pub(super) fn with_weights(
        clips: VideoClips,
        config: GroupedConfig,
        weights: Option<WeightedVideos>,
    ) -> Result<Self> {
        if config.num_streams == 0 {
            return invalid_argument(
                "num_streams must be at least 1, got 0; use a multiple of the number of ranks",
            );
        }
        if config.max_chunk == 0 {
            return invalid_argument(
                "max_chunk must be at least 1, got 0; it counts the clips that are decoded together",
            );
        }
        let num_clips = weights
            .as_ref()
            .map_or_else(|| clips.num_clips(), |weights| weights.epoch_clips);
        let num_streams = u64::from(config.num_streams);
        let chunks = Chunks::new(clips, config.max_chunk);
        let num_chunks = match &weights {
            None => chunks.num_chunks,
            Some(weights) => chunks.expected(weights.expected_clips()).0,
        };
        if chunks.equal_len.is_none() && num_chunks > MAX_UNEQUAL_CHUNKS {
            return invalid_argument(format!(
                "videos with {num_clips} clips make {num_chunks} chunks of different lengths, more than \
                 {MAX_UNEQUAL_CHUNKS}; increase max_chunk"
            ));
        }
        let spread = config.block_size.min(num_clips) / num_streams;
        if spread > MAX_SPREAD {
            return invalid_argument(format!(
                "block_size={} must be at most {MAX_SPREAD} times num_streams={num_streams}; use \
                 shuffle=\"full\" to spread clips further",
                config.block_size
            ));
        }
        let uniform = config.block_size / 2 >= num_clips;
        let spread = if uniform {
            num_clips.div_ceil(num_streams)
        } else {
            spread
        };
        // The random part of a chunk's first key moves its start by up to `spread / max_len`
        // places. If that is less than a chunk, streams whose chunks are equally long keep in step.
        // A rotation cuts one more chunk per stream.
        let rotates = !uniform && u128::from(spread) < u128::from(chunks.max_len).pow(2);
        Ok(Self {
            chunks,
            weights,
            num_clips,
            num_streams,
            spread,
            uniform,
            rotates,
        })
    }

    /// Number of clips of an epoch.
    pub fn num_clips(&self) -> u64 {
        self.num_clips
    }

    /// Whether every chunk is a single clip, so that a full shuffle mixes better at the same cost.
    pub fn is_ungrouped(&self) -> bool {
        self.chunks.max_len <= 1
    }

    /// Number of chunks.
    pub fn num_chunks(&self) -> u64 {
        self.chunks.num_chunks
    }

    /// Prepares an epoch. If chunks differ in length, this takes a pass over all chunks.
    pub fn epoch(self: &Arc<Self>, seed: u64, epoch: u64) -> GroupedEpoch {
        self.order(RngKey {
            seed,
            epoch,
            clip: 0,
            occurrence: 0,
        })
    }

    /// The order with the random numbers of this key; see [`Self::epoch`].
    pub fn order(self: &Arc<Self>, key: RngKey) -> GroupedEpoch {
        let mut rng = key.rng(Purpose::GroupedSpread);
        let drawn = self
            .weights
            .as_ref()
            .map(|weights| self.chunks.draw(weights.epoch(key), self.num_clips));
        let num_chunks = drawn
            .as_ref()
            .map_or(self.chunks.num_chunks, |drawn| drawn.num_chunks);
        let permutation = Permutation::keyed(key, Purpose::GroupedChunks, num_chunks);
        let sums = match self.chunks.equal_len {
            Some(_) => Vec::new(),
            None => chunk_sums(num_chunks, |at| {
                let chunk = permutation.get(at);
                let clips = drawn
                    .as_ref()
                    .map_or_else(|| self.chunks.get(chunk), |drawn| drawn.get(chunk).clips);
                clips.end - clips.start
            }),
        };
        GroupedEpoch {
            shuffle: self.clone(),
            permutation,
            drawn,
            sums,
            clip_key: rng.next_u64(),
            spread_key: rng.next_u64(),
            rotation_key: rng.next_u64(),
            windows: HashMap::new(),
        }
    }

    /// Number of streams.
    pub fn num_streams(&self) -> u64 {
        self.num_streams
    }

    /// Number of clips of a stream.
    pub fn stream_len(&self, stream: u64) -> u64 {
        let range = self.stream(stream);
        range.end - range.start
    }

    /// The part of L that is a stream.
    fn stream(&self, stream: u64) -> Range<u64> {
        let (each, longer) = (
            self.num_clips / self.num_streams,
            self.num_clips % self.num_streams,
        );
        let start = stream * each + stream.min(longer);
        start..start + each + u64::from(stream < longer)
    }
}

/// Number of clips of L before every [`CHUNKS_PER_SUM`]-th chunk; `len` returns that of the chunk
/// at a place.
fn chunk_sums(num_chunks: u64, len: impl Fn(u64) -> u64 + Sync) -> Vec<u64> {
    let blocks = num_chunks.div_ceil(CHUNKS_PER_SUM);
    let block_len = |block: u64| -> u64 {
        let end = ((block + 1) * CHUNKS_PER_SUM).min(num_chunks);
        (block * CHUNKS_PER_SUM..end).map(&len).sum()
    };
    let block_len = &block_len;
    let threads = if num_chunks < PARALLEL_CHUNKS {
        1
    } else {
        std::thread::available_parallelism().map_or(1, |n| n.get().min(8)) as u64
    };
    let share = blocks.div_ceil(threads).max(1);
    let mut lengths: Vec<u64> = std::thread::scope(|scope| {
        let parts: Vec<_> = (1..threads)
            .map(|n| {
                let range = (n * share).min(blocks)..((n + 1) * share).min(blocks);
                scope.spawn(move || range.map(block_len).collect::<Vec<u64>>())
            })
            .collect();
        let mut lengths: Vec<u64> = (0..share.min(blocks)).map(block_len).collect();
        for part in parts {
            lengths.extend(part.join().expect("a sum does not panic"));
        }
        lengths
    });
    let mut sum = 0;
    for length in &mut lengths {
        let before = sum;
        sum += *length;
        *length = before;
    }
    lengths
}

/// A computed part of a stream.
#[derive(Clone, Debug)]
struct Window {
    /// Place of the first clip.
    first: u64,
    clips: Vec<u64>,
    /// The occurrence of each clip; empty if every clip comes once.
    occurrences: Vec<u32>,
}

impl Window {
    fn at(&self, place: u64) -> Option<(u64, u32)> {
        let offset = place.checked_sub(self.first)? as usize;
        Some((
            *self.clips.get(offset)?,
            self.occurrences.get(offset).copied().unwrap_or(0),
        ))
    }
}

/// A grouped shuffle as a batch sampler uses it, with the epochs that were read most recently.
#[derive(Debug)]
pub(super) struct GroupedSampler {
    shuffle: Arc<GroupedShuffle>,
    config: GroupedConfig,
    seed: u64,
    /// Two epochs: the current one, and the next one, which [`Self::prepare`] adds.
    cached: Arc<Mutex<CachedEpochs>>,
}

type CachedEpochs = VecDeque<(u64, GroupedEpoch)>;

fn cache(cached: &mut CachedEpochs, epoch: u64, order: GroupedEpoch) -> usize {
    if cached.len() == 2 {
        cached.pop_front();
    }
    cached.push_back((epoch, order));
    cached.len() - 1
}

impl GroupedSampler {
    pub(super) fn new(shuffle: GroupedShuffle, config: GroupedConfig, seed: u64) -> Self {
        Self {
            shuffle: Arc::new(shuffle),
            config,
            seed,
            cached: Arc::default(),
        }
    }

    /// Prepares an epoch on a thread of its own, if it takes a pass over many chunks; returns the
    /// thread, which need not be joined. Reading the epoch earlier does no harm: it then makes the
    /// pass itself.
    pub(super) fn prepare_on_thread(&self, epoch: u64) -> Option<JoinHandle<()>> {
        if self.shuffle.chunks.equal_len.is_some()
            || self.shuffle.chunks.num_chunks < PREPARED_CHUNKS
        {
            return None;
        }
        let (shuffle, seed, cached) = (self.shuffle.clone(), self.seed, self.cached.clone());
        let prepare = move || {
            let lock = || cached.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known =
                |cached: &CachedEpochs| cached.iter().any(|(number, _)| *number == epoch);
            if is_known(&lock()) {
                return;
            }
            let order = shuffle.epoch(seed, epoch);
            let mut cached = lock();
            if !is_known(&cached) {
                cache(&mut cached, epoch, order);
            }
        };
        // Without a thread, the first batch of the epoch waits for the pass.
        std::thread::Builder::new()
            .name("fsp-next-order".into())
            .spawn(prepare)
            .ok()
    }
}

impl Order for GroupedSampler {
    fn num_clips(&self) -> u64 {
        self.shuffle.num_clips
    }

    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cached.iter().position(|(number, _)| *number == epoch);
        let at = found
            .unwrap_or_else(|| cache(&mut cached, epoch, self.shuffle.epoch(self.seed, epoch)));
        let order = &mut cached[at].1;
        positions.map(|position| order.visit(position)).collect()
    }

    fn grouped(&self) -> Option<GroupedConfig> {
        (!self.shuffle.is_ungrouped()).then_some(self.config)
    }

    fn prepare(&self, epoch: u64) {
        self.prepare_on_thread(epoch);
    }
}

/// The order of one epoch.
#[derive(Clone, Debug)]
pub struct GroupedEpoch {
    shuffle: Arc<GroupedShuffle>,
    permutation: Permutation,
    /// The chunks of this epoch, if videos have weights.
    drawn: Option<DrawnChunks>,
    /// See [`chunk_sums`]; empty if all chunks have the same length.
    sums: Vec<u64>,
    clip_key: u64,
    spread_key: u64,
    rotation_key: u64,
    /// The most recent window of each stream. All windows together hold about three blocks.
    windows: HashMap<u64, Window>,
}

impl GroupedEpoch {
    /// The clip at a position; positions past the end wrap around.
    pub fn clip(&mut self, position: u64) -> u64 {
        self.visit(position).0
    }

    /// The clip at a position and its occurrence in this epoch, counted from 0; positions past the
    /// end wrap around.
    pub fn visit(&mut self, position: u64) -> (u64, u32) {
        let shuffle = self.shuffle.clone();
        let position = position % shuffle.num_clips.max(1);
        let (stream, place) = (
            position % shuffle.num_streams,
            position / shuffle.num_streams,
        );
        if let Some(visit) = self
            .windows
            .get(&stream)
            .and_then(|window| window.at(place))
        {
            return visit;
        }
        let range = shuffle.stream(stream);
        if range.is_empty() {
            return (0, 0);
        }
        let end = place.saturating_add((shuffle.spread + shuffle.chunks.max_len).max(MIN_WINDOW));
        let window = self.places(stream, place..end.min(range.end - range.start));
        let visit = window.at(place).expect("the window begins there");
        self.windows.insert(stream, window);
        visit
    }

    /// The permuted chunk at a place, and the occurrence of its clips.
    fn chunk(&self, at: u64) -> (Range<u64>, u32) {
        let chunk = self.permutation.get(at);
        match &self.drawn {
            None => (self.shuffle.chunks.get(chunk), 0),
            Some(drawn) => {
                let copy = drawn.get(chunk);
                (copy.clips, copy.occurrence)
            }
        }
    }

    /// The ranges of L that a stream consists of, in the order in which it takes them up.
    fn segments(&self, stream: u64) -> [Range<u64>; 2] {
        let range = self.shuffle.stream(stream);
        let most = self.shuffle.chunks.max_len.min(range.end - range.start);
        let rotation = if self.shuffle.rotates {
            mix(stream, self.rotation_key) % most.max(1)
        } else {
            0
        };
        let start = range.start + rotation;
        [start..range.end, range.start..start]
    }

    /// The clips at some places of a stream.
    fn places(&self, stream: u64, places: Range<u64>) -> Window {
        let shuffle = &*self.shuffle;
        // All clips whose part ends before a key minus the spread have smaller keys, and all clips
        // of parts that start behind it have larger ones: a clip is delivered at most this many
        // places away from its place in L.
        let reach = shuffle.spread + 2 * shuffle.chunks.max_len;
        let first = places.start.saturating_sub(reach);
        let last = places
            .end
            .saturating_add(reach)
            .min(shuffle.stream_len(stream));
        let mut found: Vec<(u128, u64, u64, u32)> = Vec::with_capacity((last - first) as usize);
        let mut ranked: Vec<(u64, u64)> = Vec::new();
        let mut segment_place = 0;
        for segment in self.segments(stream) {
            // The part of the segment that can be at these places.
            let near = segment.start + first.saturating_sub(segment_place)
                ..segment
                    .end
                    .min(segment.start + last.saturating_sub(segment_place));
            let place_of = |x: u64| segment_place + (x - segment.start);
            let (mut at, mut start) = if near.is_empty() {
                (0, near.end)
            } else {
                self.chunk_at(near.start)
            };
            while start < near.end {
                let (clips, occurrence) = self.chunk(at);
                let end = start + (clips.end - clips.start);
                // Within a chunk, the clips come in the order of a keyed hash of their places in L.
                ranked.clear();
                ranked.extend((start..end).map(|x| (mix(x, self.clip_key), x)));
                ranked.sort_unstable();
                let part = start.max(segment.start)..end.min(segment.end);
                for (clip, &(_, x)) in clips.zip(&ranked) {
                    if !near.contains(&x) {
                        continue;
                    }
                    let random = mix(x, self.spread_key);
                    let within = u128::from(x - part.start) << FRACTION_BITS
                        | u128::from(random >> (u64::BITS - FRACTION_BITS));
                    let spread_key = (u128::from(place_of(part.start)) << FRACTION_BITS)
                        + u128::from(shuffle.spread) * within / u128::from(part.end - part.start);
                    let key = if shuffle.uniform {
                        u128::from(random)
                    } else {
                        spread_key
                    };
                    found.push((key, place_of(x), clip, occurrence));
                }
                (at, start) = (at + 1, end);
            }
            segment_place += segment.end - segment.start;
        }
        found.sort_unstable();
        let wanted = (places.start - first) as usize..(places.end - first) as usize;
        let wanted = &found[wanted];
        let occurrences = match &self.drawn {
            None => Vec::new(),
            Some(_) => wanted.iter().map(|&(.., occurrence)| occurrence).collect(),
        };
        Window {
            first: places.start,
            clips: wanted.iter().map(|&(.., clip, _)| clip).collect(),
            occurrences,
        }
    }

    /// The number of the permuted chunk at a place of L, and its first place.
    fn chunk_at(&self, place: u64) -> (u64, u64) {
        if let Some(len) = self.shuffle.chunks.equal_len {
            return (place / len, place / len * len);
        }
        let block = self
            .sums
            .partition_point(|&sum| sum <= place)
            .saturating_sub(1);
        let (mut at, mut start) = (block as u64 * CHUNKS_PER_SUM, self.sums[block]);
        loop {
            let (clips, _) = self.chunk(at);
            let end = start + (clips.end - clips.start);
            if place < end {
                return (at, start);
            }
            (at, start) = (at + 1, end);
        }
    }
}

#[cfg(test)]
mod tests;
