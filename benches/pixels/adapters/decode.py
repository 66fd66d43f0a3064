"""The cost of decoding: PyAV, one thread, no conversion. A case is a path; `raw` is the uncompressed inputs.

Each request continues in the video where the last one stopped and restarts at its end, so that all of it counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import av
from inputs import Inputs

from .base import BaseAdapter


class Adapter(BaseAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.streams: dict[str, Iterator[av.VideoFrame]] = {}

    def version(self) -> str:
        return f"PyAV {av.__version__} (FFmpeg {av.ffmpeg_version_info})"

    def prepare(self, case: str) -> None:
        if case not in self.streams:
            path = str(self.inputs.folder / "raw.mkv") if case == "raw" else case
            self.streams[case] = decode_again_and_again(path)
        self.stream = self.streams[case]

    def run(self, ring: int, frames: int, first_clip: int) -> None:
        for _ in itertools.islice(self.stream, frames):
            pass


def decode_again_and_again(path: str) -> Iterator[av.VideoFrame]:
    container = av.open(path)
    stream = container.streams.video[0]
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    while True:
        yield from container.decode(stream)
        container.seek(0)
