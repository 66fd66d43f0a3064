//! Tests the JPEG decoder with constructed headers and a fake of nvJPEG that starts to write when
//! it is called. They check backends, memory and waits, and need no driver.

mod fake_nvjpeg;

use super::decoder::DecoderCore;
use super::header::{CodingProcess, ColorModel, JpegHeader};
use super::nvjpeg::Backend::{self, GpuHybrid, Hardware, Hybrid};
use super::plane_layout::{ImageInfo, PlaneLayout, check_supported, is_hardware_candidate};
use super::sys::subsampling;
use crate::{Error, Result};

use fake_nvjpeg::FakeNvjpeg;

/// Builds a header as in a file: markers with payloads, a scan with one byte of codes, an end
/// marker.
pub(super) struct JpegBuilder {
    pub sof: u8,
    pub depth: u8,
    pub size: (u16, u16),
    /// Id, horizontal and vertical factor.
    pub components: Vec<(u8, u8, u8)>,
    pub extra: Vec<(u8, Vec<u8>)>,
    pub tables: bool,
    pub in_scan: Option<u8>,
    pub end: bool,
}

impl JpegBuilder {
    pub(super) fn new(size: (u16, u16), luma: (u8, u8)) -> JpegBuilder {
        let components = vec![(1, luma.0, luma.1), (2, 1, 1), (3, 1, 1)];
        let (extra, tables, in_scan, end) = (Vec::new(), true, None, true);
        JpegBuilder {
            sof: 0xc0,
            depth: 8,
            size,
            components,
            extra,
            tables,
            in_scan,
            end,
        }
    }

    pub(super) fn gray(size: (u16, u16)) -> JpegBuilder {
        JpegBuilder {
            components: vec![(1, 1, 1)],
            ..JpegBuilder::new(size, (1, 1))
        }
    }

    pub(super) fn file(&self) -> Vec<u8> {
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

    fn header(&self) -> JpegHeader {
        JpegHeader::parse(&self.file()).unwrap()
    }
}

#[test]
fn a_header_is_read() {
    let header = JpegBuilder::new((33, 17), (2, 2)).header();
    assert_eq!(
        (
            header.width,
            header.height,
            header.depth_bits,
            header.components
        ),
        (33, 17, 8, 3)
    );
    assert_eq!(
        (header.process, header.color_model, header.log2_chroma()),
        (CodingProcess::Baseline, ColorModel::YCbCr, Some((1, 1)))
    );
    assert!(header.interleaved && header.has_huffman_tables && header.has_eoi);
    let gray = JpegBuilder::gray((9, 9)).header();
    assert_eq!(
        (gray.color_model, gray.log2_chroma(), gray.components),
        (ColorModel::Gray, Some((0, 0)), 1)
    );
    let other = JpegBuilder {
        sof: 0xc2,
        tables: false,
        end: false,
        in_scan: Some(1),
        ..JpegBuilder::new((8, 8), (1, 2))
    }
    .header();
    assert_eq!(
        (other.process, other.log2_chroma()),
        (CodingProcess::Progressive, Some((0, 1)))
    );
    assert!(!other.interleaved && !other.has_huffman_tables && !other.has_eoi);
    assert_eq!(
        JpegBuilder::new((8, 8), (3, 1)).header().log2_chroma(),
        None
    );
    assert_eq!(
        JpegBuilder {
            sof: 0xc9,
            ..JpegBuilder::gray((8, 8))
        }
        .header()
        .process,
        CodingProcess::Other(0xc9)
    );
}

#[test]
fn color_space_follows_libjpegs_rules() {
    let adobe = |transform: u8| {
        (
            0xee,
            [b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat(),
        )
    };
    let jfif = (0xe0, b"JFIF\0\x01\x02\0\0\x01\0\x01\0\0".to_vec());
    let with = |extra: Vec<(u8, Vec<u8>)>| {
        JpegBuilder {
            extra,
            ..JpegBuilder::new((8, 8), (1, 1))
        }
        .header()
        .color_model
    };
    assert_eq!(with(vec![]), ColorModel::YCbCr);
    assert_eq!(with(vec![adobe(0)]), ColorModel::Other);
    assert_eq!(with(vec![adobe(1)]), ColorModel::YCbCr);
    assert_eq!(with(vec![jfif, adobe(0)]), ColorModel::YCbCr);
    let named = JpegBuilder {
        components: b"RGB".map(|id| (id, 1, 1)).to_vec(),
        ..JpegBuilder::new((8, 8), (1, 1))
    };
    assert_eq!(named.header().color_model, ColorModel::Other);
    let four = JpegBuilder {
        components: vec![(1, 1, 1); 4],
        ..JpegBuilder::new((8, 8), (1, 1))
    };
    assert_eq!(four.header().color_model, ColorModel::Other);
}

#[test]
fn damaged_headers_are_errors_and_never_panic() {
    let file = JpegBuilder::new((64, 64), (2, 1)).file();
    for len in 0..file.len() {
        match JpegHeader::parse(&file[..len]) {
            Ok(header) => assert!(!header.has_eoi && len > file.len() - 4, "{len}"),
            Err(error) => assert!(matches!(error, Error::BadJpeg { .. }), "{len}: {error}"),
        }
    }
    for at in 0..file.len() {
        for byte in [0, 1, 2, 0x7f, 0xd8, 0xd9, 0xda, 0xff] {
            let mut damaged = file.clone();
            damaged[at] = byte;
            if let Ok(header) = JpegHeader::parse(&damaged) {
                let _ = check_supported(&header);
                let _ = header.log2_chroma();
            }
        }
    }
    assert!(
        JpegHeader::parse(b"\x89PNG\r\n\x1a\n")
            .unwrap_err()
            .is_about_stream()
    );
}

#[test]
fn unsupported_files_are_refused_with_a_reason() {
    let refused = |jpeg: JpegBuilder| check_supported(&jpeg.header()).unwrap_err();
    assert!(check_supported(&JpegBuilder::new((640, 480), (2, 2)).header()).is_ok());
    assert!(
        check_supported(
            &JpegBuilder {
                sof: 0xc2,
                ..JpegBuilder::gray((640, 480))
            }
            .header()
        )
        .is_ok()
    );
    assert!(
        refused(JpegBuilder {
            sof: 0xc3,
            ..JpegBuilder::gray((8, 8))
        })
        .contains("SOF3")
    );
    assert!(
        refused(JpegBuilder {
            sof: 0xc1,
            depth: 12,
            ..JpegBuilder::gray((8, 8))
        })
        .contains("12")
    );
    assert!(
        refused(JpegBuilder {
            components: vec![(1, 1, 1); 4],
            ..JpegBuilder::gray((8, 8))
        })
        .contains("4 components")
    );
    assert!(refused(JpegBuilder::new((8, 8), (2, 4))).contains("(2, 4)"));
    assert!(
        refused(JpegBuilder {
            tables: false,
            ..JpegBuilder::gray((8, 8))
        })
        .contains("Huffman")
    );
    assert!(
        refused(JpegBuilder {
            end: false,
            ..JpegBuilder::gray((8, 8))
        })
        .contains("truncated")
    );
    assert!(refused(JpegBuilder::new((65535, 65535), (1, 1))).contains("65535x65535"));
}

#[test]
fn jpeg_engines_need_a_baseline_file_of_one_scan() {
    let may = |jpeg: JpegBuilder| is_hardware_candidate(&jpeg.header());
    assert!(may(JpegBuilder::new((8, 8), (2, 2))) && may(JpegBuilder::gray((8, 8))));
    assert!(!may(JpegBuilder {
        sof: 0xc2,
        ..JpegBuilder::new((8, 8), (2, 2))
    }));
    assert!(!may(JpegBuilder {
        in_scan: Some(1),
        ..JpegBuilder::new((8, 8), (2, 2))
    }));
    assert!(!may(JpegBuilder::new((8, 8), (4, 1))));
}

pub(super) fn image_info_of(header: &JpegHeader) -> ImageInfo {
    let subsampling = match (header.components, header.log2_chroma()) {
        (1, _) => subsampling::GRAY,
        (_, Some((0, 0))) => subsampling::S444,
        (_, Some((1, 0))) => subsampling::S422,
        (_, Some((1, 1))) => subsampling::S420,
        (_, Some((0, 1))) => subsampling::S440,
        (_, Some((2, 0))) => subsampling::S411,
        (_, Some((2, 1))) => subsampling::S410,
        _ => -1,
    };
    let (w, h) = header.log2_chroma().unwrap_or((0, 0));
    let chroma = (
        header.width.div_ceil(1 << w) as i32,
        header.height.div_ceil(1 << h) as i32,
    );
    let luma = (header.width as i32, header.height as i32);
    let sizes = if header.components == 1 {
        [luma, (0, 0), (0, 0), (0, 0)]
    } else {
        [luma, chroma, chroma, (0, 0)]
    };
    ImageInfo {
        components: header.components.into(),
        subsampling,
        sizes,
    }
}

#[test]
fn planes_do_not_overlap_and_sizes_must_agree() {
    for luma in [(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (4, 2)] {
        for size in [(1, 1), (17, 33), (255, 256), (257, 1)] {
            let header = JpegBuilder::new(size, luma).header();
            let info = image_info_of(&header);
            let layout = PlaneLayout::of(&header, &info).unwrap();
            let mut end = 0;
            for plane in 0..3 {
                let (width, height) = info.sizes[plane];
                let at = layout.address(0, plane);
                assert!(
                    at >= end && at.is_multiple_of(256) && layout.pitches[plane] >= width as usize
                );
                end = at + layout.pitches[plane] as u64 * (height as u64).next_multiple_of(32);
            }
            assert!(end <= layout.bytes as u64, "{luma:?} {size:?}");
            assert_eq!(layout.image(4096).channel[0], 4096);
        }
    }
    let header = JpegBuilder::new((17, 17), (2, 2)).header();
    let good = image_info_of(&header);
    let modified = |change: fn(&mut ImageInfo)| {
        let mut info = good;
        change(&mut info);
        PlaneLayout::of(&header, &info).map(|layout| layout.bytes)
    };
    assert!(modified(|_| ()).is_ok());
    assert!(modified(|info| info.sizes[0].0 += 1).is_err());
    assert!(
        modified(|info| info.sizes[2].1 -= 1).is_err(),
        "one sample less than is read"
    );
    assert!(modified(|info| info.sizes[2].1 = -1).is_err());
    assert!(modified(|info| info.subsampling = subsampling::S444).is_err());
    assert!(modified(|info| info.subsampling = -1).is_err());
    assert!(modified(|info| info.components = 1).is_err());
    // More than is read does no harm if there is room for it.
    assert!(
        modified(|info| info.sizes[2] = (900, 900)).unwrap()
            > modified(|_| ()).unwrap() + 800 * 900
    );
}

fn core(fake: &FakeNvjpeg, backends: &[Backend]) -> DecoderCore<FakeNvjpeg> {
    DecoderCore::new(fake.clone(), backends).unwrap()
}

fn decode(core: &mut DecoderCore<FakeNvjpeg>, jpeg: &JpegBuilder) -> Result<(Backend, u64)> {
    let planes = core.decode(&jpeg.file())?;
    Ok((planes.backend, planes.planes[0].address))
}

#[test]
fn host_waits_before_planes_are_overwritten() {
    let fake = FakeNvjpeg::new(&[Hardware, Hybrid]);
    let mut core = core(&fake, &[Hardware, Hybrid]);
    let jpeg = JpegBuilder::new((64, 64), (2, 2));
    let mut addresses = Vec::new();
    for _ in 0..6 {
        let (backend, address) = decode(&mut core, &jpeg).unwrap();
        assert_eq!(backend, Hardware);
        fake.read(address);
        addresses.push(address);
    }
    assert!(
        addresses[0] != addresses[1]
            && addresses[0] == addresses[2]
            && addresses[1] == addresses[3]
    );
    let waits: Vec<u64> = fake.waits();
    assert_eq!(
        waits.len(),
        4,
        "two sets: the first two images do not wait, and no image waits for its own readers"
    );
    drop(core);
    fake.assert_no_violations();
}

#[test]
fn next_backend_is_tried_after_a_refusal() {
    let fake = FakeNvjpeg::new(&[Hardware, Hybrid]);
    let mut core = core(&fake, &[Hardware, GpuHybrid, Hybrid]);
    assert_eq!(
        decode(
            &mut core,
            &JpegBuilder {
                sof: 0xc2,
                ..JpegBuilder::new((64, 64), (2, 2))
            }
        )
        .unwrap()
        .0,
        Hybrid
    );
    assert_eq!(fake.hardware_queries(), 0, "the engines are not queried");
    fake.with(|device| device.hardware_refuses = true);
    assert_eq!(
        decode(&mut core, &JpegBuilder::new((64, 64), (2, 2)))
            .unwrap()
            .0,
        Hybrid
    );
    fake.with(|device| {
        (device.hardware_refuses, device.failing) = (
            false,
            Some((
                Hardware,
                Error::Unsupported {
                    reason: "no".into(),
                },
            )),
        )
    });
    assert_eq!(
        decode(&mut core, &JpegBuilder::new((64, 64), (2, 2)))
            .unwrap()
            .0,
        Hybrid,
        "refused when it was called"
    );
    fake.with(|device| {
        device.failing = Some((
            Hybrid,
            Error::Unsupported {
                reason: "neither".into(),
            },
        ))
    });
    let error = decode(
        &mut core,
        &JpegBuilder {
            sof: 0xc2,
            ..JpegBuilder::gray((64, 64))
        },
    )
    .unwrap_err();
    assert!(error.to_string().contains("neither"), "{error}");
    drop(core);
    fake.assert_no_violations();
}

#[test]
fn device_without_any_backend_is_an_error() {
    let error = DecoderCore::new(FakeNvjpeg::new(&[]), &[Hardware, Hybrid])
        .err()
        .expect("there is none");
    assert!(
        matches!(&error, Error::Unsupported { reason } if reason.contains("Hardware")),
        "{error}"
    );
    let only = core(&FakeNvjpeg::new(&[Hardware]), &[Hardware]);
    let refused = only
        .supports(
            &JpegBuilder {
                sof: 0xc2,
                ..JpegBuilder::gray((8, 8))
            }
            .header(),
        )
        .unwrap_err();
    assert!(refused.contains("baseline"), "{refused}");
}

#[test]
fn failed_state_is_finished_and_not_reused() {
    let fake = FakeNvjpeg::new(&[Hybrid]);
    let mut core = core(&fake, &[Hybrid]);
    let jpeg = JpegBuilder::new((64, 64), (1, 1));
    for _ in 0..3 {
        fake.read(decode(&mut core, &jpeg).unwrap().1);
    }
    let states = fake.with(|device| device.states_made);
    for error in [
        Error::BadJpeg {
            reason: "codes".into(),
        },
        Error::Nvjpeg {
            call: "nvjpegDecode",
            status: 6,
            name: "x",
        },
    ] {
        fake.with(|device| device.failing = Some((Hybrid, error.clone())));
        assert_eq!(decode(&mut core, &jpeg).unwrap_err(), error);
        fake.with(|device| device.failing = None);
        fake.read(decode(&mut core, &jpeg).unwrap().1);
    }
    assert!(
        fake.with(|device| device.states_made) > states,
        "states that failed were replaced"
    );
    assert!(matches!(
        core.decode(&jpeg.file()[..20]),
        Err(Error::BadJpeg { .. })
    ));
    fake.read(decode(&mut core, &jpeg).unwrap().1);
    drop(core);
    fake.assert_no_violations();
}

#[test]
fn memory_grows_and_very_large_blocks_are_freed() {
    let fake = FakeNvjpeg::new(&[Hybrid]);
    let mut core = core(&fake, &[Hybrid]);
    let (small, large) = (
        JpegBuilder::gray((64, 64)),
        JpegBuilder::new((8192, 4096), (1, 1)),
    );
    for jpeg in [&small, &small, &large, &large, &large, &large] {
        fake.read(decode(&mut core, jpeg).unwrap().1);
    }
    assert_eq!(
        fake.with(|device| device.allocated.clone()),
        [1 << 20, 1 << 20, 96 << 20, 96 << 20]
    );
    for _ in 0..4 {
        fake.read(decode(&mut core, &small).unwrap().1);
    }
    assert_eq!(fake.with(|device| device.allocated.len()), 6);
    assert_eq!(fake.with(|device| device.live_bytes), 2 << 20);
    fake.with(|device| device.out_of_memory = true);
    assert!(decode(&mut core, &large).unwrap_err().is_out_of_memory());
    fake.with(|device| device.out_of_memory = false);
    fake.read(decode(&mut core, &large).unwrap().1);
    drop(core);
    assert_eq!(fake.with(|device| device.live_bytes), 0);
    fake.assert_no_violations();
}

#[test]
fn no_failing_call_touches_memory_in_use() {
    let files = [
        JpegBuilder::new((64, 64), (2, 2)),
        JpegBuilder::gray((2000, 900)),
        JpegBuilder {
            sof: 0xc2,
            ..JpegBuilder::new((99, 9), (2, 1))
        },
    ];
    for failing in 0..120 {
        let fake = FakeNvjpeg::new(&[Hardware, Hybrid]);
        fake.with(|device| device.fails_at = Some(failing));
        if let Ok(mut core) = DecoderCore::new(fake.clone(), &[Hardware, Hybrid]) {
            let mut good = 0;
            for round in 0..12 {
                if let Ok((_, address)) = decode(&mut core, &files[round % files.len()]) {
                    fake.read(address);
                    good += 1;
                }
            }
            assert!(
                good >= 10,
                "{failing}: one call failed, and {good} of 12 were decoded"
            );
        }
        fake.assert_no_violations();
    }
}

#[test]
fn a_decoder_may_move_to_another_thread() {
    fn moves<T: Send>() {}
    moves::<super::JpegDecoder>();
}
