//! Tests H.264 and HEVC, whose presentation order differs from decode order: which picture belongs
//! to which unit. They need no driver.

use super::harness::*;
use crate::Error;
use crate::format::Codec;
use crate::session::AccessUnit;
use crate::session::decode_pass::StopReason;

/// I0 P3 B1 B2 P6 B4 B5, all requested, with the callbacks of a parser without delay. Ids are
/// positions in decode order, labels are 100 more.
fn feed_ibbp(script: &mut ScriptedPass) {
    let calls: [(i64, &[Call]); 7] = [
        (0, &[Sequence(640, 480, 4), Decode(0, 100)]),
        (3, &[Decode(1, 101), Display(0, 0)]),
        (1, &[Decode(2, 102), Display(2, 1)]),
        (2, &[Decode(3, 103), Display(3, 2)]),
        (6, &[Decode(4, 104), Display(1, 3)]),
        (4, &[Decode(5, 105), Display(5, 4)]),
        (5, &[Decode(6, 106), Display(6, 5)]),
    ];
    for (id, (timestamp, calls)) in (0..).zip(calls) {
        script.feed(frame(id, timestamp), calls).unwrap();
    }
}

#[test]
fn pictures_match_units_in_presentation_order() {
    let mut script = ScriptedPass::new(Codec::H264);
    feed_ibbp(&mut script);
    assert_eq!(
        script.delivered,
        [(0, 100), (2, 102), (3, 103)],
        "three wait, so that the engine has work"
    );
    script.finish(&[Display(4, 6)]).unwrap();
    assert_eq!(
        script.delivered,
        [
            (0, 100),
            (2, 102),
            (3, 103),
            (1, 101),
            (5, 105),
            (6, 106),
            (4, 104)
        ]
    );
    let stats = script.stats();
    assert_eq!(
        (
            stats.access_units,
            stats.decoded,
            stats.mapped,
            stats.unwanted
        ),
        (7, 7, 7, 0)
    );
    assert_eq!(
        script.gpu.0.borrow().status_queries,
        7,
        "the decode status is queried once for each"
    );
    assert_eq!(script.release().last().unwrap(), "put 0");
}

#[test]
fn reused_surface_is_delivered_first() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 1), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    assert!(script.delivered.is_empty(), "it waits");
    // The parser assigns its surface to the next picture at once.
    script
        .feed(frame(1, 1), &[Decode(0, 101), Display(0, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (1, 101)]);
    assert_eq!(
        script.log(),
        ["take 0", "decode 100", "map 100", "decode 101", "map 101"]
    );
    assert_eq!(script.stats().early_maps, 1);
}

#[test]
fn skipped_picture_keeps_the_pending_surface() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 1), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(disposable(1, 1), &[Decode(0, 101), Display(0, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100)]);
}

#[test]
fn unwanted_pictures_are_not_mapped_or_not_decoded() {
    let mut script = ScriptedPass::new(Codec::Hevc);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(disposable(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script
        .feed(frame(2, 2), &[Decode(2, 102), Display(2, 2)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(
        script.log(),
        ["take 0", "decode 100", "decode 102", "map 102"]
    );
    let stats = script.stats();
    assert_eq!((stats.skipped, stats.unwanted, stats.mapped), (1, 2, 1));
}

#[test]
fn wanted_picture_that_was_skipped_is_an_error() {
    let mut script = ScriptedPass::new(Codec::H264);
    let wrong = AccessUnit {
        decode: false,
        ..frame(0, 0)
    };
    assert!(matches!(error(script.feed(wrong, &[])), Error::Misuse(_)));

    // The parser drops unit 1 silently. If unit 2's picture were assigned to unit 1, it would not
    // be decoded.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script.feed(disposable(1, 1), &[]).unwrap();
    script
        .feed(frame(2, 2), &[Decode(1, 102), Display(1, 2)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (2, 102)]);
}

#[test]
fn picture_with_a_wrong_timestamp_ends_the_pass() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(frame(0, 0), &[Sequence(640, 480, 4), Decode(0, 100)])
        .unwrap();
    let failure = error(script.feed(frame(1, 1), &[Decode(1, 101), Display(0, 1)]));
    assert!(
        matches!(&failure, Error::Mismatch { reason } if reason.contains("unit 0")),
        "{failure}"
    );
    assert!(script.delivered.is_empty());

    // Also if no caller requested the picture: another one may have been skipped instead.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(unwanted(0, 0), &[Sequence(640, 480, 4), Decode(0, 100)])
        .unwrap();
    assert!(matches!(
        error(script.feed(frame(1, 1), &[Decode(1, 101), Display(0, 7)])),
        Error::Mismatch { .. }
    ));
}

#[test]
fn picture_that_starts_in_no_unit_ends_the_pass() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(frame(0, 0), &[Sequence(640, 480, 4), Decode(0, 100)])
        .unwrap();
    assert!(matches!(
        error(script.feed(frame(1, 1), &[Decode(1, 101), Decode(2, 999)])),
        Error::Mismatch { .. }
    ));
}

#[test]
fn synthesized_pictures_are_not_mapped() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    // Displayed without ever having been decoded, with the timestamp of a requested unit.
    script.feed(frame(7, 1), &[Display(5, 1)]).unwrap();
    script.feed(frame(8, 2), &[]).unwrap();
    assert_eq!(
        error(script.finish(&[])),
        Error::MissingPicture { id: 7, count: 2 }
    );
    assert_eq!(script.delivered, [(0, 100)]);
    assert_eq!(script.stats().unmatched, 1);
}

#[test]
fn a_picture_is_handed_on_once() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[
                Sequence(640, 480, 4),
                Decode(0, 100),
                Display(0, 0),
                Display(0, 0),
            ],
        )
        .unwrap();
    script.finish(&[Display(0, 0)]).unwrap();
    assert_eq!(script.delivered, [(0, 100)]);
}

#[test]
fn all_pictures_at_the_end_of_stream_are_delivered() {
    let mut script = ScriptedPass::new(Codec::Hevc);
    for id in 0..6u32 {
        let surface = id as i32;
        let decode = Decode(surface, 100 + id);
        let calls: &[Call] = if id == 0 {
            &[Sequence(640, 480, 6), decode]
        } else {
            &[decode]
        };
        script.feed(frame(id, id.into()), calls).unwrap();
    }
    assert!(script.delivered.is_empty());
    let display_calls: Vec<Call> = (0..6)
        .map(|surface| Display(surface, surface.into()))
        .collect();
    script.finish(&display_calls).unwrap();
    assert_eq!(
        script.delivered,
        (0..6).map(|id| (id, 100 + id)).collect::<Vec<_>>()
    );
}

/// Two fields in one unit. The end of the second one is detected only when the next unit starts.
#[test]
fn two_fields_in_a_unit_are_one_picture() {
    let both = [0, 0, 1, 0x65, 0x88, 0, 0, 1, 0x41, 0x9a];
    let pair = |id, timestamp| AccessUnit {
        data: &both,
        single_frame: false,
        ..frame(id, timestamp)
    };
    let mut late = ScriptedPass::new(Codec::H264);
    late.feed(pair(0, 0), &[Sequence(640, 480, 4), FirstField(0, 100)])
        .unwrap();
    late.feed(
        pair(1, 1),
        &[SecondField(0, 100), FirstField(1, 101), Display(0, 0)],
    )
    .unwrap();
    late.feed(
        pair(2, 2),
        &[SecondField(1, 101), FirstField(2, 102), Display(1, 1)],
    )
    .unwrap();
    late.finish(&[SecondField(2, 102), Display(2, 2)]).unwrap();
    assert_eq!(late.delivered, [(0, 100), (1, 101), (2, 102)]);
    assert_eq!(late.stats().decoded, 6, "every field is decoded");

    // A parser that detects the end of a unit immediately.
    let mut early = ScriptedPass::new(Codec::H264);
    early
        .feed(
            pair(0, 0),
            &[
                Sequence(640, 480, 4),
                FirstField(0, 100),
                SecondField(0, 100),
                Display(0, 0),
            ],
        )
        .unwrap();
    early
        .feed(
            pair(1, 1),
            &[FirstField(1, 101), SecondField(1, 101), Display(1, 1)],
        )
        .unwrap();
    early.finish(&[]).unwrap();
    assert_eq!(early.delivered, [(0, 100), (1, 101)]);
}

#[test]
fn dropped_unit_does_not_shift_later_units() {
    let late = |id, timestamp| AccessUnit {
        single_frame: false,
        ..frame(id, timestamp)
    };
    let mut script = ScriptedPass::new(Codec::H264);
    script.feed(late(0, 0), &[Sequence(640, 480, 4)]).unwrap();
    script
        .feed(
            AccessUnit {
                wanted: false,
                ..late(1, 1)
            },
            &[Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    // Unit 1's picture would be reported now.
    script.feed(late(2, 2), &[]).unwrap();
    script
        .feed(late(3, 3), &[Decode(1, 102), Display(1, 2)])
        .unwrap();
    script.finish(&[Decode(2, 103), Display(2, 3)]).unwrap();
    assert_eq!(script.delivered, [(0, 100), (2, 102), (3, 103)]);
}

/// Each field in its own unit: the picture belongs to both units, and is reported with the
/// timestamp of either.
#[test]
fn fields_in_two_units_make_one_picture() {
    let field = |id, timestamp| AccessUnit {
        data: &[0, 0, 1, 0x65, 0x88],
        single_frame: false,
        ..frame(id, timestamp)
    };
    let second = |id, timestamp| AccessUnit {
        wanted: false,
        ..field(id, timestamp)
    };
    let mut script = ScriptedPass::new(Codec::H264);
    script.feed(field(0, 0), &[Sequence(640, 480, 4)]).unwrap();
    script.feed(second(1, 1), &[FirstField(0, 100)]).unwrap();
    script
        .feed(field(2, 2), &[SecondField(0, 100), Display(0, 0)])
        .unwrap();
    script.feed(second(3, 3), &[FirstField(1, 102)]).unwrap();
    script
        .finish(&[SecondField(1, 102), Display(1, 3)])
        .unwrap();
    assert_eq!(script.delivered, [(0, 100), (2, 102)]);
    // Without lag, and requested by the second unit.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(second(0, 0), &[Sequence(640, 480, 4), FirstField(0, 100)])
        .unwrap();
    script
        .feed(field(1, 1), &[SecondField(0, 100), Display(0, 0)])
        .unwrap();
    // A frame follows in the same stream.
    script
        .feed(frame(2, 2), &[Decode(1, 102), Display(1, 2)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(1, 100), (2, 102)]);
    // Requested by both units: it is delivered once, and no picture is missing.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(field(0, 0), &[Sequence(640, 480, 4), FirstField(0, 100)])
        .unwrap();
    script
        .feed(field(1, 1), &[SecondField(0, 100), Display(0, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100)]);
}

#[test]
fn wanted_single_field_is_refused() {
    let field = AccessUnit {
        single_frame: false,
        ..frame(0, 0)
    };
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(field, &[Sequence(640, 480, 4), FirstField(0, 100)])
        .unwrap();
    assert!(matches!(
        error(script.feed(frame(1, 1), &[Decode(1, 101), Display(0, 0)])),
        Error::Mismatch { .. }
    ));
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(frame(0, 0), &[Sequence(640, 480, 4), Decode(0, 100)])
        .unwrap();
    assert!(matches!(
        error(script.feed(frame(1, 1), &[SecondField(0, 101)])),
        Error::Mismatch { .. }
    ));
}

#[test]
fn damage_in_an_earlier_picture_fails_the_later_one() {
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status.insert(100, 9);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    assert_eq!(
        error(script.finish(&[])),
        Error::DamagedPicture { id: 0, status: 9 }
    );
    assert!(
        script.delivered.is_empty(),
        "it may refer to the damaged one"
    );

    // A picture that is decoded later does not matter.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status.insert(101, 8);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(unwanted(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(0, 100)]);

    // Damage is queried before the surface is reused.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status.insert(100, 8);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 1), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    assert_eq!(
        error(script.feed(frame(1, 1), &[Decode(0, 101)])),
        Error::DamagedPicture { id: 0, status: 8 }
    );

    // Also if the engine is still decoding at the first query.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status.insert(100, 8);
    script.gpu.0.borrow_mut().in_progress_answers = 3;
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 1), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    assert_eq!(
        error(script.feed(frame(1, 1), &[Decode(0, 101)])),
        Error::DamagedPicture { id: 0, status: 8 }
    );
    assert_eq!(script.gpu.0.borrow().status_queries, 4);
}

#[test]
fn merged_pictures_are_a_mismatch() {
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    let failure = error(script.feed(frame(1, 1), &[DecodeLong(1, 101), Display(1, 1)]));
    assert!(matches!(failure, Error::Mismatch { .. }), "{failure}");
    assert!(
        failure.to_string().contains("access unit 1 has 5 bytes"),
        "{failure}"
    );
}

#[test]
fn packet_after_an_unreported_picture_has_no_end_of_picture_flag() {
    // The first unit may be a field, whose picture the parser reports with the next unit.
    let mut script = ScriptedPass::new(Codec::H264);
    script
        .feed(
            AccessUnit {
                single_frame: false,
                ..frame(0, 0)
            },
            &[],
        )
        .unwrap();
    script
        .feed(
            frame(1, 1),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script.finish(&[Decode(1, 101), Display(1, 1)]).unwrap();
    assert_eq!(
        script.flags[1..],
        [crate::sys::CUVID_PKT_TIMESTAMP],
        "the second unit"
    );
    assert_eq!(script.delivered, [(0, 100), (1, 101)]);
}

#[test]
fn status_that_needs_a_map_is_asked_after_one() {
    // The unwanted picture is mapped for its status before the requested one is delivered.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status_needs_map = true;
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(1, 101)]);
    assert_eq!(
        script.log(),
        [
            "take 0",
            "decode 100",
            "decode 101",
            "map 101",
            "map 100",
            "map 101"
        ]
    );
    assert_eq!(
        (script.stats().maps_for_status, script.stats().late_statuses),
        (1, 0)
    );

    // Damage is found this way.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().status_needs_map = true;
    script.gpu.0.borrow_mut().status.insert(100, 8);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    assert_eq!(
        error(script.finish(&[])),
        Error::DamagedPicture { id: 0, status: 8 }
    );
    assert!(
        script.delivered.is_empty(),
        "it may refer to the damaged one"
    );

    // A status that stays unknown is counted and ends nothing.
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().in_progress_answers = u32::MAX;
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(script.delivered, [(1, 101)]);
    assert_eq!(
        (script.stats().maps_for_status, script.stats().late_statuses),
        (1, 2)
    );
}

#[test]
fn status_does_not_become_unknown_on_a_busy_host() {
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().in_progress_answers = 3;
    script.gpu.0.borrow_mut().status_query_time = std::time::Duration::from_millis(6);
    script
        .feed(
            unwanted(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    script
        .feed(frame(1, 1), &[Decode(1, 101), Display(1, 1)])
        .unwrap();
    script.finish(&[]).unwrap();
    assert_eq!(
        script.log(),
        ["take 0", "decode 100", "decode 101", "map 101"]
    );
    assert_eq!(
        (
            script.stats().maps_for_status,
            script.gpu.0.borrow().status_queries
        ),
        (0, 5)
    );
}

#[test]
fn callback_failure_is_seen_if_the_driver_succeeds() {
    let mut script = ScriptedPass::new(Codec::H264);
    script.gpu.0.borrow_mut().failing = Some(101);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    let failure = error(script.feed(
        frame(1, 1),
        &[Decode(1, 101), Display(1, 1), Decode(2, 102), ReturnSuccess],
    ));
    assert!(
        matches!(
            failure,
            Error::Call {
                call: "cuvidDecodePicture",
                ..
            }
        ),
        "{failure}"
    );
    assert_eq!(
        script.log(),
        ["take 0", "decode 100"],
        "nothing is done after the failure"
    );
}

#[test]
fn consumer_break_or_panic_leaves_nothing_mapped() {
    let mut script = ScriptedPass::new(Codec::H264);
    script.break_at = Some(0);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 1), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    assert!(
        matches!(
            script.feed(frame(1, 1), &[Decode(0, 101)]),
            Err(StopReason::Callback)
        ),
        "also within a callback"
    );

    let mut script = ScriptedPass::new(Codec::H264);
    script.panic_at = Some(0);
    script
        .feed(
            frame(0, 0),
            &[Sequence(640, 480, 4), Decode(0, 100), Display(0, 0)],
        )
        .unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.finish(&[])));
    assert!(outcome.is_err());
    drop(script); // would fail if a picture were still mapped
}
