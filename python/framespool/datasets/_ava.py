"""AVA: boxes and actions of persons at key frames."""

from __future__ import annotations

from typing import Literal

from framespool._validate_args import choice, number
from framespool.datasets._annotation_table import Group, Layout, Segment, Table, read, text
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPath


def ava(
    annotations: StrPath,
    root: StrPath,
    *,
    file: str = "{video_id}.*",
    span_seconds: float = 3.0,
    begin_seconds: float = 0.0,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    r"""Reads AVA: `video_id,second,x1,y1,x2,y2,action_id,person_id` lines.

    Each annotated second is a `VideoSegment` of its video with that second in the middle. Rows of the same video
    and second are one sample, with label -1.

    Args:
        annotations: The CSV file.
        root: Folder of the videos.
        file: Path of a video below `root`, as in `activitynet()`.
        span_seconds: Length of a segment in seconds.
        begin_seconds: Second of the movie at which the files start, such as 900 if they were cut to the annotated part.
        missing: What to do about videos without a file, as in `activitynet()`.

    Returns:
        Dataset: One sample per annotated second. `columns`: `video_id`, `second`, and lists with one value
        per row: `boxes` ((x1, y1, x2, y2), from 0 to 1), `actions` (numbers of AVA's list of actions, from 1) and
        `persons` (-1 if the row has none).

    Raises:
        ArgumentError: If a line cannot be parsed, or a video is missing; the message names file and line.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("ava_train.csv").write_text("-5KQ66BBWC4,0902,0.077,0.151,0.283,0.811,80,1\n")
        >>> dataset = fsp.datasets.ava("ava_train.csv", "videos", file="{video_id}.mp4", begin_seconds=900)
        >>> dataset[0][0]
        VideoSegment('videos/-5KQ66BBWC4.mp4', start_seconds=0.5, end_seconds=3.5)
        >>> dataset.columns["boxes"], dataset.columns["actions"]
        ([[[0.077, 0.151, 0.283, 0.811]]], [[80]])
    """
    span, begin = number("span_seconds", span_seconds, above=0), number("begin_seconds", begin_seconds)
    corners, numbers = ("x1", "y1", "x2", "y2"), ("action_id", "person_id")
    table = Table(
        layout=Layout(names=("video_id", "second", *corners, *numbers), min_fields=2),
        types=(*((name, "number") for name in ("second", *corners)), *((name, "integer") for name in numbers)),
        group=Group(
            by=("video_id", "second"),
            lists=(("boxes", corners, None), ("actions", ("action_id",), None), ("persons", ("person_id",), -1)),
        ),
        templates=(text("file", file),),
        template_columns=("video_id",),
        missing=choice("missing", missing, ("error", "skip")),
        segment=Segment("second", "second", around=(span, begin)),
    )
    return read(annotations, table, root)
