//! In: headers made by hand; a fake of nvJPEG that begins to write when it is called.
//! Out: what the decoder does with them: which backend, which memory, which waits.
//! Never: needs a driver.

mod fake;

use super::api::Backend::{self, GpuHybrid, Hardware, Hybrid};
use super::decoder::Core;
use super::facts::{ColorModel, Facts, Process};
use super::layout::{suits, suits_hardware, Info, Layout};
use super::sys::subsampling;
use crate::{Error, Result};

use fake::Fake;

/// A header as a file has it: markers with payloads, a scan with one byte of codes, an end.
pub(super) struct Header {
    pub sof: u8,
    pub depth: u8,
    pub size: (u16, u16),
    /// Name, horizontal and vertical factor.
    pub components: Vec<(u8, u8, u8)>,
    pub extra: Vec<(u8, Vec<u8>)>,
    pub tables: bool,
    pub in_scan: Option<u8>,
    pub end: bool,
}

impl Header {
    pub fn new(size: (u16, u16), luma: (u8, u8)) -> Header {
        let components = vec![(1, luma.0, luma.1), (2, 1, 1), (3, 1, 1)];
        let (extra, tables, in_scan, end) = (Vec::new(), true, None, true);
        Header { sof: 0xc0, depth: 8, size, components, extra, tables, in_scan, end }
    }

    pub fn gray(size: (u16, u16)) -> Header {
        Header { components: vec![(1, 1, 1)], ..Header::new(size, (1, 1)) }
    }

    pub fn file(&self) -> Vec<u8> {
        let mut file = vec![0xff, 0xd8];
        let mut segment = |marker: u8, payload: &[u8]| {
            file.extend([0xff, marker]);
            file.extend((payload.len() as u16 + 2).to_be_bytes());
            file.extend(payload);
        };
        for (marker, payload) in &self.extra {
            segment(*marker, payload);
        }
        if self.tables {
            segment(0xc4, &[0; 17]);
        }
        let ((width, height), count) = (self.size, self.components.len() as u8);
        let mut frame = vec![self.depth];
        frame.extend(height.to_be_bytes());
        frame.extend(width.to_be_bytes());
        frame.push(count);
        for (id, h, v) in &self.components {
            frame.extend([*id, h << 4 | v, 0]);
        }
        segment(self.sof, &frame);
        segment(0xda, &[self.in_scan.unwrap_or(count), 1, 0, 0, 63, 0]);
        file.push(0x55);
        if self.end {
            file.extend([0xff, 0xd9]);
        }
        file
    }

    fn facts(&self) -> Facts {
        Facts::read(&self.file()).unwrap()
    }
}

#[test]
fn a_header_is_read() {
    let facts = Header::new((33, 17), (2, 2)).facts();
    assert_eq!((facts.width, facts.height, facts.depth_bits, facts.components), (33, 17, 8, 3));
    assert_eq!(
        (facts.process, facts.color, facts.log2_chroma()),
        (Process::Baseline, ColorModel::YCbCr, Some((1, 1)))
    );
    assert!(facts.interleaved && facts.has_tables && facts.has_end);
    let gray = Header::gray((9, 9)).facts();
    assert_eq!((gray.color, gray.log2_chroma(), gray.components), (ColorModel::Gray, Some((0, 0)), 1));
    let other =
        Header { sof: 0xc2, tables: false, end: false, in_scan: Some(1), ..Header::new((8, 8), (1, 2)) }
            .facts();
    assert_eq!((other.process, other.log2_chroma()), (Process::Progressive, Some((0, 1))));
    assert!(!other.interleaved && !other.has_tables && !other.has_end);
    assert_eq!(Header::new((8, 8), (3, 1)).facts().log2_chroma(), None);
    assert_eq!(Header { sof: 0xc9, ..Header::gray((8, 8)) }.facts().process, Process::Other(0xc9));
}

#[test]
fn color_is_told_as_libjpeg_tells_it() {
    let adobe = |transform: u8| (0xee, [b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat());
    let jfif = (0xe0, b"JFIF\0\x01\x02\0\0\x01\0\x01\0\0".to_vec());
    let with = |extra: Vec<(u8, Vec<u8>)>| Header { extra, ..Header::new((8, 8), (1, 1)) }.facts().color;
    assert_eq!(with(vec![]), ColorModel::YCbCr);
    assert_eq!(with(vec![adobe(0)]), ColorModel::Other);
    assert_eq!(with(vec![adobe(1)]), ColorModel::YCbCr);
    assert_eq!(with(vec![jfif, adobe(0)]), ColorModel::YCbCr);
    let named = Header { components: b"RGB".map(|id| (id, 1, 1)).to_vec(), ..Header::new((8, 8), (1, 1)) };
    assert_eq!(named.facts().color, ColorModel::Other);
    let four = Header { components: vec![(1, 1, 1); 4], ..Header::new((8, 8), (1, 1)) };
    assert_eq!(four.facts().color, ColorModel::Other);
}

#[test]
fn damaged_headers_are_errors_and_no_length_panics() {
    let file = Header::new((64, 64), (2, 1)).file();
    for len in 0..file.len() {
        match Facts::read(&file[..len]) {
            Ok(facts) => assert!(!facts.has_end && len > file.len() - 4, "{len}"),
            Err(error) => assert!(matches!(error, Error::BadJpeg { .. }), "{len}: {error}"),
        }
    }
    for at in 0..file.len() {
        for byte in [0, 1, 2, 0x7f, 0xd8, 0xd9, 0xda, 0xff] {
            let mut damaged = file.clone();
            damaged[at] = byte;
            if let Ok(facts) = Facts::read(&damaged) {
                let _ = suits(&facts);
                let _ = facts.log2_chroma();
            }
        }
    }
    assert!(Facts::read(b"\x89PNG\r\n\x1a\n").unwrap_err().is_about_stream());
}

#[test]
fn what_nvjpeg_is_not_given_is_said_in_words() {
    let refused = |header: Header| suits(&header.facts()).unwrap_err();
    assert!(suits(&Header::new((640, 480), (2, 2)).facts()).is_ok());
    assert!(suits(&Header { sof: 0xc2, ..Header::gray((640, 480)) }.facts()).is_ok());
    assert!(refused(Header { sof: 0xc3, ..Header::gray((8, 8)) }).contains("SOF3"));
    assert!(refused(Header { sof: 0xc1, depth: 12, ..Header::gray((8, 8)) }).contains("12"));
    assert!(
        refused(Header { components: vec![(1, 1, 1); 4], ..Header::gray((8, 8)) }).contains("4 components")
    );
    assert!(refused(Header::new((8, 8), (2, 4))).contains("(2, 4)"));
    assert!(refused(Header { tables: false, ..Header::gray((8, 8)) }).contains("Huffman"));
    assert!(refused(Header { end: false, ..Header::gray((8, 8)) }).contains("cut short"));
    assert!(refused(Header::new((65535, 65535), (1, 1))).contains("65535x65535"));
}

#[test]
fn engines_are_asked_about_baseline_files_of_one_scan_only() {
    let may = |header: Header| suits_hardware(&header.facts());
    assert!(may(Header::new((8, 8), (2, 2))) && may(Header::gray((8, 8))));
    assert!(!may(Header { sof: 0xc2, ..Header::new((8, 8), (2, 2)) }));
    assert!(!may(Header { in_scan: Some(1), ..Header::new((8, 8), (2, 2)) }));
    assert!(!may(Header::new((8, 8), (4, 1))));
}

pub(super) fn info_of(facts: &Facts) -> Info {
    let subsampling = match (facts.components, facts.log2_chroma()) {
        (1, _) => subsampling::GRAY,
        (_, Some((0, 0))) => subsampling::S444,
        (_, Some((1, 0))) => subsampling::S422,
        (_, Some((1, 1))) => subsampling::S420,
        (_, Some((0, 1))) => subsampling::S440,
        (_, Some((2, 0))) => subsampling::S411,
        (_, Some((2, 1))) => subsampling::S410,
        _ => -1,
    };
    let (w, h) = facts.log2_chroma().unwrap_or((0, 0));
    let chroma = (facts.width.div_ceil(1 << w) as i32, facts.height.div_ceil(1 << h) as i32);
    let luma = (facts.width as i32, facts.height as i32);
    let sizes =
        if facts.components == 1 { [luma, (0, 0), (0, 0), (0, 0)] } else { [luma, chroma, chroma, (0, 0)] };
    Info { components: facts.components.into(), subsampling, sizes }
}

#[test]
fn planes_do_not_overlap_and_header_and_library_must_agree() {
    for luma in [(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (4, 2)] {
        for size in [(1, 1), (17, 33), (255, 256), (257, 1)] {
            let facts = Header::new(size, luma).facts();
            let info = info_of(&facts);
            let layout = Layout::of(&facts, &info).unwrap();
            let mut end = 0;
            for plane in 0..3 {
                let (width, height) = info.sizes[plane];
                let at = layout.address(0, plane);
                assert!(at >= end && at.is_multiple_of(256) && layout.pitches[plane] >= width as usize);
                end = at + layout.pitches[plane] as u64 * (height as u64).next_multiple_of(32);
            }
            assert!(end <= layout.bytes as u64, "{luma:?} {size:?}");
            assert_eq!(layout.image(4096).channel[0], 4096);
        }
    }
    let facts = Header::new((17, 17), (2, 2)).facts();
    let good = info_of(&facts);
    let spoilt = |change: fn(&mut Info)| {
        let mut info = good;
        change(&mut info);
        Layout::of(&facts, &info).map(|layout| layout.bytes)
    };
    assert!(spoilt(|_| ()).is_ok());
    assert!(spoilt(|info| info.sizes[0].0 += 1).is_err());
    assert!(spoilt(|info| info.sizes[2].1 -= 1).is_err(), "a sample less than is read");
    assert!(spoilt(|info| info.sizes[2].1 = -1).is_err());
    assert!(spoilt(|info| info.subsampling = subsampling::S444).is_err());
    assert!(spoilt(|info| info.subsampling = -1).is_err());
    assert!(spoilt(|info| info.components = 1).is_err());
    // More than is read does no harm, if there is room for it.
    assert!(spoilt(|info| info.sizes[2] = (900, 900)).unwrap() > spoilt(|_| ()).unwrap() + 800 * 900);
}

fn core(fake: &Fake, backends: &[Backend]) -> Core<Fake> {
    Core::new(fake.clone(), backends).unwrap()
}

fn decode(core: &mut Core<Fake>, header: &Header) -> Result<(Backend, u64)> {
    let planes = core.decode(&header.file())?;
    Ok((planes.backend, planes.planes[0].address))
}

#[test]
fn the_host_waits_before_planes_are_written_again() {
    let fake = Fake::new(&[Hardware, Hybrid]);
    let mut core = core(&fake, &[Hardware, Hybrid]);
    let header = Header::new((64, 64), (2, 2));
    let mut addresses = Vec::new();
    for _ in 0..6 {
        let (backend, address) = decode(&mut core, &header).unwrap();
        assert_eq!(backend, Hardware);
        fake.read(address);
        addresses.push(address);
    }
    assert!(addresses[0] != addresses[1] && addresses[0] == addresses[2] && addresses[1] == addresses[3]);
    let waits: Vec<u64> = fake.waits();
    assert_eq!(
        waits.len(),
        4,
        "two sets: the first two pictures wait for nobody, and nothing waits for its own readers"
    );
    drop(core);
    fake.content();
}

#[test]
fn a_backend_that_refuses_is_followed_by_the_next() {
    let fake = Fake::new(&[Hardware, Hybrid]);
    let mut core = core(&fake, &[Hardware, GpuHybrid, Hybrid]);
    assert_eq!(decode(&mut core, &Header { sof: 0xc2, ..Header::new((64, 64), (2, 2)) }).unwrap().0, Hybrid);
    assert_eq!(fake.asked(), 0, "the engines are not even asked");
    fake.with(|world| world.unsuited = true);
    assert_eq!(decode(&mut core, &Header::new((64, 64), (2, 2))).unwrap().0, Hybrid);
    fake.with(|world| {
        (world.unsuited, world.failing) =
            (false, Some((Hardware, Error::Unsupported { reason: "no".into() })))
    });
    assert_eq!(
        decode(&mut core, &Header::new((64, 64), (2, 2))).unwrap().0,
        Hybrid,
        "refused when it was called"
    );
    fake.with(|world| world.failing = Some((Hybrid, Error::Unsupported { reason: "neither".into() })));
    let error = decode(&mut core, &Header { sof: 0xc2, ..Header::gray((64, 64)) }).unwrap_err();
    assert!(error.to_string().contains("neither"), "{error}");
    drop(core);
    fake.content();
}

#[test]
fn a_device_without_any_of_the_backends_is_an_error() {
    let error = Core::new(Fake::new(&[]), &[Hardware, Hybrid]).err().expect("there is none");
    assert!(matches!(&error, Error::Unsupported { reason } if reason.contains("Hardware")), "{error}");
    let only = core(&Fake::new(&[Hardware]), &[Hardware]);
    let refused = only.takes(&Header { sof: 0xc2, ..Header::gray((8, 8)) }.facts()).unwrap_err();
    assert!(refused.contains("baseline"), "{refused}");
}

#[test]
fn after_a_failure_everything_is_over_and_the_state_is_not_used_again() {
    let fake = Fake::new(&[Hybrid]);
    let mut core = core(&fake, &[Hybrid]);
    let header = Header::new((64, 64), (1, 1));
    for _ in 0..3 {
        fake.read(decode(&mut core, &header).unwrap().1);
    }
    let states = fake.with(|world| world.states_made);
    for error in [
        Error::BadJpeg { reason: "codes".into() },
        Error::Jpeg { call: "nvjpegDecode", status: 6, name: "x" },
    ] {
        fake.with(|world| world.failing = Some((Hybrid, error.clone())));
        assert_eq!(decode(&mut core, &header).unwrap_err(), error);
        fake.with(|world| world.failing = None);
        fake.read(decode(&mut core, &header).unwrap().1);
    }
    assert!(fake.with(|world| world.states_made) > states, "states that failed were replaced");
    assert!(matches!(core.decode(&header.file()[..20]), Err(Error::BadJpeg { .. })));
    fake.read(decode(&mut core, &header).unwrap().1);
    drop(core);
    fake.content();
}

#[test]
fn memory_grows_and_what_is_very_large_is_given_back() {
    let fake = Fake::new(&[Hybrid]);
    let mut core = core(&fake, &[Hybrid]);
    let (small, large) = (Header::gray((64, 64)), Header::new((8192, 4096), (1, 1)));
    for header in [&small, &small, &large, &large, &large, &large] {
        fake.read(decode(&mut core, header).unwrap().1);
    }
    assert_eq!(fake.with(|world| world.allocated.clone()), [1 << 20, 1 << 20, 96 << 20, 96 << 20]);
    for _ in 0..4 {
        fake.read(decode(&mut core, &small).unwrap().1);
    }
    assert_eq!(fake.with(|world| world.allocated.len()), 6);
    assert_eq!(fake.with(|world| world.live_bytes), 2 << 20);
    fake.with(|world| world.full = true);
    assert!(decode(&mut core, &large).unwrap_err().is_out_of_memory());
    fake.with(|world| world.full = false);
    fake.read(decode(&mut core, &large).unwrap().1);
    drop(core);
    assert_eq!(fake.with(|world| world.live_bytes), 0);
    fake.content();
}

#[test]
fn any_call_may_fail_and_nothing_is_touched_while_it_is_in_use() {
    let files = [
        Header::new((64, 64), (2, 2)),
        Header::gray((2000, 900)),
        Header { sof: 0xc2, ..Header::new((99, 9), (2, 1)) },
    ];
    for failing in 0..120 {
        let fake = Fake::new(&[Hardware, Hybrid]);
        fake.with(|world| world.fails_at = Some(failing));
        if let Ok(mut core) = Core::new(fake.clone(), &[Hardware, Hybrid]) {
            let mut good = 0;
            for round in 0..12 {
                if let Ok((_, address)) = decode(&mut core, &files[round % files.len()]) {
                    fake.read(address);
                    good += 1;
                }
            }
            assert!(good >= 10, "{failing}: one call failed, and {good} of 12 came out");
        }
        fake.content();
    }
}

#[test]
fn a_decoder_may_move_to_another_thread() {
    fn moves<T: Send>() {}
    moves::<super::JpegDecoder>();
}
