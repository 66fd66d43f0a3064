"""Writes a LeRobot dataset with LeRobot itself: two cameras, states and actions, several episodes per video file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import framespool as fsp
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FPS = 30
#: Height and width of each camera.
CAMERAS = {"observation.images.top": (120, 160), "observation.images.wrist": (96, 128)}
TASKS = ("pick up the cup", "put it down")


def write_dataset(root: Path, videos: Sequence[Path], episodes: int, length: int) -> Path:
    """Writes a dataset of version 3, encoded with LeRobot's defaults (AV1, a keyframe every two frames).

    Args:
        root: A folder that does not exist.
        videos: Videos whose frames are recorded, by one after another for each episode.
        episodes: Number of episodes.
        length: Frames of the longest episode; others are shorter by up to a third.

    Returns:
        The folder.
    """
    features: dict[str, dict[str, object]] = {
        "observation.state": {"dtype": "float32", "shape": (7,), "names": None},
        "action": {"dtype": "float32", "shape": (7,), "names": None},
    }
    for name, (height, width) in CAMERAS.items():
        features[name] = {"dtype": "video", "shape": (height, width, 3), "names": ["height", "width", "channels"]}
    dataset = LeRobotDataset.create("local/recipe", FPS, features, root=root, image_writer_threads=2)
    random = np.random.default_rng(0)
    for episode in range(episodes):
        frames = max(length - episode % (length // 3 + 1), 1)
        cameras = {
            name: recorded(videos[(episode + place) % len(videos)], frames, size, first=7 * episode)
            for place, (name, size) in enumerate(CAMERAS.items())
        }
        for number in range(frames):
            dataset.add_frame(
                {name: images[number] for name, images in cameras.items()}
                | {name: random.normal(size=7).astype(np.float32) for name in ("observation.state", "action")}
                | {"task": TASKS[episode % len(TASKS)]}
            )
        dataset.save_episode()
    dataset.finalize()
    return root


def recorded(video: Path, count: int, size: tuple[int, int], first: int) -> np.ndarray:
    """The (count, height, width, 3) frames that a camera records: those of a video, repeated from its beginning."""
    source = fsp.Video(video, layout="THWC")
    indices = [(first + number) % len(source) for number in range(count)]
    return source.frames(indices, transforms=[fsp.transforms.Resize(size)]).frames.numpy()
