"""EPIC-KITCHENS: a table of actions, which are segments in seconds or frames."""

from __future__ import annotations

import os
from typing import Literal

from framespool._validate_args import boolean, choice
from framespool.datasets._annotation_table import ClassFile, Label, Layout, Segment, Table, read, text
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import Fps, StrPath, numbered_frames

#: Columns of the start and the end, and their unit.
_SECONDS = ("start_timestamp", "stop_timestamp", "clock")
_FRAMES = ("start_frame", "stop_frame", "frames_from1")


def epic_kitchens(
    annotations: StrPath,
    root: StrPath,
    *,
    label: Literal["verb", "noun"] | None = "verb",
    classes: StrPath | None = None,
    file: str | None = None,
    in_frames: bool | None = None,
    pattern: str | None = None,
    fps: Fps = 60,
) -> Dataset:
    r"""Reads EPIC-KITCHENS: tables such as `EPIC_100_train.csv`; each action is a `VideoSegment`.

    Actions go from `start_timestamp` up to but not including `stop_timestamp`, in seconds. With `in_frames` they
    go from `start_frame`, counted from 1, up to and including `stop_frame`. Actions whose end is not after their
    start are skipped with a warning.

    Args:
        annotations: The table, a CSV file.
        root: Folder of the videos.
        label: Whose class is the label: `"verb"` (`verb_class`) or `"noun"` (`noun_class`). The label is -1
            with `None`, and if the table has none, as for the test split.
        classes: Table of the class names, such as `EPIC_100_verb_classes.csv`.
        file: Path of a video below `root`. By default `"{participant_id}/videos/{video_id}.MP4"`, or
            `"{participant_id}/rgb_frames/{video_id}"` with a `pattern`. If it ends in `.*`, its folder is listed
            to find the extension.
        in_frames: Whether to use the frame columns. By default only with a `pattern`.
        pattern: File name of a frame, such as `"frame_{:010}.jpg"`, if videos are folders of frames; see
            `ImageSequence`.
        fps: Frame rate of folders of frames, as in `ImageSequence`.

    Returns:
        Dataset: One sample per action. `columns` has all columns of the table, both classes included:
        `narration_id`, `video_id`, `narration`, `verb`, `noun`, `all_noun_classes`, …

    Raises:
        ArgumentError: If a row cannot be parsed; the message names file and line.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> header = "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,verb,verb_class"
        >>> _ = Path("train.csv").write_text(f"{header}\nP01_01_0,P01,P01_01,00:00:00.14,00:00:03.37,open,3\n")
        >>> dataset = fsp.datasets.epic_kitchens("train.csv", "EPIC-KITCHENS")
        >>> dataset[0]
        (VideoSegment('EPIC-KITCHENS/P01/videos/P01_01.MP4', start_seconds=0.14, end_seconds=3.37), 3)
    """
    if label is not None:
        choice("label", label, ("verb", "noun"))
    folder = "{participant_id}/videos/{video_id}.MP4" if pattern is None else "{participant_id}/rgb_frames/{video_id}"
    by_frames = pattern is not None if in_frames is None else boolean("in_frames", in_frames)
    start, end, unit = _FRAMES if by_frames else _SECONDS
    table = Table(
        templates=(text("file", file or folder),),
        template_columns=("participant_id", "video_id"),
        frames=None if pattern is None else numbered_frames(pattern, 1, fps),
        label=Label(
            f"{label}_class",
            content="numbers",
            class_file=None if classes is None else ClassFile(os.fspath(classes), Layout(), "key", "id"),
        ),
        segment=Segment(start, end, unit=unit, skip_empty=True),
    )
    return read(annotations, table, root)
