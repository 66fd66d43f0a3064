//! Shuffles videos globally and spreads the clips of each video over a window of bounded length, so that a loader can
//! decode a video once for all its clips. Any position has random access.
//!
//! The order of an epoch is built in four steps:
//!
//! 1. Each video is cut into chunks of at most `max_chunk` consecutive clips, equally long to one clip.
//! 2. A keyed permutation orders all chunks. Written out clip by clip, each chunk in a keyed order of its own, they form
//!    the list L.
//! 3. L is cut into `num_streams` contiguous streams whose lengths differ by at most one clip.
//! 4. A stream delivers its clips in the order of integer keys. With `D = block_size / num_streams`, the i-th of the `k`
//!    clips of a chunk that starts at place `x` of the stream has the key `x + D (i + u) / k`, in units of 2^-20 with `u`
//!    uniform in [0, 1): one random place in each k-th of a window of `D` places. With a `block_size` of twice all clips
//!    or more, all keys are random: each stream is shuffled fully.
//!
//! Position `p` of the order is place `p / num_streams` of stream `p % num_streams`.

mod chunks;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub use chunks::VideoClips;

use super::config::invalid_argument;
use super::permutation::{mix, Permutation};
use super::rng::{purpose, RngKey};
use crate::error::Result;
use chunks::Chunks;

/// Keys of a stream are in units of 2^-20 of a place.
const FRACTION_BITS: u32 = 20;
/// A lookup of the chunk at a place of L evaluates at most this many permuted chunks.
const CHUNKS_PER_SUM: u64 = 256;
/// From this many chunks on, the sums of an epoch are computed on several threads.
const PARALLEL_CHUNKS: u64 = 1 << 20;
/// Maximum number of places of a stream over which a chunk is spread: some multiples of it are held in memory.
const MAX_SPREAD: u64 = 1 << 18;
/// Maximum number of chunks of different lengths: an epoch starts with a pass over all of them.
const MAX_UNEQUAL_CHUNKS: u64 = 1 << 30;
/// Minimum number of places that are computed at once.
const MIN_WINDOW: u64 = 64;

/// The parameters of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedConfig {
    /// Number of streams. A number of ranks that divides it gives each video to one rank.
    pub num_streams: u32,
    /// Number of positions of the order over which the clips of a chunk are spread. From twice the number of clips on,
    /// each stream is shuffled fully.
    pub block_size: u64,
    /// Maximum number of clips of a chunk.
    pub max_chunk: u32,
}

/// How to choose the parameters of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedOptions {
    /// See [`GroupedConfig::num_streams`]; `None` derives it.
    pub num_streams: Option<u32>,
    /// See [`GroupedConfig::block_size`]; `None` derives it.
    pub block_size: Option<u64>,
    /// See [`GroupedConfig::max_chunk`].
    pub max_chunk: u32,
    /// Number of finished clips that one worker of a rank can hold before they are delivered.
    pub cached_clips: u64,
}

/// Default of [`GroupedOptions::max_chunk`].
pub const DEFAULT_MAX_CHUNK: u32 = 64;

/// Default of [`GroupedOptions::cached_clips`]: 2 GiB of clips of 16 RGB frames of 224 x 224.
pub const DEFAULT_CACHED_CLIPS: u64 = (2 << 30) / (16 * 3 * 224 * 224);

impl Default for GroupedOptions {
    fn default() -> Self {
        Self {
            num_streams: None,
            block_size: None,
            max_chunk: DEFAULT_MAX_CHUNK,
            cached_clips: DEFAULT_CACHED_CLIPS,
        }
    }
}

/// Who takes the clips of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumers {
    /// Number of ranks.
    pub num_shards: u32,
    /// Number of workers of each rank.
    pub num_workers: u32,
    /// Clips per batch of one rank.
    pub batch_size: u32,
}

impl GroupedConfig {
    /// Derives what `options` leaves open, from the arguments alone.
    ///
    /// With `k` the mean length of the chunk of a clip, a rank holds about `(block_size / ranks) (k - 1) / 2k` clips.
    /// The block is chosen so that 0.8 of the cached clips suffice; the rest is for chunks that start at the same time. If
    /// all clips of a rank fit, its streams are shuffled fully.
    /// Each rank has up to eight streams, as far as they divide the batch, few enough that the chunks that start
    /// together fit (`streams * k <= cached_clips / 8`) and that few chunks are cut (16 chunks per stream).
    ///
    /// The workers of a rank have caches of their own. With as many streams as all workers of all ranks have clip slots
    /// in a batch, each slot of each worker has a stream of its own, so that no video is decoded by two workers. If
    /// that left less than two chunks per stream, workers share streams.
    pub fn derive(options: GroupedOptions, clips: &VideoClips, consumers: Consumers) -> Self {
        let Consumers { num_shards, num_workers, batch_size } = consumers;
        let chunks = Chunks::new(clips.clone(), options.max_chunk);
        let (num_clips, squares) = (u128::from(clips.num_clips()), chunks.sum_of_squares());
        let cached = u128::from(options.cached_clips).saturating_mul(u128::from(num_workers.max(1)));
        let ranks = u128::from(num_shards.max(1));
        let num_streams = options.num_streams.unwrap_or_else(|| {
            let slots = num_shards.checked_mul(num_workers).and_then(|n| n.checked_mul(batch_size));
            if let Some(slots) = slots.filter(|&n| num_workers > 1 && 2 * u64::from(n) <= chunks.num_chunks) {
                return slots;
            }
            let fits = |streams: u32| {
                batch_size.is_multiple_of(streams)
                    && 8 * u128::from(streams) * squares <= cached.saturating_mul(num_clips)
                    && 16 * ranks * u128::from(streams) <= u128::from(chunks.num_chunks)
            };
            let streams = [8, 4, 2].into_iter().find(|&streams| fits(streams)).unwrap_or(1);
            num_shards.max(1).saturating_mul(streams)
        });
        let block_size = options.block_size.unwrap_or_else(|| {
            let most = u128::from(MAX_SPREAD) * u128::from(num_streams);
            if cached.saturating_mul(ranks) >= num_clips && num_clips <= most {
                return clips.num_clips().saturating_mul(2);
            }
            let block = match squares.checked_sub(num_clips) {
                None | Some(0) => num_clips,
                // 0.8 cached ranks 2k / (k - 1), where k = squares / num_clips.
                Some(shared) => cached.saturating_mul(16 * ranks).saturating_mul(squares) / (10 * shared),
            };
            u64::try_from(block.min(num_clips).min(most)).unwrap_or(u64::MAX)
        });
        Self { num_streams, block_size, max_chunk: options.max_chunk }
    }
}

/// A grouped shuffle of a dataset.
#[derive(Clone, Debug)]
pub struct GroupedShuffle {
    chunks: Chunks,
    num_clips: u64,
    num_streams: u64,
    /// Places of a stream over which the clips of a chunk are spread.
    spread: u64,
    /// Whether each stream is shuffled fully.
    uniform: bool,
}

impl GroupedShuffle {
    /// Prepares what all epochs share.
    ///
    /// # Errors
    /// `Argument` if `num_streams` or `max_chunk` is 0.
    pub fn new(clips: VideoClips, config: GroupedConfig) -> Result<Self> {
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
        let num_clips = clips.num_clips();
        let num_streams = u64::from(config.num_streams);
        let chunks = Chunks::new(clips, config.max_chunk);
        if chunks.equal_len.is_none() && chunks.num_chunks > MAX_UNEQUAL_CHUNKS {
            return invalid_argument(format!(
                "videos with {num_clips} clips make {} chunks of different lengths, more than {MAX_UNEQUAL_CHUNKS}; \
                 increase max_chunk",
                chunks.num_chunks
            ));
        }
        let spread = config.block_size.min(num_clips) / num_streams;
        if spread > MAX_SPREAD {
            return invalid_argument(format!(
                "shuffle_block_size={} must be at most {MAX_SPREAD} times num_streams={num_streams}; use \
                 shuffle=\"full\" to spread clips further",
                config.block_size
            ));
        }
        let uniform = config.block_size / 2 >= num_clips;
        let spread = if uniform { num_clips.div_ceil(num_streams) } else { spread };
        Ok(Self { chunks, num_clips, num_streams, spread, uniform })
    }

    /// Number of clips.
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
        self.order(RngKey { seed, epoch, clip: 0, occurrence: 0 })
    }

    /// The order with the random numbers of this key; see [`Self::epoch`].
    pub fn order(self: &Arc<Self>, key: RngKey) -> GroupedEpoch {
        let mut rng = key.rng(purpose::GROUPED_SPREAD);
        let permutation = Permutation::keyed(key, purpose::GROUPED_CHUNKS, self.chunks.num_chunks);
        let sums = match self.chunks.equal_len {
            Some(_) => Vec::new(),
            None => chunk_sums(&self.chunks, &permutation),
        };
        GroupedEpoch {
            shuffle: self.clone(),
            permutation,
            sums,
            clip_key: rng.next_u64(),
            spread_key: rng.next_u64(),
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
        let (each, longer) = (self.num_clips / self.num_streams, self.num_clips % self.num_streams);
        let start = stream * each + stream.min(longer);
        start..start + each + u64::from(stream < longer)
    }
}

/// Number of clips of L before every [`CHUNKS_PER_SUM`]-th chunk.
fn chunk_sums(chunks: &Chunks, permutation: &Permutation) -> Vec<u64> {
    let blocks = chunks.num_chunks.div_ceil(CHUNKS_PER_SUM);
    let block_len = |block: u64| -> u64 {
        let end = ((block + 1) * CHUNKS_PER_SUM).min(chunks.num_chunks);
        (block * CHUNKS_PER_SUM..end)
            .map(|at| chunks.get(permutation.get(at)))
            .map(|clips| clips.end - clips.start)
            .sum()
    };
    let threads = if chunks.num_chunks < PARALLEL_CHUNKS {
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
}

/// A grouped shuffle as a batch sampler uses it, with the epochs that were read most recently.
#[derive(Debug)]
pub(super) struct GroupedSampler {
    shuffle: Arc<GroupedShuffle>,
    pub config: GroupedConfig,
    seed: u64,
    /// Two epochs, because a loader reads the start of the next epoch before the current one has ended.
    cached: Mutex<VecDeque<(u64, GroupedEpoch)>>,
}

impl GroupedSampler {
    pub fn new(clips: VideoClips, config: GroupedConfig, seed: u64) -> Result<Self> {
        let shuffle = Arc::new(GroupedShuffle::new(clips, config)?);
        Ok(Self { shuffle, config, seed, cached: Mutex::default() })
    }

    /// See [`GroupedShuffle::is_ungrouped`].
    pub fn is_ungrouped(&self) -> bool {
        self.shuffle.is_ungrouped()
    }

    /// Passes the clip at each of these positions of an epoch to `each`.
    pub fn clips<T>(
        &self,
        epoch: u64,
        positions: impl Iterator<Item = u64>,
        mut each: impl FnMut(usize, u64) -> T,
    ) -> Vec<T> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cached.iter().position(|(number, _)| *number == epoch);
        let at = found.unwrap_or_else(|| {
            if cached.len() == 2 {
                cached.pop_front();
            }
            cached.push_back((epoch, self.shuffle.epoch(self.seed, epoch)));
            cached.len() - 1
        });
        let order = &mut cached[at].1;
        positions.enumerate().map(|(n, position)| each(n, order.clip(position))).collect()
    }
}

/// The order of one epoch.
#[derive(Clone, Debug)]
pub struct GroupedEpoch {
    shuffle: Arc<GroupedShuffle>,
    permutation: Permutation,
    /// See [`chunk_sums`]; empty if all chunks have the same length.
    sums: Vec<u64>,
    clip_key: u64,
    spread_key: u64,
    /// The most recent window of each stream. All windows together hold about three blocks.
    windows: HashMap<u64, Window>,
}

impl GroupedEpoch {
    /// The clip at a position; positions past the end wrap around.
    pub fn clip(&mut self, position: u64) -> u64 {
        let shuffle = self.shuffle.clone();
        let position = position % shuffle.num_clips.max(1);
        let (stream, place) = (position % shuffle.num_streams, position / shuffle.num_streams);
        let window = self.windows.get(&stream);
        if let Some(clip) = window.and_then(|w| w.clips.get(place.checked_sub(w.first)? as usize)) {
            return *clip;
        }
        let range = shuffle.stream(stream);
        if range.is_empty() {
            return 0;
        }
        let end = place.saturating_add((shuffle.spread + shuffle.chunks.max_len).max(MIN_WINDOW));
        let clips = self.places(range.clone(), place..end.min(range.end - range.start));
        let clip = clips[0];
        self.windows.insert(stream, Window { first: place, clips });
        clip
    }

    /// The clips at some places of the stream that is this range of L.
    fn places(&self, stream: Range<u64>, places: Range<u64>) -> Vec<u64> {
        let shuffle = &*self.shuffle;
        // All clips whose part ends before a key minus the spread have smaller keys, and all clips of parts that start
        // behind it have larger ones: a clip is delivered at most this many places away from its place in L.
        let reach = shuffle.spread + 2 * shuffle.chunks.max_len;
        let len = stream.end - stream.start;
        let first = stream.start + places.start.saturating_sub(reach);
        let last = stream.start + places.end.saturating_add(reach).min(len);
        let (mut at, mut start) = self.chunk_at(first);
        let mut found: Vec<(u128, u64, u64)> = Vec::with_capacity((last - first) as usize);
        let mut ranked: Vec<(u64, u64)> = Vec::new();
        while start < last {
            let clips = shuffle.chunks.get(self.permutation.get(at));
            let end = start + (clips.end - clips.start);
            // Within a chunk, the clips come in the order of a keyed hash of their places in L.
            ranked.clear();
            ranked.extend((start..end).map(|x| (mix(x, self.clip_key), x)));
            ranked.sort_unstable();
            let part = start.max(stream.start)..end.min(stream.end);
            for (clip, &(_, x)) in clips.zip(&ranked) {
                if !(first..last).contains(&x) || !part.contains(&x) {
                    continue;
                }
                let random = mix(x, self.spread_key);
                let within = u128::from(x - part.start) << FRACTION_BITS
                    | u128::from(random >> (u64::BITS - FRACTION_BITS));
                let spread_key = (u128::from(part.start - stream.start) << FRACTION_BITS)
                    + u128::from(shuffle.spread) * within / u128::from(part.end - part.start);
                found.push((if shuffle.uniform { u128::from(random) } else { spread_key }, x, clip));
            }
            (at, start) = (at + 1, end);
        }
        found.sort_unstable();
        let skip = stream.start + places.start - first;
        let wanted = skip as usize..(skip + places.end - places.start) as usize;
        found[wanted].iter().map(|&(.., clip)| clip).collect()
    }

    /// The number of the permuted chunk at a place of L, and its first place.
    fn chunk_at(&self, place: u64) -> (u64, u64) {
        let chunks = &self.shuffle.chunks;
        if let Some(len) = chunks.equal_len {
            return (place / len, place / len * len);
        }
        let block = self.sums.partition_point(|&sum| sum <= place).saturating_sub(1);
        let (mut at, mut start) = (block as u64 * CHUNKS_PER_SUM, self.sums[block]);
        loop {
            let clips = chunks.get(self.permutation.get(at));
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
