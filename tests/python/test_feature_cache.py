"""`FeatureCache`: the same results with less computing, regardless of what happens to its files."""

from __future__ import annotations

import os
import pickle
import random
import resource
import shutil
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import framespool as fsp
import pytest

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore:.*workers:UserWarning", "ignore::DeprecationWarning")

import framespool.torch  # noqa: E402
from framespool.torch import ClipDataset, FeatureCache, TorchLoader, VideoDataset, _feature_store  # noqa: E402
from processes import exit_code  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

FIXED = fsp.samplers.UniformClips(sequence_length=4)
RESIZE = fsp.transforms.Resize((8, 12))


def loader(dataset: Any, sampler: Any = FIXED, **keywords: Any) -> fsp.ClipLoader:
    own = {"batch_size": 4, "shuffle": "full", "seed": 3, "transforms": [RESIZE], "dtype": "float32", **keywords}
    return fsp.ClipLoader(dataset, sampler, **own)


def open_cache(folder: Path, **keywords: Any) -> FeatureCache:
    return FeatureCache(folder, **{"name": "encoder", "version": 1, "size": "1GiB", **keywords})


def batch_of(rows: Any, count: int | None = None) -> dict[str, Any]:
    """A batch of clips whose frames are their numbers; row 0 has no key."""
    rows = list(range(1, rows + 1)) if isinstance(rows, int) else rows
    keys = torch.zeros(len(rows), 16, dtype=torch.uint8)
    keys[:, 0] = torch.tensor(rows)
    keys[:, 15] = (keys[:, 0] > 0) * 7
    return {"frames": torch.tensor(rows, dtype=torch.float32)[:, None].expand(-1, count or 3), "content_keys": keys}


class Encoder:
    """Counts its calls and the clips that it gets."""

    def __init__(self, encode: Any = lambda frames: frames * 2) -> None:
        self.encode, self.calls = encode, []

    def __call__(self, frames: Any) -> Any:
        self.calls.append([float(clip.flatten()[0]) for clip in frames])
        return self.encode(frames)


def assert_equal(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        left, right = list(left.values()), list(right.values())
    if isinstance(left, (list, tuple)):
        for one, other in zip(left, right, strict=True):
            assert_equal(one, other)
    else:
        assert left.dtype == right.dtype and left.device == right.device
        assert torch.equal(left, right) and not left.requires_grad


NESTED = {
    "tensor": lambda x: x * 2,
    "dict": lambda x: {"mean": x.flatten(1).mean(1).double(), "codes": (x[:, :1] * 3).to(torch.bfloat16)},
    "tuple": lambda x: (x.flatten(1)[:, :3] > 1, {"nothing": x[:, :0], "complex": x[:, :1] * 1j}, ()),
    "lists": lambda x: {"sizes": [each.flatten()[: 1 + int(each.sum()) % 5] for each in x], "scalar": x.sum((1, 2))},
    "8 bits": lambda x: x[:, 0].to(torch.float8_e4m3fn).view(torch.uint8),
}


@pytest.mark.parametrize("name", NESTED)
def test_results_are_those_of_the_function(name, tiny_clips, tmp_path):
    function = NESTED[name] if name != "lists" else lambda x: NESTED[name](x.flatten(2))
    cache, clips = open_cache(tmp_path), loader(tiny_clips)
    for _ in range(2):
        for batch in clips:
            assert_equal(cache.get_or_compute(batch, function), function(batch.frames.torch()))
    assert cache.stats() == {"found": 13, "computed": 13, "stored": 13, "not_stored": 0, "damaged": 0}


def test_only_missing_rows_are_computed_in_order(tmp_path):
    cache, encode = open_cache(tmp_path), Encoder()
    for rows in ([3, 1], [1, 2, 3, 4], [4, 2], [5, 5, 2, 6, 5], [5]):
        batch = batch_of(rows)
        assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls == [[3, 1], [2, 4], [5, 6]]
    other = open_cache(tmp_path)
    batch = batch_of(7)
    assert_equal(other.get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls[3:] == [[7]] and other.stats()["found"] == 6


def test_name_and_version_are_part_of_the_key(tmp_path):
    encode = Encoder()
    strange = [{"name": "../1 ä", "version": version} for version in "/."]
    for keywords in [{}, {"version": 2}, {"version": "1"}, {"name": "other"}, *strange] * 2:
        open_cache(tmp_path, **keywords).get_or_compute(batch_of(2), encode)
    # 1 and "1" are the same version.
    assert len(encode.calls) == 5
    assert all(path.is_relative_to(tmp_path / "framespool-features-1") for path in tmp_path.rglob("*.values"))


def test_clips_without_a_key_are_computed_each_time(tmp_path):
    cache, encode = open_cache(tmp_path), Encoder()
    for _ in range(2):
        batch = batch_of([0, 1, 0])
        assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls == [[0, 1, 0], [0, 0]] and cache.stats()["stored"] == 1


def test_videos_in_memory_are_not_stored(tiny_clips, tmp_path):
    cache, encode = open_cache(tmp_path), Encoder()
    clips = loader([Path(path).read_bytes() for path, _ in tiny_clips[:3]])
    for _ in range(2):
        for batch in clips:
            cache.get_or_compute(batch, encode)
    assert list(map(len, encode.calls)) == [3, 3] and cache.stats()["stored"] == 0


def test_random_clips_are_found_in_another_run_but_not_in_another_epoch(tiny_clips, tmp_path):
    sampler, transforms = fsp.samplers.RandomClips(sequence_length=4), [fsp.transforms.RandomResizedCrop(8)]
    expected = []
    for run in range(2):
        cache, encode = open_cache(tmp_path), Encoder()
        clips = loader(tiny_clips, sampler, transforms=transforms, repeats=2)
        results = [cache.get_or_compute(batch, encode) for _ in range(2) for batch in clips]
        expected = expected or results
        assert_equal(results, expected)
        assert sum(map(len, encode.calls)) == 2 * 26 * (run == 0)


def test_lists_of_frames(tiny_clips, videos, tmp_path):
    dataset = [*tiny_clips[:3], (str(videos / "action" / "phone_176x144.mp4"), 5)]
    cache = open_cache(tmp_path)
    for collate in ("list", "list", "pad", "pad"):
        clips = loader(dataset, transforms=[fsp.transforms.Resize(8)], collate=collate, batch_size=2)
        encode = Encoder(lambda frames: [clip.mean((0, 2)) for clip in frames])
        for batch in clips:
            assert_equal(cache.get_or_compute(batch, encode), encode.encode([clip.torch() for clip in batch.frames]))
    assert cache.stats()["found"] == 8


def test_padding_is_part_of_the_key(tmp_path):
    """The frames of a clip in a padded batch depend on the other clips."""
    cache, encode = open_cache(tmp_path), Encoder(lambda frames: frames.mean(1))
    for size in (3, 5):
        batch = {**batch_of(2, size), "unpadded_sizes": torch.ones(2, 2)}
        assert_equal(cache.get_or_compute(batch, encode), batch["frames"].mean(1))
    assert len(encode.calls) == 2


def test_groups_of_clips_and_images(tiny_clips, photos, tmp_path):
    sampler = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
    groups = loader(tiny_clips[:4], sampler, group_clips=True, batch_size=2)
    images = fsp.ImageLoader(photos[:5], batch_size=2, transforms=[RESIZE], dtype="float32")
    for batches, name in ((groups, "frames"), (images, "images")):
        cache = open_cache(tmp_path, name=name)
        for _ in range(2):
            for batch in batches:
                frames = batch[name].torch()
                assert_equal(cache.get_or_compute(batch, lambda x: x.mean(-1)), frames.mean(-1))
        assert cache.stats()["computed"] == cache.stats()["found"] > 3


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_data_loaders(num_workers, tiny_clips, tmp_path):
    keywords = {"transforms": [RESIZE], "dtype": "float32"}
    sets = [
        ClipDataset(tiny_clips, FIXED, batch_size=4, **keywords),
        VideoDataset(tiny_clips, FIXED, **keywords),
    ]
    cache = open_cache(tmp_path)
    for batches in (
        DataLoader(sets[0], batch_size=None, num_workers=num_workers),
        DataLoader(sets[1], batch_size=4, num_workers=num_workers),
        TorchLoader(loader(tiny_clips)),
    ):
        for batch in batches:
            assert_equal(cache.get_or_compute(batch, lambda x: x * 2), batch["frames"] * 2)
    assert cache.stats()["computed"] == 13 and cache.stats()["found"] == 26


def test_mixed_clips_and_functions_are_refused(tiny_clips, tmp_path):
    cache = open_cache(tmp_path)
    for transform, said in [
        (
            fsp.transforms.MixUp(13),
            "a result would belong to both. Omit them among the transforms, and mix the",
        ),
        (
            fsp.transforms.PerClip(lambda clip: clip + 1),
            "omit it there and call it in the function of the Feature",
        ),
        (fsp.transforms.OneOf([fsp.transforms.PerBatch(lambda x: x)]), "the batch has no content_keys"),
        (lambda frames: frames, "the batch has no content_keys"),
    ]:
        clips = loader(tiny_clips[:4], transforms=[RESIZE, transform])
        for batches in (clips, TorchLoader(clips)):
            with pytest.raises(fsp.errors.ArgumentError, match=said):
                cache.get_or_compute(next(iter(batches)), Encoder())
    clips = loader(tiny_clips[:4], transforms=[RESIZE, fsp.transforms.LabelSmoothing(13)])
    assert cache.get_or_compute(next(iter(clips)), lambda x: x).shape == (4, 4, 3, 8, 12)
    masked = [RESIZE, fsp.transforms.TubeMask(0.5, patch=(2, 4, 4))]
    assert cache.get_or_compute(next(iter(loader(tiny_clips[:4], transforms=masked))), lambda x: x).shape[0] == 4
    assert torch.utils._pytree.tree_map(lambda x: x, next(iter(TorchLoader(clips).loader))).content_keys is not None


@pytest.mark.parametrize(
    ("encode", "said"),
    [
        (lambda x: x[:1], r"got 2 clips and returned a tensor of shape \(1, 3\); it must return 2 results"),
        (lambda x: x.sum(), r"a tensor of shape \(\)"),
        (lambda x: [x[0]], "returned a list of 1"),
        (
            lambda x: None,
            r"must return a tensor \(n, ...\), a list of n tensors, or a .* of such, got NoneType",
        ),
        (lambda x: [1, 2], "got list of int"),
        (lambda x: {1: x}, "got dict"),
        (lambda x: x.to_sparse(), "got Tensor"),
    ],
)
def test_wrong_results_are_refused(encode, said, tmp_path):
    cache = open_cache(tmp_path)
    with pytest.raises(fsp.errors.ArgumentError, match=said):
        cache.get_or_compute(batch_of(2), encode)
    assert cache.stats()["stored"] == 0


def test_results_that_depend_on_the_batch_are_refused(tmp_path):
    cache = open_cache(tmp_path)
    cache.get_or_compute(batch_of([1]), lambda x: x)
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"results of 'encoder' differ in dtype and shape: .*return a list"
    ):
        cache.get_or_compute(batch_of([1, 2]), lambda x: x[:, :1])
    with pytest.raises(fsp.errors.ArgumentError, match=r"results of 'encoder' differ in structure: .*Change version"):
        cache.get_or_compute(batch_of([1, 3]), lambda x: (x, x))


def test_arguments(tmp_path):
    for wrong, said in [
        ({"folder": ""}, "folder must be a path"),
        ({"name": ""}, "name must be a string that is not empty"),
        ({"version": None}, "version must be a string or an int, got None"),
        ({"size": "much"}, "size must be a number of bytes"),
        ({"folder": __file__}, "cannot be created: .*; name a folder that this user may write"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            FeatureCache(**{"folder": tmp_path, "name": "a", "version": 1, "size": 1, **wrong})
    cache = open_cache(tmp_path)
    for batch, said in [
        (torch.zeros(3), "batch must be a batch of a loader"),
        ({"content_keys": 1}, "batch must be a batch of a loader, or a dict with frames"),
        ({"frames": torch.zeros(3)}, "the batch has no content_keys"),
        ({**batch_of(2), "frames": torch.zeros(3, 1)}, r"shape \(N, 16\) for N clips, got \(2, 16\) for 3"),
        ({**batch_of(2), "content_keys": torch.zeros(2, 8)}, r"got \(2, 8\) for 2"),
        ({**batch_of(2), "frames": [1, 2]}, "frames must be a tensor or a list of tensors, got list"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            cache.get_or_compute(batch, Encoder())
    assert cache.get(None) is None and cache.get(bytes(16)) is None
    for key in (b"short", torch.zeros(16), 3):
        with pytest.raises(
            fsp.errors.ArgumentError, match="content_key must be 16 bytes or a row of batch.content_keys"
        ):
            cache.get(key)


def test_results_take_part_in_a_training(tmp_path):
    """Also those of a function in inference mode, in the first epoch as in the others."""
    weight = torch.ones(3, requires_grad=True)
    for function in (torch.inference_mode()(lambda x: x * 2), lambda x: x * weight * 2):
        cache = open_cache(tmp_path / str(function))
        for rows in ([1, 2], [2, 3], [2]):
            result = cache.get_or_compute(batch_of(rows), function)
            weight.grad = None
            (result * weight).sum().backward()
            assert weight.grad.tolist() == [2.0 * sum(rows)] * 3


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_files_are_private(tmp_path):
    open_cache(tmp_path / "new" / "cache").get_or_compute(batch_of(2), Encoder())
    assert len(files_of(tmp_path)) == 2
    assert {path.stat().st_mode & 0o777 for path in files_of(tmp_path)} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize("extension", ["values", "index"])
def test_cut_and_changed_files_are_computed_again(extension, tmp_path):
    """Files of many lengths, and changes of many bytes."""
    batch = batch_of(2)
    open_cache(tmp_path / "whole").get_or_compute(batch, Encoder())
    (name,) = [path.relative_to(tmp_path / "whole") for path in files_of(tmp_path / "whole") if extension in path.name]
    content = (tmp_path / "whole" / name).read_bytes()
    step = 17 if extension == "values" else 5
    changed = [content[:length] for length in range(0, len(content), step)]
    changed += [content[:at] + bytes([content[at] ^ 33]) + content[at + 1 :] for at in range(0, len(content), step)]
    for number, damaged in enumerate(changed):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / name).write_bytes(damaged)
        encode = Encoder()
        assert_equal(open_cache(folder).get_or_compute(batch, encode), batch["frames"] * 2)
        # The second half of a key in an index file is not needed.
        assert len(encode.calls) == 1 or extension == "index"
        # What was damaged is stored again.
        assert_equal(open_cache(folder).get_or_compute(batch, encode), batch["frames"] * 2)
        assert len(encode.calls) <= 1, number
        shutil.rmtree(folder)


def test_deleted_files_are_computed_again(tmp_path):
    cache, encode = open_cache(tmp_path), Encoder()
    for delete in (*("values", "index") * 2, "all"):
        batch = batch_of(3)
        assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
        if delete == "all":
            shutil.rmtree(tmp_path)
        for path in files_of(tmp_path):
            if delete in path.name:
                path.unlink()
    cache.get_or_compute(batch_of(4), encode)
    other = Encoder()
    open_cache(tmp_path).get_or_compute(batch_of(4), other)
    assert other.calls == []


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


def store_clips(folder: Path, numbers: Any, pipe: int | None = None) -> None:
    """Computes clips one by one, and writes a byte for each."""
    cache, encode = open_cache(folder), Encoder()
    for number in numbers:
        cache.get_or_compute(batch_of([number]), encode)
        if pipe is not None:
            os.write(pipe, b"x")
    assert len(encode.calls) == len(numbers)


def test_killed_writers_leave_a_usable_folder(tmp_path):
    for first, count in ((1, 1), (2, 3), (5, 30), (35, 7)):
        ours, theirs = os.pipe()
        child = in_child(lambda: store_clips(tmp_path, range(first, 250), theirs))  # noqa: B023
        os.close(theirs)
        for _ in range(count):
            assert os.read(ours, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
    cache, encode, batch = open_cache(tmp_path), Encoder(), batch_of(250)
    assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
    assert cache.stats()["found"] >= 41 and cache.stats()["damaged"] == 0


def test_processes_share_a_folder(tmp_path):
    here = open_cache(tmp_path)
    here.get_or_compute(batch_of([1]), Encoder())
    children = [in_child(lambda: store_clips(tmp_path, range(first, 61, 2))) for first in (2, 3)]  # noqa: B023
    assert list(map(exit_code, children)) == [0, 0]
    encode, batch = Encoder(), batch_of(60)
    assert_equal(here.get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls == []
    copy = pickle.loads(pickle.dumps(here))
    assert repr(copy) == repr(here) and copy.stats()["found"] == 0
    assert_equal(copy.get_or_compute(batch, encode), batch["frames"] * 2)


def test_a_forked_child_writes_files_of_its_own(tmp_path):
    cache = open_cache(tmp_path)
    cache.get_or_compute(batch_of([1]), Encoder())
    assert exit_code(in_child(lambda: cache.get_or_compute(batch_of([1, 2]), Encoder()))) == 0
    cache.get_or_compute(batch_of([3]), Encoder())
    encode, batch = Encoder(), batch_of(3)
    assert_equal(open_cache(tmp_path).get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls == [] and len(files_of(tmp_path)) == 4


def num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in files_of(folder))


def test_a_full_folder_keeps_what_it_has(tmp_path, monkeypatch):
    small = {"size": 1500}
    cache = open_cache(tmp_path, **small)
    for number in range(1, 9):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batch = batch_of([number])
            assert_equal(cache.get_or_compute(batch, Encoder()), batch["frames"] * 2)
        stats = cache.stats()
        # Not other warnings: at any time, garbage of an earlier test may cause one.
        found = [str(warning.message) for warning in caught if "are not stored" in str(warning.message)]
        assert (len(found) == 1) == (stats["not_stored"] == 1), "one warning"
        if found:
            assert f"results of 'encoder' are not stored in {tmp_path}: it has reached its size of 1500" in found[0]
    assert num_bytes(tmp_path) <= 1500 and stats["stored"] + stats["not_stored"] == 8 and stats["stored"] >= 5
    # Results under another version count.
    with pytest.warns(UserWarning, match="are not stored"):
        open_cache(tmp_path, version=2, **small).get_or_compute(batch_of(4), Encoder())
    # Of files that were used recently nothing is deleted, of others the oldest.
    old = time.time() - 15 * 24 * 3600
    stored, monotonic = stats["stored"], time.monotonic
    for path in files_of(tmp_path):
        os.utime(path, (old, old))
    other = open_cache(tmp_path, **small)
    other.get_or_compute(batch_of([1]), Encoder())  # uses the files
    with pytest.warns(UserWarning, match="are not stored"):
        other.get_or_compute(batch_of([20, 21, 22, 23]), Encoder())
    for path in files_of(tmp_path):
        os.utime(path, (old, old))
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 100)
    cache.get_or_compute(batch_of([20, 21, 22, 23]), Encoder())
    assert cache.stats()["stored"] == stored + 4 and num_bytes(tmp_path) <= 1500
    again = Encoder()
    open_cache(tmp_path).get_or_compute(batch_of([20, 21, 22, 23]), again)
    assert again.calls == []


def test_a_full_disk_costs_only_time(tmp_path):
    """The system refuses to write beyond a length of a file, in the middle of a value."""
    cache, encode = open_cache(tmp_path), Encoder()
    cache.get_or_compute(batch_of([1]), encode)
    size = max(path.stat().st_size for path in files_of(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * size + size // 2, limits[1]))
    try:
        batch = batch_of(5)
        with pytest.warns(UserWarning, match="not stored in .*: File too large. They are computed each time") as said:
            assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
            assert_equal(cache.get_or_compute(batch, encode), batch["frames"] * 2)
        assert len(said) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert encode.calls == [[1], [2, 3, 4, 5], [3, 4, 5]]
    assert {path.stat().st_size for path in files_of(tmp_path)} == {2 * size, 64}, "no part of a value is left"
    assert_equal(open_cache(tmp_path).get_or_compute(batch, encode), batch["frames"] * 2)
    assert encode.calls[3:] == [[3, 4, 5]]


def test_a_segment_is_complete_at_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(_feature_store, "_SEGMENT_BYTES", 400)
    cache, encode = open_cache(tmp_path), Encoder()
    other = open_cache(tmp_path)
    for number in range(1, 12):
        for each in (cache, other):
            each.get_or_compute(batch_of([number]), encode)
    assert len(encode.calls) == 11 and len(files_of(tmp_path)) == 6


def test_positions_are_those_of_a_dict(monkeypatch):
    """Of two values with one key the later one counts; many entries are sorted, few are not."""
    monkeypatch.setattr(_feature_store, "_MAX_RECENT", 900)
    draw, positions, model = random.Random(0), _feature_store.Positions(), {}
    for segment, count in enumerate([3, 2000, 5, 1500, 1, 1024, 1025]):
        before = [*model, bytes(16)][:1000]
        keys = [draw.randbytes(8) + bytes(8) if draw.random() < 0.7 else draw.choice(before) for _ in range(count)]
        entries = [(key, at, draw.randrange(1 << 40)) for at, key in enumerate(keys)]
        model |= {key: (segment, *where) for key, *where in entries}
        positions.add(segment, b"".join(_feature_store._ENTRY.pack(*entry) for entry in entries))
        wanted = [*draw.sample(sorted(model), min(len(model), 500)), draw.randbytes(16)]
        assert positions.find(list(map(_feature_store.hash_of, wanted))) == [model.get(key) for key in wanted]


def test_only_clips_without_a_result_are_decoded(tiny_clips, tmp_path):
    """The key of a clip is known before it is decoded."""
    transforms = [RESIZE, fsp.transforms.RandomHorizontalFlip()]
    clips = VideoDataset(
        tiny_clips[:4], fsp.samplers.RandomClips(sequence_length=4), transforms=transforms, dtype="float32"
    )
    cache, counts = open_cache(tmp_path), []
    for epoch in (0, 1, 0):
        clips.set_epoch(epoch)
        keys = [clips.describe(clip)["content_key"] for clip in range(4)]
        missing = [clip for clip in range(4) if cache.get(keys[clip]) is None]
        counts.append(len(missing))
        for clip, item in zip(missing, clips.__getitems__(missing), strict=True):
            assert bytes(item["content_keys"].tolist()) == keys[clip]
            batch = {name: item[name][None] for name in ("frames", "content_keys")}
            cache.get_or_compute(batch, lambda x: (x.mean((3, 4)), [x[0]]))
            assert_equal(cache.get(keys[clip]), (item["frames"].mean((2, 3)), item["frames"]))
    assert counts == [4, 4, 0]
