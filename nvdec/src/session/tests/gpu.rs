//! In: what a run asks of a GPU and of a parser.
//! Out: answers from a script, and a record of what was asked.
//! Never: needs a driver.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::format::{Codec, Facts, Rect4};
use crate::parser::Callbacks;
use crate::pool::decoder::MapHow;
use crate::pool::shape::{surfaces_for, Fit, Shape};
use crate::pool::shelf::Origin;
use crate::session::run::{Backend, Halt, Packet, Run};
use crate::session::{Surface, Unit};
use crate::sys;
use crate::{Error, Result};

/// What the parser calls back.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// Coded size, and the surfaces that the stream needs.
    Sequence(u32, u32, u8),
    /// As `Sequence`, with so many rows shown.
    Cropped(u32, u32, u8, i32),
    /// A frame with this label, into this surface.
    Decode(i32, u32),
    /// A first field, and the second one of the same picture.
    First(i32, u32),
    Second(i32, u32),
    /// The picture in this surface, with this timestamp.
    Show(i32, i64),
    /// Whatever the callbacks answered, the driver says that all is well.
    AllIsWell,
}

pub use Call::*;

/// A decoder: its shape, and the label of the picture in each surface.
pub struct FakeDecoder {
    number: u32,
    shape: Shape,
    held: BTreeMap<i32, u32>,
    mapped: Option<u64>,
}

/// What happened on the GPU, and what it is told to answer.
#[derive(Default)]
pub struct World {
    pub log: Vec<String>,
    pub taken: u32,
    /// How often it was asked how decoding went.
    pub asked: u32,
    /// Decode status by label; 2 is well.
    pub status: BTreeMap<u32, u32>,
    /// No decoder can be set up for another size.
    pub rigid: bool,
    /// The decode of this label fails.
    pub failing: Option<u32>,
    /// How many more times a status is "in progress".
    pub slow_answers: u32,
}

#[derive(Clone, Default)]
pub struct Fake(pub Rc<RefCell<World>>);

impl Fake {
    fn say(&self, text: String) {
        self.0.borrow_mut().log.push(text);
    }
}

impl Backend for Fake {
    type Decoder = FakeDecoder;

    fn take(&mut self, facts: &Facts) -> Result<(FakeDecoder, Origin)> {
        let (max_size, surfaces) = (facts.format.coded_size, surfaces_for(facts.format.min_surfaces));
        let number = self.0.borrow().taken;
        self.0.borrow_mut().taken += 1;
        self.say(format!("take {number}"));
        let shape = Shape { format: facts.format, max_size, surfaces };
        Ok((FakeDecoder { number, shape, held: BTreeMap::new(), mapped: None }, Origin::Created))
    }

    fn put(&mut self, decoder: FakeDecoder) {
        assert_eq!(decoder.mapped, None, "given back with a picture mapped");
        self.say(format!("put {}", decoder.number));
    }

    fn fit(&self, decoder: &FakeDecoder, facts: &Facts) -> Fit {
        decoder.shape.fit(&facts.format)
    }

    fn reconfigure(&mut self, decoder: &mut FakeDecoder, facts: &Facts) -> Result<()> {
        let (width, height) = facts.format.coded_size;
        if self.0.borrow().rigid {
            return Err(Error::Misuse("it cannot be reconfigured"));
        }
        decoder.shape.format = facts.format;
        self.say(format!("reconfigure {width}x{height}"));
        Ok(())
    }

    fn surfaces(&self, decoder: &FakeDecoder) -> u32 {
        decoder.shape.surfaces
    }

    fn decode(&mut self, decoder: &mut FakeDecoder, picture: &mut sys::CUVIDPICPARAMS) -> Result<()> {
        let (index, label) = (picture.CurrPicIdx, picture.nBitstreamDataLen);
        assert!((index as u32) < decoder.shape.surfaces);
        if self.0.borrow().failing == Some(label) {
            let name = "CUDA_ERROR_INVALID_VALUE".to_owned();
            return Err(Error::Call { call: "cuvidDecodePicture", code: 1, name, text: String::new() });
        }
        decoder.held.insert(index, label);
        self.say(format!("decode {label}"));
        Ok(())
    }

    fn map(&mut self, decoder: &mut FakeDecoder, index: i32, _how: &MapHow) -> Result<(u64, usize)> {
        assert_eq!(decoder.mapped, None, "two pictures mapped");
        let label = *decoder.held.get(&index).expect("a surface that was decoded into");
        // The label, where the test finds it again.
        let address = u64::from(label) << 32;
        decoder.mapped = Some(address);
        self.say(format!("map {label}"));
        Ok((address, 4096))
    }

    fn unmap(&mut self, decoder: &mut FakeDecoder, address: u64) -> Result<()> {
        assert_eq!(decoder.mapped.take(), Some(address));
        Ok(())
    }

    fn status(&mut self, decoder: &mut FakeDecoder, index: i32) -> Result<u32> {
        self.0.borrow_mut().asked += 1;
        if self.0.borrow().slow_answers > 0 {
            self.0.borrow_mut().slow_answers -= 1;
            return Ok(1);
        }
        let label = decoder.held.get(&index).copied().unwrap_or(0);
        Ok(self.0.borrow().status.get(&label).copied().unwrap_or(2))
    }
}

impl Drop for FakeDecoder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.mapped, None, "destroyed with a picture mapped");
        }
    }
}

/// A run with its script.
pub struct Script {
    run: Run<Fake>,
    codec: Codec,
    pub gpu: Fake,
    /// Ids and labels of the pictures handed on.
    pub got: Vec<(u32, u32)>,
    pub surfaces: Vec<Surface>,
    /// What the last sequence callback answered.
    pub room: i32,
    /// The taker breaks, or panics, at this id.
    pub break_at: Option<u32>,
    pub panic_at: Option<u32>,
}

impl Script {
    pub fn new(codec: Codec) -> Script {
        let gpu = Fake::default();
        Script {
            run: Run::new(gpu.clone(), codec),
            codec,
            gpu,
            got: Vec::new(),
            surfaces: Vec::new(),
            room: 0,
            break_at: None,
            panic_at: None,
        }
    }

    /// Feeds a unit, during which the parser calls back so.
    pub fn feed(&mut self, unit: Unit<'_>, calls: &[Call]) -> Result<(), Halt> {
        self.step(calls, |run, each, parse| run.feed(&unit, each, parse))
    }

    pub fn finish(&mut self, calls: &[Call]) -> Result<(), Halt> {
        self.step(calls, |run, each, parse| run.finish(each, parse))
    }

    pub fn counts(&self) -> crate::session::Counts {
        self.run.counts
    }

    pub fn release(self) -> Vec<String> {
        self.run.release();
        let log = self.gpu.0.borrow().log.clone();
        log
    }

    pub fn log(&self) -> Vec<String> {
        self.gpu.0.borrow().log.clone()
    }

    fn step(
        &mut self,
        calls: &[Call],
        step: impl FnOnce(
            &mut Run<Fake>,
            &mut crate::session::run::Each<'_>,
            &mut dyn FnMut(Packet<'_>, &mut dyn Callbacks) -> Result<()>,
        ) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let (got, surfaces) = (&mut self.got, &mut self.surfaces);
        let (break_at, panic_at) = (self.break_at, self.panic_at);
        let mut each = |id: u32, surface: &Surface| {
            assert_ne!(panic_at, Some(id), "the taker panics");
            got.push((id, (surface.address >> 32) as u32));
            surfaces.push(*surface);
            match break_at == Some(id) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let (codec, room) = (self.codec, &mut self.room);
        let mut parse =
            |_packet: Packet<'_>, callbacks: &mut dyn Callbacks| play(codec, calls, callbacks, room);
        step(&mut self.run, &mut each, &mut parse)
    }
}

/// Calls back as scripted; like the driver, it goes on after a failure only where it does not notice.
fn play(codec: Codec, calls: &[Call], callbacks: &mut dyn Callbacks, room: &mut i32) -> Result<()> {
    let mut failed = false;
    for call in calls {
        let answer = match *call {
            Sequence(width, height, min) => {
                sequence(codec, (width, height), min, height as i32, callbacks, room)
            }
            Cropped(width, height, min, rows) => sequence(codec, (width, height), min, rows, callbacks, room),
            Decode(index, label) => callbacks.decode(&mut picture(index, label, 0, 0)),
            First(index, label) => callbacks.decode(&mut picture(index, label, 1, 0)),
            Second(index, label) => callbacks.decode(&mut picture(index, label, 1, 1)),
            Show(index, timestamp) => {
                let info = sys::CUVIDPARSERDISPINFO { picture_index: index, timestamp, ..Default::default() };
                callbacks.display(&info)
            }
            AllIsWell => {
                failed = false;
                1
            }
        };
        failed |= answer == 0;
    }
    match failed {
        true => {
            Err(Error::Refused { what: "a unit".to_owned(), bytes: 0, code: 999, name: "UNKNOWN".to_owned() })
        }
        false => Ok(()),
    }
}

fn picture(index: i32, label: u32, field: i32, second: i32) -> sys::CUVIDPICPARAMS {
    sys::CUVIDPICPARAMS {
        CurrPicIdx: index,
        nBitstreamDataLen: label,
        field_pic_flag: field,
        second_field: second,
        ..Default::default()
    }
}

fn sequence(
    codec: Codec,
    size: (u32, u32),
    min: u8,
    rows: i32,
    callbacks: &mut dyn Callbacks,
    room: &mut i32,
) -> i32 {
    *room = callbacks.sequence(&format(codec, size, min, rows));
    *room
}

/// An 8-bit 4:2:0 sequence.
pub fn format(codec: Codec, (width, height): (u32, u32), min: u8, rows: i32) -> sys::CUVIDEOFORMAT {
    let mut format = sys::CUVIDEOFORMAT {
        codec: codec.number(),
        progressive_sequence: 1,
        min_num_decode_surfaces: min,
        coded_width: width,
        coded_height: height,
        chroma_format: sys::cudaVideoChromaFormat_420,
        ..Default::default()
    };
    (format.display_area.right, format.display_area.bottom) = (width as i32, rows);
    format
}

/// A frame in a unit of its own, wanted.
pub fn frame(id: u32, order: i64) -> Unit<'static> {
    Unit {
        data: &[0, 0, 1, 0x65, 0x88],
        id,
        order,
        wanted: true,
        decode: true,
        whole_picture: true,
        shows: 1,
    }
}

pub fn unwanted(id: u32, order: i64) -> Unit<'static> {
    Unit { wanted: false, ..frame(id, order) }
}

pub fn needless(id: u32, order: i64) -> Unit<'static> {
    Unit { wanted: false, decode: false, ..frame(id, order) }
}

/// The error of a halt.
pub fn error(result: Result<(), Halt>) -> Error {
    match result {
        Err(Halt::Error(error)) => error,
        other => panic!("an error was expected, not {other:?}"),
    }
}

/// The part of a picture that is shown.
pub fn shown(surface: &Surface) -> Rect4 {
    surface.display
}
