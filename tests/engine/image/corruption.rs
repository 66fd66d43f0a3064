//! Tests image files that are truncated, changed, or made expensive to decode: each ends in an
//! image or in an error that names the file, always the same one, without a panic or a hang.

use super::*;

#[test]
fn truncated_file_is_an_error_at_every_cut() {
    let mut kept = ImageDecoder::new();
    for File { name, bytes } in small_files() {
        // Cuts up to the last byte that is needed: the end marker, or the end of a PNG's last IDAT.
        let end = if bytes.starts_with(&[0xff, 0xd8]) {
            bytes
                .windows(2)
                .rposition(|two| two == [0xff, 0xd9])
                .unwrap()
                + 1
        } else {
            let idat = bytes.windows(4).rposition(|four| four == b"IDAT").unwrap();
            idat + 7 + u32::from_be_bytes(bytes[idat - 4..idat].try_into().unwrap()) as usize
        };
        // Cuts at every 97th byte; in long files at a few hundred positions.
        for cut in (0..end)
            .step_by(97 * (end / 20_000).max(1))
            .chain([end - 1, end])
        {
            let file = File::new(&name, bytes[..cut].to_vec());
            let outcome = file.outcome(&mut kept, DecodeOptions::default());
            assert!(
                outcome.contains(&name),
                "{name} cut to {cut} of {} bytes: decoded",
                bytes.len()
            );
            if cut % 5 == 0 {
                assert_eq!(
                    outcome,
                    file.outcome(&mut ImageDecoder::new(), DecodeOptions::default())
                );
            }
        }
    }
}

/// SplitMix64, a pseudorandom generator with a fixed sequence.
struct TestRng(u64);

impl TestRng {
    fn next_below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n.max(1) as u64) as usize
    }
}

#[test]
fn damage_gives_a_deterministic_image_or_error() {
    let mut rng = TestRng(7);
    let mut kept = ImageDecoder::new();
    let (mut decoded, mut refused) = (0, 0);
    for File { name, bytes } in small_files() {
        for round in 0..150 {
            let mut file = File::new(&name, bytes.clone());
            // Half of the damage hits the headers, where numbers determine sizes.
            let reach = if round % 2 == 0 {
                bytes.len().min(700)
            } else {
                bytes.len()
            };
            for _ in 0..1 + rng.next_below(6) {
                let at = rng.next_below(reach);
                match round % 3 {
                    0 => file.bytes[at] ^= 1 << rng.next_below(8),
                    1 => file.bytes[at] = 0xff,
                    _ => file.bytes[at] = rng.next_below(256) as u8,
                }
            }
            let options = every_option().nth(rng.next_below(8)).unwrap();
            let outcome = file.outcome(&mut kept, options);
            assert_eq!(
                outcome,
                file.outcome(&mut ImageDecoder::new(), options),
                "{name}, round {round}"
            );
            if outcome.contains(&name) {
                refused += 1;
            } else {
                decoded += 1;
            }
        }
    }
    assert!(
        decoded > 100 && refused > 100,
        "{decoded} decoded, {refused} refused"
    );
}

#[test]
fn harmless_warning_does_not_hide_later_damage() {
    let mut file = File::of(&named("images/odd/grey_128x128.jpg"));
    let want = file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
    // Bytes after the first segment that belong to no segment: libjpeg warns, and continues.
    let at = 4 + usize::from(file.bytes[5]);
    file.bytes.splice(at..at, [1, 2, 3]);
    assert_eq!(file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST), want);
    file.bytes.truncate(file.bytes.len() * 3 / 4);
    let outcome = file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
    assert!(
        outcome.contains("Premature end") && outcome.contains("skip or replace"),
        "{outcome}"
    );
}

#[test]
fn expensive_images_are_refused_early() {
    let mut file = File::of(&named("images/odd/non_interleaved_444.jpg"));
    let ImageHeader { width, height, .. } = file.header().unwrap();
    let samples = u64::from(width) * u64::from(height);
    let source = MemorySource::new("big.jpg", file.bytes.clone());
    let limits = |picture_samples| Limits {
        picture_samples,
        ..Limits::default()
    };
    assert!(read_header(&source, &limits(samples)).is_ok());
    assert!(matches!(
        read_header(&source, &limits(samples - 1)),
        Err(Error::Limit { .. })
    ));
    // A scan repeated two hundred times: each repetition adds few bytes, and a whole pass of
    // decoding.
    let scans: Vec<usize> = (0..file.bytes.len() - 1)
        .filter(|at| file.bytes[*at] == 0xff && file.bytes[at + 1] == 0xda)
        .collect();
    let scan = file.bytes[scans[0]..scans[1]].to_vec();
    for _ in 0..200 {
        file.bytes.splice(scans[0]..scans[0], scan.iter().copied());
    }
    let outcome = file.outcome(&mut ImageDecoder::new(), EXACT_REQUEST);
    assert!(outcome.contains("number of scans is 101"), "{outcome}");
    // A PNG whose header states 65535 x 65535 pixels.
    let (mut bytes, _) = png_encoder::encoded(png::ColorType::Grayscale, png::BitDepth::One, 8, 8);
    bytes[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let error = File::new("bomb.png", bytes).header().unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
}

#[test]
fn file_changed_after_its_header_is_an_error() {
    let png = |w, h| {
        File::new(
            "a.png",
            png_encoder::encoded(png::ColorType::Rgb, png::BitDepth::Eight, w, h).0,
        )
    };
    let site = Site::file(&"a.png".into());
    let mut decoder = ImageDecoder::new();
    let error = decoder
        .decode(
            &site,
            &png(5, 5).header().unwrap(),
            &png(500, 500).bytes,
            EXACT_REQUEST,
        )
        .unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    let small = File::of(&named("images/odd/grey_128x128.jpg"));
    let large = File::of(&named("images/odd/grey_large.jpg"));
    let error = decoder
        .decode(&site, &small.header().unwrap(), &large.bytes, EXACT_REQUEST)
        .unwrap_err();
    assert!(error.to_string().contains("1280x853"), "{error}");
}
