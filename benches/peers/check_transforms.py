"""Compares framespool's transforms with torchvision v2's, one by one and in lists.

The input is a decoded frame, the same with muted colors, and a synthetic one. framespool draws the random parameters;
torchvision's functions then apply them, step by step, to its uint8 tensors and to PIL images.

    python benches/peers/check_transforms.py [--seeds 3] [--only hue]

Run by hand; needs torchvision and Pillow in addition to the packages of benches/peers/.venv. Differences are in code
values, 0 to 255, also for normalized results. Steps that each round and clamp cannot equal one pass that
does so once, and torchvision's uint8 tensors truncate where PIL rounds: the table shows the resulting differences.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

try:
    import framespool as fsp
    import torch
    from framespool import transforms as t
    from PIL import Image
    from torchvision import __version__ as torchvision_version
    from torchvision.transforms import v2
    from torchvision_steps import FORMULA, MEAN, PIL, STD, TENSOR, decoded, made, theirs
except ImportError as error:
    print(f"check_transforms.py: skipped ({error})")
    sys.exit()


# --- Comparison -------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """Transforms for an image of (height, width)."""

    name: str
    make: Callable[[int, int], list[t.Transform]]
    random: bool = False
    against: tuple[str, ...] = (TENSOR, PIL)
    pictures: tuple[str, ...] = ("decoded", "made")


@dataclass
class Differences:
    """Absolute differences in code values, collected over seeds."""

    values: list[np.ndarray] = field(default_factory=list)

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        self.values.append(np.abs(ours - theirs).ravel())

    def columns(self) -> str:
        all_values = np.concatenate(self.values)
        # Normalized values come back in units of 1 / (255 std): the remaining rounding is not a difference.
        within = " ".join(f"{100 * (all_values <= limit + 0.01).mean():7.2f}" for limit in (0, 1, 2, 4))
        return f"{all_values.max():6.1f} {all_values.mean():7.3f} {within}"


def same(*transforms: t.Transform) -> Callable[[int, int], list[t.Transform]]:
    """The same for images of all sizes."""
    return lambda height, width: list(transforms)


def scaled(factor: float, **given: Any) -> Callable[[int, int], list[t.Transform]]:
    return lambda height, width: [t.Resize((round(height * factor), round(width * factor)), **given)]


def color_cases() -> Iterator[Case]:
    pictures = ("decoded", "muted", "made")
    for name, values in {"brightness": (0.7, 1.25), "contrast": (0.6, 1.4), "saturation": (0.0, 0.5, 1.5)}.items():
        for value in values:
            jitter = t.ColorJitter(**{name: (value, value)})
            yield Case(f"{name} {value}", same(jitter), pictures=pictures)
    for hue in (-0.05, 0.02, 0.05, 0.1, 1 / 6, 0.25, 1 / 3, 0.5):
        jitter = t.ColorJitter(hue=(hue, hue))
        yield Case(f"hue {hue:.3f}", same(jitter), pictures=pictures)
    yield Case("ColorJitter(.4, .4, .4)", same(t.ColorJitter(0.4, 0.4, 0.4)), random=True, pictures=pictures)
    yield Case("ColorJitter(.4, .4, .4, .1)", same(t.ColorJitter(0.4, 0.4, 0.4, 0.1)), random=True, pictures=pictures)
    yield Case("ColorJitter(.1, .1, .1, .02)", same(t.ColorJitter(0.1, 0.1, 0.1, 0.02)), True, pictures=pictures)
    yield Case("Grayscale", same(t.Grayscale()))
    yield Case("RandomGrayscale(.5)", same(t.RandomGrayscale(0.5)), random=True)
    twists = [t.ColorTwist(hue=25), t.ColorTwist(1.2, 0.7, 1.3, -40), t.ColorTwist(contrast=1.5), t.ColorTwist(0.5)]
    for twist in twists:
        numbers = [getattr(twist, name)[0] for name in ("brightness", "contrast", "saturation", "hue")]
        name = "ColorTwist " + " ".join(f"{n:g}" for n in numbers)
        yield Case(name, same(twist), against=(FORMULA,), pictures=pictures)


def geometry_cases() -> Iterator[Case]:
    for factor in (0.125, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0, 1.5, 3.0):
        yield Case(f"Resize x{factor:g}", scaled(factor))
    yield Case("Resize 224x224", same(t.Resize((224, 224))))
    yield Case("Resize shorter 224", same(t.Resize(224)))
    yield Case("Resize shorter 200, max 220", same(t.Resize(200, max_size=220)))
    yield Case("Resize longer 300", same(t.Resize(300, side="longer")))
    for factor in (0.4, 0.75, 1.7):
        # PIL always antialiases.
        yield Case(f"Resize x{factor:g}, no antialias", scaled(factor, antialias=False), against=(TENSOR,))
        yield Case(f"Resize x{factor:g}, nearest", scaled(factor, interpolation="nearest"))
    yield Case("CenterCrop 112", same(t.CenterCrop(112)))
    yield Case("CenterCrop odd", same(t.CenterCrop((113, 150))))
    yield Case("CenterCrop larger", lambda h, w: [t.CenterCrop((h + 7, w + 10))])
    yield Case("CenterCrop wider, lower", lambda h, w: [t.CenterCrop((h - 31, w + 13))])
    yield Case("RandomCrop", same(t.RandomCrop((112, 150))), random=True)
    yield Case("RandomCrop, padded", lambda h, w: [t.RandomCrop((h, w), padding=(30, 20), fill=(255, 0, 9))], True)
    yield Case("RandomCrop, pad if needed", lambda h, w: [t.RandomCrop((h + 9, 100), pad_if_needed=True)], True)
    yield Case("RandomResizedCrop 224", same(t.RandomResizedCrop(224)), random=True)
    yield Case("RandomResizedCrop 224, small", same(t.RandomResizedCrop(224, (0.01, 0.03))), random=True)
    yield Case(
        "RandomResizedCrop, nearest",
        same(t.RandomResizedCrop((100, 90), interpolation="nearest")),
        random=True,
    )
    yield Case("RandomResizedCrop, very wide", same(t.RandomResizedCrop(64, (0.9, 1), (9, 10))), random=True)
    yield Case("FiveCrop 112", same(t.FiveCrop(112)))
    yield Case("ThreeCrop", lambda h, w: [t.ThreeCrop(min(h, w) - min(h, w) % 2)])
    yield Case("RandomHorizontalFlip", same(t.RandomHorizontalFlip()), random=True)
    yield Case("RandomVerticalFlip", same(t.RandomVerticalFlip()), random=True)
    yield Case("Pad", same(t.Pad((1, 2, 3, 4), (255, 0, 128))))
    yield Case("Letterbox 224", same(t.Letterbox(224, 114)))
    for degrees in (0, 90, 180, 270):
        rotation = t.RandomRotation((degrees, degrees))
        yield Case(f"RandomRotation {degrees}", same(rotation))
        rotation = t.RandomRotation((degrees, degrees), "bilinear", expand=True)
        yield Case(f"RandomRotation {degrees}, expand", same(rotation))
    for word in ("nearest", "bilinear"):
        rotations = {
            "": {},
            ", expand": {"expand": True, "fill": (0, 255, 0)},
            ", center": {"center": (30, 40), "fill": 128},
        }
        for name, given in rotations.items():
            rotation = t.RandomRotation(30, word, **given)
            yield Case(f"RandomRotation, {word}{name}", same(rotation), random=True)
        affines = {
            "turn": t.RandomAffine(25, interpolation=word),
            "shift": t.RandomAffine(0, (0.2, 0.3), interpolation=word, fill=77),
            "scale": t.RandomAffine(0, scale=(0.5, 2), interpolation=word),
            "shear": t.RandomAffine(0, shear=(-20, 20, -15, 15), interpolation=word),
            "all": t.RandomAffine(30, (0.1, 0.1), (0.7, 1.4), (-10, 10, -10, 10), word, (9, 99, 199)),
            "center": t.RandomAffine(30, None, (0.7, 1.4), 10, word, center=(50, 20)),
        }
        for name, affine in affines.items():
            yield Case(f"RandomAffine, {word}, {name}", same(affine), random=True)


def cover_cases() -> Iterator[Case]:
    yield Case("RandomErasing", same(t.RandomErasing(1)), random=True)
    yield Case("RandomErasing, 3 of .5", same(t.RandomErasing(0.5, value=(255, 0, 99), count=3)), random=True)
    yield Case("Cutout, 4", same(t.Cutout((70, 50), 4, (1, 2, 3))), random=True)
    yield Case("GridMask", same(t.GridMask(40, 0.4)), against=(FORMULA,))
    yield Case("GridMask, turned", same(t.GridMask(37, 0.6, 20, 0.3, 0.7, (9, 8, 7))), against=(FORMULA,))
    yield Case("Normalize", same(t.Normalize(MEAN, STD)))


def list_cases() -> Iterator[Case]:
    normalize = t.Normalize(MEAN, STD)
    lists: dict[str, list[t.Transform]] = {
        "train: crop, flip, normalize": [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), normalize],
        "train: crop, flip, jitter, normalize": [
            t.RandomResizedCrop(224),
            t.RandomHorizontalFlip(),
            t.ColorJitter(0.4, 0.4, 0.4, 0.1),
            normalize,
        ],
        "train: weaker jitter": [
            t.RandomResizedCrop(224),
            t.RandomHorizontalFlip(),
            t.ColorJitter(0.2, 0.2, 0.2, 0.02),
            normalize,
        ],
        "train: resize, crop, flip, erase": [
            t.Resize(240),
            t.RandomCrop(224),
            t.RandomHorizontalFlip(),
            normalize,
            t.RandomErasing(1, value=0),
        ],
        "test: resize 256, center 224": [t.Resize(256), t.CenterCrop(224), normalize],
        "test: resize 128, three crops": [t.Resize(128), t.ThreeCrop(128), normalize],
        "test: resize 128, five crops": [t.Resize(128), t.FiveCrop(112)],
        "resize, rotate nearest": [t.Resize(200), t.RandomRotation(15)],
        "resize, rotate bilinear": [t.Resize(200), t.RandomRotation(15, "bilinear")],
        "resize, rotate, center crop": [t.Resize(240), t.RandomRotation(15, "bilinear"), t.CenterCrop(160)],
        "resize, affine bilinear": [t.Resize(200), t.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 5, "bilinear")],
        "rotate, flip": [t.RandomRotation(20, "bilinear"), t.RandomHorizontalFlip(1)],
        "flip, rotate": [t.RandomHorizontalFlip(1), t.RandomRotation(20, "bilinear")],
        "crop, resize": [t.CenterCrop((200, 240)), t.Resize((112, 112))],
        "random crop, flip both, gray": [
            t.RandomCrop(160),
            t.RandomHorizontalFlip(),
            t.RandomVerticalFlip(),
            t.RandomGrayscale(0.5),
        ],
        "letterbox, flip, cutout": [t.Letterbox(160, 114), t.RandomHorizontalFlip(1), t.Cutout(40, 2, 255)],
        "two resizes (one here)": [t.Resize(200), t.Resize(96)],
        "resize, crop, resize (one here)": [t.Resize(200), t.CenterCrop(180), t.Resize(96)],
        "pad, contrast (mean without fill here)": [t.Pad(40, 255), t.ColorJitter(contrast=(0.5, 0.5))],
        "pad, brightness (fill changes too)": [t.Pad(40, (50, 100, 150)), t.ColorJitter(brightness=(1.3, 1.3))],
        "rotate, jitter": [t.RandomRotation(20, "bilinear", fill=80), t.ColorJitter(0.2, 0, 0.2)],
    }
    for name, transforms in lists.items():
        yield Case(name, same(*transforms), random=True)
    clip = [t.RandomResizedCrop(112), t.RandomHorizontalFlip(), t.ColorJitter(0.2, 0.2, 0.2), normalize]
    yield Case("a clip of three frames", same(*clip), random=True, pictures=("clip",))


def compare(case: Case, pictures: dict[str, np.ndarray], seeds: int) -> Iterator[str]:
    """A row per image and library."""
    for picture in case.pictures:
        array = pictures[picture]
        frames = array if array.ndim == 4 else array[None]
        transforms = case.make(*frames.shape[1:3])
        last = [transform for transform in transforms if isinstance(transform, t.Normalize)]
        differences = {against: Differences() for against in case.against}
        remark = ""
        for seed in range(seeds if case.random else 1):
            try:
                result = t.apply(array, transforms, seed=seed, dtype="float32" if last else "uint8")
                drawn = t.sample_params(array.shape, transforms, seed=seed)
            except fsp.Error as error:
                remark = f"not done: {error}"
                break
            ours = np.asarray(result.numpy(), np.float32)
            for against in case.against:
                reference = theirs(frames, transforms, drawn, against)
                if last:
                    reference = (reference * STD + MEAN) * 255
                code_values = (ours * np.float32(STD) + np.float32(MEAN)) * 255 if last else ours
                code_values = code_values.reshape(-1, *code_values.shape[-3:])
                reference = reference.reshape(-1, *reference.shape[-3:])
                if code_values.shape != reference.shape:
                    remark = f"seed {seed}: ours is {code_values.shape}, {against}'s {reference.shape}"
                    break
                differences[against].add(code_values, reference)
            if remark:
                break
        for against in case.against:
            columns = remark or differences[against].columns()
            yield f"{case.name:<40} {picture:<8} {against:<11} {columns}"


def signatures() -> Iterator[str]:
    """Arguments and defaults that differ from torchvision's."""
    for name in t.__all__:
        if not hasattr(v2, name) or name == "Transform":
            continue
        ours = inspect.signature(getattr(t, name).__init__).parameters
        others = inspect.signature(getattr(v2, name).__init__).parameters
        remarks = [f"has no {argument}" for argument in others if argument not in ours]
        remarks += [f"adds {argument}" for argument in ours if argument not in others]
        for argument in others:
            if argument in ours and ours[argument].default != others[argument].default:
                remarks.append(f"{argument} is {ours[argument].default!r} instead of {others[argument].default!r}")
        places = [argument for argument in others if argument in ours]
        if places != [argument for argument in ours if argument in others]:
            remarks.append("has another order of arguments")
        if remarks:
            yield f"{name}: {', '.join(remarks)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="draws of each random case (default: 3)")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clip = decoded(3)
    muted = (clip[0] * (96 / 255) + 80).round().astype(np.uint8)
    pictures = {"decoded": clip[0], "muted": muted, "made": made(), "clip": clip}
    print(f"torchvision {torchvision_version}, Pillow {Image.__version__}; differences in code values")
    print(f"{'transforms':<40} {'picture':<8} {'against':<11} {'max':>6} {'mean':>7} " + "% within 0 / 1 / 2 / 4")
    for cases in (geometry_cases(), color_cases(), cover_cases(), list_cases()):
        for case in cases:
            if options.only.lower() in case.name.lower():
                for row in compare(case, pictures, options.seeds):
                    print(row, flush=True)
        print()
    print("Arguments that differ from torchvision's:")
    for line in signatures():
        print("   ", line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
