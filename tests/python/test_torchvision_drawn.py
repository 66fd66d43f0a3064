"""Transforms whose parameters framespool draws, applied step by step by torchvision; skipped if it is not installed."""

from __future__ import annotations

import numpy as np
import pytest
from framespool import transforms as t

pytest.importorskip("torchvision")

import torchvision_steps  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = (121, 160)
#: Largest share of values that differ by more than one. Both take the nearest pixel, or a weighted mean of pixels and
#: of the fill; positions halfway between two pixels, and at the border of the picture, are rounded differently.
NEAREST, BILINEAR = 0.0005, 0.02

normalize = t.Normalize(MEAN, STD)
CASES = [
    ("Resize, longer side", [t.Resize(100, side="longer")], 0),
    ("RandomCrop", [t.RandomCrop((50, 70))], 0),
    ("RandomCrop, padded", [t.RandomCrop(SIZE, padding=(30, 20), fill=(255, 0, 9))], 0),
    ("RandomCrop, pad if needed", [t.RandomCrop((130, 100), pad_if_needed=True)], 0),
    ("RandomResizedCrop", [t.RandomResizedCrop(64)], 0),
    ("RandomResizedCrop, small", [t.RandomResizedCrop(64, (0.01, 0.03))], 0),
    ("RandomResizedCrop, very wide", [t.RandomResizedCrop(64, (0.9, 1), (9, 10))], 0),
    ("RandomResizedCrop, nearest", [t.RandomResizedCrop((50, 45), interpolation="nearest")], 0),
    ("RandomShortestSize", [t.RandomShortestSize(range(70, 119)), t.RandomCrop(64)], 0),
    ("RandomShortestSize, max_size", [t.RandomShortestSize([90, 119, 150], max_size=130), t.RandomCrop(64)], 0),
    ("MultiScaleCrop", [t.MultiScaleCrop((50, 64))], 0),
    ("MultiScaleCrop, anywhere", [t.MultiScaleCrop(80, (1, 0.7, 0.6), 2, fix_crop=False)], 0),
    ("cover", [t.Resize((70, 60), fit="cover"), t.RandomCrop((70, 60))], 0),
    ("cover, wider", [t.Resize((50, 90), fit="cover"), t.CenterCrop((50, 90))], 0),
    ("FiveCrop", [t.FiveCrop(60)], 0),
    ("ThreeCrop", [t.ThreeCrop(120)], 0),
    ("flips", [t.RandomHorizontalFlip(), t.RandomVerticalFlip()], 0),
    ("Letterbox", [t.Letterbox(112, 114)], 0),
    ("RandomGrayscale", [t.RandomGrayscale(0.5)], 0),
    ("RandomErasing", [t.RandomErasing(0.5, value=(255, 0, 99), count=3)], 0),
    ("Cutout", [t.Cutout((35, 25), 4, (1, 2, 3))], 0),
    ("GridMask", [t.GridMask(37, 0.6, 20, 0.3, 0.7, (9, 8, 7))], NEAREST),
    ("ColorTwist", [t.ColorTwist(1.2, 0.7, 1.3, -40)], 0),
    ("RandomAffine, shift", [t.RandomAffine(0, (0.2, 0.3), interpolation="nearest", fill=77)], 0),
    ("RandomRotation, nearest", [t.RandomRotation(30, "nearest", expand=True, fill=(0, 255, 0))], NEAREST),
    ("RandomRotation, bilinear", [t.RandomRotation(30, "bilinear", center=(30, 40), fill=128)], BILINEAR),
    ("RandomAffine, nearest", [t.RandomAffine(30, (0.1, 0.1), (0.7, 1.4), (-9, 9, -9, 9), "nearest", 99)], NEAREST),
    ("RandomAffine, bilinear", [t.RandomAffine(30, None, (0.7, 1.4), 10, "bilinear", center=(50, 20))], BILINEAR),
    ("RandomApply", [t.RandomApply([t.Resize((60, 50)), t.RandomVerticalFlip()]), normalize], 0),
    ("RandomChoice", [t.RandomChoice([t.RandomVerticalFlip(), [], [t.RandomApply([t.Pad(2)], 0.9), t.Pad(3)]])], 0),
    ("training", [t.RandomResizedCrop(64), t.RandomHorizontalFlip(), normalize], 0),
    ("training, erased", [t.Resize(100), t.RandomCrop(96), normalize, t.RandomErasing(1, value=0)], 0),
    ("views", [t.Resize(80), t.ThreeCrop(80), normalize], 0),
    ("gray", [t.RandomCrop(100), t.RandomVerticalFlip(), t.RandomGrayscale(0.5)], 0),
]


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """Two frames of smooth colors, noise and saturated stripes, (2, 121, 160, 3) uint8."""
    y, x = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    smooth = np.stack([np.sin(y / (5 + n) + n) * np.cos(x / (9 - n)) * 120 + 128 for n in range(3)], 2)
    noise = np.random.default_rng(5).integers(0, 256, (*SIZE, 3))
    noise[:40] = np.stack([x * 7 % 256, 255 - x, y * 2 % 256], 2)[:40]
    return np.stack([smooth, noise]).astype(np.uint8)


@pytest.mark.parametrize(("transforms", "share"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_is_that_of_torchvision_with_the_drawn_parameters(transforms, share, clip):
    is_float = any(isinstance(transform, t.Normalize) for transform in transforms)
    parameters, results = set(), set()
    for seed in range(8):
        made = t.apply(clip, transforms, seed=seed, layout="TCHW", dtype="float32" if is_float else "uint8")
        drawn = t.sample_params(clip.shape, transforms, seed=seed)
        expected = torchvision_steps.theirs(clip, transforms, drawn)
        ours = np.asarray(made).astype(np.float32).reshape(expected.shape)
        difference = np.abs(ours - expected)
        if is_float:
            difference *= 255 * np.array(STD, np.float32)[:, None, None]
        assert (difference > 1.01).mean() <= share, (seed, difference.max())
        parameters.add(str(drawn))
        results.add(ours.tobytes())
    assert (len(results) > 1) == (len(parameters) > 1), "other parameters give other results"
