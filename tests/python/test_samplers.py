"""Clip samplers against plain Python written from their documentation."""

from __future__ import annotations

import math
import pickle
import random
from bisect import bisect_left, bisect_right

import framespool as fsp
import numpy as np
import pytest
from samplers_model import (
    PADDING_POLICIES,
    SLACK,
    Spacing,
    on_screen,
    padded_indices,
    random_spacing,
    random_timing,
    real,
)

PADS = ("drop", "blank", "edge", "reflect_101", "reflect_1001")
CASES = 1500


def same(rule, timing, expected, *, clips, **how):
    """Compares a sampler with the model; ``expected`` of one clip is (indices, mask) or "error"."""
    assert rule.clips_in(**timing.known) == clips
    if expected == "error":
        with pytest.raises(fsp.errors.ArgumentError, match="but the video has|yields 0 clips"):
            rule.indices(**timing.known, **how)
        return
    got = rule.indices(**timing.known, **how)
    assert (got.indices, got.mask) == (list(expected[0]), list(expected[1])), (rule, timing, how)


@pytest.mark.parametrize("seed", range(4))
def test_random_clips_are_as_documented(seed):
    rng = random.Random(seed)
    fitted = 0
    for _ in range(CASES):
        timing, spacing, short = random_timing(rng), random_spacing(rng), rng.choice(PADDING_POLICIES)
        clips, jitter = rng.randint(1, 5), rng.random() < 0.3
        group = rng.choice(["independent", "partitioned"])
        speed, reverse = rng.choice([None, None, (0.5, 2.0), (1.25, 1.25)]), rng.choice([0.0, 0.0, 0.4])
        words = {"clips_per_video": clips, "padding": short, "group": group, "frame_jitter": jitter}
        rule = fsp.samplers.RandomClips(**spacing.words, **words, speed=speed, reverse=reverse)
        draws, longest = [], spacing
        if speed:
            draws, longest = [rng.random()], spacing.at_speed(speed[1])
            spacing = spacing.at_speed(speed[0] + (speed[1] - speed[0]) * draws[0])
        clip, starts = rng.randrange(clips), spacing.starts(timing, jitter)
        fitted += starts > 0
        count = 0 if short == "drop" and not longest.starts(timing, jitter) else clips
        if not count or (not starts and short == "error"):
            same(rule, timing, "error", clips=count, clip=clip, draws=draws if count else [])
            continue
        first, end = 0, starts
        if group == "partitioned":
            first, end = clip * starts // clips, (clip + 1) * starts // clips
        start = 0
        if starts:
            draws.append(rng.randrange(max(end - first, 1)))
            start = first + draws[-1]
        moved = None
        if jitter:
            moved = [rng.randrange(spacing.stride) if spacing.stride else rng.random() for _ in range(spacing.length)]
            draws += moved
        positions = spacing.positions(timing, start, moved)
        indices, mask = padded_indices(timing, positions, short)
        if reverse:
            draws.append(rng.random())
            if draws[-1] < reverse:
                indices, mask = indices[::-1], mask[::-1]
        same(rule, timing, (indices, mask), clips=count, clip=clip, draws=draws)
    assert CASES / 4 < fitted < CASES


@pytest.mark.parametrize("seed", range(4))
def test_uniform_clips_are_as_documented(seed):
    rng = random.Random(seed)
    for _ in range(CASES):
        timing, spacing, short = random_timing(rng), random_spacing(rng), rng.choice(PADDING_POLICIES)
        clips = rng.randint(1, 11)
        rule = fsp.samplers.UniformClips(**spacing.words, clips_per_video=clips, padding=short)
        starts, clip = spacing.starts(timing), rng.randrange(clips)
        count = 0 if short == "drop" and not starts else clips
        last = max(starts - 1, 0)
        start = last // 2 if clips == 1 else math.floor(clip * last / (clips - 1) + 0.5)
        expected = padded_indices(timing, spacing.positions(timing, start), short) if count else "error"
        same(rule, timing, expected, clips=count, clip=clip, draws=[])


def mirrored(timing, position, pad):
    kind, at = position
    n = timing.n
    if pad in ("blank", "edge"):
        return n - 1
    if kind == "frame":
        there = list(range(n)) + (list(range(n - 2, 0, -1)) if pad == "reflect_101" else list(range(n - 1, -1, -1)))
        return there[at % len(there)]
    begin = timing.times[0]
    way = (timing.times[-1] if pad == "reflect_101" else timing.end) - begin
    if way == 0:
        return 0
    into = (at - begin) % (2 * way)
    if pad == "reflect_101":
        return max(bisect_right(timing.times, begin + min(into, 2 * way - into) + SLACK) - 1, 0)
    if into + SLACK < way:
        return bisect_right(timing.times, begin + into + SLACK) - 1
    return max(bisect_left(timing.times, begin + (2 * way - into) - SLACK) - 1, 0)


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_as_documented(seed):
    rng = random.Random(seed)
    padded = 0
    for _ in range(CASES // 2):
        timing, spacing, pad = random_timing(rng, most=30), random_spacing(rng), rng.choice(PADS)
        words = dict(spacing.words)
        if spacing.stride:
            step = rng.choice([None, 1, 2, 5])
            words |= {} if step is None else {"step": step}
            step = step or spacing.length * spacing.stride
            windows = [
                [("frame", s + i * spacing.stride) for i in range(spacing.length)] for s in range(0, timing.n, step)
            ]
        else:
            step = rng.choice([None, 0.25, 0.1 + rng.random()])
            words |= {} if step is None else {"step_seconds": step}
            step = step or spacing.length / spacing.fps
            windows, w = [], 0
            while on_screen(timing, begin := timing.times[0] + w * step) is not None:
                windows.append([("second", begin + i / spacing.fps) for i in range(spacing.length)])
                w += 1
        if pad == "drop":
            windows = [positions for positions in windows if real(timing, positions[-1]) is not None]
        rule = fsp.samplers.Windows(**words, padding=pad)
        assert rule.clips_in(**timing.known) == len(windows), (rule, timing)
        for clip, positions in enumerate(windows):
            found = [real(timing, position) for position in positions]
            shown = [mirrored(timing, s, pad) if at is None else at for s, at in zip(positions, found, strict=True)]
            padded += None in found
            same(rule, timing, (shown, [at is not None for at in found]), clips=len(windows), clip=clip, draws=[])
    assert padded > 100


@pytest.mark.parametrize("seed", range(2))
def test_segments_are_as_documented(seed):
    rng = random.Random(seed)
    for _ in range(CASES):
        timing, short = random_timing(rng), rng.choice(PADDING_POLICIES)
        segments, each, stride = rng.randint(1, 9), rng.randint(1, 4), rng.choice([1, 1, 2, 5])
        clips, mode = rng.randint(1, 3), rng.choice(["random", "middle"])
        rule = fsp.samplers.Segments(
            num_segments=segments,
            frames_per_segment=each,
            stride=stride,
            mode=mode,
            clips_per_video=clips,
            padding=short,
        )
        assert rule.sequence_length == segments * each
        snippet = Spacing(each, stride=stride)
        starts, clip, draws = snippet.starts(timing), rng.randrange(clips), []
        count = 0 if short == "drop" and not starts else clips
        indices, mask = [], []
        for s in range(segments):
            start = 0
            if starts and mode == "random":
                first, end = s * starts // segments, (s + 1) * starts // segments
                draws.append(rng.randrange(max(end - first, 1)))
                start = first + draws[-1]
            elif starts:
                start = (s * (clips + 1) + clip + 1) * starts // (segments * (clips + 1))
            part = padded_indices(timing, snippet.positions(timing, start), short)
            if part == "error":
                indices = None
                break
            indices += part[0]
            mask += part[1]
        expected = (indices, mask) if indices is not None and count else "error"
        same(rule, timing, expected, clips=count, clip=clip, draws=draws if count else [])


@pytest.mark.parametrize("seed", range(2))
def test_dense_clips_are_as_documented(seed):
    rng = random.Random(seed)
    for _ in range(CASES):
        timing, short = random_timing(rng), rng.choice(PADDING_POLICIES)
        length, stride, reach = rng.randint(1, 9), rng.randint(1, 4), rng.randint(1, 50)
        clips, positions = rng.randint(1, 5), rng.choice([None, 1, 2, 5])
        words = {"num_positions": positions} if positions else {}
        rule = fsp.samplers.Dense(
            sequence_length=length, stride=stride, clips_per_video=clips, sample_range=reach, padding=short, **words
        )
        grid = Spacing(length, stride=stride)
        count = 0 if short == "drop" and not grid.starts(timing) else clips * (positions or 1)
        clip, last, draws = rng.randrange(clips * (positions or 1)), max(timing.n - reach, 0), []
        if positions is None:
            draws = [rng.randint(0, last)] if last else []
            position = sum(draws)
        else:
            q = clip // clips
            position = last // 2 if positions == 1 else math.floor(q * last / (positions - 1) + 0.5)
        start = (position + clip % clips * reach // clips) % timing.n
        expected = padded_indices(timing, grid.positions(timing, start), short) if count else "error"
        same(rule, timing, expected, clips=count, clip=clip, draws=draws if count else [])


@pytest.mark.parametrize("seed", range(2))
def test_listed_frames_and_times_are_as_documented(seed):
    rng = random.Random(seed)
    for _ in range(CASES):
        timing, short = random_timing(rng), rng.choice(PADDING_POLICIES)
        lists = [[] for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.5:
            for clip in lists:
                clip += [rng.randint(-timing.n - 3, timing.n + 3) for _ in range(rng.randint(1, 6))]
            positions = [[("frame", at + timing.n if at < 0 else at) for at in clip] for clip in lists]
            rule = fsp.samplers.Indices(lists if len(lists) > 1 else lists[0], padding=short)
        else:
            span = timing.end - timing.times[0]
            for clip in lists:
                clip += [rng.choice([rng.uniform(-0.2, 1.2) * span, rng.choice(timing.times) - timing.times[0]])
                         for _ in range(rng.randint(1, 6))]  # fmt: skip
            positions = [[("second", timing.times[0] + at) for at in clip] for clip in lists]
            rule = fsp.samplers.Seconds(lists if len(lists) > 1 else lists[0], padding=short)
        fits = all(real(timing, position) is not None for clip in positions for position in clip)
        count = 0 if short == "drop" and not fits else len(lists)
        clip = rng.randrange(len(lists))
        expected = padded_indices(timing, positions[clip], short) if count else "error"
        same(rule, timing, expected, clips=count, clip=clip, draws=[])


@pytest.mark.parametrize("seed", range(2))
def test_deltas_are_as_documented(seed):
    rng = random.Random(seed)
    met = {"error": 0, "clamped": 0, "whole": 0}
    for _ in range(CASES):
        timing, step = random_timing(rng), rng.randint(1, 4)
        clip = rng.randrange(-(-timing.n // step))
        origin = timing.times[clip * step]
        deltas = [
            rng.choice([rng.choice(timing.times) - origin + rng.uniform(-1, 1) * 1e-3, rng.uniform(-2, 2), 0.0])
            for _ in range(rng.randint(1, 4))
        ]
        tolerance = rng.choice([0.0, 1e-4, 2e-3, 0.02, 0.5])
        rule = fsp.samplers.Delta(deltas_seconds=deltas, tolerance_seconds=tolerance, step=step)
        near = tolerance + SLACK
        indices, mask, error = [], [], False
        for wanted in (origin + d for d in deltas):
            if wanted < timing.times[0] - near or wanted > timing.times[-1] + near:
                indices.append(0 if wanted < timing.times[0] else timing.n - 1)
                mask.append(False)
                continue
            away = np.abs(np.array(timing.times) - wanted)
            error |= bool(away.min() > near)
            indices.append(int(away.argmin()))
            mask.append(True)
        met["error" if error else "whole" if all(mask) else "clamped"] += 1
        if error:
            with pytest.raises(fsp.errors.ArgumentError, match=r"requests? .* s, but the nearest frame is .* away"):
                rule.indices(**timing.known, clip=clip)
            continue
        got = rule.indices(**timing.known, clip=clip, draws=[])
        assert got.mask == mask and [timing.times[i] for i in got.indices] == [timing.times[i] for i in indices]
    assert min(met.values()) > 50, met


def test_the_usual_numbers_can_be_checked_by_hand():
    s = fsp.samplers
    assert s.RandomClips(sequence_length=4, fps=10).indices(100, fps=25, draws=[3]).indices == [3, 5, 8, 10]
    assert (
        s.UniformClips(sequence_length=16, stride=4, clips_per_video=3).indices(300, clip=1).indices[0] == 120
    )  # 239 / 2
    # 1.75 s from the first frame to the last: it may start with frames 0 to 42 of 60.
    middle = s.UniformClips(sequence_length=8, duration_seconds=2).indices(60, fps=10).indices
    assert middle == [21, 23, 26, 28, 31, 33, 36, 38]
    assert s.Segments(num_segments=3, mode="middle").indices(300).indices == [50, 150, 250]
    assert s.Dense(sequence_length=2, num_positions=1, clips_per_video=2).indices(164, clip=1).indices == [82, 83]
    assert s.Indices([0, -1]).indices(10).indices == [0, 9]
    assert s.Seconds([0.0, 0.99]).indices(25, fps=25).indices == [0, 24]
    got = s.Delta(deltas_seconds=[-0.1, 0.0]).indices(9, fps=10, clip=0)
    assert (got.indices, got.mask) == ([0, 0], [False, True])
    got = s.Windows(sequence_length=2, fps=2, step_seconds=0.5, padding="edge").indices(30, fps=30, clip=1)
    assert (got.indices, got.mask) == ([15, 29], [True, False])


def test_partitions_are_sampled_evenly():
    rule = fsp.samplers.RandomClips(sequence_length=4, stride=2, clips_per_video=3, group="partitioned")
    starts = [[rule.indices(40, clip=c, seed=seed).indices[0] for seed in range(2000)] for c in range(3)]
    for c, drawn in enumerate(starts):  # 34 starts
        expected = range(c * 34 // 3, (c + 1) * 34 // 3)
        counts = np.bincount(drawn, minlength=34)
        assert set(drawn) == set(expected)
        assert counts[list(expected)].min() > 100  # of some 180


def test_what_is_wrong_is_repeated_back():
    s = fsp.samplers
    for make, said in [
        (
            lambda: s.RandomClips(sequence_length=4, stride=2, fps=5),
            "give one of stride, fps and duration_seconds, got str",
        ),
        (lambda: s.RandomClips(sequence_length=4, fps=0), "fps must be greater than 0, got 0"),
        (lambda: s.RandomClips(sequence_length=4, fps=math.nan), "fps must be finite, got nan"),
        (
            lambda: s.UniformClips(sequence_length=4, duration_seconds=-1),
            "duration_seconds must be greater than 0, got -1",
        ),
        (lambda: s.UniformClips(sequence_length=4, duration_seconds=1e-320), "duration_seconds must be"),
        (lambda: s.RandomClips(sequence_length=4, padding="never"), 'padding must be one of "repeat", '),
        (
            lambda: s.RandomClips(sequence_length=4, group="both"),
            'group must be "independent" or "partitioned", got "both"',
        ),
        (lambda: s.RandomClips(sequence_length=4, frame_jitter=3), "frame_jitter must be True or False, got 3"),
        (lambda: s.RandomClips(sequence_length=4, speed=2), "speed must be (low, high), got 2"),
        (lambda: s.RandomClips(sequence_length=4, speed=(2, 1)), "speed must be (low, high)"),
        (lambda: s.RandomClips(sequence_length=4, speed=(0, 1)), "speed must be at least 0.01, got 0"),
        (lambda: s.RandomClips(sequence_length=4, reverse=1.5), "reverse must be at most 1, got 1.5"),
        (lambda: s.Windows(sequence_length=4, fps=5, step=2), "step, in frames, goes with stride"),
        (lambda: s.Windows(sequence_length=4, step_seconds=2), "step_seconds goes with fps"),
        (lambda: s.Windows(sequence_length=4, fps=5, step_seconds=1e-9), "step_seconds must be at least"),
        (lambda: s.Segments(num_segments=0), "num_segments must be at least 1, got 0"),
        (lambda: s.Segments(num_segments=2**20, frames_per_segment=2**20), "num_segments=1048576 times"),
        (lambda: s.Dense(sequence_length=4, num_positions=0), "num_positions must be at least 1, got 0"),
        (lambda: s.Indices([]), "frames must be a list, or a list of lists"),
        (lambda: s.Indices([[1], []]), "not empty"),
        (lambda: s.Indices([1.5]), "frames must be an int, got 1.5"),
        (lambda: s.Seconds([0.0, math.inf]), "times must be finite, got inf"),
        (lambda: s.Delta(deltas_seconds=[]), "deltas_seconds must be a list with at least one entry"),
        (lambda: s.Delta(deltas_seconds=[0.0], tolerance_seconds=-1), "tolerance_seconds must be at least 0, got -1"),
        (lambda: s.Custom(7), "function must be a function of"),
        (lambda: s.Custom(len, clips_per_video=0), "clips_per_video must be at least 1, got 0"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError) as raised:
            make()
        assert str(raised.value).startswith(said) or "not empty" in said, raised.value


def test_samplers_compare_by_value_and_pickle():
    s = fsp.samplers
    rules = [
        s.Windows(sequence_length=4, fps=2, step_seconds=0.5),
        s.RandomClips(sequence_length=4, duration_seconds=2, group="partitioned"),
        s.UniformClips(sequence_length=4, stride=3),
        s.Segments(num_segments=3),
        s.Dense(sequence_length=4),
        s.Indices([[1, 2], [3]]),
        s.Seconds([0.5]),
        s.Delta(deltas_seconds=[0.1]),
        s.Custom(first_and_last, sequence_length=2),
    ]
    assert pickle.loads(pickle.dumps(rules)) == rules and len({hash(rule) for rule in rules}) == len(rules)
    assert s.RandomClips(sequence_length=4) == s.RandomClips(sequence_length=np.int64(4), stride=1)
    assert s.Indices(np.array([[1, 2], [3, 4]])) == s.Indices([[1, 2], [3, 4]])
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(s.Custom(lambda info, rng: [0]))


def first_and_last(info, rng):
    return [0, info.num_frames - 1]
