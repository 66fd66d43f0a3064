"""``framespool preview``: the clips and augmentations that a training run would see, as a picture."""

from __future__ import annotations

import argparse
import json
from typing import Any

from framespool import datasets, sampling, transforms
from framespool._images import ImageLoader
from framespool._loader import ClipLoader
from framespool._preview import preview
from framespool._running import Loader
from framespool.cli._check import is_picture, listed
from framespool.cli._index import count
from framespool.errors import ArgumentError

_DESCRIPTION = """\
Writes a contact sheet of the first clips of an epoch: a row for each clip, with its
label, its file and its frames. With --html OUT.html the page also tells what each
transform drew.
"""

_EPILOG = """\
examples:
  framespool preview videos/ --frames 16 --stride 4 --random-resized-crop 224 --flip
  framespool preview videos/ --preset videomae_pretrain --out clips.html
  framespool preview photos/ --random-resized-crop 224 --color-jitter 0.4
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "preview",
        help="look at the clips that a training run would see",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dataset", nargs="+", metavar="DATASET", help="a folder of videos or pictures, a list file, or a file"
    )
    parser.add_argument(
        "--out", metavar="FILE", default="preview.png", help="a PNG, or an HTML page (default: preview.png)"
    )
    parser.add_argument("--clips", type=count, metavar="N", default=8, help="clips to show (default: 8)")
    parser.add_argument("--show", type=count, metavar="N", default=8, help="frames to show of each clip (default: 8)")
    parser.add_argument("--frames", type=count, metavar="N", default=16, help="frames of a clip (default: 16)")
    parser.add_argument("--stride", type=count, metavar="N", help="frames from one to the next (default: 1)")
    parser.add_argument("--fps", type=float, metavar="F", help="frames per second of a clip, instead of --stride")
    parser.add_argument("--preset", metavar="NAME", help="sampling of another codebase, instead of these three")
    parser.add_argument("--resize", type=count, metavar="S", help="shorter side in pixels")
    parser.add_argument("--random-resized-crop", type=count, metavar="S", help="side of a random crop in pixels")
    parser.add_argument("--center-crop", type=count, metavar="S", help="side of a crop of the middle in pixels")
    parser.add_argument("--flip", action="store_true", help="flip every second clip")
    parser.add_argument("--color-jitter", type=float, metavar="X", help="strength, as torchvision has it")
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="of the shuffle and all random numbers")
    parser.add_argument("--epoch", type=int, metavar="N", default=0, help="the epoch to look at (default: 0)")
    parser.add_argument("--json", action="store_true", help="print the facts of the clips as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Does it."""
    facts = preview(
        _loader(arguments), arguments.out, clips=arguments.clips, frames=arguments.show, epoch=arguments.epoch
    )
    if arguments.json:
        print(json.dumps({"command": "preview", "out": arguments.out, "clips": facts}))
    else:
        print(f"{arguments.out}: {len(facts)} clips")
    return 0


def _loader(arguments: argparse.Namespace) -> Loader[Any]:
    dataset = _labelled(arguments.dataset)
    pictures = {is_picture(str(source)) for source, _ in dataset}
    if len(pictures) > 1:
        raise ArgumentError("the dataset holds videos and pictures; give one kind at a time")
    common: dict[str, Any] = {
        "batch_size": 4,
        "transforms": _transforms(arguments),
        "shuffle": "full",
        "seed": arguments.seed,
        "on_error": "skip",
    }
    if pictures == {True}:
        return ImageLoader(dataset, **common)
    if arguments.preset:
        rule: sampling.Sampling = sampling.preset(arguments.preset)
    else:
        rule = sampling.random(sequence_length=arguments.frames, stride=arguments.stride, fps=arguments.fps)
    return ClipLoader(dataset, rule, **common)


def _labelled(places: list[str]) -> datasets.Dataset:
    """Class folders with their labels, anything else as ``check`` takes it."""
    if len(places) == 1:
        for reader in (datasets.folder, datasets.images):
            try:
                return reader(places[0])
            except (ArgumentError, OSError):
                continue
    return listed(places)


def _transforms(arguments: argparse.Namespace) -> list[transforms.Transform]:
    steps: list[transforms.Transform] = []
    if arguments.resize:
        steps.append(transforms.Resize(arguments.resize))
    if arguments.random_resized_crop:
        steps.append(transforms.RandomResizedCrop(arguments.random_resized_crop))
    if arguments.center_crop:
        steps.append(transforms.CenterCrop(arguments.center_crop))
    if arguments.flip:
        steps.append(transforms.RandomHorizontalFlip())
    if arguments.color_jitter is not None:
        x = arguments.color_jitter
        steps.append(transforms.ColorJitter(brightness=x, contrast=x, saturation=x, hue=min(0.5, x / 4)))
    return steps or [transforms.Resize(128)]
