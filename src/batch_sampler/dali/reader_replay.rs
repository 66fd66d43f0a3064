//! Replays the ring buffer of DALI's shuffling reader to find the clip at a position of an epoch.
//! The replay only moves forward; an earlier position restarts it.

use std::ops::Range;

use super::DaliShards;
use super::libstdcxx_random::{MinstdRand0, std_shuffle};
use crate::error::{Result, invalid_argument};

/// Maximum number of samples of a reader. With one more, all of them in the ring buffer, the range
/// would exceed that of its random numbers.
pub const MAX_READER_SAMPLES: u32 = i32::MAX as u32 - 2;

/// The seed of the initial shuffle of all samples, the same for all readers
/// (`kDaliDataloaderSeed`).
const INITIAL_SHUFFLE_SEED: u32 = 524_287;

/// `random_shuffle=True` of DALI's `Loader` (dali/operators/reader/loader/loader.h), release 2.4.
///
/// All samples are shuffled once, identically for every seed. The samples of a shard then pass
/// through a ring buffer of `initial_fill` entries: each step picks a random entry and replaces it
/// by the next sample. When a shard runs out of samples, DALI fills the ring buffer with samples of
/// later epochs but picks only among those of the current epoch, so the later samples keep their
/// order: an epoch depends on earlier epochs only through the state of the random number generator.
#[derive(Debug)]
pub struct DaliReaderReplay {
    shards: DaliShards,
    seed: u64,
    list: Vec<u32>,
    /// Length of the ring buffer, at most the number of samples of a shard.
    ring: u32,
}

/// The state of a [`DaliReaderReplay`]: the next epoch and position to deliver.
#[derive(Debug)]
pub struct ReplayCursor {
    epoch: u64,
    position: u64,
    rng: MinstdRand0,
    /// State of the generator at the beginning of the epoch.
    epoch_start_rng: MinstdRand0,
    /// Samples that are waiting; sample `n` of the epoch enters at index `n % ring.len()`.
    ring: Vec<u32>,
    last: u32,
}

impl DaliReaderReplay {
    /// The reader of these shards, with at most [`MAX_READER_SAMPLES`] clips.
    pub fn new(shards: DaliShards, seed: u64, initial_fill: u32) -> Result<Self> {
        let num_clips = shards.num_clips().min(u64::from(MAX_READER_SAMPLES)) as u32;
        // A ring buffer larger than the shard gives the same order.
        let ring = shards.max_shard_len().min(u64::from(initial_fill)).max(1) as u32;
        let mut list = Vec::new();
        if list.try_reserve_exact(num_clips as usize).is_err() {
            return invalid_argument(format!(
                "num_clips must fit into memory with DaliOrder, which needs 4 bytes per clip, got \
                 {num_clips}; an order of framespool needs none"
            ));
        }
        list.extend(0..num_clips);
        std_shuffle(&mut list, INITIAL_SHUFFLE_SEED);
        Ok(Self {
            shards,
            seed,
            list,
            ring,
        })
    }

    /// The beginning of epoch 0.
    pub fn start(&self) -> ReplayCursor {
        let rng = MinstdRand0::from_seed_seq(self.seed);
        let mut cursor = ReplayCursor {
            epoch: 0,
            position: 0,
            rng,
            epoch_start_rng: rng,
            ring: Vec::new(),
            last: 0,
        };
        self.fill(&mut cursor);
        cursor
    }

    /// Number of samples of the shard that is read in an epoch.
    pub fn len(&self, epoch: u64) -> u64 {
        self.shard(epoch).len() as u64
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The clips at a range of positions of an epoch, without those past [`Self::len`]. Leaves the
    /// cursor behind the range.
    pub fn read(&self, cursor: &mut ReplayCursor, epoch: u64, positions: Range<u64>) -> Vec<u32> {
        let samples = self.shard(epoch);
        let mut positions = positions.start..positions.end.min(samples.len() as u64);
        let mut clips = Vec::with_capacity(positions.end.saturating_sub(positions.start) as usize);
        // Each batch of padding requests the last clip again.
        if !positions.is_empty() && (cursor.epoch, cursor.position) == (epoch, positions.start + 1)
        {
            clips.push(cursor.last);
            positions.start += 1;
        }
        if !positions.is_empty() {
            self.seek(cursor, epoch, positions.start);
        }
        clips.extend(positions.map(|_| cursor.next_sample(samples)));
        clips
    }

    fn seek(&self, cursor: &mut ReplayCursor, epoch: u64, position: u64) {
        if epoch < cursor.epoch {
            *cursor = self.start();
        }
        while cursor.epoch < epoch {
            self.skip_epoch(cursor);
        }
        if position < cursor.position {
            cursor.rng = cursor.epoch_start_rng;
            self.fill(cursor);
        }
        let samples = self.shard(epoch);
        while cursor.position < position {
            cursor.next_sample(samples);
        }
    }

    fn shard(&self, epoch: u64) -> &[u32] {
        let positions = self.shards.epoch_range(epoch);
        self.list
            .get(positions.start as usize..positions.end as usize)
            .unwrap_or(&[])
    }

    /// Puts the first samples of the cursor's epoch into its ring buffer.
    fn fill(&self, cursor: &mut ReplayCursor) {
        let samples = self.shard(cursor.epoch);
        cursor.position = 0;
        cursor.ring.clear();
        cursor.ring.extend(samples.iter().take(self.ring as usize));
    }

    /// Moves to the next epoch: for the rest of the current one, only generates the random numbers.
    fn skip_epoch(&self, cursor: &mut ReplayCursor) {
        let left = self.len(cursor.epoch) - cursor.position;
        for left in (1..=left).rev() {
            cursor
                .rng
                .uniform_int(left.min(u64::from(self.ring)) as u32);
        }
        cursor.epoch += 1;
        cursor.epoch_start_rng = cursor.rng;
        self.fill(cursor);
    }
}

impl ReplayCursor {
    /// Picks one of the waiting samples in the ring buffer and replaces it by the next sample of
    /// the shard, if there is one.
    fn next_sample(&mut self, samples: &[u32]) -> u32 {
        let (position, ring) = (self.position as usize, self.ring.len());
        let waiting = (samples.len() - position).min(ring);
        let oldest = position % ring;
        let picked = oldest + self.rng.uniform_int(waiting as u32) as usize;
        self.ring
            .swap(oldest, if picked < ring { picked } else { picked - ring });
        self.last = self.ring[oldest];
        if let Some(&next) = samples.get(position + ring) {
            self.ring[oldest] = next;
        }
        self.position += 1;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::super::BatchSamplerConfig;
    use super::*;

    /// A direct model of the reader for comparison: one ring buffer over the endless stream of all
    /// epochs, and for each epoch in progress a window of counters from which samples may be
    /// picked.
    struct ReferenceReader {
        list: Vec<u32>,
        config: BatchSamplerConfig,
        ring: Vec<u32>,
        windows: VecDeque<Range<usize>>,
        rng: MinstdRand0,
        shard: u32,
        read: usize,
    }

    impl ReferenceReader {
        fn new(config: &BatchSamplerConfig, initial_fill: u32) -> Self {
            let mut list: Vec<u32> = (0..config.num_clips as u32).collect();
            std_shuffle(&mut list, INITIAL_SHUFFLE_SEED);
            let rng = MinstdRand0::from_seed_seq(config.seed);
            let windows: VecDeque<Range<usize>> = std::iter::once(0..0).collect();
            let mut reference = Self {
                list,
                config: config.clone(),
                ring: vec![],
                windows,
                rng,
                shard: config.shard_id,
                read: 0,
            };
            for _ in 0..initial_fill {
                let sample = reference.next_of_stream();
                reference.ring.push(sample);
                reference.windows.back_mut().unwrap().end += 1;
            }
            reference
        }

        fn next_of_stream(&mut self) -> u32 {
            let (n, shards) = (self.list.len(), self.config.num_shards as usize);
            let begin = |shard: u32| n * shard as usize / shards;
            if begin(self.shard) + self.read == begin(self.shard + 1) {
                self.shard = if self.config.stick_to_shard {
                    self.shard
                } else {
                    (self.shard + 1) % shards as u32
                };
                self.read = 0;
                let end = self.windows.back().unwrap().end;
                self.windows.push_back(end..end);
            }
            self.read += 1;
            self.list[begin(self.shard) + self.read - 1]
        }

        fn read_one(&mut self) -> u32 {
            if self.windows[0].is_empty() {
                self.windows.pop_front();
            }
            let picked =
                self.windows[0].start + self.rng.uniform_int(self.windows[0].len() as u32) as usize;
            let (fill, oldest) = (self.ring.len(), self.windows[0].start);
            self.ring.swap(picked % fill, oldest % fill);
            let out = self.ring[oldest % fill];
            self.ring[oldest % fill] = self.next_of_stream();
            self.windows[0].start += 1;
            self.windows.back_mut().unwrap().end += 1;
            out
        }
    }

    fn configs() -> impl Iterator<Item = (BatchSamplerConfig, u32)> {
        let shards = [(1, 0), (2, 1), (3, 0), (3, 2), (7, 4)];
        let all = [7, 10, 23, 100, 1001].into_iter().flat_map(move |n| {
            shards.into_iter().flat_map(move |s| {
                [1, 2, 4, 9, 64, 1024]
                    .into_iter()
                    .flat_map(move |f| [false, true].map(move |stick| (n, s, f, stick)))
            })
        });
        all.map(
            |(num_clips, (num_shards, shard_id), fill, stick_to_shard)| {
                let seed = num_clips + u64::from(fill);
                let config = BatchSamplerConfig {
                    num_clips,
                    num_shards,
                    shard_id,
                    stick_to_shard,
                    seed,
                    ..BatchSamplerConfig::default()
                };
                (config, fill)
            },
        )
    }

    #[test]
    fn single_epoch_equals_the_endless_ring() {
        for (config, fill) in configs() {
            let reader =
                DaliReaderReplay::new(DaliShards::new(&config), config.seed, fill).unwrap();
            let (mut cursor, mut reference) = (reader.start(), ReferenceReader::new(&config, fill));
            for epoch in 0..5 {
                let expected: Vec<u32> = (0..reader.len(epoch))
                    .map(|_| reference.read_one())
                    .collect();
                assert_eq!(
                    reader.read(&mut cursor, epoch, 0..u64::MAX),
                    expected,
                    "{config:?}, {fill}, {epoch}"
                );
            }
        }
    }

    #[test]
    fn position_has_its_clip_wherever_the_cursor_was() {
        for (config, fill) in configs().filter(|(c, _)| c.num_clips > 20) {
            let reader =
                DaliReaderReplay::new(DaliShards::new(&config), config.seed, fill).unwrap();
            let whole: Vec<_> = (0..4)
                .map(|e| reader.read(&mut reader.start(), e, 0..u64::MAX))
                .collect();
            let mut cursor = reader.start();
            for (epoch, begin, end) in [
                (0, 2, 5),
                (0, 5, 6),
                (0, 5, 6),
                (0, 0, 3),
                (2, 1, 4),
                (2, 3, 9),
                (1, 0, 1),
                (3, 8, 2),
                (3, 0, 99),
                (0, 1, 2),
            ] {
                let positions = begin.min(whole[epoch].len())..end.min(whole[epoch].len());
                let expected = whole[epoch].get(positions.clone()).unwrap_or(&[]);
                let found = reader.read(
                    &mut cursor,
                    epoch as u64,
                    positions.start as u64..positions.end as u64,
                );
                assert_eq!(
                    found, expected,
                    "{config:?}, {fill}, {epoch}, {positions:?}"
                );
            }
        }
    }
}
