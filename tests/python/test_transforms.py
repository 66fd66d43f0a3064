"""Transforms as users write them: values repeated in errors, and the arguments of the engine."""

from __future__ import annotations

import enum
import pickle

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t
from framespool.transforms import _compose

BLACK = [0.0, 0.0, 0.0]
SHORTER = {"side": "shorter", "fit": "exact"}
TRIANGLE = {"interpolation": "bilinear", "antialias": 1.0, "display_aspect": 0.0}

CROP = ("CenterCrop", {"size": [3.0, 3.0]}, False)

#: One or more of each, with the arguments that the engine gets.
WIRE = [
    (t.AssumeColor(), ("AssumeColor", {}, False)),
    (t.AssumeColor("bt2020", range="full"), ("AssumeColor", {"matrix": "bt2020", "range": "full"}, False)),
    (t.ToneMap(), ("ToneMap", {"target_peak": 203.0, "source_peak": 1000.0}, False)),
    (t.Resize(256), ("Resize", {"size": 256.0, **SHORTER, **TRIANGLE}, False)),
    (t.Resize((3, 4)), ("Resize", {"size": [3.0, 4.0], **SHORTER, **TRIANGLE}, False)),
    (t.Resize((3, 4), fit="cover"), ("Resize", {"size": [3.0, 4.0], **SHORTER, "fit": "cover", **TRIANGLE}, False)),
    (t.Resize(9, max_size=20), ("Resize", {"size": 9.0, **SHORTER, "max_size": 20.0, **TRIANGLE}, False)),
    (
        t.Resize(9, "nearest", antialias=False, side="longer"),
        (
            "Resize",
            {
                "size": 9.0,
                "side": "longer",
                "fit": "exact",
                **TRIANGLE,
                "interpolation": "nearest",
                "antialias": 0.0,
            },
            False,
        ),
    ),
    (
        t.RandomShortestSize(range(4, 7), max_size=9),
        ("RandomShortestSize", {"min_size": [4.0, 5.0, 6.0], "max_size": 9.0, **TRIANGLE}, False),
    ),
    (t.RandomShortestSize([8, 4]), ("RandomShortestSize", {"min_size": [8.0, 4.0], **TRIANGLE}, False)),
    (
        t.MultiScaleCrop((3, 4), (1, 0.5), 2, fix_crop=False, per_frame=True),
        (
            "MultiScaleCrop",
            {
                "size": [3.0, 4.0],
                "scales": [1.0, 0.5],
                "max_distort": 2.0,
                "fix_crop": 0.0,
                "more_fix_crop": 1.0,
                **TRIANGLE,
            },
            True,
        ),
    ),
    (
        t.SmartResize(14, total_pixels=10**9),
        (
            "SmartResize",
            {
                "factor": 14.0,
                "min_pixels": 128.0 * 14**2,
                "max_pixels": 768.0 * 14**2,
                "total_pixels": 1e9,
                "interpolation": "bicubic",
                "antialias": 1.0,
                "display_aspect": 0.0,
            },
            False,
        ),
    ),
    (t.CenterCrop(7), ("CenterCrop", {"size": [7.0, 7.0]}, False)),
    (
        t.RandomCrop((3, 4)),
        ("RandomCrop", {"size": [3.0, 4.0], "padding": [0.0] * 4, "pad_if_needed": 0.0, "fill": BLACK}, False),
    ),
    (
        t.RandomCrop(3, padding=(1, 2), pad_if_needed=True, fill=(1, 2.5, 255), per_frame=True),
        (
            "RandomCrop",
            {"size": [3.0, 3.0], "padding": [1.0, 2.0, 1.0, 2.0], "pad_if_needed": 1.0, "fill": [1.0, 2.5, 255.0]},
            True,
        ),
    ),
    (
        t.RandomResizedCrop(224),
        ("RandomResizedCrop", {"size": [224.0] * 2, "scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3], **TRIANGLE}, False),
    ),
    (t.FiveCrop(3), ("FiveCrop", {"size": [3.0, 3.0]}, False)),
    (t.ThreeCrop((3, 5)), ("ThreeCrop", {"size": [3.0, 5.0]}, False)),
    (t.RandomHorizontalFlip(), ("RandomHorizontalFlip", {"p": 0.5}, False)),
    (t.RandomVerticalFlip(1, per_frame=True), ("RandomVerticalFlip", {"p": 1.0}, True)),
    (
        t.RandomRotation(10),
        ("RandomRotation", {"degrees": [-10.0, 10.0], "interpolation": "nearest", "expand": 0.0, "fill": BLACK}, False),
    ),
    (
        t.RandomRotation((90, 90), "bilinear", center=(3, 4.5), fill=7),
        (
            "RandomRotation",
            {
                "degrees": [90.0, 90.0],
                "interpolation": "bilinear",
                "expand": 0.0,
                "center": [3.0, 4.5],
                "fill": [7.0] * 3,
            },
            False,
        ),
    ),
    (
        t.RandomAffine(0),
        (
            "RandomAffine",
            {
                "degrees": [0.0, 0.0],
                "translate": [0.0, 0.0],
                "scale": [1.0, 1.0],
                "shear": [0.0] * 4,
                "interpolation": "nearest",
                "fill": BLACK,
            },
            False,
        ),
    ),
    (
        t.RandomAffine((-5, 10), (0.1, 0.2), (0.5, 2), (1, 2, 3, 4), "bilinear", (1, 2, 3), (8, 9), per_frame=True),
        (
            "RandomAffine",
            {
                "degrees": [-5.0, 10.0],
                "translate": [0.1, 0.2],
                "scale": [0.5, 2.0],
                "shear": [1.0, 2.0, 3.0, 4.0],
                "interpolation": "bilinear",
                "fill": [1.0, 2.0, 3.0],
                "center": [8.0, 9.0],
            },
            True,
        ),
    ),
    (t.Pad((1, 2, 3, 4), fill=128), ("Pad", {"padding": [1.0, 2.0, 3.0, 4.0], "fill": [128.0] * 3}, False)),
    (t.Letterbox((3, 4), 114), ("Letterbox", {"size": [3.0, 4.0], "fill": [114.0] * 3, **TRIANGLE}, False)),
    (
        t.Letterbox(3, display_aspect=True),
        ("Letterbox", {"size": [3.0, 3.0], "fill": BLACK, **TRIANGLE, "display_aspect": 1.0}, False),
    ),
    (t.ColorJitter(), ("ColorJitter", {}, False)),
    (
        t.ColorJitter(2, 0.5, (0.5, 3), 0.25, per_frame=True),
        (
            "ColorJitter",
            {"brightness": [0.0, 3.0], "contrast": [0.5, 1.5], "saturation": [0.5, 3.0], "hue": [-0.25, 0.25]},
            True,
        ),
    ),
    (
        t.ColorTwist(brightness=(0.5, 2), hue=-720),
        (
            "ColorTwist",
            {"brightness": [0.5, 2.0], "contrast": [1.0, 1.0], "saturation": [1.0, 1.0], "hue": [-720.0, -720.0]},
            False,
        ),
    ),
    (
        t.RandomPhotometricDistort(contrast=2, hue=(-0.1, 0.2), p=0.3),
        (
            "RandomPhotometricDistort",
            {
                "brightness": [0.875, 1.125],
                "contrast": [2.0, 2.0],
                "saturation": [0.5, 1.5],
                "hue": [-0.1, 0.2],
                "p": 0.3,
            },
            False,
        ),
    ),
    (t.RandomGrayscale(), ("RandomGrayscale", {"p": 0.1}, False)),
    (t.Grayscale(), ("RandomGrayscale", {"p": 1.0}, False)),
    (t.RandomPosterize(3), ("RandomPosterize", {"bits": 3.0, "p": 0.5}, False)),
    (t.RandomSolarize(99.5, 1), ("RandomSolarize", {"threshold": 99.5, "p": 1.0}, False)),
    (t.RandomInvert(0.2), ("RandomInvert", {"p": 0.2}, False)),
    (t.RandomAutocontrast(), ("RandomAutocontrast", {"p": 0.5}, False)),
    (t.RandomEqualize(per_frame=True), ("RandomEqualize", {"p": 0.5}, True)),
    (t.RandomAdjustSharpness(2), ("RandomAdjustSharpness", {"sharpness_factor": 2.0, "p": 0.5}, False)),
    (t.GaussianBlur((5, 3)), ("GaussianBlur", {"kernel_size": [5.0, 3.0], "sigma": [0.1, 2.0]}, False)),
    (
        t.RandAugment(),
        (
            "RandAugment",
            {
                "num_ops": 2.0,
                "magnitude": 9.0,
                "num_magnitude_bins": 31.0,
                "interpolation": "nearest",
                "fill": BLACK,
            },
            False,
        ),
    ),
    (
        t.TrivialAugmentWide(9, "bilinear", 7),
        ("TrivialAugmentWide", {"num_magnitude_bins": 9.0, "interpolation": "bilinear", "fill": [7.0] * 3}, False),
    ),
    (
        t.RandomErasing(),
        ("RandomErasing", {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": BLACK, "count": 1.0}, False),
    ),
    (
        t.RandomErasing(1, value="random", count=3, per_frame=True),
        (
            "RandomErasing",
            {"p": 1.0, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": "random", "count": 3.0},
            True,
        ),
    ),
    (
        t.Cutout(8, fill=(-1.5, 0, 300)),
        ("Cutout", {"size": [8.0, 8.0], "count": 1.0, "fill": [-1.5, 0.0, 300.0], "p": 1.0}, False),
    ),
    (
        t.GridMask((50, 100), shift_x=(0, 1), fill="random", p=0.5),
        (
            "GridMask",
            {
                "tile": [50.0, 100.0],
                "ratio": [0.5, 0.5],
                "degrees": [0.0, 0.0],
                "shift_x": [0.0, 1.0],
                "shift_y": [0.0, 0.0],
                "fill": "random",
                "p": 0.5,
            },
            False,
        ),
    ),
    (
        t.Normalize([0.1, 0.2, 0.3], (1, 2, 3)),
        ("Normalize", {"mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 3.0]}, False),
    ),
    (
        t.RandomApply([t.CenterCrop(3), t.RandomInvert()], p=0.25),
        ("RandomApply", {"transforms": [[CROP, ("RandomInvert", {"p": 0.5}, False)]], "p": 0.25}, False),
    ),
    (
        t.RandomChoice([t.CenterCrop(3), [], [t.RandomApply([t.CenterCrop(3)])]]),
        (
            "RandomChoice",
            {"transforms": [[CROP], [], [("RandomApply", {"transforms": [[CROP]], "p": 0.5}, False)]], "p": [1.0] * 3},
            False,
        ),
    ),
    (
        t.RandomChoice([t.CenterCrop(3), []], p=(0, 2)),
        ("RandomChoice", {"transforms": [[CROP], []], "p": [0.0, 2.0]}, False),
    ),
]
OBJECTS = [transform for transform, _ in WIRE]


@pytest.mark.parametrize(("transform", "expected"), WIRE, ids=lambda thing: repr(thing)[:60])
def test_all_arguments_reach_the_engine(transform, expected):
    (step,) = _compose.steps([transform])
    assert step == expected
    name, arguments, per_frame = step
    assert type(per_frame) is bool
    for value in (value for name, value in arguments.items() if name != "transforms"):
        parts = value if isinstance(value, list) else [value]
        assert all(type(part) in (float, str) for part in parts), value


LABELS_AND_MASKS = ("BlockMask", "CutMix", "LabelSmoothing", "MixUp", "OneOf", "TubeMask")
FUNCTIONS = (*LABELS_AND_MASKS, "BatchContext", "PerBatch", "PerClip")
NOT_OF_THE_ENGINE = (*FUNCTIONS, "Transform", "apply", "map_boxes", "map_points", "sample_params")


def test_every_transform_is_shown_to_reach_the_engine():
    public = {name for name in t.__all__ if name not in NOT_OF_THE_ENGINE}
    assert {type(transform).__name__ for transform in OBJECTS} == public
    assert all(issubclass(getattr(t, name), t.Transform) and getattr(t, name).__doc__ for name in public)


@pytest.mark.parametrize("transform", OBJECTS, ids=lambda thing: repr(thing)[:60])
def test_transforms_support_eq_pickle_and_repr(transform):
    again = pickle.loads(pickle.dumps(transform))
    assert again == transform and hash(again) == hash(transform) and again is not transform
    # The repr of Grayscale has no field, so eval gets the default.
    assert (
        type(transform) is t.Grayscale or eval(repr(transform), {name: getattr(t, name) for name in t.__all__}) == again
    )
    with pytest.raises(AttributeError):
        transform.p = 0.3


def test_different_values_and_kinds_are_different():
    assert len(set(OBJECTS)) == len(OBJECTS)
    assert t.RandomHorizontalFlip(0.5) != t.RandomVerticalFlip(0.5)
    assert t.ColorJitter(0.1) != t.ColorJitter(0.1, per_frame=True)


class Mode(enum.Enum):
    """Same form as torchvision's InterpolationMode."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (t.Resize(5), t.Resize([5])),
        (t.Resize(5), t.Resize(np.int64(5))),
        (t.Resize(None, max_size=7), t.Resize(7, side="longer")),
        (t.Resize((5, 6), Mode.BILINEAR), t.Resize(np.array([5, 6]), "bilinear")),
        (t.Resize(5, Mode.NEAREST), t.Resize(5, "nearest")),
        (t.Resize(5, Mode.NEAREST_EXACT), t.Resize(5, "nearest-exact")),
        (t.Resize(5, "nearest-exact"), t.Resize(5, "nearest")),
        (t.Resize(5, 0), t.Resize(5, "nearest")),  # PIL.Image.NEAREST
        (t.Resize(5, 2), t.Resize(5, "bilinear")),  # PIL.Image.BILINEAR
        (t.Resize(5, 3), t.Resize(5, "bicubic")),  # PIL.Image.BICUBIC
        (t.RandomResizedCrop(5, interpolation=Mode.BICUBIC), t.RandomResizedCrop(5, interpolation="bicubic")),
        (t.RandomShortestSize(7), t.RandomShortestSize([7])),
        (t.RandomApply((t.Pad(1),)), t.RandomApply([t.Pad(1)], 0.5)),
        (t.RandomChoice([t.Pad(1), t.Pad(2)]), t.RandomChoice([[t.Pad(1)], (t.Pad(2),)])),
        (t.CenterCrop((5,)), t.CenterCrop((5, 5))),
        (t.RandomCrop(5), t.RandomCrop(5, padding=0, padding_mode="constant")),
        (t.Pad(3), t.Pad([3])),
        (t.Pad((3, 4)), t.Pad((3, 4, 3, 4), (0, 0, 0))),
        (t.RandomRotation(10), t.RandomRotation((-10, 10))),
        (t.RandomRotation(0), t.RandomRotation((0, 0))),
        (t.RandomAffine(np.float32(10)), t.RandomAffine([-10, 10], (0, 0), (1, 1), 0)),
        (t.RandomAffine(0, shear=5), t.RandomAffine(0, shear=(-5, 5))),
        (t.RandomAffine(0, shear=(-5, 5)), t.RandomAffine(0, shear=(-5, 5, 0, 0))),
        (t.ColorJitter(None, None, None, None), t.ColorJitter(0, (1, 1), 0.0, (0, 0))),
        (t.ColorJitter(0.5, 2), t.ColorJitter((0.5, 1.5), (0, 3))),
        (t.ColorJitter(hue=0.5), t.ColorJitter(hue=(-0.5, 0.5))),
        (t.ColorTwist(), t.ColorTwist((1, 1), 1, 1, 0)),
        (t.RandomErasing(value=3), t.RandomErasing(value=(3, 3, 3))),
        (t.GridMask(), t.GridMask((100, 100), 0.5, 0, 0, 0)),
        (t.Normalize(0.5, [0.25]), t.Normalize((0.5, 0.5, 0.5), np.full(3, 0.25))),
    ],
)
def test_two_ways_to_say_the_same(one, other):
    assert one == other and hash(one) == hash(other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: t.Resize(0), "Resize: size must be at least 1, got 0"),
        (lambda: t.Resize(65536), "Resize: size must be at most 65535, got 65536"),
        (lambda: t.Resize(2.5), r"Resize: size must be an int, got 2\.5"),
        (lambda: t.Resize((1, 2, 3)), r"Resize: size must be .*\(1, 2, 3\)"),
        (lambda: t.Resize("224"), "Resize: size must be an int, got '224'"),
        (lambda: t.Resize(True), "Resize: size must be an int, got True"),
        (lambda: t.Resize(None), "Resize: size is None; give a size"),
        (lambda: t.Resize(9, max_size=9), "Resize: max_size must be greater than size=9, got 9"),
        (lambda: t.Resize((9, 9), max_size=10), r"Resize: max_size=10 needs an int size of the shorter side.*\(9, 9\)"),
        (lambda: t.Resize(9, max_size=10, side="longer"), "Resize: max_size=10 .*'longer'"),
        (lambda: t.Resize((9, 9), side="longer"), r'side="longer" needs an int for size, got \(9, 9\)'),
        (lambda: t.Resize(9, side="both"), "side must be .* got 'both'"),
        (lambda: t.Resize(9, "lanczos"), '\'lanczos\' is not supported; use "bilinear", "bicubic" or "nearest"'),
        (lambda: t.Resize(9, 1), "interpolation 1 is not supported"),
        (lambda: t.Resize(9, False), "interpolation False is not supported"),
        (lambda: t.Resize(9, antialias=None), "antialias must be True or False, got None"),
        (lambda: t.RandomCrop(9, padding=-1), "RandomCrop: padding must be at least 0, got -1"),
        (lambda: t.RandomCrop(9, padding_mode="edge"), "padding_mode 'edge' is not supported; use \"constant\""),
        (lambda: t.RandomCrop(9, pad_if_needed=1), "pad_if_needed must be True or False, got 1"),
        (lambda: t.RandomCrop(9, fill=256), "RandomCrop: fill must be at most 255, got 256"),
        (lambda: t.RandomCrop(9, fill=(1, 2)), r"fill must be a number or three numbers.*\(1, 2\)"),
        (lambda: t.RandomCrop(9, fill="red"), "fill must be a number, got 'red'"),
        (lambda: t.RandomCrop(9, per_frame="yes"), "RandomCrop: per_frame must be True or False, got 'yes'"),
        (lambda: t.Pad((1, 2, 3)), r"Pad: padding must be .*\(1, 2, 3\)"),
        (lambda: t.Pad(1, 0, "reflect"), "padding_mode 'reflect' is not supported"),
        (lambda: t.RandomResizedCrop(9, scale=(1, 0.5)), r"scale must be .*low <= high, got \(1, 0\.5\)"),
        (lambda: t.RandomResizedCrop(9, scale=(0, 1)), "scale must be greater than 0, got 0"),
        (lambda: t.RandomResizedCrop(9, scale=0.5), r"scale must be \(low, high\), got 0\.5"),
        (lambda: t.RandomResizedCrop(9, ratio=(-1, 1)), "ratio must be greater than 0, got -1"),
        (lambda: t.RandomHorizontalFlip(1.5), r"RandomHorizontalFlip: p must be at most 1, got 1\.5"),
        (lambda: t.RandomVerticalFlip(-0.5), r"RandomVerticalFlip: p must be at least 0, got -0\.5"),
        (lambda: t.RandomGrayscale(float("nan")), "RandomGrayscale: p must be finite, got nan"),
        (lambda: t.RandomGrayscale("0.1"), "p must be a number, got '0.1'"),
        (lambda: t.Grayscale(1), "num_output_channels must be 3, got 1"),
        (lambda: t.RandomRotation(-10), "degrees must be at least 0, got -10"),
        (lambda: t.RandomRotation((10, -10)), r"degrees must be .*got \(10, -10\)"),
        (lambda: t.RandomRotation((0, float("inf"))), "degrees must be finite, got inf"),
        (lambda: t.RandomRotation((1, 2, 3)), r"degrees must be \(low, high\), got \(1, 2, 3\)"),
        (lambda: t.RandomRotation(10, "bicubic"), "'bicubic' is not supported; only resizes have \"bicubic\"; use"),
        (lambda: t.RandomAffine(10, interpolation=Mode.BICUBIC), "RandomAffine: interpolation <Mode.BICUBIC.*; only"),
        (lambda: t.RandomRotation(10, expand=True, center=(1, 2)), r"omit center=\(1, 2\)"),
        (lambda: t.RandomRotation(10, center=3), "center must be 2 numbers, got 3"),
        (lambda: t.RandomAffine(0, translate=(0, 1.5)), r"translate must be at most 1, got 1\.5"),
        (lambda: t.RandomAffine(0, translate=0.1), r"translate must be 2 numbers, got 0\.1"),
        (lambda: t.RandomAffine(0, scale=(0, 1)), "scale must be at least 0.001, got 0"),
        (lambda: t.RandomAffine(0, shear=(1, 2, 3)), r"shear must be .*got \(1, 2, 3\)"),
        (lambda: t.RandomAffine(0, shear=90), "shear must be less than 90, got 90"),
        (lambda: t.RandomAffine(0, shear=(0, 0, -100, 0)), "shear along y must be greater than -90, got -100"),
        (lambda: t.ColorJitter(-0.1), r"brightness must be at least 0, got -0\.1"),
        (lambda: t.ColorJitter(contrast=(-1, 1)), "contrast must be at least 0, got -1"),
        (lambda: t.ColorJitter(saturation=(2, 1)), r"saturation must be .*got \(2, 1\)"),
        (lambda: t.RandomPosterize(9), "bits must be at most 8, got 9"),
        (lambda: t.RandomSolarize(300), "threshold must be at most 256, got 300"),
        (lambda: t.GaussianBlur(4), "kernel_size must be odd, got 4"),
        (lambda: t.GaussianBlur((3, 5, 7)), r"kernel_size must be an int or \(width, height\)"),
        (lambda: t.GaussianBlur(3, 0), "sigma must be at least 0.001, got 0"),
        (lambda: t.RandAugment(magnitude=31), "magnitude must be at most 30, got 31"),
        (lambda: t.TrivialAugmentWide(1), "num_magnitude_bins must be at least 2, got 1"),
        (lambda: t.ColorJitter(hue=0.6), r"hue must be at most 0\.5, got 0\.6"),
        (lambda: t.ColorJitter(hue=(-0.6, 0)), r"hue must be at least -0\.5, got -0\.6"),
        (lambda: t.ColorTwist(contrast=-1), "contrast must be at least 0, got -1"),
        (lambda: t.ColorTwist(hue=(30, -30)), r"hue must be .*got \(30, -30\)"),
        (lambda: t.RandomErasing(scale=(0.1, 1.1)), r"scale must be at most 1, got 1\.1"),
        (lambda: t.Resize(9, fit="cover"), r'Resize: fit="cover" needs \(height, width\) for size, got 9'),
        (lambda: t.Resize((9, 9), fit="contain"), 'Resize: fit must be one of "exact", "cover", got "contain"'),
        (lambda: t.RandomShortestSize([]), r"RandomShortestSize: min_size must have at least one length, got \[\]"),
        (lambda: t.RandomShortestSize(range(0, 9)), "RandomShortestSize: min_size must be at least 1, got 0"),
        (lambda: t.MultiScaleCrop(9, ()), r"MultiScaleCrop: scales must be a list of at least one number, got \(\)"),
        (lambda: t.MultiScaleCrop(9, (1, 1.5)), r"MultiScaleCrop: scales must be at most 1, got 1\.5"),
        (lambda: t.RandomApply([]), r"RandomApply: transforms must be a list of at least one transform, got \[\]"),
        (lambda: t.RandomApply(t.Pad(1)), r"RandomApply: transforms must be a list.*got Pad\("),
        (lambda: t.RandomApply([t.Pad]), r"RandomApply: Pad is a class; use an object, Pad\(\.\.\.\)"),
        (lambda: t.RandomApply([len]), r"RandomApply: transforms must be framespool.*got <built-in.*PerClip"),
        (lambda: t.RandomChoice([]), r"RandomChoice: transforms must be a list of at least one entry, got \[\]"),
        (lambda: t.RandomChoice([[t.Pad(1), "x"]]), "RandomChoice: transforms must be framespool.*got 'x'"),
        (lambda: t.RandomChoice([t.Pad(1)], [1, 2]), r"p must have a weight for each of 1 entries, got \[1, 2\]"),
        (lambda: t.RandomChoice([t.Pad(1)], [0]), r"p must have a weight above 0, got \[0\]"),
        (lambda: t.RandomChoice([t.Pad(1)], [-1]), "RandomChoice: p must be at least 0, got -1"),
        (lambda: t.RandomErasing(ratio=(0, 1)), "ratio must be greater than 0, got 0"),
        (lambda: t.RandomErasing(value="noise"), "value must be .*\"random\", got 'noise'"),
        (lambda: t.RandomErasing(value=(1, 2)), r"value must be .*got \(1, 2\)"),
        (lambda: t.RandomErasing(count=0), "count must be at least 1, got 0"),
        (lambda: t.Cutout(0), "Cutout: size must be at least 1, got 0"),
        (lambda: t.GridMask(0.5), r"tile must be at least 1, got 0\.5"),
        (lambda: t.GridMask(ratio=(0, 2)), "ratio must be at most 1, got 2"),
        (lambda: t.AssumeColor("bt470"), 'matrix must be .*"bt470"'),
        (lambda: t.AssumeColor(range="tv"), 'range must be .*"tv"'),
        (lambda: t.Normalize((0, 0), (1, 1)), r"Normalize: mean must be .*got \(0, 0\)"),
        (lambda: t.Normalize((0, 0, 0), (1, 0, 1)), r"std must not be 0, got \(1, 0, 1\)"),
        (lambda: t.Normalize({"r": 0}, 1), "mean must be a number, got {'r': 0}"),
    ],
)
def test_wrong_values_are_repeated_back(make, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        make()


def test_the_engine_checks_again_and_knows_every_name(videos):
    """Invalid internal arguments are rejected, not misinterpreted."""
    from framespool import _framespool

    video = _framespool.Video(videos / "derived" / "tiny_34x26_h264.mp4", "", 1, False, None, "auto")

    def send(*step):
        video.frames([0], [step], "uint8", "NTHWC", 0)

    with pytest.raises(fsp.errors.InternalError, match="Sharpen.*unknown transform"):
        send("Sharpen", {}, False)
    with pytest.raises(fsp.errors.InternalError, match="CenterCrop.*size is missing"):
        send("CenterCrop", {}, False)
    with pytest.raises(fsp.errors.InternalError, match="CenterCrop.*unknown argument turn"):
        send("CenterCrop", {"size": [4.0, 4.0], "turn": 1.0}, False)
    with pytest.raises(fsp.errors.InternalError, match="RandomApply.*transforms has no lists"):
        send("RandomApply", {"transforms": "all", "p": 0.5}, False)
    with pytest.raises(fsp.errors.InternalError, match="RandomChoice.*weights.* of 1 lists"):
        send("RandomChoice", {"transforms": [[]], "p": [0.5, 0.5]}, False)
    with pytest.raises(fsp.errors.InternalError, match="MultiScaleCrop.*scales is empty"):
        arguments = t.MultiScaleCrop(9)._step()[1]
        send("MultiScaleCrop", {**arguments, "scales": []}, False)
    with pytest.raises(fsp.errors.InternalError, match='CenterCrop.*"all" instead of numbers'):
        send("CenterCrop", {"size": "all"}, False)
    with pytest.raises(fsp.errors.InternalError, match="Pad.*3 numbers, not 4"):
        send("Pad", {"padding": [1.0, 2.0, 3.0], "fill": BLACK}, False)
    with pytest.raises(fsp.errors.ArgumentError, match="CenterCrop: size must be an int from 1 to 65535, got 0.0"):
        send("CenterCrop", {"size": [4.0, 0.0]}, False)
    with pytest.raises(fsp.errors.ArgumentError, match="CenterCrop: size must be finite, got NaN"):
        send("CenterCrop", {"size": [4.0, float("nan")]}, False)
    with pytest.raises(fsp.errors.ArgumentError, match="RandomHorizontalFlip: p must be from 0 to 1, got 2.0"):
        send("RandomHorizontalFlip", {"p": 2.0}, False)
