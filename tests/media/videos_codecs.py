"""Videos by codec: 1080p, short clips, H.264, HEVC, VP8, VP9, AV1 and older codecs."""

from __future__ import annotations

from collections.abc import Callable

import streams
from recipe import LABELS, LENGTHS, VP9, X264, X265


def recipes(add: Callable[..., None]) -> None:
    """Adds the recipes; inputs come before the files created from them."""
    at24 = "-r 24 -i {bunny} -an"
    small = "-r 30000/1001 -i {bikes} -an"

    # ---- 1080p ----
    add(
        "1080p/bunny_25p.mp4",
        "1080p H.264, one GOP, with audio",
        f"-i {{bunny}} -map 0 -c:a aac -ac 2 -b:a 48k -vf scale=1920:1080 {X264} -crf 33 -g 9999 -sc_threshold 0",
    )
    add("1080p/bunny_60p.mp4", "the same at 60 fps", "-itsscale 0.41666667 -i {1080p/bunny_25p.mp4} -an -c copy")
    add("1080p/bunny_30p.mkv", "the same in Matroska", "-itsscale 0.83333333 -i {1080p/bunny_25p.mp4} -an -c copy")
    add(
        "1080p/bunny_24p.mp4",
        "1080p H.264, GOPs of 30",
        f"{at24} -vf scale=1920:1080 {X264} -crf 34 -g 30 -frames:v 96 -movflags +faststart",
    )

    # ---- short clips ----
    for number, (label, length) in enumerate(zip(LABELS, LENGTHS, strict=True)):
        add(
            f"action/words/{label}.mkv",
            f"short clip, label {label}, full range, 640x480, Matroska's millisecond clock",
            f"-ss {number * 0.1:.1f} -r 30000/1001 -i {{{'bikes' if number % 2 else 'bunny'}}} -an "
            f"-vf crop=ih*4/3:ih,scale=640:480:out_range=full,format=yuvj420p {X264} -crf 30 -color_range pc -frames:v {length}"
            if number % 2 or length + 3 * number < 132
            else f"-r 30000/1001 -i {{bunny}} -an -vf crop=ih*4/3:ih,scale=640:480:out_range=full,format=yuvj420p {X264} -crf 30 "
            f"-color_range pc -frames:v {length}",
        )
    add("action/bikes_640x272.mp4", "street scene with cuts", "-i {bikes} -c copy")
    add("action/phone_176x144.mp4", "real phone call", "-i {phone} -c copy")
    add(
        "action/long_384x164_90s.mp4",
        "90 s, GOPs of 10: a long index",
        f"-stream_loop 3 -r 10 -i {{bikes}} -an -vf scale=384:164 {X264} -crf 36 -g 10 -frames:v 901",
    )
    add(
        "action/long_160x68_30p.mp4",
        "20 s at 30 fps, small",
        f"-stream_loop 2 -r 30 -i {{bikes}} -an -vf scale=160:68 {X264} -crf 36 -g 60 -frames:v 600",
    )
    add("action/street_426x240.mp4", "long GOPs", f"{small} -vf scale=426:240 {X264} -crf 30 -g 160 -sc_threshold 0")
    add(
        "action/street_340x256.mp4",
        "Kinetics-style, long GOPs",
        f"{small} -vf scale=340:256 {X264} -crf 28 -g 250 -sc_threshold 0",
    )
    add(
        "action/cars_768x432.mp4",
        "H.264 Baseline",
        f"-r 12.5 -i {{bunny}} -an -vf scale=768:432 {X264} -profile:v baseline -crf 30 -g 60 -frames:v 88",
    )
    add(
        "action/street_960x540.mp4",
        "three GOPs",
        f"-r 30 -i {{bikes}} -an -vf scale=960:540 {X264} -crf 34 -g 100 -sc_threshold 0",
    )
    add(
        "action/street_426x240.mkv",
        "no B pictures",
        f"{small} -vf scale=426:240 {X264} -profile:v main -bf 0 -crf 30 -g 120",
    )
    add(
        "action/street_ucf_320x240.avi",
        "MPEG-4 Simple Profile in AVI",
        "-i {bikes} -an -vf scale=320:240 -c:v mpeg4 -qscale:v 7 -frames:v 131",
    )
    add(
        "action/vp9_512x288.webm",
        "VP9 with hidden alt-ref frames",
        "-i {bunny} -an -vf scale=512:288 -c:v libvpx-vp9 -b:v 0 -crf 40 -deadline good -cpu-used 5 -lag-in-frames 16 "
        "-auto-alt-ref 1 -frames:v 100",
        two_passes=True,
    )
    add(
        "action/vp8_426x240.webm",
        "VP8",
        "-i {bikes} -an -vf scale=426:240 -c:v libvpx -b:v 300k -deadline realtime -cpu-used 8",
    )

    add("odd/bikes_cut.mp4", "a real clip cut inside a GOP", "-ss 3.3 -i {bikes} -c copy")
    add("odd/bikes_fragmented.mp4", "a real clip in fragments", "-i {bikes} -c copy -movflags frag_keyframe+empty_moov")

    # ---- H.264 ----
    add(
        "derived/base_640x360.mp4", "base of many others", f"{at24} -vf scale=640:360 {X264} -crf 28 -g 24 -frames:v 72"
    )
    bframes = "-vf scale=640:360 -frames:v"
    add(
        "derived/h264_bframes16_pyramid_strict_640x360.mp4",
        "sixteen B pictures, strict pyramid",
        f"{small} {bframes} 180 {X264} -crf 29 -x264-params bframes=16:b-adapt=2:b-pyramid=strict:ref=8:scenecut=0",
    )
    add(
        "codecs/h264_b_pyramid.mp4",
        "B pyramid",
        f"-i {{bunny}} -an -vf scale=400:320 {X264} -crf 30 -g 30 -bf 3 -x264-params b-pyramid=normal:b-adapt=0 -frames:v 120",
    )
    add(
        "codecs/h264_non_reference_b.mp4",
        "three disposable B pictures in a row",
        f"-i {{bunny}} -an -vf scale=400:320 {X264} -crf 30 -g 30 -bf 3 -x264-params b-pyramid=none:b-adapt=0 -frames:v 120",
    )
    add(
        "derived/h264_open_gop_720p.mp4",
        "open GOPs",
        f"{at24} -frames:v 120 {X264} -crf 34 -x264-params "
        "open-gop=1:keyint=30:min-keyint=30:scenecut=0:bframes=3:b-adapt=0:b-pyramid=normal",
    )
    add(
        "derived/h264_cut_open_gop_720p.mp4",
        "cut at an open GOP",
        "-ss 2.6 -i {derived/h264_open_gop_720p.mp4} -c copy",
        has_decoder_errors=True,  # of the leading pictures
    )
    add(
        "derived/h264_intra_refresh_640x360.mp4",
        "periodic intra refresh",
        f"{at24} -vf scale=640:360 {X264} -crf 29 -x264-params intra-refresh=1:keyint=48:bframes=0 -frames:v 120",
    )
    add(
        "derived/h264_mbaff_720x576.mp4",
        "MBAFF",
        f"-r 50 -i {{bunny}} -an -vf scale=720:576,tinterlace=mode=interleave_top {X264} -crf 30 -flags +ildct+ilme "
        "-x264-params tff=1:keyint=30",
    )
    add("odd/h264_paff.h264", "field pictures and frame pictures (PAFF)", made=streams.paff)
    add("odd/h264_paff.mp4", "field pairs in two samples each", "-framerate 25 -i {odd/h264_paff.h264} -c copy")
    halves = "-vf scale=320:96,format=yuv420p -c:v mpeg2video -q:v 5 -g 1 -frames:v 40"
    add("odd/mpeg2_halves.avi", "input of the next", f"{at24} {halves}")
    add(
        "odd/mpeg2_fields.avi",
        "MPEG-2 with a field in each packet",
        made=streams.mpeg2_fields,
        inputs=("odd/mpeg2_halves.avi",),
    )
    add(
        "derived/h264_high10_1080p.mp4",
        "10 bit",
        f"{at24} -vf scale=1920:1080,format=yuv420p10le {X264} -crf 38 -frames:v 24",
    )
    add("derived/h264_422_10bit_720p.mp4", "4:2:2 10 bit", f"{at24} -vf format=yuv422p10le {X264} -crf 32 -frames:v 24")
    add(
        "derived/h264_444_8bit_640x360.mp4",
        "4:4:4",
        f"{at24} -vf scale=640:360,format=yuv444p {X264} -crf 30 -frames:v 48",
    )
    add("derived/h264_gray_640x360.mp4", "4:0:0", f"{at24} -vf scale=640:360,format=gray {X264} -crf 30 -frames:v 48")
    add("derived/h264_lossless_320x180.mp4", "lossless", f"{at24} -vf scale=320:180 {X264} -qp 0 -frames:v 16")
    add(
        "derived/h264_all_intra_640x360.mp4",
        "key frames only",
        f"{at24} -vf scale=640:360 {X264} -crf 33 -g 1 -frames:v 48",
    )
    add(
        "derived/h264_baseline_multislice_640x360.mp4",
        "four slices a picture, no reordering",
        f"{at24} -vf scale=640:360 {X264} -profile:v baseline -tune zerolatency -x264-params slices=4:keyint=48 -crf 30 -frames:v 120",
    )
    add(
        "derived/h264_single_keyframe_720p.mp4",
        "one key frame in all",
        f"{at24} {X264} -crf 36 -g 9999 -sc_threshold 0 -bf 3 -frames:v 130",
    )
    add(
        "derived/h264_gop12_360p_kinetics_like.mp4",
        "as Kinetics is often stored: 340 high, GOPs of 12",
        f"{small} -vf scale=-2:340 {X264} -crf 32 -g 12 -bf 2",
    )
    add(
        "derived/crop_334x250_h264.mp4",
        "cropped size",
        f"-i {{bikes}} -an -vf scale=334:250 {X264} -crf 30 -frames:v 90",
    )
    add(
        "derived/odd_333x251_h264_444.mp4",
        "odd size",
        f"-i {{bikes}} -an -vf scale=333:251,format=yuv444p {X264} -crf 30 -frames:v 60",
    )
    add("derived/tiny_34x26_h264.mp4", "very small", f"-i {{bikes}} -an -vf scale=34:26 {X264} -crf 20 -frames:v 60")
    add(
        "derived/tall_240x1200_h264.mp4",
        "extreme shape",
        f"-i {{bikes}} -an -vf crop=54:270,scale=240:1200 {X264} -crf 34 -frames:v 60",
    )
    add(
        "derived/h264_full_range_640x360.mp4",
        "full range",
        f"{at24} -vf scale=640:360:out_range=full,format=yuvj420p {X264} -crf 29 -color_range pc -frames:v 48",
    )
    add(
        "derived/h264_bt601_tagged_720x480_sar.mp4",
        "BT.601, pixels that are not square",
        f"{at24} -vf scale=720:480:out_color_matrix=bt601,setsar=32/27 {X264} -crf 30 -colorspace smpte170m "
        "-color_primaries smpte170m -color_trc smpte170m -frames:v 72",
    )
    add(
        "derived/h264_bt709_tagged_640x360.mp4",
        "BT.709",
        f"{at24} -vf scale=640:360:out_color_matrix=bt709 {X264} -crf 30 -colorspace bt709 -color_primaries bt709 "
        "-color_trc bt709 -color_range tv -frames:v 24",
    )
    add("odd/single_frame.mp4", "one frame", f"-i {{bikes}} -an -vf scale=320:240 {X264} -frames:v 1")
    add("codecs/h264_320x240.h264", "raw Annex B", f"-i {{bikes}} -an -vf scale=320:240 {X264} -crf 32 -g 80 -f h264")
    add("codecs/h264_480x360.flv", "H.264 in FLV", f"-i {{bikes}} -an -vf scale=480:360 {X264} -crf 33 -g 125")

    # Squares of one color each, lossless, so that every pixel's value is known (tests/python/test_color.py).
    squares = "geq=lum='{0}+floor(X/16)*{1}':cb='{0}+floor(Y/16)*{2}':cr='{3}-floor((X+Y)/32)*{4}'"
    eight, ten = squares.format(16, 31, 74, 240, 44), squares.format(64, 124, 296, 960, 176)
    for matrix in ("smpte170m", "bt709", "bt2020nc", "fcc", "smpte240m", "ycgco"):
        for range_, pixels, values in (("tv", "yuv444p", eight), ("pc", "yuv444p", eight), ("tv", "yuv444p10le", ten)):
            add(
                f"odd/squares_{matrix}_{range_}_{'10bit' if values is ten else '8bit'}.mp4",
                f"squares of one color each, {matrix}, {range_}",
                f"-f lavfi -i nullsrc=s=128x64:r=10,format={pixels},{values} -frames:v 1 -c:v libx264 -qp 0 "
                f"-colorspace {matrix} -color_range {range_}",
            )
    for name, transfer in (("pq", "smpte2084"), ("hlg", "arib-std-b67")):
        add(
            f"odd/squares_{name}_10bit.mp4",
            f"squares of one color each, BT.2020, {transfer}",
            f"-f lavfi -i nullsrc=s=128x64:r=10,format=yuv444p10le,{ten} -frames:v 2 -c:v libx264 -qp 0 "
            f"-colorspace bt2020nc -color_range tv -color_primaries bt2020 -color_trc {transfer}",
        )
    add(
        "odd/squares_pq_film.mp4",
        "PQ with primaries whose white is not D65",
        f"-f lavfi -i nullsrc=s=128x64:r=10,format=yuv444p10le,{ten} -frames:v 1 -c:v libx264 -qp 0 "
        "-colorspace bt2020nc -color_range tv -color_primaries film -color_trc smpte2084",
    )
    add(
        "odd/squares_bt2020c.mp4",
        "a matrix that no product with R, G, B gives: constant luminance",
        f"-f lavfi -i nullsrc=s=128x64:r=10,format=yuv444p,{eight} -frames:v 1 -c:v libx264 -qp 0 -colorspace bt2020c",
    )

    # ---- HEVC ----
    hevc = f"{at24} -vf scale=640:360"
    open_gop = ":keyint=24:min-keyint=24:scenecut=0:open-gop=1:bframes=4:b-adapt=0"
    add("derived/hevc_main_open_gop_640x360.mp4", "CRA and RASL", f"{hevc} {X265}{open_gop} -crf 30 -frames:v 96")
    add(
        "derived/hevc_cut_at_cra_640x360.mp4",
        "cut at a CRA",
        "-ss 1.1 -i {derived/hevc_main_open_gop_640x360.mp4} -c copy",
    )
    add("derived/hevc_open_gop_640x360.ts", "open GOPs in TS", "-i {derived/hevc_main_open_gop_640x360.mp4} -c copy")
    add("codecs/hevc_single_keyframe.ts", "one key frame", f"{hevc} {X265}:keyint=-1:scenecut=0 -crf 34 -frames:v 120")
    add("codecs/hevc_main10.mkv", "10 bit", f"{hevc},format=yuv420p10le {X265}:open-gop=0 -crf 32 -frames:v 60")
    add(
        "derived/hevc_main12_320x180.mp4",
        "12 bit",
        f"{at24} -vf scale=320:180,format=yuv420p12le {X265} -crf 32 -frames:v 24",
    )
    add("derived/hevc_422_10bit.mp4", "4:2:2 10 bit", f"{hevc},format=yuv422p10le {X265} -crf 32 -frames:v 24")
    add("derived/hevc_444_8bit_640x360.mp4", "4:4:4", f"{hevc},format=yuv444p {X265} -crf 32 -frames:v 48")
    add(
        "derived/hevc_hdr10_tagged_720p.mp4",
        "HDR10 tags (the content is not HDR)",
        f"{at24} -vf format=yuv420p10le {X265}:hdr10=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:"
        "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400 -crf 32 -frames:v 24",
    )
    add(
        "codecs/hevc_176x144.h265",
        "raw Annex B",
        f"-i {{phone}} -an {X265}:keyint=30 -crf 30 -frames:v 60 -tag:v 0 -f hevc",
    )

    # ---- VP8, VP9, AV1 ----
    add(
        "derived/vp8_640x360.webm",
        "VP8 with alt-ref frames",
        "-i {bikes} -an -vf scale=640:360 -c:v libvpx -b:v 400k -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 5 -frames:v 100",
        two_passes=True,
    )
    add("derived/odd_333x251_vp9.webm", "odd size", f"-i {{bikes}} -an -vf scale=333:251 {VP9} -crf 38 -frames:v 90")
    add(
        "derived/vp9_444_320x180.webm",
        "profile 1",
        f"{at24} -vf scale=320:180,format=yuv444p {VP9} -crf 38 -frames:v 48",
    )
    add("codecs/vp9_10bit.webm", "profile 2", f"{at24} -vf scale=426:240,format=yuv420p10le {VP9} -crf 38 -frames:v 60")
    add(
        "codecs/vp9_352x288.ivf",
        "input of the next",
        f"-i {{phone}} -an -vf scale=352:288 {VP9} -crf 38 -g 9999 -frames:v 12",
    )
    add(
        "codecs/vp9_show_existing_frame.ivf",
        "frames that show what was decoded before",
        made=streams.show_existing,
        inputs=("codecs/vp9_352x288.ivf",),
    )
    add("odd/vp9_320x180.ivf", "input of the next", f"{at24} -vf scale=320:180 {VP9} -crf 40 -frames:v 24")
    add(
        "odd/resolution_change_vp9.ivf",
        "another size at a key frame",
        made=streams.joined_ivf,
        inputs=("codecs/vp9_352x288.ivf", "odd/vp9_320x180.ivf"),
        frames=("codecs/vp9_352x288.ivf", "odd/vp9_320x180.ivf"),
    )
    alpha = "format=yuva420p,geq=lum='p(X\\,Y)':cb='cb(X\\,Y)':cr='cr(X\\,Y)':a='255*X/W'"
    add(
        "odd/alpha_vp9.webm",
        "VP9 with alpha",
        f"{at24} -vf scale=160:90,{alpha} {VP9} -auto-alt-ref 0 -crf 40 -frames:v 24",
    )
    add("odd/vp9_odd_161x121.webm", "odd size", f"-i {{phone}} -an -vf scale=161:121 {VP9} -crf 34 -frames:v 30")
    for container in ("ivf", "avi"):
        add(f"codecs/vp8_640x360.{container}", "VP8 copied", "-i {derived/vp8_640x360.webm} -c copy")
    # An encoder sends the segment map again with each picture, unless only some frames have regions of interest.
    regions = (
        "scale=320:180,split[a][b];[a]select=not(mod(n\\,8)),addroi=x=0:y=0:w=iw/2:h=ih/2:qoffset=-0.6[c];"
        "[b]select=mod(n\\,8)[d];[c][d]interleave"
    )
    add(
        "codecs/vp8_segments.ivf",
        "VP8 whose pictures reuse the segment map of earlier ones",
        f"{at24} -filter_complex {regions} -c:v libvpx -deadline realtime -cpu-used 4 -b:v 150k -lag-in-frames 0 -g 24 "
        "-frames:v 48",
    )
    add("codecs/vp9_352x288.avi", "VP9 copied to AVI", "-i {codecs/vp9_352x288.ivf} -c copy")
    av1 = "-c:v libaom-av1 -usage realtime -cpu-used 8 -b:v 0"
    add("derived/av1_640x360.mp4", "AV1", f"{at24} -vf scale=640:360 {av1} -crf 45 -g 30 -frames:v 72")
    add(
        "codecs/av1_10bit_426x240.webm",
        "10 bit",
        f"{at24} -vf scale=426:240,format=yuv420p10le {av1} -crf 45 -g 40 -frames:v 96",
    )
    add(
        "codecs/av1_film_grain.ivf",
        "film grain",
        "-i {phone} -an -c:v libaom-av1 -cpu-used 8 -crf 40 -b:v 0 -denoise-noise-level 30 -frames:v 12",
    )
    add("codecs/av1_annexb.obu", "OBU stream", f"-i {{phone}} -an {av1} -crf 45 -frames:v 12 -f obu")
    add("odd/av1_odd_width.ivf", "odd width", f"-i {{phone}} -an -vf scale=179:120 {av1} -crf 45 -frames:v 8")
    add(
        "derived/av1_hidden_352x288.mkv",
        "hidden frames and shown existing frames",
        "-i {phone} -an -vf scale=352:288 -c:v libaom-av1 -cpu-used 8 -crf 45 -b:v 0 -lag-in-frames 19 -frames:v 40",
    )

    # ---- older codecs ----
    add(
        "codecs/mpeg1_352x240.mpg",
        "MPEG-1 program stream, closed and open GOPs with leading B pictures",
        "-r 30000/1001 -i {bikes} -an -vf scale=352:240 -c:v mpeg1video -b:v 900k -bf 2 -g 15 -frames:v 90 -f vcd",
    )
    add(
        "codecs/mpeg2_open_gop_720x405.ts",
        "MPEG-2, open GOPs, odd height",
        "-i {bunny} -an -vf scale=720:405 -c:v mpeg2video -qscale:v 8 -bf 2 -g 12 -frames:v 51",
    )
    add(
        "codecs/mpeg2_closed_gop.mpg",
        "MPEG-2 program stream, closed GOPs",
        "-i {bikes} -an -c:v mpeg2video -qscale:v 8 -bf 2 -g 12 -flags +cgop -sc_threshold 1000000000 -frames:v 60 -f vob",
    )
    add(
        "derived/mpeg2_interlaced_720x576.ts",
        "MPEG-2 interlaced",
        "-r 50 -i {bunny} -an -vf scale=720:576,tinterlace=mode=interleave_top,setsar=64/45 -c:v mpeg2video -b:v 1500k "
        "-flags +ildct+ilme -top 1 -bf 2 -g 12 -frames:v 50",
    )
    add(
        "codecs/mpeg2_closed_gop_interlaced.ts",
        "MPEG-2 interlaced in a transport stream, closed GOPs",
        "-r 50 -i {bunny} -an -vf scale=720:576,tinterlace=mode=interleave_top,setsar=64/45 -c:v mpeg2video -b:v 1500k "
        "-flags +ildct+ilme+cgop -sc_threshold 1000000000 -top 1 -bf 2 -g 12 -frames:v 50",
    )
    add("codecs/mpeg2_raw.m2v", "raw MPEG-2", "-i {phone} -an -r 30 -c:v mpeg2video -qscale:v 6 -bf 2 -frames:v 40")
    add("codecs/mpeg4_sp.avi", "MPEG-4", "-i {bikes} -an -vf scale=480:204 -c:v mpeg4 -qscale:v 7 -frames:v 96")
    add("derived/odd_333x251_mpeg4.avi", "odd", "-i {bikes} -an -vf scale=333:251 -c:v mpeg4 -qscale:v 6 -frames:v 90")
    add(
        "derived/xvid_bframes_480x270.avi",
        "B pictures packed with others",
        "-r 24 -i {bunny} -an -vf scale=480:270 -c:v libxvid -qscale:v 6 -bf 2 -g 60 -vtag XVID -frames:v 120",
        has_decoder_errors=True,  # of B-frames packed with others, which the file is meant to contain
    )
    add(
        "derived/mpeg4_qpel_480x270.avi",
        "quarter samples",
        "-r 24 -i {bunny} -an -vf scale=480:270 -c:v mpeg4 -qscale:v 7 -flags +qpel+mv4 -bf 2 -vtag DX50 -frames:v 60",
    )
    add("codecs/mpeg4_176x144.3gp", "MPEG-4 in 3GP", "-i {phone} -an -c:v mpeg4 -qscale:v 8 -g 40 -frames:v 74")
    add("codecs/h263_176x144.3gp", "H.263", "-i {phone} -an -c:v h263 -qscale:v 7 -frames:v 80")
    add("codecs/flv1_320x180.flv", "Sorenson H.263", f"{at24} -vf scale=320:180 -c:v flv1 -qscale:v 7 -frames:v 72")
    add("codecs/msmpeg4v3.avi", "MS-MPEG4 v3", "-i {bikes} -an -vf scale=384:288 -c:v msmpeg4 -qscale:v 7 -frames:v 90")
    add("codecs/wmv2_640x360.wmv", "WMV2 in ASF", f"{at24} -vf scale=640:360 -c:v wmv2 -qscale:v 9 -frames:v 72")
    add("codecs/wmv1_320x180.wmv", "WMV1 in ASF", f"{at24} -vf scale=320:180 -c:v wmv1 -qscale:v 9 -frames:v 48")
    add(
        "codecs/mjpeg_320x240.avi",
        "Motion-JPEG",
        "-i {bikes} -an -vf scale=320:240,format=yuvj422p -c:v mjpeg -qscale:v 7 -frames:v 40",
    )
    add("derived/prores_422.mov", "ProRes", f"{at24} -vf scale=480:270 -c:v prores_ks -profile:v 0 -frames:v 8")
    add(
        "derived/alpha_prores4444.mov",
        "ProRes with alpha",
        f"{at24} -vf scale=160:90,format=yuva444p10le -c:v prores_ks -profile:v 4 -frames:v 3",
    )
    add("derived/ffv1_320x180.mkv", "FFV1", f"{at24} -vf scale=320:180 -c:v ffv1 -level 3 -frames:v 6")
    add(
        "codecs/ffv1_slices.mkv",
        "FFV1 of 16 slices without checksums, predicted contexts",
        f"{at24} -vf scale=320:180 -c:v ffv1 -level 3 -slices 16 -slicecrc 0 -context 1 -g 4 -frames:v 12",
    )
    add("codecs/theora_400x300.ogv", "Theora", "-i {bikes} -an -vf scale=400:300 -c:v libtheora -q:v 4 -frames:v 100")
    add("codecs/cinepak_160x120.avi", "Cinepak", "-i {bikes} -an -vf scale=160:120 -c:v cinepak -frames:v 8")
