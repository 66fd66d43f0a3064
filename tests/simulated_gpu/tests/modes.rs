//! Tests the behaviors that FRAMESPOOL_SIMULATED_MODES combines, each enabled alone by its name.
#![allow(unsafe_code, clippy::macro_metavars_in_unsafe)]

mod common;

use std::ffi::{CStr, c_char};
use std::time::{Duration, Instant};

use common::demux::{open, recorded};
use common::player::abi::{CreateInfo, DecodeStatus, END_OF_PICTURE, ProcParams, TIMESTAMP};
use common::player::{PLAIN, Player, Settings, create_info, proc_params};
use common::{allocate, assert_no_violations, context, control, exclusive, set_behaviors, stream};

const BASE: &str = "video/derived/base_640x360.mp4";
const HEVC: &str = "video/derived/hevc_main_open_gop_640x360.mp4";

/// A player that has submitted this number of pictures and mapped none.
#[track_caller]
fn submit(pictures: usize) -> Box<Player> {
    let video = open(BASE).unwrap_or_else(|| panic!("{BASE} cannot be read"));
    context();
    let settings = Settings {
        whole: true,
        delay: pictures as u32,
        extra: pictures as i32,
        ..PLAIN
    };
    let mut player = Player::new(video.codec, settings, stream());
    player.feed(&video.headers, 0, 0);
    for (at, packet) in video.packets.iter().enumerate().take(pictures) {
        assert_eq!(
            player.feed(&packet.data, TIMESTAMP | END_OF_PICTURE, at as i64),
            0
        );
    }
    assert_eq!((player.decoded.len(), player.displays.len()), (pictures, 0));
    player
}

fn map(player: &Player, index: i32) -> (usize, usize) {
    let (mut address, mut pitch, params) = (0u64, 0u32, proc_params(player.stream));
    let code = call!(cuvidMapVideoFrame64(player.decoder => usize, index => i32, &mut address => *mut u64,
        &mut pitch => *mut u32, &params => *const ProcParams));
    assert_eq!(code, 0);
    (address as usize, pitch as usize)
}

fn unmap(player: &Player, address: usize) {
    assert_eq!(
        call!(cuvidUnmapVideoFrame64(player.decoder => usize, address as u64 => u64)),
        0
    );
}

fn wait_for(of: usize, stream: usize) {
    let mut event = 0usize;
    assert_eq!(call!(cuEventCreate(&mut event => *mut usize, 2 => u32)), 0);
    assert_eq!(call!(cuEventRecord(event => usize, of => usize)), 0);
    assert_eq!(
        call!(cuStreamWaitEvent(stream => usize, event => usize, 0 => u32)),
        0
    );
    assert_eq!(call!(cuEventDestroy_v2(event => usize)), 0);
}

/// Whether work that copies a picture's first row reads another picture, since the surface is
/// unmapped before the work runs.
fn reads_overwritten_surface(player: &Player, after: Option<usize>) -> bool {
    let copy = allocate(512);
    let (address, pitch) = map(player, player.decoded[0]);
    if let Some(other) = after {
        assert_eq!(
            call!(cuMemsetD8Async(copy => usize, 0 => u8, 512 => usize, other => usize)),
            0
        );
        wait_for(other, player.stream);
    }
    let bytes = pitch.min(512);
    let code = call!(cuMemcpyDtoDAsync_v2(copy => usize, address => usize, bytes => usize, player.stream => usize));
    assert_eq!(code, 0);
    unmap(player, address);
    let mut got = [0u8; 512];
    let code = call!(cuMemcpyDtoHAsync_v2(got.as_mut_ptr() => *mut u8, copy => usize, 512 => usize, player.stream => usize));
    assert_eq!(code, 0);
    assert_eq!(call!(cuMemFree_v2(copy => usize)), 0);
    got.iter().all(|&byte| byte == 0xA5)
}

#[test]
fn surface_is_overwritten_before_work_that_waits() {
    for (behavior, alone, after_other) in [
        ("", false, false),
        ("held_overwritten", false, true),
        ("unmapped_overwritten", true, true),
    ] {
        let _guard = exclusive(behavior);
        let player = submit(4);
        let other = stream();
        assert_eq!(
            reads_overwritten_surface(&player, None),
            alone,
            "{behavior}"
        );
        assert_eq!(
            reads_overwritten_surface(&player, Some(other)),
            after_other,
            "{behavior}"
        );
        // A stream to which pictures are mapped is another decoder's: its work is ordered, and
        // runs.
        let second = submit(1);
        let (address, _) = map(&second, second.decoded[0]);
        assert_eq!(
            reads_overwritten_surface(&player, Some(second.stream)),
            alone,
            "{behavior}"
        );
        unmap(&second, address);
        second.close();
        player.close();
        assert_no_violations();
    }
}

fn status(player: &Player, index: i32) -> i32 {
    // SAFETY: numbers only.
    let mut status: DecodeStatus = unsafe { std::mem::zeroed() };
    let code = call!(cuvidGetDecodeStatus(player.decoder => usize, index => i32, &mut status => *mut DecodeStatus));
    assert_eq!(code, 0);
    status.status
}

#[test]
fn status_is_known_after_the_map() {
    let _guard = exclusive("status_after_map");
    let player = submit(4);
    let index = player.decoded[0];
    assert!((0..20).all(|_| status(&player, index) == 1));
    let (address, _) = map(&player, index);
    assert_eq!(status(&player, index), 2);
    unmap(&player, address);
    player.close();
    assert_no_violations();
}

#[test]
fn upload_from_pageable_memory_waits() {
    let waiting = || control::<extern "C" fn() -> u64>("simulated_gpu_operations_waiting")();
    for (behavior, left) in [("", 2), ("pageable_waits", 0)] {
        let _guard = exclusive(behavior);
        context();
        let (stream, memory, bytes) = (stream(), allocate(64), [7u8; 64]);
        assert_eq!(
            call!(cuMemsetD8Async(memory => usize, 0 => u8, 64 => usize, stream => usize)),
            0
        );
        let before = waiting();
        let code = call!(cuMemcpyHtoDAsync_v2(memory => usize, bytes.as_ptr() => *const u8, 64 => usize, stream => usize));
        assert_eq!((code, waiting()), (0, before - 1 + left), "{behavior}");
        assert_eq!(call!(cuStreamSynchronize(stream => usize)), 0);
        assert_eq!(call!(cuMemFree_v2(memory => usize)), 0);
    }
}

#[test]
fn announced_formats_differ_and_frames_do_not() {
    let play = |path: &str, behavior: &str| {
        let _guard = exclusive(behavior);
        let video = open(path).unwrap_or_else(|| panic!("{path} cannot be read"));
        context();
        let mut player = Player::new(video.codec, PLAIN, stream());
        player.play(&video);
        assert_eq!(player.hashes, recorded(path).unwrap(), "{behavior}");
        let format = player.format.unwrap();
        player.close();
        assert_no_violations();
        format
    };
    let (plain, more) = (play(BASE, ""), play(BASE, "more_surfaces"));
    assert_eq!(more.min_decode_surfaces, plain.min_decode_surfaces + 6);
    assert_eq!(plain, play(BASE, "timestamp_queue"));
    let (plain, padded) = (play(HEVC, ""), play(HEVC, "hevc_padded"));
    assert_eq!((plain.coded_height, padded.coded_height), (368, 384));
    assert_eq!(
        (plain.coded_width, plain.display_area),
        (padded.coded_width, padded.display_area)
    );
}

#[test]
fn timestamp_of_a_picture_that_waits_too_long_is_lost() {
    let lost = |behavior: &str| {
        let _guard = exclusive(behavior);
        let mut player = submit(20);
        player.finish();
        let lost = player
            .displays
            .iter()
            .skip(1)
            .filter(|(_, timestamp)| *timestamp == 0)
            .count();
        player.close();
        assert_no_violations();
        lost
    };
    assert_eq!((lost(""), lost("timestamp_queue")), (0, 3));
}

fn create(player: &Player) -> i32 {
    let (info, mut decoder) = (create_info(&player.format.unwrap(), 8, 1), 0usize);
    let code = call!(cuvidCreateDecoder(&mut decoder => *mut usize, &info => *const CreateInfo));
    if code == 0 {
        assert_eq!(call!(cuvidDestroyDecoder(decoder => usize)), 0);
    }
    code
}

#[test]
fn creation_is_slow_or_fails() {
    let _guard = exclusive("slow_create");
    let player = submit(1);
    let begun = Instant::now();
    assert_eq!(create(&player), 0);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    set_behaviors("slow_create=0,failing_create");
    let mut codes = [0; 3].map(|_| create(&player));
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 2]);
    player.close();
    assert_no_violations();
}

#[test]
fn map_waits_for_the_engine() {
    let _guard = exclusive("busy_map");
    let begun = Instant::now();
    let player = submit(16);
    let (address, _) = map(&player, player.decoded[15]);
    assert!(begun.elapsed() >= Duration::from_micros(16 * 300));
    unmap(&player, address);
    player.close();
    assert_no_violations();
}

#[test]
fn every_listed_mode_is_off_until_it_is_enabled() {
    let _guard = exclusive("");
    // SAFETY: the text is never freed.
    let modes = unsafe {
        CStr::from_ptr(control::<extern "C" fn() -> *const c_char>(
            "simulated_gpu_modes",
        )())
    };
    let is_on = control::<extern "C" fn(*const c_char) -> u64>("simulated_gpu_behavior");
    let set = control::<extern "C" fn(*const c_char)>("simulated_gpu_set_behaviors");
    let modes: Vec<_> = modes.to_str().unwrap().split(',').collect();
    assert_eq!(modes.len(), 9);
    for mode in modes {
        let name = std::ffi::CString::new(mode).unwrap();
        assert_eq!(is_on(name.as_ptr()), 0, "{mode}");
        set(name.as_ptr());
        assert_eq!(is_on(name.as_ptr()), 1, "{mode}");
    }
}
