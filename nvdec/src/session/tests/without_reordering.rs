//! Tests VP8, VP9 and AV1, which display in coding order, may display a picture repeatedly, and
//! report wrong timestamps. They need no driver.

use super::harness::*;
use crate::Error;
use crate::format::Codec;
use crate::session::AccessUnit;

#[test]
fn wrong_timestamps_around_hidden_pictures_are_ignored() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    // A hidden and a displayed picture in one unit; timestamps are reported two too late.
    let superframe = |id, timestamp| AccessUnit {
        single_frame: false,
        ..frame(id, timestamp)
    };
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 2)],
        )
        .unwrap();
    script
        .feed(
            superframe(1, 1),
            &[Decode(1, 900), Decode(2, 101), Display(2, 3)],
        )
        .unwrap();
    script
        .feed(frame(2, 2), &[Decode(3, 102), Display(3, 0)])
        .unwrap();
    // The hidden picture is displayed: nothing is decoded for that.
    script.feed(frame(3, 3), &[Display(1, 0)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101), (2, 102), (3, 900)]);
}

#[test]
fn nothing_of_vp9_is_left_out() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script
        .feed(frame(2, 2), &[Decode(2, 102), Display(2, 2)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.stats().decoded, script.stats().skipped), (3, 0));
    assert_eq!(script.delivered, [(0, 100), (2, 102)]);
}

#[test]
fn av1_skips_only_surely_unneeded_units() {
    let several = |id, timestamp| AccessUnit {
        single_frame: false,
        ..disposable(id, timestamp)
    };
    let mut script = ScriptedPass::new(Codec::Av1);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script.feed(several(2, 2), &[Decode(2, 102)]).unwrap();
    // The next callback may still belong to the previous unit.
    script
        .feed(
            disposable(3, 3),
            &[Decode(3, 202), Display(3, 2), Decode(4, 103), Display(4, 3)],
        )
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.stats().decoded, script.stats().skipped), (4, 1));
}

#[test]
fn skipped_picture_is_not_displayed_again() {
    let mut script = ScriptedPass::new(Codec::Av1);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    let failure = error(script.feed(frame(2, 2), &[Display(1, 2)]));
    assert!(
        matches!(&failure, Error::Mismatch { reason } if reason.contains("not decoded")),
        "{failure}"
    );
}

#[test]
fn missing_picture_is_not_replaced_by_a_later_one() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    assert!(matches!(
        error(script.feed(frame(1, 1), &[])),
        Error::Mismatch { .. }
    ));

    // A parser that displays a picture when the next unit arrives is no error.
    let mut script = ScriptedPass::new(Codec::Vp8);
    script
        .feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100)])
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(0, 0)])
        .unwrap();
    script
        .feed(frame(2, 2), &[Decode(2, 102), Display(1, 1)])
        .unwrap();
    script.finish(&[Display(2, 2)]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn too_many_displayed_pictures_end_the_pass() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    let calls = [
        Sequence(640, 480, 8),
        Decode(0, 100),
        Display(0, 0),
        Display(0, 0),
    ];
    assert!(matches!(
        error(script.feed(frame(0, 0), &calls)),
        Error::Mismatch { .. }
    ));
}

#[test]
fn displayed_surface_without_picture_is_not_mapped() {
    let mut script = ScriptedPass::new(Codec::Av1);
    let failure = error(script.feed(frame(0, 0), &[Sequence(640, 480, 8), Display(3, 0)]));
    assert!(
        matches!(&failure, Error::Mismatch { reason } if reason.contains("unit 0")),
        "{failure}"
    );
}

#[test]
fn smaller_size_keeps_references_larger_is_refused() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(320, 240, 8), Decode(1, 101), Display(1, 1)],
        )
        .unwrap();
    let failure = error(script.feed(
        frame(2, 2),
        &[Sequence(1280, 720, 8), Decode(2, 103), Display(2, 3)],
    ));
    assert!(
        matches!(&failure, Error::Unsupported { reason } if reason.contains("1280x720")),
        "{failure}"
    );
    assert_eq!(script.delivered, [(0, 100), (1, 101)]);
    assert_eq!(script.stats().reconfigured, 1);
}

#[test]
fn redisplayed_picture_is_never_scaled() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(
            unwanted(1, 1),
            &[Sequence(320, 240, 8), Decode(1, 101), Display(1, 1)],
        )
        .unwrap();
    script.feed(frame(2, 2), &[Display(0, 0)]).unwrap();
    let failure = error(script.finish(&[]));
    assert!(
        matches!(&failure, Error::Unsupported { reason } if reason.contains("unit 2")),
        "{failure}"
    );
}
