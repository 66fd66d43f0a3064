"""Clip samplers: rules that select the frames of clips.

A clip sampler is a small immutable object that compares by value and can be pickled. Frame indices count from 0 in
presentation order. If a sample of the dataset is a segment of a video, the video is the segment.

**Which clip sampler.** `RandomClips` for training, `UniformClips` for testing, `Windows` for a complete video;
`Segments` and `Dense` for sparse and dense sampling; `Indices`, `Seconds` and `Delta` for known frames; `Custom` for a
function; `presets` for the sampling of another codebase. Examples are in docs/howto/sampling.md.

**Spacing of frames.** Give one of `stride=` (frames; the default is 1), `fps=` (frames per second) and
`duration_seconds=` (`sequence_length` frames spread evenly: `fps = sequence_length / duration_seconds`). With
`stride`, frame *i* of a clip is `start + i * stride`. `Segments` and `Dense` take `stride` only.

With `fps` or `duration_seconds`, frame *i* is the frame shown `i / fps` seconds after the start of the clip: the last
one whose presentation time is not later. The tolerance is one tick of the time base, at most a millisecond, since
containers round times to ticks (a microsecond if `ClipSampler.indices()` is given times). The presentation times of the
file decide, so constant and variable frame rates are sampled the same way, and frames repeat or are skipped as needed.

**Frames past the end.** `padding=` selects what replaces them. `mask` is false for replacements. A video without frames
has no clips.

- `"repeat"`: the last frame of the clip that exists; with a stride this need not be the last of the video;
- `"loop"`: the video from its start (index modulo number of frames, or seconds modulo duration);
- `"wrap"`: the clip from its start;
- `"edge"`: the last frame of the video;
- `"blank"`: zeros in the result;
- `"drop"`: videos that are too short for a clip have none; all videos are opened to count clips;
- `"error"`: the clip fails with a `ClipSamplingError`, subject to the loader's `on_error`.

**Several clips of a video** are distinguished by `batch.view_ids`. For the usual test-time views, clips times crops,
use `UniformClips(clips_per_video=10, ...)` and `transforms.ThreeCrop` as the last transform before `Normalize`. Each
clip then has three crops, every frame is decoded once, and the score of a video is the mean over its views.

**Random numbers** depend only on the loader's seed, the epoch and the clip. `ClipSampler.indices()` shows the frames
that a clip sampler selects, without a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from framespool._framespool import ClipInfo
from framespool.samplers import presets
from framespool.samplers._base import ClipIndices, ClipSampler
from framespool.samplers._custom import Custom
from framespool.samplers._explicit import Delta, Indices, Seconds
from framespool.samplers._grid import RandomClips, UniformClips, Windows
from framespool.samplers._segments import Dense, Segments
from framespool.samplers.presets._preset import Preset

__all__ = [
    "ClipIndices",
    "ClipInfo",
    "ClipSampler",
    "Custom",
    "Delta",
    "Dense",
    "Indices",
    "Preset",
    "RandomClips",
    "Seconds",
    "Segments",
    "UniformClips",
    "Windows",
    "presets",
]

#: Earlier names of the classes, which functions of these names created.
_CLASSES = {
    name.lower(): name for name in ("Custom", "Delta", "Dense", "Indices", "Seconds", "Segments", "Windows")
} | {
    **dict.fromkeys(("random", "Random"), "RandomClips"),
    **dict.fromkeys(("uniform", "Uniform"), "UniformClips"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Says which class an earlier name is."""
        hint = f"; it is framespool.samplers.{_CLASSES[name]}(...)" if name in _CLASSES else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def _refuse_preset(name: str, /, **options: Any) -> NoReturn:
    """Names the function that a preset is."""
    raise TypeError(f"samplers.preset({name!r}, ...) does not exist: use samplers.presets.{name}(...)")


preset = _refuse_preset
