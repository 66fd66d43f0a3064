"""The loader of LeRobot's training scripts: a LeRobotDataset in a DataLoader."""

from __future__ import annotations

from pathlib import Path

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from torch.utils.data import DataLoader

from dataset import FPS

#: As a diffusion policy requests them: two observations, and the actions around and after them.
DELTAS = {
    "observation.images.top": [-1 / FPS, 0.0],
    "observation.images.wrist": [-1 / FPS, 0.0],
    "observation.state": [-1 / FPS, 0.0],
    "action": [step / FPS for step in range(-1, 15)],
}


def make_loader(root: Path, num_workers: int, training: bool, batch_size: int = 16) -> DataLoader:
    """Loads batches: in random order for training, otherwise in the order of the frames."""
    dataset = LeRobotDataset("local/recipe", root=root, delta_timestamps=DELTAS, video_backend="torchcodec")
    return DataLoader(dataset, batch_size=batch_size, shuffle=training, num_workers=num_workers)
