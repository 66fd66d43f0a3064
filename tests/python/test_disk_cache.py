"""`disk_cache=`: the same batches with less decoding, regardless of what happens to the files of the cache."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest

RANDOM = [fsp.transforms.RandomResizedCrop(32), fsp.transforms.RandomHorizontalFlip()]
NORMALIZE = fsp.transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
EPOCHS = 6
#: Processes that are killed. The nightly run kills more.
KILLS = int(os.environ.get("FRAMESPOOL_KILLS", "5"))


def loader(dataset, folder=None, sampler=None, *, size="1GiB", cached_epochs=4, **keywords: Any) -> fsp.ClipLoader:
    cache = None if folder is None else fsp.DiskCache(folder, size, epochs=cached_epochs)
    own = {"batch_size": 4, "shuffle": "full", "seed": 3, "num_threads": 2, "transforms": RANDOM, **keywords}
    return fsp.ClipLoader(dataset, sampler or fsp.samplers.random(sequence_length=4, stride=3), disk_cache=cache, **own)


def frames_of(batch: fsp.Batch) -> list[bytes]:
    return [np.from_dlpack(clip).tobytes() for clip in batch.frames]


def delivered(clips: fsp.ClipLoader) -> list[Any]:
    """What the next epoch delivers, without the time at which it was made."""
    return [
        (
            batch.clip_ids.tolist(),
            batch.view_ids.tolist(),
            [np.from_dlpack(row).tolist() for row in batch.indices]
            if isinstance(batch.indices, list)
            else batch.indices.tolist(),
            batch.padding.tolist(),
            frames_of(batch),
        )
        for batch in clips
    ]


def epochs(clips: fsp.ClipLoader, count: int = EPOCHS) -> list[Any]:
    return [delivered(clips) for _ in range(count)]


CASES: dict[str, dict[str, Any]] = {
    "codes": {},
    "float32": {"dtype": "float32", "transforms": [*RANDOM, NORMALIZE], "layout": "NCTHW"},
    "float16 of several sizes": {"dtype": "float16", "transforms": [fsp.transforms.Resize(24)], "collate": "list"},
    "padded": {"transforms": [fsp.transforms.RandomShortestSize(20, 28)], "collate": "pad"},
    "repeats": {"repeats": 2},
    "grouped": {
        "shuffle": "grouped",
        "memory_budget": "1MB",
        "sampler": fsp.samplers.random(sequence_length=4, clips_per_video=3),
    },
    "groups of clips": {
        "group_clips": True,
        "batch_size": 2,
        "sampler": fsp.samplers.random(sequence_length=4, clips_per_video=3),
    },
    "in order": {"shuffle": False, "sampler": fsp.samplers.windows(sequence_length=4, step=12)},
    "masks": {"transforms": [*RANDOM, fsp.transforms.RandomErasing(p=1.0)]},
    "frames of zeros": {"sampler": fsp.samplers.random(sequence_length=16, stride=7, short="blank")},
    "one thread": {"num_threads": 1, "prefetch_batches": 0},
    "no memory": {"memory_budget": 0},
}


@pytest.mark.parametrize("case", CASES)
def test_batches_are_the_same_and_less_is_decoded(case, tiny_clips, tmp_path):
    keywords = dict(CASES[case])
    sampler = keywords.pop("sampler", None)
    plain, cached = (loader(tiny_clips, folder, sampler, **keywords) for folder in (None, tmp_path))
    assert epochs(plain) == epochs(cached)
    stats = cached.stats()
    assert stats["disk_clips_damaged"] == stats["disk_clips_evicted"] == 0
    if case == "no memory":
        assert stats["disk_clips_stored"] == 0
    else:
        # How many depends on the memory for clips of later epochs, and so on the order of work.
        assert stats["disk_clips_read"] > 0
        assert stats["frames_decoded"] < plain.stats()["frames_decoded"]


def test_clips_that_are_equal_in_every_epoch_are_decoded_once(tiny_clips, tmp_path):
    sampler = fsp.samplers.uniform(sequence_length=4, clips_per_video=2)
    transforms = [fsp.transforms.Resize((24, 32)), NORMALIZE]
    keywords = {"transforms": transforms, "dtype": "float32", "shuffle": False, "cached_epochs": 1}
    first = loader(tiny_clips, tmp_path, sampler, **keywords)
    expected = delivered(first)
    assert first.stats()["frames_decoded"] > 0
    del first  # ends its workers, so that the last clip is stored
    again = loader(tiny_clips, tmp_path, sampler, **keywords)
    assert epochs(again) == [expected] * EPOCHS
    assert again.stats()["frames_decoded"] == 0 and again.stats()["disk_clips_read"] == 26 * EPOCHS
    other = loader(tiny_clips, tmp_path, sampler, **{**keywords, "transforms": [fsp.transforms.Resize((24, 32))]})
    assert delivered(other) != expected and other.stats()["disk_clips_read"] == 0


def test_videos_are_decoded_once_in_each_run_of_epochs(tiny_clips, tmp_path):
    """In each epoch but the first, every fourth video is decoded, and none is decoded twice for a run."""
    cached = loader(tiny_clips, tmp_path, cached_epochs=4, num_threads=1)
    decoded = []
    for _ in range(9):
        before = cached.stats()
        delivered(cached)
        after = cached.stats()
        # A clip that a task of an earlier epoch still has to make is taken from there.
        found = [after[name] - before[name] for name in ("disk_clips_read", "clip_cache_hits")]
        decoded.append(13 - sum(found))
    assert decoded[0] == 13 and sum(decoded[1:5]) == sum(decoded[5:9]) == 13


def test_resumed_on_other_ranks_with_another_length_of_runs(tiny_clips, tmp_path):
    whole = epochs(loader(tiny_clips, batch_size=4, last_batch="fill"))
    first = loader(tiny_clips, tmp_path, batch_size=4, last_batch="fill")
    begun = iter(first)
    for _ in range(2):
        next(begun)
    state = first.state_dict()
    del begun, first
    ranks = [
        loader(
            tiny_clips, tmp_path, batch_size=2, last_batch="fill", shard_id=rank, num_shards=2, cached_epochs=3 + rank
        )
        for rank in range(2)
    ]
    parts = []
    for rank in ranks:
        rank.load_state_dict(state)
        parts.append([batch for _ in range(EPOCHS) for batch in delivered(rank)])
    expected = [batch for epoch in whole for batch in epoch][2:]
    for batch, *halves in zip(expected, *parts, strict=True):
        for values in zip(batch, *halves, strict=True):
            assert values[0] == [*values[1], *values[2]]
    assert sum(rank.stats()["disk_clips_read"] for rank in ranks) > 0


@pytest.mark.parametrize("damage", ["delete", "flip", "cut", "unreadable"])
def test_damaged_files_cost_only_time(damage, tiny_clips, tmp_path):
    expected = epochs(loader(tiny_clips), 4)
    # One thread suspends eight tasks and completes the next ones, so that clips are stored when the epoch ends.
    cached = loader(tiny_clips, tmp_path / "cache", num_threads=1)
    assert delivered(cached) == expected[0]
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]
    assert len(files) >= 3
    for path in files:
        if damage == "delete":
            path.unlink()
        elif damage == "flip":
            content = bytearray(path.read_bytes())
            content[:: max(1, len(content) // 9)] = bytes(value ^ 5 for value in content[:: max(1, len(content) // 9)])
            path.write_bytes(content)
        elif damage == "cut":
            os.truncate(path, path.stat().st_size // 2)
        else:
            path.unlink()
            path.mkdir()
    assert [delivered(cached) for _ in range(3)] == expected[1:]
    other = loader(tiny_clips, tmp_path / "cache")
    assert epochs(other, 4) == expected


def test_changed_file_is_decoded(tiny_clips, tmp_path):
    copies = [(shutil.copy(path, tmp_path / Path(path).name), label) for path, label in tiny_clips[:4]]
    sampler = fsp.samplers.uniform(sequence_length=4)
    keywords = {"transforms": [fsp.transforms.Resize((24, 32))], "shuffle": False}
    first = loader(copies, tmp_path / "cache", sampler, **keywords)
    before = delivered(first)
    del first  # ends its workers, so that the last clip is stored
    shutil.copy(tiny_clips[5][0], copies[1][0])
    second = loader(copies, tmp_path / "cache", sampler, **keywords)
    after = delivered(second)
    assert after == delivered(loader(copies, None, sampler, **keywords)) and after != before
    assert second.stats()["disk_clips_read"] == 3


def test_full_cache_keeps_clips_of_the_next_epochs(tiny_clips, tmp_path):
    cached = loader(tiny_clips, tmp_path, size="200KB", cached_epochs=16)
    assert epochs(cached) == epochs(loader(tiny_clips))
    stats = cached.stats()
    assert stats["disk_clips_read"] > 0 and stats["disk_clips_evicted"] + stats["disk_clips_not_stored"] > 0
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.clips")) <= 200_000
    assert epochs(loader(tiny_clips, tmp_path, size=0), 2) == epochs(loader(tiny_clips), 2)


def test_single_batches_leave_the_cache_alone(tiny_clips, tmp_path):
    cached, plain = loader(tiny_clips, tmp_path), loader(tiny_clips)
    delivered(cached)
    stored = sorted(path.name for path in tmp_path.rglob("*.clips"))
    assert frames_of(cached.batch(epoch=5, index=1)) == frames_of(plain.batch(epoch=5, index=1))
    assert sorted(path.name for path in tmp_path.rglob("*.clips")) == stored


def test_mixed_weighted_and_custom(tiny_clips, tmp_path):
    mixed = fsp.datasets.mix((tiny_clips[:6], 1), (tiny_clips[6:], 2))
    weighted = fsp.datasets.weighted(tiny_clips, [1 + (at % 3) for at in range(13)])

    def ends(info, rng):
        return sorted(rng.sample(range(info.num_frames), 4))

    for number, (dataset, sampler) in enumerate([(mixed, None), (weighted, None), (tiny_clips, ends)]):
        cached = loader(dataset, tmp_path / str(number), sampler)
        assert epochs(cached, 4) == epochs(loader(dataset, None, sampler), 4)
        assert cached.stats()["disk_clips_read"] > 0


def test_videos_in_memory_are_not_stored(tiny_clips, tmp_path):
    dataset = [(Path(path).read_bytes(), label) for path, label in tiny_clips[:4]]
    cached = loader(dataset, tmp_path)
    assert epochs(cached, 3) == epochs(loader(dataset), 3)
    assert cached.stats()["disk_clips_stored"] == 0


def test_deep_video_is_stored_with_its_depth(videos, tmp_path):
    files = [str(videos / "codecs" / name) for name in ("hevc_main10.mkv", "vp9_10bit.webm")]
    sampler = fsp.samplers.random(sequence_length=2)
    keywords = {"dtype": "float32", "transforms": [fsp.transforms.Resize((24, 32))], "batch_size": 2}
    cached = loader(files, tmp_path, sampler, **keywords)
    assert epochs(cached) == epochs(loader(files, None, sampler, **keywords))
    assert cached.stats()["disk_clips_read"] > 0


def test_bad_file_is_reported_as_before(tiny_clips, bad_file, tmp_path):
    dataset = [*tiny_clips[:5], (bad_file, 9)]
    for on_error in ("skip", "replace"):
        cached = loader(dataset, tmp_path / on_error, on_error=on_error)
        plain = loader(dataset, on_error=on_error)
        assert epochs(cached, 3) == epochs(plain, 3)
        assert cached.failures() == plain.failures()


@pytest.mark.timeout(600 + 60 * KILLS)
def test_killed_processes_leave_a_usable_cache(tiny_clips, tmp_path):
    """A loader shares the folder with processes that are killed one after another at random moments."""
    program = textwrap.dedent("""
        import json, sys
        import framespool as fsp
        state, folder, *files = sys.argv[1:]
        cache = fsp.DiskCache(folder, "1GiB", epochs=4)
        loader = fsp.ClipLoader(files, fsp.samplers.random(sequence_length=4, stride=3), batch_size=4, seed=3,
            shuffle="full", num_threads=2, disk_cache=cache,
            transforms=[fsp.transforms.RandomResizedCrop(32), fsp.transforms.RandomHorizontalFlip()])
        loader.load_state_dict(json.loads(state))
        for epoch in range(100):
            for batch in loader:
                print(epoch, flush=True)
    """)
    files = [path for path, _ in tiny_clips]
    plain, survivor = loader(files), loader(files, tmp_path)
    moments = random.Random(0)
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(survivor.state_dict()), str(tmp_path), *files],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(moments.randrange(1, 12)):
                assert process.stdout.readline()
            time.sleep(moments.uniform(0, 0.01))  # not always just after a batch
            process.send_signal(signal.SIGKILL)
        assert delivered(survivor) == delivered(plain)
    other = loader(files, tmp_path)
    other.load_state_dict(survivor.state_dict())
    assert epochs(other) == epochs(plain)
    # A killed process that was ahead has deleted the clips of this epoch, but not all of the next ones.
    assert other.stats()["disk_clips_read"] > 0


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_disk_that_becomes_full_or_read_only(fault, tiny_clips, tmp_path):
    disk, read_only = tmp_path / "disk", tmp_path / "read-only"
    disk.mkdir()
    read_only.mkdir()
    mounts = [
        f"mount -t tmpfs -o size={'200k' if fault == 'full' else '1g'} none {disk}",
        f"mount --bind {disk} {read_only}",
        f"mount -o remount,bind,ro {read_only}",
    ]
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", " && ".join(mounts)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the permission to mount file systems in a namespace")
    program = textwrap.dedent("""
        import subprocess, sys
        import framespool as fsp
        import numpy as np
        fault, folder, read_only, *files = sys.argv[1:]
        own = {"batch_size": 4, "seed": 3, "shuffle": "full", "num_threads": 2,
            "transforms": [fsp.transforms.RandomResizedCrop(32)]}
        sampler = fsp.samplers.random(sequence_length=4, stride=3)
        cached = fsp.ClipLoader(files, sampler, disk_cache=fsp.DiskCache(folder, "1GiB", epochs=16), **own)
        plain = fsp.ClipLoader(files, sampler, **own)
        for epoch in range(6):
            if fault == "read-only" and epoch == 1:
                # Open files stay writable, new ones cannot be created. In one step, because a mount cannot become
                # read-only while a thread writes a file below it.
                subprocess.run(["mount", "--move", read_only, folder], check=True)
            for batch, expected in zip(cached, plain, strict=True):
                assert batch.clip_ids.tolist() == expected.clip_ids.tolist()
                assert (np.from_dlpack(batch.frames) == np.from_dlpack(expected.frames)).all()
        stats = cached.stats()
        print(stats["disk_clips_read"], stats["disk_clips_not_stored"])
    """)
    command[-1] += ' && exec "$@"'
    words = [sys.executable, "-c", program, fault, str(disk), str(read_only), *(path for path, _ in tiny_clips)]
    done = subprocess.run([*command, "sh", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read, not_stored = map(int, done.stdout.split())
    assert read > 0 and not_stored > 0
    assert ("is full" if fault == "full" else "cannot be written") in done.stderr


def test_two_versions_share_a_folder(tiny_clips, tmp_path):
    """Loaders with other settings, as of another version, in turn in one small folder."""
    settings = [{}, {"transforms": [fsp.transforms.Resize((24, 32))]}]
    cached = [loader(tiny_clips, tmp_path, size="400KB", **keywords) for keywords in settings]
    plain = [loader(tiny_clips, **keywords) for keywords in settings]
    for _ in range(EPOCHS):
        passes = zip(*cached, *plain, strict=True)
        for batches in passes:
            for batch, expected in zip(batches[:2], batches[2:], strict=True):
                assert frames_of(batch) == frames_of(expected)
    assert all(clips.stats()["disk_clips_read"] > 0 for clips in cached)


def test_arguments(tiny_clips, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for wrong, said in [
        ({"folder": 3}, "folder must be a path, got 3"),
        ({"folder": "a", "size": "much"}, "size must be a number of bytes"),
        ({"folder": "a", "epochs": 0}, "epochs must be"),
    ]:
        with pytest.raises(fsp.ArgumentError, match=said):
            fsp.DiskCache(**{"size": 1, **wrong})
    with pytest.raises(fsp.ArgumentError, match="disk_cache must be a DiskCache"):
        fsp.ClipLoader(tiny_clips, fsp.samplers.random(sequence_length=4), batch_size=1, disk_cache="clips")
    with pytest.raises(fsp.ArgumentError, match=r"file for clips cannot be used: .*name a folder on a local disk"):
        loader(tiny_clips, file)
    with pytest.raises(fsp.ArgumentError, match="only if batches are in host memory"):
        loader(tiny_clips, tmp_path, device="cuda:0")
