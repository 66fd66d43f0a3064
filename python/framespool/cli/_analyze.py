"""`framespool analyze`: the content of a video, and the cost of random access."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from framespool._common.validate_args import display_path
from framespool.cli._parser import add_json, command, count, index
from framespool.errors import Error
from framespool.tools._analyze_access import AccessReport, analyze_access, color_metadata
from framespool.video._info import StreamInfo

_DESCRIPTION = """\
Report the content of videos: size, duration, GOPs, B-frames, the share of frames that
can be skipped, whether NVDEC supports them, and the cost of a random clip. To show one
frame, all frames since the last random access point must be decoded. The command reads
packets and decodes only the first frame, for its color metadata.
"""

_EXAMPLES = """\
  framespool analyze a.mp4                           one file
  framespool analyze videos/*.mp4 --frames 8         clips of 8 frames, 4 apart
  framespool analyze a.mp4 --json | python -m json.tool
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "analyze",
        run,
        help="report the content of videos and the cost of random clips",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("file", nargs="+", metavar="FILE", help="a video or a URL")
    parser.add_argument("--frames", type=count, metavar="N", default=16, help="frames of the clip (default: 16)")
    parser.add_argument("--stride", type=count, metavar="N", default=4, help="distance between frames (default: 4)")
    parser.add_argument(
        "--stream", type=index, metavar="N", help="index of the video stream (default: the one that FFmpeg selects)"
    )
    add_json(parser, "one object per file")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; exit code 1 if a file could not be read."""
    failed = 0
    for file in arguments.file:
        try:
            found = analyze_access(
                file, sequence_length=arguments.frames, stride=arguments.stride, stream=arguments.stream
            )
        except Error as error:
            failed += 1
            if arguments.json:
                print(json.dumps({"command": "analyze", "file": display_path(file), "error": str(error)}))
            print(f"framespool analyze: {error}", file=sys.stderr)
            continue
        if arguments.json:
            print(json.dumps({"command": "analyze", "file": display_path(file), **found.as_dict()}))
        else:
            print(_text(found))
    return 1 if failed else 0


def _stream(stream: StreamInfo) -> str:
    size = f", {stream.width}x{stream.height}" if stream.width else ""
    frames = "" if stream.num_frames is None else f", {stream.num_frames} frames"
    return f"{stream.index}: {stream.kind}, {stream.codec}{size}{frames}{', default' if stream.default else ''}"


def _text(found: AccessReport) -> str:
    info = found.info
    rotated = f", rotated by {info.rotation} degrees" if info.rotation else ""
    lines = [
        info.path,
        f"  {info.codec} in {info.container}, {info.width}x{info.height}{rotated}, {info.average_fps:.2f} frames/s",
        f"  {info.num_frames} frames, {info.duration_seconds:.2f} s, {found.bits_per_second / 1e6:.2f} Mbit/s",
        f"  {found.num_gops} GOPs, {found.mean_gop_packets:.0f} packets in the mean, {found.max_gop_packets} at most; "
        f"{'B-frames' if found.has_b_frames else 'no B-frames'}; {found.skippable_share:.0%} of frames skippable",
        "  NVDEC: " + (found.nvdec if found.nvdec is not None else f"no, {found.nvdec_reason}"),
    ]
    if len(info.streams) > 1:
        lines.append("  streams:")
        lines += [
            f"    {_stream(stream)}{' <- this one' if stream.index == info.stream else ''}" for stream in info.streams
        ]
    color = color_metadata(info)
    if "color_error" in color:
        lines.append(f"  color: unknown, {color['color_error']}")
    else:
        stated = [f"{name.removeprefix('color_')} {word}" for name, word in color.items() if word and name != "hdr"]
        if stated:
            lines.append(f"  color: {', '.join(stated)}" + (f"; high dynamic range ({info.hdr})" if info.hdr else ""))
    if info.damaged_units:
        lines.append(f"  {info.damaged_units} units of the container are damaged: frames may be missing there")
    if not info.direct:
        lines.append("  packets are read through the demuxer, since they are not contiguous in the file")
    clip = f"{found.clip_frames} frames, {found.clip_stride} apart"
    if found.frames_decoded_per_clip is None or found.clip_bytes is None:
        lines.append(f"  too short for a clip of {clip}")
    else:
        each = found.frames_decoded_per_clip / found.clip_frames
        lines.append(
            f"  a random clip of {clip}: {found.frames_decoded_per_clip:.0f} frames decoded ({each:.1f} per frame), "
            f"{found.clip_bytes / 1e3:.0f} KB read"
        )
    return "\n".join(lines)
