"""Augmentations, compared with torchvision's on the same parameters; skipped if torchvision is not installed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from framespool import transforms as t

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
F = v2.functional
torchvision_steps = pytest.importorskip("torchvision_steps")
BILINEAR = v2.InterpolationMode.BILINEAR

SIZE = (121, 160)


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """Three frames (3, 121, 160, 3) uint8: smooth colors, noise of few values, and saturated stripes."""
    height, width = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    smooth = np.stack([np.sin(height / (5 + n) + n) * np.cos(width / (9 - n)) * 100 + 128 for n in range(3)], 2)
    noise = np.random.default_rng(5).integers(30, 180, (*SIZE, 3))
    stripes = np.stack([width * 7 % 256, 255 - width, height * 2 % 256], 2)
    return np.stack([smooth, noise, stripes]).astype(np.uint8)


def of_framespool(frames, transforms, **arguments):
    return np.asarray(t.apply(frames, transforms, layout="TCHW", **arguments)).astype(int)


def frames_of(clip):
    return torch.from_numpy(clip).permute(0, 3, 1, 2)


@pytest.mark.parametrize("transform", [
    v2.RandomPosterize(3, p=1.0),
    v2.RandomSolarize(100.0, p=1.0),
    v2.RandomInvert(p=1.0),
    v2.RandomEqualize(p=1.0),
    v2.RandomAutocontrast(p=1.0),
    v2.RandomAdjustSharpness(0.3, p=1.0),
    v2.RandomAdjustSharpness(2.5, p=1.0),
    v2.GaussianBlur(5, sigma=1.3),
    v2.GaussianBlur((9, 3), sigma=(0.7, 0.7)),
    v2.GaussianBlur(31, sigma=6.0),
    v2.ColorJitter(hue=(0.1, 0.1)),
    v2.ColorJitter(hue=(-0.35, -0.35)),
    v2.ColorJitter(hue=(0.5, 0.5)),
    v2.Compose([v2.RandomSolarize(90.0, p=1.0), v2.Resize((60, 70)), v2.RandomInvert(p=1.0)]),
    v2.Compose([v2.RandomSolarize(90.0, p=1.0), v2.Pad(5, fill=200), v2.RandomPosterize(2, p=1.0), v2.Pad(4, fill=9)]),
    v2.Compose([v2.RandomRotation((20, 20)), v2.RandomRotation((-35, -35), fill=50), v2.CenterCrop((150, 190))]),
], ids=lambda transform: type(transform).__name__)  # fmt: skip
def test_result_is_that_of_torchvision(transform, clip):
    theirs = transform(frames_of(clip)).numpy().astype(int)
    ours = of_framespool(clip, [transform])
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("interpolation", [v2.InterpolationMode.NEAREST, BILINEAR])
@pytest.mark.parametrize("degrees", [90, 180, 270, -90, 450])
@pytest.mark.parametrize("width", [159, 160])
def test_expanded_right_angles_are_exact(degrees, interpolation, width, clip):
    transform = v2.RandomRotation((degrees, degrees), interpolation=interpolation, expand=True)
    part = np.ascontiguousarray(clip[:, :, :width])
    assert np.array_equal(of_framespool(part, [transform]), transform(frames_of(part)).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_float_results_come_from_the_8_bit_values(dtype, clip):
    transforms = [t.Resize((50, 60)), t.RandomEqualize(p=1.0)]
    codes = of_framespool(clip, transforms)
    floats = np.asarray(t.apply(clip, transforms, layout="TCHW", dtype=dtype)).astype(float)
    np.testing.assert_allclose(floats, codes / 255, atol=1e-6 if dtype == "float32" else 5e-4)


def test_jitter_equals_torchvisions_functions_in_the_drawn_order(clip):
    """With small factors, so that nothing is clamped in between."""
    muted = (clip // 4 + 90).astype(np.uint8)
    jitter = t.ColorJitter(0.2, 0.2, 0.3, 0.4)
    change = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for number in range(12):
        [drawn] = t.sample_params(SIZE, [jitter], seed=1, clip=number)
        factors = [drawn[name][0] if isinstance(drawn[name], list) else drawn[name] for name in
                   ("brightness", "contrast", "saturation", "hue")]  # fmt: skip
        frames = frames_of(muted)
        for place in drawn["order"]:
            frames = change[int(place)](frames, factors[int(place)])
        # torchvision truncates after each of the four: half a code on average.
        difference = np.abs(of_framespool(muted, [jitter], seed=1, clip=number) - frames.numpy().astype(int))
        assert difference.max() <= 6
        assert difference.mean() < 2


def test_distortion_equals_torchvisions_functions_as_drawn(clip):
    """With small factors, so that nothing is clamped in between."""
    muted, seen = (clip // 4 + 90).astype(np.uint8), set()
    distort = t.RandomPhotometricDistort((0.8, 1.2), (0.8, 1.2), (0.7, 1.3), (-0.4, 0.4))
    for number in range(40):
        [drawn] = t.sample_params(SIZE, [distort], seed=1, clip=number)
        expected = torchvision_steps.photometric_distort(frames_of(muted), drawn).numpy().astype(int)
        # torchvision truncates after each of the four: half a code on average.
        difference = np.abs(of_framespool(muted, [distort], seed=1, clip=number) - expected)
        assert difference.max() <= 6
        assert difference.mean() < 2
        neutral = {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 0}
        seen |= {(name, drawn[name] != value) for name, value in neutral.items()}
        seen |= {(drawn["contrast"] != 1, drawn["contrast_first"]), tuple(drawn["channels"])}
        for name, value in neutral.items():
            low, high = getattr(distort, name)
            assert low <= drawn[name] <= high or drawn[name] == value
    assert len(seen) == 8 + 4 + 6, "each change with and without, contrast at both places, all orders of channels"


def apply_by_torchvision(frames, number, magnitude):
    """The operation of this number in torchvision's list, as `_apply_image_or_video_transform` calls it."""
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], "center": [0, 0]}
    nearest = {"interpolation": v2.InterpolationMode.NEAREST, "fill": 0}
    shear = math.degrees(math.atan(magnitude))
    return [
        lambda: frames,
        lambda: F.affine(frames, **{**still, "shear": [shear, 0.0]}, **nearest),
        lambda: F.affine(frames, **{**still, "shear": [0.0, shear]}, **nearest),
        lambda: F.affine(frames, **{**still, "translate": [int(magnitude), 0], "center": None}, **nearest),
        lambda: F.affine(frames, **{**still, "translate": [0, int(magnitude)], "center": None}, **nearest),
        lambda: F.rotate(frames, magnitude, **nearest),
        lambda: F.adjust_brightness(frames, 1.0 + magnitude),
        lambda: F.adjust_saturation(frames, 1.0 + magnitude),
        lambda: F.adjust_contrast(frames, 1.0 + magnitude),
        lambda: F.adjust_sharpness(frames, 1.0 + magnitude),
        lambda: F.posterize(frames, int(magnitude)),
        lambda: F.solarize(frames, 255.0 * magnitude),
        lambda: F.autocontrast(frames),
        lambda: F.equalize(frames),
    ][int(number)]()


def listed(value):
    return value if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("policy", [t.TrivialAugmentWide(), t.RandAugment(1, 19), t.RandAugment(1, 5, 11)])
def test_policies_apply_torchvisions_operations(policy, clip):
    seen = set()
    for number in range(60):
        [drawn] = t.sample_params(SIZE, [policy], clip=number)
        (operation,), (magnitude,) = listed(drawn["operations"]), listed(drawn["magnitudes"])
        theirs = apply_by_torchvision(frames_of(clip), operation, magnitude).numpy().astype(int)
        difference = np.abs(of_framespool(clip, [policy], clip=number) - theirs)
        if operation in (1, 2, 5):
            # Both take the nearest pixel; positions halfway between two pixels are rounded differently.
            assert (difference > 0).mean() < 0.02, (operation, magnitude)
        else:
            # Of saturation, torchvision truncates both the gray and the result.
            assert difference.max() <= (2 if operation == 7 else 1), (operation, magnitude)
        seen.add(int(operation))
    assert len(seen) >= 12


def test_operations_of_one_policy_follow_each_other(clip):
    policy, compared = t.RandAugment(3, 12), 0
    for number in range(40):
        [drawn] = t.sample_params(SIZE, [policy], clip=number)
        if set(drawn["operations"]) & {1.0, 2.0, 3.0, 4.0, 5.0}:
            continue
        frames = frames_of(clip)
        for operation, magnitude in zip(drawn["operations"], drawn["magnitudes"], strict=True):
            frames = apply_by_torchvision(frames, operation, magnitude)
        difference = np.abs(of_framespool(clip, [policy], clip=number) - frames.numpy().astype(int))
        # A difference of one before solarize or equalize grows; brightness and contrast do not clamp in between.
        assert np.quantile(difference, 0.5) <= 2, drawn
        compared += 1
    assert compared >= 5


@pytest.mark.parametrize("kind", [v2.RandAugment, v2.TrivialAugmentWide])
def test_magnitudes_are_torchvisions(kind):
    theirs, ours = kind(), {v2.RandAugment: t.RandAugment, v2.TrivialAugmentWide: t.TrivialAugmentWide}[kind]
    space = theirs._AUGMENTATION_SPACE
    names, found = list(space), set()
    for bins in (31, 7):
        for number in range(150):
            policy = ours(num_magnitude_bins=bins) if kind is v2.TrivialAugmentWide else ours(1, bins // 2, bins)
            [drawn] = t.sample_params(SIZE, [policy], clip=number)
            (operation,), (magnitude,) = listed(drawn["operations"]), listed(drawn["magnitudes"])
            values, signed = space[names[int(operation)]]
            expected = values(bins, *SIZE)
            if expected is None:
                assert magnitude == 0
                continue
            allowed = expected.double() if kind is v2.TrivialAugmentWide else expected.double()[bins // 2 :][:1]
            assert float((allowed - (abs(magnitude) if signed else magnitude)).abs().min()) < 1e-4
            found.add(names[int(operation)])
    assert len(found) == 11


@pytest.mark.parametrize(("theirs", "ours"), [
    (v2.RandAugment(3, 5, 11), t.RandAugment(3, 5, 11)),
    (v2.RandAugment(fill=7, interpolation=BILINEAR), t.RandAugment(fill=7, interpolation="bilinear")),
    (v2.TrivialAugmentWide(fill=[1, 2, 3]), t.TrivialAugmentWide(fill=(1, 2, 3))),
    (v2.GaussianBlur((3, 7), sigma=(0.5, 1.5)), t.GaussianBlur((3, 7), (0.5, 1.5))),
    (v2.ColorJitter(hue=0.2), t.ColorJitter(hue=0.2)),
    (v2.RandomPosterize(5, p=0.3), t.RandomPosterize(5, 0.3)),
], ids=lambda transform: type(transform).__name__)  # fmt: skip
def test_random_transforms_keep_their_arguments(theirs, ours):
    from framespool.transforms import _compose

    assert _compose.split([theirs], "uint8") == _compose.split([ours], "uint8")


def test_threshold_and_fill_of_floats_are_in_units_of_the_result(clip):
    transform = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.RandomSolarize(0.4, p=1.0)])
    ours = np.asarray(t.apply(clip, [transform], layout="TCHW", dtype="float32"))
    np.testing.assert_allclose(ours, transform(frames_of(clip)).numpy(), atol=1e-5)


def test_label_maps_follow_a_policy_that_moves_pixels():
    """A bright square in a dark frame: after the same operations, its label covers the bright pixels."""
    frame = np.zeros((1, 100, 100, 3), np.uint8)
    frame[:, 40:60, 30:50] = 255
    policy = [t.RandAugment(2, 20, interpolation="nearest")]
    checked = 0
    for number in range(40):
        [drawn] = t.sample_params((100, 100), policy, clip=number)
        if not set(drawn["operations"]) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}:
            continue
        mask = frame[..., 0] // 255
        _, moved = t.apply(frame, policy, masks=mask, clip=number)
        assert np.array_equal(np.asarray(moved) == 1, np.asarray(t.apply(frame, policy, clip=number))[..., 0] == 255)
        checked += 1
    assert checked >= 3
