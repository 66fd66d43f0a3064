"""Videos whose codec configuration changes: two streams of different headers, joined in several containers."""

from __future__ import annotations

from collections.abc import Callable

import streams
from recipe import X264, X265, joined

#: Arguments of the first and the second stream: the same size and headers of the same ids, but other contents.
PAIRS = {
    # CAVLC: with wrong parameter sets, slices are decoded to wrong pixels without an error.
    "h264.mp4": (f"{X264} -qp 18 -x264-params cabac=0 -g 6", f"{X264} -qp 36 -x264-params cabac=0 -g 6"),
    "h264.flv": (f"{X264} -qp 18 -x264-params cabac=0 -g 6", f"{X264} -qp 36 -x264-params cabac=0 -g 6"),
    "hevc.mp4": (f"{X265}:keyint=6 -qp 20", f"{X265}:keyint=6:amp=1:rect=1:ctu=16 -qp 35"),
    "av1.mp4": (
        "-c:v libaom-av1 -usage realtime -cpu-used 8 -crf 40 -g 6",
        "-c:v libaom-av1 -cpu-used 8 -crf 50 -g 6 -enable-cdef 0",
    ),
    "ffv1.mov": ("-c:v ffv1 -level 3 -coder 1 -g 1", "-c:v ffv1 -level 3 -coder 1 -context 1 -slices 6 -g 1"),
    "mpeg4.m4v": ("-c:v mpeg4 -qscale:v 3 -g 6 -f m4v", "-c:v mpeg4 -mpeg_quant 1 -qscale:v 5 -g 6 -f m4v"),
    "mpeg2.m2v": (
        "-c:v mpeg2video -qscale:v 4 -g 6 -bf 1",
        f"-c:v mpeg2video -qscale:v 4 -g 6 -bf 1 -intra_matrix {','.join(['8'] + ['40'] * 63)}",
    ),
    "theora.ogv": ("-c:v libtheora -q:v 9 -g 6", "-c:v libtheora -q:v 2 -g 6 -serial_offset 7"),
}

#: Copies of the joined raw streams, and the demuxers that read these.
COPIES = {"mpeg4.m4v": ("avi", "mp4", "mkv"), "mpeg2.m2v": ("ts", "vob", "mkv")}
FORMATS = {"m4v": "m4v", "m2v": "mpegvideo"}

JOIN: dict[str, Callable[..., bytes]] = {
    "mp4": streams.joined_mp4,
    "mov": streams.joined_mp4,
    "flv": streams.joined_flv,
    "m4v": streams.joined_with_layer_headers_once,
    "m2v": joined,
    "ogv": joined,
}


def recipes(add: Callable[..., None]) -> None:
    """Adds the recipes; inputs come before the files created from them."""
    for name, commands in PAIRS.items():
        codec, container = name.split(".")
        parts = [f"changes/parts/{codec}_{number}.{container}" for number in (1, 2)]
        for part, source, command in zip(parts, ("testsrc", "testsrc2"), commands, strict=True):
            add(part, "input of another", f"-f lavfi -i {source}=s=64x64:r=25 -pix_fmt yuv420p {command} -frames:v 12")
        add(
            f"changes/{name}",
            "the headers change at frame 12",
            made=JOIN[container],
            inputs=(*parts,),
            frames=(*parts,),
        )
        for other in COPIES.get(name, ()):
            add(
                f"changes/{codec}.{other}",
                "the same in another container",
                f"-fflags +genpts -f {FORMATS[container]} -framerate 25 -i {{changes/{name}}} -c copy",
                frames=(*parts,),
            )
    add(
        "changes/repeated_header.flv",
        "the sequence header is repeated before each key frame",
        made=streams.with_repeated_header,
        inputs=("changes/parts/h264_1.flv",),
        frames=("changes/parts/h264_1.flv",),
    )
    add(
        "changes/palette.avi",
        "raw frames, each with its own palette",
        "-f lavfi -i testsrc2=s=64x64:r=25 -filter_complex "
        "split[a][b];[a]palettegen=stats_mode=single[c];[b][c]paletteuse=new=1 -c:v rawvideo -pix_fmt pal8 -frames:v 4",
    )
