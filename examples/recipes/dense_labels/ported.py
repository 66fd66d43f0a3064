"""The same loaders with framespool: labels and boxes follow the frames and crops that it chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import framespool as fsp

#: As in the original.
FPS, LENGTH, STEP_SECONDS, SIZE = 5, 32, 6.4, (112, 112)
TIMES, SPAN_SECONDS, SHORT_SIDE, CROP = [k / 4 for k in range(8)], 2.0, 128, 112
t = fsp.transforms
TRAIN = [t.RandomResizedCrop(CROP, scale=(0.5, 1)), t.RandomHorizontalFlip()]
TEST = [t.Resize(SHORT_SIDE), t.ThreeCrop(CROP)]


def localization(path: Path, num_threads: int, training: bool, batch_size: int = 4) -> fsp.ClipLoader:
    """Loads the windows of all videos; `batch.columns["labels"]` (N, T) has the action of each frame, or -1."""
    videos = fsp.datasets.json_lines(path, source="video")
    actions = sorted({action for row in videos.columns["segments"] for *_, action in row})
    labels = [[(*times, actions.index(action)) for *times, action in row] for row in videos.columns["segments"]]
    return fsp.ClipLoader(
        videos,
        fsp.samplers.Windows(sequence_length=LENGTH, fps=FPS, step_seconds=STEP_SECONDS, padding="edge"),
        batch_size=batch_size,
        transforms=[t.Resize(SIZE)],
        frame_columns={"labels": labels},
        shuffle=training,
        num_threads=num_threads,
    )


def detection(annotations: Path, num_threads: int, training: bool, batch_size: int = 4) -> fsp.ClipLoader:
    """Loads the annotated seconds: random crops for training, otherwise three crops of each in order."""
    return fsp.ClipLoader(
        fsp.datasets.ava(annotations, annotations.parent, span_seconds=SPAN_SECONDS),
        fsp.samplers.Seconds(TIMES, padding="repeat"),
        batch_size=batch_size,
        transforms=TRAIN if training else TEST,
        shuffle=training,
        num_threads=num_threads,
    )


def boxes_of(batch: fsp.Batch) -> list[list[dict[str, Any]]]:
    """The boxes of each view of each clip, (K, 4) in its pixels, and their labels; those outside are removed."""
    values, columns = batch.torch(), batch.columns
    clips: list[list[dict[str, Any]]] = [[] for _ in columns["boxes"]]
    for geometry in values.geometry.reshape(len(clips), -1, 2, 3).unbind(1):
        moved = t.map_boxes(columns["boxes"], geometry, (CROP, CROP), relative_to=values.video.sizes)
        for views, boxes, actions in zip(clips, moved, columns["actions"], strict=True):
            kept = (boxes[:, 2:] - boxes[:, :2]).amin(1) >= 1
            views.append({"boxes": boxes[kept], "labels": values.labels.new_tensor(actions)[kept]})
    return clips
