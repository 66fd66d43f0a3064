"""Kinetics-400, -600 and -700: a table of clips, which are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framespool._validate_args import choice
from framespool.datasets._annotation_table import Label, Table, filters, read, text
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPath, class_names


def kinetics(
    annotations: StrPath,
    root: StrPath,
    *,
    extension: str = ".mp4",
    split: str | None = None,
    classes: Sequence[str] | None = None,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    r"""Reads Kinetics-400, -600 and -700: a table `label,youtube_id,time_start,time_end,split` and the clips.

    A clip is the file `{youtube_id}_{time_start:06}_{time_end:06}{extension}`, in `root` or in a folder of `root`
    with the name of its class, with spaces or with underscores. Each of these folders is listed once.

    Labels are 0, 1, … by sorted class over the complete table; in a table without labels, as for a test split,
    all are -1.

    Args:
        annotations: The table, a CSV file.
        root: Folder of the clips.
        extension: File extension of the clips.
        split: Split of the rows to use (`"train"`, `"validate"`, …); by default all rows.
        classes: Class names in the order of their labels, such as `train.classes` for a table that lacks some
            classes. By default sorted.
        missing: What to do about clips without a file, which every copy of Kinetics has: `"error"`, or `"skip"`
            them with a warning that counts them.

    Returns:
        A dataset with one sample per row; `columns` has all columns of the table except `label`.

    Raises:
        ArgumentError: If a row cannot be parsed, with file and line, or if a clip is missing.

    Example:
        >>> import framespool as fsp
        >>> from pathlib import Path
        >>> header = "label,youtube_id,time_start,time_end,split"
        >>> _ = Path("train.csv").write_text(f"{header}\nreading book,bk-1,2,12,train\n")
        >>> Path("bk-1_000002_000012.mp4").touch()
        >>> dataset = fsp.datasets.kinetics("train.csv", ".")
        >>> dataset.samples, dataset.classes
        ([('./bk-1_000002_000012.mp4', 0)], ['reading book'])
    """
    clip = "{youtube_id}_{time_start:06}_{time_end:06}" + text("extension", extension)
    table = Table(
        templates=(clip, "{label}/" + clip, "{label:_}/" + clip),
        template_columns=("youtube_id", "time_start", "time_end", "label"),
        missing=choice("missing", missing, ("error", "skip")),
        # Some tables quote labels twice.
        label=Label("label", remove='"', classes=class_names(classes)),
        filters=filters("split", {"split": split}),
        drop=("label",),
    )
    return read(annotations, table, root)
