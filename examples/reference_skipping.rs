//! Measures the gain of decoding only the pictures that requested ones refer to, compared with
//! skipping only disposable pictures. Both read from the page cache, in one thread, in turn; the
//! thread's CPU time counts.
//!
//! `cargo run --release --example reference_skipping -- FILE...`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use framespool::codecs::disposable::{Dependency, DependencyParser};
use framespool::decode::PacketReader;
use framespool::decode::SoftwareDecoder;
use framespool::decode::plan::{DecodeRange, plan_decode_ranges};
use framespool::error::Result;
use framespool::ffmpeg::{Decoder, Frame, Packet, Received};
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::rng::{Purpose, RngKey};
use framespool::source::{ByteSource, FileSource};
use framespool::units::{DecodeIndex, PresentationIndex};

const CLIPS: u64 = 16;

fn main() -> Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    assert!(!files.is_empty(), "give video files");
    println!(
        "ms per clip, median of {CLIPS} clips and of the ratios; the engine's reading; packets fed of those on the way; MB read"
    );
    println!(
        "{:36} {:>6} {:>8} {:>8} {:>6} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "file",
        "clip",
        "disposable",
        "engine",
        "ratio",
        "reading",
        "all",
        "disposable",
        "engine",
        "disposable",
        "engine"
    );
    for file in &files {
        for (length, stride) in [(16, 4), (8, 1), (1, 1)] {
            measure(file, length, stride)?;
        }
    }
    Ok(())
}

fn measure(file: &str, length: u32, stride: u32) -> Result<()> {
    let source: Arc<dyn ByteSource> = Arc::new(FileSource::open(Path::new(file))?);
    let index = Arc::new(build(&source, &Limits::default())?);
    let mut reader = PacketReader::new(source, index.clone());
    let mut disposable = DisposableSkipper {
        decoder: Decoder::open(&index.site, &index.info.params, 1)?,
        fed: 0,
    };
    let mut engine = SoftwareDecoder::new();
    let (mut rows, mut all, mut read) = (Vec::new(), 0, [0; 2]);
    for clip in 0..CLIPS {
        let last = index.num_frames() - 1;
        let mut rng = RngKey {
            seed: 0,
            epoch: 0,
            clip,
            occurrence: 0,
        }
        .rng(Purpose::Sampling);
        let begin =
            rng.next_below(u64::from(last.saturating_sub((length - 1) * stride)) + 1) as u32;
        let frames: Vec<_> = (0..length)
            .map(|n| PresentationIndex((begin + n * stride).min(last)))
            .collect();
        let passes = plan_decode_ranges(&index, &frames);
        all += passes.iter().map(DecodeRange::packets).sum::<u32>();
        let mut times = [0.0; 2];
        let mut shown = [0; 2];
        for turn in [clip % 2, 1 - clip % 2] {
            let before = reader.bytes_read();
            let begun = ThreadClock::start();
            for run in &passes {
                shown[turn as usize] += match turn {
                    0 => disposable.run(&index, &mut reader, run)?,
                    _ => {
                        let mut shown = 0;
                        engine.run(&mut reader, run, |_, _| {
                            shown += 1;
                            Ok(())
                        })?;
                        shown
                    }
                };
            }
            times[turn as usize] = begun.milliseconds();
            read[turn as usize] += reader.bytes_read() - before;
        }
        assert_eq!(shown[0], shown[1], "{file}: frames");
        rows.push((times[0], times[1], times[1] / times[0]));
    }
    assert_eq!(engine.stats.ranges_repeated, 0, "{file}: runs repeated");
    let median = |pick: fn(&(f64, f64, f64)) -> f64| {
        let mut values: Vec<f64> = rows.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let name = Path::new(file)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let per_clip = |n: u64| n as f64 / CLIPS as f64;
    println!(
        "{name:36} {:>6} {:8.1} {:8.1} {:6.2} {:8.2} {:7.1} {:7.1} {:7.1} {:6.2} {:6.2}",
        format!("{length}x{stride}"),
        median(|r| r.0),
        median(|r| r.1),
        median(|r| r.2),
        engine.times.reading.as_secs_f64() * 1000.0 / CLIPS as f64,
        per_clip(all.into()),
        per_clip(disposable.fed),
        per_clip(engine.stats.frames_decoded),
        per_clip(read[0]) / 1e6,
        per_clip(read[1]) / 1e6
    );
    Ok(())
}

/// CPU time of this thread where the system reports it, else wall time.
struct ThreadClock(Instant, Option<u64>);

impl ThreadClock {
    fn start() -> Self {
        Self(Instant::now(), Self::on_cpu_nanoseconds())
    }

    /// Nanoseconds, on Linux.
    fn on_cpu_nanoseconds() -> Option<u64> {
        std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()?
            .split(' ')
            .next()?
            .parse()
            .ok()
    }

    fn milliseconds(&self) -> f64 {
        match (self.1, Self::on_cpu_nanoseconds()) {
            (Some(from), Some(to)) => (to - from) as f64 / 1e6,
            _ => self.0.elapsed().as_secs_f64() * 1000.0,
        }
    }
}

/// Skips the pictures that the packets' own headers mark as disposable, one packet after another.
struct DisposableSkipper {
    decoder: Decoder,
    fed: u64,
}

impl DisposableSkipper {
    fn run(
        &mut self,
        index: &VideoIndex,
        reader: &mut PacketReader,
        run: &DecodeRange,
    ) -> Result<usize> {
        let mut parser = DependencyParser::new(&index.info.params);
        let (mut packet, mut frame) = (Packet::new(), Frame::new());
        let mut shown = 0;
        let mut receive = |decoder: &mut Decoder| {
            while let Ok(Received::Frame) = decoder.receive(&mut frame) {
                let wanted = frame
                    .packet_index(false)
                    .is_some_and(|tie| run.wanted.binary_search(&tie).is_ok());
                shown += usize::from(wanted);
            }
        };
        for at in (run.start.0..=run.end.0).map(DecodeIndex) {
            reader.read_with_prefetch(at, at == run.start, run.end, &mut packet)?;
            let is_disposable = matches!(parser.parse(packet.data()), Dependency::Disposable { layer } if layer >= parser.highest_layer());
            let record = &index.packets[at.as_usize()];
            let kept = record.is_sync()
                || record.is_second_field()
                || run.wanted.binary_search(&at).is_ok();
            if is_disposable && !kept {
                continue;
            }
            self.fed += 1;
            self.decoder.send(&packet).expect("valid files");
            receive(&mut self.decoder);
        }
        self.decoder.drain();
        receive(&mut self.decoder);
        self.decoder.flush();
        Ok(shown)
    }
}
