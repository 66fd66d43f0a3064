//! Tests color conversion on real frames of every pixel format in the test media: full-size RGB is
//! within 1 of the exact formula. The reference is the float64 formula in
//! `framespool_kernels::reference`, not the fast kernels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::videos;
use framespool::batch::OutputMut;
use framespool::decode::PacketReader;
use framespool::decode::SoftwareDecoder;
use framespool::decode::plan;
use framespool::ffmpeg::frame_view::{ColorOverride, with_view};
use framespool::index::build;
use framespool::limits::Limits;
use framespool::transforms::transform::Step;
use framespool::transforms::{Dtype, InputFrame, Layout, TransformExecutor, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool_kernels::{Orientation, reference};

#[test]
fn full_size_rgb_is_within_one_of_the_exact_formula() {
    let mut worst: BTreeMap<String, (u32, u8, f64)> = BTreeMap::new();
    for entry in videos() {
        let Ok(source) = entry.source() else { continue };
        let Ok(index) = build(&source, &Limits::default()).map(Arc::new) else {
            continue;
        };
        let turn = index.info.orientation;
        let mut reader = PacketReader::new(source, index.clone());
        let mut decoder = SoftwareDecoder::new();
        let mut executor = TransformExecutor::new(
            TransformPipeline::new(Vec::<Step>::new(), Dtype::U8, Layout::Nthwc).unwrap(),
        );
        let wanted = [
            PresentationIndex(0),
            PresentationIndex(index.num_frames().min(12) - 1),
        ];
        for run in plan::plan_decode_ranges(&index, &wanted) {
            let done = decoder.run(&mut reader, &run, |_, frame| {
                let (width, height) =
                    executor.size_of((frame.width(), frame.height()), turn.into())?;
                let shape = executor.shape(1, (width, height));
                let mut have = vec![0u8; shape.bytes().unwrap()];
                let target = OutputMut::Host(&mut have);
                executor.apply(
                    &index.site,
                    &mut InputFrame::Cpu(frame),
                    &index,
                    &shape,
                    target,
                    0,
                )?;
                let exact = with_view(&index.site, frame, ColorOverride::default(), |view| {
                    Ok(reference::exact_full_size(view).expect("a valid view"))
                })?
                .oriented(Orientation {
                    mirror: turn.mirror,
                    quarter_turns_cw: turn.quarter_turns_cw,
                });
                assert_eq!(
                    (exact.width, exact.height),
                    (width, height),
                    "{}",
                    entry.path
                );
                let format = frame.layout().expect("a known format").name;
                let tags = frame.color();
                let kind = format!("{format} matrix {} {:?}", tags.matrix, tags.full_range);
                let row = worst.entry(kind).or_default();
                row.0 += 1;
                let mut off = 0u64;
                for (pixel, exact) in have.chunks_exact(3).zip(&exact.pixels) {
                    for (h, e) in pixel.iter().zip(exact) {
                        let error = h.abs_diff(*e);
                        row.1 = row.1.max(error);
                        off += u64::from(error > 0);
                    }
                }
                row.2 = row.2.max(off as f64 / have.len() as f64);
                assert!(row.1 <= 1, "{}: {format} is {} off", entry.path, row.1);
                Ok(())
            });
            // Errors of damaged files and of codecs that are not built in are covered by other
            // tests.
            if let Err(error) = done {
                // A matrix that is not supported is an error that names it
                // (src/ffmpeg/frame_view.rs); there is no formula to compare with.
                let refused = error.to_string().contains("color matrix bt2020c");
                assert!(
                    entry.is_corrupt() || entry.codec().is_empty() || refused,
                    "{}: {error}",
                    entry.path
                );
            }
        }
    }
    println!(
        "{:<44} {:>6} {:>5} {:>8}",
        "format, matrix (H.273), full range", "frames", "worst", "off by 1"
    );
    for (kind, (frames, worst, share)) in &worst {
        println!("{kind:<44} {frames:>6} {worst:>5} {:>7.2} %", share * 100.0);
    }
}
