"""Transcodes the videos of a dataset, for datasets whose random clips are expensive."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from framespool._common.validate_args import boolean
from framespool.tools._transcode import _estimate, _job
from framespool.tools._transcode._job import TranscodeReport
from framespool.tools._transcode._options import Options

__all__ = ["TranscodeReport", "transcode"]


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
    dry_run: bool = False,
    sequence_length: int = 16,
    stride: int = 4,
) -> TranscodeReport:
    """Transcodes the videos of a dataset to short GOPs, and optionally a smaller size, for cheap random clips.

    Each video becomes an MP4 file without audio below `out`, at its path below `root`. Archive members, table cells,
    image sequences and bytes become files too. Frame *i* of the result is frame *i* of the source as framespool
    delivers it: rotated for display, in 8 bits, at the same time to the tick. An odd side loses its last row or column.

    Each file is compared with its source (number of frames, all times, size, GOPs) before it gets its final name.
    Encoding loses quality: check some results before you delete anything.

    A run that was stopped can be repeated: results that match the options and whose sources are unchanged are kept.
    Incomplete files are only in a hidden folder of `out`. `out` also gets `dataset.jsonl`, the new dataset for
    `datasets.json_lines()`. See docs/howto/transcode.md.

    Args:
        dataset: As for `ClipLoader`.
        out: Folder for the results.
        gop: Frames per GOP. A random clip decodes about half a GOP more than its own frames; shorter GOPs make larger
            files.
        b_frames: Disposable B-frames between two other frames. Clips with a stride skip those that they do not contain.
            Fewer are used if the GOP has no room for them.
        size: Shorter side in pixels, even. `None`: the size of the source. Nothing is enlarged.
        long_side: Longer side in pixels, instead of `size`.
        codec: `"h264"` or `"hevc"`.
        crf: Quality of the encoder, 0 to 51; lower is better. `None`: 20 for H.264, 22 for HEVC.
        preset: `"ultrafast"` to `"veryslow"`, which makes smaller files.
        root: Folder from which the paths of results start. `None`: the folder that all sources share.
        ffmpeg: The ffmpeg program. `None`: that of the variable `FRAMESPOOL_FFMPEG_PROGRAM`, of the PATH, or of the
            package imageio-ffmpeg.
        jobs: Videos at the same time. `None`: one per core.
        on_error: `"skip"` continues after a bad video and reports it, `"raise"` stops.
        index: The index cache, as for `ClipLoader`.
        progress: Called with (done, failed, total).
        dry_run: Write nothing to `out`, and estimate what it would cost and gain. It reads the packets of up to 32
            videos, and encodes the start of three into a temporary folder, which takes some seconds.
        sequence_length: Frames of the clip whose cost is estimated.
        stride: Distance between its frames.

    Returns:
        What was made, and the new dataset.

    Raises:
        ArgumentError: If an argument is invalid, or `out` contains other files with the same names.
        UnsupportedError: If no ffmpeg program has the encoder.
        ReadError: If `out` cannot be written.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.transcode(["long_gop.mp4"], "short/", gop=8, size=128, preset="ultrafast")
        >>> report.videos, report.failures
        (1, [])
        >>> fsp.tools.probe(report.dataset).gop_lengths.max
        8
        >>> estimate = fsp.tools.transcode(["a.mp4"], "shorter/", gop=4, dry_run=True).estimate
        >>> estimate["videos"], estimate["bytes_after"] > 0
        (1, True)
    """
    options = Options.checked(gop, b_frames, size, long_side, codec, crf, preset)
    plan = _job.TranscodeJob(dataset, out, options, root, ffmpeg, jobs, index)
    if boolean("dry_run", dry_run):
        return _job.planned(plan, _estimate.estimate(plan, sequence_length, stride))
    return _job.run(plan, on_error, progress)
