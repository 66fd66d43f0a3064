"""Making a dataset's videos anew, for those whose random clips cost too much as they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from framespool._transcode import _estimate, _job
from framespool._transcode._estimate import TranscodeEstimate
from framespool._transcode._job import TranscodeReport
from framespool._transcode._options import Options

__all__ = ["TranscodeEstimate", "TranscodeReport", "transcode", "estimate_transcode"]


def transcode(
    dataset: Any,
    out: str | os.PathLike[str],
    *,
    gop: int = 16,
    b_frames: int = 2,
    size: int | None = None,
    long_side: int | None = None,
    codec: Literal["h264", "hevc"] = "h264",
    crf: float | None = None,
    preset: str = "medium",
    root: str | os.PathLike[str] | None = None,
    ffmpeg: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    on_error: Literal["raise", "skip"] = "skip",
    index: str | os.PathLike[str] | Literal[False] | None = None,
    progress: Callable[[int, int, int], object] | None = None,
) -> TranscodeReport:
    """Writes the videos of a dataset anew, so that random clips of them cost less: short groups of pictures, smaller.

    Each becomes an MP4 file without sound below ``out``, as it lies below ``root`` (by default the folder that all have
    in common); members of archives, cells of tables, folders of frames and bytes become files too. Frame *i* of the
    result is frame *i* of the source as framespool delivers it, at the same time to the tick, turned for display, in 8
    bits; an odd side loses its last row or column. Each file is compared with its source (number of frames, all times,
    size, groups) before it gets its name. Encoding loses quality: look at a few before you delete anything.

    ``gop``: pictures of a group; a random clip costs half of that beyond its own length. Shorter groups make larger
    files. ``b_frames``: of them between two others, on which none depends, so that clips with a stride skip those
    that they do not want; fewer where a group has no room for them. ``size``: the shorter side in pixels, or
    ``long_side`` the longer one; nothing is made larger. ``codec``: ``"h264"`` or ``"hevc"``. ``crf``: the encoder's
    quality, less is better; 20 for H.264 and 22 for HEVC by default. ``preset``: from ``"ultrafast"`` to
    ``"veryslow"``, which makes smaller files.

    ``ffmpeg``: the program that encodes; by default that of the variable ``FRAMESPOOL_FFMPEG_PROGRAM``, the one on the
    PATH, or that of the package imageio-ffmpeg. ``jobs``: videos at a time, by default one for each core. ``on_error``:
    ``"skip"`` goes on after a bad video and names it in the report, ``"raise"`` stops at it. ``index``: as for
    :class:`ClipLoader`. ``progress``: called with (done, failed, total).

    A run that was stopped, however, goes on where it was: what is there, made alike of files that have not changed, is
    left alone. Half-made files lie in a hidden folder of ``out`` only. ``out`` also gets ``dataset.jsonl``, the new
    dataset for :func:`framespool.datasets.json_lines`.

    Raises :class:`~framespool.ArgumentError` for what cannot be, :class:`~framespool.UnsupportedError` without an
    ffmpeg program that has the encoder, and :class:`~framespool.ReadError` where ``out`` cannot be written.
    """
    options = Options.checked(gop, b_frames, size, long_side, codec, crf, preset)
    return _job.run(_job.TranscodeJob(dataset, out, options, root, ffmpeg, jobs, index), on_error, progress)


def estimate_transcode(
    dataset: Any,
    out: str | os.PathLike[str],
    *,
    sequence_length: int = 16,
    stride: int = 4,
    gop: int = 16,
    b_frames: int = 2,
    size: int | None = None,
    long_side: int | None = None,
    codec: Literal["h264", "hevc"] = "h264",
    crf: float | None = None,
    preset: str = "medium",
    root: str | os.PathLike[str] | None = None,
    ffmpeg: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
) -> TranscodeEstimate:
    """What :func:`transcode` with the same arguments would gain and cost. Nothing is written to ``out``.

    ``sequence_length``, ``stride``: the clip whose cost is told, in frames. The packets of up to 32 videos are looked
    at, and the beginnings of three are encoded into a temporary folder, which takes some seconds. Raises as
    :func:`transcode`.
    """
    options = Options.checked(gop, b_frames, size, long_side, codec, crf, preset)
    return _estimate.estimate(
        _job.TranscodeJob(dataset, out, options, root, ffmpeg, jobs, index), sequence_length, stride
    )
