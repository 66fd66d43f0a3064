"""Jester and Something-Something V1: lists of numbered videos."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool.datasets._annotation_table import ClassFile, Label, Layout, Table, read, videos
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import Fps, StrPath


def jester(
    annotations: StrPath,
    labels: StrPath,
    root: StrPath,
    *,
    extension: str | None = None,
    pattern: str = "{:05}.jpg",
    first: int = 1,
    fps: Fps = 12,
    classes: Sequence[str] | None = None,
) -> Dataset:
    r"""Reads Jester or Something-Something V1: `id;label` lines, and a file with one label on each line.

    Labels are numbered from 0 in the order of their file. A line without a label, as in the test split, has -1.

    Args:
        annotations: File with the `id;label` lines.
        labels: File with one label on each line.
        root: Folder of the videos, which are folders `root/{id}` of images.
        extension: File extension, if videos are files `root/{id}{extension}`.
        pattern: File name of a frame, as in `ImageSequence`.
        first: Number of the first frame, as in `ImageSequence`.
        fps: Frame rate of folders of images, as in `ImageSequence`.
        classes: Class names in the order of their labels. By default that of `labels`.

    Returns:
        A dataset with one sample per line.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line. Also if a sample has a class that is
            not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("train.csv").write_text("34870;Drumming Fingers\n9;Swiping Left\n")
        >>> _ = Path("labels.csv").write_text("Swiping Left\nDrumming Fingers\n")
        >>> dataset = fsp.datasets.jester("train.csv", "labels.csv", "20bn-jester-v1", extension=".webm")
        >>> dataset.samples
        [('20bn-jester-v1/34870.webm', 1), ('20bn-jester-v1/9.webm', 0)]
    """
    names = Layout(delimiter=None, split="left", names=("name",))
    table = Table(
        layout=Layout(delimiter=";", split="left", names=("id", "label"), min_fields=1),
        **videos("{id}", extension, pattern if extension is None else None, first, fps),
        template_columns=("id",),
        label=Label("label", class_file=ClassFile(os.fspath(labels), names, "name")),
        keep=(),
    )
    return read(annotations, table, root, classes)
