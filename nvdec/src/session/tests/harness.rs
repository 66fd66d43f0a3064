//! A fake GPU and a scripted parser for a decoding pass, with a log of the pass's calls. It needs
//! no driver.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::format::{Codec, Rect, SequenceInfo};
use crate::parser::Callbacks;
use crate::pool::decoder_cache::CacheOutcome;
use crate::pool::decoder_config::{Compatibility, DecoderConfig, num_decode_surfaces};
use crate::session::decode_pass::{DecodePass, DecoderDriver, Packet, StopReason};
use crate::session::{AccessUnit, Surface};
use crate::sys;
use crate::{Error, Result};

/// A callback of the parser.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// Coded size, and the surfaces that the stream needs.
    Sequence(u32, u32, u8),
    /// Like `Sequence`, with this many rows displayed.
    Cropped(u32, u32, u8, i32),
    /// A frame with this label, into this surface.
    Decode(i32, u32),
    /// Like `Decode`, with more bytes than the unit has.
    DecodeLong(i32, u32),
    /// A first field, and the second one of the same picture.
    FirstField(i32, u32),
    SecondField(i32, u32),
    /// The picture in this surface, with this timestamp.
    Display(i32, i64),
    /// The driver reports success for every result of the callbacks.
    ReturnSuccess,
}

pub(super) use Call::*;

/// Length of the units in these tests, and of their pictures.
const BYTES: u32 = 5;

/// A decoder: its configuration, and the label of the picture in each surface.
pub(crate) struct FakeDecoder {
    number: u32,
    config: DecoderConfig,
    surfaces: BTreeMap<i32, u32>,
    mapped: Option<u64>,
    /// Surfaces whose picture was mapped.
    was_mapped: BTreeSet<i32>,
}

/// Events on the fake GPU, and the answers that it is set to give.
#[derive(Default)]
pub(crate) struct FakeGpu {
    pub log: Vec<String>,
    pub taken: u32,
    /// How many decode statuses were queried.
    pub status_queries: u32,
    /// Decode status by label; 2 is success.
    pub status: BTreeMap<u32, u32>,
    /// No decoder can be set up for another size.
    pub reconfigure_fails: bool,
    /// The decode of this label fails.
    pub failing: Option<u32>,
    /// How many more times a status is "in progress".
    pub in_progress_answers: u32,
    /// How long a query of a status takes.
    pub status_query_time: std::time::Duration,
    /// The status of a picture is "in progress" until it was mapped.
    pub status_needs_map: bool,
}

#[derive(Clone, Default)]
pub(crate) struct FakeDriver(pub Rc<RefCell<FakeGpu>>);

impl FakeDriver {
    fn record(&self, text: String) {
        self.0.borrow_mut().log.push(text);
    }
}

impl DecoderDriver for FakeDriver {
    type Decoder = FakeDecoder;

    fn take(&mut self, sequence: &SequenceInfo) -> Result<(FakeDecoder, CacheOutcome)> {
        let (max_size, surfaces) = (
            sequence.format.coded_size,
            num_decode_surfaces(sequence.format.min_surfaces),
        );
        let number = self.0.borrow().taken;
        self.0.borrow_mut().taken += 1;
        self.record(format!("take {number}"));
        let config = DecoderConfig {
            format: sequence.format,
            max_size,
            surfaces,
        };
        Ok((
            FakeDecoder {
                number,
                config,
                surfaces: BTreeMap::new(),
                mapped: None,
                was_mapped: BTreeSet::new(),
            },
            CacheOutcome::Created,
        ))
    }

    fn put(&mut self, decoder: FakeDecoder) {
        assert_eq!(decoder.mapped, None, "returned with a picture mapped");
        self.record(format!("put {}", decoder.number));
    }

    fn compatibility(&self, decoder: &FakeDecoder, sequence: &SequenceInfo) -> Compatibility {
        decoder.config.compatibility(&sequence.format)
    }

    fn reconfigure(&mut self, decoder: &mut FakeDecoder, sequence: &SequenceInfo) -> Result<()> {
        let (width, height) = sequence.format.coded_size;
        if self.0.borrow().reconfigure_fails {
            return Err(Error::Misuse("it cannot be reconfigured"));
        }
        decoder.config.format = sequence.format;
        self.record(format!("reconfigure {width}x{height}"));
        Ok(())
    }

    fn surfaces(&self, decoder: &FakeDecoder) -> u32 {
        decoder.config.surfaces
    }

    fn decode(
        &mut self,
        decoder: &mut FakeDecoder,
        picture: &mut sys::CUVIDPICPARAMS,
    ) -> Result<()> {
        let (index, label) = (picture.CurrPicIdx, picture.nNumSlices);
        assert!((index as u32) < decoder.config.surfaces);
        if self.0.borrow().failing == Some(label) {
            let name = "CUDA_ERROR_INVALID_VALUE".to_owned();
            return Err(Error::Call {
                call: "cuvidDecodePicture",
                code: 1,
                name,
                text: String::new(),
            });
        }
        decoder.surfaces.insert(index, label);
        decoder.was_mapped.remove(&index);
        self.record(format!("decode {label}"));
        Ok(())
    }

    fn map(&mut self, decoder: &mut FakeDecoder, index: i32) -> Result<(u64, usize)> {
        assert_eq!(decoder.mapped, None, "two pictures mapped");
        let label = *decoder
            .surfaces
            .get(&index)
            .expect("a surface that was decoded into");
        // The label, at the place of the address, where the test reads it.
        let address = u64::from(label) << 32;
        decoder.mapped = Some(address);
        decoder.was_mapped.insert(index);
        self.record(format!("map {label}"));
        Ok((address, 4096))
    }

    fn unmap(&mut self, decoder: &mut FakeDecoder, address: u64) -> Result<()> {
        assert_eq!(decoder.mapped.take(), Some(address));
        Ok(())
    }

    fn status(&mut self, decoder: &mut FakeDecoder, index: i32) -> Result<u32> {
        self.0.borrow_mut().status_queries += 1;
        std::thread::sleep(self.0.borrow().status_query_time);
        if self.0.borrow().in_progress_answers > 0 {
            self.0.borrow_mut().in_progress_answers -= 1;
            return Ok(1);
        }
        if self.0.borrow().status_needs_map && !decoder.was_mapped.contains(&index) {
            return Ok(1);
        }
        let label = decoder.surfaces.get(&index).copied().unwrap_or(0);
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

/// A pass with its script.
pub(crate) struct ScriptedPass {
    pass: DecodePass<FakeDriver>,
    codec: Codec,
    pub gpu: FakeDriver,
    /// Ids and labels of the pictures delivered.
    pub delivered: Vec<(u32, u32)>,
    pub surfaces: Vec<Surface>,
    /// Flags of the units that were fed.
    pub flags: Vec<u32>,
    /// The last sequence callback's return value.
    pub returned_surfaces: i32,
    /// The consumer breaks, or panics, at this id.
    pub break_at: Option<u32>,
    pub panic_at: Option<u32>,
}

impl ScriptedPass {
    pub(super) fn new(codec: Codec) -> ScriptedPass {
        let gpu = FakeDriver::default();
        ScriptedPass {
            pass: DecodePass::new(gpu.clone(), codec),
            codec,
            gpu,
            delivered: Vec::new(),
            surfaces: Vec::new(),
            flags: Vec::new(),
            returned_surfaces: 0,
            break_at: None,
            panic_at: None,
        }
    }

    /// Feeds a unit, during which the parser makes these callbacks.
    pub(super) fn feed(&mut self, unit: AccessUnit<'_>, calls: &[Call]) -> Result<(), StopReason> {
        self.step(calls, |pass, on_frame, parse| {
            pass.feed(&unit, on_frame, parse)
        })
    }

    pub(super) fn finish(&mut self, calls: &[Call]) -> Result<(), StopReason> {
        self.step(calls, |pass, on_frame, parse| pass.finish(on_frame, parse))
    }

    pub(super) fn stats(&self) -> crate::session::SessionStats {
        self.pass.stats
    }

    pub(super) fn release(self) -> Vec<String> {
        self.pass.release();

        self.gpu.0.borrow().log.clone()
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.gpu.0.borrow().log.clone()
    }

    fn step(
        &mut self,
        calls: &[Call],
        step: impl FnOnce(
            &mut DecodePass<FakeDriver>,
            &mut crate::session::decode_pass::FrameCallback<'_>,
            &mut dyn FnMut(Packet<'_>, &mut dyn Callbacks) -> Result<()>,
        ) -> Result<(), StopReason>,
    ) -> Result<(), StopReason> {
        let (delivered, surfaces) = (&mut self.delivered, &mut self.surfaces);
        let (break_at, panic_at) = (self.break_at, self.panic_at);
        let mut on_frame = |id: u32, surface: &Surface| {
            assert_ne!(panic_at, Some(id), "the consumer panics");
            delivered.push((id, (surface.address >> 32) as u32));
            surfaces.push(*surface);
            match break_at == Some(id) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let (codec, returned_surfaces) = (self.codec, &mut self.returned_surfaces);
        let flags = &mut self.flags;
        let mut parse = |packet: Packet<'_>, callbacks: &mut dyn Callbacks| {
            if packet.flags & sys::CUVID_PKT_ENDOFSTREAM == 0 {
                flags.push(packet.flags);
            }
            replay(codec, calls, callbacks, returned_surfaces)
        };
        step(&mut self.pass, &mut on_frame, &mut parse)
    }
}

/// Makes the scripted callbacks; like the driver, it continues after a failure only where it does
/// not notice it.
fn replay(
    codec: Codec,
    calls: &[Call],
    callbacks: &mut dyn Callbacks,
    returned_surfaces: &mut i32,
) -> Result<()> {
    let mut failed = false;
    for call in calls {
        let answer = match *call {
            Sequence(width, height, min) => sequence(
                codec,
                (width, height),
                min,
                height as i32,
                callbacks,
                returned_surfaces,
            ),
            Cropped(width, height, min, rows) => sequence(
                codec,
                (width, height),
                min,
                rows,
                callbacks,
                returned_surfaces,
            ),
            Decode(index, label) => callbacks.decode(&mut picture(index, label, BYTES, 0, 0)),
            DecodeLong(index, label) => {
                callbacks.decode(&mut picture(index, label, 9 * BYTES, 0, 0))
            }
            FirstField(index, label) => callbacks.decode(&mut picture(index, label, BYTES, 1, 0)),
            SecondField(index, label) => callbacks.decode(&mut picture(index, label, BYTES, 1, 1)),
            Display(index, timestamp) => {
                let info = sys::CUVIDPARSERDISPINFO {
                    picture_index: index,
                    timestamp,
                    ..Default::default()
                };
                callbacks.display(&info)
            }
            ReturnSuccess => {
                failed = false;
                1
            }
        };
        failed |= answer == 0;
    }
    match failed {
        true => Err(Error::ParseFailed {
            what: "an access unit".to_owned(),
            bytes: 0,
            code: 999,
            name: "UNKNOWN".to_owned(),
        }),
        false => Ok(()),
    }
}

fn picture(index: i32, label: u32, bytes: u32, field: i32, second: i32) -> sys::CUVIDPICPARAMS {
    sys::CUVIDPICPARAMS {
        CurrPicIdx: index,
        nNumSlices: label,
        nBitstreamDataLen: bytes,
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
    returned_surfaces: &mut i32,
) -> i32 {
    *returned_surfaces = callbacks.sequence(&format(codec, size, min, rows));
    *returned_surfaces
}

/// An 8-bit 4:2:0 sequence.
pub(super) fn format(
    codec: Codec,
    (width, height): (u32, u32),
    min: u8,
    rows: i32,
) -> sys::CUVIDEOFORMAT {
    let mut format = sys::CUVIDEOFORMAT {
        codec: codec.to_raw(),
        min_num_decode_surfaces: min,
        coded_width: width,
        coded_height: height,
        chroma_format: sys::cudaVideoChromaFormat_420,
        ..Default::default()
    };
    (format.display_area.right, format.display_area.bottom) = (width as i32, rows);
    format
}

/// A frame in its own unit, requested.
pub(super) fn frame(id: u32, timestamp: i64) -> AccessUnit<'static> {
    AccessUnit {
        data: &[0, 0, 1, 0x65, 0x88],
        id,
        timestamp,
        wanted: true,
        decode: true,
        single_frame: true,
        num_displayed: 1,
    }
}

pub(super) fn unwanted(id: u32, timestamp: i64) -> AccessUnit<'static> {
    AccessUnit {
        wanted: false,
        ..frame(id, timestamp)
    }
}

pub(super) fn disposable(id: u32, timestamp: i64) -> AccessUnit<'static> {
    AccessUnit {
        wanted: false,
        decode: false,
        ..frame(id, timestamp)
    }
}

/// The error of a failure.
pub(super) fn error(result: Result<(), StopReason>) -> Error {
    match result {
        Err(StopReason::Error(error)) => error,
        other => panic!("an error was expected, not {other:?}"),
    }
}

/// The displayed region of a picture.
pub(super) fn display_area(surface: &Surface) -> Rect {
    surface.display_area
}
