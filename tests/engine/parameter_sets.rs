//! Tests parameter sets that are missing, or that change within the stream.

use crate::common::mp4::{Mp4, Sample};
use crate::common::named;
use crate::timestamps::{decoded, frames, index_of, memory, read};
use framespool::Error;
use framespool::decode::SoftwareDecoder;

#[test]
fn missing_parameter_sets_are_named_in_the_error() {
    // NAL units of an unspecified type replace the parameter sets.
    let without = |path: &str, heads: &[u8], other: u8| {
        let mut bytes = read(path);
        for at in 0..bytes.len() - 4 {
            if bytes[at..at + 3] == [0, 0, 1] && heads.contains(&bytes[at + 3]) {
                bytes[at + 3] = other;
            }
        }
        bytes
    };
    let (h264, hevc) = ([0x67, 0x68, 0x27, 0x28], [0x40, 0x42, 0x44]);
    for (name, bytes) in [
        ("h264.ts", without("video/odd/ts_base.ts", &h264, 31)),
        (
            "hevc.ts",
            without("video/derived/hevc_open_gop_640x360.ts", &hevc, 63 << 1),
        ),
    ] {
        let error = index_of(&memory(name, bytes))
            .map(|index| index.num_frames())
            .expect_err(name);
        assert!(matches!(error, Error::Malformed { .. }), "{name}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("parameter sets"),
            "{text}"
        );
    }
    // Raw streams are recognized by their parameter sets.
    for (name, bytes) in [
        (
            "bare.h264",
            without("video/codecs/h264_320x240.h264", &h264, 31),
        ),
        (
            "bare.h265",
            without("video/codecs/hevc_176x144.h265", &hevc, 63 << 1),
        ),
    ] {
        let error = index_of(&memory(name, bytes))
            .map(|index| index.num_frames())
            .expect_err(name);
        assert!(
            matches!(error, Error::Malformed { .. }) && error.to_string().contains(name),
            "{error}"
        );
    }
}

/// Returns the bits of a NAL unit after its header byte, without emulation prevention bytes.
fn unescaped_bits(unit: &[u8]) -> Vec<bool> {
    let mut bytes = Vec::new();
    let mut zeros = 0;
    for &byte in &unit[1..] {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1))
        .collect()
}

/// Returns a NAL unit of this header byte and these bits, which end with the stop bit and alignment
/// zeros.
fn unit(head: u8, mut bits: Vec<bool>) -> Vec<u8> {
    while bits.last() == Some(&false) {
        bits.pop();
    }
    let mut out = vec![head];
    let mut zeros = 0;
    for byte in bits.chunks(8) {
        let byte = byte
            .iter()
            .enumerate()
            .fold(0u8, |byte, (n, &bit)| byte | u8::from(bit) << (7 - n));
        if zeros >= 2 && byte <= 3 {
            out.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// Returns the index after the Exp-Golomb number at `at`.
fn skip_exp_golomb(bits: &[bool], at: usize) -> usize {
    let zeros = bits[at..].iter().position(|&bit| bit).expect("a number");
    at + 2 * zeros + 1
}

/// Returns the NAL unit with parameter set id 1 ('010') instead of 0 ('1'). Works for CAVLC only,
/// because the remaining bits move by two.
fn renumbered(of: &[u8]) -> Vec<u8> {
    let mut bits = unescaped_bits(of);
    let one = [false, true, false];
    match of[0] & 31 {
        7 => drop(bits.splice(24..25, one)),
        8 => drop(bits.splice(0..2, [one, one].concat())),
        _ => {
            let at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, 0));
            assert!(bits[at], "a slice that uses set 0");
            bits.splice(at..=at, one);
        }
    }
    unit(of[0], bits)
}

/// Returns a picture parameter set with another `chroma_qp_index_offset`: colors change, and no
/// decoder error results.
fn with_other_color(of: &[u8]) -> Vec<u8> {
    let mut bits = unescaped_bits(of);
    let mut at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, 0)) + 2; // ids, entropy coding, picture order
    for _ in 0..3 {
        at = skip_exp_golomb(&bits, at); // slice groups, reference counts
    }
    at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, at + 3)); // weighting, quantizers
    let end = skip_exp_golomb(&bits, at);
    bits.splice(at..end, [0, 0, 0, 0, 1, 0, 1, 0, 0].map(|bit| bit == 1)); // +10
    unit(of[0], bits)
}

#[test]
fn in_band_parameter_sets_apply_to_later_starts() {
    let entry = named("video/action/cars_768x432.mp4");
    let avc = Mp4::of(&entry, b"avc3");
    let prefixed = |unit: &[u8]| [&(unit.len() as u32).to_be_bytes()[..], unit].concat();
    let slices = |sample: &Sample| -> Vec<Vec<u8>> {
        let (mut rest, mut out) = (&sample.data[..], Vec::new());
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let (unit, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
            if [1, 5].contains(&(unit[0] & 31)) {
                out.push(unit.to_vec());
            }
            rest = tail;
        }
        out
    };
    // avcC: six bytes, the length of the SPS, the SPS, a count, the length of the PPS, the PPS.
    let avcc = &avc.config[8..];
    let set_at = |at: usize| {
        let length = usize::from(u16::from_be_bytes([avcc[at], avcc[at + 1]]));
        (avcc[at + 2..at + 2 + length].to_vec(), at + 2 + length)
    };
    let (sequence, end) = set_at(6);
    let (picture, _) = set_at(end + 1);
    // Twelve pictures that use the configured parameter sets (id 0), and the same pictures with id
    // 1.
    let group = |by_one: bool| -> Vec<Sample> {
        let of = |sample: &Sample| {
            let units = slices(sample);
            let units = units.iter().map(|unit| {
                if by_one {
                    renumbered(unit)
                } else {
                    unit.clone()
                }
            });
            Sample {
                data: units.flat_map(|unit| prefixed(&unit)).collect(),
                ..sample.clone()
            }
        };
        avc.samples[..12].iter().map(of).collect()
    };
    let plain = renumbered(&picture);
    let sets = [
        [renumbered(&sequence), plain.clone()],
        [renumbered(&sequence), with_other_color(&plain)],
    ];
    for kind in [b"avc3", b"avc1"] {
        let mut samples = Vec::new();
        for [sequence, picture] in &sets {
            let mut configured = group(false);
            // Before a P picture that uses the configured parameter sets.
            let brought = [
                prefixed(sequence),
                prefixed(picture),
                configured[5].data.clone(),
            ]
            .concat();
            configured[5].data = brought;
            samples.extend(configured);
            samples.extend(group(true));
        }
        let mp4 = Mp4 {
            entry: *kind,
            samples,
            ..avc.clone()
        };
        let name = format!("sets_{}.mp4", String::from_utf8_lossy(kind));
        let changed = decoded(mp4.source(&name));
        let groups: Vec<&[String]> = changed.hashes.chunks(12).collect();
        assert_eq!(groups.len(), 4, "{name}");
        assert_eq!(
            (groups[0], groups[0]),
            (groups[1], groups[2]),
            "{name}: the same pictures by other sets"
        );
        assert_ne!(groups[3], groups[0], "{name}: other colors");
        assert!(changed.index.changes_parameters, "{name}");
    }
}

#[test]
fn in_band_sets_in_avc1_fail_later_pictures() {
    let mp4 = Mp4::of(&named("video/action/cars_768x432.mp4"), b"avc1");
    let intact = decoded(mp4.source("intact.mp4"));
    let sets = &mp4.config[8..];
    let length = |at: usize| usize::from(u16::from_be_bytes([sets[at], sets[at + 1]]));
    let at = 6 + 2 + length(6) + 1;
    let other = with_other_color(&sets[at + 2..at + 2 + length(at)]);
    let mut samples: Vec<Sample> = [&mp4.samples[..12], &mp4.samples[..12]].concat();
    for number in [5, 7] {
        samples[number].data = [
            &(other.len() as u32).to_be_bytes()[..],
            &other,
            &mp4.samples[number].data,
        ]
        .concat();
    }
    let source = Mp4 { samples, ..mp4 }.source("misplaced.mp4");
    let index = index_of(&source).expect("valid tables");
    assert_eq!(index.sync_points, [0, 12]);
    let mut errors = 0;
    for frame in 0..24 {
        let packet = index.frames[frame as usize].packet.0;
        match frames(&source, &index, &mut SoftwareDecoder::new(), &[frame]) {
            Ok(hashes) => {
                assert!(
                    !(5..12).contains(&packet),
                    "frame {frame} of packet {packet}"
                );
                assert!(intact.hashes.contains(&hashes[0]), "frame {frame}");
            }
            Err(error) => {
                assert!(
                    (5..12).contains(&packet),
                    "frame {frame} of packet {packet}: {error}"
                );
                assert!(error.to_string().contains("avc3"), "{error}");
                errors += 1;
            }
        }
    }
    assert_eq!(errors, 7);
}
