"""UCF101: lists of videos in class folders."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool._validate_args import boolean, integer
from framespool.datasets._annotation_table import ClassFile, Label, Layout, Table, read
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPath


def ucf101(
    annotations: StrPath,
    root: StrPath,
    *,
    split: int = 1,
    train: bool = True,
    classes: Sequence[str] | None = None,
) -> Dataset:
    r"""Reads UCF101: `classInd.txt`, and `trainlist01.txt` or `testlist01.txt` of a split.

    Videos are `root/Class/name.avi`. Labels are the numbers of `classInd.txt` minus one, so that they start at 0.

    Args:
        annotations: Folder of the text files.
        root: Folder of the videos.
        split: Split 1, 2 or 3.
        train: `True` for the training list, `False` for the test list.
        classes: Class names in the order of their labels. By default that of `classInd.txt`.

    Returns:
        A dataset with one sample per line.

    Raises:
        ArgumentError: If a line cannot be parsed, or its number is not that of its class folder; the message names the
            line. Also if a sample has a class that is not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("classInd.txt").write_text("1 ApplyEyeMakeup\n2 Archery\n")
        >>> _ = Path("trainlist01.txt").write_text("Archery/v_Archery_g08_c01.avi 2\n")
        >>> dataset = fsp.datasets.ucf101(".", "videos")
        >>> dataset.classes, dataset[0]
        (['ApplyEyeMakeup', 'Archery'], ('videos/Archery/v_Archery_g08_c01.avi', 1))
    """
    split = integer("split", split, least=1, most=99)
    index = ClassFile(
        os.path.join(annotations, "classInd.txt"),
        Layout(delimiter=None, split="left", names=("number", "name"), min_fields=2),
        name="name",
        number="number",
        first=1,
    )
    table = Table(
        layout=Layout(delimiter=None, split="right", names=("path", "number"), min_fields=1),
        path="path",
        label=Label("path", content="folder", class_file=index, number="number"),
        keep=(),
    )
    name = f"{'train' if boolean('train', train) else 'test'}list{split:02}.txt"
    return read(os.path.join(annotations, name), table, root, classes)
