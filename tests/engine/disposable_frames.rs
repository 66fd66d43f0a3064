//! Tests that all pictures stay bit-exact when those that the headers mark as disposable are
//! omitted. Covers the test media and the second corpus, or the folder FRAMESPOOL_MORE_VIDEOS.
//! Packets are fed to a decoder directly, so that only the parsing of the headers is under test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::frame_dependency::{MAX_FRAMES, Video, more_videos};
use crate::common::{named, videos};
use framespool::decode::plan::{self};
use framespool::source::{ByteSource, MemorySource};
use framespool::units::{DecodeIndex, PresentationIndex};

/// The most luma samples of each file that are decoded, so that the test takes about half a minute.
const MAX_SAMPLES: u64 = 60_000_000;

#[derive(Default)]
struct Tally {
    files: usize,
    pictures: usize,
    droppable: usize,
    bytes: u64,
    bytes_droppable: u64,
    files_with_drops: usize,
    compared: usize,
    passes: usize,
}

/// Compares decoding of the kept packets with decoding of all, for several sets. Returns (pictures
/// compared, passes).
fn check_omission(video: &mut Video) -> Result<(usize, usize), String> {
    let params = &video.index.info.params;
    let area = u64::from(params.width.max(16)) * u64::from(params.height.max(16));
    let most = (MAX_SAMPLES / area).clamp(24, MAX_FRAMES) as usize;
    let Some(&start) = video.index.sync_points.first() else {
        return Ok((0, 0));
    };
    let all: Vec<u32> = (start..video.dependencies.len() as u32)
        .take(most)
        .collect();
    let whole = video.decode(&all);
    // After the first decoder error, pictures are concealed from the frames that the decoder holds.
    let first_error_at = whole.logged_error.as_ref().map_or(u32::MAX, |c| c.0);
    let (mut compared, mut passes) = (0, 0);
    let mut check = |video: &mut Video, name: &str, kept: &[u32], wanted: &dyn Fn(u32) -> bool| {
        let got = video.decode(kept);
        passes += 1;
        if let Some((at, why)) = got.logged_error.as_ref().filter(|c| c.0 < first_error_at) {
            return Err(format!("{name}: packet {at}: {why}"));
        }
        for &at in kept.iter().filter(|&&at| at < first_error_at && wanted(at)) {
            match (whole.pictures.get(&at), got.pictures.get(&at)) {
                (Some(w), Some(g)) if w == g => compared += 1,
                (None, None) => {}
                // Not output yet when decoding stopped.
                _ if whole.logged_error.is_some() && !got.pictures.contains_key(&at) => {}
                (w, g) => return Err(format!("{name}: packet {at} is {g:x?} instead of {w:x?}")),
            }
        }
        Ok(())
    };
    let references = |video: &Video, at: u32| !video.is_leaf(at);
    for layer in (0..=video.highest_layer).rev() {
        let wanted = |at: u32| video.layer(at) <= layer && references(video, at);
        let kept = video.packets_to_decode(&all, wanted);
        let kept_set = kept.clone();
        check(
            video,
            &format!("layers to {layer}, no leaves"),
            &kept,
            &|at| kept_set.contains(&at),
        )?;
    }
    for salt in 0..2u32 {
        let chosen = |at: u32| (at ^ salt).wrapping_mul(2_654_435_761) >> 31 == 1;
        let kept = video.packets_to_decode(&all, |at| !video.is_leaf(at) || chosen(at));
        check(video, "half of the leaves", &kept, &|_| true)?;
    }
    // Clips of sixteen frames with stride four, as a loader would decode them.
    let frames = video.index.num_frames();
    let last_frame = frames.min(most as u32) - 1;
    for place in [1u32, 3] {
        let begin = (last_frame / 4 * place).min(last_frame.saturating_sub(60));
        let clip: Vec<PresentationIndex> = (0..16)
            .map(|n| PresentationIndex((begin + 4 * n).min(last_frame)))
            .collect();
        for run in plan::plan_decode_ranges(&video.index, &clip) {
            let end = run.end.0.min(video.dependencies.len() as u32 - 1);
            let packets: Vec<u32> = (run.start.0..=end).collect();
            let wanted = |at: u32| {
                run.wanted.binary_search(&DecodeIndex(at)).is_ok()
                    || video.index.packets[at as usize].is_second_field()
            };
            let kept = video.packets_to_decode(&packets, wanted);
            let shown = run.wanted.clone();
            if end >= first_error_at || packets.iter().any(|at| !all.contains(at)) {
                continue;
            }
            // Leading pictures of an open GOP cause decoder errors whether or not other pictures
            // are omitted.
            let order = video.index.packets[run.start.as_usize()].order;
            if packets
                .iter()
                .any(|&at| video.index.packets[at as usize].order < order)
            {
                continue;
            }
            check(video, "a clip", &kept, &|at| {
                shown.contains(&DecodeIndex(at))
            })?;
        }
    }
    Ok((compared, passes))
}

#[test]
fn frames_are_bit_exact_without_disposable_pictures() {
    let more = more_videos();
    let usual = more.is_empty();
    let entries = if usual { videos() } else { more };
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let tallies: Mutex<BTreeMap<String, Tally>> = Mutex::default();
    let lines = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    let Some(mut video) = Video::open(entry) else {
                        continue;
                    };
                    let all: Vec<u32> = (0..video.dependencies.len() as u32).collect();
                    let kept = video
                        .packets_to_decode(&all, |at| video.layer(at) == 0 && !video.is_leaf(at));
                    let dropped = all.len() - kept.len();
                    let (bytes, fed) = (video.bytes(&all), video.bytes(&kept));
                    let mut proof = Ok((0, 0));
                    if dropped > 0 {
                        proof = check_omission(&mut video);
                        assert!(
                            video.may_have_disposable,
                            "{}: has disposable pictures although its headers exclude them",
                            entry.path
                        );
                        if proof == Ok((0, 0)) && !entry.is_corrupt() {
                            proof = Err("nothing was compared".into());
                        }
                    }
                    let percent = |part: u64, whole: u64| 100 * part / whole.max(1);
                    let line = format!(
                        "{}, {} packets, {}% disposable, {}% of bytes, layers to {}: {}",
                        video.index.info.params.codec.name,
                        all.len(),
                        percent(dropped as u64, all.len() as u64),
                        percent(bytes - fed, bytes),
                        video.highest_layer,
                        match &proof {
                            Ok((compared, passes)) =>
                                format!("{compared} pictures equal in {passes} passes"),
                            Err(why) => why.clone(),
                        }
                    );
                    lines.lock().unwrap().insert(entry.path.clone(), line);
                    if let Err(why) = &proof {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}: {why}", entry.path));
                    }
                    let mut tallies = tallies.lock().unwrap();
                    let tally = tallies
                        .entry(video.index.info.params.codec.name.clone())
                        .or_default();
                    tally.files += 1;
                    tally.pictures += all.len();
                    tally.droppable += dropped;
                    tally.bytes += bytes;
                    tally.bytes_droppable += bytes - fed;
                    tally.files_with_drops += usize::from(dropped > 0);
                    let (compared, passes) = proof.unwrap_or_default();
                    tally.compared += compared;
                    tally.passes += passes;
                }
            });
        }
    });
    for (path, line) in lines.into_inner().unwrap() {
        println!("{path}: {line}");
    }
    println!(
        "codec: files (with disposable ones), pictures, disposable, bytes, disposable, equal pictures, passes"
    );
    let tallies = tallies.into_inner().unwrap();
    for codec in ["h264", "hevc", "av1", "mpeg1video", "mpeg2video", "prores"] {
        let found = tallies.get(codec).is_some_and(|t| t.files_with_drops > 0);
        assert!(found || !usual, "no {codec} file has disposable pictures");
    }
    for (codec, t) in tallies {
        println!(
            "{codec}: {} ({}), {}, {}, {}, {}, {}, {}",
            t.files,
            t.files_with_drops,
            t.pictures,
            t.droppable,
            t.bytes,
            t.bytes_droppable,
            t.compared,
            t.passes
        );
    }
    println!("in {:?}", Duration::from_secs(began.elapsed().as_secs()));
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} files fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A sequence parameter set that declares a reorder depth of two pictures, and the same one without
/// the declaration.
const SPS_WITH_REORDER_DEPTH: [u8; 26] = *b"\x67\x64\x00\x1e\xac\xd9\x40\xa0\x2f\xf9\x70\x11\x00\x00\x03\x00\x01\x00\x00\x03\x00\x30\x0f\x16\x2d\x96";
const SPS_WITHOUT_REORDER_DEPTH: [u8; 26] = *b"\x67\x64\x00\x1e\xac\xd9\x40\xa0\x2f\xf9\x70\x11\x00\x00\x03\x00\x01\x00\x00\x03\x00\x30\x04\x00\x00\x00";

#[test]
fn unknown_reorder_depth_loses_no_frames() {
    let entry = named("video/derived/base_640x360.mp4");
    let mut bytes = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let at = bytes
        .windows(SPS_WITH_REORDER_DEPTH.len())
        .position(|w| w == SPS_WITH_REORDER_DEPTH)
        .expect("its parameter set");
    bytes[at..at + SPS_WITHOUT_REORDER_DEPTH.len()].copy_from_slice(&SPS_WITHOUT_REORDER_DEPTH);
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("silent", bytes));
    let mut video = Video::read(source).expect("an H.264 file");
    assert_eq!(video.index.info.params.reorder, Some(2));
    // Each frame alone, from a new decoder.
    let whole = video.decode(&(0..video.index.packets.len() as u32).collect::<Vec<_>>());
    for frame in (0..video.index.num_frames()).map(PresentationIndex) {
        let run = &plan::plan_decode_ranges(&video.index, &[frame])[0];
        let packets: Vec<u32> = (run.start.0..=run.end.0).collect();
        let kept = video.packets_to_decode(&packets, |at| at == run.end.0);
        let alone = video.decode(&kept);
        assert!(alone.logged_error.is_none());
        assert!(
            alone.pictures.contains_key(&run.end.0),
            "frame {} is lost",
            frame.0
        );
        assert_eq!(
            alone.pictures[&run.end.0], whole.pictures[&run.end.0],
            "frame {}",
            frame.0
        );
    }
    assert!(check_omission(&mut video).expect("exact").0 > 0);
}
