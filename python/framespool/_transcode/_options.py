"""How videos are made anew: the choices, checked, and what they make of a video's size."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from framespool import transforms
from framespool._validate_args import choice, integer, number
from framespool._video import VideoInfo
from framespool.errors import ArgumentError

CODECS = ("h264", "hevc")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
#: Quality where none is asked for: differences are hard to see.
_CRF = {"h264": 20.0, "hevc": 22.0}


@dataclass(frozen=True)
class Options:
    """The choices of :func:`framespool.transcode` that decide what comes out."""

    gop: int
    b_frames: int
    size: int | None
    long_side: int | None
    codec: str
    crf: float
    preset: str

    @classmethod
    def checked(
        cls,
        gop: int,
        b_frames: int,
        size: int | None,
        long_side: int | None,
        codec: str,
        crf: float | None,
        preset: str,
    ) -> Options:
        """Raises :class:`~framespool.ArgumentError` for what cannot be."""
        integer("gop", gop, least=1, most=1000)
        integer("b_frames", b_frames, least=0, most=16)
        # A group begins and ends with other pictures.
        b_frames = min(b_frames, max(0, gop - 2))
        if size is not None and long_side is not None:
            raise ArgumentError(f"give size or long_side, not both; got size={size}, long_side={long_side}")
        for name, side in (("size", size), ("long_side", long_side)):
            if side is not None and integer(name, side, least=16, most=8192) % 2:
                raise ArgumentError(f"{name} must be even, as the codecs need it, got {side}")
        choice("codec", codec, CODECS)
        choice("preset", preset, PRESETS)
        quality = _CRF[codec] if crf is None else number("crf", crf, least=0, most=51)
        return cls(gop, b_frames, size, long_side, codec, quality, preset)

    def how(self) -> str:
        """All of it as text, by which a later run knows what was made alike."""
        return json.dumps(asdict(self), sort_keys=True)

    def size_of(self, info: VideoInfo) -> tuple[int, int]:
        """(width, height) of what comes out: even, and never larger than the source, but for a single row."""
        width, height = info.width, info.height
        wanted = self.size or self.long_side
        side = max(width, height) if self.long_side else min(width, height)
        if wanted is None or side <= wanted:
            return max(2, width - width % 2), max(2, height - height % 2)
        return _even(width * wanted / side), _even(height * wanted / side)

    def transforms(self, info: VideoInfo) -> list[transforms.Transform]:
        """What leads to this size: a resize where one is asked for, else at most a row and a column are left out."""
        width, height = self.size_of(info)
        if abs(width - info.width) > 1 or abs(height - info.height) > 1:
            return [transforms.Resize((height, width))]
        # A resize to the own size changes nothing but pictures of a stream whose size changes.
        steps: list[transforms.Transform] = [transforms.Resize((info.height, info.width))]
        if (width, height) != (info.width, info.height):
            steps.append(transforms.CenterCrop((height, width)))
        return steps


def _even(side: float) -> int:
    return max(2, 2 * round(side / 2))
