"""The loader of a fine-tuning run as qwen-vl-utils is used: `process_vision_info` for each record, in a DataLoader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_vl_utils import process_vision_info
from torch.utils.data import DataLoader, Dataset

from dataset import IMAGE, VIDEO, make_processor, prompt


class Records(Dataset):
    """Records of a JSON-lines file, with the images and the frames of their videos."""

    def __init__(self, path: Path) -> None:
        self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        content = [{"type": "image", "image": image, **IMAGE} for image in row["images"]]
        content += [{"type": "video", "video": video, **VIDEO} for video in row["videos"]]
        messages = [{"role": "user", "content": [*content, {"type": "text", "text": ""}]}]
        images, videos = process_vision_info(messages, return_video_metadata=True)
        return {"text": prompt(row["conversations"]), "images": images or [], "videos": videos or []}


class Collate:
    """Makes the inputs of the model, in the worker processes."""

    def __init__(self) -> None:
        self.processor = make_processor()

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        videos = [video for row in rows for video in row["videos"]]
        images = [image for row in rows for image in row["images"]]
        return self.processor(
            text=[row["text"] for row in rows],
            images=images or None,
            videos=[frames for frames, _ in videos] or None,
            video_metadata=[metadata for _, metadata in videos] or None,
            padding=True,
            return_tensors="pt",
        ) | {"num_samples": len(rows), "indices": [list(metadata["frames_indices"]) for _, metadata in videos]}


def make_loader(path: Path, batch_size: int, num_workers: int) -> Iterator[dict[str, Any]]:
    """Loads the records in the order of the file."""
    return iter(DataLoader(Records(path), batch_size, num_workers=num_workers, collate_fn=Collate()))
