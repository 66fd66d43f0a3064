"""The loaders as they are written with torchcodec and torchvision: labels per frame, and boxes that follow the crop."""

from __future__ import annotations

import csv
import functools
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import VideoDecoder
from torchvision import tv_tensors
from torchvision.transforms import v2

#: Temporal action localization: frames per second, frames of a window, seconds between windows, size of frames.
FPS, LENGTH, STEP_SECONDS, SIZE = 5, 32, 6.4, (112, 112)
#: Detection: the times of the frames of a clip after its start, seconds of a clip, the shorter side and that of crops.
TIMES, SPAN_SECONDS, SHORT_SIDE, CROP = [k / 4 for k in range(8)], 2.0, 128, 112
#: Frames start at multiples of the frame duration, which has no exact float.
TOLERANCE = 1e-6


@functools.lru_cache(maxsize=32)
def decoder_of(video: str) -> VideoDecoder:
    """Opens each video once per worker; not before there are workers, which would share its position in the file."""
    return VideoDecoder(video, seek_mode="approximate")


class Windows(Dataset):
    """Windows of untrimmed videos, with the action of each frame: -1 outside of segments."""

    def __init__(self, path: Path) -> None:
        self.videos = [json.loads(line) for line in path.read_text().splitlines()]
        self.actions = sorted({action for video in self.videos for *_, action in video["segments"]})
        self.windows = []
        for video in self.videos:
            metadata = VideoDecoder(video["video"], seek_mode="approximate").metadata
            count = math.ceil(metadata.num_frames / metadata.average_fps / STEP_SECONDS - TOLERANCE)
            self.windows += [(video, window * STEP_SECONDS) for window in range(count)]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        video, start = self.windows[index]
        decoder = decoder_of(video["video"])
        fps, last = decoder.metadata.average_fps, decoder.metadata.num_frames - 1
        wanted = [int((start + k / FPS) * fps + TOLERANCE) for k in range(LENGTH)]
        frames = decoder.get_frames_at([min(frame, last) for frame in wanted])
        labels = torch.full((LENGTH,), -1)
        # Backwards, so that the first of several segments counts.
        for begin, end, action in reversed(video["segments"]):
            labels[(frames.pts_seconds >= begin) & (frames.pts_seconds < end)] = self.actions.index(action)
        mask = torch.tensor([frame <= last for frame in wanted])
        data = v2.functional.resize(frames.data, SIZE)
        return {"frames": data, "pts_seconds": frames.pts_seconds, "labels": labels, "mask": mask}


class AnnotatedSeconds(Dataset):
    """Clips around the annotated seconds of AVA, with the boxes of the people in them."""

    def __init__(self, annotations: Path, training: bool) -> None:
        rows: dict[tuple[str, int], list[list[str]]] = defaultdict(list)
        with annotations.open(newline="") as file:
            for video, second, *row in csv.reader(file):
                rows[video, int(second)].append(row)
        paths = {path.stem: str(path) for path in annotations.parent.iterdir() if path != annotations}
        self.samples = [(paths[video], second, boxes) for (video, second), boxes in rows.items()]
        crop = [v2.RandomResizedCrop(CROP, scale=(0.5, 1)), v2.RandomHorizontalFlip()]
        self.transform = v2.Compose([*crop, v2.SanitizeBoundingBoxes()]) if training else three_crops

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.decode(index))

    def decode(self, index: int) -> dict[str, Any]:
        """The clip before the transform."""
        path, second, rows = self.samples[index]
        decoder = decoder_of(path)
        fps, last = decoder.metadata.average_fps, decoder.metadata.num_frames - 1
        first = math.ceil((second - SPAN_SECONDS / 2) * fps - TOLERANCE)
        indices = [min(first + int(time * fps + TOLERANCE), last) for time in TIMES]
        frames = decoder.get_frames_at(indices).data
        height, width = frames.shape[-2:]
        boxes = torch.tensor([[float(side) for side in row[:4]] for row in rows])
        boxes = tv_tensors.BoundingBoxes(
            boxes * torch.tensor([width, height, width, height]), format="XYXY", canvas_size=(height, width)
        )
        labels = torch.tensor([int(row[4]) for row in rows])
        return {"frames": tv_tensors.Video(frames), "boxes": boxes, "labels": labels, "indices": indices}


def three_crops(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """The start, the center and the end of the longer side."""
    sample = v2.Resize(SHORT_SIDE)(sample)
    height, width = sample["frames"].shape[-2:]
    sanitize, views = v2.SanitizeBoundingBoxes(), []
    for share in (0, 0.5, 1):
        down, right = (share, 0.5) if height > width else (0.5, share)
        place = round(down * (height - CROP)), round(right * (width - CROP))
        moved = {name: v2.functional.crop(sample[name], *place, CROP, CROP) for name in ("frames", "boxes")}
        views.append(sanitize({**sample, **moved}))
    return views


def localization(path: Path, num_workers: int, training: bool, batch_size: int = 4) -> DataLoader:
    """Loads the windows of all videos: in random order for training, otherwise in that of the videos."""
    return DataLoader(Windows(path), batch_size=batch_size, shuffle=training, num_workers=num_workers)


def detection(annotations: Path, num_workers: int, training: bool, batch_size: int = 4) -> DataLoader:
    """Loads the annotated seconds as lists: random crops for training, otherwise three crops of each in order."""
    dataset = AnnotatedSeconds(annotations, training)
    return DataLoader(dataset, batch_size=batch_size, shuffle=training, num_workers=num_workers, collate_fn=list)
