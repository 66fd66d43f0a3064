"""Writes LeRobot datasets for tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow writes the tables; see requirements-dev.txt")
pq = pytest.importorskip("pyarrow.parquet")

TOP, WRIST = "observation.images.top", "observation.images.wrist"
#: The file of each camera, 30 frames a second, with (height, width).
CAMERAS = {TOP: ("action/street_960x540.mp4", (540, 960)), WRIST: ("action/long_160x68_30p.mp4", (68, 160))}
LENGTHS = (17, 1, 24)
TASKS = ["pick up the cup", "put it down"]
FPS = 30


def write(
    root: Path,
    videos: Path,
    version: str = "v3.0",
    *,
    split: int = 20,
    width: int = 3,
    cameras=None,
    fps: int = FPS,
    tasks=TASKS,
    seed: int = 3,
    **info,
) -> dict[str, np.ndarray]:
    """Writes a dataset; returns its tables.

    Args:
        root: Its folder.
        videos: Folder of the videos.
        version: Its version.
        split: Row at which the second table begins.
        width: Numbers of an action.
        cameras: As `CAMERAS`.
        fps: Frames per second.
        tasks: Texts of the tasks.
        seed: Seed of the numbers.
        info: Further keys of `info.json`.
    """
    cameras = CAMERAS if cameras is None else cameras
    starts = [sum(LENGTHS[:n]) for n in range(len(LENGTHS))]
    rows = sum(LENGTHS)
    random = np.random.default_rng(seed)
    episode = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    frame = np.concatenate([np.arange(length) for length in LENGTHS])
    tables = {
        "observation.state": random.normal(size=(rows, 7)).astype(np.float32),
        "action": random.normal(size=(rows, width)).astype(np.float32),
        "observation.map": random.normal(size=(rows, 2, 4)).astype(np.float32),
        "timestamp": (frame / fps).astype(np.float32),
        "next.done": frame == np.array(LENGTHS)[episode] - 1,
        "frame_index": frame,
        "episode_index": episode,
        "index": np.arange(rows),
        "task_index": episode % 2,
    }
    features = {name: {"dtype": str(each.dtype), "shape": list(each.shape[1:]) or [1]} for name, each in tables.items()}
    for name, (_, (height, width)) in cameras.items():
        features[name] = {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"]}
    features["language"] = {"dtype": "string", "shape": [1]}
    meta = root / "meta"
    meta.mkdir(parents=True)
    new = version == "v3.0"
    said = {
        "codebase_version": version,
        "fps": fps,
        "features": features,
        "chunks_size": 1000,
        "total_episodes": len(LENGTHS),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        if new
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if new
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    (meta / "info.json").write_text(json.dumps(said | info))
    arrays = pa.table({name: pa.array(each.tolist()) for name, each in tables.items()})
    (root / "data/chunk-000").mkdir(parents=True)
    if new:
        # Two files; from a disk the first one may end within an episode.
        for number, (begin, end) in enumerate(((0, split), (split, rows))):
            pq.write_table(arrays.slice(begin, end - begin), root / f"data/chunk-000/file-{number:03d}.parquet")
        episodes = {
            "episode_index": list(range(len(LENGTHS))),
            "tasks": [[tasks[n % 2]] for n in range(len(LENGTHS))],
            "length": list(LENGTHS),
            "data/chunk_index": [0] * len(LENGTHS),
            "data/file_index": [int(start >= split) for start in starts],
            "dataset_from_index": starts,
            "dataset_to_index": [start + length for start, length in zip(starts, LENGTHS, strict=True)],
        }
        for name, (file, _) in cameras.items():
            place = root / f"videos/{name}/chunk-000/file-000.mp4"
            place.parent.mkdir(parents=True)
            place.symlink_to(videos / file)
            episodes |= {
                f"videos/{name}/chunk_index": [0] * len(LENGTHS),
                f"videos/{name}/file_index": [0] * len(LENGTHS),
                f"videos/{name}/from_timestamp": [start / fps for start in starts],
                f"videos/{name}/to_timestamp": [(s + n) / fps for s, n in zip(starts, LENGTHS, strict=True)],
            }
        (meta / "episodes/chunk-000").mkdir(parents=True)
        pq.write_table(pa.table(episodes), meta / "episodes/chunk-000/file-000.parquet")
        pq.write_table(pa.table({"task_index": [0, 1], "task": tasks}), meta / "tasks.parquet")
    else:
        for number, (start, length) in enumerate(zip(starts, LENGTHS, strict=True)):
            pq.write_table(arrays.slice(start, length), root / f"data/chunk-000/episode_{number:06d}.parquet")
            for name, (file, _) in cameras.items():
                place = root / f"videos/chunk-000/{name}/episode_{number:06d}.mp4"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(videos / file)
        lines = [{"episode_index": n, "tasks": [tasks[n % 2]], "length": length} for n, length in enumerate(LENGTHS)]
        (meta / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        lines = [{"task_index": n, "task": task} for n, task in enumerate(tasks)]
        (meta / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tables
