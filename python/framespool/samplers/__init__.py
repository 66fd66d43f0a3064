"""Clip samplers: rules that select the frames of clips.

A clip sampler is a small immutable object that compares by value and can be pickled. Frame indices count from 0 in
presentation order. If a sample of the dataset is a segment of a video, the video is the segment.

**Which clip sampler.** `random()` for training, `uniform()` for testing, `windows()` for a complete video; `segments()`
and `dense()` for sparse and dense sampling; `indices()`, `seconds()` and `delta()` for known frames; `custom()` for a
function; `presets` for the sampling of another codebase. Examples are in docs/howto/sampling.md.

**Spacing of frames.** Give one of `stride=` (frames; the default is 1), `fps=` (frames per second) and
`duration_seconds=` (`sequence_length` frames spread evenly: `fps = sequence_length / duration_seconds`). With
`stride`, frame *i* of a clip is `start + i * stride`. `segments` and `dense` take `stride` only.

With `fps` or `duration_seconds`, frame *i* is the frame shown `i / fps` seconds after the start of the clip: the last
one whose presentation time is not later. The tolerance is one tick of the time base, at most a millisecond, since
containers round times to ticks (a microsecond if `ClipSampler.frames()` is given times). The presentation times of the
file decide, so constant and variable frame rates are sampled the same way, and frames repeat or are skipped as needed.

**Frames past the end.** `short=` selects what replaces them. `windows` has `pad_mode` instead, with the values of
DALI's readers. `mask` is false for replacements. A video without frames has no clips.

- `"repeat"`: the last frame of the clip that exists; with a stride this need not be the last of the video;
- `"loop"`: the video from its start (index modulo number of frames, or seconds modulo duration);
- `"wrap"`: the clip from its start;
- `"clamp"`: the last frame of the video;
- `"blank"`: zeros in the result;
- `"drop"`: videos that are too short for a clip have none; all videos are opened to count clips;
- `"error"`: the clip fails with a `ClipSamplingError`, subject to the loader's `on_error`.

**Several clips of a video** are distinguished by `batch.view_ids`. For the usual test-time views, clips times crops,
use `uniform(clips_per_video=10, ...)` and `transforms.ThreeCrop` as the last transform before `Normalize`. Each clip
then has three crops, every frame is decoded once, and the score of a video is the mean over its views.

**Random numbers** depend only on the loader's seed, the epoch and the clip. `ClipSampler.frames()` shows the frames
that a clip sampler selects, without a file.
"""

from __future__ import annotations

from typing import Any, NoReturn

from framespool._framespool import ClipInfo
from framespool.samplers import presets
from framespool.samplers._base import ClipIndices, ClipSampler
from framespool.samplers._custom import Custom, custom
from framespool.samplers._explicit import Delta, Indices, Seconds, delta, indices, seconds
from framespool.samplers._grid import Random, Uniform, Windows, random, uniform, windows
from framespool.samplers._segments import Dense, Segments, dense, segments
from framespool.samplers.presets._preset import Preset

__all__ = [
    "Custom",
    "Delta",
    "Dense",
    "Indices",
    "ClipInfo",
    "Preset",
    "Random",
    "ClipIndices",
    "ClipSampler",
    "Seconds",
    "Segments",
    "Uniform",
    "Windows",
    "custom",
    "delta",
    "dense",
    "indices",
    "presets",
    "random",
    "seconds",
    "segments",
    "uniform",
    "windows",
]


def _refuse_preset(name: str, /, **options: Any) -> NoReturn:
    """Names the function that a preset is."""
    raise TypeError(f"samplers.preset({name!r}, ...) does not exist: use samplers.presets.{name}(...)")


preset = _refuse_preset
