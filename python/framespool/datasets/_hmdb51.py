"""HMDB51: a list of videos per class and split."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framespool._validate_args import boolean, integer
from framespool.datasets._annotation_table import Label, Layout, Table, file_names, filters, read
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPath
from framespool.errors import ArgumentError


def hmdb51(
    annotations: StrPath,
    root: StrPath,
    *,
    split: int = 1,
    train: bool = True,
    classes: Sequence[str] | None = None,
) -> Dataset:
    r"""Reads HMDB51: the files `{class}_test_split{split}.txt`.

    A line `name.avi 1` is a video for training, `2` one for testing, and `0` neither. Videos are
    `root/class/name.avi`; labels are 0, 1, … by sorted class.

    Args:
        annotations: Folder of the text files.
        root: Folder of the videos.
        split: Split 1, 2 or 3.
        train: `True` for the videos for training, `False` for those for testing.
        classes: Class names in the order of their labels. By default sorted.

    Returns:
        A dataset with one sample per video.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line. Also if a sample has a class that is
            not one of `classes`.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> _ = Path("wave_test_split1.txt").write_text("a.avi 1\nb.avi 2\n")
        >>> fsp.datasets.hmdb51(".", "videos", train=False).samples
        [('videos/wave/b.avi', 0)]
    """
    split = integer("split", split, least=1, most=99)
    ending = f"_test_split{split}.txt"
    names = sorted(name.removesuffix(ending) for name in file_names(annotations) if name.endswith(ending))
    found = [name for name in names if name and not name.startswith(".")]
    if not found:
        raise ArgumentError(
            f"{os.fspath(annotations)} has no files such as brush_hair{ending}; give the folder that "
            "testTrainMulti_7030_splits unpacks to"
        )
    table = Table(
        layout=Layout(delimiter=None, split="right", names=("name", "kind"), min_fields=2),
        file_column=("class", ending),
        types=(("kind", {"one_of": ["0", "1", "2"]}),),
        templates=("{class}/{name}",),
        template_columns=("class", "name"),
        label=Label("class", classes=found),
        filters=filters("train", {"kind": "1" if boolean("train", train) else "2"}),
        keep=(),
    )
    return read([os.path.join(annotations, name + ending) for name in found], table, root, classes)
