"""Transforms as users write them: values repeated in errors, and the form that the engine takes."""

from __future__ import annotations

import dataclasses
import enum
import pickle

import framespool as fsp
import numpy as np
import pytest
from framespool import _framespool
from framespool import transforms as t
from framespool.transforms import _args

#: One or more of each.
OBJECTS = [
    t.AssumeColor(),
    t.AssumeColor("bt2020", range="full"),
    t.ToneMap(),
    t.Resize(256),
    t.Resize((3, 4)),
    t.Resize((3, 4), fit="cover"),
    t.Resize(9, max_size=20),
    t.Resize(9, "nearest", antialias=False, side="longer"),
    t.RandomShortestSize(range(4, 7), max_size=9),
    t.RandomShortestSize([8, 4]),
    t.MultiScaleCrop((3, 4), (1, 0.5), 2, fix_crop=False, per_frame=True),
    t.SmartResize(14, total_pixels=10**9),
    t.CenterCrop(7),
    t.RandomCrop((3, 4)),
    t.RandomCrop(3, padding=(1, 2), pad_if_needed=True, fill=(1, 2.5, 255), per_frame=True),
    t.RandomResizedCrop(224),
    t.FiveCrop(3),
    t.ThreeCrop((3, 5)),
    t.RandomHorizontalFlip(),
    t.RandomVerticalFlip(1, per_frame=True),
    t.RandomRotation(10),
    t.RandomRotation((90, 90), "bilinear", center=(3, 4.5), fill=7),
    t.RandomAffine(0),
    t.RandomAffine((-5, 10), (0.1, 0.2), (0.5, 2), (1, 2, 3, 4), "bilinear", (1, 2, 3), (8, 9), per_frame=True),
    t.Pad((1, 2, 3, 4), fill=128),
    t.Letterbox((3, 4), 114),
    t.ResizeToNearest([(3, 4), (4, 3)], "letterbox", 7),
    t.ResizeToNearest([(3, 4)], "random_cover", display_aspect=True),
    t.Letterbox(3, display_aspect=True),
    t.ColorJitter(),
    t.ColorJitter(2, 0.5, (0.5, 3), 0.25, per_frame=True),
    t.ColorTwist(brightness=(0.5, 2), hue=-720),
    t.RandomPhotometricDistort(contrast=2, hue=(-0.1, 0.2), p=0.3),
    t.RandomGrayscale(),
    t.Grayscale(),
    t.RandomPosterize(3),
    t.RandomSolarize(99.5, 1),
    t.RandomInvert(0.2),
    t.RandomAutocontrast(),
    t.RandomEqualize(per_frame=True),
    t.RandomAdjustSharpness(2),
    t.GaussianBlur((5, 3)),
    t.RandAugment(),
    t.TrivialAugmentWide(9, "bilinear", 7),
    t.RandomErasing(),
    t.RandomErasing(1, value="random", count=3, per_frame=True),
    t.Cutout(8, fill=(1.5, 0, 200)),
    t.GridMask((50, 100), shift_x=(0, 1), fill="random", p=0.5),
    t.Normalize([0.1, 0.2, 0.3], (1, 2, 3)),
    t.RandomApply([t.CenterCrop(3), t.RandomInvert()], p=0.25),
    t.RandomChoice([t.CenterCrop(3), [], [t.RandomApply([t.CenterCrop(3)])]]),
    t.RandomChoice([t.CenterCrop(3), []], p=(0, 2)),
]


def filtered(interpolation="bilinear", antialias=True, display_aspect=False):
    return {"filter": (interpolation, antialias), "display_aspect": display_aspect}


LETTERBOX = {"size": (4, 4), "fill": (0.0, 0.0, 0.0), **filtered()}
LIMITS = {"factor": 14, "min_pixels": 128 * 14**2, "max_pixels": 768 * 14**2, "total_pixels": None}
CROP = {"transform": {"CenterCrop": {"size": (3, 3)}}, "per_frame": False}
PAD = {"transform": {"Pad": {"padding": (1, 1, 1, 1), "fill": (0.0, 0.0, 0.0)}}, "per_frame": False}


@pytest.mark.parametrize(
    ("transform", "name", "values"),
    [
        (t.Resize((3, 4)), "Resize", {"target": {"Exact": (3, 4)}, **filtered()}),
        (t.Resize((3, 4), fit="cover"), "Resize", {"target": {"Cover": (3, 4)}, **filtered()}),
        (t.Resize(9, side="longer"), "Resize", {"target": {"Longer": 9}, **filtered()}),
        (
            t.Resize(9, "nearest", 20, False, display_aspect=True),
            "Resize",
            {"target": {"Shorter": {"size": 9, "longest": 20}}, **filtered("nearest", False, True)},
        ),
        (t.SmartResize(14), "Resize", {"target": {"Multiple": LIMITS}, **filtered("bicubic")}),
        (t.Grayscale(), "RandomGrayscale", {"p": 1.0}),
        (t.RandomApply([t.CenterCrop(3)], 0.25), "RandomApply", {"steps": [CROP], "p": 0.25}),
        (t.RandomChoice([t.CenterCrop(3), []]), "RandomChoice", {"choices": [(1.0, [CROP]), (1.0, [])]}),
        (t.RandomChoice([[t.Pad(1)]], p=[2]), "RandomChoice", {"choices": [(2.0, [PAD])]}),
        *(
            (
                t.MultiScaleCrop(3, [1, 0.5], fix_crop=fixed, more_fix_crop=more),
                "MultiScaleCrop",
                {"size": (3, 3), "scales": (1.0, 0.5), "max_distort": 1, "positions": positions, **filtered()},
            )
            for fixed, more, positions in [(False, True, "Any"), (True, False, "Five"), (True, True, "Thirteen")]
        ),
    ],
    ids=lambda thing: repr(thing)[:60],
)
def test_forms_that_differ_from_the_fields(transform, name, values):
    assert transform._step() == {"transform": {name: values}, "per_frame": False}


LABELS_AND_MASKS = ("BlockMask", "CutMix", "LabelSmoothing", "MixUp", "OneOf", "TubeMask")
FUNCTIONS = (*LABELS_AND_MASKS, "BatchContext", "PerBatch", "PerClip")
NOT_OF_THE_ENGINE = (*FUNCTIONS, "Transform", "apply", "map_boxes", "map_points", "sample_params")


def test_every_transform_is_in_the_list():
    public = {name for name in t.__all__ if name not in {*NOT_OF_THE_ENGINE, "Deinterlace"}}
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
        (lambda: t.Resize(9, side="both"), 'side must be .* got "both"'),
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
        (lambda: t.Pad(None), "Pad: padding must be an int, got None"),
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
        (lambda: t.Normalize((0, 0, 0), (1, 0, 1)), "Normalize: std must be greater than 0, got 0"),
        (lambda: t.Normalize({"r": 0}, 1), "mean must be a number, got {'r': 0}"),
    ],
)
def test_wrong_values_are_repeated_back(make, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        make()


@dataclasses.dataclass
class Form:
    form: dict

    def _step(self):
        return self.form


def send(form):
    """Has the engine read a form."""
    return _framespool.sample_transform_params((80, 90), [Form(form)], (0, 0, 0), (0, 1))


@pytest.mark.parametrize("transform", OBJECTS, ids=lambda thing: repr(thing)[:60])
def test_engine_takes_exactly_the_fields_of_each_transform(transform):
    kind = type(transform)
    if kind is not t.Grayscale:
        assert set(_args._checks(kind)) == {field.name for field in dataclasses.fields(kind)}, "a field without a check"
    step = transform._step()
    assert type(step["per_frame"]) is bool
    ((name, values),) = step["transform"].items()
    (drawn,) = send(step)
    assert drawn["name"] == name

    def refused(match, values, **more):
        with pytest.raises(fsp.errors.InternalError, match=match):
            send({**step, "transform": {name: values}, **more})

    refused("unknown field `turn`", {**values, "turn": 1.0})
    refused("unknown field `turn`", values, turn=1.0)
    for field, value in values.items():
        refused(f"missing field `{field}`", {other: values[other] for other in values if other != field})
        if type(value) is not bool:  # read as Python's truth
            refused(None, {**values, field: object()})
    with pytest.raises(fsp.errors.InternalError, match="missing field `per_frame`"):
        send({"transform": step["transform"]})


def test_engine_names_transforms_and_words_that_it_does_not_know():
    def refused(match, **transform):
        with pytest.raises(fsp.errors.InternalError, match=match):
            send({"transform": transform, "per_frame": False})

    refused("unknown variant `Sharpen`, expected one of `AssumeColor`", Sharpen={})
    refused("unknown variant `bt470`.*`bt601`", AssumeColor={"matrix": "bt470", "range": None})
    refused("unknown variant `lanczos`", Letterbox={**LETTERBOX, "filter": ("lanczos", True)})
    refused(None, Letterbox={**LETTERBOX, "size": (4,)})
    refused(None, Letterbox={**LETTERBOX, "size": (4, -1)})
    refused(None, Letterbox={**LETTERBOX, "size": (4, 1.5)})
    refused(None, Cutout={"size": (4, 4), "count": 1, "p": 1.0, "fill": "noise"})


def test_lists_inside_each_other_are_limited():
    inner = t.CenterCrop(4)
    for _ in range(280):
        inner = t.RandomApply([inner])
    with pytest.raises(fsp.errors.ArgumentError, match="281 transforms; at most 256 are possible"):
        t.sample_params((8, 8), [inner])
