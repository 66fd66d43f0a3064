"""SPDL: packets of a time window, one decode whose filter graph selects, scales and converts.

SPDL addresses frames by time. The packets of the complete file give every frame's time (exact, also for variable frame
rate); a second demux then reads only the window. `sample_decode_video`, its call for frame numbers, scales every
frame from the keyframe on and was 10 to 33 % slower. One decoding thread is its default, set explicitly here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import numpy as np
import spdl.io
import spdl.io.utils

from .base import Peer


@dataclass
class Reader:
    demuxer: spdl.io.Demuxer
    seconds: list[float]
    size: int | None


class Adapter(Peer):
    name = "spdl"

    def version(self) -> str:
        major, minor, _ = spdl.io.utils.get_ffmpeg_versions()["libavcodec"]
        return f"{version('spdl')} (libavcodec {major}.{minor})"

    def open(self, path: str, size: int | None) -> Reader:
        demuxer = spdl.io.Demuxer(path)
        return Reader(demuxer, demuxer.demux_video().get_timestamps(), size)

    def num_frames(self, reader: Reader) -> int:
        return len(reader.seconds)

    def read(self, reader: Reader, indices: list[int]) -> np.ndarray:
        seconds = [reader.seconds[index] for index in indices]
        # Half the shortest interval: enough for rounding, never enough to reach a neighbor.
        slack = min(b - a for a, b in pairwise(reader.seconds)) / 2
        packets = reader.demuxer.demux_video((seconds[0] - slack, seconds[-1] + slack))
        wanted = "+".join(f"between(t,{time - slack:.6f},{time + slack:.6f})" for time in seconds)
        resize = spdl.io.get_video_filter_desc(
            scale_width=reader.size, scale_height=reader.size, scale_algo="bilinear", scale_mode=None, pix_fmt="rgb24"
        )
        frames = spdl.io.decode_packets(
            packets,
            filter_desc=f"select='{wanted}',{resize}",
            decode_config=spdl.io.decode_config(decoder_options={"threads": "1"}),
        )
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))
