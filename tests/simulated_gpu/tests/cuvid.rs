//! Tests the contract of the simulated parser and decoder point by point, with one violation for
//! each misuse.
#![allow(unsafe_code, clippy::macro_metavars_in_unsafe)]

mod common;

use common::demux::{Video, open, recorded};
use common::player::abi::{
    Caps, CreateInfo, END_OF_PICTURE, PicParams, ProcParams, ReconfigureInfo, TIMESTAMP,
};
use common::player::{PLAIN, Player, Settings, create_info, proc_params};
use common::{
    assert_no_violations, assert_violation, context, exclusive, live, set_fault, set_memory,
    stream, violations,
};

const BASE: &str = "video/derived/base_640x360.mp4";
const OTHER: &str = "video/derived/crop_334x250_h264.mp4";

/// A video of the test media and a player for it.
#[track_caller]
fn begin(path: &str, settings: Settings) -> (Box<Player>, Video) {
    let video = open(path).unwrap_or_else(|| panic!("{path} cannot be read"));
    context();
    (Player::new(video.codec, settings, stream()), video)
}

fn map(player: &Player, index: i32, stream: usize) -> (i32, u64) {
    let (mut address, mut pitch, params) = (0u64, 0u32, proc_params(stream));
    let code = call!(cuvidMapVideoFrame64(player.decoder => usize, index => i32, &mut address => *mut u64,
        &mut pitch => *mut u32, &params => *const ProcParams));
    (code, address)
}

fn unmap(player: &Player, address: u64) -> i32 {
    call!(cuvidUnmapVideoFrame64(player.decoder => usize, address => u64))
}

#[test]
fn nothing_happens_before_a_header_in_the_stream() {
    let _guard = exclusive("");
    let (mut player, video) = begin(BASE, PLAIN);
    // Packets of an MP4 after the first one: slices alone.
    for packet in &video.packets[1..10] {
        assert_eq!(player.feed(&packet.data, TIMESTAMP, 0), 0);
    }
    assert_eq!(player.finish(), 0);
    assert_eq!(
        (
            player.sequences,
            player.decoded.len(),
            player.displays.len()
        ),
        (0, 0, 0)
    );
    // A header alone announces nothing yet; the picture that refers to it does. The same header
    // again changes nothing.
    assert_eq!(player.feed(&video.headers, 0, 0), 0);
    assert_eq!(player.sequences, 0);
    player.play(&video);
    assert_eq!(
        (player.sequences, player.hashes),
        (1, recorded(BASE).unwrap())
    );
    player.hashes = Vec::new();
    // After the end of a stream it is silent again until a header comes, and then does not announce
    // a known sequence.
    assert_eq!(player.feed(&video.packets[1].data, TIMESTAMP, 0), 0);
    assert_eq!((player.finish(), player.events.len()), (0, 0));
    player.play(&video);
    assert_eq!(
        (player.sequences, &player.hashes),
        (1, &recorded(BASE).unwrap())
    );
    player.close();
    assert_no_violations();
}

#[test]
fn picture_ends_at_the_next_start_code_or_flag() {
    let _guard = exclusive("");
    let (mut player, video) = begin(BASE, PLAIN);
    player.feed(&video.packets[0].data, TIMESTAMP, 0);
    assert!(player.events.is_empty(), "{:?}", player.events);
    player.feed(&video.packets[1].data, TIMESTAMP, 1);
    assert_eq!(player.events[..2], ['s', 'd']);
    player.feed(&video.packets[2].data, TIMESTAMP | END_OF_PICTURE, 2);
    assert_eq!(player.events.iter().filter(|&&e| e == 'd').count(), 2); // the one before, and this one
    // NVIDIA's parser would merge the two.
    assert_violation("ENDOFPICTURE while a picture is not reported");
    player.feed(&video.packets[3].data, TIMESTAMP | END_OF_PICTURE, 3);
    assert_eq!(player.events.iter().filter(|&&e| e == 'd').count(), 1);
    // The flag on two pictures: the second is dropped.
    let two = [video.packets[4].data.as_slice(), &video.packets[5].data].concat();
    player.feed(&two, TIMESTAMP | END_OF_PICTURE, 4);
    assert_eq!(player.events.iter().filter(|&&e| e == 'd').count(), 1);
    assert!(common::notes().iter().any(|n| n.contains("ENDOFPICTURE")));
    let before = player.displays.len();
    assert_eq!(player.finish(), 0);
    assert_eq!(
        (before < player.displays.len(), player.displays.len()),
        (true, 5)
    );
    player.close();
    assert_no_violations();
}

#[test]
fn display_delay_holds_pictures_until_the_end() {
    let _guard = exclusive("");
    let (mut prompt, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 20,
            ..PLAIN
        },
    );
    let (mut slow, _) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 20,
            delay: 4,
            extra: 4,
            ..PLAIN
        },
    );
    for (at, packet) in video.packets.iter().enumerate().take(20) {
        let data = if at == 0 {
            [video.headers.as_slice(), &packet.data].concat()
        } else {
            packet.data.clone()
        };
        prompt.feed(&data, TIMESTAMP | END_OF_PICTURE, at as i64);
        slow.feed(&data, TIMESTAMP | END_OF_PICTURE, at as i64);
        assert_eq!(slow.displays.len(), prompt.displays.len().saturating_sub(4));
    }
    prompt.finish();
    slow.finish();
    assert_eq!((prompt.hashes.len(), &slow.hashes), (20, &prompt.hashes));
    // Timestamps stay with their pictures, out of decode order.
    let times: Vec<i64> = prompt.displays.iter().map(|d| d.1).collect();
    assert!(times.windows(2).any(|w| w[1] < w[0]), "{times:?}");
    prompt.close();
    slow.close();
    assert_no_violations();
}

#[test]
fn indices_are_reused_at_once_within_the_limit() {
    let _guard = exclusive("oldest_index=0");
    let (mut player, video) = begin("video/codecs/h264_b_pyramid.mp4", PLAIN);
    player.play(&video);
    let count = i32::from(player.format.unwrap().min_decode_surfaces);
    assert!(player.decoded.iter().all(|&index| index < count));
    // Non-reference pictures are displayed at once: the index of one just displayed is overwritten
    // by the next picture.
    let repeats = player.decoded.windows(2).filter(|w| w[0] == w[1]).count();
    assert!(repeats > 10, "{:?}", player.decoded);
    player.close();
    assert_no_violations();
}

#[test]
fn skipped_pictures_leave_surfaces_unchanged() {
    let _guard = exclusive("");
    let path = "video/codecs/h264_b_pyramid.mp4";
    let settings = Settings {
        skip_non_reference: true,
        ..PLAIN
    };
    let (mut player, video) = begin(path, settings);
    player.play(&video);
    let wanted = recorded(path).unwrap();
    let skipped = player.hashes.iter().filter(|h| *h == "skipped").count();
    assert!(skipped > 40, "{skipped}");
    assert!(
        player
            .hashes
            .iter()
            .zip(&wanted)
            .all(|(got, want)| got == "skipped" || got == want)
    );
    player.close();
    assert_no_violations();
    let (mut player, _) = begin(
        path,
        Settings {
            map_skipped: true,
            ..settings
        },
    );
    player.play(&video);
    let stale = violations()
        .iter()
        .filter(|v| v.contains("not submitted"))
        .count();
    assert!(
        stale > 10
            && violations()
                .iter()
                .all(|v| v.contains("not submitted") || v.contains("ever decoded"))
    );
    assert!(
        player
            .hashes
            .iter()
            .zip(&wanted)
            .any(|(got, want)| got != want)
    );
    player.close();
}

#[test]
fn new_sequence_is_announced_after_the_old_pictures() {
    let _guard = exclusive("");
    let ((mut player, mut video), other) = (begin(BASE, PLAIN), open(OTHER).expect("readable"));
    let first = recorded(BASE).unwrap();
    video.packets.extend(other.packets);
    let at = first.len();
    video.packets[at].data = [other.headers.as_slice(), &video.packets[at].data].concat();
    player.play(&video);
    assert_eq!((player.sequences, player.failures.len()), (2, 0));
    assert_eq!(player.hashes, [first, recorded(OTHER).unwrap()].concat());
    player.close();
    assert_no_violations();
}

#[test]
fn an_unchanged_sequence_may_be_announced_again() {
    let _guard = exclusive("sequence_repeated=1");
    let (mut player, video) = begin("video/derived/h264_all_intra_640x360.mp4", PLAIN);
    player.play(&video);
    assert!(player.sequences > 1, "{}", player.sequences);
    assert_eq!(
        player.hashes,
        recorded("video/derived/h264_all_intra_640x360.mp4").unwrap()
    );
    player.close();
    assert_no_violations();
}

#[test]
fn undecodable_leading_pictures_give_no_callback() {
    let _guard = exclusive("");
    let path = "video/derived/hevc_main_open_gop_640x360.mp4";
    let (mut player, mut video) = begin(path, PLAIN);
    player.hash = false;
    let cra = |data: &[u8]| {
        data.windows(5)
            .any(|w| w[..3] == [0, 0, 1] && w[3] >> 1 & 63 == 21)
    };
    let from = video
        .packets
        .iter()
        .skip(1)
        .position(|p| cra(&p.data))
        .expect("an open GOP")
        + 1;
    let rasl = |data: &[u8]| {
        data.windows(5)
            .any(|w| w[..3] == [0, 0, 1] && matches!(w[3] >> 1 & 63, 8 | 9))
    };
    let leading = video.packets[from..]
        .iter()
        .skip(1)
        .take_while(|p| !cra(&p.data))
        .filter(|p| rasl(&p.data))
        .count();
    assert!(leading > 0);
    video.packets.drain(..from);
    video.packets.truncate(30);
    player.play(&video);
    assert_eq!(player.decoded.len(), 30 - leading);
    player.close();
    assert_no_violations();
}

#[test]
fn vp9_timestamps_are_wrong_after_a_hidden_frame() {
    let _guard = exclusive("packet_lag=0");
    let (mut player, video) = begin("video/action/vp9_512x288.webm", PLAIN);
    player.play(&video);
    assert_eq!(player.displays.len(), 100);
    let shifted = player
        .displays
        .iter()
        .enumerate()
        .filter(|(at, d)| d.1 != *at as i64)
        .count();
    assert!(shifted > 8, "{shifted}");
    player.close();
    assert_no_violations();
}

#[test]
fn damaged_picture_is_reported_by_its_status() {
    let _guard = exclusive("");
    let (mut player, mut video) = begin("video/derived/h264_all_intra_640x360.mp4", PLAIN);
    let data = &mut video.packets[5].data;
    let (half, end) = (data.len() / 2, data.len());
    data[half..end]
        .iter_mut()
        .for_each(|byte| *byte = byte.wrapping_mul(77) | 0x10);
    player.play(&video);
    let bad: Vec<usize> = (0..player.statuses.len())
        .filter(|&n| player.statuses[n] != 2)
        .collect();
    assert_eq!(bad, [5]);
    assert!(matches!(player.statuses[5], 8 | 9));
    player.close();
    assert_no_violations();
}

#[test]
fn callback_failure_may_be_hidden_from_the_caller() {
    for (behavior, code) in [
        ("callback_failure_hidden=0", 1),
        ("callback_failure_hidden=1", 0),
    ] {
        let _guard = exclusive(behavior);
        let (mut player, video) = begin(BASE, PLAIN);
        set_fault("cuvidCreateDecoder:1=2");
        let first = [video.headers.as_slice(), &video.packets[0].data].concat();
        assert_eq!(player.feed(&first, TIMESTAMP | END_OF_PICTURE, 0), code);
        assert_eq!(player.failures, ["decoder: 2"]);
        // The sequence was rejected: no callback until the next header.
        assert_eq!(
            player.feed(&video.packets[1].data, TIMESTAMP | END_OF_PICTURE, 0),
            0
        );
        assert_eq!((player.sequences, player.decoded.len()), (1, 0));
        set_fault("");
        player.failures.clear();
        player.play(&video);
        assert_eq!(player.hashes, recorded(BASE).unwrap());
        player.close();
        assert_no_violations();
    }
}

#[test]
fn maps_run_late_and_reuse_one_surface() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 1,
            ..PLAIN
        },
    );
    player.play(&video);
    let (other, mut luma) = (stream(), vec![0u8; 4096]);
    let (code, address) = map(&player, player.decoded[0], player.stream);
    assert_eq!(code, 0);
    let read = |luma: &mut Vec<u8>, stream: usize| {
        let bytes = luma.len();
        call!(cuMemcpyDtoHAsync_v2(luma.as_mut_ptr() => *mut u8, address as usize => usize, bytes => usize, stream => usize))
    };
    assert_eq!(call!(cuStreamSynchronize(player.stream => usize)), 0);
    assert_eq!(read(&mut luma, other), 0);
    assert_no_violations(); // the host had waited
    assert_eq!(unmap(&player, address), 0);
    let (_, again) = map(&player, player.decoded[0], player.stream);
    assert_eq!(again, address);
    assert_eq!(read(&mut luma, other), 0);
    assert_violation("race"); // another stream, without synchronization
    assert_eq!(unmap(&player, address), 0);
    assert_eq!(read(&mut luma, player.stream), 1);
    assert_violation("not mapped");
    player.close();
    assert_no_violations();
}

#[test]
fn map_misuse_is_recorded() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 3,
            extra: 2,
            ..PLAIN
        },
    );
    player.play(&video);
    let unused = (0..32).find(|n| !player.decoded.contains(n)).unwrap();
    assert_eq!(map(&player, unused, player.stream).0, 205);
    assert_violation("nothing was ever decoded");
    assert_eq!(map(&player, 99, player.stream).0, 205);
    assert_violation("of surface 99");
    let (_, address) = map(&player, player.decoded[0], player.stream);
    assert_eq!(map(&player, player.decoded[0], player.stream).0, 205);
    assert_violation("all 1 output surfaces are mapped");
    // Decoding into the mapped surface: the next stream uses the same index.
    player.finish();
    for (at, packet) in video.packets.iter().enumerate() {
        let data = if at == 0 {
            [video.headers.as_slice(), &packet.data].concat()
        } else {
            packet.data.clone()
        };
        player.settings.skip_non_reference = false;
        player.feed(&data, TIMESTAMP | END_OF_PICTURE, 0);
        if violations().iter().any(|v| v.contains("which is mapped")) {
            break;
        }
    }
    assert!(
        violations().iter().any(|v| v.contains("which is mapped")),
        "{:?}",
        violations()
    );
    common::control::<extern "C" fn()>("simulated_gpu_reset")();
    assert_eq!(unmap(&player, address), 0);
    assert_eq!(unmap(&player, address), 1);
    assert_violation("not mapped");
    let (_, address) = map(&player, player.decoded[0], player.stream);
    assert_ne!(address, 0);
    assert_eq!(call!(cuStreamSynchronize(player.stream => usize)), 0);
    let decoder = std::mem::take(&mut player.decoder);
    assert_eq!(call!(cuvidDestroyDecoder(decoder => usize)), 0);
    assert_violation("are mapped");
    assert_eq!(call!(cuvidDestroyDecoder(decoder => usize)), 400);
    assert_violation("no such object");
    let parser = player.parser;
    player.close();
    assert_eq!(call!(cuvidDestroyVideoParser(parser => usize)), 400);
    assert_violation("no such object");
    assert_eq!(
        (live("decoders"), live("parsers"), live("mapped")),
        (0, 0, 0)
    );
}

#[test]
fn a_decoder_is_not_destroyed_under_its_readers() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 1,
            ..PLAIN
        },
    );
    player.play(&video);
    let (_, address) = map(&player, player.decoded[0], player.stream);
    assert_eq!(unmap(&player, address), 0);
    let decoder = std::mem::take(&mut player.decoder);
    assert_eq!(call!(cuvidDestroyDecoder(decoder => usize)), 0);
    assert_violation("waits to run on its output surface");
    player.close();
}

#[test]
fn context_thread_and_pointer_misuse_is_recorded() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 2,
            ..PLAIN
        },
    );
    player.play(&video);
    let (decoder, index) = (player.decoder, player.decoded[0]);
    let code = std::thread::Builder::new().name("no context".into()).spawn(move || {
        let (mut address, mut pitch, params) = (0u64, 0u32, proc_params(0));
        call!(cuvidMapVideoFrame64(decoder => usize, index => i32, &mut address => *mut u64, &mut pitch => *mut u32,
            &params => *const ProcParams))
    });
    assert_eq!(code.unwrap().join().unwrap(), 201);
    assert_violation("without a current context");
    // Parameters that were kept after their callback.
    // SAFETY: numbers and null pointers.
    let mut kept: PicParams = unsafe { std::mem::zeroed() };
    let bytes = [0u8; 64];
    kept.bitstream = bytes.as_ptr();
    assert_eq!(
        call!(cuvidDecodePicture(decoder => usize, &mut kept => *mut PicParams)),
        1
    );
    assert_violation("no decode callback that is running");
    player.close();
    assert_no_violations();
}

#[test]
fn decoders_are_created_only_within_the_caps() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        BASE,
        Settings {
            whole: true,
            packets: 1,
            ..PLAIN
        },
    );
    player.play(&video);
    let format = player.format.unwrap();
    let create = |change: &dyn Fn(&mut CreateInfo)| {
        let mut info = create_info(&format, 8, 1);
        change(&mut info);
        let mut decoder = 0usize;
        let code =
            call!(cuvidCreateDecoder(&mut decoder => *mut usize, &info => *const CreateInfo));
        if code == 0 {
            assert_eq!(call!(cuvidDestroyDecoder(decoder => usize)), 0);
        }
        code
    };
    assert_eq!(create(&|_| ()), 0);
    assert_no_violations();
    for (change, code) in [
        (
            &(|i: &mut CreateInfo| i.output_format = 1) as &dyn Fn(&mut CreateInfo),
            801,
        ),
        (&|i| i.depth_minus8 = 2, 801),
        (&|i| i.chroma = 3, 801),
        (&|i| i.codec = 11, 801),
        (&|i| (i.width, i.max_width) = (4112, 4112), 801),
        (&|i| i.width = 32, 801),
        (&|i| i.target_width = 639, 1),
        (&|i| i.decode_surfaces = 33, 1),
        (&|i| i.max_width = 320, 1),
        (&|i| i.display_area.right = 700, 1),
    ] {
        assert_eq!(create(change), code);
        assert_violation("cuvidCreateDecoder");
    }
    set_memory(1 << 20);
    assert_eq!(create(&|_| ()), 2);
    set_memory(8 << 30);
    assert_no_violations();
    // SAFETY: numbers only.
    let mut wanted: ReconfigureInfo = unsafe { std::mem::zeroed() };
    (
        wanted.width,
        wanted.height,
        wanted.target_width,
        wanted.target_height,
        wanted.decode_surfaces,
    ) = (656, 360, 656, 360, 8);
    let decoder = player.decoder;
    assert_eq!(
        call!(cuvidReconfigureDecoder(decoder => usize, &wanted => *const ReconfigureInfo)),
        1
    );
    assert_violation("beyond its");
    (wanted.width, wanted.target_width) = (320, 319);
    assert_eq!(
        call!(cuvidReconfigureDecoder(decoder => usize, &wanted => *const ReconfigureInfo)),
        1
    );
    assert_violation("target 319x360");
    player.close();
    // SAFETY: numbers only.
    let mut caps: Caps = unsafe { std::mem::zeroed() };
    (caps.codec, caps.chroma, caps.depth_minus8) = (8, 1, 2);
    assert_eq!(call!(cuvidGetDecoderCaps(&mut caps => *mut Caps)), 0);
    assert_eq!(
        (
            caps.supported,
            caps.engines,
            caps.output_formats,
            caps.min_width
        ),
        (1, 7, 3, 144)
    );
    assert_no_violations();
}

#[test]
fn too_few_surfaces_are_a_violation() {
    let _guard = exclusive("");
    let (mut player, video) = begin(
        "video/codecs/h264_b_pyramid.mp4",
        Settings { extra: -3, ..PLAIN },
    );
    player.play(&video);
    assert!(
        violations()[0].contains("surfaces for a stream that needs"),
        "{:?}",
        violations()
    );
    player.close();
}

#[test]
fn every_seed_gives_the_same_pictures() {
    let _guard = exclusive("");
    let paths = [
        BASE,
        "video/codecs/hevc_176x144.h265",
        "video/codecs/vp9_show_existing_frame.ivf",
        "video/derived/h264_mbaff_720x576.mp4",
    ];
    for seed in 1..9u64 {
        common::control::<extern "C" fn(u64)>("simulated_gpu_set_seed")(seed);
        let path = paths[seed as usize % 4];
        let (mut player, video) = begin(path, PLAIN);
        player.play(&video);
        let shown = if video.codec > 8 {
            player.hashes.len()
        } else {
            player.displays.len()
        };
        assert_eq!(
            (shown, &player.hashes),
            (shown, &recorded(path).unwrap()),
            "seed {seed}"
        );
        player.close();
        assert_no_violations();
    }
}
