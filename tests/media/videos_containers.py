"""Containers, times and damage: stream copies, and files that no encoder writes."""

from __future__ import annotations

from collections.abc import Callable

import streams
from recipe import BASE, JITTER, SINE, X264, first, flipped, joined, zeroed

#: Files with audio alone, and the options of their encoders.
AUDIO = {
    "aac.m4a": "-c:a aac",
    "alac.m4a": "-c:a alac",
    "mp3.mp3": "-c:a libmp3lame -b:a 64k",
    "vorbis.ogg": "-c:a libvorbis",
    "opus.opus": "-ar 48000 -c:a libopus",
    "opus.mkv": "-ar 48000 -c:a libopus",
    "flac.flac": "-ar 8000 -c:a flac",
    "pcm.wav": "-ar 8000",
    "ac3.ac3": "-ar 48000 -c:a ac3 -b:a 96k",
    "eac3.mp4": "-ar 48000 -c:a eac3 -b:a 96k",
    "aac.ts": "-c:a aac",
    "wma.wma": "-c:a wmav2",
}


def recipes(add: Callable[..., None]) -> None:
    """Adds the recipes; inputs come before the files created from them."""
    at24 = "-r 24 -i {bunny} -an"
    small = "-r 30000/1001 -i {bikes} -an"

    # ---- containers and times: stream copies of the base ----
    copy = f"-i {BASE} -c copy"
    add("derived/faststart_640x360.mp4", "tables in front", f"{copy} -movflags +faststart")
    add("derived/fragmented_640x360.mp4", "fragments", f"{copy} -movflags frag_keyframe+empty_moov+default_base_moof")
    add("derived/fragmented_every_frame.mp4", "a fragment a frame", f"{copy} -movflags frag_every_frame+empty_moov")
    add("derived/partially_fragmented.mp4", "samples in moov and in fragments", f"{copy} -movflags frag_keyframe")
    add(
        "derived/fragmented_1080p.mp4",
        "fragments of a 1080p clip",
        "-i {1080p/bunny_24p.mp4} -c copy -movflags frag_keyframe+empty_moov+default_base_moof",
    )
    add("derived/no_editlist_640x360.mp4", "no edit list: the first time is positive", f"{copy} -use_editlist 0")
    add("derived/negative_cts_640x360.mp4", "negative composition offsets", f"{copy} -movflags negative_cts_offsets")
    add("derived/delayed_start_640x360.mp4", "empty edit", f"-itsoffset 2.5 -i {BASE} -c copy")
    add(
        "odd/first_pts_10s.mp4",
        "fragments that begin at 10 s",
        made=streams.ten_seconds_later,
        inputs=("derived/fragmented_640x360.mp4",),
    )
    add(
        "derived/h264_cut_mid_gop.mp4",
        "cut inside a GOP: an edit list hides the pre-roll",
        f"-ss 1.4 -i {BASE} -c copy",
    )
    add(
        "derived/h264_cut_mid_gop_1080p.mp4",
        "the same of one long GOP",
        "-ss 2.3 -i {1080p/bunny_25p.mp4} -an -c copy -t 2",
    )
    add(
        "derived/co64_640x360.mp4", "64-bit chunk offsets", made=streams.with_co64, inputs=("derived/base_640x360.mp4",)
    )
    add(
        "odd/no_stss.mp4",
        "no table of sync samples: each is one",
        made=streams.without_stss,
        inputs=("derived/h264_all_intra_640x360.mp4",),
    )
    for degrees, name in ((90, "ccw90"), (180, "180"), (-90, "cw90")):
        add(f"derived/rotate_{name}_640x360.mp4", "display matrix", f"-display_rotation {degrees} -i {BASE} -c copy")
    for container in ("mp4", "mkv"):
        add(
            f"odd/rotate_45_640x360.{container}",
            "display matrix between two right angles",
            f"-display_rotation 45 -i {BASE} -c copy",
        )
    add("odd/rotate_90_phone.mov", "rotation in MOV", "-display_rotation -90 -i {phone} -c copy")
    add("odd/rotate_and_reflect.mp4", "turned and mirrored", f"-display_rotation 90 -display_hflip -i {BASE} -c copy")
    add(
        "odd/editlist_hevc10_rot90.mp4",
        "HEVC, edit list, rotation",
        "-ss 0.7 -display_rotation -90 -i {codecs/hevc_main10.mkv} -c copy -tag:v hvc1",
    )
    add(
        "derived/start_33ms_640x480.mkv",
        "times of whole milliseconds, from 33 on",
        "-itsoffset 0.033 -i {action/words/again.mkv} -c copy",
    )
    add(
        "derived/lost_frame_320x180.mkv",
        "one frame is missing, its time too",
        f"{small} -vf scale=320:180,select='not(eq(n\\,33))' -fps_mode passthrough {X264} -crf 32 -frames:v 60",
    )
    add("derived/live_no_cues_640x360.mkv", "Matroska without cues and duration", f"{copy} -live 1 -f matroska")
    add("derived/h264_in_avi_bframes_640x360.avi", "B pictures in AVI", f"{copy} -bsf:v h264_mp4toannexb")
    add(
        "derived/two_video_tracks.mp4",
        "two tracks",
        f"-i {BASE} -i {{derived/crop_334x250_h264.mp4}} -map 0:v -map 1:v -c copy",
    )
    add(
        "derived/attached_picture.mp4",
        "the video and a cover picture",
        f"-i {BASE} -i {{bikes}} -map 0 -map 1:v -c:v:0 copy -c:v:1 mjpeg -filter:v:1 select=eq(n\\,0) -disposition:v:1 attached_pic",
    )
    add(
        "odd/data_streams.mp4",
        "timecode track and audio",
        f"-i {BASE} {SINE} -map 0 -map 1 -c:v copy -timecode 01:00:00:00 -t 3",
    )
    add("odd/shorter_audio.mp4", "audio shorter than video", f"-i {BASE} {SINE} -map 0 -map 1 -c:v copy -t:a 1")
    add("odd/audio_only.mp4", "no video", f"{SINE} -t 1 -c:a aac", frames=())
    for name, options in AUDIO.items():
        add(f"audio/{name}", "a tone of a second", f"{SINE} -t 1 {options}", frames=())
    add(
        "derived/cover_art_only.m4a",
        "audio with a cover picture",
        f"{SINE} -i {{bikes}} -map 0 -map 1:v -c:a aac -t 1 -c:v mjpeg -frames:v 1 -disposition:v:0 attached_pic -f ipod",
        frames=(),
    )
    add("derived/vfr_jitter_640x360.mkv", "jittered times", JITTER.format(**{"in": "{bikes}", "codec": X264}))
    add(
        "derived/vfr_60_15_30_640x360.mp4",
        "60, then 15, then 30 fps",
        f"-r 60 -i {{bikes}} -an -vf scale=640:360,select='lt(t\\,2)+between(t\\,2\\,3)*not(mod(n\\,4))+gt(t\\,3)*not(mod(n\\,2))' "
        f"-fps_mode vfr {X264} -crf 31",
    )
    add(
        "derived/timescale_90000_vfr_drop_640x360.mp4",
        "irregularly dropped frames",
        f"{small} -vf scale=640:360,select='not(between(mod(n\\,30)\\,7\\,11)+eq(mod(n\\,13)\\,5))' -fps_mode vfr "
        f"{X264} -crf 31 -video_track_timescale 90000",
    )
    add(
        "odd/sar_2x1.mp4",
        "pixels twice as wide as high",
        f"{at24} -vf scale=320:360,setsar=2 {X264} -crf 31 -frames:v 48",
    )
    add("derived/ts_start_10h_640x360.ts", "starts at 10 h", f"{copy} -output_ts_offset 36000 -muxdelay 0")
    add("derived/ts_pts_wrap_640x360.ts", "33-bit times wrap", f"{copy} -output_ts_offset 95442 -muxdelay 0")
    add("odd/ts_base.ts", "TS from its beginning", f"{copy} -muxdelay 0")
    add(
        "odd/no_initial_keyframe.ts",
        "TS that begins inside a GOP",
        made=streams.from_packet_boundary,
        inputs=("odd/ts_base.ts",),
        frames=(),
    )
    add("derived/small_640x360.h264", "input of the next", f"-i {BASE} -c copy -bsf:v h264_mp4toannexb -f h264")
    add(
        "derived/large_1280x720.h264",
        "input of the next",
        f"{at24} {X264} -crf 34 -frames:v 24 -f h264 -bsf:v h264_mp4toannexb",
    )
    add(
        "derived/resolution_change.h264",
        "another size in mid-stream",
        made=joined,
        inputs=("derived/small_640x360.h264", "derived/large_1280x720.h264"),
        frames=("derived/small_640x360.h264", "derived/large_1280x720.h264"),
    )
    add(
        "codecs/evc_sample.mp4",
        "tagged as EVC, which nothing here decodes",
        made=lambda data: data.replace(b"avc1", b"evc1").replace(b"avcC", b"evcC"),
        inputs=("derived/faststart_640x360.mp4",),
        frames=(),
    )

    # ---- damage ----
    def damaged(path: str, notes: str, made: Callable[..., bytes], *inputs: str) -> None:
        add(f"corrupt/derived/{path}", notes, made=made, inputs=inputs, frames=())

    fast, hevc_file, vp9_file = (
        "derived/faststart_640x360.mp4",
        "derived/hevc_cut_at_cra_640x360.mp4",
        "derived/odd_333x251_vp9.webm",
    )
    xvid, base = "derived/xvid_bframes_480x270.avi", "derived/base_640x360.mp4"
    damaged("bitflip_h264.mp4", "a bit flipped every 4001 bytes", flipped(11, 8192, 4001), fast)
    damaged("zero_hole_hevc.mp4", "a tenth of the file is zeros", zeroed, hevc_file)
    damaged("zero_hole_xvid.avi", "a tenth of the file is zeros", zeroed, xvid)
    damaged("bitflip_vp9.webm", "a bit flipped every 3001 bytes", flipped(14, 4096, 3001), vp9_file)
    damaged("bitflip_av1.mp4", "a bit flipped every 5003 bytes", flipped(15, 4096, 5003), "derived/av1_640x360.mp4")
    damaged("bitflip_vp8.webm", "a bit flipped every 5003 bytes", flipped(16, 4096, 5003), "derived/vp8_640x360.webm")
    damaged(
        "bitflip_mpeg2.ts",
        "a bit flipped every 7001 bytes",
        flipped(17, 8192, 7001),
        "codecs/mpeg2_open_gop_720x405.ts",
    )
    damaged("zero_hole_h264.mp4", "a tenth of the file is zeros", zeroed, fast)
    for name, source in {
        "truncated_60.avi": xvid,
        "truncated_60.mkv": "derived/live_no_cues_640x360.mkv",
        "truncated_60.ts": "derived/ts_start_10h_640x360.ts",
        "truncated_60.webm": "derived/vp8_640x360.webm",
        "truncated_60_1080p.mkv": "1080p/bunny_30p.mkv",
        "truncated_60_faststart.mp4": fast,
        "truncated_60_fragmented.mp4": "derived/fragmented_every_frame.mp4",
        "truncated_60_moov_end.mp4": base,
        "truncated_60.flv": "codecs/h264_480x360.flv",
        "truncated_60.wmv": "codecs/wmv2_640x360.wmv",
        "truncated_60.mpg": "codecs/mpeg1_352x240.mpg",
        "truncated_60.ogv": "codecs/theora_400x300.ogv",
    }.items():
        damaged(name, "the first 60 %", first(0.6), source)
    damaged("header_only.mp4", "the first 64 bytes", lambda data: data[:64], base)
    damaged("text_named.mp4", "text", lambda: b"This is no video.\n" * 60)
    damaged("zero_bytes.mp4", "nothing", lambda: b"")
    damaged("lost_idr.264", "the second key picture is missing", streams.without_second_idr, "codecs/h264_320x240.h264")
    damaged(
        "mdat_too_long.mp4",
        "mdat reaches beyond the end",
        streams.with_wrong_field("mdat", 0, lambda size: size + (1 << 20)),
        fast,
    )
    damaged(
        "stts_lies.mp4", "more times than samples", streams.with_wrong_field("stts", 16, lambda count: count + 50), base
    )
    damaged(
        "stsz_lies.mp4",
        "more sizes than the table holds",
        streams.with_wrong_field("stsz", 16, lambda count: count + (1 << 24)),
        base,
    )
    damaged(
        "stco_lies.mp4",
        "chunks beyond the end",
        streams.with_wrong_field("stco", 16, lambda offset: offset + (1 << 28)),
        base,
    )
    damaged("stsc_empty.mp4", "no chunks", streams.with_wrong_field("stsc", 12, lambda count: 0), base)
    add("corrupt/broken.mp4", "not decodable", made=lambda data: data[:40] + data[2000:6000], inputs=(base,), frames=())
