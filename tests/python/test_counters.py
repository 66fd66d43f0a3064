"""`stats()`: numbers that are known in advance, and how those of several engines merge."""

from __future__ import annotations

import inspect
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from framespool import _framespool
from framespool._common.counters import DERIVED, difference, merged, with_derived
from framespool.loaders._engine import Engine
from framespool.ray._remote_engine import RemoteEngine
from PIL import Image

RATIO = "frames_decoded_per_frame_delivered"
#: Each frame of `chain` needs all frames from keyframe 0 or 12, so this clip needs frames 0 to 7.
CLIP, NEEDED = [5, 6, 7], 8


@pytest.fixture(scope="module")
def chain(encoder, tmp_path_factory) -> list[str]:
    """Four videos of 24 frames, two GOPs of 12, in which each frame refers to the frame before it."""
    folder = tmp_path_factory.mktemp("chain")
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=24"]
    for number in range(4):
        command += [
            "-frames:v",
            "24",
            "-c:v",
            "libx264",
            "-threads",
            "1",
            "-pix_fmt",
            "yuv420p",
            "-g",
            "12",
            "-bf",
            "0",
        ]
        command += ["-sc_threshold", "0", "-refs", "1", str(folder / f"{number}.mp4")]
    subprocess.run(command, check=True)
    return [str(folder / f"{number}.mp4") for number in range(4)]


def counted(loader: Any, epochs: int = 1) -> tuple[int, int, int]:
    """Frames decoded, used and delivered after some more epochs."""
    for _ in range(epochs):
        assert all(len(batch.clip_ids) for batch in loader)
    stats = loader.stats()
    assert stats[RATIO] == stats["frames_decoded"] / stats["frames"]
    return stats["frames_decoded"], stats["frames_used"], stats["frames"]


@pytest.mark.parametrize(
    ("clip_sampler", "keywords", "expected"),
    [
        (fsp.samplers.Indices(CLIP), {}, (NEEDED, 3, 3)),
        (fsp.samplers.Indices(CLIP), {"repeats": 2}, (NEEDED, 3, 6)),
        # Frame 7 is used once and delivered twice.
        (fsp.samplers.Indices([CLIP, [7, 8, 9]]), {}, (10, 5, 6)),
        # Without a cache each clip is decoded by itself.
        (fsp.samplers.Indices([CLIP, [7, 8, 9]]), {"cache": 0, "prefetch_batches": 0}, (NEEDED + 10, 6, 6)),
        # Keyframe 12 begins another decode range; frames past the end repeat the last one.
        (fsp.samplers.Indices([[3, 14, 40]], padding="edge"), {}, (4 + 12, 3, 3)),
        (fsp.samplers.Windows(sequence_length=4, step=2), {"batch_size": 11}, (24, 24, 44)),
    ],
)
def test_frames_are_counted(clip_sampler, keywords, expected, chain):
    loader = fsp.ClipLoader(chain[:1], clip_sampler, **{"batch_size": 1, "num_threads": 1, **keywords})
    assert loader.stats()[RATIO] == 0
    assert counted(loader) == expected
    assert counted(loader, 2) == tuple(3 * count for count in expected)


def test_clips_of_later_epochs_cost_no_decoding_when_they_are_delivered(chain, tmp_path):
    cache = fsp.Cache(disk=tmp_path / "same", disk_size="1GiB", epochs=4)
    keywords = {"batch_size": 1, "num_threads": 1, "prefetch_batches": 0}
    same = fsp.ClipLoader(chain[:1], fsp.samplers.Indices(CLIP), cache=cache, **keywords)
    # The clip is delivered and stored, which decodes it once; stored frames count as used, but not as delivered.
    assert counted(same) == (NEEDED, 3, 3)
    assert counted(same, 5) == (NEEDED, 3, 6 * 3)
    assert same.stats()["disk_clips_read"] == 5

    cache = fsp.Cache(disk=tmp_path / "differ", disk_size="1GiB", epochs=4)
    flip = [fsp.transforms.RandomHorizontalFlip()]
    differ = fsp.ClipLoader(chain[:1], fsp.samplers.Indices(CLIP), cache=cache, transforms=flip, **keywords)
    total = [counted(differ)[0] for _ in range(13)]
    decoded = [after - before for before, after in zip([0, *total], total, strict=False)]
    # Nothing is stored while the first batch is awaited; the run of the second epoch ends where that of the video does.
    assert decoded[:2] == [NEEDED, NEEDED] and set(decoded) <= {0, NEEDED}
    runs = [epoch for epoch, frames in enumerate(decoded) if frames][2:]
    assert runs == list(range(runs[0], 13, 4)) and 2 <= runs[0] <= 5
    assert differ.stats()["frames"] == 13 * 3


def test_skipped_clips_are_not_delivered(chain, bad_file, tmp_path):
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(b"")
    dataset = [chain[0], bad_file, chain[1], str(cut)]
    keywords = {"batch_size": 4, "num_threads": 1, "on_error": "skip"}
    loader = fsp.ClipLoader(dataset, fsp.samplers.Indices(CLIP), **keywords)
    assert counted(loader) == (2 * NEEDED, 2 * 3, 2 * 3)
    stats = loader.stats()
    assert (stats["clips"], stats["clips_skipped"], sum(stats["errors"].values())) == (2, 2, 2)


def test_each_rank_counts_its_own_frames(chain):
    keywords = {"batch_size": 1, "num_threads": 1, "shuffle": "full", "num_shards": 2}
    ranks = [fsp.ClipLoader(chain, fsp.samplers.Indices(CLIP), shard_id=rank, **keywords) for rank in range(2)]
    assert [counted(rank) for rank in ranks] == [(2 * NEEDED, 2 * 3, 2 * 3)] * 2
    both = with_derived(merged([rank._native.stats() for rank in ranks]))
    assert (both["frames_decoded"], both["frames"], both[RATIO]) == (4 * NEEDED, 4 * 3, NEEDED / 3)


def test_masks_are_counted_with_their_images(tmp_path):
    files = [(tmp_path / f"image {n}.png", tmp_path / f"mask {n}.png") for n in range(3)]
    for image, mask in files:
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(mask)
    images, masks = ([str(path) for path in paths] for paths in zip(*files, strict=True))
    loader = fsp.ImageLoader(images, batch_size=2, masks=masks, num_threads=1)
    assert len(list(loader)) == 2
    stats = loader.stats()
    assert (stats["batches"], stats["clips"], stats["frames"], stats["frames_decoded"]) == (2, 3, 6, 6)
    assert stats[RATIO] == 1 and stats["bytes_read"] == sum(Path(path).stat().st_size for path in images + masks)


def test_values_of_engines_merge_by_the_table():
    first = {"batches": 2, "frames": 4, "memory_budget": 7, "errors": {"a": 1, "b": 2}, "index_cache_error": None}
    other = {"batches": 3, "frames": 5, "memory_budget": 9, "errors": {"b": 3}, "index_cache_error": "full"}
    expected = {"batches": 2, "frames": 9, "memory_budget": 9, "errors": {"a": 1, "b": 5}, "index_cache_error": "full"}
    assert merged([first, other]) == expected
    assert merged([first]) == first and merged([]) == {}
    assert {merge for *_, merge in _framespool.counters()} == {"sum", "max", "first"}


def test_difference_is_of_what_was_counted():
    held = {"version": 3, "memory_budget": 9, "errors": {}}
    before = {**held, "batches": 1, "frames": 2, "frames_decoded": 8, RATIO: 4.0}
    after = {**held, "batches": 4, "frames": 6, "frames_decoded": 16, RATIO: 2.7}
    assert difference(after, before) == {**held, "batches": 3, "frames": 4, "frames_decoded": 8, RATIO: 2.0}
    assert [name for name, *_ in DERIVED] == [RATIO]


def test_ray_counts_the_clips_of_groups():
    engine = RemoteEngine.__new__(RemoteEngine)  # without a cluster
    engine._counts, engine._buffers, engine._received = Counter(), None, 0.0
    indices = np.array([[[0, 1], [4, 5], [7, -1]]] * 2)
    engine._received_batch({"labels": np.zeros(2), "clip_ids": np.zeros((2, 3)), "indices": indices})
    assert (engine._counts["batches"], engine._counts["clips"], engine._counts["frames"]) == (1, 6, 10)


def test_ray_does_not_page_lock_batches():
    engine = RemoteEngine.__new__(RemoteEngine)
    engine.page_lock(0, False)  # "auto" in a process that uses a GPU
    with pytest.raises(fsp.errors.ArgumentError, match="pin_memory=True"):
        engine.page_lock(0, True)


def test_counters_of_workers_on_ray(chain):
    workers = [fsp.ClipLoader(chain[:n], fsp.samplers.Indices(CLIP), batch_size=1, num_threads=1) for n in (1, 2)]
    for worker in workers:
        list(worker)
    engine = RemoteEngine.__new__(RemoteEngine)
    node = SimpleNamespace(node="here")
    engine._pool = SimpleNamespace(is_open=False, workers=[node, node, None], num_lost=1)
    engine._snapshots = {(n, (0, n, False)): (worker._native.stats(), []) for n, worker in enumerate(workers)}
    # One of the three batches has not been taken.
    engine._counts, engine._waited, engine._received = Counter(batches=2, clips=2, frames=6, bytes_received=9), 1.5, 0.5
    stats = with_derived(merged([engine.stats()]))
    assert (stats["batches"], stats["clips"], stats["frames"], stats["consumer_wait_seconds"]) == (2, 2, 6, 1.5)
    assert (stats["frames_decoded"], stats[RATIO]) == (3 * NEEDED, 3 * NEEDED / 6)
    assert stats["memory_budget"] == workers[0].stats()["memory_budget"]
    assert (stats["bytes_received"], stats["workers_by_node"], stats["workers_lost"]) == (9, {"here": 2}, 1)
    # Images and their masks have the same workers.
    both = merged([engine.stats(), engine.stats()])
    assert (both["bytes_received"], both["workers_by_node"], both["workers_lost"]) == (18, {"here": 2}, 1)


def test_engines_have_all_methods_that_loaders_call():
    names = [name for name in vars(Engine) if name == "__len__" or not name.startswith("_")]
    assert len(names) > 10
    for name in names:
        assert hasattr(_framespool.Loader, name) and hasattr(RemoteEngine, name), name
        if callable(wanted := getattr(Engine, name)):
            arguments = inspect.signature(getattr(RemoteEngine, name)).parameters
            assert list(arguments) == list(inspect.signature(wanted).parameters), name
