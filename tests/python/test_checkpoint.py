"""Resuming: an interrupted and resumed run equals an uninterrupted one, on any number of ranks."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import sys
from types import SimpleNamespace

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

SAMPLING = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=4)
TRANSFORMS = [fsp.transforms.RandomResizedCrop((24, 32)), fsp.transforms.RandomHorizontalFlip()]
GLOBAL_BATCH = 8
#: The clip cache of the grouped shuffle holds 20 of 52 clips.
SHUFFLES = {"full": {}, "grouped": {"shuffle": "grouped", "cache": 20 * 3 * 24 * 32 * 3}}
pytestmark = pytest.mark.filterwarnings("ignore:clips of one video")


def loader(dataset, sampling=SAMPLING, **keywords):
    settings = {"batch_size": GLOBAL_BATCH, "transforms": TRANSFORMS, "shuffle": "full", "seed": 5, **keywords}
    return fsp.ClipLoader(dataset, sampling, **settings)


def rank(dataset, rank, ranks, **keywords):
    return loader(dataset, batch_size=GLOBAL_BATCH // ranks, shard_id=rank, num_shards=ranks, **keywords)


def digest(batch):
    md5 = hashlib.md5()
    for name in ("frames", "labels", "indices", "pts_seconds", "mask", "video_ids", "clip_ids", "view_ids", "padding"):
        md5.update(getattr(batch, name).tobytes())
    return md5.hexdigest()


def clips(batch):
    """Each real clip's number and pixels."""
    pixels = [hashlib.md5(batch.frames[i].tobytes()).hexdigest() for i in range(len(batch))]
    numbers = batch.clip_ids.tolist()
    return [(n, p) for n, p, padding in zip(numbers, pixels, batch.padding.tolist(), strict=True) if not padding]


def saved(loader):
    """A state that went through a file."""
    return json.loads(json.dumps(loader.state_dict()))


def check_resumed(make, state):
    fresh = make()
    fresh.load_state_dict(state)
    return fresh


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_an_interrupted_epoch_is_the_uninterrupted_one(tiny_clips, ranks, shuffle):
    draw, options = random.Random(ranks), SHUFFLES[shuffle]
    for number in range(ranks):
        whole = rank(tiny_clips, number, ranks, **options)
        whole.set_epoch(3)
        expected = [digest(batch) for batch in whole]
        assert len(expected) == len(whole) == 7
        for prefetch_batches in (0, 3):
            run = rank(tiny_clips, number, ranks, prefetch_batches=prefetch_batches, **options)
            run.set_epoch(3)
            got: list[str] = []
            while len(got) < len(expected):
                stop = draw.randint(0, 3)
                for _, batch in zip(range(stop), run, strict=False):
                    got.append(digest(batch))
                state = saved(run)
                threads = draw.randint(1, 3)
                run = check_resumed(lambda: rank(tiny_clips, number, ranks, num_threads=threads, **options), state)  # noqa: B023
                if len(got) < len(expected):
                    assert (state["epoch"], state["batch"]) == (3, len(got))
            assert got == expected and (run.epoch, run.first_batch) == (4, 0)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_single_batch_is_that_of_an_iteration(tiny_clips, shuffle):
    options = SHUFFLES[shuffle]
    for make in (
        lambda: loader(tiny_clips, **options),
        lambda: rank(tiny_clips, 1, 2, **options, last_batch="fill"),
        lambda: loader(tiny_clips, **{**options, "batch_size": fsp.PixelBudget(20_000)}),
    ):
        run = make()
        epochs = [[digest(batch) for batch in run] for _ in range(2)]
        iterator = iter(run)
        taken = [digest(next(iterator))]
        state, counted = run.state_dict(), run.stats()["batches"]
        for epoch in (1, 0):
            wanted = epochs[epoch]
            assert [digest(run.batch(epoch=epoch, index=at)) for at in range(len(wanted))] == wanted
        # The iteration continues.
        assert run.state_dict() == state and run.stats()["batches"] == counted
        fresh = make()
        fresh.set_epoch(2)
        assert taken + [digest(batch) for batch in iterator] == [digest(batch) for batch in fresh]
        for wrong in ({"epoch": -1, "index": 0}, {"epoch": 0, "index": -1}, {"epoch": 0, "index": len(epochs[0])}):
            with pytest.raises(fsp.errors.ArgumentError, match="must be"):
                run.batch(**wrong)


def test_single_batch_raises_its_error_and_knows_a_loaded_state(tiny_clips, bad_file):
    damaged = loader([*tiny_clips[:2], (bad_file, 9)], batch_size=4, shuffle=False)
    assert damaged.batch(epoch=0, index=1).clip_ids.tolist() == [4, 5, 6, 7]
    with pytest.raises(fsp.Error, match="broken"):
        damaged.batch(epoch=0, index=2)
    assert damaged.failures() == []
    old, new = loader(tiny_clips, seed=None), loader(tiny_clips, seed=None)
    new.batch(epoch=0, index=0)
    new.load_state_dict(old.state_dict())
    assert digest(new.batch(epoch=0, index=3)) == digest(list(old)[3])


def set_default_generator(seed: int) -> None:
    """Seeds the generator from which `seed=None` draws, which is PyTorch's if another test has imported it."""
    (random.seed if "torch" not in sys.modules else sys.modules["torch"].manual_seed)(seed)


def test_drawn_seed_is_part_of_the_state(tiny_clips):
    set_default_generator(1)
    first, second = (loader(tiny_clips, seed=None) for _ in range(2))
    set_default_generator(1)
    assert loader(tiny_clips, seed=None).seed == first.seed != second.seed
    assert fsp.order.BatchSampler(num_clips=9, batch_size=2, seed=None).seed == second.seed
    iterator = iter(first)
    next(iterator)
    state = saved(first)
    assert state["seed"] == first.seed
    rest = [digest(batch) for batch in [*iterator, *first]]
    second.load_state_dict(state)
    assert second.seed == first.seed and [digest(batch) for batch in [*second, *second]] == rest
    # The same order with the seed as a number, which is not replaced.
    same = check_resumed(lambda: loader(tiny_clips, seed=first.seed), state)
    assert [digest(batch) for batch in same] == rest[: len(same) - 1]
    with pytest.raises(fsp.errors.ArgumentError, match="seed was"):
        loader(tiny_clips, seed=5).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="the clip sampler was"):
        loader(tiny_clips, fsp.samplers.RandomClips(sequence_length=2), seed=None).load_state_dict(state)


def test_drawn_seed_applies_to_all_that_depends_on_it(tiny_clips, tmp_path):
    """Batches limited by pixels; images and their masks, which have a native loader each."""
    resize = [fsp.transforms.Resize((16, 16)), fsp.transforms.RandomHorizontalFlip()]
    files = []
    for number in range(12):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(np.full((16, 16), number, np.uint8)).save(files[-1])

    def pixels():
        return fsp.ClipLoader(
            tiny_clips, SAMPLING, batch_size=fsp.PixelBudget(2500), transforms=resize, shuffle="full", seed=None
        )

    def images():
        return fsp.ImageLoader(files, masks=files, batch_size=3, shuffle="full", seed=None, on_error="raise")

    for make, name in ((pixels, "clip_ids"), (images, "image_ids")):
        old, new = make(), make()
        state, order = saved(old), [getattr(batch, name).tolist() for batch in old]
        new.load_state_dict(state)
        batches = list(new)
        assert [getattr(batch, name).tolist() for batch in batches] == order
        assert sorted(sum(order, [])) != sum(order, [])
    for batch in batches:
        assert [int(mask.numpy()[0, 0]) for mask in batch.masks] == batch.image_ids.tolist()


def test_drawn_seed_is_that_of_rank_0(tiny_clips, monkeypatch):
    def broadcast(values, src):
        assert src == 0 and len(values) == 1
        values[0] = 7

    for ranks in (None, 2):
        distributed = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda ranks=ranks: ranks is not None,
            get_world_size=lambda ranks=ranks: ranks,
            broadcast_object_list=broadcast,
        )
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
        if ranks is None:
            with pytest.raises(
                fsp.errors.ArgumentError, match="num_shards=2 needs torch.distributed with 2 ranks.*not been init"
            ):
                rank(tiny_clips, 1, 2, seed=None)
        else:
            assert rank(tiny_clips, 1, 2, seed=None).seed == 7
            with pytest.raises(
                fsp.errors.ArgumentError, match="needs torch.distributed with 4 ranks.*but it has 2 ranks"
            ):
                rank(tiny_clips, 1, 4, seed=None)


def test_a_state_goes_on_with_another_number_of_ranks(tiny_clips):
    expected = [clips(batch) for batch in loader(tiny_clips)]
    for before, after in [(1, 2), (2, 4), (4, 1), (1, 8)]:
        old = [rank(tiny_clips, r, before) for r in range(before)]
        began = [iter(one) for one in old]
        got = [[clip for it in began for clip in clips(next(it))] for _ in range(3)]
        states = [saved(one) for one in old]
        assert all(state == states[0] for state in states), "one state is valid for all ranks"
        new = [check_resumed(lambda: rank(tiny_clips, r, after), states[0]) for r in range(after)]  # noqa: B023
        went_on = [iter(one) for one in new]
        for _ in range(4):
            got.append([clip for it in went_on for clip in clips(next(it))])
        assert got == expected and all(next(it, None) is None for it in went_on)


def test_a_grouped_state_goes_on_with_another_number_of_ranks_and_the_same_bytes(tiny_clips):
    for before, after in [(1, 2), (2, 4), (4, 1), (1, 8), (4, 2)]:
        old = [rank(tiny_clips, r, before, **SHUFFLES["grouped"]) for r in range(before)]
        # One rank that takes its streams from the state delivers the global batches.
        whole = check_resumed(lambda: loader(tiny_clips, shuffle="grouped"), saved(old[0]))  # noqa: B023
        expected = [sorted(clips(batch)) for batch in whole]
        began = [iter(one) for one in old]
        got = [sorted(clip for it in began for clip in clips(next(it))) for _ in range(3)]
        states = [saved(one) for one in old]
        assert all(state == states[0] for state in states), "one state is valid for all ranks"
        new = [check_resumed(lambda: rank(tiny_clips, r, after, shuffle="grouped"), states[0]) for r in range(after)]  # noqa: B023
        went_on = [iter(one) for one in new]
        got += [sorted(clip for it in went_on for clip in clips(next(it))) for _ in range(4)]
        assert got == expected and all(next(it, None) is None for it in went_on)


def test_state_after_last_batch_is_next_epoch(tiny_clips):
    run = loader(tiny_clips)
    assert (run.epoch, run.state_dict()["batch"]) == (0, 0)
    batches = iter(run)
    for _ in range(len(run)):
        next(batches)
    state = saved(run)
    assert (state["epoch"], state["batch"]) == (1, 0)
    assert next(batches, None) is None and saved(run) == state
    expected = [digest(batch) for batch in run]
    fresh = check_resumed(lambda: loader(tiny_clips), state)
    assert [digest(batch) for batch in fresh] == expected


def test_dropped_iterator_does_not_skip_an_epoch(tiny_clips):
    run = loader(tiny_clips)
    expected = [digest(batch) for batch in run]
    run.set_epoch(0)
    for _ in range(3):
        iter(run)
    assert (saved(run)["epoch"], saved(run)["batch"]) == (0, 0)
    batches = iter(run)
    assert digest(next(batches)) == expected[0]
    state = saved(run)
    assert digest(next(iter(run))) != expected[0], "an epoch that was left early is over"
    run.load_state_dict(state)
    iter(run)
    assert [digest(batch) for batch in run] == expected[1:]


def test_early_set_epoch_keeps_the_current_epoch(tiny_clips):
    run = loader(tiny_clips)
    batches = iter(run)
    next(batches)
    run.set_epoch(5)
    assert (saved(run)["epoch"], saved(run)["batch"]) == (5, 0)
    next(batches)
    assert (saved(run)["epoch"], saved(run)["batch"]) == (0, 2), "it is not finished"
    assert run.epoch == 5 and len(list(run)) == len(run)


def test_functions_and_mixes_are_distinguished(tiny_clips):
    def state(**keywords):
        return loader(tiny_clips, **{"transforms": [*TRANSFORMS, functools.partial(max, **keywords)]}).state_dict()

    assert state(key=1)["transforms"] != state(key=2)["transforms"] and state(key=1) == state(key=1)
    mixes = [fsp.datasets.mix((tiny_clips[:n], 1), (tiny_clips[n:], 1)) for n in (4, 9)]
    one, other = (loader(mix) for mix in mixes)
    with pytest.raises(fsp.errors.ArgumentError, match="the order was"):
        other.load_state_dict(one.state_dict())


def test_set_epoch_keeps_position_only_in_same_epoch(tiny_clips):
    run = loader(tiny_clips)
    run.set_epoch(2)
    for _, _ in zip(range(2), run, strict=False):
        pass
    state = saved(run)
    fresh = check_resumed(lambda: loader(tiny_clips), state)
    assert (fresh.epoch, fresh.first_batch) == (2, 2)
    fresh.set_epoch(2)
    assert len(list(fresh)) == len(fresh) - 2
    fresh.load_state_dict(state)
    fresh.set_epoch(5)
    assert fresh.first_batch == 0 and saved(fresh)["epoch"] == 5 and len(list(fresh)) == len(fresh)


def test_resuming_decodes_no_skipped_batches(tiny_clips):
    sampling = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2_000_000)
    run = loader(tiny_clips, sampling, cache=fsp.Cache(lookahead=0))
    counts = []
    for batch in (10, 10_000_000 // GLOBAL_BATCH):
        run.load_state_dict({**run.state_dict(), "epoch": 1, "batch": batch})
        before = run.stats()["clips"]
        first = next(iter(run))
        assert run.state_dict()["batch"] == batch + 1 and len(first) == GLOBAL_BATCH
        counts.append(run.stats()["clips"] - before)
    assert counts == [GLOBAL_BATCH, GLOBAL_BATCH]


def test_mismatched_state_is_rejected_with_difference(tiny_clips):
    state = loader(tiny_clips).state_dict()
    others = [
        (loader(tiny_clips[1:]), "the dataset"),
        (loader([(path, label + 1) for path, label in tiny_clips]), "the dataset"),
        (
            loader([(fsp.datasets.VideoSegment(path, start_frame=1), label) for path, label in tiny_clips]),
            "the dataset",
        ),
        (
            loader(tiny_clips, fsp.samplers.RandomClips(sequence_length=3, stride=3, clips_per_video=4)),
            "clip sampler was .*stride",
        ),
        (loader(tiny_clips, transforms=TRANSFORMS[:1]), "transforms was .*RandomHorizontalFlip"),
        (loader(tiny_clips, seed=6), "seed was 5, is 6"),
        (loader(tiny_clips, shuffle=False), "the order was .*full"),
        (loader(tiny_clips, last_batch="drop"), "the order was .*partial"),
        (loader(tiny_clips, batch_size=4), r"global batch size \(batch_size x num_shards\) was 8, is 4"),
    ]
    for other, message in others:
        with pytest.raises(fsp.errors.ArgumentError, match=f"does not match this loader: .*{message}"):
            other.load_state_dict(state)
        assert (other.epoch, other.first_batch) == (0, 0), "a rejected state changes nothing"
    fits = loader(
        tiny_clips,
        on_error="skip",
        num_threads=1,
        prefetch_batches=0,
        cache=0,
        dtype="float32",
        layout="NCTHW",
    )
    fits.load_state_dict(state)
    for wrong in (
        None,
        {},
        {**state, "format": 99},
        {**state, "batch": 8},
        {**state, "epoch": -1},
        {**state, "batch": "2"},
        {**state, "seed": np.array([5, 5])},
    ):
        with pytest.raises(fsp.errors.ArgumentError):
            fits.load_state_dict(wrong)


def test_a_changed_argument_inside_a_list_is_named(tiny_clips):
    T = fsp.transforms

    def inside(p, size=24):
        return [T.RandomChoice([T.Resize((24, 32)), [T.RandomShortestSize(size), T.CenterCrop((24, 32))]], p)]

    state = loader(tiny_clips, transforms=inside([1, 2])).state_dict()
    loader(tiny_clips, transforms=inside([1, 2])).load_state_dict(state)
    for other, message in (
        (inside([1, 3]), r"p=\(1\.0, 2\.0\).*, is .*p=\(1\.0, 3\.0\)"),
        (inside([1, 2], 30), r"min_size=\(24,\).*, is .*min_size=\(30,\)"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=f"transforms was .*{message}"):
            loader(tiny_clips, transforms=other).load_state_dict(state)


def test_a_dataset_that_moved_is_the_same_dataset(tiny_clips, tmp_path):
    moved = []
    for path, label in tiny_clips:
        link = tmp_path / path.rsplit("/", 1)[1]
        link.symlink_to(path)
        moved.append((str(link), label))
    loader(moved).load_state_dict(loader(tiny_clips).state_dict())


def test_a_batch_that_failed_is_behind(tiny_clips, bad_file):
    run = loader(
        [*tiny_clips[:3], (bad_file, 0)], fsp.samplers.RandomClips(sequence_length=2), batch_size=1, shuffle=False
    )
    batches = iter(run)
    for _ in range(3):
        next(batches)
    with pytest.raises(fsp.errors.InvalidDataError):
        next(batches)
    assert (saved(run)["epoch"], saved(run)["batch"]) == (1, 0)


def test_skipping_keeps_ranks_in_step(tiny_clips, bad_file):
    dataset = [tiny_clips[0], (bad_file, 0), tiny_clips[1], tiny_clips[2]]
    one = fsp.samplers.RandomClips(sequence_length=2)
    run = loader(dataset, one, batch_size=1, shuffle=False, on_error="skip")
    batches = list(run)
    assert len(batches) == len(run) == 4 and [len(b) for b in batches] == [1] * 4
    assert [b.padding.tolist() for b in batches] == [[False], [True], [False], [False]]
    replacement = batches[1]
    assert replacement.requested_ids.tolist() == [1] and replacement.clip_ids.tolist() != [1]
    assert run.stats()["clips_skipped"] == 1
    again = list(loader(dataset, one, batch_size=1, shuffle=False, on_error="skip", num_threads=1))
    assert [digest(b) for b in again] == [digest(b) for b in batches]
    state = {**run.state_dict(), "epoch": 0, "batch": 1}
    run.load_state_dict(state)
    assert [digest(b) for b in run] == [digest(b) for b in batches[1:]]


def test_a_replacement_is_recorded(tiny_clips, bad_file):
    dataset = [*tiny_clips[:4], (bad_file, 0)]
    run = loader(dataset, fsp.samplers.RandomClips(sequence_length=2), on_error="replace")
    requested = [n for b in run for n in b.requested_ids.tolist()]
    assert sorted(requested) == list(range(5))
    run.set_epoch(0)
    pairs = [pair for b in run for pair in zip(b.requested_ids.tolist(), b.clip_ids.tolist(), strict=True)]
    assert {n for n, got in pairs if n != got} == {4}


def test_failures_are_listed_and_can_be_excluded(tiny_clips, bad_file, tmp_path):
    dataset = fsp.datasets.Dataset([*tiny_clips[:4], (bad_file, 0), (str(tmp_path / "gone.mp4"), 1)], ["a", "b"])
    run = loader(dataset, fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2), on_error="skip")
    list(run)
    failures = run.failures()
    assert [(f["video_id"], f["path"], f["kind"], f["clips"]) for f in failures] == [
        (4, bad_file, "invalid_data", 2),
        (5, str(tmp_path / "gone.mp4"), "not_found", 2),
    ]
    assert "broken.mp4" in failures[0]["message"]
    listed = tmp_path / "bad.jsonl"
    assert run.write_failures(listed) == 2
    in_memory = {"path": None, "video_id": 7}
    held = fsp.datasets.Dataset([(b"bytes", 0)])
    assert held.exclude([in_memory]) == held
    for failures_file in (listed, failures, [bad_file, tmp_path / "gone.mp4"]):
        rest = dataset.exclude(failures_file)
        assert rest.samples == dataset.samples[:4] and rest.classes == ["a", "b"]
    listed.write_text('{"path": "a.mp4"}\n\nnonsense\n')
    with pytest.raises(fsp.errors.ArgumentError, match="bad.jsonl, line 3"):
        dataset.exclude(listed)


def test_segments_equal_frames_of_the_full_video(tiny_clips):
    path, label = tiny_clips[0]
    whole = fsp.Video(path)
    times = whole.frames(range(len(whole))).pts_seconds
    windows = fsp.samplers.Windows(sequence_length=4, stride=2, step=3)
    for part, first, end in [
        (fsp.datasets.VideoSegment(path, start_frame=10, end_frame=30), 10, 30),
        (fsp.datasets.VideoSegment(path, start_frame=40), 40, len(whole)),
        (fsp.datasets.VideoSegment(path, end_frame=10_000), 0, len(whole)),
        (fsp.datasets.VideoSegment(path, start_seconds=times[7], end_seconds=times[20]), 7, 20),
        (fsp.datasets.VideoSegment(path, start_seconds=times[7] + 1e-3, end_seconds=times[20] + 1e-3), 8, 21),
    ]:
        run = loader([(part, label)], windows, shuffle=False, transforms=None)
        batches = list(run)
        indices = [row for batch in batches for row in batch.indices.tolist()]
        assert indices == [[s, s + 2, s + 4, s + 6] for s in range(first, end - 6, 3)]
        assert batches[0].pts_seconds.tolist()[0] == [times[i] for i in indices[0]]
        pictures = whole.frames(indices[0]).frames
        assert batches[0].frames[0].tobytes() == pictures.tobytes()


def test_segments_of_a_file_share_index_and_decoding(tiny_clips):
    path, _ = tiny_clips[0]
    one = fsp.samplers.Windows(sequence_length=8, step=8)
    parts = [(fsp.datasets.VideoSegment(path, start_frame=s, end_frame=s + 8), s) for s in range(0, 40, 8)]
    shared = loader(parts, one, num_threads=1)
    assert sorted(v for b in shared for v in b.video_ids.tolist()) == [0, 1, 2, 3, 4]
    stats = shared.stats()
    assert stats["videos_indexed"] == 1 and stats["gops_shared"] >= 1
    assert stats["frames_decoded"] <= len(fsp.Video(path))


def test_wrong_parts_are_refused(tiny_clips):
    path, label = tiny_clips[0]
    for wrong in (
        {"start_frame": 3, "end_frame": 3},
        {"start_frame": -1},
        {"end_frame": 0},
        {"start_seconds": 1.0, "end_frame": 3},
        {"start_seconds": float("nan")},
        {"start_seconds": 2.0, "end_seconds": 1.0},
    ):
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.datasets.VideoSegment(path, **wrong)
    past = [(fsp.datasets.VideoSegment(path, start_frame=5000), label)]
    dataset = fsp.datasets.Dataset([(fsp.datasets.VideoSegment(path, end_frame=20), 0), *past, tiny_clips[1]])
    run = loader(dataset, fsp.samplers.RandomClips(sequence_length=2), on_error="skip")
    list(run)
    assert [f["part"] for f in run.failures()] == [{"start_frame": 5000}]
    assert dataset.exclude(run.failures()).samples == [dataset.samples[0], tiny_clips[1]]
    assert dataset.exclude([path]).samples == [tiny_clips[1]]
    with pytest.raises(
        fsp.errors.ClipSamplingError,
        match=r"the segment from frame 5000 to the end contains no frame of the video, which has",
    ):
        list(loader(past))
    with pytest.raises(fsp.errors.ArgumentError, match="no video yields a clip"):
        loader(past, fsp.samplers.Windows(sequence_length=4))


def test_discarded_iterator_keeps_the_state_position(tiny_clips):
    run = loader(tiny_clips)
    expected = [digest(batch) for batch in run]
    run.set_epoch(0)
    batches = iter(run)
    next(batches)
    state = saved(run)
    fresh = loader(tiny_clips)
    fresh.load_state_dict(state)
    iter(fresh)
    fresh.set_epoch(0)
    assert (saved(fresh)["epoch"], saved(fresh)["batch"]) == (0, 1)
    assert [digest(batch) for batch in fresh] == expected[1:]


def test_set_epoch_during_an_epoch_applies_to_the_next(tiny_clips):
    run = loader(tiny_clips)
    batches = iter(run)
    next(batches)
    run.set_epoch(5)
    list(batches)
    assert (saved(run)["epoch"], saved(run)["batch"]) == (5, 0) == (run.epoch, 0)
