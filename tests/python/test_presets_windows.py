"""Presets of VideoMAE, V-JEPA 2 and InternVideo2 select the frames of the published formulas."""

from __future__ import annotations

import math
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from presets_golden import Clips, Draws, every, grid

LENGTHS = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 18, 24, 31, 32, 33, 34, 47, 63, 64, 65, 66, 80, 100, 129, 130, 300, 301]
RATES = [30.0, 25.0, 29.97, 23.976, 50.0, 12.5]


def _decord(index: float, length: int) -> int:
    """decord counts negative frames from the end."""
    at = int(index)
    return at + length if at < 0 else at


def _window(start: int, end: int, count: int) -> np.ndarray:
    return np.clip(np.linspace(start, end, num=count), start, end - 1).astype(np.int64)


def _padded(part: int, step: int, count: int) -> tuple[np.ndarray, list[bool]]:
    spread = np.linspace(0, part, num=part // step)
    missing = count - part // step
    index = np.concatenate((spread, np.ones(missing) * part))
    return np.clip(index, 0, part - 1).astype(np.int64), [True] * len(spread) + [False] * missing


# --- VideoMAE kinetics.py, VideoMAEv2 dataset/datasets.py: VideoClsDataset


def videomae(length: int, fps: float, draws: Draws, **given: Any) -> Clips:
    defaults = {"mode": "train", "version": 1, "clip_len": 8, "frame_sample_rate": 2, "num_segment": 1}
    o = defaults | {"test_num_segment": 10, "sparse_sample": False} | given
    count, step, segments, views = o["clip_len"], o["frame_sample_rate"], o["num_segment"], o["test_num_segment"]
    if o["mode"] == "test" and o["sparse_sample"]:
        tick = length / float(segments)
        index = [int(t * tick / views + tick * x) for t in range(views) for x in range(segments)]
        index.sort()
        return [(index[view::views], [True] * segments) for view in range(views)]
    if o["mode"] == "test":
        index = list(range(0, length, step))
        real = len(index)
        index += index[-1:] * (count - real)
        between = max(1.0 * (len(index) - count) / (views - 1), 0)
        starts = [int(view * between) for view in range(views)]
        return [(index[s : s + count], [i < real for i in range(s, s + count)]) for s in starts]
    span, part = count * step, length // segments
    clips = []
    for i in range(segments):
        if part <= span:
            index, mask = _padded(part, step, count)
        else:
            middle = o["mode"] == "validation" and o["version"] == 2
            end = (span + part) // 2 if middle else span + draws.below(part - span)
            index, mask = _window(end - span, end, count), [True] * count
        clips.append(([_decord(at, length) for at in index + i * part], mask))
    return clips


def test_videomae() -> None:
    cases = 0
    for options in grid(
        mode=["train", "validation", "test"],
        version=[1, 2],
        clip_len=[1, 3, 8, 16],
        frame_sample_rate=[1, 2, 3, 4],
        num_segment=[1, 2, 5],
        test_num_segment=[2, 5, 10],
        sparse_sample=[False, True],
    ):
        test = options["mode"] == "test"
        if not test and (options["sparse_sample"] or options["test_num_segment"] != 5):
            continue  # no effect in that mode
        if test and (options["version"] == 2 or (options["num_segment"] != 1 and not options["sparse_sample"])):
            continue
        cases += every("videomae", videomae, options, LENGTHS, kinds=["low", "high", 1])
    assert cases > 14_000, cases


def test_videomae_of_every_length() -> None:
    usual = {"clip_len": 16, "frame_sample_rate": 4}
    cases = every("videomae", videomae, usual, range(1, 330), kinds=["low", "high", *range(4)])
    cases += every("videomae", videomae, usual | {"mode": "test", "test_num_segment": 5}, range(1, 330))
    cases += every("videomae", videomae, usual | {"mode": "validation", "version": 2}, range(1, 330))
    assert cases > 2_000, cases


# --- VideoMAE ssv2.py: SSVideoClsDataset; VideoMAEv2 dataset/datasets.py: RawFrameClsDataset


def videomae_ssv2(length: int, fps: float, draws: Draws, **o: Any) -> Clips:
    segments, views = o["num_segment"], o["test_num_segment"]
    tick, part = length / float(segments), length // segments
    if o["mode"] == "test" and o["version"] == 1:
        index = [int(tick / 2.0 + tick * x) for x in range(segments)] + [int(tick * x) for x in range(segments)]
        while len(index) < segments * views:
            index.append(index[-1])
        index.sort()
        clips = [index[view::2] for view in range(views)]
    elif o["mode"] == "test":
        index = sorted(int(t * tick / views + tick * x) for t in range(views) for x in range(segments))
        clips = [index[view::views] for view in range(views)]
    elif part == 0:
        clips = [[0] * segments if o["version"] == 1 else [0] * (segments - length) + list(range(length))]
    elif o["mode"] == "validation" and o["version"] == 2:
        clips = [[i * part + part // 2 for i in range(segments)]]
    else:
        clips = [(np.arange(segments) * part + draws.several(part, segments)).tolist()]
    return [(frames, [True] * len(frames)) for frames in clips]


def test_videomae_ssv2() -> None:
    cases = 0
    for options in grid(
        mode=["train", "validation", "test"],
        version=[1, 2],
        num_segment=[1, 3, 8, 16],
        test_num_segment=[1, 2, 3, 10],
    ):
        if options["mode"] == "test" or options["test_num_segment"] == 2:
            cases += every("videomae_ssv2", videomae_ssv2, options, range(1, 100))
    assert cases > 5_000, cases


# --- VideoMAE kinetics.py, VideoMAEv2 dataset/pretrain_datasets.py: VideoMAE


def videomae_pretrain(length: int, fps: float, draws: Draws, **o: Any) -> Clips:
    segments, count, step = o["num_segments"], o["new_length"], o["new_step"]
    span = count * step
    part = (length - span + 1) // segments
    if part > 0:
        starts = np.arange(segments) * part + draws.several(part, segments)
    elif length > max(segments, span):
        starts = np.sort(draws.several(length - span + 1, segments))
    else:
        starts = np.zeros(segments)
    skips = draws.several(step, span // step) if o["temporal_jitter"] else np.zeros(span // step, dtype=int)
    clips = []
    for start in starts + 1:  # counted from 1
        place, frames = int(start), []
        for skip in skips:
            frames.append(place + skip - 1 if place + skip <= length else place - 1)
            if place + step < length:
                place += step
        clips.append((frames, [int(start) - 1 + i * step < length for i in range(count)]))
    return clips


def test_videomae_pretrain() -> None:
    cases = 0
    for options in grid(
        num_segments=[1, 2, 5], new_length=[1, 4, 16], new_step=[1, 2, 4], temporal_jitter=[False, True]
    ):
        cases += every("videomae_pretrain", videomae_pretrain, options, [*range(1, 30), *LENGTHS[-12:]])
    assert cases > 4_000, cases


# --- V-JEPA 2, src/datasets/video_dataset.py


def vjepa2_step(rate: float, o: dict[str, Any]) -> int:
    rate = math.ceil(rate)
    if o["duration"] is not None:
        return int(o["duration"] * rate / o["frames_per_clip"])
    return rate // o["fps"] if o["fps"] is not None else o["frame_step"]


def vjepa2(length: int, rate: float, draws: Draws, **given: Any) -> Clips:
    defaults = {"fps": None, "duration": None, "frame_step": 4, "num_clips": 1, "random_clip_sampling": True}
    o = defaults | {"frames_per_clip": 16, "allow_clip_overlap": False, "filter_short_videos": False} | given
    count, clips = o["frames_per_clip"], o["num_clips"]
    step = vjepa2_step(rate, o)
    span = int(count * step)
    if o["filter_short_videos"] and length < span:
        return []
    part = length // clips
    result = []
    for i in range(clips):
        if part > span:
            end = span + draws.below(part - span) if o["random_clip_sampling"] else span
            index, mask = _window(end - span, end, count) + i * part, [True] * count
        elif not o["allow_clip_overlap"]:
            index, mask = _padded(part, step, count)
            index = index + i * part
        else:
            index, mask = _padded(min(span, length) - 1, step, count)
            index = index + i * ((length - span) // (clips - 1) if length > span else 0)
        result.append(([_decord(at, length) for at in index], mask))
    return result


@pytest.mark.parametrize("pace", ["frame_step", "fps", "duration"])
def test_vjepa2(pace: str) -> None:
    values = {"frame_step": [1, 2, 4], "fps": [1, 4, 12], "duration": [1.3, 2.0, 3.21]}[pace]
    cases = 0
    for options in grid(
        frames_per_clip=[1, 4, 16],
        frame_step=[None],
        num_clips=[1, 2, 5],
        random_clip_sampling=[False, True],
        allow_clip_overlap=[False, True],
        filter_short_videos=[False, True],
    ):
        for value in values:
            given = options | {pace: value}
            cases += every("vjepa2", vjepa2, given, LENGTHS, rates=RATES, kinds=["low", "high", 1])
    assert cases > 6_500, cases


def test_vjepa2_rejects_low_frame_rates() -> None:
    rule = fsp.samplers.preset("vjepa2", fps=16, frame_step=None)
    assert rule.frames(100, fps=15.2, draws=[0]).indices[:3] == [0, 1, 2]  # 16 when rounded up
    for options, rate in [({"fps": 16}, 15.0), ({"duration": 1.0}, 12.0)]:
        rule = fsp.samplers.preset("vjepa2", frame_step=None, **options)
        with pytest.raises(fsp.errors.ArgumentError, match="at least one frame between.*(fps=16|duration=1)"):
            rule.frames(100, fps=rate)


# --- InternVideo2, InternVideo2/multi_modality/dataset/video_utils.py: get_frame_indices


def internvideo2(length: int, fps: float, draws: Draws, **given: Any) -> Clips:
    defaults = {"sample": "rand", "fix_start": None, "max_num_frames": -1, "trimmed30": False}
    o = defaults | given
    count, sample = o["num_frames"], o["sample"]
    if o["trimmed30"] and length / float(fps) > 30:
        length = int(30 * float(fps))
    if sample.startswith("fps"):
        between = 1 / float(sample[3:])
        seconds = np.arange(0 + between / 2, float(length) / fps + between / 2, between)
        frames = [at for at in np.around(seconds * fps).astype(int).tolist() if at < length]
        if 0 < o["max_num_frames"] < len(frames):
            frames = frames[: o["max_num_frames"]]
        return [(frames, [True] * len(frames))] if frames else []
    shown = min(count, length)
    bounds = np.linspace(start=0, stop=length, num=shown + 1).astype(int).tolist()
    ranges = [(bounds[i], bounds[i + 1] - 1) for i in range(shown)]
    if sample == "rand" and all(last > first for first, last in ranges):
        frames = [first + draws.below(last - first) for first, last in ranges]
    elif sample == "rand":
        order = list(range(length))
        for i in range(length - 1, 0, -1):
            j = draws.below(i + 1)
            order[i], order[j] = order[j], order[i]
        frames = sorted(order[:shown])
    elif o["fix_start"] is not None:
        frames = [first + o["fix_start"] for first, _ in ranges]
    else:
        frames = [(first + last) // 2 for first, last in ranges]
    missing = count - len(frames)
    return [(frames + frames[-1:] * missing, [True] * len(frames) + [False] * missing)]


def test_internvideo2_intervals() -> None:
    cases = 0
    for options in grid(num_frames=[1, 4, 8, 16], sample=["rand", "middle"], trimmed30=[False, True]):
        lengths = [*range(1, 80), 299, 300, 899, 900, 901, 1502, 3001]
        cases += every("internvideo2", internvideo2, options, lengths, rates=RATES)
    for fix_start in [0, 1, 2]:
        options = {"num_frames": 8, "sample": "middle", "fix_start": fix_start}
        cases += every("internvideo2", internvideo2, options, range(24, 200))
    assert cases > 3_000, cases


def test_internvideo2_rates() -> None:
    cases = 0
    for options in grid(
        num_frames=[8],
        sample=["fps0.1", "fps0.5", "fps1", "fps2", "fps3", "fps29.97", "fps100", "fps1e-1"],
        max_num_frames=[-1, 0, 1, 12],
        trimmed30=[False, True],
    ):
        for rate in RATES:
            cases += every("internvideo2", internvideo2, options, [*range(1, 40), 100, 299, 901, 1502], rates=[rate])
    assert cases > 10_000, cases


def test_the_swaps_of_a_permutation_are_those_of_numpy() -> None:
    """With the draws of NumPy's generator, the frames are those that NumPy permutes to the front."""
    rule = fsp.samplers.preset("internvideo2", num_frames=5)
    for seed in range(50):
        state = np.random.RandomState(seed)
        expected = sorted(state.permutation(9)[:5].tolist())
        state = np.random.RandomState(seed)
        drawn = [_masked(state, i) for i in range(8, 0, -1)]
        assert rule.frames(9, draws=drawn).indices == expected


def _masked(state: np.random.RandomState, most: int) -> int:
    """NumPy's legacy draw from 0 to ``most``: masked bits of a word, repeated until small enough."""
    mask = (1 << most.bit_length()) - 1
    while True:
        value = int.from_bytes(state.bytes(4), "little") & mask
        if value <= most:
            return value


def test_internvideo2_rejects_frames_past_the_end() -> None:
    rule = fsp.samplers.preset("internvideo2", num_frames=4, sample="middle", fix_start=3)
    assert rule.frames(16).indices == [3, 7, 11, 15]
    with pytest.raises(fsp.errors.ArgumentError, match="fix_start"):
        rule.frames(12)
    rule = fsp.samplers.preset("internvideo2", num_frames=4, sample="fps1e9")
    with pytest.raises(fsp.errors.ArgumentError, match="use a lower rate"):
        rule.frames(100)
