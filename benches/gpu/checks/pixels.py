"""Compares the transform pipeline on the device with the CPU's, byte for byte: transforms, dtypes, layouts, sources."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import Clip, clips
from equality import Comparison, Outcome, differ
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

DTYPES = ("uint8", "float16", "bfloat16", "float32")
LAYOUTS = ("THWC", "TCHW", "CTHW")
#: ImageNet's, as used by training scripts.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def recipes() -> dict[str, list[Any]]:
    t = fsp.transforms
    resized = t.RandomResizedCrop(112)
    return {
        "as decoded": [],
        "resize down": [t.Resize((112, 112))],
        "resize up": [t.Resize((701, 947))],
        "resize shorter side, center crop": [t.Resize(128), t.CenterCrop(112)],
        "nearest": [t.Resize((97, 131), interpolation="nearest")],
        "not antialiased": [t.Resize((97, 131), antialias=False)],
        "bicubic": [t.Resize((97, 131), interpolation="bicubic")],
        "bicubic up": [t.Resize((701, 947), interpolation="bicubic")],
        "bicubic, not antialiased": [t.Resize((97, 131), interpolation="bicubic", antialias=False)],
        "random crop": [t.Resize(128), t.RandomCrop(96)],
        "crop with padding": [t.RandomCrop(160, padding=24, pad_if_needed=True, fill=(9, 99, 199))],
        "random resized crop": [resized],
        "flips": [resized, t.RandomHorizontalFlip(1.0), t.RandomVerticalFlip(1.0)],
        "letterbox": [t.Letterbox(144, fill=(114, 114, 114))],
        "pad": [t.Resize((60, 80)), t.Pad(11, fill=(1, 2, 3))],
        "five crops": [t.Resize(96), t.FiveCrop(64)],
        "three crops": [t.Resize(96), t.ThreeCrop(96)],
        "rotation": [t.Resize(96), t.RandomRotation(30, fill=(10, 20, 30))],
        "rotation, whole picture": [t.Resize(96), t.RandomRotation((40, 50), expand=True)],
        "affine": [t.Resize(96), t.RandomAffine(20, translate=(0.1, 0.2), scale=(0.7, 1.3), shear=(-9, 9, -5, 5))],
        "affine, nearest": [t.Resize(96), t.RandomAffine(20, scale=(0.7, 1.3), interpolation="nearest")],
        "color jitter": [resized, t.ColorJitter(0.4, 0.4, 0.4, 0.1)],
        "contrast about the mean": [t.Resize(96), t.ColorJitter(contrast=(1.7, 1.7))],
        "color twist": [resized, t.ColorTwist(brightness=1.2, contrast=0.8, saturation=1.4, hue=20)],
        "gray": [resized, t.Grayscale(3)],
        "gray by chance": [resized, t.RandomGrayscale(0.5, per_frame=True)],
        "blur and solarize": [resized, t.GaussianBlur((9, 5)), t.RandomSolarize(90, 1.0)],
        "equalize, then resize": [t.Resize(128), t.RandomEqualize(1.0), t.Resize(96), t.RandomAutocontrast(1.0)],
        "sharpness and posterize": [resized, t.RandomAdjustSharpness(1.8, 1.0), t.RandomPosterize(3, 1.0)],
        "two fills": [t.Resize(96), t.Pad(4, fill=9), t.RandomRotation(30, fill=200), t.Pad(3)],
        "RandAugment": [resized, t.RandAugment(4, 15)],
        "TrivialAugmentWide": [resized, t.TrivialAugmentWide()],
        "erasing": [resized, t.RandomErasing(1.0, value=(1, 2, 3), count=3)],
        "erasing by noise": [resized, t.RandomErasing(1.0, value="random", count=2, per_frame=True)],
        "cutout": [resized, t.Cutout((20, 30), count=4, fill=77)],
        "grid mask": [resized, t.GridMask()],
        "normalized": [t.Resize(128), t.CenterCrop(112), t.Normalize(MEAN, STD)],
        "normalized, erased with noise": [resized, t.Normalize(MEAN, STD), t.RandomErasing(1.0, value="random")],
        "everything": [
            resized,
            t.RandomHorizontalFlip(),
            t.RandomRotation(15),
            t.ColorJitter(0.4, 0.4, 0.4, 0.1),
            t.Normalize(MEAN, STD),
            t.RandomErasing(1.0, value="random"),
        ],
    }


DECODERS = ("cpu", "nvdec")


def compare(clip: Clip, seconds: float) -> Iterator[Row]:
    """One clip through all transform lists, dtypes and layouts; one row per decoder."""
    until = time.monotonic() + seconds
    theirs = fsp.Video(clip.path, index=False)
    ours = {decoder: fsp.Video(clip.path, device="cuda:0", decoder=decoder, index=False) for decoder in DECODERS}
    compared = {decoder: Comparison() for decoder in DECODERS}
    indices = sorted({0, 1, len(theirs) // 3, len(theirs) - 1})
    refused, left_out = 0, 0
    for dtype, layout in itertools.product(DTYPES, LAYOUTS):
        for seed, (name, transforms) in enumerate(recipes().items()):
            if time.monotonic() > until:
                left_out += 1
                continue
            keywords: dict[str, Any] = {"transforms": transforms, "dtype": dtype, "layout": layout, "seed": seed}
            right = Outcome.of(lambda k=keywords: theirs.frames(indices, **k).frames)
            # Normalize needs a float dtype, and some sizes do not fit: both backends must report the same error.
            refused += right.error is not None
            for decoder, video in ours.items():
                left = Outcome.of(lambda k=keywords, video=video: video.frames(indices, **k).frames)
                differ(f"{name}, {dtype} {layout}", left, right, compared[decoder])
    for decoder, each in compared.items():
        yield compared_row(clip, f"device pixels == CPU pixels, decoded by {decoder}", each, refused, left_out)


def compared_row(clip: Clip, asked: str, compared: Comparison, refused: int, left_out: int) -> Row:
    figures = {"cases": compared.cases, "frames": compared.frames, "refused_by_both": refused}
    if left_out:
        figures["left_out_for_time"] = left_out
    if not compared.same:
        why = f"{compared.differing} of {compared.cases} cases differ; {compared.first}"
        return Row(clip.name, asked, FAILED, why, {**figures, "worst": compared.worst})
    if compared.frames == 0:
        return Row(clip.name, asked, IMPOSSIBLE, "out of time, or all cases were rejected", figures)
    return Row(clip.name, asked, OK, "", figures)


@item("pixels", seconds=240, checklist="9")
def pixels(context: Context) -> Iterator[Row]:
    """From planes decoded by the CPU and uploaded, and from NVDEC's surfaces."""
    sources = clips("pixels", context.match)
    for place, clip in enumerate(sources):
        yield from compare(clip, context.left() / (len(sources) - place))
