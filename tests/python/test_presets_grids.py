"""The presets ``torchvision``, ``qwen_vl`` and ``hf``, against their published formulas, in NumPy and plain Python."""

from __future__ import annotations

import math

import framespool as fsp
import numpy as np
import pytest
from reference_formulas import Clips, random_timing, real, run, steady, torch_arange, torch_linspace


def windows(frames: int, fps: float, options: dict) -> list[list[int]]:
    """``VideoClips.compute_clips_for_video`` over frame numbers."""
    rate = options["frame_rate"] or fps
    total = math.floor(frames * rate / fps)
    step = fps / rate
    if step.is_integer():
        kept = np.arange(frames)[:: int(step)]
    else:
        kept = np.floor(np.arange(total, dtype=np.float32) * np.float32(step)).astype(np.int64)
    length, apart = options["clip_length_in_frames"], options["frames_between_clips"]
    number = max((len(kept) - length) // apart + 1, 0)
    return [[int(f) for f in kept[i * apart : i * apart + length]] for i in range(number)]


def window_options(random) -> dict:
    return {
        "clip_length_in_frames": random.choice([1, 2, 8, 16]),
        "frames_between_clips": random.choice([1, 2, 5, 16, 40]),
        "frame_rate": random.choice([None, None, 5, 10.0, 15, 12.5, 24, 29.97, 60.0]),
    }


def test_all_and_uniform_clips_are_torchvisions():
    def one(random, comparison):
        video, options = random_timing(random), window_options(random)
        all_windows = windows(len(video), video.average_fps, options)
        if random.random() < 0.5:
            comparison.check("torchvision", options, video, [real(w) for w in all_windows])
            return
        number = random.choice([1, 2, 3, 5, 10, 30])
        options |= {"sampler": "uniform", "num_clips_per_video": number}
        chosen = np.floor(torch_linspace(0, len(all_windows) - 1, number)).astype(int) if all_windows else []
        comparison.check("torchvision", options, video, [real(all_windows[i]) for i in chosen])

    run(8000, one, failing=0)


def test_random_clips_match_torchvision():
    def one(random, comparison):
        video, options = random_timing(random, most=120), window_options(random)
        all_windows = windows(len(video), video.average_fps, options)
        most = random.choice([1, 2, 5, 10, 200])
        options |= {"sampler": "random", "max_clips_per_video": most}
        n = len(all_windows)
        draws = [random.randrange(n - i) for i in range(min(n - 1, most))] if n else []
        order = list(range(n))  # torch.randperm: z = random() % (n - i); swap(i, i + z)
        for i, drawn in enumerate(draws):
            order[i], order[i + drawn] = order[i + drawn], order[i]
        comparison.check("torchvision", options, video, [real(all_windows[w]) for w in order[:most]], draws)

    run(6000, one, failing=0)


def smart_nframes(total: int, video_fps: float, options: dict) -> int | None:
    """qwen-vl-utils' ``smart_nframes``; ``None`` where it raises."""
    if options.get("nframes") is not None:
        number = round(options["nframes"] / 2) * 2
    else:
        fps = 2.0 if options["fps"] is None else options["fps"]
        least = math.ceil((4 if options["min_frames"] is None else options["min_frames"]) / 2) * 2
        most = math.floor((min(768, total) if options["max_frames"] is None else options["max_frames"]) / 2) * 2
        number = total / video_fps * fps
        number = math.floor(min(min(max(number, least), most), total) / 2) * 2
    return number if 2 <= number <= total else None


def frame_range(total: int, video_fps: float, start: float | None, end: float | None) -> tuple[int, int] | None:
    """qwen-vl-utils' ``calculate_video_frame_range``; ``None`` where it raises."""
    if start is None and end is None:
        return 0, total - 1
    longest = total / video_fps
    first = 0 if start is None else math.ceil(max(0.0, min(start, longest)) * video_fps)
    last = total - 1 if end is None else min(math.floor(max(0.0, min(end, longest)) * video_fps), total - 1)
    return None if first >= last else (first, last)


def qwen(total: int, video_fps: float, options: dict) -> tuple[list[int], list[bool]] | None:
    place = frame_range(total, video_fps, options["video_start"], options["video_end"])
    if place is None:
        return None
    number = smart_nframes(place[1] - place[0] + 1, video_fps, options)
    return None if number is None else real(np.round(torch_linspace(place[0], place[1], number)))


def test_frames_are_qwen_vls():
    def one(random, comparison):
        video = random_timing(random, most=random.choice([60, 900, 3000]))
        options = {"video_start": None, "video_end": None}
        if random.random() < 0.5:
            longest = len(video) / video.average_fps
            options["video_start"] = random.choice([None, 1, 0.5, -1.0, random.uniform(0, longest)])
            options["video_end"] = random.choice([None, 2, 1e9, random.uniform(0, longest)])
        if random.random() < 0.5:
            options["nframes"] = random.choice([2, 3, 5, 7, 8, 16, 33, 64, 128])
        else:
            options["fps"] = random.choice([None, 1, 2.0, 0.5, 4.0, 3.7])
            options["min_frames"] = random.choice([None, None, 2, 5, 16])
            options["max_frames"] = random.choice([None, None, 8, 31, 64])
        comparison.check("qwen_vl", options, video, [qwen(len(video), video.average_fps, options)])

    run(3000, one, failing=0.4)


def hugging_face(total: int, video_fps: float, options: dict) -> tuple[list[int], list[bool]] | None:
    """``sample_frames`` and ``default_sample_indices_fn``; ``None`` where they raise."""
    torch = options["function"] == "sample_frames"
    if options["version"] == "5.23":
        number = total if options["num_frames"] is None else options["num_frames"]
        if options["fps"] is not None:
            number = max(1, int(total / video_fps * options["fps"]))
        return None if number > total else real(i * total // number for i in range(number))
    number = options["num_frames"]
    if number is None and options["fps"] is not None:
        number = int(total / video_fps * options["fps"])
        if number > total or number == 0:
            return None
    if number is None:
        return real(range(total))
    if torch and number > total:
        return None
    if torch:
        values = torch_arange(0, total, total / number, np.float32).astype(np.int32)
        return real(i for i in values if i < total)
    return real(np.arange(0, total, total / number, dtype=int))


def test_frames_are_transformers():
    def one(random, comparison):
        video = random_timing(random, most=random.choice([60, 900]))
        function = random.choice(["sample_frames", "default_sample_indices_fn"])
        version = random.choice(["4.57", "5.23"])
        options = {"function": function, "num_frames": None, "fps": None, "version": version}
        kind = random.choice(["num_frames", "fps", "neither"])
        needs_number = function == "sample_frames" and version == "4.57"
        if kind == "num_frames" or (kind == "neither" and needs_number):
            options["num_frames"] = random.choice([1, 2, 7, 8, 16, 32, 100, random.randint(1, 80)])
        elif kind == "fps":
            options["fps"] = random.choice([1, 2, 0.5, 4.0, 24, 30.0])
        expected: Clips = [hugging_face(len(video), video.average_fps, options)]
        comparison.check("hf", options, video, expected)

    run(3000, one, failing=0.4)


def test_long_videos_round_as_float32_does():
    for frames, number in [(299_999, 2_999), (250_000, 3_000), (123_457, 1_001)]:
        video, options = steady(frames, 30.0), {"num_frames": number, "fps": None, "function": "sample_frames"}
        options["version"] = "4.57"
        shown = fsp.samplers.preset("hf", **options).frames(frames).indices
        assert shown == hugging_face(frames, video.average_fps, options)[0]
        assert shown != [int(i * (frames / number)) for i in range(number)]


#: (frames, rate, options, results): what `default_sample_indices_fn` of Transformers 4.57.6, and of 5.23.0 and 5.24.0,
#: returned; `None` if it raised.
RECORDED = [
    (17, 25.0, {"num_frames": 7}, [0, 2, 4, 6, 8, 10, 12, 14], [0, 2, 4, 7, 9, 12, 14]),
    (15, 30.0, {"num_frames": 13}, [*range(14)], [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]),
    (15, 30.0, {"num_frames": 8}, [*range(8)], [0, 1, 3, 5, 7, 9, 11, 13]),
    (17, 25.0, {"num_frames": 8}, [0, 2, 4, 6, 8, 10, 12, 14], [0, 2, 4, 6, 8, 10, 12, 14]),
    (1, 30.0, {"num_frames": 7}, [0] * 7, None),
    (15, 30.0, {"fps": 0.5}, None, [0]),
    (17, 25.0, {"fps": 2.0}, [0], [0]),
    (17, 25.0, {"fps": 30}, None, None),
    (15, 30.0, {}, [*range(15)], [*range(15)]),
]


@pytest.mark.parametrize(("total", "rate", "options", "old", "new"), RECORDED)
def test_frames_are_those_recorded_from_transformers(total, rate, options, old, new):
    for version, expected in [("4.57", old), ("5.23", new)]:
        rule = fsp.samplers.preset("hf", function="default_sample_indices_fn", version=version, **options)
        if expected is None:
            with pytest.raises(fsp.Error):
                rule.frames(total, fps=rate)
        else:
            assert rule.frames(total, fps=rate).indices == expected


def test_transformers_quirks():
    rule = fsp.samplers.preset("hf", num_frames=7, version="4.57")
    assert rule.frames(17).indices == [0, 2, 4, 7, 9, 12, 14]  # and not frame 17
    numpy = fsp.samplers.preset("hf", num_frames=8, function="default_sample_indices_fn", version="4.57")
    assert numpy.frames(100).indices == [0, 12, 24, 36, 48, 60, 72, 84]
    assert numpy.frames(5).indices == [0] * 8


def test_options_that_make_no_sense_are_refused():
    for name, options in [
        ("torchvision", {"clip_length_in_frames": 0}),
        ("torchvision", {"frame_rate": 0.0}),
        ("torchvision", {"frame_rate": 1e300}),
        ("torchvision", {"sampler": "uniform"}),
        ("torchvision", {"sampler": "random", "max_clips_per_video": 2**32 - 1}),
        ("torchvision", {"max_clips_per_video": 3}),
        ("qwen_vl", {"nframes": 8, "fps": 2.0}),
        ("qwen_vl", {"nframes": 1}),
        ("qwen_vl", {"nframes": 2**32 - 1}),
        ("qwen_vl", {"fps": 0.0}),
        ("hf", {"version": "4.57"}),
        ("hf", {"num_frames": 8, "version": "5"}),
        ("hf", {"num_frames": 0}),
        ("hf", {"num_frames": 8, "fps": 2.0}),
        ("hf", {"fps": float("inf")}),
    ]:
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.samplers.preset(name, **options)
