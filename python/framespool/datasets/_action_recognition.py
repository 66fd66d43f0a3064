"""Reads the annotations of datasets for action recognition, as they are published.

The readers do not check that the videos exist: that takes minutes on a network disk, and a loader reports what is
missing. A reader that must look up file names says so. Text is UTF-8, with or without a byte order mark; lines end in
LF or CRLF. A line that cannot be parsed is a `ArgumentError` that names file and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from framespool import _framespool
from framespool._common.validate_args import boolean, choice, integer, number
from framespool.datasets._dataset import Dataset
from framespool.datasets._readers import Fps, StrPath, annotated_dataset, class_names, numbered_frames
from framespool.errors import ArgumentError


def _kind(extension: str | None, pattern: str | None, first: int, fps: Fps) -> tuple[Any, Any]:
    """Converts the arguments for video files or for folders of frames to the engine's form."""
    if extension is not None and not isinstance(extension, str):
        raise ArgumentError(f"extension must be a string, got {extension!r}")
    return extension, None if pattern is None else numbered_frames(pattern, first, fps)


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
    choice("missing", missing, ("error", "skip"))
    return annotated_dataset(
        _framespool.read_kinetics(annotations, root, extension, split, class_names(classes), missing)
    )


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
    return annotated_dataset(_framespool.read_ucf101(annotations, root, split, boolean("train", train)), classes)


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
    return annotated_dataset(_framespool.read_hmdb51(annotations, root, split, boolean("train", train)), classes)


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
    return annotated_dataset(
        _framespool.read_something_something(annotations, labels, root, *_kind(extension, pattern, first, fps)),
        classes,
    )


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
    kind = _kind(extension, pattern if extension is None else None, first, fps)
    return annotated_dataset(_framespool.read_jester(annotations, labels, root, *kind), classes)


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
    folders = pattern is not None
    name = file or ("{participant_id}/rgb_frames/{video_id}" if folders else "{participant_id}/videos/{video_id}.MP4")
    by_frames = folders if in_frames is None else boolean("in_frames", in_frames)
    frames = None if pattern is None else numbered_frames(pattern, 1, fps)
    return annotated_dataset(_framespool.read_epic_kitchens(annotations, root, name, label, classes, by_frames, frames))


def activitynet(
    annotations: StrPath,
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
        annotations: The JSON file.
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
    choice("missing", missing, ("error", "skip"))
    return annotated_dataset(
        _framespool.read_activitynet(annotations, root, subset, file, class_names(classes), missing)
    )


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
    choice("missing", missing, ("error", "skip"))
    span, begin = number("span_seconds", span_seconds, above=0), number("begin_seconds", begin_seconds)
    return annotated_dataset(_framespool.read_ava(annotations, root, file, span, begin, missing))
