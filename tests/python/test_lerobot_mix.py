"""Mixtures and unions of the frames of several LeRobot datasets: co-training of different robots."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from collections import Counter
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets._lerobot import _TAKEN
from lerobot_writer import CAMERAS, LENGTHS, TOP, WRIST, write

FRONT = "observation.images.front"
RESIZE = [fsp.transforms.Resize((24, 32))]
ROWS = sum(LENGTHS)


@pytest.fixture
def robots(tmp_path: Path, videos: Path):
    """Two robots, of 30 and 24 frames a second, with actions of three and five numbers, and other tasks."""
    one = write(tmp_path / "one", videos)
    front = {FRONT: ("derived/base_640x360.mp4", (360, 640))}
    two = write(
        tmp_path / "two", videos, width=5, cameras=front, fps=24, tasks=["fold the towel", "put it down"], seed=8
    )
    return tmp_path, one, two


def datasets_of(root: Path, of: tuple[int, ...] = (0, 1), **more) -> list[fsp.datasets.Dataset]:
    """Both robots: a wrist camera, and actions that are as far ahead in seconds."""
    makers = [
        lambda: fsp.datasets.lerobot(
            root / "one",
            camera=[TOP, WRIST],
            delta_timestamps={TOP: [-0.1, 0.0], "action": [0.0, 0.1, 0.2]},
            tolerance_s=0.02,
            **more,
        ),
        lambda: fsp.datasets.lerobot(
            root / "two",
            delta_timestamps={FRONT: [-0.125, 0.0], "action": [0.0, 0.125, 0.25]},
            rename={FRONT: TOP},
            **more,
        ),
    ]
    return [makers[number]() for number in of]


_frames: dict[str, np.ndarray] = {}


def frames_of(path: Path) -> np.ndarray:
    """All frames of a video, resized."""
    if str(path) not in _frames:
        loader = fsp.ClipLoader(
            [str(path)],
            fsp.samplers.Windows(sequence_length=1, step=1),
            batch_size=ROWS,
            transforms=RESIZE,
            index=False,
        )
        _frames[str(path)] = next(iter(loader)).frames.numpy()[:, 0]
    return _frames[str(path)]


def check(batch, robots, videos) -> list[tuple[int, int]]:
    """Compares a batch with the tables and videos; returns the dataset and the row of each frame."""
    tables = robots[1:]
    files = [videos / CAMERAS[TOP][0], videos / "derived/base_640x360.mp4"]
    steps = [(-3, 0), (-3, 0)], [(0, 3, 6), (0, 3, 6)]
    texts = [["pick up the cup", "put it down"], ["fold the towel", "put it down"]]
    found = list(zip(batch["dataset_index"].tolist(), batch["index"].tolist(), strict=True))
    for at, (of, row) in enumerate(found):
        own, width = tables[of], tables[of]["action"].shape[1]
        episode = int(own["episode_index"][row])
        first = sum(LENGTHS[:episode])
        last = first + LENGTHS[episode] - 1
        pictures = [min(max(row + step, first), last) for step in steps[0][of]]
        assert np.array_equal(batch[TOP].numpy()[at], frames_of(files[of])[pictures]), (of, row)
        rows = [min(max(row + step, first), last) for step in steps[1][of]]
        action = batch["action"].numpy()[at]
        assert np.array_equal(action[:, :width], own["action"][rows]) and not action[:, width:].any()
        assert batch["action_mask"].tolist()[at] == [True] * width + [False] * (5 - width)
        assert batch["action_is_pad"].tolist()[at] == [row + step > last for step in steps[1][of]]
        assert np.array_equal(batch["observation.state"].numpy()[at], own["observation.state"][row])
        assert np.array_equal(batch["observation.map"].numpy()[at], own["observation.map"][row])
        assert batch["task"][at] == texts[of][int(own["task_index"][row])]
    assert WRIST not in batch and "language" not in batch
    return found


@pytest.mark.parametrize("shuffle", [True, "full", fsp.GroupedShuffle(max_chunk=4)])
@pytest.mark.parametrize("replacement", [False, True])
def test_a_mixture_has_the_frames_of_each_robot(robots, videos, shuffle, replacement):
    one, two = datasets_of(robots[0])
    mixture = fsp.datasets.mix((one, 1), (two, 2), epoch_clips=96, replacement=replacement)
    assert mixture.classes == ["pick up the cup", "put it down", "fold the towel"]
    if replacement and shuffle != "full":
        shuffle = "full"
    loader = fsp.ClipLoader(mixture, batch_size=8, shuffle=shuffle, seed=4, transforms=RESIZE, index=False)
    for _ in range(2):
        seen = [each for batch in loader for each in check(batch, robots, videos)]
        count = Counter(of for of, _ in seen)
        assert len(seen) == 96 and (replacement or count[0] == 32), count
        assert replacement or {row for of, row in seen if of == 1} == set(range(ROWS))
    batch = next(iter(loader))
    assert [mixture.classes[task] for task in batch["task_index"].tolist()] == batch["task"]


def test_a_union_has_each_frame_once(robots, videos):
    union = sum(datasets_of(robots[0])[1:], datasets_of(robots[0])[0])
    for shuffle in (False, True, "buffer"):
        loader = fsp.ClipLoader(union, batch_size=8, shuffle=shuffle, transforms=RESIZE, index=False)
        seen = [each for batch in loader for each in check(batch, robots, videos)]
        assert sorted(seen) == [(of, row) for of in (0, 1) for row in range(ROWS)]
        assert (seen == sorted(seen)) == (shuffle is False)


def test_weights_of_episodes(robots, videos):
    union = datasets_of(robots[0])[0] + datasets_of(robots[0])[1]
    weighted = fsp.datasets.weighted(union, [0, 0, 1, 0, 0, 3], epoch_clips=96)
    loader = fsp.ClipLoader(weighted, batch_size=8, shuffle="full", transforms=RESIZE, index=False)
    seen = [each for batch in loader for each in check(batch, robots, videos)]
    assert len(seen) == 96 and all(row >= 18 for _, row in seen)
    assert 3 * sum(of == 0 for of, _ in seen) == sum(of == 1 for of, _ in seen) == 72
    left = weighted.filter(lambda source, label, row: row["fps"] == 24)
    assert left.weights == [0, 0, 3]
    loader = fsp.ClipLoader(left, batch_size=8, shuffle="full", transforms=RESIZE, index=False)
    assert {batch["dataset_index"].tolist()[0] for batch in loader} == {1}
    single = fsp.datasets.balanced(datasets_of(robots[0])[1])
    (batch,) = fsp.ClipLoader(single, batch_size=99, shuffle="full", transforms=RESIZE, index=False)
    assert "action_mask" not in batch and batch["action"].shape == (len(batch), 3, 5)


def test_parts_of_a_dataset_keep_the_features(robots, videos):
    one, _ = datasets_of(robots[0])
    for part in (one[1:], one.subset([1, 2]), one.filter(lambda source, label, row: row["length"] != 17)):
        (batch,) = fsp.ClipLoader(part, batch_size=99, transforms=RESIZE, index=False)
        assert batch["index"].tolist() == list(range(17, ROWS))
        assert np.array_equal(batch["observation.state"].numpy(), robots[1]["observation.state"][17:])
    (batch,) = fsp.ClipLoader(one.subset([2, 0]), batch_size=99, transforms=RESIZE, index=False)
    assert batch["index"].tolist() == [*range(18, ROWS), *range(17)]
    halves = fsp.datasets.mix((one[:1], 1), (one[1:], 1), epoch_clips=40)
    batches = list(fsp.ClipLoader(halves, batch_size=8, shuffle=True, transforms=RESIZE, index=False))
    assert WRIST in batches[0] and all(
        (row >= 17) == of
        for b in batches
        for of, row in zip(b["dataset_index"].tolist(), b["index"].tolist(), strict=True)
    )
    mixture = fsp.datasets.mix(*((each, 1) for each in datasets_of(robots[0])), epoch_clips=40)
    left = mixture.filter(lambda source, label, row: row["length"] == 24)
    assert left.lengths == [1, 1]
    loader = fsp.ClipLoader(left, batch_size=8, shuffle="full", transforms=RESIZE, index=False)
    seen = [each for batch in loader for each in check(batch, robots, videos)]
    assert Counter(of for of, _ in seen) == {0: 20, 1: 20} and all(row >= 18 for _, row in seen)
    (batch,) = fsp.ClipLoader(mixture[:1], batch_size=99, transforms=RESIZE, index=False)
    assert batch["action_mask"].tolist() == [[True] * 3 + [False] * 2] * 17
    with pytest.raises(fsp.errors.ArgumentError, match="no other stream"):
        one.with_stream(1)


def test_ranks_and_resuming(robots, videos):
    mixture = fsp.datasets.mix(*((each, 1) for each in datasets_of(robots[0])), epoch_clips=80)
    mixture = pickle.loads(pickle.dumps(mixture))

    def make(**more):
        return fsp.ClipLoader(mixture, batch_size=4, shuffle=True, seed=1, transforms=RESIZE, index=False, **more)

    def rows(batches):
        return [list(zip(b["dataset_index"].tolist(), b["index"].tolist(), strict=True)) for b in batches]

    ranks = [rows(make(shard_id=rank, num_shards=2)) for rank in (0, 1)]
    counts = Counter(each for rank in ranks for batch in rank for each in batch)
    assert sum(counts.values()) == 80 and set(counts.values()) <= {1, 2, 3}
    assert sum(n for (of, _), n in counts.items() if of == 0) == 40
    loader = make()
    iterator = iter(loader)
    for _ in range(7):
        next(iterator)
    state = loader.state_dict()
    rest = rows(iterator)
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert rows(resumed) == rest and len(rest) == 13
    other = fsp.datasets.mix(*((each, 1) for each in datasets_of(robots[0])), epoch_clips=80, keys=[TOP, "action"])
    loader = fsp.ClipLoader(other, batch_size=4, shuffle=True, seed=1, transforms=RESIZE, index=False)
    assert set(next(iter(loader)).columns) >= {TOP, "action", "action_mask", "dataset_index"}
    assert "observation.state" not in next(iter(loader))
    one, _ = datasets_of(robots[0])
    two = fsp.datasets.lerobot(
        robots[0] / "two", rename={FRONT: TOP}, delta_timestamps={FRONT: [-0.25, 0.0], "action": [0.0, 0.125, 0.25]}
    )
    changed = fsp.datasets.mix((one, 1), (two, 1), epoch_clips=80)
    with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
        fsp.ClipLoader(changed, batch_size=4, shuffle=True, seed=1, transforms=RESIZE, index=False).load_state_dict(
            state
        )


def test_each_dataset_has_its_own_statistics(robots, videos):
    stats = [fsp.datasets.lerobot_stats(robots[0] / name) for name in ("one", "two")]
    parts = [
        datasets_of(robots[0], normalize={name: mode for name in names}, stats=each, of=(of,))[0]
        for of, (mode, each, names) in enumerate(
            (("min_max", stats[0], ["observation.state", "action"]), ("mean_std", stats[1], ["action"]))
        )
    ]
    union = parts[0] + parts[1]
    (batch,) = fsp.ClipLoader(union, batch_size=99, transforms=RESIZE, index=False)
    for of in (0, 1):
        table = robots[1 + of]["action"]
        mine = batch["dataset_index"].numpy() == of
        expected = parts[of].normalization.normalize("action", table)
        width = table.shape[1]
        assert np.array_equal(batch["action"].numpy()[mine][:, 0, :width], expected)
        assert not batch["action"].numpy()[mine][:, :, width:].any(), "zeros, not normalized zeros"


def test_frames_of_one_size_need_no_transforms(tmp_path, videos):
    for name in ("one", "two"):
        write(tmp_path / name, videos, seed=len(name) + (name == "two"))
    one, two = (fsp.datasets.lerobot(tmp_path / name, delta_timestamps={}) for name in ("one", "two"))
    batch = next(iter(fsp.ClipLoader(fsp.datasets.mix((one, 1), (two, 1)), batch_size=4, shuffle=True, index=False)))
    assert batch[TOP].shape == (4, 3, 540, 960) and batch[WRIST].shape == (4, 3, 68, 160)
    assert "action_mask" not in batch and batch["action"].shape == (4, 3)


def test_dtypes_are_joined_without_loss(tmp_path, videos):
    tables = [write(tmp_path / name, videos, seed=seed) for seed, name in enumerate(("one", "two"))]
    path = tmp_path / "two/meta/info.json"
    info = json.loads(path.read_text())
    info["features"]["action"]["dtype"] = "float64"
    path.write_text(json.dumps(info))
    one, two = (fsp.datasets.lerobot(tmp_path / name, camera=[WRIST]) for name in ("one", "two"))
    (batch,) = fsp.ClipLoader(one + two, batch_size=99, index=False)
    assert batch["action"].dtype == "float64"
    assert np.array_equal(batch["action"].numpy(), np.concatenate([each["action"] for each in tables]))
    info["features"]["action"]["dtype"] = "int64"
    path.write_text(json.dumps(info))
    two = fsp.datasets.lerobot(tmp_path / "two", camera=[WRIST])
    with pytest.raises(fsp.errors.ArgumentError, match="action has the dtypes float32, int64; choose other features"):
        one + two


def test_errors(robots, videos):
    one, two = datasets_of(robots[0])
    mixture = fsp.datasets.mix((one, 1), (two, 1))
    with pytest.raises(
        fsp.errors.ArgumentError, match=rf"{TOP}: frames are 960x540 in one dataset and 640x360 in another; .*Resize"
    ):
        fsp.ClipLoader(mixture, batch_size=4, shuffle=True, index=False)
    lists = fsp.ClipLoader(
        mixture, batch_size=8, shuffle=True, transforms=[fsp.transforms.RandomHorizontalFlip()], index=False
    )
    assert isinstance(next(iter(lists))[TOP], list)
    plain = fsp.datasets.lerobot(robots[0] / "two", delta_timestamps={})
    for join, reason in (
        (lambda: fsp.datasets.mix((one, 1), (plain, 1)), f"no camera in common: {TOP}, {WRIST}; {FRONT}.*rename="),
        (
            lambda: fsp.datasets.mix((one, 1), (two, 1), keys=[TOP, "speed"]),
            "dataset at index 0 has no 'speed'; it has",
        ),
        (lambda: fsp.datasets.mix((one, 1), (two, 1), keys=[WRIST]), f"dataset at index 1 has no '{WRIST}'"),
        (lambda: fsp.datasets.mix((one, 1), (two, 1), keys=["action"]), "no camera in common"),
        (lambda: fsp.datasets.mix((one, 1), (two, 1), keys="action"), "keys must be a list of names"),
        (lambda: fsp.datasets.mix((["a.mp4"], 1), keys=["action"]), "keys= is for frames"),
        (
            lambda: (
                two + fsp.datasets.lerobot(robots[0] / "two", rename={FRONT: TOP}, delta_timestamps={"action": [0]})
            ),
            f"{TOP}: delta_timestamps of the datasets have 2 and none entries",
        ),
        (
            lambda: fsp.datasets.lerobot(robots[0] / "two", rename={"front": TOP}),
            "rename: no feature 'front'; there are action",
        ),
        (
            lambda: fsp.datasets.lerobot(robots[0] / "two", rename={FRONT: "action"}),
            "rename must give features different names",
        ),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            join()
    path = robots[0] / "two/meta/info.json"
    info = json.loads(path.read_text())
    info["features"]["observation.state"]["shape"] = [7, 1]
    path.write_text(json.dumps(info))
    with pytest.raises(fsp.errors.ArgumentError, match=r"observation\.state has the shapes \(7,\) and \(7, 1\)"):
        fsp.datasets.mix((one, 1), (datasets_of(robots[0])[1], 1))


def test_names_that_a_batch_has_are_refused(robots):
    lerobot = fsp.datasets.lerobot
    fields = {each.name for each in dataclasses.fields(fsp.Batch)}
    assert fields <= _TAKEN
    for new in ("labels", "task", "length", "observation.state_is_pad", "observation.state_mask"):
        with pytest.raises(fsp.errors.ArgumentError, match=f"'action' cannot be called '{new}'"):
            lerobot(robots[0] / "one", rename={"action": new}, delta_timestamps={"observation.state": [0.0]})


def test_normalization_belongs_to_a_state(robots):
    def load(**more):
        return fsp.ClipLoader(
            fsp.datasets.lerobot(robots[0] / "one", delta_timestamps={}, **more), batch_size=2, index=False
        )

    how = {"normalize": "mean_std", "stats": fsp.datasets.lerobot_stats(robots[0] / "one")}
    plain, normalized = load(), load(**how)
    load(**how).load_state_dict(normalized.state_dict())
    with pytest.raises(fsp.errors.ArgumentError, match="state"):
        normalized.load_state_dict(plain.state_dict())
    for name in ("views", "buckets"):
        given = {"views": {"a": fsp.View(fsp.samplers.Indices([0]))}, "buckets": fsp.Buckets(sizes=[(8, 8)])}[name]
        with pytest.raises(fsp.errors.ArgumentError, match=f"{name}= needs a dataset of videos"):
            dataset = fsp.datasets.lerobot(robots[0] / "one", delta_timestamps={})
            fsp.ClipLoader(dataset, batch_size=2, **{name: given})


def test_values_that_normalization_would_change_are_refused():
    own = fsp.datasets.Normalization({"a": {"mean": [0.5, 1.0], "std": [0.25, 1.0]}}, {"a": "mean_std"})
    for values in (np.array([[1, 2]]), np.ones((1, 2), np.float16)):
        with pytest.raises(fsp.errors.ArgumentError, match="'a': values must be float32 or float64"):
            own.normalize("a", values)
    with pytest.raises(fsp.errors.ArgumentError, match=r"'a': values must be .*2\), got \(2, 3\)"):
        own.unnormalize("a", np.ones((2, 3)))
    with pytest.raises(fsp.errors.ArgumentError, match="not finite"):
        fsp.datasets.Normalization({"a": {"mean": [math.nan], "std": [1.0]}}, {"a": "mean_std"})
