"""The options of transcoding, validated, and the size that results from them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from framespool import transforms
from framespool._common.validate_args import choice, integer, number
from framespool.errors import ArgumentError
from framespool.video._info import VideoInfo

CODECS = ("h264", "hevc")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
#: Default quality; differences are hard to see.
_CRF = {"h264": 20.0, "hevc": 22.0}


@dataclass(frozen=True)
class Options:
    """The arguments of `transcode()` that determine the result.

    Attributes:
        gop: Frames per GOP.
        b_frames: Disposable B-frames between two other frames.
        size: Shorter side in pixels, or `None`.
        long_side: Longer side in pixels, or `None`.
        codec: `"h264"` or `"hevc"`.
        crf: Quality of the encoder.
        preset: Speed preset of the encoder.
    """

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
        """Validates the options.

        Args:
            gop: Frames per GOP, 1 to 1000.
            b_frames: Disposable B-frames, 0 to 16.
            size: Shorter side in pixels, even, 16 to 8192.
            long_side: Longer side in pixels, even, 16 to 8192.
            codec: One of `CODECS`.
            crf: Quality, 0 to 51; `None` for the default of the codec.
            preset: One of `PRESETS`.

        Returns:
            The options.

        Raises:
            ArgumentError: If a value is invalid, or `size` and `long_side` are both given.
        """
        integer("gop", gop, least=1, most=1000)
        integer("b_frames", b_frames, least=0, most=16)
        # A GOP starts and ends with other frames.
        b_frames = min(b_frames, max(0, gop - 2))
        if size is not None and long_side is not None:
            raise ArgumentError(f"give size or long_side, not both; got size={size}, long_side={long_side}")
        for name, side in (("size", size), ("long_side", long_side)):
            if side is not None and integer(name, side, least=16, most=8192) % 2:
                raise ArgumentError(f"{name} must be even for these codecs, got {side}")
        choice("codec", codec, CODECS)
        choice("preset", preset, PRESETS)
        quality = _CRF[codec] if crf is None else number("crf", crf, least=0, most=51)
        return cls(gop, b_frames, size, long_side, codec, quality, preset)

    def how(self) -> str:
        """The options as text, by which a later run recognizes equal ones.

        Returns:
            JSON.
        """
        return json.dumps(asdict(self), sort_keys=True)

    def size_of(self, info: VideoInfo) -> tuple[int, int]:
        """The size of a result: even, and not larger than the source, except for a single row or column.

        Args:
            info: Metadata of the source.

        Returns:
            (width, height) in pixels.
        """
        width, height = info.width, info.height
        wanted = self.size or self.long_side
        side = max(width, height) if self.long_side else min(width, height)
        if wanted is None or side <= wanted:
            return max(2, width - width % 2), max(2, height - height % 2)
        return _even(width * wanted / side), _even(height * wanted / side)

    def transforms(self, info: VideoInfo) -> list[transforms.Transform]:
        """The transforms that give this size: a resize, or a crop of at most one row and one column.

        Args:
            info: Metadata of the source.

        Returns:
            The transforms.
        """
        width, height = self.size_of(info)
        if abs(width - info.width) > 1 or abs(height - info.height) > 1:
            return [transforms.Resize((height, width))]
        # A resize to the same size only changes frames of a stream whose size varies.
        steps: list[transforms.Transform] = [transforms.Resize((info.height, info.width))]
        if (width, height) != (info.width, info.height):
            steps.append(transforms.CenterCrop((height, width)))
        return steps


def _even(side: float) -> int:
    return max(2, 2 * round(side / 2))
