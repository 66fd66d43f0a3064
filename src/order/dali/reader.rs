//! In: a dataset, a shard, an epoch and a place in it. Out: the clip that DALI's shuffling reader delivers there.
//! The reader's ring of samples, on numbers: what is in it and which is picked.
//! Never: goes back; it begins again.

use std::ops::Range;

use super::super::config::refuse;
use super::random::{shuffle, MinStd};
use super::Shards;
use crate::error::Result;

/// Most samples that a reader takes: one more, all in the ring, is beyond its random numbers.
pub const MOST_CLIPS: u32 = i32::MAX as u32 - 2;

/// The seed of the one shuffle of all samples, the same for all readers (`kDaliDataloaderSeed`).
const LIST_SEED: u32 = 524_287;

/// `random_shuffle=True` of DALI's `Loader` (dali/operators/reader/loader/loader.h), release 2.4.
///
/// All samples are shuffled once, in the same way whatever the seed. A shard's samples then pass through a ring of
/// `initial_fill`: each time one of those waiting in it is picked, and the next sample takes its place. DALI fills the
/// ring with samples of later epochs when a shard is running out, but picks among those of the epoch under way only, so
/// that these wait in their order: an epoch depends on those before it through the random numbers alone.
#[derive(Debug)]
pub struct Reader {
    shards: Shards,
    seed: u64,
    list: Vec<u32>,
    /// Places of the ring, no more than a shard has samples.
    ring: u32,
}

/// How far a [`Reader`] has come: this epoch and place are next.
#[derive(Debug)]
pub struct Cursor {
    epoch: u64,
    place: u64,
    random: MinStd,
    /// As it was when the epoch began.
    begun: MinStd,
    /// Samples that wait, that of entry number `n` of the epoch at `n % ring.len()`.
    ring: Vec<u32>,
    last: u32,
}

impl Reader {
    /// The reader of these shards, with at most [`MOST_CLIPS`] clips.
    pub fn new(shards: Shards, seed: u64, initial_fill: u32) -> Result<Self> {
        let num_clips = shards.num_clips().min(u64::from(MOST_CLIPS)) as u32;
        // In a ring that holds the whole shard, more places change nothing.
        let ring = shards.longest().min(u64::from(initial_fill)).max(1) as u32;
        let mut list = Vec::new();
        if list.try_reserve_exact(num_clips as usize).is_err() {
            return refuse(format!(
                "num_clips must fit into memory with order=\"dali\", which takes 4 bytes for each, got {num_clips}; order=\"framespool\" takes none"
            ));
        }
        list.extend(0..num_clips);
        shuffle(&mut list, LIST_SEED);
        Ok(Self { shards, seed, list, ring })
    }

    /// The beginning of epoch 0.
    pub fn begin(&self) -> Cursor {
        let random = MinStd::from_seed_seq(self.seed);
        let mut cursor = Cursor { epoch: 0, place: 0, random, begun: random, ring: Vec::new(), last: 0 };
        self.fill(&mut cursor);
        cursor
    }

    /// Samples of the shard that is read in an epoch.
    pub fn len(&self, epoch: u64) -> u64 {
        self.shard(epoch).len() as u64
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The clips at some places of an epoch, those past [`Self::len`] left out; the cursor ends up behind them.
    pub fn read(&self, cursor: &mut Cursor, epoch: u64, places: Range<u64>) -> Vec<u32> {
        let samples = self.shard(epoch);
        let mut places = places.start..places.end.min(samples.len() as u64);
        let mut clips = Vec::with_capacity(places.end.saturating_sub(places.start) as usize);
        // The last clip is asked for again by each batch of padding.
        if !places.is_empty() && (cursor.epoch, cursor.place) == (epoch, places.start + 1) {
            clips.push(cursor.last);
            places.start += 1;
        }
        if !places.is_empty() {
            self.go(cursor, epoch, places.start);
        }
        clips.extend(places.map(|_| cursor.step(samples)));
        clips
    }

    fn go(&self, cursor: &mut Cursor, epoch: u64, place: u64) {
        if epoch < cursor.epoch {
            *cursor = self.begin();
        }
        while cursor.epoch < epoch {
            self.pass(cursor);
        }
        if place < cursor.place {
            cursor.random = cursor.begun;
            self.fill(cursor);
        }
        let samples = self.shard(epoch);
        while cursor.place < place {
            cursor.step(samples);
        }
    }

    fn shard(&self, epoch: u64) -> &[u32] {
        let places = self.shards.read_in(epoch);
        self.list.get(places.start as usize..places.end as usize).unwrap_or(&[])
    }

    /// Puts the first samples of the cursor's epoch into its ring.
    fn fill(&self, cursor: &mut Cursor) {
        let samples = self.shard(cursor.epoch);
        cursor.place = 0;
        cursor.ring.clear();
        cursor.ring.extend(samples.iter().take(self.ring as usize));
    }

    /// Goes to the next epoch: what is left of this one draws its numbers and nothing else.
    fn pass(&self, cursor: &mut Cursor) {
        let left = self.len(cursor.epoch) - cursor.place;
        for left in (1..=left).rev() {
            cursor.random.below(left.min(u64::from(self.ring)) as u32);
        }
        cursor.epoch += 1;
        cursor.begun = cursor.random;
        self.fill(cursor);
    }
}

impl Cursor {
    /// Picks one of the samples in the ring, and puts the next of the shard, if there is one, in its place.
    fn step(&mut self, samples: &[u32]) -> u32 {
        let (place, ring) = (self.place as usize, self.ring.len());
        let waiting = (samples.len() - place).min(ring);
        let oldest = place % ring;
        let picked = oldest + self.random.below(waiting as u32) as usize;
        self.ring.swap(oldest, if picked < ring { picked } else { picked - ring });
        self.last = self.ring[oldest];
        if let Some(&next) = samples.get(place + ring) {
            self.ring[oldest] = next;
        }
        self.place += 1;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::super::OrderConfig;
    use super::*;

    /// The reader as it is described: one ring over the endless stream of all epochs, and for each epoch under way a
    /// window of counters from which may be picked.
    struct Twin {
        list: Vec<u32>,
        config: OrderConfig,
        ring: Vec<u32>,
        windows: VecDeque<Range<usize>>,
        random: MinStd,
        shard: u32,
        read: usize,
    }

    impl Twin {
        fn new(config: &OrderConfig, initial_fill: u32) -> Self {
            let mut list: Vec<u32> = (0..config.num_clips as u32).collect();
            shuffle(&mut list, LIST_SEED);
            let random = MinStd::from_seed_seq(config.seed);
            let windows: VecDeque<Range<usize>> = std::iter::once(0..0).collect();
            let mut twin = Self {
                list,
                config: config.clone(),
                ring: vec![],
                windows,
                random,
                shard: config.shard_id,
                read: 0,
            };
            for _ in 0..initial_fill {
                let sample = twin.next_of_stream();
                twin.ring.push(sample);
                twin.windows.back_mut().unwrap().end += 1;
            }
            twin
        }

        fn next_of_stream(&mut self) -> u32 {
            let (n, shards) = (self.list.len(), self.config.num_shards as usize);
            let begin = |shard: u32| n * shard as usize / shards;
            if begin(self.shard) + self.read == begin(self.shard + 1) {
                self.shard =
                    if self.config.stick_to_shard { self.shard } else { (self.shard + 1) % shards as u32 };
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
            let picked = self.windows[0].start + self.random.below(self.windows[0].len() as u32) as usize;
            let (fill, oldest) = (self.ring.len(), self.windows[0].start);
            self.ring.swap(picked % fill, oldest % fill);
            let out = self.ring[oldest % fill];
            self.ring[oldest % fill] = self.next_of_stream();
            self.windows[0].start += 1;
            self.windows.back_mut().unwrap().end += 1;
            out
        }
    }

    fn configs() -> impl Iterator<Item = (OrderConfig, u32)> {
        let shards = [(1, 0), (2, 1), (3, 0), (3, 2), (7, 4)];
        let all = [7, 10, 23, 100, 1001].into_iter().flat_map(move |n| {
            shards.into_iter().flat_map(move |s| {
                [1, 2, 4, 9, 64, 1024]
                    .into_iter()
                    .flat_map(move |f| [false, true].map(move |stick| (n, s, f, stick)))
            })
        });
        all.map(|(num_clips, (num_shards, shard_id), fill, stick_to_shard)| {
            let seed = num_clips + u64::from(fill);
            let config = OrderConfig {
                num_clips,
                num_shards,
                shard_id,
                stick_to_shard,
                seed,
                ..OrderConfig::default()
            };
            (config, fill)
        })
    }

    #[test]
    fn an_epoch_by_itself_is_what_the_endless_ring_delivers() {
        for (config, fill) in configs() {
            let reader = Reader::new(Shards::new(&config), config.seed, fill).unwrap();
            let (mut cursor, mut twin) = (reader.begin(), Twin::new(&config, fill));
            for epoch in 0..5 {
                let expected: Vec<u32> = (0..reader.len(epoch)).map(|_| twin.read_one()).collect();
                assert_eq!(
                    reader.read(&mut cursor, epoch, 0..u64::MAX),
                    expected,
                    "{config:?}, {fill}, {epoch}"
                );
            }
        }
    }

    #[test]
    fn wherever_the_cursor_was_a_place_has_its_clip() {
        for (config, fill) in configs().filter(|(c, _)| c.num_clips > 20) {
            let reader = Reader::new(Shards::new(&config), config.seed, fill).unwrap();
            let whole: Vec<_> = (0..4).map(|e| reader.read(&mut reader.begin(), e, 0..u64::MAX)).collect();
            let mut cursor = reader.begin();
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
                let places = begin.min(whole[epoch].len())..end.min(whole[epoch].len());
                let expected = whole[epoch].get(places.clone()).unwrap_or(&[]);
                let found = reader.read(&mut cursor, epoch as u64, places.start as u64..places.end as u64);
                assert_eq!(found, expected, "{config:?}, {fill}, {epoch}, {places:?}");
            }
        }
    }
}
