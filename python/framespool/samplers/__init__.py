"""Rules that make clips out of videos.

A rule is a small immutable object that compares by value and can be pickled. Frames are counted from 0, in
presentation order. Where a dataset's entry is a part of a video, the part is the video.

**Which rule.** :func:`random` for training, :func:`uniform` for testing, :func:`windows` for all of a video;
:func:`segments` and :func:`dense` for sparse and dense sampling; :func:`indices`, :func:`seconds` and :func:`delta` for
frames that you know; :func:`custom` for a function of your own; :func:`preset` for another codebase's sampling.

**How far frames are apart** is said by one of ``stride=`` (frames; 1 if nothing is said), ``fps=`` (frames per second)
and ``duration_seconds=`` (``sequence_length`` frames spread evenly over so many seconds: ``fps = sequence_length /
duration_seconds``). With ``stride`` frame *i* of a clip is ``start + i * stride``. With seconds it is the frame on
screen ``i / fps`` seconds after the clip's start: the last one that has appeared by then. A tick of the file's clock is
forgiven, a millisecond at most, since containers round times to ticks (and a microsecond where :meth:`ClipSampler.frames`
is given times). The file's own presentation times decide, so a constant and a variable frame rate are sampled alike,
and frames come twice or not at all as need be.

``segments`` and ``dense`` take ``stride`` alone.

**What stands for frames past the end** is said by ``short=``, the same words in all rules but ``windows``, whose
``pad_mode`` has the words of the readers that it is like:

- ``"repeat"``: the clip's own last frame again and again; with a stride this need not be the video's last one;
- ``"loop"``: the video from its beginning (position modulo number of frames, or seconds modulo duration);
- ``"wrap"``: the clip from its beginning;
- ``"clamp"``: the video's last frame;
- ``"blank"``: zeros in the result;
- ``"drop"``: no such frames, since videos too short for a clip yield none; all videos are looked at to count clips;
- ``"error"``: the clip fails with a :class:`~framespool.errors.ClipSamplingError`, which ``on_error`` of a loader may pass
  over.

Whatever stands in, ``mask`` is false there. A video without frames yields no clip under any of them.

**Several clips of a video** are told apart by ``batch.view_ids``. For the usual test-time views, clips times crops,
take ``uniform(clips_per_video=10, ...)`` and :class:`framespool.transforms.ThreeCrop` as the last of the transforms
before ``Normalize``: each clip comes with three crops, every frame is decoded once, and a video's scores are the mean
over its views.

**Random numbers** are drawn from a stream that depends on the loader's seed, the epoch and the clip alone.
:meth:`ClipSampler.frames` shows what any rule makes of any video, without files.
"""

from __future__ import annotations

from framespool._framespool import ClipInfo
from framespool.samplers._base import ClipIndices, ClipSampler
from framespool.samplers._custom import Custom, custom
from framespool.samplers._explicit import Delta, Indices, Seconds, delta, indices, seconds
from framespool.samplers._grid import Random, Uniform, Windows, random, uniform, windows
from framespool.samplers._presets import Preset, preset, presets
from framespool.samplers._segments import Dense, Segments, dense, segments

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
    "preset",
    "presets",
    "random",
    "seconds",
    "segments",
    "uniform",
    "windows",
]
