"""The preset ``pytorchvideo``, against facebookresearch/pytorchvideo's published formulas, with Python's fractions."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

import framespool as fsp
import numpy as np
import pytest
from reference_formulas import Clips, VideoTiming, random_timing, real, run, steady, torch_linspace

EPS = 1e-6


def frames(
    video: VideoTiming, start: Fraction, end: Fraction, samples: int | None
) -> tuple[list[int], list[bool]] | None:
    """``EncodedVideoPyAV.get_clip`` and ``uniform_temporal_subsample``; times count from the first frame."""
    begins, _ = video.exact()
    # Fractions ascend: the frames from the first that is not before ``start`` to the last before ``end``.
    shown = list(range(bisect_left(begins, start + begins[0]), bisect_left(begins, end + begins[0])))
    if not shown:
        return None
    if samples is None:
        return real(shown)
    chosen = np.clip(torch_linspace(0, len(shown) - 1, samples), 0, len(shown) - 1).astype(np.int64)
    return real(shown[i] for i in chosen)


def uniform(clip_duration, stride, backpad_last, duration: Fraction) -> list[tuple[Fraction, Fraction]]:
    """``UniformClipSampler``, called until it marks a clip as the last one."""
    length = Fraction(clip_duration)
    stride = length if stride is None else stride
    delta = stride - length

    def clip(last_end):
        last_end = -delta if last_end is None else last_end
        start = Fraction(last_end + delta)
        end = start + length
        if backpad_last:
            start = Fraction(max(0, start - max(0, end - duration)))
            end = start + length
        return start, end

    clips, last = [], None
    while True:
        clips.append(clip(last))
        last = clips[-1][1]
        following = clip(last)[1]
        if backpad_last and abs(following - last) < EPS:
            return clips
        if not backpad_last and following - duration > EPS:
            return clips


def duration(video: VideoTiming) -> Fraction:
    begins, end = video.exact()
    return end - begins[0]


def lengths(random) -> float | Fraction | int:
    return random.choice([0.5, 1.0, 1, 2, 32 / 30, Fraction(32, 30), Fraction(8, 25), random.uniform(0.05, 3)])


def test_uniform_clips_are_pytorchvideos():
    def one(random, comparison):
        video = random_timing(random)
        length, backpad = lengths(random), random.random() < 0.5
        share = random.choice([1, 2, 3, 0.5, 0.7, Fraction(1, 3), Fraction(5, 4)])
        stride = random.choice([None, length * share, 0.4, Fraction(1, 4), random.uniform(0.1, 2)])
        samples = random.choice([None, 1, 4, 8, 16, 32])
        options = {"sampling_type": "uniform", "clip_duration": length, "num_samples": samples}
        options |= {"stride": stride, "backpad_last": backpad}
        clips = uniform(length, stride, backpad, duration(video))
        expected: Clips = [frames(video, start, end, samples) for start, end in clips]
        comparison.check("pytorchvideo", options, video, expected)

    run(4000, one, failing=0.2)


def test_random_clips_match_pytorchvideo():
    def one(random, comparison):
        video, length = random_timing(random), lengths(random)
        samples, several = random.choice([None, 4, 8, 16]), random.choice([None, 1, 3, 5])
        options = {"clip_duration": length, "num_samples": samples}
        options |= {} if several is None else {"sampling_type": "random_multi", "num_clips": several}
        draws = [random.choice([0.0, 2**-53, 1 - 2**-53, random.random()]) for _ in range(several or 1)]
        longest = max(duration(video) - Fraction(length), 0)
        starts = [Fraction(0 + (longest - 0) * drawn) for drawn in draws]  # random.uniform(0, longest)
        expected = [frames(video, start, start + Fraction(length), samples) for start in starts]
        comparison.check("pytorchvideo", options, video, expected, draws)

    run(3000, one, failing=0.2)


def test_constant_clips_are_pytorchvideos():
    def one(random, comparison):
        video, length = random_timing(random), lengths(random)
        clips, again = random.choice([1, 2, 3, 5, 10]), random.choice([None, 1, 3])
        samples = random.choice([None, 4, 8, 16])
        options = {"sampling_type": "constant_clips_per_video", "clip_duration": length, "num_samples": samples}
        options |= {"clips_per_video": clips, "augs_per_clip": again}
        longest = Fraction(max(duration(video) - Fraction(length), 0))
        starts = [longest / max(clips - 1, 1) * i for i in range(clips) for _ in range(again or 1)]
        expected = [frames(video, start, start + Fraction(length), samples) for start in starts]
        comparison.check("pytorchvideo", options, video, expected)

    run(4000, one, failing=0.2)


def test_the_example_of_its_documentation():
    options = {"sampling_type": "uniform", "clip_duration": Fraction(32, 30), "stride": Fraction(16, 30)}
    rule = fsp.samplers.preset("pytorchvideo", **options, backpad_last=True)
    assert [rule.frames(39, clip=i).indices for i in (0, 1)] == [list(range(32)), list(range(7, 39))]
    assert rule.clips_in(39) == 2
    assert fsp.samplers.preset("pytorchvideo", **options, backpad_last=False).clips_in(39) == 1


def test_fraction_and_float_can_select_other_frames():
    video = steady(60, 30.0)
    for length, last in ((Fraction(1, 10), 2), (0.1, 3)):  # 0.1 is a bit more than a tenth
        rule = fsp.samplers.preset("pytorchvideo", sampling_type="uniform", clip_duration=length)
        assert rule.frames(60, clip=0).indices[-1] == last
        assert rule.frames(60, clip=0).indices == frames(video, Fraction(0), Fraction(length), None)[0]


def test_times_of_a_file_are_exact(videos):
    # Matroska counts milliseconds: these frames appear 33 or 34 of them apart, the first after 33.
    path = str(videos / "derived" / "start_33ms_640x480.mkv")
    n = len(fsp.Video(path))
    shown = fsp.Video(path).frames(list(range(n))).pts_seconds
    begins = [Fraction(round(t * 1000), 1000) for t in shown]
    assert begins[0] == Fraction(33, 1000)
    for length in (Fraction(1, 10), 0.1, Fraction(1, 3)):
        rule = fsp.samplers.preset("pytorchvideo", sampling_type="uniform", clip_duration=length)
        loader = fsp.ClipLoader(
            [path], rule, batch_size=4, transforms=[fsp.transforms.Resize((8, 8))], shuffle=False, seed=0
        )
        rows = [row for batch in loader for row in np.from_dlpack(batch.indices).tolist()]
        for clip, row in enumerate(rows):
            start = begins[0] + clip * Fraction(length)
            assert [at for at in row if at >= 0] == [
                i for i, t in enumerate(begins) if start <= t < start + Fraction(length)
            ]
        assert len(rows) > 5


def test_options_that_make_no_sense_are_refused():
    for options in [
        {},
        {"clip_duration": 0.0},
        {"clip_duration": float("nan")},
        {"clip_duration": Fraction(-1, 2)},
        {"clip_duration": 1.0, "num_samples": 0},
        {"clip_duration": 1.0, "num_samples": 2**32 - 1},
        {"clip_duration": 1.0, "sampling_type": "dense"},
        {"clip_duration": 1.0, "stride": 0.5},
        {"clip_duration": 1.0, "sampling_type": "random_multi"},
        {"clip_duration": 1.0, "sampling_type": "random_multi", "num_clips": 0},
        {"clip_duration": 1.0, "sampling_type": "uniform", "stride": 0},
        {"clip_duration": 1.0, "sampling_type": "uniform", "stride": 1e-9},
        {"clip_duration": 1.0, "sampling_type": "uniform", "clips_per_video": 3},
        {"clip_duration": 1.0, "sampling_type": "constant_clips_per_video"},
    ]:
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.samplers.preset("pytorchvideo", **options)
