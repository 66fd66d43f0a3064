//! Tests sequence headers: the first, a repeated and a changed one within a stream, and the decoder
//! that each gets. They need no driver.

use super::harness::*;
use crate::Error;
use crate::format::{Codec, Rect, SequenceInfo};
use crate::sys;

#[test]
fn a_sequence_that_is_repeated_costs_nothing() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(640, 480, 4), Decode(1, 101), Display(1, 1)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(
        script.log(),
        ["take 0", "decode 100", "decode 101", "map 100", "map 101"]
    );
    assert_eq!(
        script.returned_surfaces, 8,
        "four more than the stream needs"
    );
}

#[test]
fn parser_gets_the_decoders_surface_count() {
    for (min, returned_surfaces) in [(0, 24), (1, 5), (17, 21), (28, 32), (40, 32)] {
        let mut script = ScriptedPass::new(Codec::Hevc);
        script
            .feed(
                frame(0, 0),
                &[Sequence(640, 480, min), Decode(0, 100), Display(0, 0)],
            )
            .unwrap();
        assert_eq!(script.returned_surfaces, returned_surfaces);
    }
}

#[test]
fn size_change_delivers_pending_pictures_first() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(1280, 720, 4), Decode(0, 101), Display(0, 1)],
        )
        .unwrap();
    script
        .feed(
            frame(2, 2),
            &[Sequence(320, 240, 4), Decode(0, 102), Display(0, 2)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101), (2, 102)]);
    let sizes: Vec<_> = script
        .surfaces
        .iter()
        .map(|surface| surface.coded_size)
        .collect();
    assert_eq!(sizes, [(640, 480), (1280, 720), (320, 240)]);
    let log = script.release();
    let expected = [
        "take 0",
        "decode 100",
        "map 100",
        "put 0",
        "take 1",
        "decode 101",
        "map 101",
        "reconfigure 320x240",
        "decode 102",
        "map 102",
        "put 1",
    ];
    assert_eq!(log, expected);
}

#[test]
fn failed_reconfiguration_drops_the_decoder() {
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().reconfigure_fails = true;
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(320, 240, 4), Decode(0, 101), Display(0, 1)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101)]);
    assert_eq!(
        script.log(),
        [
            "take 0",
            "decode 100",
            "map 100",
            "take 1",
            "decode 101",
            "map 101"
        ]
    );
}

#[test]
fn more_surfaces_need_another_decoder() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(640, 480, 9), Decode(0, 101), Display(0, 1)],
        )
        .unwrap();
    assert_eq!(script.returned_surfaces, 13);
    assert_eq!(script.log()[3..5], ["put 0", "take 1"]);
}

#[test]
fn display_area_is_updated_with_each_sequence() {
    // Two heights, one coded size: the decoder is the same, the crop is not.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Cropped(1280, 544, 4, 532), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Cropped(1280, 544, 4, 530), Decode(1, 101), Display(1, 1)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    let rows: Vec<_> = script
        .surfaces
        .iter()
        .map(|surface| display_area(surface).bottom)
        .collect();
    assert_eq!(rows, [532, 530]);
    assert_eq!(script.log()[0], "take 0");
    assert_eq!(script.stats().decoders_created, 1);
}

#[test]
fn planes_follow_each_other_at_the_coded_height() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Cropped(1920, 1088, 4, 1080), Decode(0, 1), Display(0, 0)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    let surface = script.surfaces[0];
    assert_eq!(surface.chroma_address, [surface.address + 4096 * 1088, 0]);
    assert_eq!(
        surface.display_area,
        Rect {
            left: 0,
            top: 0,
            right: 1920,
            bottom: 1080
        }
    );
    assert_eq!((surface.depth_bits, surface.shift), (8, 0));
}

#[test]
fn inconsistent_headers_are_refused_with_a_reason() {
    let read = |change: &dyn Fn(&mut sys::CUVIDEOFORMAT)| {
        let mut format = format(Codec::Hevc, (640, 480), 4, 480);
        change(&mut format);
        SequenceInfo::from_cuvid(Codec::Hevc, &format).map_err(|error| error.to_string())
    };
    assert!(read(&|_| ()).is_ok());
    let ten_bit =
        read(&|format| (format.bit_depth_luma_minus8, format.bit_depth_chroma_minus8) = (2, 2))
            .unwrap();
    assert_eq!(ten_bit.format.depth_bits, 10);
    assert!(
        read(&|format| format.bit_depth_luma_minus8 = 2)
            .unwrap_err()
            .contains("10 bit luma")
    );
    assert!(
        read(&|format| format.display_area.bottom = 482)
            .unwrap_err()
            .contains("482")
    );
    assert!(
        read(&|format| format.display_area.right = 0)
            .unwrap_err()
            .contains("640x480")
    );
    assert!(
        read(&|format| format.chroma_format = 7)
            .unwrap_err()
            .contains('7')
    );
    assert!(
        read(&|format| format.coded_width = 40_000)
            .unwrap_err()
            .contains("40000")
    );
    assert!(
        read(&|format| format.codec = sys::cudaVideoCodec_H264)
            .unwrap_err()
            .contains("HEVC")
    );
    let odd = read(&|format| {
        (format.coded_width, format.coded_height) = (35, 33);
        (format.display_area.right, format.display_area.bottom) = (35, 33);
    });
    let odd = odd.unwrap();
    assert_eq!(
        odd.format.coded_size,
        (36, 34),
        "a decoder's sizes are even"
    );
    assert_eq!(
        (odd.display_area.right, odd.display_area.bottom),
        (35, 33),
        "the displayed region is unchanged"
    );
}

#[test]
fn a_picture_without_a_sequence_is_an_error() {
    let mut script = ScriptedPass::new(Codec::H264);
    assert!(matches!(
        error(script.feed(frame(0, 0), &[Decode(0, 100)])),
        Error::Misuse(_)
    ));
}
