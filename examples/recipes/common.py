"""Shared by the recipes: lists and shards of samples, small models, and a measurement of both loaders in turn."""

from __future__ import annotations

import argparse
import csv
import io
import json
import resource
import statistics
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch


def write_samples(path: Path, videos: Sequence[Path]) -> Path:
    """Writes a JSON-lines file with the keys `video` and `caption`.

    Args:
        path: The file.
        videos: The videos.

    Returns:
        The file.
    """
    rows = [{"video": str(video.resolve()), "caption": f"video {number}"} for number, video in enumerate(videos)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_shards(folder: Path, videos: Sequence[Path], num_shards: int) -> list[str]:
    """Writes tar shards, each with all videos: a member `KEY.mp4`, and `KEY.json` with the keys `caption` and `label`.

    Args:
        folder: Where the shards are written.
        videos: The videos.
        num_shards: Number of shards.

    Returns:
        The paths of the shards.
    """
    shards = []
    for shard in range(num_shards):
        shards.append(str(folder / f"train-{shard:06}.tar"))
        with tarfile.open(shards[-1], "w") as tar:
            for number, video in enumerate(videos):
                key = f"{shard:03}{number:03}"
                tar.add(video, f"{key}.mp4")
                text = json.dumps({"caption": f"video {number} of shard {shard}", "label": number}).encode()
                member = tarfile.TarInfo(f"{key}.json")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
    return shards


def write_list(path: Path, videos: Sequence[Path]) -> Path:
    """Writes a text file with a path and a label on each line.

    Args:
        path: The file.
        videos: The videos, whose paths have no spaces.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If a video does not exist.
    """
    path.write_text("".join(f"{video.resolve(strict=True)} {label}\n" for label, video in enumerate(videos)))
    return path


def write_table(path: Path, videos: Sequence[Path]) -> Path:
    """Writes a CSV file with the columns `path`, `label name` and `split`.

    All videos are in the split `train`. Those that are not of the first class are in `val`, too.

    Args:
        path: The file.
        videos: The videos, dealt to three classes in turn.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If a video does not exist.
    """
    names = ("arranging flowers", "drinking coffee, tea or milk", "shaking hands, bowing")
    rows = [(video.resolve(strict=True), names[number % len(names)]) for number, video in enumerate(videos)]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("path", "label name", "split"))
        table.writerows((*row, "train") for row in rows)
        table.writerows((*row, "val") for row in rows if row[1] != names[0])
    return path


def link_class_folders(root: Path, videos: Sequence[Path], classes: int = 3) -> Path:
    """Makes class folders with links to videos.

    Args:
        root: The folder that receives the class folders.
        videos: The videos, dealt to the classes in turn.
        classes: Number of classes.

    Returns:
        The folder.

    Raises:
        FileNotFoundError: If a video does not exist.
    """
    for number, video in enumerate(videos):
        link = root / f"class_{number % classes}" / f"{number:03}{video.suffix}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(video.resolve(strict=True))
    return root


class PatchModel(torch.nn.Module):
    """A placeholder for a vision encoder: one embedding per patch of 2 x 28 x 28 pixels, averaged; random weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Conv3d(3, 8, (2, 28, 28), (2, 28, 28))

    @torch.no_grad()
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Embeds a clip or a batch of clips.

        Args:
            frames: (T, C, H, W) float32, 0 to 255; or (N, C, T, H, W) float32, normalized.

        Returns:
            (8,) float32, or (N, 8).
        """
        if frames.ndim == 5:
            return self.embed(frames).mean(dim=(2, 3, 4))
        return self.embed((frames / 255).permute(1, 0, 2, 3)[None]).mean(dim=(0, 2, 3, 4))


class FrameModel(torch.nn.Module):
    """A placeholder for an image encoder: one embedding per patch of 16 x 16 pixels, averaged; random weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Conv2d(3, 8, 16, 16)

    @torch.no_grad()
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Embeds frames.

        Args:
            frames: (N, C, H, W) uint8 or float32, 0 to 255.

        Returns:
            (N, 8) float32.
        """
        return self.embed(frames / 255).mean(dim=(2, 3))


def write_embeddings(path: Path, chunks: Iterable[dict[str, Any]], model: FrameModel) -> torch.Tensor:
    """Writes one embedding per frame of a video, as a dict of `embeddings` and `pts_seconds`.

    Args:
        path: The file.
        chunks: The `frames` and their `pts_seconds`, in chunks.
        model: The model.

    Returns:
        (N, 8) float32.
    """
    embeddings, pts_seconds = [], []
    for chunk in chunks:
        embeddings.append(model(chunk["frames"]))
        pts_seconds += chunk["pts_seconds"]
    result = torch.cat(embeddings)
    torch.save({"embeddings": result, "pts_seconds": pts_seconds}, path)
    return result


def bench_arguments(description: str, **numbers: tuple[int, str]) -> argparse.Namespace:
    """Reads the command line of a `bench.py`, and makes the model use one thread.

    Args:
        description: What the program measures.
        numbers: Further options of one number each: default and description by name.

    Returns:
        `videos`, `rounds` and `workers`, and the further options.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    numbers = {
        "rounds": (5, "epochs of each loader"),
        "workers": (2, "worker processes, or threads of framespool"),
        **numbers,
    }
    for name, (default, meaning) in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help=meaning)
    torch.set_num_threads(1)
    return parser.parse_args()


def cpu_seconds() -> float:
    """CPU time of this process and of its finished child processes.

    Returns:
        Seconds.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def compare_speed(
    loaders: dict[str, Callable[[], Iterable[dict[str, Any]]]],
    rounds: int,
    embed: Callable[[dict[str, Any]], torch.Tensor] | None = None,
    unit: str = "samples",
) -> list[str]:
    """Measures the loaders in turn, each with the model as its consumer.

    Args:
        loaders: Functions that start an epoch, by name; the first is the original.
        rounds: Epochs of each loader.
        embed: Function that returns the (N, 8) embeddings of the N samples of an item. `None`: each item is one
            sample, and `PatchModel` embeds its `frames`.
        unit: What the samples are, for the table.

    Returns:
        The lines of a table: medians of samples per second and CPU milliseconds per sample, and the median of the
        ratios of each round.

    Raises:
        ValueError: If an embedding is not finite, or the loaders differ in their numbers of samples.
    """
    if embed is None:
        model = PatchModel()
        embed = lambda sample: torch.atleast_2d(model(sample["frames"]))  # noqa: E731
    rates: dict[str, list[float]] = {name: [] for name in loaders}
    costs: dict[str, list[float]] = {name: [] for name in loaders}
    counts: set[int] = set()
    for round_ in range(rounds + 1):
        for name, start in loaders.items():
            begun, used = time.perf_counter(), cpu_seconds()
            embedded = [embed(item) for item in start()]
            if not all(each.isfinite().all() for each in embedded):
                raise ValueError(f"{name}: an embedding is not finite")
            samples = sum(map(len, embedded))
            counts.add(samples)
            if round_:  # the first epoch of each loads libraries and files
                rates[name].append(samples / (time.perf_counter() - begun))
                costs[name].append(1000 * (cpu_seconds() - used) / samples)
    if len(counts) != 1:
        raise ValueError(f"the loaders differ in their numbers of samples: {sorted(counts)}")
    original = next(iter(loaders))
    lines = [f"{'loader':<28}{f'{unit}/s':>10}{'CPU ms':>9}{'ratio':>7}"]
    for name in loaders:
        ratio = statistics.median(rate / other for rate, other in zip(rates[name], rates[original], strict=True))
        rate, cost = statistics.median(rates[name]), statistics.median(costs[name])
        lines.append(f"{name:<28}{rate:>10.2f}{cost:>9.1f}{ratio:>7.2f}")
    return lines
