"""SmartResize: the sizes of qwen-vl-utils, for videos of different sizes and clips of different lengths."""

from __future__ import annotations

import math

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

t = fsp.transforms


def smart_size(height: int, width: int, factor: int, least: float, most: float) -> tuple[int, int]:
    """The size by Python's arithmetic, as the model's own code computes it."""
    rounded = [max(factor, round(side / factor) * factor) for side in (height, width)]
    if math.prod(rounded) > most:
        beta = math.sqrt(height * width / most)
        return tuple(max(factor, math.floor(side / beta / factor) * factor) for side in (height, width))
    if math.prod(rounded) < least:
        beta = math.sqrt(least / (height * width))
        return tuple(math.ceil(side * beta / factor) * factor for side in (height, width))
    return tuple(rounded)


def size_after(transforms: list, height: int, width: int, frames: int) -> tuple[int, int]:
    """The size of the result for a frame of this size: a crop of everything reports its sides."""
    drawn = t.sample_params((height, width), [*transforms, t.RandomResizedCrop(8, (1.0, 1.0))], num_frames=frames)
    return int(drawn[-1]["height"]), int(drawn[-1]["width"])


def test_sizes_are_those_of_the_formula():
    rng = np.random.default_rng(2)
    kinds = set()
    for _ in range(400):
        height, width = (int(side) for side in rng.integers(2, 2000, 2))
        factor = int(rng.choice([14, 28, 32, 48]))
        least = int(rng.integers(1, 300)) * factor**2
        most = least + int(rng.integers(0, 1000)) * factor**2
        if max(height, width) > 200 * min(height, width):
            continue
        frames = int(rng.integers(1, 800))
        total = None if rng.random() < 0.3 else int(rng.integers(1, 30_000)) * factor**2
        limit = most if total is None else min(most, max(total / frames * 2, int(least * 1.05)))
        want = smart_size(height, width, factor, least, limit)
        if max(want) > 8000:
            continue
        smart = t.SmartResize(factor, least, most, total)
        got = t.apply(np.zeros((height, width, 3), np.uint8), [smart]) if frames == 1 else None
        if got is not None:
            assert got.shape[:2] == want
        clip = np.zeros((3, height, width, 3), np.uint8)
        if height * width < 200_000:
            limit = most if total is None else min(most, max(total / 3 * 2, int(least * 1.05)))
            of_three = smart_size(height, width, factor, least, limit)
            assert t.apply(clip, [smart]).shape[1:3] == of_three, (height, width, smart)
            kinds.add((total is None, of_three == want))
    assert len(kinds) >= 3


@pytest.mark.parametrize("name", ["base_640x360.mp4"])
def test_longer_clips_get_smaller_frames(videos, name):
    video = fsp.Video(videos / "derived" / name, layout="THWC")
    smart = t.SmartResize(total_pixels=1024 * 28 * 28, min_pixels=16 * 28 * 28)
    sizes = {}
    for frames in (2, 8, 16):
        data = video.frames(list(range(frames)), transforms=[smart]).frames
        sizes[frames] = data.shape[1:3]
        limit = min(768 * 28**2, 1024 * 28**2 / frames * 2)
        assert sizes[frames] == smart_size(360, 640, 28, 16 * 28**2, limit)
    assert len(set(sizes.values())) == 3


def test_pixels_are_close_to_a_bicubic_resize_of_the_decoded_frame(videos):
    for name in ("derived/base_640x360.mp4", "action/street_960x540.mp4", "action/phone_176x144.mp4"):
        video = fsp.Video(videos / name, layout="THWC")
        for smart in (t.SmartResize(), t.SmartResize(factor=32, min_pixels=300 * 32**2)):
            frames = list(range(0, len(video), 9))
            ours = video.frames(frames, transforms=[smart]).frames.numpy().astype(int)
            theirs = [
                Image.fromarray(frame).resize(ours.shape[2:0:-1], Image.Resampling.BICUBIC)
                for frame in video.frames(frames).frames.numpy()
            ]
            # The resize reads the planes, and the color conversion follows, with one rounding instead of two.
            assert np.abs(ours - np.stack(theirs)).mean() < 1.5, name


def test_a_loader_gives_each_clip_its_size(videos):
    files = [videos / "derived" / "base_640x360.mp4", videos / "action" / "phone_176x144.mp4"]
    smart = t.SmartResize(factor=28, min_pixels=9 * 28**2, max_pixels=60 * 28**2, total_pixels=200 * 28**2)

    def clips(num_threads: int) -> list:
        # Clips of 2 and of 6 frames that share frames; frames may be copied only between clips of one length.
        frames = [[0, 3], [0, 1, 2, 3, 4, 5], [3, 0]]
        sampler = fsp.samplers.Custom(lambda info, _: frames[info.clip], clips_per_video=3)
        loader = fsp.ClipLoader(
            [(file, 0) for file in files * 2],
            sampler,
            batch_size=3,
            transforms=[smart],
            shuffle=False,
            num_threads=num_threads,
            layout="NTHWC",
        )
        return [(clip.shape, clip.numpy()) for batch in loader for clip in batch.frames]

    one, two = clips(1), clips(2)
    assert len(one) == 12 and {shape[0] for shape, _ in one} == {2, 6}
    for (shape, pixels), (_, again) in zip(one, two, strict=True):
        height, width = (360, 640) if shape[2] / shape[1] > 1.5 else (144, 176)
        limit = min(60 * 28**2, max(200 * 28**2 / shape[0] * 2, int(9 * 28**2 * 1.05)))
        assert shape[1:3] == smart_size(height, width, 28, 9 * 28**2, limit)
        assert np.array_equal(pixels, again)
    video = fsp.Video(files[0], layout="THWC")
    assert np.array_equal(one[1][1], video.frames([0, 1, 2, 3, 4, 5], transforms=[smart]).frames.numpy())
    assert np.array_equal(one[2][1], video.frames([3, 0], transforms=[smart]).frames.numpy())


def test_wrong_arguments_and_frames_are_errors():
    for arguments, named in (
        ({"factor": 0}, "factor"),
        ({"min_pixels": 0}, "min_pixels"),
        ({"min_pixels": 1000, "max_pixels": 999}, "max_pixels must be at least min_pixels"),
        ({"total_pixels": -1}, "total_pixels"),
        ({"interpolation": "lanczos"}, "interpolation"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=f"SmartResize.*{named}"):
            t.SmartResize(**arguments)
    with pytest.raises(fsp.errors.ArgumentError, match="SmartResize: a frame of 3x700 is too narrow"):
        t.apply(np.zeros((700, 3, 3), np.uint8), [t.SmartResize()])
