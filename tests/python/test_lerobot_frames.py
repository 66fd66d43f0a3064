"""Frames of LeRobot datasets: several cameras, states and actions, distances in time, padding at episode ends."""

from __future__ import annotations

import json
import pickle
import subprocess
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from lerobot_writer import CAMERAS, FPS, LENGTHS, TASKS, TOP, WRIST, pa, pq, write


def right(tables, videos, row: int, deltas: dict[str, list[float]]) -> dict[str, np.ndarray]:
    """An item, as LeRobot's dataset makes it: indices are clamped to the episode."""
    episode = int(tables["episode_index"][row])
    first = sum(LENGTHS[:episode])
    item = {}
    for name in [*CAMERAS, *tables]:
        steps = [round(delta * FPS) for delta in deltas.get(name, [0.0])]
        rows = [min(max(row + step, first), first + LENGTHS[episode] - 1) for step in steps]
        if name in CAMERAS:
            item[name] = np.stack([video_of(videos, name)[each] for each in rows])
        else:
            item[name] = tables[name][rows]
        if name in deltas:
            item[f"{name}_is_pad"] = np.array([not first <= row + step < first + LENGTHS[episode] for step in steps])
        else:
            item[name] = item[name][0]
    return item | {"task": TASKS[int(tables["task_index"][row])]}


_videos: dict[str, np.ndarray] = {}


def video_of(videos: Path, name: str) -> np.ndarray:
    if name not in _videos:
        video = fsp.Video(videos / CAMERAS[name][0], index=False)
        _videos[name] = video.frames(range(sum(LENGTHS))).frames.numpy()
    return _videos[name]


DELTAS = {
    TOP: [-2 / FPS, 0.0],
    "observation.state": [-0.1, 0.0],
    "observation.map": [0.0, 1 / FPS],
    "action": [step / FPS for step in range(4)],
    "next.done": [1 / FPS],
}


def check(batch, tables, videos, deltas) -> list[int]:
    """Compares a batch with the items; returns their rows."""
    rows = batch["index"].numpy().reshape(-1).tolist()
    for place, row in enumerate(rows):
        item = right(tables, videos, row, deltas)
        for name, expected in item.items():
            given = batch[name]
            if name == "task":
                assert given[place] == expected
            else:
                assert given.numpy()[place].dtype == expected.dtype and given.shape[1:] == expected.shape, name
                assert np.array_equal(given.numpy()[place], expected), (name, row)
        assert batch.video_ids.tolist()[place] == tables["episode_index"][row]
    return rows


@pytest.mark.parametrize("shuffle", [True, "full", False])
def test_batches_are_the_items_of_a_lerobot_dataset(tmp_path, videos, shuffle):
    tables = write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, camera=[TOP, WRIST], delta_timestamps=DELTAS)
    loader = fsp.ClipLoader(dataset, batch_size=8, shuffle=shuffle, seed=2, index=False)
    for _ in range(2):
        rows = [row for batch in loader for row in check(batch, tables, videos, DELTAS)]
        assert sorted(rows) == list(range(sum(LENGTHS)))
        assert (rows == sorted(rows)) == (not shuffle)
    stats = loader.stats()
    assert stats["clips"] == 2 * sum(LENGTHS) and stats["frames_decoded"] >= 2 * stats["clips"] // 2


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_cameras_with_little_memory_have_one_order(tmp_path, videos):
    """Cameras of other sizes would derive other grouped shuffles from the same memory."""
    tables = write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, camera=[TOP, WRIST], delta_timestamps=DELTAS)
    loader = fsp.ClipLoader(dataset, batch_size=8, shuffle=True, seed=2, index=False, cache="2MiB")
    assert loader._companions[0].grouped == loader._native.grouped
    rows = [row for batch in loader for row in check(batch, tables, videos, DELTAS)]
    assert sorted(rows) == list(range(sum(LENGTHS)))


def test_cameras_with_a_disk_cache(tmp_path, videos):
    """The frames of all cameras are equal in every epoch, so none is decoded from the second one on."""
    tables = write(tmp_path / "dataset", videos)
    dataset = fsp.datasets.lerobot(tmp_path / "dataset", camera=[TOP, WRIST], delta_timestamps=DELTAS)
    cache = fsp.Cache(disk=tmp_path / "clips", disk_size="1GiB")
    loader = fsp.ClipLoader(dataset, batch_size=8, shuffle=True, seed=2, index=False, cache=cache, num_threads=2)
    decoded = []
    for _ in range(3):
        rows = [row for batch in loader for row in check(batch, tables, videos, DELTAS)]
        assert sorted(rows) == list(range(sum(LENGTHS)))
        decoded.append(loader.stats()["frames_decoded"])
    assert 0 < decoded[0] == decoded[1] == decoded[2]


def test_defaults_one_camera_and_a_choice_of_episodes(tmp_path, videos):
    tables = write(tmp_path, videos)
    every = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
    assert every.cameras == [TOP, WRIST] and every.fps == FPS and len(every) == 3
    (batch,) = fsp.ClipLoader(every, batch_size=100, index=False)
    assert check(batch, tables, videos, {}) == list(range(42))
    assert batch[WRIST].shape == (42, 3, 68, 160) and batch.frames.shape == (42, 1, 3, 540, 960)
    assert "action" in batch and "language" not in batch
    one = fsp.datasets.lerobot(tmp_path, camera=[WRIST], episodes=[2, 0], delta_timestamps={"action": [0.0]})
    (batch,) = fsp.ClipLoader(one, batch_size=100, index=False)
    assert batch["index"].tolist() == [*range(18, 42), *range(17)] and batch["action"].shape == (41, 1, 3)
    assert batch["episode_index"].tolist() == [2] * 24 + [0] * 17
    with pytest.raises(fsp.errors.ArgumentError, match="has no 'observation.images.top'"):
        batch[TOP]


def test_version_2(tmp_path, videos):
    """Episodes of files of their own; the metadata lacks the rows of the episodes."""
    write(tmp_path, videos, "v2.1")
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={"action": [0.0, 1 / FPS]}, episodes=[0, 2])
    # A file has more frames than its episode here, so the clips are more than the rows.
    assert dataset._source.firsts == [0, 18] and len(dataset) == 2


def test_ranks_resuming_and_map_style(tmp_path, videos):
    write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps=DELTAS)

    def make(**more):
        return fsp.ClipLoader(dataset, batch_size=4, shuffle=True, seed=1, index=False, **more)

    rows = [row for rank in (0, 1) for batch in make(shard_id=rank, num_shards=2) for row in batch["index"].tolist()]
    assert set(rows) == set(range(42)) and len(rows) <= 44
    loader = make()
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    rest = [batch["index"].tolist() for batch in iterator]
    resumed = make()
    resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert [batch["index"].tolist() for batch in resumed] == rest
    other = fsp.datasets.lerobot(tmp_path, delta_timestamps={WRIST: [-1 / FPS, 0.0]})
    with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
        fsp.ClipLoader(other, batch_size=4, shuffle=True, seed=1, index=False).load_state_dict(state)
    batch = make()._clips(0, [(5, 0), (20, 0)])
    assert batch["index"].tolist() == [5, 20] and batch[WRIST].shape[0] == 2


def test_cameras_share_threads_and_memory(tmp_path, videos):
    write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps=DELTAS)
    cache = fsp.Cache(1000, device_memory="1MB", disk=tmp_path / "clips", disk_size="1GiB")
    each = fsp.ClipLoader(dataset, batch_size=1, num_threads=6, cache=cache, index=False)._settings["options"]
    assert [each[name] for name in ("num_threads", "memory_budget", "device_memory_budget")] == [3, 500, 500_000]
    assert each["clip_store"] == {"folder": str(tmp_path / "clips"), "bytes": 1 << 30, "epochs": 8}


def test_transforms(tmp_path, videos):
    """The same random numbers for all cameras; sizes that differ are lists, as without LeRobot."""
    write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
    T = fsp.transforms
    (batch,) = fsp.ClipLoader(
        dataset, batch_size=42, transforms=[T.Resize((32, 32)), T.RandomHorizontalFlip()], dtype="float32", index=False
    )
    assert batch[TOP].shape == batch[WRIST].shape == (42, 3, 32, 32) and batch[TOP].dtype == "float32"
    batch = next(
        iter(fsp.ClipLoader(dataset, batch_size=2, transforms=[T.RandomRotation(45, expand=True)], index=False))
    )
    assert isinstance(batch[WRIST], list)


def test_transforms_of_each_camera(tmp_path, videos):
    """A camera without a list keeps its frames."""
    write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
    T = fsp.transforms

    def load(transforms, **more):
        return fsp.ClipLoader(dataset, batch_size=5, transforms=transforms, shuffle=True, index=False, **more)

    def frames(transforms, camera, **more):
        return [batch[camera].tobytes() for batch in load(transforms, **more)]

    top, wrist = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()], [T.Resize((16, 24))]
    both = {TOP: top, WRIST: wrist}
    assert frames(both, TOP) == frames(top, TOP) and frames(both, WRIST) == frames(wrist, WRIST)
    assert frames({TOP: top}, WRIST) == frames(None, WRIST) and frames({TOP: top}, TOP) == frames(top, TOP)
    flips = {TOP: [T.RandomHorizontalFlip()]}
    assert next(iter(load(flips)))[TOP].shape == next(iter(load(None)))[TOP].shape
    state = load(both).state_dict()
    load(both).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="state"):
        load({TOP: top, WRIST: [T.Resize((16, 16))]}).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="no camera 'side'; there are"):
        load({"side": top})
    with pytest.raises(fsp.errors.ArgumentError, match="transforms"):
        fsp.ClipLoader(["a.mp4"], fsp.samplers.Indices([0]), batch_size=1, transforms=both)


@pytest.mark.parametrize(
    ("transforms", "shape"),
    [
        ([fsp.transforms.Normalize((0.5,) * 3, (0.5,) * 3)], (68, 160)),
        ([fsp.transforms.ColorJitter(0.4), fsp.transforms.RandomHorizontalFlip()], (68, 160)),
        ([fsp.transforms.Resize(16)], (16, 37)),
    ],
    ids=["normalize", "jitter", "resize"],
)
def test_stated_size_makes_batches_a_tensor(tmp_path, videos, transforms, shape):
    write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})

    def first(**more):
        keywords = {"batch_size": 2, "transforms": transforms, "dtype": "float32", "index": False, **more}
        return next(iter(fsp.ClipLoader(dataset, **keywords)))

    batch, apart = first(), first(collate="list")
    assert batch[WRIST].shape == (2, 3, *shape) and batch[TOP].shape[0] == 2
    assert isinstance(apart[WRIST], list)
    assert all(apart[WRIST][at].tobytes() == batch[WRIST][at].tobytes() for at in range(2))
    # The statement is wrong.
    path = tmp_path / "meta/info.json"
    info = json.loads(path.read_text())
    info["features"][WRIST]["shape"] = [64, 160, 3]
    path.write_text(json.dumps(info))
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
    with pytest.raises(fsp.errors.ArgumentError, match=f"{WRIST}: frames are 160x68, .* 160x64 .*file-000.mp4"):
        first()


def test_errors(tmp_path, videos):
    write(tmp_path, videos)
    for more, message in (
        ({"camera": [TOP, TOP]}, "list of different ones"),
        ({"camera": []}, "list of different ones"),
        ({"camera": [TOP, "other"]}, "no camera 'other'"),
        ({"delta_timestamps": {"speed": [0.0]}}, "no feature 'speed'; there are action"),
        ({"delta_timestamps": {"action": [0.05]}}, "0.05 s is no multiple of 1 / 30 s"),
        ({"delta_timestamps": {"action": [float("nan")]}}, "action"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.datasets.lerobot(tmp_path, **more)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps=DELTAS)
    with pytest.raises(fsp.errors.ArgumentError, match="omit clip_sampler"):
        fsp.ClipLoader(dataset, fsp.samplers.RandomClips(sequence_length=2), batch_size=2)
    with pytest.raises(fsp.errors.ArgumentError, match='several cameras need on_error="raise"'):
        fsp.ClipLoader(dataset, batch_size=2, on_error="skip")
    with pytest.raises(fsp.errors.ArgumentError, match="would count the frames of one camera only"):
        fsp.ClipLoader(dataset, batch_size=fsp.PixelBudget(10**6))
    episodes = fsp.datasets.lerobot(tmp_path, camera=TOP)
    for join in (
        lambda: dataset + episodes,
        lambda: episodes + dataset,
        lambda: fsp.datasets.mix((dataset, 1), (episodes, 2)),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=r"frames of .* and datasets of videos cannot be joined"):
            join()
    assert len(episodes + episodes) == 2 * len(episodes)
    with pytest.raises(fsp.errors.ArgumentError, match="clip_sampler is missing"):
        fsp.ClipLoader([str(videos / "derived/base_640x360.mp4")], batch_size=2)


def test_metadata_that_contradicts_the_files(tmp_path, videos):
    tables = write(tmp_path, videos)
    path = tmp_path / "meta/info.json"
    info = json.loads(path.read_text())

    def fails(message: str, **features) -> None:
        path.write_text(json.dumps(info | {"features": info["features"] | features}))
        dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            next(iter(fsp.ClipLoader(dataset, batch_size=2, index=False)))

    fails(f"{TOP}: frames are 960x540, but info.json says 640x480", **{TOP: {"dtype": "video", "shape": [480, 640, 3]}})
    fails("action has 3 numbers, info.json says 5", action={"dtype": "float32", "shape": [5]})
    fails("no column 'torque'|torque", torque={"dtype": "float32", "shape": [1]})
    path.write_text(json.dumps(info))
    (tmp_path / "data/chunk-000/file-001.parquet").unlink()
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps={})
    with pytest.raises(fsp.errors.ArgumentError, match="the tables have 20 rows, but not all of rows 18 to 42 of"):
        list(fsp.ClipLoader(dataset, batch_size=50, index=False))
    (tmp_path / "data/chunk-000/file-000.parquet").unlink()
    arrays = pa.table({name: pa.array(each[20:].tolist()) for name, each in tables.items()})
    pq.write_table(arrays, tmp_path / "data/chunk-000/file-001.parquet")
    with pytest.raises(fsp.errors.ArgumentError, match="index is 20, expected 0: files are missing"):
        list(fsp.ClipLoader(fsp.datasets.lerobot(tmp_path, delta_timestamps={}), batch_size=50, index=False))


def test_in_a_data_loader(tmp_path, videos):
    """Batches and single frames in PyTorch's DataLoader, with worker processes."""
    torch = pytest.importorskip("torch")
    from framespool.torch import ClipDataset, VideoDataset

    tables = write(tmp_path, videos)
    dataset = fsp.datasets.lerobot(tmp_path, delta_timestamps=DELTAS)
    frames = VideoDataset(dataset, index=False)
    assert len(frames) == 42
    batches = torch.utils.data.DataLoader(frames, batch_size=8, shuffle=True, num_workers=2)
    rows = []
    for batch in batches:
        columns = batch["columns"]
        rows += columns["index"].tolist()
        for place, row in enumerate(columns["index"].tolist()):
            item = right(tables, videos, row, DELTAS)
            assert columns["task"][place] == item.pop("task")
            assert all(np.array_equal(columns[name][place].numpy(), value) for name, value in item.items())
    assert sorted(rows) == list(range(42))
    inside = ClipDataset(dataset, batch_size=8, shuffle=True, index=False)
    rows = [
        row
        for batch in torch.utils.data.DataLoader(inside, batch_size=None, num_workers=2)
        for row in batch["columns"]["index"].tolist()
    ]
    assert sorted(rows) == list(range(42))


DEPTH = "observation.depth"
SIZE = (48, 64)


def depth_of(row: int) -> np.ndarray:
    """Meters, (H, W) float64; the first frames have all of 0 to 10 m."""
    y, x = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    return (x * SIZE[0] + y) / (SIZE[0] * SIZE[1]) * 9.9 / (1 + row / 20) + 0.02


def write_depth(root: Path, encoder: str, codes: np.ndarray, encoding: str, info: dict) -> None:
    """A dataset whose camera has these codes as luma, (N, H, W) uint16, with chroma that is not neutral."""
    stored = "gray16le" if "gray" in encoding else "yuv420p12le"
    planes = [codes]
    if stored == "yuv420p12le":
        planes += [np.full((len(codes), SIZE[0] // 2, SIZE[1] // 2), value, np.uint16) for value in (700, 3000)]
    data = b"".join(plane[n].tobytes() for n in range(len(codes)) for plane in planes)
    size = f"{SIZE[1]}x{SIZE[0]}"
    source = ["-f", "rawvideo", "-pix_fmt", stored, "-s", size, "-r", str(FPS), "-i", "-"]
    video = root.with_suffix(".mov")
    subprocess.run([encoder, "-v", "error", *source, *encoding.split(), video], input=data, check=True)
    write(root, root.parent, cameras={DEPTH: (video.name, SIZE)})
    path = root / "meta/info.json"
    said = json.loads(path.read_text())
    said["features"][DEPTH]["info"] = {"is_depth_map": True} | info
    path.write_text(json.dumps(said))


RANGES = {
    "log": {"video.depth_min": 0.01, "video.depth_max": 10.0, "video.shift": 3.5, "video.use_log": True},
    "linear": {"video.depth_min": 0.0, "video.depth_max": 10.0, "video.shift": 0.0, "video.use_log": False},
}


def quantized(meters: np.ndarray, info: dict) -> np.ndarray:
    """Codes of LeRobot 0.6 (`quantize_depth`)."""
    low, high, shift, use_log = info.values()
    place = np.log([low + shift, high + shift, *(meters + shift).ravel()]) if use_log else [low, high, *meters.ravel()]
    low, high, place = place[0], place[1], np.asarray(place[2:]).reshape(meters.shape)
    return np.rint((place - low) / (high - low) * 4095).clip(0, 4095).astype(np.uint16)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("range_", RANGES)
def test_depth_of_12_bits_is_in_meters(tmp_path, encoder, range_, dtype):
    info, meters = RANGES[range_], np.stack([depth_of(row) for row in range(sum(LENGTHS))])
    codes = quantized(meters, info)
    assert codes.min() < 150 and codes.max() > 3900, "beyond the limited range"
    write_depth(tmp_path / "dataset", encoder, codes, "-c:v ffv1 -color_range tv", info)
    dataset = fsp.datasets.lerobot(tmp_path / "dataset", delta_timestamps={DEPTH: [0.0, 1 / FPS]})
    loader = fsp.ClipLoader(dataset, batch_size=7, dtype=dtype, index=False)
    for batch in loader:
        frames = batch[DEPTH]
        assert frames.shape == (7, 2, 3, *SIZE)
        found = dataset.depth[DEPTH].meters(frames)
        assert found.dtype == np.float32 and found.shape == (7, 2, 1, *SIZE)
        torch = pytest.importorskip("torch")
        tensor = dataset.depth[DEPTH].meters(frames.torch())
        assert tensor.dtype == torch.float32 and np.abs(tensor.numpy() - found).max() < 1e-5
        for place, row in enumerate(batch["index"].tolist()):
            low, high, shift, use_log = info.values()
            exact = codes[row] / 4095
            if use_log:
                exact = np.exp(exact * np.log((high + shift) / (low + shift)) + np.log(low + shift)) - shift
            else:
                exact = exact * (high - low) + low
            assert np.abs(found[place, 0, 0] - exact).max() < 1e-5
            assert np.abs(found[place, 0, 0] - meters[row]).max() < 0.003


def test_depth_of_16_bits_is_in_meters(tmp_path, encoder):
    meters = np.stack([depth_of(row) for row in range(sum(LENGTHS))])
    codes = np.rint(meters * 1000).astype(np.uint16)
    info = {"video.pix_fmt": "gray16le"}
    write_depth(tmp_path / "dataset", encoder, codes, "-c:v ffv1 -pix_fmt gray16le", info)
    dataset = fsp.datasets.lerobot(tmp_path / "dataset", delta_timestamps={})
    loader = fsp.ClipLoader(dataset, batch_size=7, dtype="uint16", layout="NTHWC", index=False)
    for batch in loader:
        found = dataset.depth[DEPTH].meters(batch[DEPTH], channel_dim=-1)
        for place, row in enumerate(batch["index"].tolist()):
            assert np.abs(found[place, ..., 0] * 1000 - codes[row]).max() < 2.5


@pytest.mark.parametrize("layout", ["NTCHW", "NTHWC", "NCTHW"])
def test_depth_in_every_layout_with_transforms_for_colors(tmp_path, encoder, layout):
    torchvision = pytest.importorskip("torchvision.transforms.v2")
    codes = quantized(np.stack([depth_of(row) for row in range(sum(LENGTHS))]), RANGES["log"])
    write_depth(tmp_path / "dataset", encoder, codes, "-c:v ffv1", RANGES["log"])
    dataset = fsp.datasets.lerobot(tmp_path / "dataset", delta_timestamps={})
    for transforms in (
        None,
        [fsp.transforms.AssumeColor(matrix="bt709"), fsp.transforms.Resize(SIZE)],
        torchvision.Compose([torchvision.Resize(SIZE)]),
    ):
        options = {"dtype": "uint16", "layout": layout, "transforms": transforms, "index": False}
        batch = next(iter(fsp.ClipLoader(dataset, batch_size=3, **options)))
        frames = batch[DEPTH]
        channels = -1 if layout == "NTHWC" else -3
        assert frames.shape == ((3, *SIZE, 3) if layout == "NTHWC" else (3, 3, *SIZE))
        found = dataset.depth[DEPTH].meters(frames, channel_dim=channels)
        exact = [dataset.depth[DEPTH].meters((codes[row] / np.float32(4095))[None]) for row in batch["index"].tolist()]
        assert np.abs(np.moveaxis(found, channels, 1) - np.stack(exact)).max() < 1e-5
        wrong = -3 if layout == "NTHWC" else -1
        with pytest.raises(fsp.errors.ArgumentError, match="have no channels in dimension"):
            dataset.depth[DEPTH].meters(frames, channel_dim=wrong)
        assert len(dataset.depth[DEPTH].meters([frames[0], frames[1]], channel_dim=channels)) == 2


def test_depth_of_some_datasets_only_is_refused(tmp_path, videos, encoder):
    codes = np.zeros((sum(LENGTHS), *SIZE), np.uint16)
    write_depth(tmp_path / "one", encoder, codes, "-c:v ffv1", RANGES["log"])
    write_depth(tmp_path / "two", encoder, codes, "-c:v ffv1", {"is_depth_map": False})
    parts = [fsp.datasets.lerobot(tmp_path / name, delta_timestamps={}) for name in ("one", "two")]
    with pytest.raises(fsp.errors.ArgumentError, match="depth camera with a stated range in some of the datasets only"):
        fsp.ClipLoader(fsp.datasets.mix((parts[0], 1), (parts[1], 1)), batch_size=2, dtype="uint16")
    with pytest.warns(UserWarning, match=f"^{DEPTH} is a depth map, whose frames are colors in a dataset of videos"):
        fsp.datasets.lerobot(tmp_path / "one", camera=DEPTH)


@pytest.mark.parametrize("wrong", [{"video.depth_max": 0}, {"video.depth_min": "near"}, {"video.shift": -1}])
def test_a_wrong_range_of_depth_names_the_file(tmp_path, encoder, wrong):
    codes = np.zeros((sum(LENGTHS), *SIZE), np.uint16)
    write_depth(tmp_path / "dataset", encoder, codes, "-c:v ffv1", RANGES["log"] | wrong)
    with pytest.raises(fsp.errors.ArgumentError, match=r"^meta/info\.json: the range of depth"):
        fsp.datasets.lerobot(tmp_path / "dataset", delta_timestamps={})


def test_depth_that_a_loader_would_cut_is_reported(tmp_path, videos, encoder):
    codes = np.zeros((sum(LENGTHS), *SIZE), np.uint16)
    write_depth(tmp_path / "dataset", encoder, codes, "-c:v ffv1", RANGES["log"])
    dataset = fsp.datasets.lerobot(tmp_path / "dataset", delta_timestamps={})
    with pytest.warns(UserWarning, match=f"^{DEPTH} is a depth camera, whose codes uint8 does not keep"):
        batch = next(iter(fsp.ClipLoader(dataset, batch_size=2, index=False)))
    with pytest.raises(fsp.errors.ArgumentError, match="uint16 or float32, got uint8"):
        dataset.depth[DEPTH].meters(batch[DEPTH])
    with pytest.raises(fsp.errors.ArgumentError, match="depth_min must be less than depth_max"):
        fsp.datasets.DepthCodes(3, 2)
    write(tmp_path / "unknown", videos)
    path = tmp_path / "unknown/meta/info.json"
    info = json.loads(path.read_text())
    info["features"][WRIST]["info"] = {"video.is_depth_map": True, "video.pix_fmt": "yuv420p12le"}
    info["features"][TOP]["info"] = {"video.is_depth_map": False}
    path.write_text(json.dumps(info))
    with pytest.warns(UserWarning, match=rf"^{WRIST} is a depth map, but meta/info.json states no range of depth"):
        fsp.datasets.lerobot(tmp_path / "unknown", delta_timestamps={})
    fsp.datasets.lerobot(tmp_path / "unknown", camera=[TOP])
