//! Templates and times only; tests/python/test_lerobot.py reads whole datasets.

use super::*;

fn number(name: &str) -> Option<i64> {
    match name {
        "chunk_index" => Some(7),
        "file_index" => Some(1234),
        _ => None,
    }
}

#[test]
fn templates_are_filled_and_stay_below_the_folder() {
    for (template, path) in [
        (
            "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
            "videos/a.b/chunk-007/file-1234.mp4",
        ),
        ("{chunk_index}-{file_index:06d}.mp4", "7-001234.mp4"),
        ("plain.mp4", "plain.mp4"),
    ] {
        assert_eq!(expand_path(template, "a.b", number).as_deref(), Ok(path));
    }
    for template in [
        "{file",
        "{other}",
        "{file_index:3x}",
        "{file_index:99d}",
        "{video_key:03d}",
        "/a.mp4",
        "a/../b.mp4",
        "",
    ] {
        assert!(expand_path(template, "a.b", number).is_err(), "{template}");
    }
    assert!(expand_path("{video_key}/a.mp4", "../..", number).is_err());
}

#[test]
fn image_cameras_are_reported() {
    let root = crate::tests::TempFolder::new();
    let info = r#"{"codebase_version": "v3.0", "fps": 30, "video_path": null, "features": {"cam": {"dtype": "image"}}}"#;
    root.write(INFO, info);
    let error_of = |camera| match Info::read(&root.0, camera) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    assert!(
        error_of(Some("cam")).contains("whose images are in the dataset's tables"),
        "{}",
        error_of(Some("cam"))
    );
    assert!(error_of(None).contains("it has none"), "{}", error_of(None));
    root.write(INFO, info.replace("image", "video"));
    assert!(
        error_of(None).contains("\"video_path\" must be a string"),
        "{}",
        error_of(None)
    );
}

#[test]
fn segments_start_and_end_between_frames() {
    let root = crate::tests::TempFolder::new();
    root.write(INFO, r#"{"codebase_version": "v3.0"}"#);
    let info = Info {
        metadata: Metadata::read(&root.0).unwrap().0,
        fps: 50.0,
        video_path: String::new(),
        camera: String::new(),
    };
    let Ok(SegmentBounds::Seconds {
        start: Some(start),
        end: Some(end),
    }) = info.segment(100, 2.0, 4.0 + 1e-4)
    else {
        panic!()
    };
    assert!((start - 1.99).abs() < 1e-12 && (end - 3.99).abs() < 1e-12);
    let Ok(SegmentBounds::Seconds {
        start: None,
        end: Some(_),
    }) = info.segment(100, 0.0, 2.0)
    else {
        panic!()
    };
    assert!(
        info.segment(100, 2.0, 4.02).is_err()
            && info.segment(99, 2.0, 4.0).is_err()
            && info.segment(0, 2.0, 2.0).is_err()
    );
}

#[test]
fn task_numbers_are_class_indices() {
    let task = |number, name: &str| (number, name.to_owned());
    assert_eq!(classes(vec![task(1, "b"), task(0, "a")]), ["a", "b"]);
    assert_eq!(
        classes(vec![task(2, "b"), task(0, "a")]),
        Vec::<String>::new()
    );
}
