"""LeRobot datasets: episodes have exactly their frames, and contradicting files are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets import VideoSegment

pa = pytest.importorskip("pyarrow", reason="pyarrow writes the tables; see requirements-dev.txt")
pq = pytest.importorskip("pyarrow.parquet")

TOP, WRIST = "observation.images.top", "observation.images.wrist"
#: Episodes of two files of 30 frames a second: lengths in frames, which do not fill the files.
FILES = {"action/street_960x540.mp4": (1, 60, 110), "action/long_160x68_30p.mp4": (100, 37, 400)}
TASKS = ["pick up the cup", "put it down"]


def written(root: Path, videos: Path, rounded=float, **changed) -> list[tuple[int, int, int]]:
    """A dataset of version 3.0; returns file, first frame and length of each episode."""
    rows: dict[str, list] = {}
    episodes = []
    for number, (name, lengths) in enumerate(FILES.items()):
        first, seconds = 0, 0.0
        place = root / f"videos/{TOP}/chunk-000/file-{number:03d}.mp4"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(videos / name)
        for length in lengths:
            # LeRobot's summation: durations in order.
            begin, seconds = seconds, seconds + length / 30
            row = {
                "episode_index": len(episodes),
                "tasks": [TASKS[len(episodes) % 2]],
                "length": length,
                "dataset_from_index": sum(one[2] for one in episodes),
                "dataset_to_index": sum(one[2] for one in episodes) + length,
                "stats/action/mean": [0.5, 0.25],
            }
            for camera in (TOP, WRIST):
                row |= {
                    f"videos/{camera}/chunk_index": 0,
                    f"videos/{camera}/file_index": number,
                    f"videos/{camera}/from_timestamp": rounded(begin),
                    f"videos/{camera}/to_timestamp": rounded(seconds),
                }
            for key, value in row.items():
                rows.setdefault(key, []).append(changed.get(key, value) if len(episodes) == 2 else value)
            episodes.append((number, first, length))
            first += length
    info = {
        "codebase_version": "v3.0",
        "fps": 30,
        "features": {
            TOP: {"dtype": "video", "shape": [540, 960, 3]},
            WRIST: {"dtype": "video", "shape": [540, 960, 3]},
            "observation.images.png": {"dtype": "image"},
            "action": {"dtype": "float32", "shape": [7]},
        },
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info | changed.get("info", {})))
    tasks = {"task_index": list(range(len(TASKS))), changed.get("index", "task"): TASKS}
    pq.write_table(pa.table(tasks), root / "meta/tasks.parquet")
    # Two files of episodes, the second one first in time of writing.
    for number, (begin, end) in ((1, (4, 6)), (0, (0, 4))):
        half = pa.table({key: values[begin:end] for key, values in rows.items()})
        pq.write_table(half, root / f"meta/episodes/chunk-000/file-{number:03d}.parquet", compression="snappy")
    return episodes


@pytest.mark.parametrize("rounded", [float, lambda t: float(np.float32(t)), lambda t: round(t, 4)])
def test_an_episode_has_exactly_its_frames(tmp_path, videos, rounded):
    episodes = written(tmp_path, videos, rounded)
    dataset = fsp.datasets.lerobot(tmp_path, camera=TOP)
    assert len(dataset) == 6 and all(isinstance(source, VideoSegment) for source, _ in dataset)
    loader = fsp.ClipLoader(
        dataset,
        fsp.samplers.Windows(sequence_length=1, step=1),
        batch_size=64,
        shuffle=False,
        transforms=[fsp.transforms.Resize((16, 16))],
    )
    frames: dict[int, list[int]] = {}
    for batch in loader:
        for video, indices in zip(np.asarray(batch.video_ids), np.asarray(batch.indices), strict=True):
            frames.setdefault(int(video), []).extend(int(index) for index in indices)
    expected = {n: list(range(first, first + length)) for n, (_, first, length) in enumerate(episodes)}
    assert frames == expected and sum(map(len, frames.values())) == 708


def test_labels_columns_and_choices(tmp_path, videos):
    written(tmp_path, videos, index="__index_level_0__")
    dataset = fsp.datasets.lerobot(tmp_path, camera=TOP)
    assert [label for _, label in dataset] == [0, 1, 0, 1, 0, 1] and dataset.classes == TASKS
    assert dataset.columns["episode_index"] == list(range(6))
    assert dataset.columns["length"] == [length for lengths in FILES.values() for length in lengths]
    assert dataset.columns["tasks"] == [[TASKS[n % 2]] for n in range(6)] and dataset.columns["fps"] == [30.0] * 6
    assert dataset.columns["dataset_from_index"] == [0, 1, 61, 171, 271, 308]
    some = fsp.datasets.lerobot(str(tmp_path), camera=WRIST, episodes=np.array([4, 1]))
    assert some.columns["episode_index"] == [4, 1]
    assert some[0][0].source == str(tmp_path / f"videos/{WRIST}/chunk-000/file-001.mp4")


def test_actions_are_joined_by_the_rows_of_an_episode(tmp_path, videos):
    written(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, camera=TOP, episodes=[1, 4])
    actions = np.arange(708)  # the column of the tables under data
    rule = fsp.samplers.presets.lerobot(delta_timestamps=[-1 / 30, 0.0, 2 / 30])
    loader = fsp.ClipLoader(
        dataset, rule, batch_size=16, shuffle="full", seed=1, transforms=[fsp.transforms.Resize((16, 16))]
    )
    begins = {1: 1, 4: 100}  # their first frames in their files
    seen = 0
    for batch in loader:
        for video, indices, mask in zip(
            np.asarray(batch.video_ids), np.asarray(batch.indices), np.asarray(batch.mask), strict=True
        ):
            episode = dataset.columns["episode_index"][video]
            rows = dataset.columns["dataset_from_index"][video] + (indices - begins[episode])
            chunk = actions[rows]
            inside = range(dataset.columns["dataset_from_index"][video], dataset.columns["dataset_to_index"][video])
            assert all(row in inside for row in chunk)
            if mask.all():
                assert list(np.diff(chunk)) == [1, 2]
            seen += 1
    assert seen == 60 + 37


def test_version_2_has_a_file_for_each_episode(tmp_path, short_clips):
    info = {
        "codebase_version": "v2.1",
        "fps": 30,
        "chunks_size": 2,
        "features": {TOP: {"dtype": "video"}},
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(json.dumps(info))
    lines = [{"episode_index": n, "tasks": [TASKS[n % 2]], "length": 50 + n} for n in range(3)]
    (tmp_path / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = [{"task_index": n, "task": task} for n, task in enumerate(TASKS)]
    (tmp_path / "meta/tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset = fsp.datasets.lerobot(tmp_path)
    folder = tmp_path / "videos"
    assert dataset.samples == [
        (str(folder / f"chunk-000/{TOP}/episode_000000.mp4"), 0),
        (str(folder / f"chunk-000/{TOP}/episode_000001.mp4"), 1),
        (str(folder / f"chunk-001/{TOP}/episode_000002.mp4"), 0),
    ]
    assert dataset.columns["length"] == [50, 51, 52] and "dataset_from_index" not in dataset.columns


@pytest.mark.parametrize(
    ("changed", "keywords", "reason"),
    [
        ({}, {}, f"give one camera as camera=; it has {TOP}, {WRIST}"),
        ({}, {"camera": "observation.images.left"}, "no camera 'observation.images.left'; it has"),
        ({}, {"camera": TOP, "episodes": [6]}, "no episode 6"),
        ({}, {"camera": TOP, "episodes": [1, 1]}, "names it twice"),
        ({}, {"camera": TOP, "episodes": []}, "none was requested"),
        ({}, {"camera": TOP, "episodes": 3}, "episodes must be a list of ints"),
        ({}, {"camera": 3}, "camera must be a string"),
        ({"length": 109}, {"camera": TOP}, r"file-000\.parquet, row 2: has 109 frames at 30 per second, but its video"),
        ({"length": 0}, {"camera": TOP}, "row 2: has 0 frames"),
        ({"episode_index": 1}, {"camera": TOP}, "row 2: episode 1 appears twice"),
        ({"tasks": ["fly"]}, {"camera": TOP}, "row 2: task 'fly' is not one of the dataset's 2"),
        ({f"videos/{TOP}/from_timestamp": None}, {"camera": TOP}, "row 2: .*from_timestamp is null"),
        ({"info": {"fps": 0}}, {"camera": TOP}, r"info\.json: \"fps\" must be a number above 0"),
        ({"info": {"video_path": "../{video_key}.mp4"}}, {"camera": TOP}, "does not lead to a file below"),
        ({"info": {"video_path": "{chunk}.mp4"}}, {"camera": TOP}, "has the unknown field '{chunk}'"),
        ({"info": {"video_path": "{file_index:99d}.mp4"}}, {"camera": TOP}, "has the unknown field"),
    ],
)
def test_what_contradicts_itself_is_named(tmp_path, videos, changed, keywords, reason):
    written(tmp_path, videos, **changed)
    with pytest.raises(fsp.errors.ArgumentError, match=reason):
        fsp.datasets.lerobot(tmp_path, **keywords)


def test_other_versions_and_damaged_files_are_named(tmp_path, videos):
    written(tmp_path, videos)
    with pytest.raises(fsp.errors.UnsupportedError, match="images are in the dataset's tables"):
        fsp.datasets.lerobot(tmp_path, camera="observation.images.png")
    tables = tmp_path / "meta/episodes/chunk-000/file-001.parquet"
    intact = tables.read_bytes()
    tables.write_bytes(intact[:-5])
    with pytest.raises(fsp.errors.InvalidDataError, match=r"file-001\.parquet, byte \d+: does not end like"):
        fsp.datasets.lerobot(tmp_path, camera=TOP)
    shutil.rmtree(tmp_path / "meta/episodes/chunk-000")
    with pytest.raises(fsp.errors.ArgumentError, match="no files chunk-"):
        fsp.datasets.lerobot(tmp_path, camera=TOP)
    info = json.loads((tmp_path / "meta/info.json").read_text())
    (tmp_path / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    with pytest.raises(fsp.errors.UnsupportedError, match=r"version 'v1\.6'"):
        fsp.datasets.lerobot(tmp_path, camera=TOP)
    with pytest.raises(fsp.errors.NotFoundError, match=r"info\.json"):
        fsp.datasets.lerobot(tmp_path / "none")
