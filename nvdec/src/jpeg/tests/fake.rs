//! In: what a decoder asks of nvJPEG.
//! Out: a machine on paper, on which decoding begins at the call and readers end when they are waited for.
//! Never: forgives: each use of what another still uses is written down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::api::Backend;
use super::super::engine::Engine;
use super::super::facts::Facts;
use super::super::layout::Info;
use super::super::sys::Image;
use super::info_of;
use crate::{Error, Result};

#[derive(Default)]
pub struct World {
    backends: Vec<Backend>,
    /// Operations given to the stream, and those that the host knows to be over.
    given: u64,
    known: u64,
    /// Blocks and states: the last operation that uses each.
    used: BTreeMap<u64, u64>,
    next: u64,
    calls: u64,
    pub waits: Vec<u64>,
    pub asked: u32,
    pub states_made: u32,
    pub allocated: Vec<usize>,
    pub live_bytes: usize,
    pub complaints: Vec<String>,
    /// The hardware says that a file does not suit it.
    pub unsuited: bool,
    /// Decoding by this backend fails.
    pub failing: Option<(Backend, Error)>,
    pub full: bool,
    /// This call, counted from 0, fails.
    pub fails_at: Option<u64>,
}

#[derive(Clone)]
pub struct Fake(Rc<RefCell<World>>);

pub struct FakeState {
    number: u64,
    backend: Backend,
    world: Fake,
}

pub struct FakeMemory {
    address: u64,
    bytes: usize,
    world: Fake,
}

impl World {
    fn touch(&mut self, what: &str, thing: u64) {
        if self.used.get(&thing).is_some_and(|&place| place > self.known) {
            self.complaints.push(format!("{what} {thing:#x}, which is still in use"));
        }
    }

    fn call(&mut self) -> Result<()> {
        self.calls += 1;
        match self.fails_at == Some(self.calls - 1) {
            true => Err(Error::Jpeg { call: "a call", status: 6, name: "NVJPEG_STATUS_EXECUTION_FAILED" }),
            false => Ok(()),
        }
    }
}

impl Fake {
    pub fn new(backends: &[Backend]) -> Fake {
        let world = World { backends: backends.to_vec(), next: 1 << 20, ..World::default() };
        Fake(Rc::new(RefCell::new(world)))
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.0.borrow_mut())
    }

    /// A reader of the planes at this address, in the stream.
    pub fn read(&self, address: u64) {
        self.with(|world| {
            world.given += 1;
            let given = world.given;
            world.used.insert(address, given);
        });
    }

    pub fn waits(&self) -> Vec<u64> {
        self.with(|world| world.waits.clone())
    }

    pub fn asked(&self) -> u32 {
        self.with(|world| world.asked)
    }

    #[track_caller]
    pub fn content(&self) {
        assert_eq!(self.with(|world| world.complaints.clone()), Vec::<String>::new());
    }
}

impl Engine for Fake {
    type State = FakeState;
    type Memory = FakeMemory;
    type Mark = u64;

    fn has(&mut self, backend: Backend) -> Result<bool> {
        self.with(|world| world.call().map(|()| world.backends.contains(&backend)))
    }

    fn suits(&mut self, _file: &[u8]) -> Result<bool> {
        self.with(|world| {
            world.asked += 1;
            world.call().map(|()| !world.unsuited)
        })
    }

    fn info(&mut self, _backend: Backend, file: &[u8]) -> Result<Info> {
        self.with(World::call)?;
        Ok(info_of(&Facts::read(file)?))
    }

    fn state(&mut self, backend: Backend) -> Result<FakeState> {
        self.with(|world| {
            world.call()?;
            (world.next, world.states_made) = (world.next + 1, world.states_made + 1);
            Ok(FakeState { number: world.next, backend, world: self.clone() })
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<FakeMemory> {
        self.with(|world| {
            world.call()?;
            if world.full {
                return Err(Error::OutOfMemory { what: "planes".into(), bytes: bytes as u64 });
            }
            world.allocated.push(bytes);
            world.live_bytes += bytes;
            let address = world.next.next_multiple_of(256);
            world.next = address + bytes as u64;
            Ok(FakeMemory { address, bytes, world: self.clone() })
        })
    }

    fn place(memory: &FakeMemory) -> (u64, usize) {
        (memory.address, memory.bytes)
    }

    fn decode(&mut self, state: &mut FakeState, file: &[u8], is_gray: bool, image: &Image) -> Result<()> {
        let facts = Facts::read(file)?;
        assert_eq!(is_gray, facts.components == 1);
        assert_eq!(image.channel[1] == 0, is_gray);
        self.with(|world| {
            // It begins now, whatever the stream holds; a failure may come after that.
            world.touch("decoded into", image.channel[0]);
            world.touch("decoded with state", state.number);
            world.given += 1;
            let given = world.given;
            world.used.extend([(image.channel[0], given), (state.number, given)]);
            world.call()?;
            match &world.failing {
                Some((backend, error)) if *backend == state.backend => Err(error.clone()),
                _ => Ok(()),
            }
        })
    }

    fn mark(&mut self) -> Result<u64> {
        self.with(|world| world.call().map(|()| world.given))
    }

    fn wait(&mut self, mark: &u64) -> Result<()> {
        self.with(|world| {
            world.call()?;
            world.waits.push(*mark);
            world.known = world.known.max(*mark);
            Ok(())
        })
    }

    fn settle(&mut self) -> Result<()> {
        self.with(|world| {
            world.known = world.given; // a failure is told by a device that runs nothing any more
            world.call()
        })
    }
}

impl Drop for FakeState {
    fn drop(&mut self) {
        self.world.with(|world| world.touch("destroyed state", self.number));
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        self.world.with(|world| {
            world.touch("freed", self.address);
            world.live_bytes -= self.bytes;
        });
    }
}
