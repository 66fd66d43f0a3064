//! What a clip costs against the least that it can cost: libavcodec fed only the needed packets,
//! which lie in memory already, and the pixel pass. Both make the same bytes; both run in one
//! thread, in turn.
//!
//! `cargo run --release --example minimal_clip_cost -- [--frames N] [--stride N] FILE...`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use framespool::codecs::disposable::{Dependency, DependencyParser};
use framespool::codecs::references::ReferenceGraph;
use framespool::decode::PacketReader;
use framespool::decode::plan::plan_decode_ranges;
use framespool::error::Result;
use framespool::ffmpeg::{Decoder, Frame, Packet, Received};
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::rng::{Purpose, RngKey};
use framespool::source::{ByteSource, FileSource};
use framespool::transforms::transform::{Size, Target, Transform};
use framespool::transforms::{
    Dtype, Filter, InputFrame, Layout, TransformExecutor, TransformPipeline,
};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, ClipOutput, LazyClipOutput, Video};

const CLIPS: u64 = 60;

fn main() -> Result<()> {
    let (mut length, mut stride, mut files) = (16u32, 4u32, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number after an option")
        };
        match argument.as_str() {
            "--frames" => length = number(),
            "--stride" => stride = number(),
            _ => files.push(argument),
        }
    }
    assert!(!files.is_empty() && length > 0, "give video files");
    let size = Size {
        height: 224,
        width: 224,
    };
    let resize = Transform::Resize {
        target: Target::Exact(size),
        filter: Filter::Triangle,
        display_aspect: false,
    };
    let pipeline = TransformPipeline::new(vec![resize], Dtype::U8, Layout::Nthwc)?;
    println!(
        "clips of {length} frames, stride {stride}, to 224x224; ms, median of {CLIPS} clips, and of the ratios"
    );
    println!(
        "{:44} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "file", "floor", "clip", "ratio", "decoded", "skipped"
    );
    for file in &files {
        let source: Arc<dyn ByteSource> = Arc::new(FileSource::open(Path::new(file))?);
        let index = Arc::new(build(&source, &Limits::default())?);
        let mut rows = Vec::new();
        let (mut decoded, mut skipped) = (0, 0);
        let mut clip_decoder = ClipDecoder::new(pipeline.clone());
        let mut floor = MinimalDecoder {
            decoder: None,
            executor: TransformExecutor::new(pipeline.clone()),
            frame: Frame::new(),
        };
        for clip in 0..CLIPS {
            let span = (length - 1) * stride + 1;
            let mut rng = RngKey {
                seed: 0,
                epoch: 0,
                clip,
                occurrence: 0,
            }
            .rng(Purpose::Sampling);
            let start =
                rng.next_below(u64::from(index.num_frames().saturating_sub(span)) + 1) as u32;
            let last = index.num_frames() - 1;
            let frames: Vec<_> = (0..length)
                .map(|i| PresentationIndex((start + i * stride).min(last)))
                .collect();
            let passes = required_packets(&source, &index, &frames)?;
            decoded += passes.iter().map(|p| p.packets.len()).sum::<usize>();
            skipped += passes.iter().map(|p| p.skipped).sum::<usize>();
            let mut times = [0.0; 2];
            let mut made = [Vec::new(), Vec::new()];
            for turn in [clip % 2, 1 - clip % 2] {
                let begun = Instant::now();
                made[turn as usize] = match turn {
                    0 => floor.make(&index, &frames, &passes)?,
                    _ => {
                        let source: Arc<dyn ByteSource> =
                            Arc::new(FileSource::open(Path::new(file))?);
                        let video = Video::with_index(source, index.clone());
                        let mut output = LazyClipOutput::default();
                        let key = RngKey {
                            seed: 0,
                            epoch: 0,
                            clip,
                            occurrence: 0,
                        };
                        clip_decoder.decode_clip(&mut video.reader(), &frames, key, &mut output)?;
                        output
                            .into_clip()?
                            .expect("a clip")
                            .0
                            .bytes()
                            .expect("host memory")
                            .to_vec()
                    }
                };
                times[turn as usize] = begun.elapsed().as_secs_f64() * 1000.0;
            }
            assert!(made[0] == made[1], "{file}: the two methods differ");
            rows.push((times[0], times[1], times[1] / times[0]));
        }
        let median = |pick: fn(&(f64, f64, f64)) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let name = Path::new(file)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let (clips, decoded, skipped) = (CLIPS as f64, decoded as f64, skipped as f64);
        println!(
            "{name:44} {:8.2} {:8.2} {:8.3} {:9.1} {:9.1}",
            median(|r| r.0),
            median(|r| r.1),
            median(|r| r.2),
            decoded / clips,
            skipped / clips
        );
    }
    Ok(())
}

/// One run's packets that must be decoded.
struct DecodePass {
    packets: Vec<(framespool::units::DecodeIndex, Vec<u8>, bool)>,
    wanted: Vec<framespool::units::DecodeIndex>,
    skipped: usize,
}

fn required_packets(
    source: &Arc<dyn ByteSource>,
    index: &Arc<VideoIndex>,
    frames: &[PresentationIndex],
) -> Result<Vec<DecodePass>> {
    let mut reader = PacketReader::new(source.clone(), index.clone());
    let mut packet = Packet::new();
    let mut passes = Vec::new();
    for run in plan_decode_ranges(index, frames) {
        let mut parser = DependencyParser::new(&index.info.params);
        let mut graph = ReferenceGraph::new(&index.info.params);
        let mut pass = DecodePass {
            packets: Vec::new(),
            wanted: run.wanted.clone(),
            skipped: 0,
        };
        let (mut kept, mut must) = (Vec::new(), Vec::new());
        for at in (run.start.0..=run.end.0).map(framespool::units::DecodeIndex) {
            reader.read(at, at == run.start, &mut packet)?;
            let leaf = matches!(parser.parse(packet.data()), Dependency::Disposable { layer } if layer >= parser.highest_layer());
            if let Some(graph) = &mut graph {
                graph.push(packet.data());
            }
            let record = &index.packets[at.as_usize()];
            must.push(
                record.is_sync()
                    || record.is_second_field()
                    || run.wanted.binary_search(&at).is_ok(),
            );
            kept.push(!leaf || must[kept.len()]);
            pass.packets
                .push((at, packet.data().to_vec(), packet.is_key()));
        }
        let places: Vec<usize> = (0..must.len()).filter(|&n| must[n]).collect();
        let fewer =
            |n: &Vec<bool>| n.iter().filter(|&&k| k).count() < kept.iter().filter(|&&k| k).count();
        let kept = graph
            .and_then(|l| l.required_for(&places))
            .filter(fewer)
            .unwrap_or(kept);
        pass.skipped = kept.iter().filter(|&&k| !k).count();
        let mut kept = kept.into_iter();
        pass.packets.retain(|_| kept.next().unwrap_or(true));
        passes.push(pass);
    }
    Ok(passes)
}

/// The least that makes a clip.
struct MinimalDecoder {
    decoder: Option<Decoder>,
    executor: TransformExecutor,
    frame: Frame,
}

impl MinimalDecoder {
    fn make(
        &mut self,
        index: &VideoIndex,
        frames: &[PresentationIndex],
        passes: &[DecodePass],
    ) -> Result<Vec<u8>> {
        let Self {
            decoder,
            executor,
            frame,
        } = self;
        let decoder = match decoder {
            Some(decoder) => decoder,
            None => decoder.insert(Decoder::open(&index.site, &index.info.params, 1)?),
        };
        let by_time = index.info.params.codec.name == "vp9";
        let mut output = LazyClipOutput::default();
        let mut packet = Packet::new();
        for pass in passes {
            let mut receive = |decoder: &mut Decoder, frame: &mut Frame| -> Result<()> {
                while let Ok(Received::Frame) = decoder.receive(frame) {
                    let Some(tie) = frame
                        .packet_index(by_time)
                        .filter(|t| pass.wanted.binary_search(t).is_ok())
                    else {
                        continue;
                    };
                    let display = index.info.display();
                    let size = executor.size_of((frame.width(), frame.height()), display)?;
                    let shape = executor.shape(frames.len(), size);
                    for t in (0..frames.len())
                        .filter(|&t| index.frames[frames[t].as_usize()].packet == tie)
                    {
                        let picture = &mut InputFrame::Cpu(frame);
                        executor.apply(
                            &index.site,
                            picture,
                            index,
                            &shape,
                            output.target(&shape)?,
                            t,
                        )?;
                    }
                }
                Ok(())
            };
            for (at, bytes, key) in &pass.packets {
                packet
                    .allocate(bytes.len())
                    .expect("memory")
                    .copy_from_slice(bytes);
                packet.set_key(*key);
                packet.set_packet_index(*at);
                decoder.send(&packet).expect("valid files");
                receive(decoder, frame)?;
            }
            decoder.drain();
            receive(decoder, frame)?;
            decoder.flush();
        }
        Ok(output
            .into_clip()?
            .expect("a clip")
            .0
            .bytes()
            .expect("host memory")
            .to_vec())
    }
}
