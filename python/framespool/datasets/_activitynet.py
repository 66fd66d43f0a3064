"""ActivityNet: JSON annotations of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framespool._common.validate_args import choice
from framespool.datasets._annotation_table import Json, Label, Layout, Segment, Table, filters, read, text
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import StrPath, class_names


def activitynet(
    annotations: StrPath | Sequence[StrPath],
    root: StrPath,
    *,
    subset: str | None = None,
    file: str = "v_{id}.*",
    classes: Sequence[str] | None = None,
    missing: Literal["error", "skip"] = "error",
) -> Dataset:
    """Reads ActivityNet and other datasets in its format (HACS, THUMOS, FineAction).

    The file is JSON with a `database` of videos and their `annotations`. Each `segment`, in seconds, is a
    `VideoSegment` of its video; segments whose end is not after their start are skipped with a warning. A video
    without annotations, as in the testing subset, is one sample: the complete video, with label -1.

    Labels are 0, 1, … by sorted class over all subsets.

    Args:
        annotations: The JSON file, or several, such as one per subset.
        root: Folder of the videos.
        subset: Subset to use (`"training"`, `"validation"`, `"testing"`); by default all.
        file: Path of a video below `root`. If it ends in `.*`, its folder is listed to find the extension.
        classes: Class names in the order of their labels. By default sorted.
        missing: What to do about videos without a file: `"error"`, or `"skip"` them with a warning that counts them.

    Returns:
        A dataset with one sample per segment. `columns` has the video's `id` and the other values of the video and
        of the segment (`duration`, `subset`, `url`, …).

    Raises:
        ArgumentError: If the file cannot be parsed, or a video is missing; the message names file and video.

    Example:
        >>> import framespool as fsp
        >>> import json
        >>> from pathlib import Path
        >>> video = {"subset": "training", "annotations": [{"segment": [6.2, 17.4], "label": "Surfing"}]}
        >>> _ = Path("activity_net.json").write_text(json.dumps({"database": {"QOlSCBRmfWY": video}}))
        >>> dataset = fsp.datasets.activitynet("activity_net.json", "videos", file="v_{id}.mp4")
        >>> dataset[0]
        (VideoSegment('videos/v_QOlSCBRmfWY.mp4', start_seconds=6.2, end_seconds=17.4), 0)
    """
    table = Table(
        layout=Layout(json=Json("video", at="database", keyed=True, parts=("annotations", "annotation"))),
        templates=(text("file", file),),
        template_columns=("id",),
        missing=choice("missing", missing, ("error", "skip")),
        label=Label("label", classes=class_names(classes)),
        segment=Segment("segment", "segment", skip_empty=True),
        filters=filters("subset", {"subset": subset}),
        drop=("segment", "label"),
    )
    return read(annotations, table, root)
