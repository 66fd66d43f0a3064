"""Times augmentations that need a pass of their own, against torchvision v2's functions on the same frames.

    python benches/peers/time_augment.py [--side 224] [--rounds 15]

Both sides get 16 uint8 frames and one thread, in turns. framespool's time includes what `transforms.apply` needs
without any transform, which the first row shows. The median is printed, and the largest difference of the results in
code values. Run by hand; needs torchvision in addition to the packages of benches/peers/.venv.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import framespool as fsp
    import torch
    from framespool import transforms as t
    from torchvision.transforms.v2 import functional as F
except ImportError as error:
    print(f"time_augment.py: skipped ({error})")
    sys.exit()

FRAMES = 16

#: Name, framespool's transforms and torchvision's function.
ROWS: list[tuple[str, list[t.Transform], Callable[[Any], Any]]] = [
    ("none", [], lambda frames: frames),
    ("brightness (same pass)", [t.ColorJitter((1.2, 1.2))], lambda frames: F.adjust_brightness(frames, 1.2)),
    ("hue", [t.ColorJitter(hue=(0.1, 0.1))], lambda frames: F.adjust_hue(frames, 0.1)),
    ("posterize", [t.RandomPosterize(3, 1)], lambda frames: F.posterize(frames, 3)),
    ("solarize", [t.RandomSolarize(99, 1)], lambda frames: F.solarize(frames, 99)),
    ("autocontrast", [t.RandomAutocontrast(1)], F.autocontrast),
    ("equalize", [t.RandomEqualize(1)], F.equalize),
    ("sharpness", [t.RandomAdjustSharpness(1.8, 1)], lambda frames: F.adjust_sharpness(frames, 1.8)),
    ("blur 5x5", [t.GaussianBlur(5, 1)], lambda frames: F.gaussian_blur(frames, [5, 5], [1.0, 1.0])),
    ("blur 23x23", [t.GaussianBlur(23, 2)], lambda frames: F.gaussian_blur(frames, [23, 23], [2.0, 2.0])),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    side = arguments.side
    rows, columns = np.mgrid[0:side, 0:side]
    smooth = np.stack([np.sin(rows / (9 + c)) * np.cos(columns / (14 - c)) * 90 + 120 for c in range(3)], 2)
    noise = np.random.default_rng(1).integers(-20, 20, (FRAMES, side, side, 3))
    clip = np.clip(smooth + noise, 0, 255).astype(np.uint8)
    planar = torch.from_numpy(clip).permute(0, 3, 1, 2).contiguous()
    print(f"{FRAMES} frames of {side}x{side}, milliseconds per frame, one thread, median of {arguments.rounds}")
    print(f"framespool {fsp.__version__}, torch {torch.__version__}")
    print(f"{'operation':<24}{'framespool':>11}{'torchvision':>12}{'ratio':>7}{'difference':>11}")
    for name, transforms, function in ROWS:
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(arguments.rounds):
            began = time.perf_counter()
            ours = t.apply(clip, transforms, layout="TCHW")
            middle = time.perf_counter()
            theirs = function(planar)
            times["ours"].append(middle - began)
            times["theirs"].append(time.perf_counter() - middle)
        difference = np.abs(np.asarray(ours).astype(int) - theirs.numpy().astype(int)).max()
        if difference > 1:
            sys.exit(f"{name}: the results differ by {difference} code values")
        mine, other = (1000 * statistics.median(times[who]) / FRAMES for who in ("ours", "theirs"))
        print(f"{name:<24}{mine:>11.3f}{other:>12.3f}{other / mine:>7.1f}{difference:>11}")


if __name__ == "__main__":
    main()
