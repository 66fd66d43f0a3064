//! Tests the simulated libnvcuvid: complete videos through parser and decoder, compared with
//! recorded hashes.
#![allow(unsafe_code, clippy::macro_metavars_in_unsafe)]

mod common;

use common::demux::{media, open, recorded};
use common::player::{PLAIN, Player, Settings};
use common::{assert_no_violations, context, exclusive, live, stream};

fn player(path: &str, settings: Settings) -> Option<(Box<Player>, Vec<String>)> {
    let (video, wanted) = (open(path)?, recorded(path)?);
    context();
    let mut player = Player::new(video.codec, settings, stream());
    player.play(&video);
    let shown: Vec<String> = player
        .hashes
        .iter()
        .zip(&player.displays)
        .filter(|(_, (_, packet))| {
            video.codec > 8
                || !video
                    .packets
                    .get(*packet as usize)
                    .is_some_and(|p| p.discard)
        })
        .map(|(hash, _)| hash.clone())
        .collect();
    player.hashes = shown;
    Some((player, wanted))
}

/// Decodes a video completely, maps every picture, and compares the frames with the record.
#[track_caller]
fn same_as_recorded(path: &str, settings: Settings) {
    let (player, wanted) =
        player(path, settings).unwrap_or_else(|| panic!("{path} cannot be read"));
    assert_eq!(player.failures, Vec::<String>::new(), "{path}");
    assert_eq!(player.hashes.len(), wanted.len(), "{path}: frames");
    let wrong = player.hashes.iter().zip(&wanted).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{path}: first wrong frame");
    assert!(
        player.statuses.iter().all(|&s| s == 2),
        "{path}: {:?}",
        player.statuses
    );
    player.close();
    assert_no_violations();
}

#[test]
fn h264_with_b_frames_and_crop_matches_the_record() {
    let _guard = exclusive("");
    for path in [
        "video/codecs/h264_b_pyramid.mp4",
        "video/derived/crop_334x250_h264.mp4",
        "video/derived/h264_bframes16_pyramid_strict_640x360.mp4",
    ] {
        same_as_recorded(path, PLAIN);
        same_as_recorded(
            path,
            Settings {
                whole: true,
                delay: 2,
                extra: 4,
                outputs: 3,
                ..PLAIN
            },
        );
    }
}

#[test]
fn interlaced_h264_matches_the_record() {
    let _guard = exclusive("");
    same_as_recorded("video/derived/h264_mbaff_720x576.mp4", PLAIN);
    same_as_recorded("video/odd/h264_paff.h264", PLAIN);
}

#[test]
fn hevc_in_8_and_10_bits_and_444_matches_the_record() {
    let _guard = exclusive("");
    same_as_recorded("video/codecs/hevc_176x144.h265", PLAIN);
    same_as_recorded(
        "video/derived/hevc_hdr10_tagged_720p.mp4",
        Settings {
            whole: true,
            ..PLAIN
        },
    );
    same_as_recorded("video/derived/hevc_444_8bit_640x360.mp4", PLAIN);
}

#[test]
fn vp8_and_vp9_with_hidden_frames_match_the_record() {
    let _guard = exclusive("");
    same_as_recorded("video/derived/vp8_640x360.webm", PLAIN);
    same_as_recorded("video/action/vp9_512x288.webm", PLAIN);
    same_as_recorded("video/codecs/vp9_show_existing_frame.ivf", PLAIN);
    same_as_recorded("video/codecs/vp9_10bit.webm", PLAIN);
    same_as_recorded("video/derived/odd_333x251_vp9.webm", PLAIN);
}

/// Parts of the names of large videos, which only `every_video_is_equal_on_gpu_and_cpu` of
/// tests/gpu decodes.
const LARGE: [&str; 4] = ["1080p", "720p", "960x540", "360p_kinetics"];

/// Every video with recorded frames that the caps allow, except [`LARGE`] ones; ONLY selects some
/// by a part of their path.
#[test]
fn every_recorded_video_matches_the_record() {
    let _guard = exclusive("");
    let media = media();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut folders = vec![media.join("frames")];
    let (mut good, mut refused, mut bad) = (0, Vec::new(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let path = path
                .strip_prefix(media.join("frames"))
                .unwrap()
                .with_extension("");
            let path = path.to_str().unwrap();
            if !path.contains(&only) || LARGE.iter().any(|name| path.contains(name)) {
                continue;
            }
            let Some((player, wanted)) = player(path, PLAIN) else {
                continue;
            };
            let violations = common::violations();
            let wrong = player.hashes.iter().zip(&wanted).position(|(a, b)| a != b);
            if violations
                .iter()
                .any(|c| c.contains("caps") || c.contains("not supported"))
            {
                refused.push(path.to_owned());
            } else if player.hashes.len() != wanted.len()
                || wrong.is_some()
                || !violations.is_empty()
                || !player.failures.is_empty()
            {
                bad.push(format!(
                    "{path}: {} of {} frames, first wrong {wrong:?}, {:?}, {:?}",
                    player.hashes.len(),
                    wanted.len(),
                    player.failures,
                    &violations[..violations.len().min(3)]
                ));
                eprintln!("{}", bad.last().unwrap());
            } else {
                good += 1;
            }
            player.close();
            common::control::<extern "C" fn()>("simulated_gpu_reset")();
        }
    }
    eprintln!("{good} as recorded, refused: {refused:#?}, wrong: {bad:#?}");
    assert!(bad.is_empty());
    assert!(good >= 75 || !only.is_empty(), "{good} videos");
    assert_eq!(live("decoders"), 0);
}
