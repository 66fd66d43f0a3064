//! In: VP8, VP9 and AV1: pictures shown in coding order, some more than once, with wrong timestamps.
//! Out: who owns which picture.
//! Never: needs a driver.

use super::harness::*;
use crate::format::Codec;
use crate::session::AccessUnit;
use crate::Error;

#[test]
fn wrong_times_around_hidden_pictures_change_nothing() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    // A hidden picture and a shown one in one unit; times come back two too late.
    let superframe = |id, timestamp| AccessUnit { single_frame: false, ..frame(id, timestamp) };
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 2)]).unwrap();
    script.feed(superframe(1, 1), &[Decode(1, 900), Decode(2, 101), Display(2, 3)]).unwrap();
    script.feed(frame(2, 2), &[Decode(3, 102), Display(3, 0)]).unwrap();
    // The hidden one is shown: nothing is decoded for that.
    script.feed(frame(3, 3), &[Display(1, 0)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101), (2, 102), (3, 900)]);
}

#[test]
fn nothing_of_vp9_is_left_out() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    script.feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)]).unwrap();
    script.feed(frame(2, 2), &[Decode(2, 102), Display(2, 2)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.stats().decoded, script.stats().skipped), (3, 0));
    assert_eq!(script.delivered, [(0, 100), (2, 102)]);
}

#[test]
fn av1_leaves_out_only_what_is_surely_the_needless_unit() {
    let several = |id, timestamp| AccessUnit { single_frame: false, ..disposable(id, timestamp) };
    let mut script = ScriptedPass::new(Codec::Av1);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    script.feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)]).unwrap();
    script.feed(several(2, 2), &[Decode(2, 102)]).unwrap();
    // What comes now may still be the unit before's.
    script.feed(disposable(3, 3), &[Decode(3, 202), Display(3, 2), Decode(4, 103), Display(4, 3)]).unwrap();
    script.finish(&[]).unwrap();
    assert_eq!((script.stats().decoded, script.stats().skipped), (4, 1));
}

#[test]
fn a_picture_that_was_left_out_is_not_shown_again() {
    let mut script = ScriptedPass::new(Codec::Av1);
    script.feed(unwanted(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    script.feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)]).unwrap();
    let failure = error(script.feed(frame(2, 2), &[Display(1, 2)]));
    assert!(matches!(&failure, Error::Mismatch { reason } if reason.contains("not decoded")), "{failure}");
}

#[test]
fn a_picture_that_does_not_come_is_noticed_before_others_are_taken_for_it() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    assert!(matches!(error(script.feed(frame(1, 1), &[])), Error::Mismatch { .. }));

    // A parser that shows a picture when the next unit comes is no reason for alarm.
    let mut script = ScriptedPass::new(Codec::Vp8);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100)]).unwrap();
    script.feed(frame(1, 1), &[Decode(1, 101), Display(0, 0)]).unwrap();
    script.feed(frame(2, 2), &[Decode(2, 102), Display(1, 1)]).unwrap();
    script.finish(&[Display(2, 2)]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn more_pictures_than_the_units_show_end_the_run() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    let calls = [Sequence(640, 480, 8), Decode(0, 100), Display(0, 0), Display(0, 0)];
    assert!(matches!(error(script.feed(frame(0, 0), &calls)), Error::Mismatch { .. }));
}

#[test]
fn a_shown_surface_without_a_picture_is_not_mapped() {
    let mut script = ScriptedPass::new(Codec::Av1);
    let failure = error(script.feed(frame(0, 0), &[Sequence(640, 480, 8), Display(3, 0)]));
    assert!(matches!(&failure, Error::Mismatch { reason } if reason.contains("unit 0")), "{failure}");
}

#[test]
fn a_size_within_the_decoder_keeps_its_references_and_a_larger_one_is_refused() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script.feed(frame(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    script.feed(frame(1, 1), &[Sequence(320, 240, 8), Decode(1, 101), Display(1, 1)]).unwrap();
    let failure = error(script.feed(frame(2, 2), &[Sequence(1280, 720, 8), Decode(2, 103), Display(2, 3)]));
    assert!(matches!(&failure, Error::Unsupported { reason } if reason.contains("1280x720")), "{failure}");
    assert_eq!(script.delivered, [(0, 100), (1, 101)]);
    assert_eq!(script.stats().reconfigured, 1);
}

#[test]
fn a_picture_of_another_size_is_not_shown_again_scaled() {
    let mut script = ScriptedPass::new(Codec::Vp9);
    script.feed(unwanted(0, 0), &[Sequence(640, 480, 8), Decode(0, 100), Display(0, 0)]).unwrap();
    script.feed(unwanted(1, 1), &[Sequence(320, 240, 8), Decode(1, 101), Display(1, 1)]).unwrap();
    script.feed(frame(2, 2), &[Display(0, 0)]).unwrap();
    let failure = error(script.finish(&[]));
    assert!(matches!(&failure, Error::Unsupported { reason } if reason.contains("unit 2")), "{failure}");
}
