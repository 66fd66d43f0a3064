"""Batches limited by pixels or tokens: every clip once, equal numbers of batches, the limit, and resumption."""

from __future__ import annotations

import collections
import math
import os
import shutil
import subprocess

import framespool as fsp
import pytest

T = fsp.transforms
SIZES = ["160x90", "240x136", "106x60", "44x36", "160x68"]
SMART = T.SmartResize(28, min_pixels=4 * 28 * 28, max_pixels=40 * 28 * 28)


@pytest.fixture(scope="module")
def files(videos, encoder, tmp_path_factory) -> list[str]:
    """Videos of different sizes, one of them rotated, each several times."""
    folder, command = tmp_path_factory.mktemp("sizes"), [encoder, "-v", "error"]
    for size in SIZES:
        command += ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25"]
    made = [str(folder / f"{size}.mp4") for size in SIZES]
    for number, path in enumerate(made):
        command += ["-map", str(number), "-frames:v", "60", "-g", "30", "-c:v", "libx264", "-threads", "1"]
        command += ["-pix_fmt", "yuv420p", path]
    subprocess.run(command, check=True)
    return [*made, str(videos / "derived" / "rotate_cw90_640x360.mp4")] * 4


def make(files, **more) -> fsp.ClipLoader:
    keywords = {
        "batch_size": fsp.TokenBudget(128),
        "transforms": [SMART],
        "seed": 3,
        "index": False,
        "shuffle": "full",
        **more,
    }
    sampling = keywords.pop("sampling", fsp.samplers.RandomClips(sequence_length=3, clips_per_video=2))
    return fsp.ClipLoader(files, sampling, **keywords)


def tokens(frames) -> int:
    count, _, height, width = frames.shape
    return math.ceil(count / 2) * (height // 28) * (width // 28)


def delivered(loader, epoch: int) -> list[list[tuple[int, bool, tuple[int, ...]]]]:
    loader.set_epoch(epoch)
    return [
        list(zip(batch.clip_ids.tolist(), batch.padding.tolist(), [f.shape for f in batch.frames], strict=True))
        for batch in loader
    ]


@pytest.mark.parametrize("shuffle", ["full", "grouped", "buffer", False])
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_clip_once_and_equal_numbers_of_batches(files, shuffle, ranks):
    for epoch in (0, 1):
        seen, lengths = [], set()
        for rank in range(ranks):
            loader = make(files, shuffle=shuffle, shard_id=rank, num_shards=ranks, num_threads=2)
            batches = delivered(loader, epoch)
            loader.set_epoch(epoch)
            assert len(batches) == len(loader)
            lengths.add(len(batches))
            seen += [clip for batch in batches for clip, padding, _ in batch if not padding]
            for batch in batches:
                cost = sum(math.ceil(s[0] / 2) * (s[2] // 28) * (s[3] // 28) for _, _, s in batch)
                assert cost <= 128 or len(batch) == 1
        assert sorted(seen) == list(range(2 * len(files))) and len(lengths) == 1


def test_batches_hold_clips_of_one_shape_and_are_shuffled(files):
    loader = make(files)
    first, second = delivered(loader, 0), delivered(loader, 1)
    shapes = [{shape for _, _, shape in batch} for batch in first]
    # Neighbors in the sorted order: at most one batch per boundary of two shapes is mixed.
    assert sum(len(each) > 1 for each in shapes) <= len(set.union(*shapes)) - 1
    areas = [max(s[2] * s[3] for s in each) for each in shapes]
    assert areas != sorted(areas)
    ids = [[clip for clip, _, _ in batch] for batch in first], [[clip for clip, _, _ in batch] for batch in second]
    assert ids[0] != ids[1] and len(first) == len(second)
    # Full batches: a batch and the next one of the same shape would not fit into one.
    used = [sum(math.ceil(s[0] / 2) * (s[2] // 28) * (s[3] // 28) for _, _, s in batch) for batch in first]
    assert sum(used) / len(used) > 0.7 * 128


def test_clips_are_those_of_other_batches(files):
    right = {}
    for batch in make(files, batch_size=1, shuffle=False):
        right[batch.clip_ids.tolist()[0]] = (batch.frames[0].tobytes(), batch.indices.tolist()[0])
    seen = 0
    for batch in make(files):
        for place, clip in enumerate(batch.clip_ids.tolist()):
            assert (batch.frames[place].tobytes(), batch.indices.tolist()[place]) == right[clip]
            seen += 1
    assert seen == len(right)


def test_unshuffled_batches_keep_the_order(files):
    ids = [clip for batch in delivered(make(files, shuffle=False), 0) for clip, _, _ in batch]
    assert ids == list(range(2 * len(files)))


def test_resumes_within_an_epoch(files):
    whole = make(files, shard_id=0, num_shards=2)
    whole.set_epoch(1)
    iterator = iter(whole)
    ids = [next(iterator).clip_ids.tolist() for _ in range(2)]
    state = whole.state_dict()
    ids += [batch.clip_ids.tolist() for batch in iterator]
    resumed = make(files, shard_id=0, num_shards=2)
    resumed.load_state_dict(state)
    assert len(resumed) == len(ids)
    assert [batch.clip_ids.tolist() for batch in resumed] == ids[2:]
    assert whole.state_dict() == resumed.state_dict() and resumed.epoch == 2
    for other in (
        make(files, shard_id=0, num_shards=4),
        make(files, shard_id=0, num_shards=2, batch_size=fsp.TokenBudget(100)),
        make(files, shard_id=0, num_shards=2, batch_size=2),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match="the state does not match"):
            other.load_state_dict(state)


def test_a_state_fits_only_the_batches_of_which_it_is(files, tmp_path):
    """Batches follow from the shapes of the clips: another file would move clips between batches of the epoch."""
    mine = [str(shutil.copy(path, tmp_path / f"{number}.mp4")) for number, path in enumerate(files)]
    loader = make(mine, on_error="skip")
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    start = make(mine).state_dict()
    os.remove(mine[0])
    other = make(mine, on_error="skip")
    with pytest.raises(
        fsp.errors.ArgumentError, match="the batches of epoch 0 are not those of.*cannot be read any more"
    ):
        other.load_state_dict(state)
    other.load_state_dict(start)
    before = {name: value for name, value in state.items() if name != "planned"}  # of an earlier release
    other.load_state_dict(before)


def test_replaced_clips_stay_within_the_budget(files, bad_file):
    """A file that cannot be read has no shape: any clip may replace its clips."""
    loader = make([*files, *[bad_file] * 8], on_error="replace")
    batches = list(loader)
    assert loader.stats()["clips_replaced"] == 16 and sum(map(len, batches)) == 2 * len(files) + 16
    assert all(sum(map(tokens, batch.frames)) <= 128 or len(batch) == 1 for batch in batches)


def test_a_batch_of_padding_has_all_repeats(files):
    """Otherwise the rows of one rank would be no multiple of `repeats`."""
    ranks = [make(files, repeats=2, shard_id=rank, num_shards=3, last_batch="partial") for rank in range(3)]
    found = [delivered(rank, 0) for rank in ranks]
    assert len({len(batches) for batches in found}) == 1
    assert any(padding for batches in found for batch in batches for _, padding, _ in batch)
    for batch in (batch for batches in found for batch in batches):
        clips = [clip for clip, _, _ in batch]
        assert clips[::2] == clips[1::2]


def test_workers_take_turns(files):
    alone = delivered(make(files), 0)
    parts = [
        delivered(make(files, num_shards=fsp.options.Shards(1, worker_id=worker, num_workers=2)), 0)
        for worker in (0, 1)
    ]
    assert [parts[n % 2][n // 2] for n in range(len(alone))] == alone


def test_pixels_most_clips_and_repeats(files):
    limit = 2 * 3 * 640 * 360
    loader = make(files, batch_size=fsp.PixelBudget(limit, max_clips=3), transforms=[], repeats=2)
    counted = collections.Counter()
    for batch in loader:
        clips = batch.clip_ids.tolist()
        counted.update(clips)
        pixels = [math.prod((frames.shape[0], *frames.shape[2:])) for frames in batch.frames]
        assert len(set(clips)) <= 3 and clips[::2] == clips[1::2]
        assert sum(pixels) <= limit or len(clips) == 2
    assert counted == dict.fromkeys(range(2 * len(files)), 2)


def test_one_size_opens_no_file(files, tmp_path):
    """The batches are known without the videos if the transforms give one size."""
    resized = {"transforms": [T.Resize((56, 56))], "batch_size": fsp.PixelBudget(3 * 56 * 56 * 5)}
    loader = make([*files, str(tmp_path / "none.mp4")], on_error="skip", **resized)
    assert len(loader) == math.ceil((2 * len(files) + 2) / 5) and loader.stats()["videos_indexed"] == 0
    batches = list(loader)
    assert batches[0].frames.shape[1:] == (3, 3, 56, 56)
    assert sum(len(batch) for batch in batches) == 2 * len(files) and loader.stats()["clips_skipped"] == 2


def test_clips_that_fail(files, bad_file):
    damaged = [*files, bad_file]
    loader = make(damaged, on_error="skip")
    kept = [clip for batch in delivered(loader, 0) for clip, _, _ in batch]
    assert sorted(kept) == list(range(2 * len(files)))
    with pytest.raises(fsp.Error):
        list(make(damaged))


def test_a_clip_above_the_limit_is_a_batch_and_warns(files):
    with pytest.warns(UserWarning, match=r"clip \d+ has 3 frames of \d+x\d+, which exceed tokens=20 alone"):
        batches = delivered(make(files, batch_size=fsp.TokenBudget(20)), 0)
    assert all(len(batch) == 1 for batch in batches if batch[0][2][2] * batch[0][2][3] > 28 * 28 * 10)


def test_lengths_that_differ(videos):
    """Clips of different lengths, as the presets of video-language models choose them, count with their frames."""
    names = ["derived/base_640x360.mp4", "action/long_384x164_90s.mp4", "action/phone_176x144.mp4"]
    loader = make(
        [str(videos / name) for name in names] * 3,
        sampling=fsp.samplers.presets.qwen_vl(fps=1.0),
        batch_size=fsp.TokenBudget(1800),
    )
    for batch in loader:
        assert sum(map(tokens, batch.frames)) <= 1800 or len(batch) == 1
        assert len({frames.shape[0] for frames in batch.frames}) == 1


def test_arguments(files):
    for more, message in (
        ({"batch_size": None}, "batch_size must be an int, got None"),
        ({"shuffle": list(range(48))}, "batch_size must be a number if shuffle is a sampler"),
        ({"transforms": [T.Resize(32)]}, "needs transforms.SmartResize"),
        ({"num_shards": fsp.options.Shards(1, stick_to_shard=True)}, "omit stick_to_shard"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            make(files, **more)
    for budget in (fsp.PixelBudget, fsp.TokenBudget):
        with pytest.raises(fsp.errors.ArgumentError, match="must be at least 1, got 0"):
            budget(0)
        with pytest.raises(fsp.errors.ArgumentError, match="max_clips must be at least 1, got 0"):
            budget(5, max_clips=0)


def test_drop_and_cached_batches(files):
    lengths = {rank: len(make(files, num_shards=4, shard_id=rank, last_batch="drop")) for rank in range(4)}
    assert len(set(lengths.values())) == 1
    loader = make(files)
    assert sum(1 for _ in loader.cached_batches(2)) == len(loader)
    assert len(delivered(loader, 0)) == len(loader)


def test_lengths_that_differ_between_occurrences(files):
    """Each occurrence of a weighted clip counts with its own frames."""
    limit = 24 * 56 * 98  # two repeats of at most 11 frames each
    loader = make(
        fsp.datasets.weighted(files, [9.0] + [1.0] * (len(files) - 1), epoch_clips=120),
        sampling=fsp.samplers.Custom(lambda info, rng: range(rng.randint(1, 11))),
        transforms=[T.Resize(56, max_size=98)],
        batch_size=fsp.PixelBudget(limit),
        repeats=2,
    )
    lengths = collections.defaultdict(set)
    for batch in loader:
        for clip, frames in zip(batch.clip_ids.tolist(), batch.frames, strict=True):
            lengths[clip].add(frames.shape[0])
        assert sum(math.prod((f.shape[0], *f.shape[2:])) for f in batch.frames) <= limit
    assert max(map(len, lengths.values())) > 4
