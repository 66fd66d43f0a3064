"""Chooses the videos of the demo, so that it ends soon: it decodes one clip of each and adds up the time."""

from __future__ import annotations

import mimetypes
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import framespool as fsp
import ways
from progress import Progress

#: Videos at most, and fewest of them for which all measured epochs are run.
MAX_VIDEOS, FEW_VIDEOS = 16, 4
#: CPU seconds for all clips, one by one; and seconds for this choice.
BUDGET, CHOICE_SECONDS = 20.0, 20.0


@dataclass
class Choice:
    """The videos that are used.

    Attributes:
        dataset: The videos.
        num_epochs: Number of epochs that are measured.
        num_found: Videos in the folder.
        num_tried: Videos of which a clip was decoded, or failed.
        failures: What is wrong with each that failed.
    """

    dataset: fsp.datasets.Dataset
    num_epochs: int
    num_found: int
    num_tried: int
    failures: dict[str, str] = field(default_factory=dict)


def list_videos(folder: Path) -> fsp.datasets.Dataset:
    """Lists the videos of class folders, or all videos below a folder without labels.

    Args:
        folder: The folder.

    Returns:
        The videos.

    Raises:
        Error: If it contains none.
    """
    try:
        return fsp.datasets.folder(folder)
    except fsp.errors.ArgumentError:
        # Videos both in the folder and in sub-folders.
        found = sorted(path for path in folder.rglob("*") if (mimetypes.guess_type(path)[0] or "").startswith("video/"))
        if not found:
            raise
        return fsp.datasets.Dataset([(str(path), -1) for path in found])


def _seconds_of_clip(path: str, draw: random.Random) -> float:
    """CPU time of a random clip."""
    began = time.process_time()
    num_frames = len(fsp.Video(path, num_threads=1))
    start = draw.randrange(max(1, num_frames - (ways.FRAMES - 1) * ways.STRIDE))
    indices = [min(start + ways.STRIDE * at, num_frames - 1) for at in range(ways.FRAMES)]
    ways.read_clip(path, indices, 0.0)
    return time.process_time() - began


def choose(dataset: fsp.datasets.Dataset) -> Choice:
    """Chooses videos, at random.

    Args:
        dataset: All videos.

    Returns:
        The choice; its dataset is empty if no video can be decoded.
    """
    draw = random.Random(0)
    order = draw.sample(range(len(dataset)), len(dataset))
    costs: dict[int, float] = {}
    failures: dict[str, str] = {}
    until = time.monotonic() + CHOICE_SECONDS
    with Progress("Looking at the videos", min(len(order), MAX_VIDEOS)) as progress:
        for sample in order:
            if len(costs) == MAX_VIDEOS or time.monotonic() > until or sum(costs.values()) > BUDGET:
                break
            path = str(dataset[sample][0])
            try:
                costs[sample] = _seconds_of_clip(path, draw)
                progress.step(Path(path).name)
            except fsp.Error as error:
                failures[path] = str(error)
    for num_epochs in (ways.DISK_EPOCHS, ways.DISK_EPOCHS // 2, ways.DISK_EPOCHS // 4):
        chosen, spent = [], 0.0
        for sample, cost in costs.items():
            spent += cost * ways.CLIPS_PER_VIDEO * num_epochs
            if spent > BUDGET and chosen:
                break
            chosen.append(sample)
        if len(chosen) >= min(FEW_VIDEOS, len(costs)):
            break
    return Choice(dataset.subset(sorted(chosen)), num_epochs, len(dataset), len(costs) + len(failures), failures)
