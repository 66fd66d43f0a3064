//! Tests the decoder cache with decoders that are only counted: which are kept, reused,
//! reconfigured and evicted. They need no driver.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use super::decoder_cache::{CacheOutcome, DecoderCache, DecoderFactory};
use super::decoder_config::DecoderConfig;
use crate::caps::Caps;
use crate::format::{Chroma, Codec, StreamFormat};
use crate::{Error, Result};

const CAPS: Caps = Caps {
    supported: true,
    engines: 1,
    min_size: (16, 16),
    max_size: (8192, 8192),
    max_macroblocks: 262_144,
    surface_formats: 0b1111,
};

/// Decoders are numbers. Those alive are listed, and their number is limited.
#[derive(Clone, Default)]
struct FakeFactory {
    alive: Arc<Mutex<Vec<u64>>>,
    num_created: Arc<AtomicU64>,
    max_alive: usize,
    refuses_reconfigure: bool,
    /// The first two calls that find no memory return together.
    fail_together: Option<Arc<Barrier>>,
    num_failed: Arc<AtomicU64>,
}

struct FakeDecoder {
    number: u64,
    alive: Arc<Mutex<Vec<u64>>>,
}

impl Drop for FakeDecoder {
    fn drop(&mut self) {
        self.alive
            .lock()
            .unwrap()
            .retain(|&number| number != self.number);
    }
}

impl DecoderFactory for FakeFactory {
    type Decoder = FakeDecoder;

    fn create(&self, _config: &DecoderConfig) -> Result<FakeDecoder> {
        let mut alive = self.alive.lock().unwrap();
        if alive.len() >= self.max_alive {
            drop(alive);
            let is_early = self.num_failed.fetch_add(1, Ordering::Relaxed) < 2;
            if let Some(both) = self.fail_together.as_ref().filter(|_| is_early) {
                both.wait();
            }
            return Err(Error::OutOfMemory {
                what: "cuvidCreateDecoder".to_owned(),
                bytes: 0,
            });
        }
        let number = self.num_created.fetch_add(1, Ordering::Relaxed);
        alive.push(number);
        Ok(FakeDecoder {
            number,
            alive: self.alive.clone(),
        })
    }

    fn reconfigure(&self, _decoder: &mut FakeDecoder, _config: &DecoderConfig) -> Result<()> {
        match self.refuses_reconfigure {
            true => Err(Error::Misuse("no")),
            false => Ok(()),
        }
    }
}

fn stream(coded_size: (u32, u32), min_surfaces: u32) -> StreamFormat {
    StreamFormat {
        codec: Codec::H264,
        chroma: Chroma::C420,
        depth_bits: 8,
        coded_size,
        min_surfaces,
    }
}

fn cache(factory: &FakeFactory, limit_bytes: u64) -> DecoderCache<FakeFactory> {
    DecoderCache::new(factory.clone(), limit_bytes)
}

fn factory(max_alive: usize) -> FakeFactory {
    FakeFactory {
        max_alive,
        ..FakeFactory::default()
    }
}

impl DecoderCache<FakeFactory> {
    /// Gets a decoder for a stream and returns its number and the outcome.
    fn get(
        &self,
        want: StreamFormat,
    ) -> Result<(
        super::decoder_cache::CachedDecoder<FakeDecoder>,
        u64,
        CacheOutcome,
    )> {
        let (cached, outcome) = self.take(&want, DecoderConfig::for_stream(&want, &CAPS))?;
        let number = cached.decoder.number;
        Ok((cached, number, outcome))
    }
}

#[test]
fn decoder_is_reused_or_reconfigured_in_its_bucket() {
    let factory = factory(10);
    let cache = cache(&factory, u64::MAX);
    let (first, number, outcome) = cache.get(stream((1280, 720), 4)).unwrap();
    assert_eq!((number, outcome), (0, CacheOutcome::Created));
    cache.put(first);
    let (first, number, outcome) = cache.get(stream((1280, 720), 4)).unwrap();
    assert_eq!((number, outcome), (0, CacheOutcome::Reused));
    let (second, number, outcome) = cache.get(stream((1280, 720), 4)).unwrap();
    assert_eq!(
        (number, outcome),
        (1, CacheOutcome::Created),
        "the first one is in use"
    );
    cache.put(first);
    cache.put(second);
    let (third, number, outcome) = cache.get(stream((1024, 720), 4)).unwrap();
    assert_eq!(
        (number, outcome),
        (1, CacheOutcome::Reconfigured),
        "the last used one"
    );
    assert_eq!(third.config.format.coded_size, (1024, 720));
    let (_, number, outcome) = cache.get(stream((640, 480), 4)).unwrap();
    assert_eq!(
        (number, outcome),
        (2, CacheOutcome::Created),
        "another bucket: the large one would be wasted"
    );
    let stats = cache.stats();
    assert_eq!(
        (stats.created, stats.reused, stats.reconfigured, stats.idle),
        (3, 1, 1, 1)
    );
}

#[test]
fn a_decoder_with_too_few_surfaces_is_not_taken() {
    let factory = factory(10);
    let cache = cache(&factory, u64::MAX);
    let (first, ..) = cache.get(stream((1280, 720), 4)).unwrap();
    cache.put(first);
    let (second, number, outcome) = cache.get(stream((1280, 720), 9)).unwrap();
    assert_eq!((number, outcome), (1, CacheOutcome::Created));
    assert_eq!(second.config.surfaces, 13);
}

#[test]
fn least_recently_used_are_evicted_over_the_limit() {
    let factory = factory(10);
    let weight = DecoderConfig::for_stream(&stream((1920, 1088), 4), &CAPS).estimated_bytes();
    let cache = cache(&factory, 2 * weight);
    let taken: Vec<_> = (0..3)
        .map(|_| cache.get(stream((1920, 1088), 4)).unwrap().0)
        .collect();
    assert_eq!(
        factory.alive.lock().unwrap().len(),
        3,
        "those in use stay at any limit"
    );
    for cached in taken {
        cache.put(cached);
    }
    assert_eq!(
        *factory.alive.lock().unwrap(),
        [1, 2],
        "the first one returned was evicted"
    );
    assert_eq!(cache.stats().bytes, 2 * weight);
    // Creating another one makes room first.
    let (other, ..) = cache
        .get(StreamFormat {
            codec: Codec::Hevc,
            ..stream((1920, 1088), 4)
        })
        .unwrap();
    assert_eq!(*factory.alive.lock().unwrap(), [2, 3]);
    cache.clear();
    assert_eq!(*factory.alive.lock().unwrap(), [3], "the one in use");
    drop(other);
    assert_eq!(cache.stats().bytes, 0, "a destroyed decoder has no weight");
    assert_eq!(cache.stats().evicted, 3);
}

#[test]
fn out_of_memory_evicts_idle_ones_and_retries_once() {
    let factory = factory(2);
    let cache = cache(&factory, u64::MAX);
    let (a, ..) = cache.get(stream((640, 480), 4)).unwrap();
    let (b, ..) = cache.get(stream((640, 480), 4)).unwrap();
    cache.put(a);
    let (c, number, _) = cache.get(stream((1920, 1088), 4)).unwrap();
    assert_eq!((number, cache.stats().evicted), (2, 1));
    let error = cache
        .get(stream((1280, 720), 4))
        .err()
        .expect("two are in use");
    match &error {
        Error::OutOfMemory { what, bytes } => {
            assert!(what.contains("1280x736") && *bytes > 32 << 20, "{error}")
        }
        other => panic!("{other}"),
    }
    drop((b, c));
    assert!(cache.get(stream((1280, 720), 4)).is_ok());
}

#[test]
fn two_threads_without_memory_share_what_idle_decoders_free() {
    let factory = FakeFactory {
        fail_together: Some(Arc::new(Barrier::new(2))),
        ..factory(2)
    };
    let cache = cache(&factory, u64::MAX);
    let idle = [0, 1].map(|_| cache.get(stream((640, 480), 4)).unwrap().0);
    idle.into_iter().for_each(|decoder| cache.put(decoder));
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| {
            scope.spawn(|| {
                cache
                    .get(stream((1920, 1088), 4))
                    .map(|(cached, ..)| cached)
            })
        });
        let made = threads.map(|thread| thread.join().unwrap());
        assert!(
            made.iter().all(Result::is_ok),
            "{:?}",
            made.iter().map(|m| m.as_ref().err()).collect::<Vec<_>>()
        );
    });
    assert_eq!(
        (
            factory.num_failed.load(Ordering::Relaxed),
            cache.stats().evicted
        ),
        (2, 2)
    );
}

#[test]
fn failed_reconfiguration_creates_a_decoder() {
    let factory = FakeFactory {
        refuses_reconfigure: true,
        ..factory(10)
    };
    let cache = cache(&factory, u64::MAX);
    let (first, ..) = cache.get(stream((1280, 720), 4)).unwrap();
    cache.put(first);
    let (_second, number, outcome) = cache.get(stream((1024, 720), 4)).unwrap();
    assert_eq!((number, outcome), (1, CacheOutcome::Created));
    assert_eq!(*factory.alive.lock().unwrap(), [1]);
}
