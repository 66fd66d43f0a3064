"""`FeatureLoader`: the batches of its loader, with results in place of frames, and less decoding."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from pathlib import Path
from typing import Any

import framespool as fsp
import pytest

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore:.*workers:UserWarning", "ignore::DeprecationWarning")

import framespool.torch  # noqa: E402
from framespool.torch import FeatureCache, FeatureLoader, TorchLoader  # noqa: E402
from processes import exit_code  # noqa: E402

UNIFORM = fsp.samplers.UniformClips(sequence_length=4)
VIEWS = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
RESIZE = fsp.transforms.Resize((8, 12))


def make(dataset: Any, sampler: Any = UNIFORM, **keywords: Any) -> fsp.ClipLoader:
    own = {"batch_size": 4, "shuffle": "full", "seed": 3, "transforms": [RESIZE], "dtype": "float32", **keywords}
    return fsp.ClipLoader(dataset, sampler, **own)


def open_cache(folder: Path, **keywords: Any) -> FeatureCache:
    return FeatureCache(folder, **{"name": "encoder", "version": 1, "size": "1GiB", **keywords})


def encode(frames: Any) -> Any:
    """Tensors of two dtypes; depends on every element of a clip, and on no other clip."""
    clips = [clip.double() for clip in frames]
    weights = [torch.arange(clip.numel(), dtype=torch.float64).reshape(clip.shape).cos() for clip in clips]
    sums = [(clip * weight).sum() for clip, weight in zip(clips, weights, strict=True)]
    return {
        "sum": torch.stack(sums) if sums else torch.zeros(0, dtype=torch.float64),
        "first": [clip.flatten()[:3].to(torch.bfloat16) for clip in clips],
    }


def plain(value: Any) -> Any:
    """Tensors as lists, so that batches can be compared; NaN as text."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), tuple(value.shape), str(value.tolist())]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def expected(loader: Any, function: Any = encode) -> list[Any]:
    """What a FeatureLoader over this loader has to deliver in the next epoch."""
    batches = []
    for batch in TorchLoader(loader):
        frames = batch.pop("frames" if "frames" in batch else "images")
        batches.append(plain({**batch, "features": function(frames)}))
    return batches


def delivered(batches: FeatureLoader) -> tuple[list[Any], int]:
    """The batches of the next epoch, and the frames decoded for it."""
    before = batches.stats()["frames_decoded"]
    return [plain(batch) for batch in batches], batches.stats()["frames_decoded"] - before


LOADERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "full": (UNIFORM, {}),
    "in order": (UNIFORM, {"shuffle": False, "num_threads": 4}),
    "grouped": (VIEWS, {"shuffle": "grouped", "batch_size": 5}),
    "fill": (VIEWS, {"last_batch": "fill", "batch_size": 7}),
    "drop": (VIEWS, {"last_batch": "drop", "batch_size": 7}),
    "repeats": (UNIFORM, {"repeats": 3}),
    "sampler": (VIEWS, {"shuffle": [5, 1, 7, 5, 30, 38, 5], "batch_size": 2}),
    "uint8 last": (UNIFORM, {"dtype": "uint8", "layout": "NTHWC"}),
    "views": (UNIFORM, {"transforms": [RESIZE, fsp.transforms.ThreeCrop((8, 8))]}),
    "mask": (UNIFORM, {"transforms": [RESIZE, fsp.transforms.TubeMask(0.5, patch=(2, 4, 4))]}),
    "list": (UNIFORM, {"collate": "list"}),
    "blank": (fsp.samplers.Windows(sequence_length=60, stride=1, padding="blank"), {}),
    "no lookahead": (VIEWS, {"cache": fsp.Cache(0, lookahead=0), "prefetch_batches": 0}),
    "shards": (VIEWS, {"num_shards": fsp.options.Shards(2, stick_to_shard=True), "shard_id": 1}),
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches_are_those_of_the_loader(name, tiny_clips, tmp_path):
    sampler, keywords = LOADERS[name]
    loader, other = make(tiny_clips, sampler, **keywords), make(tiny_clips, sampler, **keywords)
    batches = FeatureLoader(loader, open_cache(tmp_path), encode)
    counts = []
    for epoch in range(3):
        found, decoded = delivered(batches)
        assert found == expected(other), epoch
        counts.append(decoded)
    assert counts[0] > 0
    # With last_batch="drop" each epoch omits others.
    assert name == "drop" and counts[1] < counts[0] or counts[1:] == [0, 0]
    assert batches.stats()["clips"] == 3 * sum(len(batch["labels"][2].split(",")) for batch in found)


def test_clips_of_different_sizes_budgets_weights_and_images(tiny_clips, photos, videos, tmp_path):
    sizes = [*tiny_clips[:4], (str(videos / "action" / "phone_176x144.mp4"), 5)]
    weighted = fsp.datasets.weighted(fsp.datasets.Dataset(tiny_clips), [1.0, 3.0] * 6 + [2.0], epoch_clips=20)
    short = {"transforms": [fsp.transforms.Resize(8)]}
    budget = {**short, "collate": "list", "batch_size": fsp.PixelBudget(pixels=1000)}
    loaders = {
        "sizes": lambda: make(sizes, **short),
        "budget": lambda: make(sizes, **budget),
        "weights": lambda: make(weighted),
        "images": lambda: fsp.ImageLoader(photos[:7], batch_size=3, shuffle="full", transforms=[RESIZE]),
    }
    for name, loader in loaders.items():
        batches, other = FeatureLoader(loader(), open_cache(tmp_path / name), encode), loader()
        counts = []
        for _ in range(4):
            found, decoded = delivered(batches)
            assert found == expected(other), name
            counts.append(decoded)
        assert counts[0] > 0 and (counts[-1] == 0 or name == "weights"), name


def test_other_runs_and_ranks_decode_nothing(tiny_clips, tmp_path):
    """Two ranks find what either of them has computed, in other epochs, orders and numbers of ranks."""
    for rank in range(2):
        delivered(FeatureLoader(make(tiny_clips, VIEWS, num_shards=2, shard_id=rank), open_cache(tmp_path), encode))
    for rank in range(3):
        keywords = {"num_shards": 3, "shard_id": rank, "seed": 8, "shuffle": "grouped", "batch_size": 2}
        loader, other = (make(tiny_clips, VIEWS, **keywords) for _ in range(2))
        batches = FeatureLoader(loader, open_cache(tmp_path), encode)
        for _ in range(2):
            found, decoded = delivered(batches)
            assert found == expected(other) and decoded == 0


def test_a_run_resumes_within_an_epoch(tiny_clips, tmp_path):
    whole = [expected(loader) for loader in [make(tiny_clips, VIEWS)] for _ in range(2)]
    batches = FeatureLoader(make(tiny_clips, VIEWS), open_cache(tmp_path), encode)
    iterator = iter(batches)
    found = [plain(next(iterator)) for _ in range(4)]
    state = batches.state_dict()
    assert state == make_state(tiny_clips, 4)
    resumed = FeatureLoader(make(tiny_clips, VIEWS), open_cache(tmp_path), encode)
    resumed.load_state_dict(state)
    assert len(resumed) == len(whole[0]) and resumed.epoch == 0
    rest, decoded = delivered(resumed)
    assert found + rest == whole[0] and decoded > 0
    # A state of the end, in the same loader; and an epoch that is chosen.
    assert delivered(resumed) == (whole[1], 0)
    resumed.set_epoch(0)
    assert delivered(resumed) == (whole[0], 0)


def make_state(dataset: Any, count: int) -> dict[str, Any]:
    loader = make(dataset, VIEWS)
    iterator = iter(loader)
    for _ in range(count):
        next(iterator)
    return loader.state_dict()


def test_a_restored_iterator_still_decodes_nothing(tiny_clips, tmp_path):
    """Lightning loads a state after it has created the iterator."""
    batches = FeatureLoader(make(tiny_clips), open_cache(tmp_path), encode)
    first, _ = delivered(batches)
    state = make_state(tiny_clips, 0) | FeatureLoader(make(tiny_clips), open_cache(tmp_path), encode).state_dict()
    before = batches.stats()["frames_decoded"]
    iterator = iter(batches)
    batches.loader._load({**state, "batch": 2})
    assert [plain(batch) for batch in iterator] == first[2:]
    assert batches.stats()["frames_decoded"] == before


def changed(name: str, dataset: list[Any], folder: Path) -> tuple[fsp.ClipLoader, FeatureCache]:
    """A loader and a cache that differ in one thing."""
    keywords: dict[str, dict[str, Any]] = {
        "transform": {"transforms": [fsp.transforms.Resize((10, 14)), fsp.transforms.CenterCrop((8, 12))]},
        "size": {"transforms": [fsp.transforms.Resize((8, 10))]},
        "interpolation": {"transforms": [fsp.transforms.Resize((8, 12), interpolation="nearest")]},
        "dtype": {"dtype": "float16"},
        "layout": {"layout": "NTHWC"},
    }
    samplers = {"indices": fsp.samplers.UniformClips(sequence_length=4, stride=2)}
    caches: dict[str, dict[str, Any]] = {"name": {"name": "other"}, "version": {"version": 2}}
    path = Path(dataset[0][0])
    if name == "mtime":
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    elif name == "content":
        shutil.copyfile(dataset[1][0], path)
    elif name == "replaced":
        shutil.copy(path, f"{path}.new")
        os.replace(f"{path}.new", path)
    elif name == "longer":
        path.write_bytes(path.read_bytes() + b"\0")
    loader = make(dataset, samplers.get(name, UNIFORM), **keywords.get(name, {}))
    return loader, open_cache(folder / "cache", **caches.get(name, {}))


ALL = ["transform", "size", "interpolation", "dtype", "layout", "indices", "name", "version"]


@pytest.mark.parametrize("name", [*ALL, "mtime", "content", "replaced", "longer", "nothing"])
def test_what_determines_a_result_is_part_of_its_key(name, tiny_clips, tmp_path):
    """A change is computed again; no result of anything else is delivered for it."""
    dataset = [(str(tmp_path / f"{number}.mkv"), label) for number, (_, label) in enumerate(tiny_clips[:3])]
    for (copy, _), (path, _) in zip(dataset, tiny_clips, strict=False):
        shutil.copy(path, copy)
    cache = open_cache(tmp_path / "cache")
    delivered(FeatureLoader(make(dataset), cache, encode))
    assert cache.stats()["computed"] == 3
    loader, cache = changed(name, dataset, tmp_path)
    found, decoded = delivered(FeatureLoader(loader, cache, encode))
    loader.set_epoch(0)
    assert found == expected(loader)
    number = 3 if name in ALL else 0 if name == "nothing" else 1
    assert cache.stats()["computed"] == number and (decoded > 0) == (number > 0)


def test_random_clips_and_transforms(tiny_clips, tmp_path):
    """Random clips are found if their frames are those of an earlier one; random transforms in another run only."""
    videos = [path for path, _ in tiny_clips[:4]]
    few = fsp.datasets.Dataset([fsp.datasets.VideoSegment(path, start_frame=0, end_frame=7) for path in videos])
    keywords = {"sampler": fsp.samplers.RandomClips(sequence_length=4), "batch_size": 2}
    loader, other = make(few, **keywords), make(few, **keywords)
    cache = open_cache(tmp_path / "clips")
    batches = FeatureLoader(loader, cache, encode)
    for _ in range(12):
        assert delivered(batches)[0] == expected(other)
    # 4 starts of each of 4 videos.
    assert 12 <= cache.stats()["computed"] <= 16
    keywords = {**keywords, "transforms": [fsp.transforms.RandomResizedCrop(8)], "repeats": 2}
    for run in range(2):
        cache = open_cache(tmp_path / "crops")
        batches, other = FeatureLoader(make(few, **keywords), cache, encode), make(few, **keywords)
        for _ in range(2):
            found, decoded = delivered(batches)
            assert found == expected(other) and (decoded > 0) == (run == 0)
        assert cache.stats()["computed"] == 2 * 8 * (run == 0)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_files_that_fail(on_error, batch_size, tiny_clips, bad_file, tmp_path):
    """Batches are those of the loader, which is also one of other clips if all of a batch fail."""
    late = tmp_path / "late.mkv"  # opens, and fails while it is decoded
    late.write_bytes(Path(tiny_clips[2][0]).read_bytes()[:-3000])
    dataset = [*tiny_clips[:4], (bad_file, 7), (str(late), 8), (str(tmp_path / "none.mp4"), 9)]
    keywords = {"on_error": on_error, "batch_size": batch_size, "index": False}
    loader, other = make(dataset, **keywords), make(dataset, **keywords)
    batches = FeatureLoader(loader, open_cache(tmp_path / "cache"), encode)
    for _ in range(4):
        assert delivered(batches)[0] == expected(other)
    for name in ("clips_skipped", "clips_replaced", "clips", "batches"):
        assert batches.stats()[name] == other.stats()[name], name


def test_an_error_replaces_one_batch(tiny_clips, bad_file, tmp_path):
    loader = make([*tiny_clips[:5], (bad_file, 7)], shuffle=False, batch_size=2)
    batches = FeatureLoader(loader, open_cache(tmp_path), encode)
    for _ in range(2):
        iterator, found = iter(batches), []
        for _ in range(3):
            try:
                found.append(len(next(iterator)["labels"]))
            except fsp.Error as error:
                found.append(Path(str(error.file)).name)
        assert found == [2, 2, "broken.mp4"] and next(iterator, None) is None


def test_an_error_of_the_function_is_raised_in_place_of_the_batch(tiny_clips, tmp_path):
    def fail(frames: Any) -> Any:
        if len(calls := [*calls_made, 1]) == 2:
            calls_made[:] = calls
            raise KeyError("model")
        calls_made[:] = calls
        return frames.mean((2, 3, 4))

    calls_made: list[int] = []
    batches = FeatureLoader(make(tiny_clips, shuffle=False), open_cache(tmp_path), fail)
    iterator, found = iter(batches), []
    for _ in range(4):
        try:
            found.append(next(iterator)["clip_ids"].tolist())
        except KeyError:
            found.append([])
    assert found == [[0, 1, 2, 3], [], [8, 9, 10, 11], [12]]
    assert sum(len(batch["labels"]) for batch in batches) == 13 and batches.stats()["batches"] == 8


@pytest.mark.parametrize("damage", ["delete", "flip", "cut"])
@pytest.mark.parametrize("collate", ["auto", "list"])
def test_results_that_disappear_are_computed_again(damage, collate, tiny_clips, tmp_path):
    """After the epoch has started: the clips are decoded for their batch. Before it: as those that never had one."""
    keywords = {"collate": collate, "repeats": 2}
    transforms = [RESIZE, fsp.transforms.RandomHorizontalFlip()]
    loader, other = (make(tiny_clips, transforms=transforms, **keywords) for _ in range(2))
    cache = open_cache(tmp_path)
    batches, first = FeatureLoader(loader, cache, encode), expected(other)
    assert delivered(batches)[0] == first
    for when in ("within", "before"):
        loader.set_epoch(0)
        before = batches.stats()["frames_decoded"]
        iterator = iter(batches)
        found = [plain(next(iterator))]
        if when == "before":
            loader.set_epoch(0)
        for path in tmp_path.rglob("*.values"):
            content = path.read_bytes()
            middle = len(content) // 2
            if damage == "delete":
                path.unlink()
            elif damage == "cut":
                path.write_bytes(content[:middle])
            else:
                path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        if when == "before":
            iterator, found = iter(batches), []
        assert found + [plain(batch) for batch in iterator] == first, when
        if when == "within":
            assert batches.stats()["frames_decoded"] == before, "what is decoded alone does not count"
        elif damage == "delete":
            assert batches.stats()["frames_decoded"] > before
    assert cache.stats()["computed"] > 26
    loader.set_epoch(0)
    assert delivered(batches) == (first, 0)


@pytest.mark.parametrize("collate", ["auto", "list"])
def test_clips_that_are_decoded_alone_keep_their_rows(collate, tiny_clips, tmp_path):
    """Batches of which some clips have a result, which disappears, and others never had one."""
    odd = make(tiny_clips, shuffle=[9, 1, 3, 11, 5, 7])
    delivered(FeatureLoader(odd, open_cache(tmp_path), encode))
    loader, other = (make(tiny_clips, collate=collate, shuffle=False) for _ in range(2))
    cache = open_cache(tmp_path)
    batches = FeatureLoader(loader, cache, encode)
    iterator = iter(batches)
    found = [plain(next(iterator))]
    assert cache.stats()["found"] == 2
    shutil.rmtree(tmp_path)
    assert found + [plain(batch) for batch in iterator] == expected(other)
    assert cache.stats()["found"] == 2 and cache.stats()["computed"] == 11


def test_a_changed_file_whose_result_disappears_is_an_error(tiny_clips, tmp_path):
    copy = tmp_path / "copy.mkv"
    shutil.copy(tiny_clips[0][0], copy)
    loader = make([str(copy)], batch_size=1)
    batches = FeatureLoader(loader, open_cache(tmp_path / "cache"), encode)
    delivered(batches)
    made = next(batches._start())  # without frames
    shutil.rmtree(tmp_path / "cache")
    shutil.copy(tiny_clips[1][0], copy)
    with pytest.raises(fsp.errors.ReadError, match=r"copy.mkv: a file has changed or fails since .* deleted from Fea"):
        batches._placed(made)


def test_the_loader_alone_delivers_frames(tiny_clips, tmp_path):
    """Also while and after a FeatureLoader uses it."""
    loader, other = make(tiny_clips), make(tiny_clips)
    batches = FeatureLoader(loader, open_cache(tmp_path), encode)
    frames = [[batch["frames"] for batch in TorchLoader(other)] for _ in range(4)]

    def assert_frames(epoch: int, found: list[Any]) -> None:
        assert all(torch.equal(one, other) for one, other in zip(found, frames[epoch], strict=True))

    assert_frames(0, [batch["frames"] for batch in TorchLoader(loader)])
    delivered(batches)
    assert_frames(2, [batch["frames"] for batch in TorchLoader(loader)])
    iterator = iter(batches)
    next(iterator)
    assert torch.equal(loader.batch(epoch=3, index=2).torch().frames, frames[3][2])
    loader.set_epoch(3)
    assert_frames(3, [batch.torch().frames for batch in loader])
    with pytest.raises(fsp.errors.CancelledError, match="a newer iterator"):
        next(iterator)
    loader.set_epoch(2)
    assert_frames(2, [batch.torch().frames for batch in loader.cached_batches(4)])
    copy = pickle.loads(pickle.dumps(loader.batch(epoch=3, index=0)))
    assert torch.equal(copy.torch().frames, frames[3][0])


def test_files_on_two_caches_and_a_disk_cache(tiny_clips, tmp_path):
    """A disk cache of frames, and a second function on the same folder."""
    disk = fsp.Cache(disk=tmp_path / "clips", disk_size="1GiB", epochs=2)
    other = make(tiny_clips)
    for function, name in ((encode, "one"), (lambda frames: frames.amax((1, 3, 4)), "two")):
        loader = make(tiny_clips, cache=disk)
        batches = FeatureLoader(loader, open_cache(tmp_path / "features", name=name), function)
        for epoch in range(3):
            found, decoded = delivered(batches)
            other.set_epoch(epoch)
            assert found == expected(other, function)
            assert (decoded > 0) == (name == "one" and epoch == 0)


def test_a_full_folder_decodes_what_it_lacks(tiny_clips, tmp_path):
    loader, other = make(tiny_clips), make(tiny_clips)
    cache = open_cache(tmp_path, size=2000)
    batches, counts = FeatureLoader(loader, cache, encode), []
    with pytest.warns(UserWarning, match="are not stored in .*: it has reached its size of 2000 bytes"):
        for _ in range(3):
            found, decoded = delivered(batches)
            assert found == expected(other)
            counts.append(decoded)
    assert 0 < counts[1] == counts[2] < counts[0]


def test_videos_in_memory_are_decoded_each_time(tiny_clips, tmp_path):
    dataset = [Path(tiny_clips[0][0]).read_bytes(), tiny_clips[1][0]]
    cache = open_cache(tmp_path)
    batches = FeatureLoader(make(dataset, shuffle=False), cache, encode)
    counts = [delivered(batches)[1] for _ in range(3)]
    assert counts[0] > counts[1] == counts[2] > 0 and cache.stats()["computed"] == 4


def in_child(run: Any) -> int:
    """Runs a function in a process of its own, which has PyTorch already, and returns the process's number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    return child


def test_processes_that_are_killed_and_processes_at_once(tiny_clips, tmp_path):
    """What a killed process has stored is found; two processes that share a folder deliver the right batches."""
    torch.set_num_threads(1)  # a forked process has no threads of PyTorch
    ours, theirs = os.pipe()

    def train() -> None:
        for _ in FeatureLoader(make(tiny_clips, VIEWS, batch_size=2), open_cache(tmp_path), encode):
            os.write(theirs, b"x")

    child = in_child(train)
    os.close(theirs)
    for _ in range(5):
        assert os.read(ours, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ours)
    whole = [expected(loader) for loader in [make(tiny_clips, VIEWS)] for _ in range(2)]

    def check() -> None:
        cache = open_cache(tmp_path)
        batches = FeatureLoader(make(tiny_clips, VIEWS), cache, encode)
        assert [delivered(batches)[0] for _ in range(2)] == whole
        assert cache.stats()["computed"] <= 39 - 10 and cache.stats()["damaged"] == 0

    assert list(map(exit_code, [in_child(check), in_child(check)])) == [0, 0]
    batches = FeatureLoader(make(tiny_clips, VIEWS), open_cache(tmp_path), encode)
    assert delivered(batches) == (whole[0], 0)


def test_results_that_disappear_from_buckets(tiny_clips, tmp_path):
    """The function gets tensors also where all clips of a batch were known."""
    kinds = []

    def mean(frames):
        kinds.append(type(frames))
        return frames.float().mean(dim=(1, 3, 4))

    loader = fsp.ClipLoader(
        tiny_clips,
        fsp.samplers.UniformClips(sequence_length=4),
        batch_size=2,
        buckets=fsp.Buckets(sizes=[(16, 24), (24, 16)]),
        index=False,
    )
    batches = FeatureLoader(loader, open_cache(tmp_path), mean)
    first = [batch["features"].tolist() for batch in batches]
    second = iter(batches)
    for file in tmp_path.glob("**/*.values"):
        file.unlink()
    again = [batch["features"].tolist() for batch in second]
    assert again == first and len(kinds) > len(first) and set(kinds) == {torch.Tensor}


def test_frames_of_cameras_are_refused(videos, tmp_path):
    """They are columns of the batch, also if there is one camera, and would lack rows."""
    lerobot_writer = pytest.importorskip("lerobot_writer")
    root = tmp_path / "robot"
    lerobot_writer.write(root, videos)
    dataset = fsp.datasets.lerobot(root, camera=lerobot_writer.TOP, delta_timestamps={lerobot_writer.TOP: [0.0]})
    loader = fsp.ClipLoader(dataset, batch_size=2, transforms=[RESIZE])
    with pytest.raises(fsp.errors.ArgumentError, match="its batches have cameras or masks"):
        FeatureLoader(loader, open_cache(tmp_path), encode)


def test_arguments(tiny_clips, photos, tmp_path):
    cache, files = open_cache(tmp_path), tiny_clips[:2]
    masks = fsp.ImageLoader(photos[:2], masks=photos[:2], batch_size=1, transforms=[RESIZE])
    for loader, said in [
        (make(files, transforms=[RESIZE, fsp.transforms.MixUp(13)]), "a function among its transforms changes"),
        (make(files, transforms=[RESIZE, lambda frames: frames]), "a function among its transforms changes"),
        (make(files, VIEWS, group_clips=True), "it has group_clips=True"),
        (make(files, collate="pad"), 'it has collate="pad"'),
        (masks, "its batches have cameras or masks"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=f"{said}.* or call cache.get_or_compute"):
            FeatureLoader(loader, cache, encode)
    for arguments, said in [
        ((files, cache, encode), "loader must be a ClipLoader or an ImageLoader"),
        ((make(files), tmp_path, encode), "cache must be a framespool.torch.FeatureCache"),
        ((make(files), cache, None), "function must be callable, got None"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            FeatureLoader(*arguments)
