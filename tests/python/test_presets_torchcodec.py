"""The presets ``torchcodec_*``, against pytorch/torchcodec's published formulas (``torchcodec/samplers``)."""

from __future__ import annotations

import framespool as fsp
import numpy as np
import pytest
from reference_formulas import Clips, VideoTiming, random_timing, run, steady, timed, torch_arange, torch_linspace_int


def filled(exist: list[int], length: int, policy: str) -> tuple[list[int], list[bool]] | None:
    """A clip from its existing frames: ``_repeat_last_policy``, ``_wrap_policy``, ``_error_policy``."""
    mask = [True] * len(exist) + [False] * (length - len(exist))
    if len(exist) == length:
        return exist, mask
    if policy == "error" or not exist:  # nothing to repeat: the original fails
        return None
    more = exist * length if policy == "wrap" else [exist[-1]] * length
    return (exist + more)[:length], mask


def index_range(frames: int, options: dict) -> tuple[int, int] | None:
    """``_validate_sampling_range_index_based``."""
    start, end = options["sampling_range_start"], options["sampling_range_end"]
    start = frames + start if start < 0 else start
    span = options["num_indices_between_frames"] * (options["num_frames_per_clip"] - 1) + 1
    end = max(frames - span + 1, 1) if end is None else min(frames + end if end < 0 else end, frames)
    # A start before the first frame is invalid: torchcodec fails later, when it decodes.
    return (start, end) if 0 <= start < frames and start < end else None


def index_based(frames: int, options: dict, starts: list[int] | None) -> Clips:
    """``_generic_index_based_sampler``, given the starts (or none: regular ones)."""
    place = index_range(frames, options)
    if place is None:
        return [None] * options["num_clips"]
    if starts is None:
        starts = torch_linspace_int(place[0], place[1] - 1, options["num_clips"])
    apart, length = options["num_indices_between_frames"], options["num_frames_per_clip"]
    clips = []
    for start in starts:
        exist = list(range(start, min(start + apart * (length - 1) + 1, frames), apart))
        clips.append(filled(exist, length, options["policy"]))
    return clips


def index_options(random) -> dict:
    return {
        "num_clips": random.choice([1, 2, 3, 5, 10]),
        "num_frames_per_clip": random.choice([1, 2, 4, 8, 16, 33]),
        "num_indices_between_frames": random.choice([1, 1, 2, 3, 7]),
        "sampling_range_start": random.choice([0, 0, 0, 3, -5, 40, -400]),
        "sampling_range_end": random.choice([None, None, None, 50, -1, 1000, -30]),
        "policy": random.choice(["repeat_last", "wrap", "error"]),
    }


def test_regular_indices_are_torchcodecs():
    def one(random, comparison):
        video, options = steady(random.randint(1, 300), 30.0), index_options(random)
        comparison.check("torchcodec_regular_indices", options, video, index_based(len(video), options, None))

    run(4000, one)


def test_random_indices_match_torchcodec():
    def one(random, comparison):
        video, options = steady(random.randint(1, 300), 30.0), index_options(random)
        place = index_range(len(video), options) or (0, 1)
        draws = [random.randrange(place[1] - place[0]) for _ in range(options["num_clips"])]
        expected = index_based(len(video), options, [place[0] + drawn for drawn in draws])
        if index_range(len(video), options) is not None:
            comparison.check("torchcodec_random_indices", options, video, expected, draws)

    run(4000, one)


def time_range(video: VideoTiming, options: dict) -> tuple[float, float, float] | None:
    """``_validate_params_time_based`` and ``_validate_sampling_range_time_based``."""
    begin, end_of_video = video.begins[0], video.end
    between = options["seconds_between_frames"]
    if between is None:
        between = 1 / (len(video) / (end_of_video - begin))
    start, end = options["sampling_range_start"], options["sampling_range_end"]
    if start is None:
        start = begin
    elif start < begin or start >= end_of_video:
        return None
    if end is None:
        end = end_of_video - (options["num_frames_per_clip"] - 1) * between
    elif end <= begin:
        return None
    return None if start >= end else (start, min(end, end_of_video), between)


def time_based(video: VideoTiming, options: dict, starts: list[float], between: float) -> Clips:
    """``_build_all_clips_timestamps`` and ``get_frames_played_at``: a frame lasts until the next one appears."""
    nexts = np.array([*video.begins[1:], video.end])
    clips = []
    for start in starts:
        moments = [start + i * between for i in range(options["num_frames_per_clip"])]
        exist = [int((nexts <= moment).sum()) for moment in moments if moment < video.end]
        clips.append(filled(exist, options["num_frames_per_clip"], options["policy"]))
    return clips


def time_options(random, video: VideoTiming) -> dict:
    length = video.end - video.begins[0]
    within = lambda: video.begins[0] + random.uniform(-0.1, 1.1) * length  # noqa: E731
    return {
        "num_frames_per_clip": random.choice([1, 2, 4, 8, 16]),
        "seconds_between_frames": random.choice([None, None, 0.04, 1 / 30, 0.1, 0.5]),
        "sampling_range_start": random.choice([None, None, None, video.begins[0], within()]),
        "sampling_range_end": random.choice([None, None, None, video.end, within()]),
        "policy": random.choice(["repeat_last", "wrap", "error"]),
    }


def test_random_timestamps_match_torchcodec():
    def one(random, comparison):
        video = random_timing(random, least=2)
        options = {**time_options(random, video), "num_clips": random.choice([1, 2, 5])}
        draws = [random.choice([0.0, 1 - 2**-53, random.random()]) for _ in range(options["num_clips"])]
        place = time_range(video, options)
        if place is None:
            with pytest.raises(fsp.errors.ArgumentError, match="sampling_range_start"):
                frames, fps = video.arguments
                fsp.samplers.preset("torchcodec_random_timestamps", **options).frames(frames, fps=fps or 30.0)
            return
        start, end, between = place
        starts = [drawn * (end - start) + start for drawn in draws]
        expected = time_based(video, options, starts, between)
        comparison.check("torchcodec_random_timestamps", options, video, expected, draws)

    run(4000, one)


def test_regular_timestamps_are_torchcodecs():
    def one(random, comparison):
        video = random_timing(random, least=2, most=250)
        apart = random.choice([0.04, 1 / 30, 0.1, 0.25, 1.0, random.uniform(0.05, 2)])
        options = {**time_options(random, video), "seconds_between_clip_starts": apart}
        place = time_range(video, options)
        if place is None:
            expected = []
        else:
            start, end, between = place
            starts = torch_arange(start, end, apart, np.float64)
            expected = time_based(video, options, [float(s) for s in starts if s < end], between)
        comparison.check("torchcodec_regular_timestamps", options, video, expected)

    run(8000, one)


def test_frame_times_differ_by_one_bit():
    # Times 0.04 s apart from torch.arange are sometimes slightly earlier than the frame at that time.
    video = timed([i * 512 / 12800 for i in range(100)])
    options = {"seconds_between_clip_starts": 0.04, "num_frames_per_clip": 1, "sampling_range_end": video.end}
    rule = fsp.samplers.preset("torchcodec_regular_timestamps", **options)
    shown = [rule.frames(list(video.begins), clip=i).indices[0] for i in range(rule.clips_in(list(video.begins)))]
    wanted = [float(t) for t in torch_arange(0.0, video.end, 0.04, np.float64)]
    assert shown == [max(i for i, begin in enumerate(video.begins) if begin <= t) for t in wanted if t < video.end]
    assert shown != list(range(len(shown)))


def test_options_that_make_no_sense_are_refused():
    for name, options in [
        ("torchcodec_regular_indices", {"num_clips": 0}),
        ("torchcodec_regular_indices", {"num_frames_per_clip": 2**32 - 1}),
        ("torchcodec_random_indices", {"num_indices_between_frames": 0}),
        ("torchcodec_random_indices", {"num_clips": -1}),
        ("torchcodec_random_indices", {"policy": "loop"}),
        ("torchcodec_random_timestamps", {"seconds_between_frames": float("nan")}),
        ("torchcodec_random_timestamps", {"num_clips": 2**32 - 1}),
        ("torchcodec_regular_timestamps", {"seconds_between_clip_starts": 0.0}),
        ("torchcodec_regular_timestamps", {"seconds_between_clip_starts": 1e-300}),
        ("torchcodec_regular_timestamps", {}),
    ]:
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.samplers.preset(name, **options)
