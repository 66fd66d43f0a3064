//! Prints a line for each image file: the MD5 of the RGB bytes of exact decoding, size, color
//! model, coding, orientation and file name, or the error. The digests are compared with those of
//! Pillow's output. With `--time N`, prints milliseconds instead: the fastest of N decodes, as
//! planes and exact, at each size.

use std::path::Path;
use std::time::Instant;

use framespool::error::{Result, Site};
use framespool::image::{DctScale, DecodeOptions, ImageDecoder, ImageHeader, read_header};
use framespool::limits::Limits;
use framespool::source::{ByteSource, FileSource};
use framespool_kernels::{FrameView, Planes};
use md5::{Digest, Md5};

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut rounds = 0;
    if files.first().is_some_and(|first| first == "--time") {
        rounds = files[1].parse().expect("--time N");
        files.drain(..2);
    }
    let mut decoder = ImageDecoder::new();
    for file in &files {
        let line = read(file).and_then(|(site, header, bytes)| {
            if rounds > 0 {
                return time(&mut decoder, &site, &header, &bytes, rounds);
            }
            let view = decoder.decode(
                &site,
                &header,
                &bytes,
                DecodeOptions {
                    exact: true,
                    ..DecodeOptions::default()
                },
            )?;
            let sum: String = Md5::digest(rgb(&view))
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let (w, h, turn) = (header.width, header.height, header.orientation);
            let turn = format!(
                "{}{}",
                if turn.mirror { "mirror+" } else { "" },
                turn.degrees_cw()
            );
            Ok(format!(
                "{sum}\t{w}x{h}\t{:?}\t{:?}\t{turn}",
                header.color_model, header.coding
            ))
        });
        match line {
            Ok(line) => println!("{line}\t{file}"),
            Err(error) => println!("error\t{}\t{error}\t{file}", error.kind()),
        }
    }
}

fn read(file: &str) -> Result<(Site, ImageHeader, Vec<u8>)> {
    let source = FileSource::open(Path::new(file))?;
    let site = Site::file(source.name());
    let header = read_header(&source, &Limits::default())?;
    let mut bytes = vec![0; source.len() as usize];
    source.read_exact_at(&site, 0, &mut bytes)?;
    Ok((site, header, bytes))
}

fn time(
    decoder: &mut ImageDecoder,
    site: &Site,
    header: &ImageHeader,
    bytes: &[u8],
    rounds: usize,
) -> Result<String> {
    let mut line = format!("{}x{}", header.width, header.height);
    for exact in [false, true] {
        for scale in DctScale::ALL
            .into_iter()
            .filter(|scale| header.can_scale(*scale))
        {
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let begun = Instant::now();
                std::hint::black_box(decoder.decode(
                    site,
                    header,
                    bytes,
                    DecodeOptions {
                        scale,
                        exact,
                        ..DecodeOptions::default()
                    },
                )?);
                best = best.min(begun.elapsed().as_secs_f64() * 1e3);
            }
            line += &format!("\t{best:.3}");
        }
    }
    Ok(line)
}

/// The picture as R, G, B bytes. 16-bit samples give their upper byte.
fn rgb(view: &FrameView<'_>) -> Vec<u8> {
    let (w, h) = (view.width as usize, view.height as usize);
    let wide = usize::from(view.depth_bits > 8) + 1;
    let mut out = Vec::with_capacity(w * h * 3);
    for y in 0..h {
        for x in 0..w {
            match view.planes {
                Planes::Gray(p) => {
                    out.extend([p.data[y * p.stride_bytes + x * wide + wide - 1]; 3])
                }
                Planes::PackedRgb {
                    plane,
                    pixel_bytes,
                    offsets,
                } => {
                    let at = y * plane.stride_bytes + x * usize::from(pixel_bytes);
                    out.extend(offsets.map(|offset| plane.data[at + usize::from(offset)]));
                }
                Planes::PlanarRgb(planes) => {
                    out.extend(planes.map(|p| p.data[y * p.stride_bytes + x * wide + wide - 1]));
                }
                Planes::Yuv { .. } | Planes::SemiPlanar { .. } => {
                    panic!("exact pictures are gray or RGB")
                }
            }
        }
    }
    out
}
