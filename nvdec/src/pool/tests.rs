//! In: decoders that are only counted.
//! Out: which of them the pool keeps, gives, changes and evicts.
//! Never: needs a driver.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::shape::Shape;
use super::shelf::{Make, Origin, Shelf};
use crate::caps::Caps;
use crate::format::{Chroma, Codec, StreamFormat};
use crate::{Error, Result};

const CAPS: Caps = Caps {
    supported: true,
    engines: 1,
    min_size: (16, 16),
    max_size: (8192, 8192),
    max_macroblocks: 262_144,
    layouts: 0b1111,
};

/// Decoders are numbers; those alive are listed, and only so many may be.
#[derive(Clone, Default)]
struct Fake {
    alive: Arc<Mutex<Vec<u64>>>,
    made: Arc<AtomicU64>,
    most_alive: usize,
    refuses_reconfigure: bool,
}

struct FakeDecoder {
    number: u64,
    alive: Arc<Mutex<Vec<u64>>>,
}

impl Drop for FakeDecoder {
    fn drop(&mut self) {
        self.alive.lock().unwrap().retain(|&number| number != self.number);
    }
}

impl Make for Fake {
    type Decoder = FakeDecoder;

    fn create(&self, _shape: &Shape) -> Result<FakeDecoder> {
        let mut alive = self.alive.lock().unwrap();
        if alive.len() >= self.most_alive {
            return Err(Error::OutOfMemory { what: "cuvidCreateDecoder".to_owned(), bytes: 0 });
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        alive.push(number);
        Ok(FakeDecoder { number, alive: self.alive.clone() })
    }

    fn reconfigure(&self, _decoder: &mut FakeDecoder, _shape: &Shape) -> Result<()> {
        match self.refuses_reconfigure {
            true => Err(Error::Misuse("no")),
            false => Ok(()),
        }
    }
}

fn stream(coded_size: (u32, u32), min_surfaces: u32) -> StreamFormat {
    StreamFormat { codec: Codec::H264, chroma: Chroma::C420, depth_bits: 8, coded_size, min_surfaces }
}

fn shelf(fake: &Fake, limit_bytes: u64) -> Shelf<Fake> {
    Shelf::new(fake.clone(), limit_bytes)
}

fn fake(most_alive: usize) -> Fake {
    Fake { most_alive, ..Fake::default() }
}

impl Shelf<Fake> {
    /// Takes for a stream and tells which decoder came, and how.
    fn get(&self, want: StreamFormat) -> Result<(super::shelf::Pooled<FakeDecoder>, u64, Origin)> {
        let (pooled, origin) = self.take(&want, Shape::of(&want, &CAPS))?;
        let number = pooled.decoder.number;
        Ok((pooled, number, origin))
    }
}

#[test]
fn a_decoder_comes_back_as_it_was_or_reconfigured_within_its_bucket() {
    let fake = fake(10);
    let shelf = shelf(&fake, u64::MAX);
    let (first, number, origin) = shelf.get(stream((1280, 720), 4)).unwrap();
    assert_eq!((number, origin), (0, Origin::Created));
    shelf.put(first);
    let (first, number, origin) = shelf.get(stream((1280, 720), 4)).unwrap();
    assert_eq!((number, origin), (0, Origin::Reused));
    let (second, number, origin) = shelf.get(stream((1280, 720), 4)).unwrap();
    assert_eq!((number, origin), (1, Origin::Created), "the first one is in use");
    shelf.put(first);
    shelf.put(second);
    let (third, number, origin) = shelf.get(stream((1024, 720), 4)).unwrap();
    assert_eq!((number, origin), (1, Origin::Reconfigured), "the last used one");
    assert_eq!(third.shape.format.coded_size, (1024, 720));
    let (_, number, origin) = shelf.get(stream((640, 480), 4)).unwrap();
    assert_eq!((number, origin), (2, Origin::Created), "another bucket: it would waste the large one");
    let counts = shelf.counts();
    assert_eq!((counts.created, counts.reused, counts.reconfigured, counts.idle), (3, 1, 1, 1));
}

#[test]
fn a_decoder_with_too_few_surfaces_is_not_taken() {
    let fake = fake(10);
    let shelf = shelf(&fake, u64::MAX);
    let (first, ..) = shelf.get(stream((1280, 720), 4)).unwrap();
    shelf.put(first);
    let (second, number, origin) = shelf.get(stream((1280, 720), 9)).unwrap();
    assert_eq!((number, origin), (1, Origin::Created));
    assert_eq!(second.shape.surfaces, 13);
}

#[test]
fn the_longest_unused_go_when_all_weigh_too_much() {
    let fake = fake(10);
    let weight = Shape::of(&stream((1920, 1088), 4), &CAPS).bytes();
    let shelf = shelf(&fake, 2 * weight);
    let taken: Vec<_> = (0..3).map(|_| shelf.get(stream((1920, 1088), 4)).unwrap().0).collect();
    assert_eq!(fake.alive.lock().unwrap().len(), 3, "those in use stay, whatever the limit");
    for pooled in taken {
        shelf.put(pooled);
    }
    assert_eq!(*fake.alive.lock().unwrap(), [1, 2], "the first one given back went");
    assert_eq!(shelf.counts().bytes, 2 * weight);
    // Making another one makes room first.
    let (other, ..) = shelf.get(StreamFormat { codec: Codec::Hevc, ..stream((1920, 1088), 4) }).unwrap();
    assert_eq!(*fake.alive.lock().unwrap(), [2, 3]);
    shelf.set_limit_bytes(0);
    assert_eq!(*fake.alive.lock().unwrap(), [3], "the one in use");
    drop(other);
    assert_eq!(shelf.counts().bytes, 0, "a decoder that is thrown away weighs nothing");
    assert_eq!(shelf.counts().evicted, 3);
}

#[test]
fn memory_that_runs_out_takes_the_idle_ones_and_tries_once_more() {
    let fake = fake(2);
    let shelf = shelf(&fake, u64::MAX);
    let (a, ..) = shelf.get(stream((640, 480), 4)).unwrap();
    let (b, ..) = shelf.get(stream((640, 480), 4)).unwrap();
    shelf.put(a);
    let (c, number, _) = shelf.get(stream((1920, 1088), 4)).unwrap();
    assert_eq!((number, shelf.counts().evicted), (2, 1));
    let error = shelf.get(stream((1280, 720), 4)).err().expect("two are in use");
    match &error {
        Error::OutOfMemory { what, bytes } => {
            assert!(what.contains("1280x736") && *bytes > 32 << 20, "{error}")
        }
        other => panic!("{other}"),
    }
    drop((b, c));
    assert!(shelf.get(stream((1280, 720), 4)).is_ok());
}

#[test]
fn a_decoder_that_cannot_be_reconfigured_is_replaced() {
    let fake = Fake { refuses_reconfigure: true, ..fake(10) };
    let shelf = shelf(&fake, u64::MAX);
    let (first, ..) = shelf.get(stream((1280, 720), 4)).unwrap();
    shelf.put(first);
    let (_second, number, origin) = shelf.get(stream((1024, 720), 4)).unwrap();
    assert_eq!((number, origin), (1, Origin::Created));
    assert_eq!(*fake.alive.lock().unwrap(), [1]);
}
