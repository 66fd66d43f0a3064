"""Custom samplers: their arguments, their errors, and that nothing hangs."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import weakref

import framespool as fsp
import numpy as np
import pytest

TINY = [fsp.transforms.Resize((16, 24))]


def loader(dataset, fn, **keywords):
    clips = {name: keywords.pop(name) for name in ("clips_per_video", "sequence_length") if name in keywords}
    settings = {"batch_size": 4, "transforms": TINY, **keywords}
    return fsp.ClipLoader(dataset, fsp.samplers.Custom(fn, **clips), **settings)


def scattered(info, rng):
    return sorted(rng.sample(range(info.num_frames), 5))


def test_custom_sampler_is_thread_count_independent(short_clips):
    def rows(**keywords):
        made = loader(short_clips, scattered, clips_per_video=3, seed=4, shuffle="full", **keywords)
        return [(i, row) for b in made for i, row in zip(b.clip_ids.tolist(), b.indices.tolist(), strict=True)]

    expected = rows(num_threads=1, prefetch_batches=0, cache=fsp.Cache(lookahead=0))
    assert expected == rows(num_threads=4, prefetch_batches=3) == rows(sequence_length=5)
    assert len(expected) == 39 and all(len(set(row)) == 5 and row == sorted(row) for _, row in expected)
    assert len({tuple(row) for _, row in expected}) == 39
    rule = fsp.samplers.Custom(scattered, clips_per_video=3)
    n = len(fsp.Video(short_clips[0][0]))
    for clip in range(3):
        assert rule.indices(n, clip=clip, seed=4).indices == dict(expected)[clip]


def test_epochs_and_seeds_change_the_draws(short_clips):
    made = loader(short_clips[:3], scattered, seed=1)
    first, second = ([row for b in made for row in b.indices.tolist()] for _ in range(2))
    made.set_epoch(0)
    assert first != second and first == [row for b in made for row in b.indices.tolist()]
    assert first != [row for b in loader(short_clips[:3], scattered, seed=2) for row in b.indices.tolist()]


def test_function_gets_the_video_description(short_clips, videos):
    path = str(videos / "derived" / "vfr_60_15_30_640x360.mp4")
    received = {}

    def fn(info, rng):
        received[info.clip] = info
        return [info.num_frames - 1]

    list(loader([path], fn, clips_per_video=2))
    video = fsp.Video(path)
    for clip in range(2):
        info = received[clip]  # may be stored
        assert (info.num_frames, info.clip) == (len(video), clip)
        assert info.fps == pytest.approx(video.info.average_fps)
        assert info.duration_seconds == pytest.approx(video.info.duration_seconds)
        assert info.pts_seconds == video.pts_seconds
        assert repr(info).startswith("ClipInfo(num_frames=170, fps=40.96")


def test_arrays_ranges_and_generators_are_frames_too(short_clips):
    for fn in (
        lambda info, rng: np.arange(0, 12, 3),
        lambda info, rng: range(0, 12, 3),
        lambda info, rng: (3 * i for i in range(4)),
        lambda info, rng: [np.int32(0), 3, 6, 9],
    ):
        (batch,) = loader(short_clips[:2], fn)
        assert batch.indices.tolist() == [[0, 3, 6, 9]] * 2 and all(map(all, batch.mask.tolist()))


def test_clips_may_differ_in_length(short_clips):
    (batch,) = loader(short_clips[:1], lambda info, rng: range(1 + info.clip), clips_per_video=3)
    assert [t.shape[0] for t in batch.frames] == [1, 2, 3]
    assert batch.indices.tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2]]
    (batch,) = loader(short_clips[:1], lambda info, rng: [2, 0], sequence_length=2)
    assert batch.frames.shape == (1, 2, 3, 16, 24)


def odd(info, rng):
    raise ValueError("what an odd video")


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (
            odd,
            "the sampling function odd raised ValueError: what an odd video \\(line \\d+ of .*test_samplers_custom.py",
        ),
        (lambda info, rng: [0, -1], "must return ints from 0 to \\d+, entry 1 is -1"),
        (lambda info, rng: [info.num_frames], "returned frame (\\d+) \\(entry 0\\), but the video has \\1 frames"),
        (lambda info, rng: [2**70], "entry 0 is 1180591620717411303424"),
        (lambda info, rng: [0, 1.5], "entry 1 is 1.5"),
        (lambda info, rng: "ab", "entry 0 is 'a'"),
        (lambda info, rng: None, "must return frame indices, it returned None"),
        (lambda info, rng: [], "returned no frame index"),
        (lambda info: [0], "raised TypeError: .*takes 1 positional argument"),
        (lambda info, rng: (1 // 0 for _ in range(1)), "raised ZeroDivisionError"),
    ],
)
def test_error_of_the_function_is_the_clips_error(short_clips, fn, said):
    with pytest.raises(fsp.errors.ClipSamplingError, match=said) as raised:
        list(loader(short_clips[:3], fn))
    assert raised.value.file == short_clips[0][0] and short_clips[0][0] in str(raised.value)


def test_a_broken_promise_of_length_is_an_error(short_clips):
    with pytest.raises(
        fsp.errors.ClipSamplingError, match="returned 3 frame indices, but sequence_length=2 was promised"
    ):
        list(loader(short_clips[:1], lambda info, rng: [0, 1, 2], sequence_length=2))


def test_failing_function_affects_one_video(short_clips):
    lengths = [len(fsp.Video(path)) for path, _ in short_clips]

    def picky(info, rng):
        if info.num_frames == lengths[2]:
            raise RuntimeError("not this one")
        return [0, rng.randrange(info.num_frames)]

    failing = {v for v in range(13) if lengths[v] == lengths[2]}
    skipping = loader(short_clips, picky, on_error="skip")
    assert {v for b in skipping for v in b.video_ids.tolist()} == set(range(13)) - failing
    assert skipping.stats()["errors"] == {"clip_sampling": len(failing)}
    replacing = loader(short_clips, picky, on_error="replace")
    assert sum(len(b) for b in replacing) == 13 and replacing.stats()["clips_replaced"] == len(failing)
    batches, errors = 0, 0
    epoch = iter(loader(short_clips, picky, batch_size=1))
    while True:
        try:
            next(epoch)
            batches += 1
        except StopIteration:
            break
        except fsp.errors.ClipSamplingError:
            errors += 1
    assert (batches, errors) == (13 - len(failing), len(failing))


def test_sampler_exception_is_cause_on_callers_thread(short_clips):
    rule = fsp.samplers.Custom(odd)
    with pytest.raises(fsp.errors.ArgumentError) as raised:
        rule.indices(10)
    assert isinstance(raised.value.__cause__, ValueError) and raised.value.__cause__.__traceback__ is not None
    with pytest.raises(fsp.errors.ClipSamplingError) as raised:
        loader(short_clips, odd).describe_clip(0)
    assert isinstance(raised.value.__cause__, ValueError)

    def interrupted(info, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fsp.samplers.Custom(interrupted).indices(10)
    with pytest.raises(KeyboardInterrupt):
        loader(short_clips, interrupted).describe_clip(0)


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit(3), GeneratorExit])
def test_base_exceptions_are_raised_under_every_policy(short_clips, on_error, ends):
    calls = []

    def fn(info, rng):
        calls.append(info.clip)
        if len(calls) == 3:
            raise ends
        return [0, 1]

    batches = loader(
        short_clips,
        fn,
        batch_size=1,
        num_threads=1,
        prefetch_batches=0,
        cache=fsp.Cache(lookahead=0),
        on_error=on_error,
    )
    with pytest.raises(ends if isinstance(ends, type) else type(ends)) as raised:
        list(batches)
    assert raised.value.__traceback__ is not None


def test_a_function_may_use_rules_of_its_own(short_clips):
    inner = fsp.samplers.RandomClips(sequence_length=3, fps=4)

    def fn(info, rng):
        return inner.indices(info.pts_seconds, seed=rng.getrandbits(64)).indices

    (batch,) = loader(short_clips[:2], fn, sequence_length=3)
    assert batch.frames.shape == (2, 3, 3, 16, 24)


def test_loader_in_a_cycle_is_collected(short_clips):
    class Trainer:
        def __init__(self):
            self.loader = loader(short_clips[:2], self.pick)

        def pick(self, info, rng):
            return [0]

    trainer = Trainer()
    list(trainer.loader)
    gone = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None


def run(code, *arguments):
    """Runs a script in its own process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done


SLOW = """
    import sys, threading, time
    import framespool as fsp

    running = threading.Event()

    def slow(info, rng):
        running.set()
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            time.sleep(0.01)
        return [0]

    loader = fsp.ClipLoader(sys.argv[1:], fsp.samplers.Custom(slow), batch_size=1, num_threads=3,
                            transforms=[fsp.transforms.Resize((16, 16))])
    epoch = iter(loader)
    asked = threading.Thread(target=next, args=(epoch, None), daemon=True)
    asked.start()
    running.wait()
"""


@pytest.mark.parametrize(
    "ending",
    [
        "asked.join(); del epoch, loader; print('dropped')",
        "asked.join(); print('left to the end')",
        "asked.join(); iter(loader); print('another epoch')",
        "asked.join(); kept = [epoch, loader]; kept.append(kept); del epoch, loader, kept; print('a cycle')",
        "asked.join(); import os; pid = os.fork(); print('forked') if pid else os._exit(0); pid and os.waitpid(pid, 0)",
        "asked.join(); import os; pid = os.fork(); print('two'); pid and os.waitpid(pid, 0)",
    ],
)
def test_a_loader_may_go_while_functions_run(short_clips, ending):
    code = textwrap.dedent(SLOW) + ending
    assert run(code, *[path for path, _ in short_clips]).stdout.strip()


def test_loaders_may_be_collected_inside_the_sampler(short_clips):
    run(
        """
        import gc, sys
        import framespool as fsp

        gc.disable()
        paths = sys.argv[1:]

        def collecting(info, rng):
            gc.collect()
            return [0]

        def make():
            loader = fsp.ClipLoader(paths, fsp.samplers.Custom(collecting), batch_size=2, num_threads=3,
                                    prefetch_batches=3,
                                    transforms=[fsp.transforms.Resize((16, 16))])
            next(iter(loader))
            loader.itself = loader  # only the collector finds it
            return loader

        for _ in range(8):
            make()
        print(sum(len(batch) for batch in make()))
        """,
        *[path for path, _ in short_clips],
    )
