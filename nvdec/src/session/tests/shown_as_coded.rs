//! In: VP8, VP9 and AV1: pictures shown in coding order, some more than once, with wrong timestamps.
//! Out: who owns which picture.
//! Never: needs a driver.

use super::gpu::*;
use crate::format::Codec;
use crate::session::Unit;
use crate::Error;

#[test]
fn wrong_times_around_hidden_pictures_change_nothing() {
    let mut script = Script::new(Codec::Vp9);
    // A hidden picture and a shown one in one unit; times come back two too late.
    let superframe = |id, order| Unit { whole_picture: false, ..frame(id, order) };
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 2)]).unwrap();
    script.feed(superframe(1, 1), &[Decode(1, 900), Decode(2, 101), Show(2, 3)]).unwrap();
    script.feed(frame(2, 2), &[Decode(3, 102), Show(3, 0)]).unwrap();
    // The hidden one is shown: nothing is decoded for that.
    script.feed(frame(3, 3), &[Show(1, 0)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.got, [(0, 100), (1, 101), (2, 102), (3, 900)]);
}

#[test]
fn nothing_of_vp9_is_left_out() {
    let mut script = Script::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    script.feed(needless(1, 1), &[Decode(1, 101), Show(1, 1)]).unwrap();
    script.feed(frame(2, 2), &[Decode(2, 102), Show(2, 2)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.counts().decoded, script.counts().skipped), (3, 0));
    assert_eq!(script.got, [(0, 100), (2, 102)]);
}

#[test]
fn av1_leaves_out_only_what_is_surely_the_needless_unit() {
    let several = |id, order| Unit { whole_picture: false, ..needless(id, order) };
    let mut script = Script::new(Codec::Av1);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    script.feed(needless(1, 1), &[Decode(1, 101), Show(1, 1)]).unwrap();
    script.feed(several(2, 2), &[Decode(2, 102)]).unwrap();
    // What comes now may still be the unit before's.
    script.feed(needless(3, 3), &[Decode(3, 202), Show(3, 2), Decode(4, 103), Show(4, 3)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.counts().decoded, script.counts().skipped), (4, 1));
}

#[test]
fn a_picture_that_was_left_out_is_not_shown_again() {
    let mut script = Script::new(Codec::Av1);
    script.feed(unwanted(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    script.feed(needless(1, 1), &[Decode(1, 101), Show(1, 1)]).unwrap();
    let halt = error(script.feed(frame(2, 2), &[Show(1, 2)]));
    assert!(matches!(&halt, Error::Mismatch { reason } if reason.contains("not decoded")), "{halt}");
}

#[test]
fn a_picture_that_does_not_come_is_noticed_before_others_are_taken_for_it() {
    let mut script = Script::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    assert!(matches!(error(script.feed(frame(1, 1), &[])), Error::Mismatch { .. }));

    // A parser that shows a picture when the next unit comes is no reason for alarm.
    let mut script = Script::new(Codec::Vp8);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100)]).unwrap();
    script.feed(frame(1, 1), &[Decode(1, 101), Show(0, 0)]).unwrap();
    script.feed(frame(2, 2), &[Decode(2, 102), Show(1, 1)]).unwrap();
    script.finish(&[Show(2, 2)]).unwrap();
    assert_eq!(script.got, [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn more_pictures_than_the_units_show_end_the_run() {
    let mut script = Script::new(Codec::Vp9);
    let calls = [Sequence(640, 480, 8), Decode(0, 100), Show(0, 0), Show(0, 0)];
    assert!(matches!(error(script.feed(frame(0, 0), &calls)), Error::Mismatch { .. }));
}

#[test]
fn a_shown_surface_without_a_picture_is_not_mapped() {
    let mut script = Script::new(Codec::Av1);
    let halt = error(script.feed(frame(0, 0), &[Sequence(640, 480, 8), Show(3, 0)]));
    assert!(matches!(&halt, Error::Mismatch { reason } if reason.contains("unit 0")), "{halt}");
}

#[test]
fn a_size_within_the_decoder_keeps_its_references_and_a_larger_one_is_refused() {
    let mut script = Script::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    script.feed(frame(1, 1), &[Sequence(320, 240, 8), Decode(1, 101), Show(1, 1)]).unwrap();
    let halt = error(script.feed(frame(2, 2), &[Sequence(1280, 720, 8), Decode(2, 103), Show(2, 3)]));
    assert!(matches!(&halt, Error::Unsupported { reason } if reason.contains("1280x720")), "{halt}");
    assert_eq!(script.got, [(0, 100), (1, 101)]);
    assert_eq!(script.counts().reconfigured, 1);
}

#[test]
fn a_picture_of_another_size_is_not_shown_again_scaled() {
    let mut script = Script::new(Codec::Vp9);
    script.feed(unwanted(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Show(0, 0)]).unwrap();
    script.feed(unwanted(1, 1), &[Sequence(320, 240, 8), Decode(1, 101), Show(1, 1)]).unwrap();
    script.feed(frame(2, 2), &[Show(0, 0)]).unwrap();
    let halt = error(script.finish(&[]));
    assert!(matches!(&halt, Error::Unsupported { reason } if reason.contains("unit 2")), "{halt}");
}
