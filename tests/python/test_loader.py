"""Batches: order, shards, last batches, bad files, interrupts, forks."""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from processes import engine_threads, wait_until

SMALL = [fsp.transforms.Resize((32, 40))]


def loader(dataset, sampling=None, **keywords):
    sampling = sampling or fsp.samplers.RandomClips(sequence_length=4, stride=3)
    settings = {"batch_size": 4, "transforms": SMALL, "shuffle": "full", "seed": 7, **keywords}
    return fsp.ClipLoader(dataset, sampling, **settings)


def digest(batches):
    md5 = hashlib.md5()
    for b in batches:
        for tensor in (b.frames, b.labels, b.indices, b.pts_seconds, b.mask, b.video_ids, b.clip_ids, b.padding):
            md5.update(repr(tensor.shape).encode())
            md5.update(tensor.tobytes())
    return md5.hexdigest()


def test_threads_and_prefetch_change_nothing(tiny_clips):
    digests = {
        digest(loader(tiny_clips, num_threads=threads, prefetch_batches=prefetch_batches))
        for threads, prefetch_batches in [(1, 0), (1, 2), (4, 1), (4, 3), (3, 0)]
    }
    assert len(digests) == 1


def test_default_of_cache_is_that_of_its_memory():
    assert inspect.signature(fsp.ClipLoader).parameters["cache"].default == fsp.Cache().memory


def test_memory_and_lookahead_do_not_change_batches(tiny_clips):
    rule = fsp.samplers.Windows(sequence_length=4, step=2)
    made = {}
    for cache in (0, "200 KB", "2GiB", fsp.Cache(lookahead=0)):
        batches = loader(tiny_clips[:6], rule, cache=cache, num_threads=2)
        made[cache] = (digest(batches), batches.stats())
    assert len({digests for digests, _ in made.values()}) == 1
    none, some, ample, blind = (stats for _, stats in made.values())
    assert none["clip_cache_hits"] == blind["clip_cache_hits"] == 0
    assert 0 < some["clip_cache_peak_bytes"] <= some["memory_budget"] == 200_000
    assert ample["frames_decoded"] < some["frames_decoded"] <= none["frames_decoded"]
    assert ample["gops_shared"] > 0 and ample["clip_cache_hits"] > 0
    # Windows overlap by half: a frame is decoded once for both.
    assert ample["frames_used"] < ample["frames"] * 0.6


def test_lookahead_does_not_change_the_epoch(tiny_clips):
    batches = loader(tiny_clips)
    batches.set_epoch(3)
    ready = list(batches.cached_batches(2))
    assert len(ready) == len(batches) and ready[0] is ready[2] and ready[1] is ready[3]
    decoded = batches.stats()["frames_decoded"]
    expected = loader(tiny_clips)
    expected.set_epoch(3)
    assert batches.epoch == 3 and digest(batches) == digest(expected)
    assert batches.stats()["frames_decoded"] > decoded


def test_batch_metadata_matches_its_frames(tiny_clips):
    for batch in loader(tiny_clips):
        n = len(batch)
        assert batch.frames.shape == (n, 4, 3, 32, 40) and batch.frames.dtype == "uint8"
        assert batch.labels.tolist() == [tiny_clips[v][1] for v in batch.video_ids.tolist()]
        for i in range(n):
            video = fsp.Video(tiny_clips[batch.video_ids.tolist()[i]][0])
            frames = video.frames(batch.indices.tolist()[i], transforms=SMALL)
            assert np.array_equal(batch.frames[i].numpy(), frames.frames.numpy())
            assert batch.pts_seconds.tolist()[i] == frames.pts_seconds
            assert np.diff(batch.indices.tolist()[i]).tolist() == [3, 3, 3]


def test_seed_and_epoch_decide_the_order_and_the_clips(tiny_clips):
    first = loader(tiny_clips)
    epoch0 = digest(first)
    epoch1 = digest(first)  # iterating again is the next epoch
    assert epoch0 != epoch1
    first.set_epoch(0)
    assert digest(first) == epoch0
    assert digest(loader(tiny_clips)) == epoch0
    assert digest(loader(tiny_clips, seed=8)) != epoch0


def test_without_shuffle_clips_come_as_in_the_dataset(tiny_clips):
    ids = [i for b in loader(tiny_clips, shuffle=False) for i in b.clip_ids.tolist()]
    assert ids == list(range(13))


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_shards_are_disjoint_complete_and_equally_long(tiny_clips, shards):
    ranks = [list(loader(tiny_clips, shard_id=r, num_shards=shards)) for r in range(shards)]
    sizes = {tuple(len(b) for b in rank) for rank in ranks}
    assert len(sizes) == 1
    real = [
        clip
        for rank in ranks
        for b in rank
        for clip, padding in zip(b.clip_ids.tolist(), b.padding.tolist(), strict=True)
        if not padding
    ]
    assert sorted(real) == list(range(13))


@pytest.mark.parametrize(("policy", "sizes"), [("partial", [4, 4, 4, 1]), ("drop", [4, 4, 4]), ("fill", [4, 4, 4, 4])])
def test_last_batch_policies(tiny_clips, policy, sizes):
    batches = loader(tiny_clips, last_batch=policy)
    assert len(batches) == len(sizes)
    got = list(batches)
    assert [len(b) for b in got] == sizes
    assert sum(sum(b.padding.tolist()) for b in got) == max(0, sum(sizes) - 13)


def test_windows_cover_every_video(tiny_clips):
    rule = fsp.samplers.Windows(sequence_length=8, stride=2, step=20)
    batches = list(loader(tiny_clips, rule, shuffle=False))
    lengths = [len(fsp.Video(path)) for path, _ in tiny_clips]
    expected = [(v, start) for v, n in enumerate(lengths) for start in range(0, n, 20) if start + 7 * 2 + 1 <= n]
    got = [
        (v, indices[0]) for b in batches for v, indices in zip(b.video_ids.tolist(), b.indices.tolist(), strict=True)
    ]
    assert got == expected
    assert sum(rule.clips_in(n) for n in lengths) == len(expected) == loader(tiny_clips, rule).num_clips


def test_constant_padding_is_black_and_masked(tiny_clips):
    rule = fsp.samplers.Windows(sequence_length=40, step=40, padding="blank")
    for layout in ("NTHWC", "NTCHW", "NCTHW"):
        seen = 0
        for batch in loader(tiny_clips, rule, layout=layout, shuffle=False):
            frames, mask = batch.frames.numpy(), batch.mask.numpy()
            if layout == "NCTHW":
                frames = frames.transpose(0, 2, 1, 3, 4)
            assert not frames[~mask].any()
            assert all(frame.any() for frame in frames[mask])
            seen += int((~mask).sum())
        assert seen > 0


def test_clips_of_different_sizes_come_as_a_list(short_clips, videos):
    dataset = [short_clips[0], (str(videos / "derived" / "tiny_34x26_h264.mp4"), 1)]
    (batch,) = loader(dataset, transforms=None, shuffle=False)
    assert [tensor.shape for tensor in batch.frames] == [(4, 3, 480, 640), (4, 3, 26, 34)]


def test_layouts_and_dtypes(tiny_clips):
    shapes = {"NTHWC": (4, 4, 32, 40, 3), "NTCHW": (4, 4, 3, 32, 40), "NCTHW": (4, 3, 4, 32, 40)}
    for layout, shape in shapes.items():
        batch = next(iter(loader(tiny_clips, layout=layout, dtype="float32")))
        assert batch.frames.shape == shape and batch.frames.dtype == "float32"


def test_bad_file_raises_in_order(tiny_clips, bad_file):
    dataset = [*tiny_clips[:5], (bad_file, 5), *tiny_clips[5:]]
    batches, errors = 0, []
    epoch = iter(loader(dataset, shuffle=False))
    while True:
        try:
            next(epoch)
            batches += 1
        except StopIteration:
            break
        except fsp.errors.InvalidDataError as error:
            errors.append((batches, error))
    assert batches == 3 and len(errors) == 1
    at, error = errors[0]
    assert at == 1 and error.file == bad_file and "broken.mp4" in str(error)


def test_skip_leaves_the_bad_clip_out_and_counts_it(tiny_clips, bad_file):
    dataset = [*tiny_clips[:5], (bad_file, 5), *tiny_clips[5:]]
    bad = loader(dataset, shuffle=False, on_error="skip", num_threads=3)
    batches = list(bad)
    assert [len(b) for b in batches] == [4, 3, 4, 2]
    assert [v for b in batches for v in b.video_ids.tolist()] == [i for i in range(14) if i != 5]
    stats = bad.stats()
    assert stats["clips_skipped"] == 1 and stats["errors"] == {"invalid_data": 1}
    assert digest(batches) == digest(loader(dataset, shuffle=False, on_error="skip", num_threads=1))


def test_replace_is_deterministic_and_counted(tiny_clips, bad_file):
    dataset = [(bad_file, 99), *tiny_clips, (bad_file, 99)]
    first = loader(dataset, on_error="replace", num_threads=4)
    batches = list(first)
    assert sum(len(b) for b in batches) == 15
    assert 99 not in [label for b in batches for label in b.labels.tolist()]
    assert first.stats()["clips_replaced"] == 2
    assert digest(batches) == digest(loader(dataset, on_error="replace", num_threads=1))


def test_video_without_clip_follows_the_policy(short_clips, videos):
    small = (str(videos / "derived" / "tiny_34x26_h264.mp4"), 77)
    crop = {"transforms": [fsp.transforms.RandomCrop(200)], "shuffle": False}
    with pytest.raises(fsp.errors.ClipSamplingError, match=r"tiny_34x26.*RandomCrop.*200"):
        list(loader([short_clips[0], small], **crop))
    (batch,) = loader([short_clips[0], small, short_clips[1]], on_error="skip", **crop)
    assert batch.video_ids.tolist() == [0, 2] and batch.frames.shape == (2, 4, 3, 200, 200)
    long = fsp.samplers.RandomClips(sequence_length=61, padding="error")
    with pytest.raises(fsp.errors.ClipSamplingError, match="tiny_34x26"):
        list(loader([small], long))
    (batch,) = loader([small], fsp.samplers.RandomClips(sequence_length=61))
    assert batch.mask.tolist() == [[True] * 60 + [False]]


def test_all_bad_files_raise_under_every_policy(bad_file, tiny_clips):
    for policy in ("raise", "replace", "skip"):
        with pytest.raises(fsp.errors.InvalidDataError):
            list(loader([(bad_file, 0)] * 3, on_error=policy))
    windows = fsp.samplers.Windows(sequence_length=4)
    for policy in ("skip", "replace"):
        with pytest.raises(
            fsp.errors.ArgumentError, match=r"no video yields a clip: 5 of 5 .*; and 2 more\)$"
        ) as raised:
            loader([(bad_file, 0)] * 5, windows, on_error=policy)
        assert str(raised.value).count(str(bad_file)) == 3
    with pytest.raises(
        fsp.errors.ArgumentError, match="1 of 2 videos cannot be read .* longest of the others has 77 frames"
    ):
        loader([(bad_file, 0), tiny_clips[0]], fsp.samplers.Windows(sequence_length=999), on_error="skip")


def test_epoch_can_be_left_and_restarted(tiny_clips):
    batches = loader(tiny_clips, num_threads=3, prefetch_batches=3)
    for _ in range(5):
        batches.set_epoch(0)
        next(iter(batches))
    batches.set_epoch(0)
    assert digest(batches) == digest(loader(tiny_clips))


def test_flat_stats_are_numbers_only(tiny_clips, bad_file):
    made = loader([*tiny_clips[:3], (bad_file, 5)], on_error="skip")
    list(made)
    flat, stats = made.stats(flat=True), made.stats()
    assert all(type(value) in (int, float) for value in flat.values())
    assert flat["errors/invalid_data"] == stats["errors"]["invalid_data"] == 1 and "errors" not in flat
    assert {name for name, value in stats.items() if isinstance(value, (int, float))} == {
        name for name in flat if "/" not in name
    }


def test_stats_count_what_was_done(tiny_clips):
    batches = loader(tiny_clips)
    list(batches)
    stats = batches.stats()
    assert (stats["batches"], stats["clips"], stats["frames"]) == (4, 13, 52)
    assert stats["frames_used"] == 52
    assert stats["frames_decoded"] >= 52 and stats["videos_indexed"] == 13
    assert stats["frames_decoded_per_frame_delivered"] == stats["frames_decoded"] / 52
    assert stats["bytes_read"] > 0 and stats["errors"] == {}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"num_shards": 2, "shard_id": 2}, "shard_id must be below num_shards=2, got 2"),
        ({"num_threads": 0}, "num_threads must be at least 1, got 0"),
        ({"prefetch_batches": -1}, "prefetch_batches must be at least 0, got -1"),
        ({"cache": "much"}, "cache must be.*'much'"),
        ({"cache": "2 XB"}, "cache must be.*'2 XB'"),
        ({"cache": None}, "cache must be an int, got None; .*use framespool.Cache"),
        ({"cache": -1}, "cache must be at least 0, got -1; .*use framespool.Cache"),
        ({"last_batch": "keep"}, 'last_batch must be.*"keep"'),
        ({"on_error": "ignore"}, 'on_error must be.*"ignore"'),
        ({"shuffle": "all"}, "shuffle must be.*'all'"),
        ({"seed": -1}, "seed must be.*-1"),
        ({"layout": "NHWC"}, 'layout must be.*"NHWC"'),
        ({"batch_size": 2.5}, "batch_size must be an int, got 2.5"),
        ({"transforms": [fsp.transforms.Normalize((0, 0, 0), (1, 1, 1))]}, "float32"),
    ],
)
def test_wrong_keywords_are_repeated_back(tiny_clips, keywords, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        loader(tiny_clips, **keywords)


def test_datasets_and_rules_are_checked(tiny_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="empty"):
        loader([])
    with pytest.raises(fsp.errors.ArgumentError, match="sample 1"):
        loader([tiny_clips[0], ("x", "label")])
    with pytest.raises(fsp.errors.ArgumentError, match="folder"):
        loader("some/folder")
    with pytest.raises(fsp.errors.ArgumentError, match="framespool.samplers"):
        fsp.ClipLoader(tiny_clips, "random", batch_size=1)
    with pytest.raises(fsp.errors.ArgumentError, match="stride must be.*0"):
        fsp.samplers.RandomClips(sequence_length=4, stride=0)
    with pytest.raises(fsp.errors.ArgumentError, match="padding.*zeros"):
        fsp.samplers.Windows(sequence_length=4, padding="zeros")


def test_specs_and_datasets_pickle(tiny_clips):
    for thing in (
        fsp.datasets.Dataset(tiny_clips, ["a"]),
        fsp.samplers.RandomClips(sequence_length=4),
        fsp.samplers.Windows(sequence_length=4, padding="edge"),
        fsp.transforms.Resize((3, 4)),
        fsp.transforms.CenterCrop(5),
        fsp.transforms.Normalize((0, 0, 0), (1, 1, 1)),
    ):
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_videos_may_be_bytes(tiny_clips):
    in_memory = [(Path(path).read_bytes(), label) for path, label in tiny_clips[:4]]
    frames = [np.concatenate([b.frames.numpy() for b in loader(dataset)]) for dataset in (tiny_clips[:4], in_memory)]
    assert np.array_equal(*frames)


def test_next_of_an_older_iterator_is_an_error(tiny_clips):
    """It ended as if the epoch were over, so that two iterators in a zip delivered nothing."""
    batches = loader(tiny_clips)
    whole = [batch.clip_ids.tolist() for batch in batches]
    batches.set_epoch(0)
    pairs = zip(iter(batches), iter(batches), strict=False)
    with pytest.raises(RuntimeError, match=r"batch 0 and the later ones.*a newer iterator.*create a loader for each"):
        next(pairs)
    older = iter(batches)
    assert [next(older).clip_ids.tolist() for _ in range(3)] == whole[:3]
    newer = iter(batches)
    for _ in range(2):
        with pytest.raises(fsp.errors.CancelledError, match="batch 3 and the later ones"):
            next(older)
    # The newer one is the next epoch, and is complete.
    taken = [next(newer).clip_ids.tolist() for _ in range(len(batches))]
    assert len(taken) == len(whole) and taken != whole and batches.state_dict()["epoch"] == 2
    # An iterator that has delivered all its batches has reached its end.
    assert len(list(batches)) == len(whole) and next(newer, None) is None
    with pytest.raises(fsp.errors.CancelledError, match="batch 1 and"):
        for _ in batches:
            batches.cached_batches(1)
    for _ in batches:
        batches.load_state_dict(batches.state_dict())  # documented to end the iteration
    assert next(iter(batches)) is not None


def test_ctrl_c_stops_a_waiting_loader(videos):
    # One batch needs thirty seconds of decoding; the interrupt comes while the consumer waits for it.
    program = textwrap.dedent("""
        import os, signal, sys, threading, time, framespool as fsp
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
        main_thread = threading.main_thread().ident

        def interrupt_the_wait():
            while "framespool" not in sys._current_frames()[main_thread].f_code.co_filename:
                time.sleep(0.001)
            while not loader.stats()["frames_decoded"]:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        path = sys.argv[1]
        rule = fsp.samplers.RandomClips(sequence_length=8, stride=4)
        loader = fsp.ClipLoader([path] * 300, rule, batch_size=300, num_threads=2,
                                transforms=[fsp.transforms.Resize((64, 64))])
        epoch = iter(loader)
        threading.Thread(target=interrupt_the_wait, daemon=True).start()
        try:
            next(epoch)
        finally:
            print(loader.stats()["clips"])
    """)
    path = str(videos / "1080p" / "bunny_60p.mp4")
    child = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert "KeyboardInterrupt" in child.stderr, child.stderr
    assert child.returncode in (1, -signal.SIGINT, 130)
    assert int(child.stdout) < 300, "the wait ended before the batch was complete"


def test_use_after_fork_is_refused_with_the_way_out(tiny_clips):
    batches = loader(tiny_clips)
    video = fsp.Video(tiny_clips[0][0])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            refused = 0
            for use in (lambda: next(iter(batches)), lambda: video[0]):
                try:
                    use()
                except fsp.errors.ForkedError as error:
                    refused += "spawn" in str(error)
            code = 0 if refused == 2 else 2
            batches.__dict__.clear()  # and letting go of it in the child must not wait for the parent's threads
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(next(iter(batches))) == 4  # the parent continues


def test_a_dropped_loader_ends_its_threads(tiny_clips):
    # Not counts: a loader of an earlier test may be collected at any time, if a traceback refers to it.
    before = engine_threads()
    batches = loader(tiny_clips, num_threads=3, prefetch_batches=3)
    next(iter(batches))
    # A thread sets its name when it begins to run.
    wait_until(lambda: len(engine_threads() - before) == 3)
    own = engine_threads() - before
    del batches
    wait_until(lambda: not own & engine_threads())


def test_stats_are_readable_while_a_thread_waits(tiny_clips):
    import threading

    batches = loader(tiny_clips, num_threads=1)
    done = threading.Event()
    reads = []

    def poll():
        is_last = False
        while not is_last:
            is_last = done.is_set()
            reads.append((batches.stats()["clips"], len(batches), batches.num_clips))

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        assert sum(len(b) for b in batches) == 13
    finally:
        done.set()
    poller.join()
    assert reads[-1] == (13, 4, 13)


def test_too_many_open_files_is_not_a_file_error(tiny_clips):
    program = """
        import os, resource, sys, threading, time
        import framespool as fsp

        paths = sys.argv[2:]
        rule = fsp.samplers.Windows(sequence_length=4)
        loader = fsp.ClipLoader(paths, rule, batch_size=2, num_threads=1, on_error="skip", index=False)
        expected = len([clip for batch in loader for clip in batch.clip_ids.tolist()])
        again = fsp.ClipLoader(paths, rule, batch_size=2, num_threads=1, on_error="skip", index=False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        if sys.argv[1] == "for a moment":
            threading.Timer(0.05, lambda: [os.close(file) for file in held]).start()
        try:
            found = len([clip for batch in again for clip in batch.clip_ids.tolist()])
            print(found == expected, again.stats()["errors"])
        except fsp.errors.ReadError as error:
            print(type(error).__name__, "ulimit" in str(error), "not an error of the file" in str(error))
    """
    for how, said in (("for a moment", "True {}"), ("for ever", "ReadError True True")):
        command = [sys.executable, "-c", textwrap.dedent(program), how, *(path for path, _ in tiny_clips[:4])]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout.strip() == said, (how, done.stdout, done.stderr)


def test_absurd_numbers_under_way_are_refused(tiny_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="prefetch_batches=100000 .*batch_size=1000"):
        loader(tiny_clips, batch_size=1000, prefetch_batches=100_000)


def test_numpy_integers_are_accepted(tiny_clips):
    rule = fsp.samplers.RandomClips(sequence_length=np.int64(4), stride=np.int32(3))
    batches = loader(tiny_clips, rule, batch_size=np.int64(4), seed=np.uint32(7))
    assert digest(batches) == digest(loader(tiny_clips))


def test_replaced_file_is_indexed_again(tiny_clips, tmp_path):
    path = tmp_path / "a.mkv"
    path.write_bytes(Path(tiny_clips[0][0]).read_bytes())
    batches = loader([path], batch_size=1)
    list(batches)
    other = tmp_path / "b.mkv"
    other.write_bytes(Path(tiny_clips[1][0]).read_bytes())
    other.rename(path)
    (batch,) = batches
    expected = fsp.Video(tiny_clips[1][0]).frames(batch.indices.tolist()[0], transforms=SMALL)
    assert np.array_equal(batch.frames[0].numpy(), expected.frames.numpy())


def test_working_ahead_in_dataset_order_changes_no_batch(tiny_clips):
    windows, resize = fsp.samplers.Windows(sequence_length=4, padding="edge"), [fsp.transforms.Resize((16, 16))]

    def delivered(ahead=0, **options):
        """Takes the second batch when the clip cache has held more than this number of clips."""
        loader = fsp.ClipLoader(tiny_clips, windows, batch_size=4, transforms=resize, **options)
        batches = iter(loader)
        found = [next(batches)]
        wait_until(lambda: not ahead or loader.stats()["clip_cache_peak_bytes"] > ahead * 4 * 16 * 16 * 3)
        found += batches
        return [(b.clip_ids.tolist(), b.frames.tobytes()) for b in found], loader.stats()

    expected, alone = delivered(num_threads=1)
    ahead, stats = delivered(num_threads=4, ahead=40)
    assert ahead == expected
    assert stats["frames_decoded"] <= 1.05 * alone["frames_decoded"], "each picture once"
    # Nothing is made ahead with prefetch_batches=0, and never more than the budget holds.
    assert delivered(num_threads=4, prefetch_batches=0)[0] == expected
    small, stats = delivered(num_threads=4, cache=10 * 4 * 16 * 16 * 3)
    assert small == expected and stats["clip_cache_peak_bytes"] <= 10 * 4 * 16 * 16 * 3
    bad = [*tiny_clips[:2], ("missing.mp4", 0), *tiny_clips[2:]]
    loader = fsp.ClipLoader(bad, windows, batch_size=4, transforms=resize, num_threads=4, on_error="skip")
    assert sum(len(batch) for batch in loader) == sum(len(ids) for ids, _ in expected)
