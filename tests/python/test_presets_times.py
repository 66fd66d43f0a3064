"""The presets ``lerobot``, ``cosmos_curate``, ``dali``, ``dali_uniform_sample``, against their published formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import framespool as fsp
import numpy as np
import pytest
from reference_formulas import Clips, VideoTiming, irregular_timing, random_timing, real, run, steady, timed


def lerobot(video: VideoTiming, deltas: list[float], fps: float | None, tolerance: float) -> Clips:
    """``get_delta_indices``, ``delta_window``, timestamps on the grid, ``decode_video_frames_torchcodec``."""
    fps = video.average_fps if fps is None else fps
    frames, clips = len(video), []
    for row in range(frames):
        if not all(abs(d * fps - round(d * fps)) / fps <= tolerance for d in deltas):
            return [None] * frames
        wanted = [row + round(d * fps) for d in deltas]
        is_pad = [at < 0 or at >= frames for at in wanted]
        times = [video.begins[0] + max(0, min(frames - 1, at)) / fps for at in wanted]
        first = round(video.begins[0] * video.average_fps)
        loaded = [round(t * video.average_fps) - first for t in times]
        if any(not 0 <= at < frames for at in loaded):
            clips.append(None)
            continue
        begins = np.array([video.begins[at] for at in loaded])
        distance = np.abs(np.array(times)[:, None] - begins[None, :])
        if (distance.min(1) > tolerance).any():
            clips.append(None)
            continue
        clips.append(([loaded[i] for i in distance.argmin(1)], [not pad for pad in is_pad]))
    return clips


def test_delta_timestamps_are_lerobots():
    def one(random, comparison):
        fps = random.choice([10, 15, 25, 30, 50])
        frames, begin = random.randint(2, 60), random.choice([0.0, 0.08, 4.0])
        video = random.choice(
            [
                steady(frames, float(fps)),
                timed([begin + i / fps for i in range(frames)]),
                timed([i / fps + random.uniform(-5e-5, 5e-5) * (i > 0) for i in range(frames)]),
                irregular_timing(random, frames, fps),
            ]
        )
        deltas = [random.randint(-12, 12) / fps for _ in range(random.choice([1, 2, 5, 16]))]
        if random.random() < 0.1:
            deltas[0] += 0.003
        given = random.choice([float(fps), fps, None])
        tolerance = random.choice([1e-4, 1e-3, 0.05])
        try:
            expected = lerobot(video, deltas, given, tolerance)
            options = {"delta_timestamps": deltas, "fps": given, "tolerance_s": tolerance}
            comparison.check("lerobot", options, video, expected)
        except fsp.errors.ArgumentError as error:  # the grid is checked at once where fps is given
            assert given is not None and expected[0] is None and "multiples" in str(error), (
                deltas,
                given,
                tolerance,
                str(error),
            )

    run(9000, one, failing=0.6)


def closest(video: VideoTiming, options: dict) -> tuple[list[int], list[bool]] | None:
    """``sample_closest`` and ``find_closest_indices``, with NumPy itself."""
    src = np.array(video.begins, dtype=np.float32)
    interval = 1.0 / options["sample_rate_fps"]
    start = src[0] if options["start"] is None else options["start"]
    stop = src[-1] if options["stop"] is None else options["stop"]
    if options["endpoint"]:
        stop = stop + interval * 0.5
    dst = np.arange(start, stop, interval, dtype=np.float32)
    if len(dst) == 0:
        return None
    right = np.clip(np.searchsorted(src, dst), 1, len(src) - 1)
    left = right - 1
    nearer = np.abs(dst - src[right]) < np.abs(dst - src[left])
    found = np.where(nearer, right, left)
    found[dst >= src[-1]] = len(src) - 1
    if not options["endpoint"] and np.isclose(dst[-1], stop):
        found = found[:-1]
    indices, counts = np.unique(found, return_counts=True)
    return real(np.repeat(indices, counts)) if len(indices) else None


def test_sampled_times_are_cosmos_curates():
    def one(random, comparison):
        video = random_timing(random, least=2)
        within = lambda: video.begins[0] + random.uniform(-0.2, 1.2) * (video.end - video.begins[0])  # noqa: E731
        options = {
            "sample_rate_fps": random.choice([1, 2, 1.0, 4.0, 10.0, 0.3, 29.97, 60.0, random.uniform(0.2, 50)]),
            "start": random.choice([None, None, 0.0, within()]),
            "stop": random.choice([None, None, video.begins[-1], within()]),
            "endpoint": random.random() < 0.6,
        }
        comparison.check("cosmos_curate", options, video, [closest(video, options)])

    run(4000, one, failing=0.4)


ROUND = {
    "zero": math.trunc,
    "inf": math.ceil,
    "down": math.floor,
    "up": math.ceil,
    "near": lambda value: math.floor(value + Fraction(1, 2)),
}


def fps_filter(video: VideoTiming, options: dict) -> tuple[list[int], list[bool]] | None:
    """``vf_fps.c``, with its queue of two frames, and exact times."""
    periods = lambda time, rounding: ROUND[rounding](Fraction(time - video.begins[0]) * options["fps"])  # noqa: E731
    inputs = [(periods(begin, options["round"]), number) for number, begin in enumerate(video.begins)]
    end = periods(video.end, "up" if options["eof_action"] == "pass" else options["round"])
    queue, found, next_pts = [], [], None
    while True:
        while len(queue) < 2 and inputs:
            queue.append(inputs.pop(0))
        if next_pts is None:
            next_pts = queue[0][0]
        if len(queue) == 2 and queue[1][0] <= next_pts:
            queue.pop(0)
        elif len(queue) == 1 and end <= next_pts:
            break
        else:
            found.append(queue[0][1])
            next_pts += 1
    return real(found) if found else None


def test_frames_at_a_rate_are_ffmpegs():
    def one(random, comparison):
        rate = random.choice([1, 2, 3, 24, 30, 0.5, 10, 60])
        # Times that floats represent exactly, as do ticks, also the average duration, which ends the video.
        count = 1 + 2 ** random.randint(0, 6)
        video = random.choice(
            [
                timed([number / 64 for number in sorted(random.sample(range(600), count))]),
                timed([number / 32 for number in range(count)]),
            ]
        )
        options = {"fps": rate, "round": random.choice(list(ROUND)), "eof_action": random.choice(["round", "pass"])}
        expected = fps_filter(video, options)
        comparison.check("ffmpeg_fps", options, video, [] if expected is None else [expected])

    run(3000, one, failing=0.3)


PADS = {"none": None, "constant": "edge", "edge": "edge", "reflect_101": "reflect", "reflect_1001": "symmetric"}
OTHER_NAMES = {"edge": "repeat", "reflect_101": "reflect", "reflect_1001": "symmetric"}


def dali(frames: int, options: dict) -> Clips:
    """``VideoLoaderDecoder::PrepareMetadataImpl``, of 2.4 and since; padding as NumPy pads."""
    length, stride, step = options["sequence_length"], options["stride"], options["step"]
    pad = "constant" if options.get("pad_sequences") else options["pad_mode"] or "none"
    pad = {new: old for old, new in OTHER_NAMES.items()}.get(pad, pad)
    step = stride * length if step <= 0 else step
    needs = stride * length if options["version"] == "2.4" else (length - 1) * stride + 1
    starts, start = [], 0
    while start + needs <= frames:
        starts.append(start)
        start += step
    if pad != "none":
        while start < frames:
            starts.append(start)
            start += step
            if options["version"] == "2.4":
                break
    # As long as any padded sequence: NumPy mirrors as often as needed.
    shown = np.arange(frames)
    if PADS[pad]:
        shown = np.pad(shown, (0, length * stride), mode=PADS[pad])
    clips = []
    for start in starts:
        at = np.arange(length) * stride + start
        clips.append(([int(f) for f in shown[at]], [bool(m) for m in at < frames]))
    return clips


def test_sequences_are_dalis():
    def one(random, comparison):
        video = steady(random.randint(2, 80), 30.0)
        options = {
            "sequence_length": random.choice([1, 2, 4, 7, 16]),
            "stride": random.choice([1, 2, 3, 5]),
            "step": random.choice([-1, -1, 0, 1, 3, 10, 100]),
            "version": random.choice(["2.4", "main"]),
        }
        if random.random() < 0.1:
            options |= {"pad_sequences": True, "pad_mode": None}
        else:
            pad = random.choice(list(PADS))
            options["pad_mode"] = random.choice([pad, OTHER_NAMES.get(pad, pad)])
        comparison.check("dali", options, video, dali(len(video), options))

    run(12000, one, failing=0)


def test_dali_2_4_requests_more_frames_than_it_shows():
    # 31 frames, four of them two apart: recorded from DALI 2.4.
    options = {"sequence_length": 4, "stride": 2}
    assert fsp.samplers.preset("dali", **options, version="2.4").clips_in(31) == 3
    assert fsp.samplers.preset("dali", **options, version="main").clips_in(31) == 4
    assert fsp.samplers.preset("dali", **options).clips_in(31) == 4


def away_from_zero(value: float) -> int:
    """C++'s ``std::round`` of a number that is not negative."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


def test_uniform_samples_are_dalis():
    def one(random, comparison):
        video, length = steady(random.randint(1, 2000), 30.0), random.choice([1, 2, 3, 8, 16, random.randint(1, 300)])
        places = [i / (length - 1) if length > 1 else 0.0 for i in range(length)]
        expected = [real(away_from_zero(place * (len(video) - 1)) for place in places)]
        comparison.check("dali_uniform_sample", {"sequence_length": length}, video, expected)

    run(3000, one, failing=0)
    assert fsp.samplers.preset("dali_uniform_sample", sequence_length=3).frames(4).indices == [0, 2, 3]


def test_options_that_make_no_sense_are_refused():
    for name, options in [
        ("lerobot", {}),
        ("lerobot", {"delta_timestamps": []}),
        ("lerobot", {"delta_timestamps": [0.0, float("nan")]}),
        ("lerobot", {"delta_timestamps": [0.0] * 5000}),
        ("lerobot", {"delta_timestamps": [0.0], "fps": 0}),
        ("lerobot", {"delta_timestamps": [0.011], "fps": 10}),
        ("lerobot", {"delta_timestamps": [0.0], "tolerance_s": -1.0}),
        ("cosmos_curate", {}),
        ("cosmos_curate", {"sample_rate_fps": 0}),
        ("cosmos_curate", {"sample_rate_fps": 1e300}),
        ("dali", {}),
        ("dali", {"sequence_length": 0}),
        ("dali", {"sequence_length": 4, "stride": 0}),
        ("dali", {"sequence_length": 4, "step": 2**40}),
        ("dali", {"sequence_length": 4, "pad_mode": "zeros"}),
        ("dali", {"sequence_length": 4, "pad_mode": "edge", "pad_sequences": True}),
        ("dali", {"sequence_length": 4, "version": "3"}),
        ("dali_uniform_sample", {"sequence_length": 2**32 - 1}),
    ]:
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.samplers.preset(name, **options)
    with pytest.raises(fsp.errors.ArgumentError):  # a rate that requires more frames than fit in memory
        fsp.samplers.preset("cosmos_curate", sample_rate_fps=1e8).frames(3000)
