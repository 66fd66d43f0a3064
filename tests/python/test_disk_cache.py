"""`Cache(disk=)`: the same batches with less decoding, regardless of what happens to the files of the cache."""

from __future__ import annotations

import json
import logging
import os
import random
import re
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
from framespool._common import logs
from framespool.cli import main
from framespool.loaders import _disk_cache
from framespool.tools import _bench
from PIL import Image
from processes import wait_until

RANDOM = [fsp.transforms.RandomResizedCrop(32), fsp.transforms.RandomHorizontalFlip()]
NORMALIZE = fsp.transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
EPOCHS = 6
#: Processes that are killed. The nightly run kills more.
KILLS = int(os.environ.get("FRAMESPOOL_KILLS", "5"))


def loader(
    dataset, folder=None, sampler=None, *, memory="2GiB", size="1GiB", cached_epochs=4, **keywords: Any
) -> fsp.ClipLoader:
    cache = memory if folder is None else fsp.Cache(memory, disk=folder, disk_size=size, epochs=cached_epochs)
    own = {"batch_size": 4, "shuffle": "full", "seed": 3, "num_threads": 2, "transforms": RANDOM, **keywords}
    return fsp.ClipLoader(dataset, sampler or fsp.samplers.RandomClips(sequence_length=4, stride=3), cache=cache, **own)


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
            batch.content_keys.tolist(),
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
        "memory": "1MB",
        "sampler": fsp.samplers.RandomClips(sequence_length=4, clips_per_video=3),
    },
    "groups of clips": {
        "group_clips": True,
        "batch_size": 2,
        "sampler": fsp.samplers.RandomClips(sequence_length=4, clips_per_video=3),
    },
    "in order": {"shuffle": False, "sampler": fsp.samplers.Windows(sequence_length=4, step=12)},
    "masks": {"transforms": [*RANDOM, fsp.transforms.RandomErasing(p=1.0)]},
    "frames of zeros": {"sampler": fsp.samplers.RandomClips(sequence_length=16, stride=7, padding="blank")},
    "one thread": {"num_threads": 1, "prefetch_batches": 0},
    "no memory": {"memory": 0},
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
    sampler = fsp.samplers.UniformClips(sequence_length=4, clips_per_video=2)
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
    """In each epoch but the first ones, every fourth video is decoded, and none is decoded twice for a run."""
    cached = loader(tiny_clips, tmp_path, cached_epochs=4, num_threads=1)
    decoded = []
    for _ in range(9):
        before = cached.stats()
        delivered(cached)
        after = cached.stats()
        # A clip that a task of an earlier epoch still has to make is taken from there.
        found = [after[name] - before[name] for name in ("disk_clips_read", "clip_cache_hits")]
        decoded.append(13 - sum(found))
    # Videos of the first batches are decoded for this epoch alone, and again in the next one.
    assert decoded[0] == 13 <= sum(decoded[1:5]) <= 26 and sum(decoded[5:9]) == 13


def test_first_batch_does_not_wait_for_clips_of_later_epochs(tiny_clips, tmp_path):
    cached = loader(tiny_clips, tmp_path, prefetch_batches=0)
    begun = iter(cached)
    next(begun)
    assert cached.stats()["disk_clips_stored"] == 0
    next(begun)
    list(begun)
    # Tasks of the first epochs may all be suspended until their clips are requested.
    epochs(cached)
    assert cached.stats()["disk_clips_stored"] > 0


def test_clips_of_later_epochs_take_memory_for_their_audio(tiny_clips, tmp_path):
    stored = []
    for memory in ("300KB", "100MB"):
        audio = fsp.Audio(16000, seconds=4.0, channels=2, missing="zeros")  # 512 KB for each clip
        cached = loader(tiny_clips, tmp_path / memory, memory=memory, audio=audio)
        epochs(cached)
        stored.append(cached.stats()["disk_clips_stored"])
    assert stored[0] == 0 < stored[1]


def test_each_machine_finds_the_clips_of_its_videos(tiny_clips, tmp_path):
    """Two machines with two ranks each; the folders are their disks."""
    keywords = {"batch_size": 2, "num_shards": fsp.options.Shards(4, num_nodes=2)}
    plain = [loader(tiny_clips, shard_id=rank, **keywords) for rank in range(4)]
    ranks = [loader(tiny_clips, tmp_path / f"{rank // 2}", shard_id=rank, **keywords) for rank in range(4)]
    assert len({len(rank) for rank in ranks}) == 1
    videos: list[set[int]] = [set(), set()]
    for number in range(2 * EPOCHS):
        clips = []
        for rank, (with_cache, without) in enumerate(zip(ranks, plain, strict=True)):
            batches = delivered(with_cache)
            assert batches == delivered(without)
            found = [clip for ids, _, _, padding, *_ in batches for clip in np.array(ids)[~np.array(padding)].tolist()]
            videos[rank // 2] |= set(found)
            clips += found
        assert sorted(clips) == list(range(13)), number
    assert not videos[0] & videos[1]
    decoded = [sum(rank.stats()["frames_decoded"] for rank in each) for each in (ranks, plain)]
    assert decoded[0] < 0.7 * decoded[1]


def test_state_with_machines(tiny_clips):
    """Fits another number of ranks with the same number of machines, and no other."""
    two = [
        loader(tiny_clips, shard_id=rank, num_shards=fsp.options.Shards(2, num_nodes=2), batch_size=2)
        for rank in range(2)
    ]
    begun = [iter(rank) for rank in two]
    for each in begun:
        next(each)
    state = two[0].state_dict()

    def real(batch: fsp.Batch) -> set[int]:
        return set(batch.clip_ids.numpy()[~batch.padding.numpy()].tolist())

    rest = [real(batch) for each in begun for batch in each]
    four = [
        loader(tiny_clips, shard_id=rank, num_shards=fsp.options.Shards(4, num_nodes=2), batch_size=1)
        for rank in range(4)
    ]
    for rank in four:
        rank.load_state_dict(state)
    found = [[real(batch) for batch in rank] for rank in four]
    assert [a | b for half in (found[:2], found[2:]) for a, b in zip(*half, strict=True)] == rest
    with pytest.raises(fsp.errors.ArgumentError, match="num_nodes"):
        loader(tiny_clips, shard_id=0, num_shards=2, batch_size=2).load_state_dict(state)


def test_videos_that_change_machines_cause_a_warning(tiny_clips, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr("framespool._common.ranks._warned_of_machines", False)
    with pytest.warns(UserWarning, match="use num_nodes=2"):
        loader(tiny_clips, tmp_path, shard_id=1, num_shards=4)
    loader(tiny_clips, tmp_path, shard_id=1, num_shards=4)
    monkeypatch.setattr("framespool._common.ranks._warned_of_machines", False)
    loader(tiny_clips, tmp_path, shard_id=1, num_shards=fsp.options.Shards(4, num_nodes=2))
    loader(tiny_clips, tmp_path, shard_id=1, num_shards=2)


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


IMAGES: dict[str, dict[str, Any]] = {
    "random": {"transforms": [fsp.transforms.RandomResizedCrop(24)]},
    "exact": {"transforms": [fsp.transforms.RandomResizedCrop(24), NORMALIZE], "exact": True, "dtype": "float32"},
    "equal in every epoch": {"transforms": [fsp.transforms.Resize((24, 24))]},
    "of several sizes": {"transforms": [fsp.transforms.Resize(24)], "collate": "list", "repeats": 2},
}


@pytest.mark.parametrize("case", IMAGES)
def test_images(case, photos, tmp_path):
    common = {"batch_size": 4, "shuffle": "full", "seed": 3, "num_threads": 2, **IMAGES[case]}
    masks = [str(tmp_path / f"{number}.png") for number in range(12)]
    for (photo, _), mask in zip(photos[:12], masks, strict=True):
        Image.open(photo).convert("L").save(mask)
    common |= {"masks": masks if case == "random" else None}
    plain = fsp.ImageLoader(photos[:12], **common)
    cached = fsp.ImageLoader(photos[:12], cache=fsp.Cache(disk=tmp_path, disk_size="1GiB", epochs=4), **common)

    def epoch(images: fsp.ImageLoader) -> list[Any]:
        return [
            (
                batch.image_ids.tolist(),
                [np.from_dlpack(each).tobytes() for each in (*batch.images, *(batch.masks or ()))],
            )
            for batch in images
        ]

    assert [epoch(plain) for _ in range(EPOCHS)] == [epoch(cached) for _ in range(EPOCHS)]
    stats = cached.stats()
    if case == "equal in every epoch":
        assert stats["frames_decoded"] == 12
    assert stats["disk_clips_read"] > 0 and stats["frames_decoded"] < plain.stats()["frames_decoded"]
    with pytest.raises(fsp.errors.ArgumentError, match="with a disk"):
        fsp.ImageLoader(photos, cache="1GiB", **{**common, "masks": None})


@pytest.mark.parametrize("damage", ["delete", "flip", "cut", "unreadable"])
def test_damaged_files_cost_only_time(damage, tiny_clips, tmp_path):
    def files():
        return [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]

    expected = epochs(loader(tiny_clips), 5)
    cached = loader(tiny_clips, tmp_path / "cache", num_threads=1)
    # The first batch does not wait for clips of later epochs: the second epoch makes those of all videos.
    assert epochs(cached, 2) == expected[:2]
    wait_until(lambda: len(files()) >= 3)  # its idle thread stores them
    for path in files():
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
    assert epochs(cached, 3) == expected[2:]
    other = loader(tiny_clips, tmp_path / "cache")
    assert epochs(other, 5) == expected


def test_changed_file_is_decoded(tiny_clips, tmp_path):
    copies = [(shutil.copy(path, tmp_path / Path(path).name), label) for path, label in tiny_clips[:4]]
    sampler = fsp.samplers.UniformClips(sequence_length=4)
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
    del cached  # ends its threads, which may still delete files
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.clips")) <= 200_000
    assert epochs(loader(tiny_clips, tmp_path, size=0), 2) == epochs(loader(tiny_clips), 2)


def test_single_batches_and_previews_leave_the_cache_alone(tiny_clips, tmp_path):
    def files():
        return sorted(path.name for path in tmp_path.rglob("*.clips"))

    plain, first = loader(tiny_clips), loader(tiny_clips, tmp_path)
    epochs(first, 2)  # in the second one, a batch was delivered before
    wait_until(files)  # idle threads make the clips of later epochs
    del first  # ends them, so that nothing else is written
    stored, cached = files(), loader(tiny_clips, tmp_path)
    assert frames_of(cached.batch(epoch=5, index=1)) == frames_of(plain.batch(epoch=5, index=1))
    assert files() == stored
    fsp.tools.preview(cached, tmp_path / "sheet.png", epoch=5)
    assert files() == stored


def test_mixed_weighted_and_custom(tiny_clips, tmp_path):
    mixed = fsp.datasets.mix((tiny_clips[:6], 1), (tiny_clips[6:], 2))
    weighted = fsp.datasets.weighted(tiny_clips, [1 + (at % 3) for at in range(13)])

    def ends(info, rng):
        return sorted(rng.sample(range(info.num_frames), 4))

    for number, (dataset, sampler) in enumerate([(mixed, None), (weighted, None), (tiny_clips, ends)]):
        cached = loader(dataset, tmp_path / str(number), sampler)
        assert epochs(cached, 4) == epochs(loader(dataset, None, sampler), 4)
        assert cached.stats()["disk_clips_read"] > 0


def test_clip_sampler_with_state_of_its_own_is_refused(tiny_clips, tmp_path):
    """The clips of later epochs are not known."""
    calls = iter(range(10**6))
    stateful = fsp.samplers.Custom(lambda info, rng: [next(calls) % info.num_frames])
    assert len(delivered(loader(tiny_clips, sampler=stateful))) == 4
    refused = loader(tiny_clips, tmp_path, stateful)
    with pytest.raises(fsp.errors.ArgumentError, match="keeps state of its own"):
        next(iter(refused))
    with pytest.raises(fsp.errors.ArgumentError, match="keeps state of its own"):
        next(iter(refused))


def test_videos_in_memory_are_not_stored(tiny_clips, tmp_path):
    dataset = [(Path(path).read_bytes(), label) for path, label in tiny_clips[:4]]
    cached = loader(dataset, tmp_path)
    assert epochs(cached, 3) == epochs(loader(dataset), 3)
    assert cached.stats()["disk_clips_stored"] == 0


def test_deep_video_is_stored_with_its_depth(videos, tmp_path):
    files = [str(videos / "codecs" / name) for name in ("hevc_main10.mkv", "vp9_10bit.webm")]
    sampler = fsp.samplers.UniformClips(sequence_length=2)
    keywords = {"dtype": "float32", "transforms": [fsp.transforms.Resize((24, 32))], "batch_size": 2, "num_threads": 4}
    expected = epochs(loader(files, None, sampler, **keywords), 2)
    for run in range(3):  # which worker takes a video is not determined
        first = loader(files, tmp_path / str(run), sampler, **keywords)
        # Memory for clips is reserved for 8 bits until a worker has decoded a frame; in the second epoch all know it.
        assert epochs(first, 2) == expected
        del first  # ends its workers, so that the last clip is stored
        again = loader(files, tmp_path / str(run), sampler, **keywords)
        assert epochs(again, 2) == expected
        assert again.stats()["disk_clips_read"] == 4 and again.stats()["frames_decoded"] == 0


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
        cache = fsp.Cache(disk=folder, disk_size="1GiB", epochs=4)
        loader = fsp.ClipLoader(files, fsp.samplers.RandomClips(sequence_length=4, stride=3), batch_size=4, seed=3,
            shuffle="full", num_threads=2, cache=cache,
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
        import subprocess, sys, time
        from pathlib import Path
        import framespool as fsp
        import numpy as np

        def wait_until(condition):
            while not condition(cached.stats()):
                time.sleep(0.01)

        fault, folder, read_only, *files = sys.argv[1:]
        own = {"batch_size": 4, "seed": 3, "shuffle": "full", "num_threads": 2,
            "transforms": [fsp.transforms.RandomResizedCrop(32)]}
        sampler = fsp.samplers.RandomClips(sequence_length=4, stride=3)
        epochs = 16 if fault == "full" else 4
        cached = fsp.ClipLoader(files, sampler, cache=fsp.Cache(disk=folder, disk_size="1GiB", epochs=epochs), **own)
        plain = fsp.ClipLoader(files, sampler, **own)
        for epoch in range(6):
            if fault == "read-only" and epoch == 2:
                # At most one clip of each video is due in epoch 1, the others in epochs 2 to 4.
                wait_until(lambda stats: stats["disk_clips_stored"] > len(files))
                # Open files stay writable, new ones cannot be created. In one step, because a mount cannot become
                # read-only while a thread writes a file below it.
                subprocess.run(["mount", "--move", read_only, folder], check=True)
            for batch, expected in zip(cached, plain, strict=True):
                assert batch.clip_ids.tolist() == expected.clip_ids.tolist()
                assert (np.from_dlpack(batch.frames) == np.from_dlpack(expected.frames)).all()
        wait_until(lambda stats: stats["disk_clips_not_stored"])  # idle threads make the clips of later epochs
        stats = cached.stats()
        logs = [path.stat().st_size for path in Path(folder).rglob("log")]
        assert logs and all(size % 40 == 0 for size in logs), "no part of an entry"
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


def test_samples_with_the_same_frames_keep_their_labels(tiny_clips, tmp_path):
    """A task may have planned a clip of a later epoch for another sample whose frames are the same."""

    def first_or_last(info, rng):
        begin = rng.randrange(2) * (info.num_frames - 14)
        return [begin + 3 * frame for frame in range(4)]

    # Two equal segments of each file, so that both samples of a file have the same frames in half of the epochs.
    parts = [fsp.datasets.VideoSegment(path, start_frame=0) for path, _ in tiny_clips for _ in range(2)]
    samples = [(part, label) for label, part in enumerate(parts)]
    settings = {"num_threads": 1, "transforms": [fsp.transforms.Resize((16, 16))]}
    for seed in range(3):
        folders = [tmp_path / str(seed), None]
        cached, plain = (loader(samples, folder, first_or_last, seed=seed, **settings) for folder in folders)
        for _ in range(4 * EPOCHS):
            for batch, expected in zip(cached, plain, strict=True):
                assert batch.labels.tolist() == expected.labels.tolist() == batch.video_ids.tolist()
                assert batch.clip_ids.tolist() == expected.clip_ids.tolist()
                assert batch.indices.tolist() == expected.indices.tolist() and frames_of(batch) == frames_of(expected)
        assert cached.stats()["disk_clips_read"] > 0


def test_estimate_agrees_with_what_is_decoded(tiny_clips, tmp_path):
    cached = loader(tiny_clips, tmp_path, num_threads=1)
    cost = cached._estimate_cost()
    (expected,) = cost["disk_caches"]
    assert expected["epochs"] == 4 and cached.stats()["frames_decoded"] == 0
    on_disk = []
    for _ in range(17):
        delivered(cached)
        on_disk.append(sum(path.stat().st_size for path in tmp_path.rglob("*.clips")))
    # In the first epoch, and in each cycle of four epochs, all videos are decoded. What tasks still have to make for
    # later epochs at the end are at most the runs of one epoch, a quarter of those of a cycle.
    estimate = 13 * (expected["first_epoch_frames_per_clip"] + 16 * expected["frames_per_clip"])
    assert 0.85 * estimate < cached.stats()["frames_decoded"] < 1.1 * estimate
    assert 0.5 * expected["disk_bytes"] < max(on_disk)
    # At the end of an epoch a video has 3, 1, 2 or 3 clips on disk, depending on its phase; all are equally likely.
    record = 64 + 4 * 32 * 32 * 3
    assert 13 * 9 / 4 * record <= expected["disk_bytes"] <= 13 * 3 * record
    plain = loader(tiny_clips)
    delivered(plain)
    found = plain._estimate_cost()
    assert plain.stats()["frames_decoded"] == pytest.approx(13 * found["frames_per_clip"])
    assert found["frames_per_clip"] == cost["frames_per_clip"] > 2 * expected["frames_per_clip"]
    assert [each["epochs"] for each in found["disk_caches"]] == [4, 8, 16] and found["disk_caches"][0] == expected
    later = [each["frames_per_clip"] for each in found["disk_caches"]]
    assert later == sorted(later, reverse=True)


def test_estimate_of_clips_that_are_the_same_in_every_epoch(tiny_clips, tmp_path):
    keywords = {"transforms": [fsp.transforms.Resize((24, 32))], "num_threads": 1}
    cached = loader(tiny_clips, tmp_path, fsp.samplers.UniformClips(sequence_length=4), **keywords)
    cost = cached._estimate_cost()
    (expected,) = cost["disk_caches"]
    assert expected["frames_per_clip"] == 0 and expected["first_epoch_frames_per_clip"] == cost["frames_per_clip"]
    epochs(cached, 3)
    assert cached.stats()["frames_decoded"] == pytest.approx(13 * cost["frames_per_clip"])
    used = sum(path.stat().st_size for path in tmp_path.rglob("*.clips"))
    assert 0 <= expected["disk_bytes"] - used < 64  # a record begins at a multiple of 64 bytes


def test_estimate_without_anything_to_store(tiny_clips, tmp_path):
    in_memory = loader([(Path(path).read_bytes(), label) for path, label in tiny_clips[:4]])
    cost = in_memory._estimate_cost()
    assert cost["disk_caches"] == [] and cost["frames_per_clip"] > 4 and len(_bench.expected_text(cost)) == 1
    (expected,) = loader(tiny_clips, tmp_path, memory=0)._estimate_cost()["disk_caches"]
    # Clips of later epochs need memory until they are written.
    assert expected["disk_bytes"] == 0 and expected["frames_per_clip"] > 20


def test_bench_states_what_a_disk_cache_changes(tiny_clips, tmp_path, capsys):
    advise = _bench._disk_cache_advice
    plain, small = loader(tiny_clips), loader(tiny_clips, tmp_path, size="10KB")
    cost = plain._estimate_cost()
    _, text = _bench.expected_text(cost)
    assert text.count("with a disk cache of") == 3 and "in the first epoch" in text
    assert f"to {cost['disk_caches'][1]['frames_per_clip']:.0f} in a run" in (
        advise(cost, plain._settings["options"]) or ""
    )
    assert "but its size is 10 KB" in (advise(small._estimate_cost(), small._settings["options"]) or "")
    fits = loader(tiny_clips, tmp_path)
    assert advise(fits._estimate_cost(), fits._settings["options"]) is None
    assert any("disk cache of 8 epochs" in sentence for sentence in fsp.tools.bench(plain, seconds=0.1).advice)
    words = ["bench", tiny_clips[0][0], "--frames", "4", "--random-resized-crop", "32", "--seconds", "0.1"]
    assert main(words) == 0
    assert "with a disk cache of 16 epochs" in capsys.readouterr().out


ADVICE = "a video is decoded once for several epochs"


@pytest.fixture
def advice(monkeypatch, caplog):
    """The messages that advise a disk cache, as in a new process."""
    monkeypatch.setattr(logs, "_disk_cache_advised", False)
    caplog.set_level(logging.INFO, "framespool")
    return lambda: [record for record in caplog.records if ADVICE in record.getMessage()]


def test_disk_cache_is_advised_once_after_the_first_epoch(tiny_clips, advice):
    for dataset in (tiny_clips, tiny_clips[:7]):
        plain = loader(dataset, None, fsp.samplers.UniformClips(sequence_length=4))
        batches = iter(plain)
        next(batches)
        assert len(advice()) == (dataset is not tiny_clips)
        epochs(plain, 2)
        (record,) = advice()
    assert record.levelno == logging.INFO and record.name == "framespool.loader"
    numbers = re.match(r"(\d+) frames were decoded for each clip, .* are (\d+) frames apart", record.getMessage())
    assert numbers and 10 < int(numbers[1]) < 60 and 30 < int(numbers[2]) < 110


@pytest.mark.parametrize(
    ("options", "is_worker"),
    [
        ({"transforms": [fsp.transforms.Resize(24)], "sampler": fsp.samplers.UniformClips(sequence_length=4)}, False),
        ({"sampler": fsp.samplers.RandomClips(sequence_length=4, clips_per_video=2)}, False),
        ({"folder": "clips"}, False),
        ({"num_shards": 2, "shard_id": 1}, False),
        ({"num_shards": fsp.options.Shards(1, worker_id=0, num_workers=2)}, False),
        ({}, True),
    ],
)
def test_disk_cache_is_not_advised(options, is_worker, tiny_clips, tmp_path, advice, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_disk_cache, "data_loader_worker", lambda: 0 if is_worker else None)
    epochs(loader(tiny_clips, **{"batch_size": 2, **options}), 2)
    assert not advice()
    monkeypatch.setattr(_disk_cache, "data_loader_worker", lambda: None)
    epochs(loader(tiny_clips), 1)
    assert len(advice()) == 1


def test_short_gops_and_silent_loggers_need_no_advice(tiny_clips, videos, advice, caplog):
    short = sorted((videos / "codecs").glob("mjpeg*"))[:2]
    epochs(loader([str(path) for path in short], None, fsp.samplers.RandomClips(sequence_length=2)), 1)
    caplog.set_level(logging.WARNING, "framespool")
    quiet = loader(tiny_clips)
    assert not _disk_cache.wants_disk_cache_advice(quiet._settings)
    epochs(quiet, 1)
    assert short and not advice()


def test_command_lists_and_prunes_runs(tiny_clips, tmp_path, capsys):
    def command(*words: str) -> dict[str, Any]:
        assert main(["cache", *words, "--json"]) == 0
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    folder = tmp_path / "cache"
    ended, running = (loader(tiny_clips, folder, num_threads=1, seed=seed) for seed in (1, 2))
    for used in (ended, running):
        epochs(used, 2)
    del used, ended
    (folder / "notes").write_text("text")
    found = command(str(folder))["runs"]
    assert sorted(run["in_use"] for run in found) == [False, True]
    for run in found:
        assert run["clips"] > 0 and run["bytes"] > run["clips"] * 4 * 32 * 32 * 3
        assert 1 <= run["first_epoch"] <= run["last_epoch"] <= 4 and not run["has_clips_of_every_epoch"]
    assert main(["cache", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "in use" in printed and "unused for" in printed and "2 runs" in printed
    assert command("prune", str(folder))["deleted"] == []  # not unused for 14 days
    pruned = command("prune", str(folder), "--all")
    assert [run["in_use"] for run in pruned["deleted"]] == [False] and len(pruned["left"]) == 1
    assert (folder / "notes").read_text() == "text"
    read = running.stats()["disk_clips_read"]
    epochs(running, 2)
    assert running.stats()["disk_clips_read"] > read
    del running
    assert main(["cache", "prune", str(folder), "--older-than", "0"]) == 0
    assert "deleted 1 runs" in capsys.readouterr().out and command(str(folder))["runs"] == []


def test_arguments(tiny_clips, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for wrong, said in [
        ({"disk": 3}, "disk must be a folder on a local disk .*, got 3"),
        ({"disk": ""}, "disk must be a folder on a local disk .*, got ''"),
        ({"disk": "s3://bucket/clips"}, "disk must be a folder on a local disk .*, got 's3://bucket/clips'"),
        ({"disk_size": "much"}, "disk_size must be a number of bytes"),
        ({"disk_size": None}, "disk='a' is given without disk_size; .*such as disk_size=\"500GiB\""),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"disk": None}, "disk_size=1 is given without disk; .*such as disk=.*or omit disk_size"),
        ({"disk": None, "disk_size": None, "epochs": 4}, "epochs=4 is given without disk; .*or omit epochs"),
        ({"memory": "much"}, "memory must be a number of bytes"),
        ({"device_memory": -1}, "device_memory must be at least 0, got -1"),
        ({"lookahead": 1.5}, "lookahead must be an int, got 1.5"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            fsp.Cache(**{"disk": "a", "disk_size": 1, **wrong})
    assert fsp.Cache(disk="~/clips", disk_size=1)._for_engine()["clip_store"]["folder"] == os.path.expanduser("~/clips")
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"file for clips cannot be used: .*name a folder on a local disk"
    ):
        loader(tiny_clips, file)


def keys(clips: fsp.ClipLoader) -> dict[int, bytes]:
    """The content keys of the next epoch by clip."""
    found = {}
    for batch in clips:
        found |= zip(batch.clip_ids.tolist(), (bytes(key) for key in batch.content_keys.tolist()), strict=True)
    return found


def test_content_keys_say_which_frames_are_equal(tiny_clips, tmp_path):
    """They do not depend on the order and the number of threads."""
    files = [shutil.copy(path, tmp_path) for path, _ in tiny_clips[:4]]
    uniform, resize = fsp.samplers.UniformClips(sequence_length=4), [fsp.transforms.Resize((16, 16))]
    fixed = loader(files, sampler=uniform, transforms=resize)
    first = keys(fixed)
    assert len(set(first.values())) == 4
    assert keys(fixed) == first == keys(loader(files, sampler=uniform, transforms=resize, shuffle=False, num_threads=1))
    assert not set(first.values()) & set(
        keys(loader(files, sampler=uniform, transforms=resize, dtype="float32")).values()
    )
    varying = loader(files, sampler=uniform)
    assert not set(keys(varying).values()) & set(keys(varying).values())
    Path(files[0]).write_bytes(Path(tiny_clips[4][0]).read_bytes())
    changed = keys(loader(files, sampler=uniform, transforms=resize))
    assert [clip for clip in first if changed[clip] != first[clip]] == [0]
    content = [Path(path).read_bytes() for path in files]
    assert set(keys(loader(content, sampler=uniform)).values()) == {bytes(16)}
