//! In: every video of the corpus (and of the folder FRAMESPOOL_MORE_VIDEOS). Out: proof that pictures which the headers
//! call droppable can be left out: all others come out bit for bit as when everything is decoded, with no new complaint.
//! Never: needs the engine to prove it: packets are given to a decoder directly, so that the headers alone are on trial.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{videos, Entry};
use framespool::decode::{Counts, FrameDecoder};
use framespool::demux::read::PacketReader;
use framespool::ffmpeg::{log, Decoder, Frame, Packet, Received};
use framespool::index::links::Links;
use framespool::index::roles::{Role, Roles};
use framespool::index::{build, VideoIndex};
use framespool::limits::Limits;
use framespool::media::CodecKind;
use framespool::order::rng::{purpose, Key};
use framespool::plan::{self, Run};
use framespool::source::{ByteSource, MemorySource};
use framespool::units::{DecodeIndex, DisplayIndex};

/// Luma samples of each file that are decoded at most, so that the whole test takes about a minute.
const SAMPLES: u64 = 120_000_000;
const FRAMES: u64 = 250;

struct Video {
    index: Arc<VideoIndex>,
    reader: PacketReader,
    roles: Vec<Role>,
    highest_layer: u8,
    can_drop: bool,
}

/// What came out of a decoder: a hash of each packet's picture, and what it complained about first, at which packet.
#[derive(Default)]
struct Decoded {
    pictures: HashMap<u32, u64>,
    complaint: Option<(u32, String)>,
}

impl Video {
    /// `None`: nothing of it can be decoded anyway.
    fn open(entry: &Entry) -> Option<Self> {
        Self::read(entry.source().ok()?)
    }

    fn read(source: Arc<dyn ByteSource>) -> Option<Self> {
        let index = Arc::new(build(&source, &Limits::default(), &|| Ok(())).ok()?);
        Decoder::open(&index.site, &index.info.params, 1).ok()?;
        let mut reader = PacketReader::new(source, index.clone());
        let mut of = Roles::new(&index.info.params);
        let (mut packet, mut roles) = (Packet::new(), Vec::new());
        for at in 0..index.packets.len() as u32 {
            // What cannot be read is not decoded either: the video ends here.
            if reader.read(DecodeIndex(at), false, &mut packet, &|| Ok(())).is_err() {
                break;
            }
            roles.push(of.role(packet.data()));
        }
        Some(Self { index, reader, roles, highest_layer: of.highest_layer(), can_drop: of.can_drop() })
    }

    /// Decodes packets, the first of which begins a run.
    fn decode(&mut self, packets: &[u32]) -> Decoded {
        let mut out = Decoded::default();
        let Some(&first) = packets.first() else { return out };
        let params = &self.index.info.params;
        let by_time = params.codec.kind == CodecKind::Vp9;
        let mut decoder = Decoder::open(&self.index.site, params, 1).expect("opened before");
        let (mut packet, mut frame) = (Packet::new(), Frame::new());
        for &at in packets {
            let read = self.reader.read(DecodeIndex(at), at == first, &mut packet, &|| Ok(()));
            let sent = read
                .map_err(|e| e.to_string())
                .and_then(|()| decoder.send(&packet))
                .err()
                .or_else(log::first);
            out.collect(&mut decoder, &mut frame, by_time, at, sent);
        }
        decoder.drain();
        out.collect(&mut decoder, &mut frame, by_time, u32::MAX, None);
        out
    }

    /// The rule: an unwanted picture is left out if it is a leaf of the highest layer still to come or above, or
    /// anything above that layer.
    fn kept(&self, packets: &[u32], wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut highest = 0;
        let mut kept = Vec::new();
        for &at in packets.iter().rev() {
            let (layer, droppable) = match self.roles[at as usize] {
                Role::Leaf { layer } => (layer, layer >= highest),
                Role::Reference { layer } => (layer, layer > highest),
                Role::Needed => (self.highest_layer, false),
            };
            if !droppable || wanted(at) {
                highest = highest.max(layer);
                kept.push(at);
            }
        }
        kept.reverse();
        kept
    }

    fn layer(&self, at: u32) -> u8 {
        match self.roles[at as usize] {
            Role::Leaf { layer } | Role::Reference { layer } => layer,
            Role::Needed => 0,
        }
    }

    fn is_leaf(&self, at: u32) -> bool {
        matches!(self.roles[at as usize], Role::Leaf { .. })
    }

    fn bytes(&self, packets: &[u32]) -> u64 {
        packets.iter().map(|&at| u64::from(self.index.packets[at as usize].size)).sum()
    }
}

impl Decoded {
    fn collect(
        &mut self,
        decoder: &mut Decoder,
        frame: &mut Frame,
        by_time: bool,
        at: u32,
        sent: Option<String>,
    ) {
        let mut complain = |at: u32, why: String| {
            if self.complaint.as_ref().is_none_or(|first| at < first.0) {
                self.complaint = Some((at, why));
            }
        };
        if let Some(why) = sent {
            complain(at, why);
        }
        for _ in 0..64 {
            match decoder.receive(frame) {
                Ok(Received::Frame) => {}
                Ok(Received::NeedsInput | Received::End) => break,
                Err(why) => {
                    complain(at, why);
                    continue;
                }
            }
            let Some(tie) = frame.tie(by_time) else { continue };
            if let Some(why) = frame.damage() {
                complain(tie.0, why.to_owned());
            }
            self.pictures.insert(tie.0, hash(frame));
        }
    }
}

/// 64 bits of a frame's pixels: MD5 would take as long as decoding.
fn hash(frame: &Frame) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = u64::from(frame.width()) << 32 | u64::from(frame.height());
    let mut add = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(ODD);
    frame.raw_planes(|row| {
        let (words, rest) = row.as_chunks::<8>();
        words.iter().for_each(|w| add(u64::from_le_bytes(*w)));
        rest.iter().for_each(|&b| add(u64::from(b)));
    });
    hash
}

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

/// Compares what is kept with decoding everything, in several patterns. Returns (pictures compared, passes).
fn prove(video: &mut Video) -> Result<(usize, usize), String> {
    let params = &video.index.info.params;
    let area = u64::from(params.width.max(16)) * u64::from(params.height.max(16));
    let most = (SAMPLES / area).clamp(24, FRAMES) as usize;
    let Some(&start) = video.index.starts.first() else { return Ok((0, 0)) };
    let all: Vec<u32> = (start..video.roles.len() as u32).take(most).collect();
    let whole = video.decode(&all);
    // Behind the first complaint pictures are concealed, from whatever the decoder has at hand.
    let sound = whole.complaint.as_ref().map_or(u32::MAX, |c| c.0);
    let (mut compared, mut passes) = (0, 0);
    let mut check = |video: &mut Video, name: &str, kept: &[u32], wanted: &dyn Fn(u32) -> bool| {
        let got = video.decode(kept);
        passes += 1;
        if let Some((at, why)) = got.complaint.as_ref().filter(|c| c.0 < sound) {
            return Err(format!("{name}: packet {at}: {why}"));
        }
        for &at in kept.iter().filter(|&&at| at < sound && wanted(at)) {
            match (whole.pictures.get(&at), got.pictures.get(&at)) {
                (Some(w), Some(g)) if w == g => compared += 1,
                (None, None) => {}
                _ if whole.complaint.is_some() && !got.pictures.contains_key(&at) => {} // still waiting when it broke off
                (w, g) => return Err(format!("{name}: packet {at} is {g:x?} instead of {w:x?}")),
            }
        }
        Ok(())
    };
    let references = |video: &Video, at: u32| !video.is_leaf(at);
    for layer in (0..=video.highest_layer).rev() {
        let wanted = |at: u32| video.layer(at) <= layer && references(video, at);
        let kept = video.kept(&all, wanted);
        let kept_set = kept.clone();
        check(video, &format!("layers to {layer}, no leaves"), &kept, &|at| kept_set.contains(&at))?;
    }
    for salt in 0..2u32 {
        let chosen = |at: u32| (at ^ salt).wrapping_mul(2_654_435_761) >> 31 == 1;
        let kept = video.kept(&all, |at| !video.is_leaf(at) || chosen(at));
        check(video, "half of the leaves", &kept, &|_| true)?;
    }
    // Clips of sixteen frames, stride four, as a loader would decode them.
    let frames = video.index.num_frames();
    let last_frame = frames.min(most as u32) - 1;
    for place in [1u32, 3] {
        let begin = (last_frame / 4 * place).min(last_frame.saturating_sub(60));
        let clip: Vec<DisplayIndex> =
            (0..16).map(|n| DisplayIndex((begin + 4 * n).min(last_frame))).collect();
        for run in plan::runs(&video.index, &clip) {
            let end = run.end.0.min(video.roles.len() as u32 - 1);
            let packets: Vec<u32> = (run.start.0..=end).collect();
            let wanted = |at: u32| {
                run.wanted.binary_search(&DecodeIndex(at)).is_ok()
                    || video.index.packets[at as usize].is_part()
            };
            let kept = video.kept(&packets, wanted);
            let shown = run.wanted.clone();
            if end >= sound || packets.iter().any(|at| !all.contains(at)) {
                continue;
            }
            // Leading pictures of an open start complain, whether others are left out or not.
            let order = video.index.packets[run.start.at()].order;
            if packets.iter().any(|&at| video.index.packets[at as usize].order < order) {
                continue;
            }
            check(video, "a clip", &kept, &|at| shown.contains(&DecodeIndex(at)))?;
        }
    }
    Ok((compared, passes))
}

/// Videos in the folder FRAMESPOOL_MORE_VIDEOS, if that is set.
fn more_videos() -> Vec<Entry> {
    let Some(root) = std::env::var_os("FRAMESPOOL_MORE_VIDEOS").map(std::path::PathBuf::from) else {
        return Vec::new();
    };
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .expect("a folder")
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let entry = |path| Entry { root: root.clone(), path, facts: serde_json::Value::Null };
    names.into_iter().map(entry).collect()
}

#[test]
fn what_remains_without_droppable_pictures_is_bit_exact() {
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
            scope.spawn(|| loop {
                let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                let Some(mut video) = Video::open(entry) else { continue };
                let all: Vec<u32> = (0..video.roles.len() as u32).collect();
                let kept = video.kept(&all, |at| video.layer(at) == 0 && !video.is_leaf(at));
                let dropped = all.len() - kept.len();
                let (bytes, fed) = (video.bytes(&all), video.bytes(&kept));
                let mut proof = Ok((0, 0));
                if dropped > 0 {
                    proof = prove(&mut video);
                    assert!(video.can_drop, "{}: has droppable pictures although it says not", entry.path);
                    if proof == Ok((0, 0)) && !entry.is_corrupt() {
                        proof = Err("nothing was compared".into());
                    }
                }
                let percent = |part: u64, whole: u64| 100 * part / whole.max(1);
                let line = format!(
                    "{}, {} packets, {}% droppable, {}% of bytes, layers to {}: {}",
                    video.index.info.params.codec.name,
                    all.len(),
                    percent(dropped as u64, all.len() as u64),
                    percent(bytes - fed, bytes),
                    video.highest_layer,
                    match &proof {
                        Ok((compared, passes)) => format!("{compared} pictures equal in {passes} passes"),
                        Err(why) => why.clone(),
                    }
                );
                lines.lock().unwrap().insert(entry.path.clone(), line);
                if let Err(why) = &proof {
                    failures.lock().unwrap().push(format!("{}: {why}", entry.path));
                }
                let mut tallies = tallies.lock().unwrap();
                let tally = tallies.entry(video.index.info.params.codec.name.clone()).or_default();
                tally.files += 1;
                tally.pictures += all.len();
                tally.droppable += dropped;
                tally.bytes += bytes;
                tally.bytes_droppable += bytes - fed;
                tally.files_with_drops += usize::from(dropped > 0);
                let (compared, passes) = proof.unwrap_or_default();
                tally.compared += compared;
                tally.passes += passes;
            });
        }
    });
    for (path, line) in lines.into_inner().unwrap() {
        println!("{path}: {line}");
    }
    println!(
        "codec: files (with droppable ones), pictures, droppable, bytes, droppable, equal pictures, passes"
    );
    let tallies = tallies.into_inner().unwrap();
    for codec in ["h264", "hevc", "av1", "mpeg1video", "mpeg2video", "mjpeg", "prores"] {
        let found = tallies.get(codec).is_some_and(|t| t.files_with_drops > 0);
        assert!(
            found || entries.is_empty() || !usual,
            "no {codec} file of the corpus has droppable pictures"
        );
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
    assert!(failures.is_empty(), "{} files fail:\n{}", failures.len(), failures.join("\n"));
}

/// A file of the corpus whose stream says that two pictures are to be held back, and what it says if it does not.
const DECLARES: [u8; 29] = *b"\x67\x64\x00\x1e\xac\xd9\x40\xa0\x2f\xf9\x66\xa0\x20\x20\x28\x00\x00\x03\x00\x08\x00\x00\x03\x01\x80\x78\xb1\x6c\xb0";
const IS_SILENT: [u8; 29] = *b"\x67\x64\x00\x1e\xac\xd9\x40\xa0\x2f\xf9\x66\xa0\x20\x20\x28\x00\x00\x03\x00\x08\x00\x00\x03\x01\x80\x20\x00\x00\x00";

#[test]
fn a_stream_that_does_not_say_how_far_it_reorders_loses_nothing() {
    let Some(entry) = videos().into_iter().find(|e| e.path == "video/derived/base_640x360.mp4") else {
        return;
    };
    let mut bytes = std::fs::read(entry.root.join(&entry.path)).expect("a corpus file");
    let at = bytes.windows(DECLARES.len()).position(|w| w == DECLARES).expect("its parameter set");
    bytes[at..at + IS_SILENT.len()].copy_from_slice(&IS_SILENT);
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("silent", bytes));
    let mut video = Video::read(source).expect("an H.264 file");
    assert_eq!(video.index.info.params.reorder, Some(2));
    // Each frame alone, from a decoder that has seen nothing else.
    let whole = video.decode(&(0..video.index.packets.len() as u32).collect::<Vec<_>>());
    for frame in (0..video.index.num_frames()).map(DisplayIndex) {
        let run = &plan::runs(&video.index, &[frame])[0];
        let packets: Vec<u32> = (run.start.0..=run.end.0).collect();
        let kept = video.kept(&packets, |at| at == run.end.0);
        let alone = video.decode(&kept);
        assert!(alone.complaint.is_none());
        assert!(alone.pictures.contains_key(&run.end.0), "frame {} is lost", frame.0);
        assert_eq!(alone.pictures[&run.end.0], whole.pictures[&run.end.0], "frame {}", frame.0);
    }
    assert!(prove(&mut video).expect("exact").0 > 0);
}

/// What the closures of a file's clips came to.
#[derive(Default, Clone, Copy)]
struct Closures {
    runs: usize,
    /// Runs whose references were not understood.
    unanswered: usize,
    packets: usize,
    by_roles: usize,
    by_links: usize,
    /// What the engine fed.
    fed: u64,
    compared: usize,
}

impl Video {
    /// The packets that a run's wanted pictures depend on, by their references.
    fn closure(&mut self, run: &Run) -> Option<Vec<u32>> {
        let mut links = Links::new(&self.index.info.params)?;
        let mut packet = Packet::new();
        for at in (run.start.0..=run.end.0).map(DecodeIndex) {
            self.reader.read(at, at == run.start, &mut packet, &|| Ok(())).ok()?;
            links.note(packet.data());
        }
        let places = 0..run.packets() as usize;
        let must: Vec<usize> = places.clone().filter(|&n| self.must(run, n as u32 + run.start.0)).collect();
        let needed = links.needed(&must)?;
        Some(places.filter(|&n| needed[n]).map(|n| n as u32 + run.start.0).collect())
    }

    /// What is decoded whatever refers to it.
    fn must(&self, run: &Run, at: u32) -> bool {
        let record = &self.index.packets[at as usize];
        record.is_start() || record.is_part() || run.wanted.binary_search(&DecodeIndex(at)).is_ok()
    }
}

/// Random clips among the first frames of a file: sixteen frames of stride four, eight of stride one, single ones.
fn random_clips(frames: u32) -> Vec<Vec<DisplayIndex>> {
    let shapes = [(16, 4), (8, 1), (1, 1), (1, 1)];
    let clip = |number: u64| {
        let (length, stride) = shapes[number as usize % shapes.len()];
        let span = (length - 1) * stride + 1;
        let mut rng = Key { seed: 4, epoch: 0, clip: number }.rng(purpose::SAMPLING);
        let begin = rng.below(u64::from(frames.saturating_sub(span)) + 1) as u32;
        (0..length).map(|n| DisplayIndex((begin + n * stride).min(frames - 1))).collect()
    };
    (0..3 * shapes.len() as u64).map(clip).collect()
}

/// Decodes only what wanted pictures depend on: directly, and by the engine. `None`: its references are not read.
fn prove_closures(video: &mut Video) -> Option<Result<Closures, String>> {
    const SAMPLES: u64 = 200_000_000;
    let params = &video.index.info.params;
    Links::new(params)?;
    let area = u64::from(params.width.max(16)) * u64::from(params.height.max(16));
    let most = (SAMPLES / area).clamp(72, FRAMES) as u32;
    let start = *video.index.starts.first()?;
    let all: Vec<u32> = (start..video.roles.len() as u32).take(most as usize).collect();
    let whole = video.decode(&all);
    let sound = whole.complaint.as_ref().map_or(u32::MAX, |c| c.0);
    let mut sum = Closures::default();
    let mut decoder = FrameDecoder::new();
    for clip in random_clips(video.index.num_frames().min(most)) {
        for run in plan::runs(&video.index, &clip) {
            let index = video.index.clone();
            let every: Vec<u32> = (run.start.0..=run.end.0).collect();
            if run.end.0 >= sound || every.iter().any(|at| !all.contains(at)) {
                continue;
            }
            sum.runs += 1;
            sum.packets += every.len();
            let by_roles = video.kept(&every, |at| video.must(&run, at)).len();
            sum.by_roles += by_roles;
            let place = |at: u32| format!("packet {at} of a run from {} to {}", run.start.0, run.end.0);
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
                let order = index.packets[run.start.at()].order;
                let leads = |at: u32| index.packets.get(at as usize).is_some_and(|p| p.order < order);
                if let Some((at, why)) = got.complaint.as_ref().filter(|c| !leads(c.0)) {
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
            let before = decoder.counts;
            let mut engine = Ok(());
            let ran = decoder.run(&mut video.reader, &run, &|| Ok(()), |at, frame| {
                engine = std::mem::replace(&mut engine, Ok(())).and_then(|()| equal(hash(frame), at.0));
                Ok(())
            });
            let Counts { pictures_decoded, pictures_skipped, runs_repeated, .. } =
                decoder.counts.since(before);
            if let Err(why) = ran.map_err(|e| e.to_string()).and(engine) {
                return Some(Err(why));
            }
            sum.by_links += closure.as_ref().map_or(by_roles, Vec::len);
            sum.unanswered += usize::from(closure.is_none());
            sum.fed += pictures_decoded;
            let parts = every.iter().filter(|&&at| index.packets[at as usize].is_part()).count();
            if runs_repeated > 0 || (pictures_decoded + pictures_skipped) as usize + parts != every.len() {
                return Some(Err(format!(
                    "{}: {pictures_decoded} fed, {pictures_skipped} not, {runs_repeated} repeated",
                    place(run.end.0)
                )));
            }
        }
    }
    Some(Ok(sum))
}

#[test]
fn wanted_pictures_come_out_bit_exact_from_what_they_refer_to_alone() {
    let more = more_videos();
    let usual = more.is_empty();
    let entries = if usual { videos() } else { more };
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| loop {
                let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                let Some(mut video) = Video::open(entry) else { continue };
                let Some(proof) = prove_closures(&mut video) else { continue };
                let codec = video.index.info.params.codec.name.clone();
                found.lock().unwrap().insert(entry.path.clone(), (codec, proof));
            });
        }
    });
    println!("share of the packets fed by roles, by references, by the engine; runs (not understood), equal pictures");
    let (mut failures, mut gained) = (Vec::new(), BTreeMap::new());
    for (path, (codec, proof)) in found.into_inner().unwrap() {
        match proof {
            Ok(sum) => {
                let share = |fed: usize| fed as f64 / sum.packets.max(1) as f64;
                let shares = [sum.by_roles, sum.by_links, sum.fed as usize].map(share);
                println!(
                    "{path}: {codec}, {:.2} {:.2} {:.2}; {} ({}), {}",
                    shares[0], shares[1], shares[2], sum.runs, sum.unanswered, sum.compared
                );
                *gained.entry(codec).or_insert(0) += sum.by_roles.saturating_sub(sum.by_links);
            }
            Err(why) => failures.push(format!("{path}: {why}")),
        }
    }
    assert!(failures.is_empty(), "{} files fail:\n{}", failures.len(), failures.join("\n"));
    for codec in ["hevc", "av1"] {
        let gains = gained.get(codec).is_some_and(|&gain| gain > 0);
        assert!(
            gains || entries.is_empty() || !usual,
            "no {codec} file of the corpus gains by its references"
        );
    }
}
