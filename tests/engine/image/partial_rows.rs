//! Tests that decoding only the rows that a pixel pass reads gives the same pixels, in any
//! orientation and at every size. Rows that were not requested contain data of an earlier image; a
//! truncated file is still an error.

use framespool_kernels::{Filter, Interpolation, Orientation, Placement, Warp};

use super::*;

/// Returns crops of an image of this stored size, like those of training transforms.
fn parts((width, height): (u32, u32)) -> Vec<Geometry> {
    let upright = Orientation {
        mirror: false,
        quarter_turns_cw: 0,
    };
    let part = |x: u32, y: u32, w: u32, h: u32, to: (u32, u32)| Geometry {
        orientation: upright,
        crop: Rect {
            x,
            y,
            width: w.max(1),
            height: h.max(1),
        },
        resized: to,
        window: Rect::from_size(to.0, to.1),
        ..Geometry::identity(width, height)
    };
    let (w, h) = (width, height);
    let mut all = vec![
        part(0, 0, w, h / 3, (31, 17)),
        part(w / 4, h / 2, w / 2, h / 4, (23, 40)),
        part(w / 2, h - h.div_ceil(5), w / 3, h.div_ceil(5), (16, 9)),
        part(0, h / 3, w, 1, (20, 1)),
        Geometry {
            filter: Filter::Nearest,
            ..part(0, h / 2, w, h / 3, (9, 9))
        },
        Geometry {
            filter: Filter::Bilinear,
            ..part(w / 5, h / 5, w / 2, h / 2, (60, 50))
        },
        Geometry {
            filter: Filter::Bicubic,
            ..part(w / 5, h / 5, w / 2, h / 2, (60, 50))
        },
        Geometry {
            filter: Filter::Cubic,
            ..part(w / 4, h / 2, w / 2, h / 4, (23, 40))
        },
        Geometry {
            flip_vertical: true,
            flip_horizontal: true,
            ..part(0, 0, w / 2, h / 2, (14, 15))
        },
        // A center crop of the resized image, as for evaluation.
        Geometry {
            window: Rect {
                x: 8,
                y: 9,
                width: 24,
                height: 20,
            },
            ..part(0, 0, w, h, (40, 40))
        },
        // Without resizing, offset by one row and one column.
        part(
            1.min(w - 1),
            1.min(h - 1),
            w / 2,
            h / 2,
            ((w / 2).max(1), (h / 2).max(1)),
        ),
    ];
    let slant = Warp {
        size: (20, 20),
        to_x: [1 << 28, 1 << 26, -(1 << 29)],
        to_y: [-(1 << 26), 1 << 28, 1 << 28],
        interpolation: Interpolation::Bilinear,
    };
    all.push(Geometry {
        placement: Placement::Warp(slant),
        ..part(0, h / 4, w, h / 4, (24, 24))
    });
    // Other orientations: the crop is in coordinates of the oriented image.
    for (mirror, quarter_turns_cw) in [(true, 0), (false, 1), (true, 1), (false, 2), (false, 3)] {
        let (w, h) = if quarter_turns_cw % 2 == 1 {
            (h, w)
        } else {
            (w, h)
        };
        let orientation = Orientation {
            mirror,
            quarter_turns_cw,
        };
        all.push(Geometry {
            orientation,
            ..part(w / 3, h / 3, w / 4, h / 4, (12, 13))
        });
    }
    all
}

fn run(pass: &mut PixelPass, view: &FrameView<'_>) -> Vec<u8> {
    let (width, height) = pass.output_size();
    let mut pixels = vec![0; width as usize * height as usize * 3];
    pass.run(
        view,
        &mut OutputSlot::hwc(&mut pixels, width as usize),
        &mut Scratch::new(),
    )
    .expect("it fits");
    pixels
}

#[test]
fn rows_that_a_pass_does_not_read_have_no_effect() {
    let entries = valid_images();
    // Two decoders whose memory contains data of other images in the rows that are not decoded,
    // used alternately.
    let mut soiled = [ImageDecoder::new(), ImageDecoder::new()];
    let mut passes = 0;
    let mut spared = 0;
    for (n, entry) in entries.iter().enumerate() {
        let file = File::of(entry);
        let header = file.header().unwrap();
        for scale in DctScale::ALL
            .into_iter()
            .filter(|scale| header.can_scale(*scale))
        {
            let options = DecodeOptions {
                scale,
                ..DecodeOptions::default()
            };
            let (width, height) = header.scaled_size(scale);
            let mut fresh = ImageDecoder::new();
            let whole = file.decode(&mut fresh, options).unwrap();
            // All crops of the whole image, and some of the shrunk ones.
            let step = if scale == DctScale::Full { 1 } else { 4 };
            for (m, geometry) in parts((width, height))
                .into_iter()
                .enumerate()
                .skip(n % step)
                .step_by(step)
            {
                let mut pass =
                    PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).expect("a plain pass");
                let rows = pass.source_rows(width, height).expect("inside");
                assert!(
                    rows.start < rows.end && rows.end <= height,
                    "{} {geometry:?}: {rows:?}",
                    entry.path
                );
                spared += u64::from(height - (rows.end - rows.start));
                let soiled = &mut soiled[m % 2];
                let other = File::of(&entries[(n * 7 + m) % entries.len()]);
                other.decode(soiled, DecodeOptions::default()).unwrap();
                let part = DecodeOptions {
                    rows: Some((rows.start, rows.end)),
                    ..options
                };
                let view = file.decode(soiled, part).unwrap();
                assert_eq!(
                    run(&mut pass, &view),
                    run(&mut pass, &whole),
                    "{} {part:?} {geometry:?}",
                    entry.path
                );
                passes += 1;
            }
        }
    }
    assert!(
        passes > 2_500 && spared > 400_000,
        "{passes} passes, {spared} rows skipped"
    );
}

#[test]
fn exact_image_is_complete_for_any_requested_rows() {
    let entries = valid_images();
    for entry in entries.iter().step_by(5) {
        let file = File::of(entry);
        let options = DecodeOptions {
            rows: Some((1, 2)),
            ..EXACT_REQUEST
        };
        let whole = file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
        assert_eq!(
            file.outcome(&mut ImageDecoder::new(), options),
            whole,
            "{}",
            entry.path
        );
    }
}

#[test]
fn truncation_fails_and_unread_rows_are_unchecked() {
    let mut decoder = ImageDecoder::new();
    let top = DecodeOptions {
        rows: Some((0, 8)),
        ..DecodeOptions::default()
    };
    for file in small_files()
        .iter()
        .filter(|file| file.bytes.starts_with(&[0xff, 0xd8]))
    {
        let end = file
            .bytes
            .windows(2)
            .rposition(|two| two == [0xff, 0xd9])
            .unwrap();
        for cut in [end + 1, end, end - 9, end * 3 / 4] {
            let cut_off = File::new(&file.name, file.bytes[..cut].to_vec());
            let outcome = cut_off.outcome(&mut decoder, top);
            assert!(
                outcome.contains(&file.name),
                "{} cut to {cut} of {end} bytes: decoded",
                file.name
            );
        }
        // The end marker is found regardless of how many bytes follow it, as libjpeg finds it.
        let mut longer = file.bytes[..end + 2].to_vec();
        longer.extend([0xff; 100]);
        assert!(
            File::new(&file.name, longer)
                .decode(&mut decoder, top)
                .is_ok(),
            "{}",
            file.name
        );
    }
    let mut file = File::of(&named("images/odd/grey_128x128.jpg"));
    let near_end = file.bytes.len() - 40;
    file.bytes[near_end..near_end + 4].copy_from_slice(&[0xff, 0xd3, 0xff, 0xd5]);
    let words = file.outcome(&mut decoder, DecodeOptions::default());
    assert!(words.contains("libjpeg reports"), "{words}");
    assert!(file.decode(&mut decoder, top).is_ok());
}
