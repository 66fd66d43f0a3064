//! Tests that wanted pictures of HEVC and AV1 are bit-exact when only the pictures that they
//! reference are decoded. Covers the test media and the second corpus, or the folder
//! FRAMESPOOL_MORE_VIDEOS; skips pictures for which full decoding reports errors.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::frame_dependency::{MAX_FRAMES, Video, hash, more_videos};
use crate::common::videos;
use framespool::codecs::references::ReferenceGraph;
use framespool::decode::plan::{self, DecodeRange};
use framespool::decode::{DecodeStats, SoftwareDecoder};
use framespool::ffmpeg::Packet;
use framespool::rng::{Purpose, RngKey};
use framespool::units::{DecodeIndex, PresentationIndex};

/// Counters over the decode ranges of a file's clips.
#[derive(Default, Clone, Copy)]
struct ClosureCounts {
    runs: usize,
    /// Decode ranges whose references could not be determined.
    unanswered: usize,
    packets: usize,
    by_roles: usize,
    by_references: usize,
    /// Packets that the engine decoded.
    fed: u64,
    compared: usize,
}

/// The reference closure of a decode range.
trait ReferenceClosure {
    fn closure(&mut self, run: &DecodeRange) -> Option<Vec<u32>>;
    fn is_required(&self, run: &DecodeRange, at: u32) -> bool;
}

impl ReferenceClosure for Video {
    /// Returns the packets that the wanted pictures of a decode range depend on, by their
    /// references.
    fn closure(&mut self, run: &DecodeRange) -> Option<Vec<u32>> {
        let mut graph = ReferenceGraph::new(&self.index.info.params)?;
        let mut packet = Packet::new();
        for at in (run.start.0..=run.end.0).map(DecodeIndex) {
            self.reader.read(at, at == run.start, &mut packet).ok()?;
            graph.push(packet.data());
        }
        let places = 0..run.packets() as usize;
        let must: Vec<usize> = places
            .clone()
            .filter(|&n| self.is_required(run, n as u32 + run.start.0))
            .collect();
        let needed = graph.required_for(&must)?;
        Some(
            places
                .filter(|&n| needed[n])
                .map(|n| n as u32 + run.start.0)
                .collect(),
        )
    }

    /// Returns whether a packet is decoded regardless of references.
    fn is_required(&self, run: &DecodeRange, at: u32) -> bool {
        let record = &self.index.packets[at as usize];
        record.is_sync()
            || record.is_second_field()
            || run.wanted.binary_search(&DecodeIndex(at)).is_ok()
    }
}

/// Returns random clips among the first frames of a file: sixteen frames with stride four, eight
/// with stride one, and single frames.
fn random_clips(frames: u32) -> Vec<Vec<PresentationIndex>> {
    let shapes = [(16, 4), (8, 1), (1, 1), (1, 1)];
    let clip = |number: u64| {
        let (length, stride) = shapes[number as usize % shapes.len()];
        let span = (length - 1) * stride + 1;
        let mut rng = RngKey {
            seed: 4,
            epoch: 0,
            clip: number,
            occurrence: 0,
        }
        .rng(Purpose::Sampling);
        let begin = rng.next_below(u64::from(frames.saturating_sub(span)) + 1) as u32;
        (0..length)
            .map(|n| PresentationIndex((begin + n * stride).min(frames - 1)))
            .collect()
    };
    (0..3 * shapes.len() as u64).map(clip).collect()
}

/// Decodes only the pictures that wanted pictures depend on, directly and by the engine. Returns
/// `None` if references are not read for this codec.
fn check_closures(video: &mut Video) -> Option<Result<ClosureCounts, String>> {
    const MAX_SAMPLES: u64 = 200_000_000;
    let params = &video.index.info.params;
    ReferenceGraph::new(params)?;
    let area = u64::from(params.width.max(16)) * u64::from(params.height.max(16));
    let most = (MAX_SAMPLES / area).clamp(72, MAX_FRAMES) as u32;
    let start = *video.index.sync_points.first()?;
    let all: Vec<u32> = (start..video.dependencies.len() as u32)
        .take(most as usize)
        .collect();
    let whole = video.decode(&all);
    let first_error_at = whole.logged_error.as_ref().map_or(u32::MAX, |c| c.0);
    let mut sum = ClosureCounts::default();
    let mut decoder = SoftwareDecoder::new();
    for clip in random_clips(video.index.num_frames().min(most)) {
        for run in plan::plan_decode_ranges(&video.index, &clip) {
            let index = video.index.clone();
            let every: Vec<u32> = (run.start.0..=run.end.0).collect();
            if run.end.0 >= first_error_at || every.iter().any(|at| !all.contains(at)) {
                continue;
            }
            sum.runs += 1;
            sum.packets += every.len();
            let by_roles = video
                .packets_to_decode(&every, |at| video.is_required(&run, at))
                .len();
            sum.by_roles += by_roles;
            let place = |at: u32| {
                format!(
                    "packet {at} of a decode range from {} to {}",
                    run.start.0, run.end.0
                )
            };
            let mut equal = |got: u64, at: u32| match whole.pictures.get(&at) {
                Some(&picture) if picture == got => {
                    sum.compared += 1;
                    Ok(())
                }
                other => Err(format!("{}: {got:x} instead of {other:x?}", place(at))),
            };
            let closure = video.closure(&run);
            if let Some(closure) = &closure {
                let got = video.decode(closure);
                let order = index.packets[run.start.as_usize()].order;
                let first = index.sync_points.first() == Some(&run.start.0);
                let leads = |at: u32| {
                    index
                        .packets
                        .get(at as usize)
                        .is_some_and(|p| p.order < order && !(first && p.is_frame()))
                };
                if let Some((at, why)) = got.logged_error.as_ref().filter(|c| !leads(c.0)) {
                    return Some(Err(format!("{}: {why}", place(*at))));
                }
                for wanted in &run.wanted {
                    let Some(&picture) = got.pictures.get(&wanted.0) else {
                        return Some(Err(format!("{} is lost", place(wanted.0))));
                    };
                    if let Err(why) = equal(picture, wanted.0) {
                        return Some(Err(why));
                    }
                }
            }
            let before = decoder.stats;
            let mut engine = Ok(());
            let ran = decoder.run(&mut video.reader, &run, |at, frame| {
                engine =
                    std::mem::replace(&mut engine, Ok(())).and_then(|()| equal(hash(frame), at.0));
                Ok(())
            });
            let DecodeStats {
                frames_decoded,
                packets_skipped,
                ranges_repeated,
                ..
            } = decoder.stats.since(before);
            if let Err(why) = ran.map_err(|e| e.to_string()).and(engine) {
                return Some(Err(why));
            }
            sum.by_references += closure.as_ref().map_or(by_roles, Vec::len);
            sum.unanswered += usize::from(closure.is_none());
            sum.fed += frames_decoded;
            let parts = every
                .iter()
                .filter(|&&at| index.packets[at as usize].is_second_field())
                .count();
            if ranges_repeated > 0
                || (frames_decoded + packets_skipped) as usize + parts != every.len()
            {
                return Some(Err(format!(
                    "{}: {frames_decoded} fed, {packets_skipped} not, {ranges_repeated} repeated",
                    place(run.end.0)
                )));
            }
        }
    }
    Some(Ok(sum))
}

#[test]
fn reference_closures_decode_bit_exactly() {
    let more = more_videos();
    let usual = more.is_empty();
    let entries = if usual { videos() } else { more };
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
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
                    let Some(proof) = check_closures(&mut video) else {
                        continue;
                    };
                    let codec = video.index.info.params.codec.name.clone();
                    found
                        .lock()
                        .unwrap()
                        .insert(entry.path.clone(), (codec, proof));
                }
            });
        }
    });
    println!(
        "share of the packets fed by roles, by references, by the engine; ranges (not parsed), equal pictures"
    );
    let (mut failures, mut gained) = (Vec::new(), BTreeMap::new());
    for (path, (codec, proof)) in found.into_inner().unwrap() {
        match proof {
            Ok(sum) => {
                let share = |fed: usize| fed as f64 / sum.packets.max(1) as f64;
                let shares = [sum.by_roles, sum.by_references, sum.fed as usize].map(share);
                println!(
                    "{path}: {codec}, {:.2} {:.2} {:.2}; {} ({}), {}",
                    shares[0], shares[1], shares[2], sum.runs, sum.unanswered, sum.compared
                );
                *gained.entry(codec).or_insert(0) += sum.by_roles.saturating_sub(sum.by_references);
            }
            Err(why) => failures.push(format!("{path}: {why}")),
        }
    }
    assert!(
        failures.is_empty(),
        "{} files fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
    for codec in ["hevc", "av1"] {
        let gains = gained.get(codec).is_some_and(|&gain| gain > 0);
        assert!(
            gains || !usual,
            "no {codec} file skips packets by its references"
        );
    }
}
