//! Text lists, annotations and patterns: the same dataset each time, with columns of its length, or an error that names the file.
//! Listed files are not opened.

use std::path::{Path, PathBuf};

use framespool::source::{ByteSource, ImageSequence, ImageSequenceSource};
use framespool::Result;
use framespool_datasets::{
    activitynet, annotation_file, ava, dali_file_list, epic_kitchens, hmdb51, jester, json_lines, kinetics,
    something_something, ucf101, AnnotationColumn, AnnotationOptions, AvaOptions, DaliUnit, Dataset,
    EpicKitchensOptions, ImageSequencePattern, MissingFilePolicy, NumberedVideos, SampleKeys, SegmentBounds,
};

use super::{check_error, Target, USUAL};
use crate::fuzz_input::FuzzInput;
use crate::scratch;

pub const LISTS: Target = Target {
    name: "lists",
    about: "lists and annotations of fourteen kinds, CSV and JSON among them",
    options: 2,
    seeds: |_| SEEDS.iter().map(|(kind, text)| [&[*kind, 0], text.as_bytes()].concat()).collect(),
    run: |input| {
        let Some((&[kind, option], text)) = input.split_first_chunk::<2>() else { return };
        let path = scratch::write("fuzzed.txt", text);
        same_twice(&path, || listed(kind, option, &path));
    },
    longest: 16 << 10,
    replayed: 10_000,
    ..USUAL
};

pub const JSON_LINES: Target = Target {
    name: "json_lines",
    about: "JSON lines",
    options: 1,
    seeds: |_| JSON.iter().map(|text| [&[0], text.as_bytes()].concat()).collect(),
    run: |input| {
        let Some((&option, text)) = input.split_first() else { return };
        let path = scratch::write("fuzzed.jsonl", text);
        let keys = SampleKeys {
            source: "video".into(),
            label: "label".into(),
            start: "start".into(),
            end: "end".into(),
            in_frames: option & 1 == 1,
        };
        same_twice(&path, || json_lines(&path, None, &keys, None));
    },
    longest: 16 << 10,
    replayed: 10_000,
    ..USUAL
};

pub const FRAMES: Target = Target {
    name: "frames",
    about: "patterns and numbers of frames in folders",
    seeds: |_| {
        let seeds = ["img_{:05}.jpg", "img_%05d.jpg", "{}.jpg", "%d.png", "{:3d}", "a{:020}b"];
        seeds.iter().map(|pattern| [b"\x01\x01\x02\x0a\x0a", pattern.as_bytes()].concat()).collect()
    },
    run: frames,
    longest: 300,
    replayed: 10_000,
    ..USUAL
};

const SEEDS: [(u8, &str); 16] = [
    (0, "a.mp4 1\nb c.mp4 2\n# no\nd.mp4\n"),
    (1, "a.mp4,1\nb.mp4,\n"),
    (2, "a.mp4 0 3 10\nb.mp4 1 -5 -1\nc.mp4 2\n"),
    (3, "a.mp4 0 0.5 1.25\nb.mp4 1 2\n"),
    (4, "folder/a 30 1\nb 12 0 2\n"),
    (5, "a 1\nb 2 3\n"),
    (6, "a.mp4 120 3\nb 80 1\n"),
    (7, "label,youtube_id,time_start,time_end,split\nabseiling,0wR5jVB-WPk,417,427,train\n\"a, b\",x,1,2,val\n"),
    (8, "-5KQ66BBWC4,0902,0.077,0.151,0.283,0.811,80,1\n-5KQ66BBWC4,0902,0.077,0.151,0.283,0.811,9,1\nx,903,,,,,\n"),
    (9, "{\"database\": {\"v1\": {\"subset\": \"training\", \"duration\": 10.5, \"annotations\": [{\"segment\": [0.5, 2], \"label\": \"jump\"}]}, \"v2\": {\"subset\": \"testing\", \"annotations\": []}}}"),
    (10, "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,verb_class\nP01_01_0,P01,P01_01,00:00:01.089,00:00:02.629,8,202,3\n"),
    (11, "[{\"id\": \"78687\", \"label\": \"holding potato\", \"template\": \"Holding [something]\", \"placeholders\": [\"potato\"]}]"),
    (12, "34870;Drumming Fingers\n56557;Sliding Two Fingers Right\n"),
    (13, "April_09_brush_hair_u_nm_np1_ba_goo_0.avi 1 \nx.avi 2\ny.avi 0\n"),
    (14, "ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1\n"),
    (15, "a.mp4;0;x\n\u{feff}b.mp4;1\n"),
];

const JSON: [&str; 4] = [
    "{\"video\": \"a.mp4\", \"label\": 1, \"start\": 0.5, \"end\": 2}\n{\"video\": \"b.mp4\"}\n",
    "{\"video\": \"file:///data/a%20b.mp4\", \"label\": \"run\", \"end\": 3, \"more\": {\"deep\": [1, 2.5, null, \"x\"]}}\n",
    "{\"video\": \"s3://bucket/a.mp4\", \"label\": [1, 2]}\n\n{\"video\": \"x\", \"label\": [], \"n\": 18446744073709551615}\n",
    "{\"video\": \"https://host/a.mp4?sig=1\", \"start\": 3, \"end\": 9, \"id\": \"007\"}\n",
];

/// Reads a list twice.
fn same_twice(path: &Path, read: impl Fn() -> Result<Dataset>) {
    let first = check_error(read());
    match (&first, check_error(read())) {
        // NaN values are not equal to themselves, but readers reject them.
        (Ok(first), Ok(second)) => assert_eq!(*first, second),
        (Err(first), Err(second)) => assert_eq!(first.to_string(), second.to_string()),
        (first, second) => panic!("first {first:?}, then {second:?}"),
    }
    let Ok(dataset) = first else { return };
    let (entries, classes) = (dataset.samples.len(), dataset.classes.len() as i64);
    assert!(entries > 0, "{} lists nothing without an error", path.display());
    assert!(dataset.columns.iter().all(|column| column.values.len() == entries));
    for sample in &dataset.samples {
        if sample.label_name.is_some() && classes > 0 {
            assert!((0..classes).contains(&sample.label), "label {} of {classes}", sample.label);
        }
        match sample.segment {
            Some(SegmentBounds::Seconds { start, end }) => {
                let finite = start.is_none_or(f64::is_finite) && end.is_none_or(f64::is_finite);
                assert!(finite && start.zip(end).is_none_or(|(start, end)| start < end), "{sample:?}");
            }
            Some(SegmentBounds::Frames { start, end: Some(end) }) if start >= 0 && end >= 0 => {
                assert!(start < end, "{sample:?}");
            }
            _ => {}
        }
    }
}

fn listed(kind: u8, option: u8, path: &Path) -> Result<Dataset> {
    use AnnotationColumn::{Duration, Label, Labels, Start, Total};
    let root = Path::new("/nowhere");
    let frames =
        || ImageSequencePattern { pattern: "img_{:05}.jpg".into(), first: 1, count: None, fps: (30, 1) };
    let classes = scratch::folder().join("classes.txt");
    let odd = option & 1 == 1;
    let list = |columns: &[AnnotationColumn], delimiter: Option<&str>| {
        let extension = (option & 2 == 2).then_some("mp4");
        let frames = Some(&frames());
        annotation_file(path, &AnnotationOptions { root: Some(root), columns, delimiter, extension, frames })
    };
    match kind % 16 {
        0 => annotation_file(path, &AnnotationOptions::default()),
        1 => list(&[Label], Some(",")),
        2 => dali_file_list(path, None, DaliUnit::Frames),
        3 if odd => {
            let (start_up, end_up) = (option & 2 == 2, option & 4 == 4);
            dali_file_list(path, None, DaliUnit::Rounded { start_up, end_up, fps: (30000, 1001) })
        }
        3 => dali_file_list(path, None, DaliUnit::Seconds),
        4 if odd => list(&[Total, Label], None),
        4 => list(&[Start, Total, Label], None),
        5 => list(if odd { &[Labels] } else { &[Total, Labels] }, None),
        6 => list(&[Duration, Label], odd.then_some("::")),
        7 => kinetics(path, root, "mp4", odd.then_some("train"), None, missing(option)),
        8 => {
            let span_seconds = if odd { 3.0 } else { 1e-3 };
            let file = if option & 8 == 8 { "{video_id}.*" } else { "{video_id}.mp4" };
            ava(
                path,
                &AvaOptions { root, file, span_seconds, begin_seconds: 900.0, missing: missing(option) },
            )
        }
        9 => activitynet(path, root, odd.then_some("training"), "v_{id}.mp4", None, missing(option)),
        10 => {
            let frames = frames();
            epic_kitchens(
                path,
                &EpicKitchensOptions {
                    root,
                    file: "{participant_id}/{video_id}.MP4",
                    label: (option & 2 == 2).then_some("verb"),
                    classes: None,
                    in_frames: odd,
                    frames: (option & 4 == 4).then_some(&frames),
                },
            )
        }
        11 | 12 => {
            if !classes.exists() {
                scratch::write("classes.txt", b"{\"Holding something\": \"0\"}");
            }
            let videos =
                if odd { NumberedVideos::Folders(frames()) } else { NumberedVideos::Files("webm".into()) };
            match kind % 16 {
                11 => something_something(path, &classes, root, &videos),
                _ => jester(path, path, root, &videos),
            }
        }
        // Read like the folder of splits: one of its files.
        13 => hmdb51(folder_of(path, "brush_hair_test_split1.txt"), root, 1, odd),
        14 => ucf101(folder_of(path, "trainlist01.txt"), root, 1, !odd),
        _ => list(&[Label], Some(if odd { ";" } else { "\t" })),
    }
}

fn missing(option: u8) -> MissingFilePolicy {
    if option & 16 == 16 {
        MissingFilePolicy::Error
    } else {
        MissingFilePolicy::Skip
    }
}

/// A folder with this list under this name, and the other files of such a folder.
fn folder_of(path: &Path, name: &str) -> PathBuf {
    let folder = scratch::folder().join(name.replace('.', "-"));
    if !folder.exists() {
        std::fs::create_dir_all(&folder).expect("room for a folder");
        std::fs::write(folder.join("classInd.txt"), "1 ApplyEyeMakeup\n2 Archery\n")
            .expect("room for a file");
    }
    std::fs::copy(path, folder.join(name)).expect("room for a file");
    folder
}

fn frames(input: &[u8]) {
    let mut case = FuzzInput::new(input);
    let folder = scratch::folder().join("frames");
    if !folder.exists() {
        std::fs::create_dir_all(&folder).expect("room for a folder");
        for name in ["img_00001.jpg", "img_00002.jpg", "1.jpg", "2.jpg", "10.png", "0000000000000000000001"] {
            std::fs::write(folder.join(name), name).expect("room for a file");
        }
    }
    let frames = ImageSequence {
        folder,
        first: case.count(),
        count: case.maybe(FuzzInput::count),
        fps: (case.count(), case.count()),
        pattern: case.maybe(|case| case.text(255)),
    };
    let Ok(source) = check_error(ImageSequenceSource::open(&frames)) else { return };
    let parts: Vec<(u64, u64)> = source.file_spans().collect();
    assert!(!parts.is_empty() && parts.len() <= 6, "{} frames of 6 files", parts.len());
    assert!(frames.count.is_none_or(|count| frames.pattern.is_none() || count as usize == parts.len()));
    let mut end = 0;
    for &(begin, len) in &parts {
        assert_eq!(begin, end);
        end += len;
    }
    assert_eq!(end, source.len());
    let mut bytes = vec![0; end as usize];
    assert_eq!(source.read_at(0, &mut bytes).expect("files that are there"), bytes.len());
}
