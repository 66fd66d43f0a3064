//! Decodes every video of the test media and of the second corpus, and compares frames and errors
//! with records that another FFmpeg build made. Exceptions are listed by name with their reason and
//! exact extent.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::frame_dependency::hash as quick_hash;
use crate::common::{Entry, hash, videos};
use framespool::decode::PacketReader;
use framespool::decode::SoftwareDecoder;
use framespool::decode::plan;
use framespool::ffmpeg::Frame;
use framespool::index::{VideoIndex, build, build_from_scan};
use framespool::limits::Limits;
use framespool::rng::{Purpose, RngKey};
use framespool::units::{DecodeIndex, PresentationIndex};
use framespool::{Error, Result};

/// Corpus files of codecs without a bit-exact specification: FFmpeg 5.1, which made the records,
/// rounds the inverse transform differently. The frames here equal those of FFmpeg 8.1 (through
/// PyAV) bit for bit. (File, number of recorded frames that differ.)
const FILES_WITH_OTHER_ROUNDING: [(&str, usize); 3] = [
    ("video/codecs/mpeg4_sp_gulls_960x400.avi", 41),
    ("video/codecs/msmpeg4v3_pets_768x576_12s.avi", 117),
    ("video/codecs/vc1_ladybug.wmv", 51),
];

/// Files whose container times contradict the codec's order for one picture: frame numbers here
/// follow presentation time, the record follows the decoder's output order. (File, number of
/// recorded frames at another index.)
const FILES_WITH_OTHER_ORDER: [(&str, usize); 1] = [("video/codecs/hevc_street_1376x1840.mp4", 4)];

/// Returns whether the container stores no presentation times (AVI, ASF with B pictures, raw
/// streams); the recorded times are guesses.
fn has_no_times(entry: &Entry) -> bool {
    [
        ".avi",
        ".h264",
        ".264",
        ".h265",
        ".m2v",
        ".obu",
        "vc1_ladybug.wmv",
    ]
    .iter()
    .any(|end| entry.path.ends_with(end))
}

/// Runs `check` on all files in parallel, and reports every failure, not just the first.
fn for_each_entry(
    mut entries: Vec<Entry>,
    check: impl Fn(&Entry) -> std::result::Result<(), String> + Sync,
) {
    // Starts with the most expensive files, so that no thread works alone on a long file at the
    // end.
    let number = |entry: &Entry, name: &str| entry.properties[name].as_u64().unwrap_or(0);
    entries.sort_by_cached_key(|entry| {
        std::cmp::Reverse(
            ["width", "height", "packets"]
                .map(|name| number(entry, name))
                .iter()
                .product::<u64>(),
        )
    });
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    if let Err(why) = check(entry) {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}: {why}", entry.path));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} files fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

struct OpenVideo {
    index: Arc<VideoIndex>,
    reader: PacketReader,
    decoder: SoftwareDecoder,
}

fn open(entry: &Entry) -> Result<OpenVideo> {
    let source = entry.source()?;
    let index = Arc::new(build(&source, &Limits::default())?);
    Ok(OpenVideo {
        reader: PacketReader::new(source, index.clone()),
        index,
        decoder: SoftwareDecoder::new(),
    })
}

impl OpenVideo {
    /// Returns the hash of each frame that could be decoded, and the first error.
    fn hashes<H>(
        &mut self,
        frames: &[PresentationIndex],
        hash: impl Fn(&Frame) -> H,
    ) -> (HashMap<DecodeIndex, H>, Option<Error>) {
        let mut got = HashMap::new();
        let mut first_error = None;
        for run in plan::plan_decode_ranges(&self.index, frames) {
            let done = self.decoder.run(&mut self.reader, &run, |packet, frame| {
                got.insert(packet, hash(frame));
                Ok(())
            });
            first_error = first_error.or(done.err());
        }
        (got, first_error)
    }

    fn all(&self) -> Vec<PresentationIndex> {
        (0..self.index.num_frames())
            .map(PresentationIndex)
            .collect()
    }
}

/// Counters over all files.
#[derive(Default)]
struct CorpusCounts {
    recorded_files: AtomicUsize,
    recorded_frames: AtomicUsize,
    files: AtomicUsize,
    alone: AtomicUsize,
    in_clips: AtomicUsize,
    skipped: AtomicUsize,
}

fn is_cover_art(entry: &Entry) -> bool {
    entry.path == "video/derived/cover_art_only.m4a"
}

/// Decodes each file in sequence only once, for the comparison with the record and for the
/// comparison with random access.
#[test]
fn frames_equal_reference_in_every_access_pattern() {
    let counts = CorpusCounts::default();
    for_each_entry(videos(), |entry| {
        if is_cover_art(entry) {
            return match open(entry).err() {
                Some(Error::NoVideo { .. }) => Ok(()),
                other => Err(format!("cover art is not video, but: {other:?}")),
            };
        }
        let mut video = match open(entry) {
            Ok(video) => video,
            Err(error) if entry.has_hashes() => return Err(error.to_string()),
            Err(_) => return Ok(()),
        };
        let all = video.all();
        let (both, error) = video.hashes(&all, |frame| (hash(frame), quick_hash(frame)));
        let excused = !entry.has_hashes() && (entry.is_corrupt() || entry.codec().is_empty());
        if let Some(error) = error.filter(|_| !excused) {
            return Err(format!("in sequence: {error}"));
        }
        if entry.has_hashes() {
            let got = both
                .iter()
                .map(|(&packet, hashes)| (packet, hashes.0.as_str()))
                .collect();
            as_recorded(entry, &video.index, &got)?;
            counts.recorded_files.fetch_add(1, Ordering::Relaxed);
            counts
                .recorded_frames
                .fetch_add(got.len(), Ordering::Relaxed);
        }
        // The pixels of such a frame depend on the state of the decoder.
        if both.is_empty() || entry.damage_is_unreported() && !entry.in_corpus() {
            return Ok(());
        }
        counts.files.fetch_add(1, Ordering::Relaxed);
        let sequential = both
            .into_iter()
            .map(|(packet, hashes)| (packet, hashes.1))
            .collect();
        as_in_sequence(entry, &mut video, &sequential, &counts)
    });
    let counted = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "exact frames: {} files, {} frames",
        counted(&counts.recorded_files),
        counted(&counts.recorded_frames)
    );
    println!(
        "random access: {} files, {} frames requested alone, {} in clips, {} pictures skipped",
        counted(&counts.files),
        counted(&counts.alone),
        counted(&counts.in_clips),
        counted(&counts.skipped)
    );
    // Counts every file with a record and all of its frames, so files that cannot be opened and
    // missing frames fail here.
    let with_record: Vec<Entry> = videos()
        .into_iter()
        .filter(|entry| entry.has_hashes() && !is_cover_art(entry))
        .collect();
    let frames: usize = with_record.iter().map(|entry| entry.hashes().len()).sum();
    assert_eq!(
        (
            counted(&counts.recorded_files),
            counted(&counts.recorded_frames)
        ),
        (with_record.len(), frames)
    );
}

/// Compares all frames of a file with the record.
fn as_recorded(
    entry: &Entry,
    index: &VideoIndex,
    got: &HashMap<DecodeIndex, &str>,
) -> std::result::Result<(), String> {
    let want = entry.hashes();
    let have: Vec<(i64, &str)> = index
        .frames
        .iter()
        .map(|f| (f.pts, got[&f.packet]))
        .collect();
    if have.len() != want.len() {
        return Err(format!("{} frames, recorded {}", have.len(), want.len()));
    }
    let different = want.iter().zip(&have).filter(|(w, h)| w.1 != h.1).count();
    let excepted = |list: &[(&str, usize)]| {
        list.iter()
            .find(|e| e.0 == entry.path && entry.in_corpus())
            .map_or(0, |e| e.1)
    };
    let (rounded, misplaced) = (
        excepted(&FILES_WITH_OTHER_ROUNDING),
        excepted(&FILES_WITH_OTHER_ORDER),
    );
    if different != rounded + misplaced {
        return Err(format!(
            "{different} of {} frames differ, expected are {}",
            want.len(),
            rounded + misplaced
        ));
    }
    if misplaced > 0 {
        let sorted = |mut hashes: Vec<&str>| {
            hashes.sort_unstable();
            hashes.join(" ")
        };
        let recorded = sorted(want.iter().map(|w| w.1.as_str()).collect());
        let same = recorded == sorted(have.iter().map(|h| h.1).collect());
        return if same {
            Ok(())
        } else {
            Err("different frames, not only another order".into())
        };
    }
    let timed = !has_no_times(entry);
    if let Some(i) =
        (0..want.len()).find(|&i| timed && want[i].0 != i64::MIN && want[i].0 != have[i].0)
    {
        return Err(format!(
            "frame {i} at {} ticks, recorded {}",
            have[i].0, want[i].0
        ));
    }
    Ok(())
}

/// Chooses frames for random access: around every random access point, at both ends, and some
/// others; the total work is limited to three times that of decoding the video once.
fn probes(index: &VideoIndex) -> Vec<PresentationIndex> {
    let frames = index.num_frames();
    let mut wanted: Vec<u32> = vec![0, frames - 1, frames / 2];
    let starts = index.key_frames();
    let every = starts.len().div_ceil(24).max(1);
    for start in starts.iter().step_by(every) {
        wanted.extend([
            start.0.saturating_sub(1),
            start.0,
            (start.0 + 1).min(frames - 1),
            (start.0 + 4).min(frames - 1),
        ]);
    }
    // A fixed pseudorandom sequence: multiples of a large odd number.
    wanted.extend((1..=8u64).map(|i| (i * 2_654_435_761 % u64::from(frames)) as u32));
    let mut seen = HashSet::new();
    let mut work = 0;
    wanted.retain(|&w| {
        let frame = PresentationIndex(w);
        work += index.frames[frame.as_usize()].packet.0 - index.sync_point_for(frame).0 + 1;
        seen.insert(w) && (work <= 3 * frames || w == starts.first().map_or(0, |s| s.0))
    });
    wanted.into_iter().map(PresentationIndex).collect()
}

/// Compares frames that are requested alone, and in clips, with those of sequential decoding.
fn as_in_sequence(
    entry: &Entry,
    video: &mut OpenVideo,
    sequential: &HashMap<DecodeIndex, u64>,
    counts: &CorpusCounts,
) -> std::result::Result<(), String> {
    // From the last to the first, so that no decoder state from an earlier frame can help.
    let mut probes = probes(&video.index);
    probes.sort_unstable_by(|a, b| b.cmp(a));
    for frame in probes {
        let packet = video.index.frames[frame.as_usize()].packet;
        let (alone, error) = video.hashes(&[frame], quick_hash);
        match (sequential.get(&packet), alone.get(&packet)) {
            (Some(s), Some(a)) if s == a => {
                counts.alone.fetch_add(1, Ordering::Relaxed);
            }
            (None, None) => {}
            // In a damaged file, a random access point after the damage may recover a frame that
            // sequential decoding dropped.
            (None, Some(_)) if entry.is_corrupt() => {}
            (s, a) => {
                return Err(format!(
                    "frame {}: in sequence {s:?}, alone {a:?} ({error:?})",
                    frame.0
                ));
            }
        }
    }
    // In clips, the decoder omits unneeded pictures between the frames; the frames must not change.
    let number = |name: &str| entry.properties[name].as_u64().unwrap_or(0);
    let is_small = number("width") * number("height") * u64::from(video.index.num_frames())
        < MAX_PIXELS_OF_ALL_CLIPS;
    for clip in clips(&video.index, is_small) {
        let (got, _) = video.hashes(&clip, quick_hash);
        for frame in clip {
            let packet = video.index.frames[frame.as_usize()].packet;
            match (sequential.get(&packet), got.get(&packet)) {
                (Some(s), Some(g)) if s == g => {
                    counts.in_clips.fetch_add(1, Ordering::Relaxed);
                }
                (None, _) if entry.is_corrupt() => {}
                (s, g) => {
                    return Err(format!(
                        "frame {} of a clip: {g:?}, in sequence {s:?}",
                        frame.0
                    ));
                }
            }
        }
    }
    let work = video.decoder.stats;
    counts
        .skipped
        .fetch_add(work.packets_skipped as usize, Ordering::Relaxed);
    if work.ranges_repeated > 0 && !entry.is_corrupt() {
        return Err(format!(
            "{} decode ranges were repeated without skipping pictures",
            work.ranges_repeated
        ));
    }
    Ok(())
}

/// Pixels of all frames up to which every kind of clip is decoded.
const MAX_PIXELS_OF_ALL_CLIPS: u64 = 20_000_000;

/// Returns sets of frames like those of clips: strided, scattered, and every third. Without `all`,
/// those of one stride and of one other kind, which depend on the number of frames.
fn clips(index: &VideoIndex, all: bool) -> Vec<Vec<PresentationIndex>> {
    let n = u64::from(index.num_frames());
    let mut rng = RngKey {
        seed: 4,
        epoch: n,
        clip: 0,
        occurrence: 0,
    }
    .rng(Purpose::Sampling);
    let frame = |i: u64| PresentationIndex(i.min(n - 1) as u32);
    let mut clips: Vec<Vec<_>> = [4, 2, 7]
        .map(|stride| {
            let start = rng.next_below(n);
            (0..16).map(|i| frame(start + i * stride)).collect()
        })
        .into();
    clips.push((0..10).map(|_| frame(rng.next_below(n))).collect());
    clips.push((0..n.min(240)).step_by(3).map(frame).collect());
    if !all {
        clips.remove(if n % 2 == 0 { 3 } else { 4 });
        let kept = (n / 2 % 3) as usize;
        clips.swap(0, kept);
        clips.drain(1..3);
    }
    clips
}

#[test]
fn sample_tables_and_a_full_scan_give_the_same_index() {
    let (files, packets) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_each_entry(videos(), |entry| {
        let Ok(source) = entry.source() else {
            return Ok(());
        };
        let Ok(tables) = build(&source, &Limits::default()) else {
            return Ok(());
        };
        // The table reader reports the container "mov,mp4"; libavformat's name is longer.
        if tables.container != "mov,mp4" {
            return Ok(());
        }
        if entry.is_corrupt() && !entry.has_hashes() {
            return Ok(()); // the tables describe data that the file does not contain
        }
        let scan = build_from_scan(&source, None, &Limits::default()).map_err(|e| e.to_string())?;
        files.fetch_add(1, Ordering::Relaxed);
        packets.fetch_add(scan.packets.len(), Ordering::Relaxed);
        let rows = |ix: &VideoIndex| -> Vec<(i64, u32, u64, bool)> {
            ix.frames
                .iter()
                .map(|f| (f.pts, &ix.packets[f.packet.as_usize()]))
                .map(|(pts, p)| (pts, p.size, p.offset, p.is_sync()))
                .collect()
        };
        let (t, s) = (rows(&tables), rows(&scan));
        if t.len() != s.len() {
            return Err(format!("{} frames by tables, {} by scan", t.len(), s.len()));
        }
        if let Some(i) = (0..t.len()).find(|&i| t[i] != s[i]) {
            return Err(format!(
                "frame {i} (pts, size, offset, start): {:?} by tables, {:?} by scan",
                t[i], s[i]
            ));
        }
        let (a, b) = (&tables.info, &scan.info);
        if (
            a.time_base,
            a.orientation,
            a.params.width,
            a.params.height,
            &a.params.extradata,
        ) != (
            b.time_base,
            b.orientation,
            b.params.width,
            b.params.height,
            &b.params.extradata,
        ) {
            return Err(format!("{a:?}\n by tables, by scan\n{b:?}"));
        }
        // The stream list comes from the boxes, and must equal libavformat's, because `stream=` is
        // an index into either.
        if (a.stream, &tables.streams) != (b.stream, &scan.streams) {
            return Err(format!(
                "{:?}\n by tables, by scan\n{:?}",
                tables.streams, scan.streams
            ));
        }
        Ok(())
    });
    let (files, packets) = (files.into_inner(), packets.into_inner());
    println!("tables against scan: {files} files, {packets} packets");
    assert!(
        files >= 55 && packets > 5_000,
        "{files} files, {packets} packets"
    );
}

#[test]
fn packet_and_frame_counts_agree_with_the_manifest() {
    let files = AtomicUsize::new(0);
    for_each_entry(videos(), |entry| {
        let Some(frames) = entry.properties["frames_decoded"].as_u64() else {
            return Ok(());
        };
        if entry.is_corrupt() && !entry.has_hashes() {
            return Ok(()); // the number of frames of a damaged file is not well defined
        }
        if entry.codec().is_empty() || is_cover_art(entry) {
            return Ok(()); // VVC: the program that recorded the manifest does not decode it
        }
        let video = open(entry).map_err(|error| error.to_string())?;
        files.fetch_add(1, Ordering::Relaxed);
        if u64::from(video.index.num_frames()) != frames {
            return Err(format!(
                "{} frames, the manifest says {frames}",
                video.index.num_frames()
            ));
        }
        Ok(())
    });
    let files = files.into_inner();
    println!("counts: {files} files");
    assert!(files >= 115, "{files} files");
}

/// Returns the recorded frames of the intact file from which a damaged one was made.
fn intact_counterpart(entry: &Entry) -> Option<Vec<(i64, String)>> {
    let damaged = entry
        .path
        .strip_prefix("video/corrupt/derived/")
        .filter(|_| !entry.damage_is_unreported())?;
    let of_corpus = || {
        let base = "video/derived/base_640x360.mp4";
        Some(match damaged {
            "bitflip_h264.mp4"
            | "zero_hole_h264.mp4"
            | "truncated_60_faststart.mp4"
            | "truncated_60.ts" => base,
            "bitflip_hevc.mp4" => "video/derived/hevc_cut_at_cra_1080p.mp4",
            "bitflip_xvid.avi" | "truncated_60.avi" => "video/derived/xvid_bframes_480x270.avi",
            "truncated_60.mkv" => base,
            "truncated_60.webm" => "video/derived/vp8_640x360.webm",
            "truncated_60_1080p.mkv" => "video/1080p/jellyfish_30p.mkv",
            _ => return None,
        })
    };
    let path = if entry.in_corpus() {
        of_corpus()?
    } else {
        entry.properties["derived_from"].as_str()?
    };
    let intact = Entry {
        root: entry.root.clone(),
        path: path.into(),
        properties: serde_json::Value::Null,
    };
    Some(intact.hashes())
}

#[test]
fn damaged_files_give_an_error_or_correct_frames() {
    let (files, good, refused) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    for_each_entry(
        videos().into_iter().filter(Entry::is_corrupt).collect(),
        |entry| {
            files.fetch_add(1, Ordering::Relaxed);
            let mut video = match open(entry) {
                Ok(video) => video,
                Err(error) => {
                    let text = error.to_string();
                    let typed = !matches!(error, Error::Internal { .. } | Error::Argument(_));
                    return if typed && text.contains(&entry.path) {
                        Ok(())
                    } else {
                        Err(format!("unclear error: {text}"))
                    };
                }
            };
            let all = video.all();
            let (got, error) = video.hashes(&all, hash);
            if let Some(error) = &error {
                let text = error.to_string();
                if !text.contains(&entry.path)
                    || !text.contains("packet") && !matches!(error, Error::Unsupported { .. })
                {
                    return Err(format!("an error without a position: {text}"));
                }
            }
            if got.len() < all.len() && error.is_none() {
                return Err(format!(
                    "{} of {} frames and no error",
                    got.len(),
                    all.len()
                ));
            }
            refused.fetch_add(all.len() - got.len(), Ordering::Relaxed);
            let Some(right) = intact_counterpart(entry) else {
                return Ok(());
            };
            let right: HashSet<String> = right.into_iter().map(|frame| frame.1).collect();
            for (i, frame) in video.index.frames.iter().enumerate() {
                let Some(have) = got.get(&frame.packet) else {
                    continue;
                };
                if !right.contains(have) {
                    return Err(format!(
                        "frame {i} was delivered but is not in the intact file"
                    ));
                }
                good.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        },
    );
    let (files, good, refused) = (files.into_inner(), good.into_inner(), refused.into_inner());
    println!("damage: {files} files, {good} correct frames delivered, {refused} refused");
    assert!(
        files >= 25 && good > 300 && refused > 200,
        "{files} files, {good} right, {refused} refused"
    );
}
