"""Options for dataset, clip sampler and transforms, which several commands share."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from framespool import datasets, samplers, transforms
from framespool.cli._parser import count
from framespool.datasets._source_list import is_image, list_sources
from framespool.errors import ArgumentError
from framespool.loaders._clips import ClipLoader
from framespool.loaders._images import ImageLoader
from framespool.options._cache import Cache
from framespool.video._sources import full_source


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds DATASET, and options for sampling and transforms."""
    parser.add_argument(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help="a folder of videos or images, a list file (path label), a table (.csv, .jsonl), a file, or a URL",
    )
    parser.add_argument("--frames", type=count, metavar="N", default=16, help="frames per clip (default: 16)")
    parser.add_argument("--stride", type=count, metavar="N", help="distance between frames (default: 1)")
    parser.add_argument("--fps", type=float, metavar="F", help="frames per second of a clip, instead of --stride")
    parser.add_argument(
        "--preset",
        choices=samplers.presets.__all__,
        metavar="NAME",
        help=f"sampling of another codebase, instead of the options above: {', '.join(samplers.presets.__all__)}",
    )
    parser.add_argument(
        "--preset-option",
        action="append",
        type=_option,
        metavar="NAME=VALUE",
        default=[],
        help="an argument of this function of framespool.samplers.presets, repeatable",
    )
    parser.add_argument("--resize", type=count, metavar="S", help="shorter side in pixels")
    parser.add_argument("--random-resized-crop", type=count, metavar="S", help="side of a random crop in pixels")
    parser.add_argument("--center-crop", type=count, metavar="S", help="side of a center crop in pixels")
    parser.add_argument("--flip", action="store_true", help="flip clips horizontally with probability 0.5")
    parser.add_argument("--color-jitter", type=float, metavar="X", help="strength, as in torchvision")
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="seed of the shuffle and all random numbers (default: 0)"
    )


def add_epoch_options(parser: argparse.ArgumentParser) -> None:
    """Adds options for the batches of an epoch."""
    parser.add_argument("--batch-size", type=count, metavar="N", default=8, help="clips per batch (default: 8)")
    parser.add_argument(
        "--clips-per-video", type=count, metavar="N", help="random clips of each video per epoch (default: 1)"
    )
    parser.add_argument(
        "--shuffle",
        choices=("auto", "grouped", "full", "buffer"),
        default="auto",
        help="auto: grouped if videos have several clips, else full (default: auto)",
    )
    parser.add_argument(
        "--cache", metavar="SIZE", default=Cache.memory, help=f"memory of the clip cache (default: {Cache.memory})"
    )
    parser.add_argument("--disk", metavar="FOLDER", help="keep clips of later epochs in FOLDER (default: nowhere)")
    parser.add_argument("--disk-size", metavar="SIZE", help="maximum size of these clips, such as 100GiB")
    parser.add_argument(
        "--epochs",
        type=count,
        metavar="N",
        help=f"with --disk: epochs for which a video is decoded at once (default: {Cache.epochs})",
    )
    parser.add_argument("--num-shards", type=count, metavar="N", default=1, help="number of ranks (default: 1)")


def epoch_loader(arguments: argparse.Namespace, **keywords: Any) -> ClipLoader | ImageLoader:
    """The loader of the first rank for the options of `add_options()` and `add_epoch_options()`."""
    shuffle = True if arguments.shuffle == "auto" else arguments.shuffle
    own = {"batch_size": arguments.batch_size, "shuffle": shuffle, "shard_id": 0, "num_shards": arguments.num_shards}
    return loader(arguments, arguments.clips_per_video, _cache(arguments), **own, **keywords)


def _cache(arguments: argparse.Namespace) -> Cache | int | str:
    """The clip cache. Its own errors name arguments of Python, so those of the command are checked here."""
    disk, size, epochs = arguments.disk, arguments.disk_size, arguments.epochs
    if disk is None and size is None and epochs is None:
        memory: str = arguments.cache
        return memory
    if disk is None:
        raise ArgumentError("--disk-size and --epochs need --disk, the folder of the clips")
    if size is None:
        raise ArgumentError("--disk needs --disk-size, the maximum size of the clips in the folder, such as 100GiB")
    return Cache(arguments.cache, disk=disk, disk_size=size, epochs=Cache.epochs if epochs is None else epochs)


def loader(
    arguments: argparse.Namespace,
    clips_per_video: int | None = None,
    cache: Cache | int | str = Cache.memory,
    **keywords: Any,
) -> ClipLoader | ImageLoader:
    """The loader for the options; an ImageLoader if all files are images by name."""
    if arguments.preset_option and not arguments.preset:
        raise ArgumentError("--preset-option needs --preset")
    if arguments.preset and clips_per_video is not None:
        raise ArgumentError(
            f"--clips-per-video={clips_per_video} does not apply to --preset {arguments.preset}; use --preset-option"
        )
    dataset = labelled(arguments.dataset)
    are_images = {is_image(str(full_source(source))) for source, _ in dataset}
    if len(are_images) > 1:
        raise ArgumentError("the dataset has videos and images; give one kind at a time")
    own = {"transforms": _transforms(arguments), "shuffle": "full", "seed": arguments.seed, "on_error": "skip"}
    keywords = {**own, **keywords}
    if are_images == {True}:
        return ImageLoader(dataset, **keywords | ({"cache": cache} if isinstance(cache, Cache) else {}))
    if arguments.preset:
        clip_sampler: samplers.ClipSampler = _preset(arguments.preset, dict(arguments.preset_option))
    else:
        clip_sampler = samplers.RandomClips(
            sequence_length=arguments.frames,
            stride=arguments.stride,
            fps=arguments.fps,
            clips_per_video=clips_per_video or 1,
        )
    return ClipLoader(dataset, clip_sampler, cache=cache, **keywords)


def _option(text: str) -> tuple[str, Any]:
    """Parses `NAME=VALUE`; the value is JSON, or else a string."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _preset(name: str, options: dict[str, Any]) -> samplers.ClipSampler:
    try:
        sampler: samplers.ClipSampler = getattr(samplers.presets, name)(**options)
    except TypeError as error:  # an argument is missing or unknown
        raise ArgumentError(f"--preset-option: {error}") from None
    return sampler


def labelled(places: list[str]) -> datasets.Dataset:
    """Class folders with their labels; other arguments as for `validate`.

    Args:
        places: Folders, lists and files.

    Returns:
        The dataset.

    Raises:
        ArgumentError: As `list_sources()`.
    """
    if len(places) == 1 and os.path.isdir(places[0]):
        for reader in (datasets.folder, datasets.image_folder):
            try:
                return reader(places[0])
            except (ArgumentError, OSError):
                continue
    return list_sources(places)


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
