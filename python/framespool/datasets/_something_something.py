"""Something-Something V2: JSON annotations of numbered videos."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool.datasets._annotation_table import ClassFile, Json, Label, Layout, Table, read, videos
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import Fps, StrPath


def something_something(
    annotations: StrPath,
    labels: StrPath,
    root: StrPath,
    *,
    extension: str = ".webm",
    pattern: str | None = None,
    first: int = 1,
    fps: Fps = 12,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Reads Something-Something V2: a list of `{"id", "template", …}`, and `labels.json`.

    A video's class is its template without the brackets; its label is the number that `labels` assigns to it. A video
    without a template, as in the test split, has -1.

    Args:
        annotations: `train.json` or another of the dataset's lists.
        labels: `labels.json`.
        root: Folder of the videos, `root/{id}{extension}`.
        extension: File extension of the videos.
        pattern: File name of a frame, if videos are folders `root/{id}` of images; see `ImageSequence`.
        first: Number of the first frame, as in `ImageSequence`.
        fps: Frame rate of folders of images, as in `ImageSequence`.
        classes: Class names in the order of their labels. By default that of `labels`.

    Returns:
        A dataset with one sample per object; `columns` has `id`, `label` (the description), `template` and
        `placeholders`.

    Raises:
        ArgumentError: If an object cannot be parsed; the message names the file. Also if a sample has a class that is
            not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> import json
        >>> from pathlib import Path
        >>> _ = Path("train.json").write_text(json.dumps([{"id": "7", "template": "Closing [something]"}]))
        >>> _ = Path("labels.json").write_text(json.dumps({"Closing something": "0"}))
        >>> dataset = fsp.datasets.something_something("train.json", "labels.json", "videos")
        >>> dataset[0], dataset.classes
        (('videos/7.webm', 0), ['Closing something'])
    """
    numbers = Layout(json=Json("class", keyed=True, id="name", value="number"))
    table = Table(
        layout=Layout(json=Json("video")),
        **videos("{id}", extension, pattern, first, fps),
        template_columns=("id",),
        label=Label("template", remove="[]", class_file=ClassFile(os.fspath(labels), numbers, "name", "number")),
    )
    return read(annotations, table, root, classes)
