"""The loader of a fine-tuning run as qwen-vl-utils is used: a dataset that reads each video, in a DataLoader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qwen_vl_utils.vision_process import fetch_video
from torch.utils.data import DataLoader, Dataset

#: Limits of the frames' sizes and the rate, as in the scripts of Qwen2.5-VL.
VIDEO = {"fps": 2.0, "max_frames": 64, "min_pixels": 16 * 28 * 28, "total_pixels": 2048 * 28 * 28}


class Conversations(Dataset):
    """Samples of a JSON-lines file with the keys `video` and `caption`."""

    def __init__(self, path: Path) -> None:
        self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        frames, metadata = fetch_video({"video": row["video"], **VIDEO}, return_video_metadata=True)
        return {"frames": frames, "indices": list(metadata["frames_indices"]), "caption": row["caption"]}


def make_loader(path: Path, num_workers: int) -> DataLoader:
    """Loads the samples in the order of the file, one per batch: their sizes differ."""
    return DataLoader(Conversations(path), batch_size=None, num_workers=num_workers)
