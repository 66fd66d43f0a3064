"""Selects the videos of the benchmarks by their properties, not by their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import framespool as fsp
from common import TRY, extra, timed


@dataclass(frozen=True)
class BenchVideo:
    """A video with data of its index."""

    path: Path
    codec: str
    frames: int
    #: Mean distance between keyframes.
    gop: float
    size: tuple[int, int]
    #: Whether it is an encode added with --extra, not one of the clips.
    added: bool

    @property
    def name(self) -> str:
        return (
            f"{self.path.name} ({self.codec}, {self.size[0]}x{self.size[1]}, {self.frames} frames, GOP {self.gop:.0f})"
        )

    @property
    def kind(self) -> str:
        """The GOP length as shown in the tables."""
        return "GOP 30" if 24 <= self.gop <= 40 else "GOP 250" if self.gop >= 150 else f"GOP {self.gop:.0f}"


def inspect_video(path: Path, added: bool) -> BenchVideo:
    info = fsp.Video(path, index=False).info
    gop = info.num_frames / max(len(info.keyframes), 1)
    return BenchVideo(path, info.codec, info.num_frames, gop, (info.width, info.height), added)


def full_hd(codec: str | None = None) -> list[BenchVideo]:
    """1080p, added encodes first."""
    if TRY:
        small = timed("short", "bikes|street.*mp4") + timed("random", "hevc_main10")
        found = [inspect_video(clip.path, False) for clip in small]
        return [each for each in found if codec is None or each.codec == codec]
    found = [inspect_video(path, True) for path in extra()] + [
        inspect_video(clip.path, False) for clip in timed("bench")
    ]
    # 10 000 nearly empty pictures are not representative.
    found = [each for each in found if min(each.size) == 1080 and each.frames < 5000]
    return [each for each in found if codec is None or each.codec == codec]


def typical(codec: str) -> BenchVideo | None:
    """One 1080p video of a codec: the one with the longest GOPs, then the most frames."""
    return max(full_hd(codec), key=lambda each: (each.added, each.kind == "GOP 250", each.frames), default=None)
