"""The same clips made in three ways: clip by clip, by a loader, and by a loader with a disk cache."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
from progress import Progress

FRAMES, STRIDE, CLIPS_PER_VIDEO, BATCH_SIZE, SIZE = 16, 2, 4, 8, 112
#: Epochs for which a video is decoded at once for the disk cache. The cache fills in as many epochs. Later epochs are
#: measured: in this number of epochs each video is decoded once.
DISK_EPOCHS = 8

#: Frames (T, H, W, 3) by epoch and clip.
Clips = dict[tuple[int, int], np.ndarray]


@dataclass
class Way:
    """What one way cost, and what it delivered.

    Attributes:
        name: Its name.
        num_clips: Number of clips that were delivered in the measured epochs.
        cpu_seconds: Their cost, on all threads.
        wall_seconds: Time that passed.
        frames_decoded: Number of frames decoded for them; `None` if it is not counted.
        filling_cpu_seconds: Cost of the epochs that fill the disk cache.
        disk_bytes: Its size when it is full.
        failures: First error of each file that failed.
        differences: Where its frames differ from those of the first way.
    """

    name: str
    num_clips: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    frames_decoded: int | None = None
    filling_cpu_seconds: float = 0.0
    disk_bytes: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    @property
    def cpu_ms_per_clip(self) -> float:
        return 1000 * self.cpu_seconds / max(1, self.num_clips)

    @property
    def clips_per_second(self) -> float:
        return self.num_clips / max(1e-9, self.wall_seconds)

    @property
    def decoded_per_frame(self) -> float | None:
        return None if self.frames_decoded is None else self.frames_decoded / max(1, self.num_clips * FRAMES)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Adds the CPU time of this process and the time that passes."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu_seconds += time.process_time() - cpu
        self.wall_seconds += time.perf_counter() - wall


def transforms(flip: float = 0.5) -> list[fsp.transforms.Transform]:
    """The transforms of all clips.

    Args:
        flip: Probability of a horizontal flip.
    """
    return [fsp.transforms.Resize(128), fsp.transforms.CenterCrop(SIZE), fsp.transforms.RandomHorizontalFlip(flip)]


def make_loader(dataset: fsp.datasets.Dataset, num_threads: int, disk: Path | None = None) -> fsp.ClipLoader:
    """The loader of the demo.

    Args:
        dataset: The videos.
        num_threads: Threads that decode.
        disk: Folder of the disk cache, if there is one.
    """
    return fsp.ClipLoader(
        dataset,
        fsp.samplers.RandomClips(sequence_length=FRAMES, stride=STRIDE, clips_per_video=CLIPS_PER_VIDEO),
        batch_size=BATCH_SIZE,
        transforms=transforms(),
        shuffle=True,
        seed=0,
        cache=fsp.Cache("1GiB", disk=disk, disk_size="1GiB", epochs=DISK_EPOCHS) if disk else fsp.Cache("1GiB"),
        on_error="skip",
        num_threads=num_threads,
        layout="NTHWC",
    )


def read_clip(path: str, indices: list[int], flip: float) -> np.ndarray:
    """Opens a file, seeks, and decodes one clip.

    Args:
        path: The file.
        indices: The frames.
        flip: 1 for a horizontal flip, else 0.

    Returns:
        Pixels (T, H, W, 3).

    Raises:
        Error: If the file is damaged.
    """
    video = fsp.Video(path, layout="THWC", num_threads=1)
    return np.from_dlpack(video.frames(indices, transforms=transforms(flip)).frames)


def clip_by_clip(dataset: fsp.datasets.Dataset, epochs: range, num_threads: int) -> tuple[Way, Clips]:
    """Reads the clips of the loader one by one, in a random order.

    Args:
        dataset: The videos.
        epochs: The measured epochs.
        num_threads: Clips that are read at the same time.

    Returns:
        The cost and the clips.
    """
    way, clips = Way("Clip by clip"), {}
    loader = make_loader(dataset, num_threads)
    draw = random.Random(0)
    order = [(epoch, clip) for epoch in epochs for clip in draw.sample(range(loader.num_clips), loader.num_clips)]
    plans = [loader.describe_clip(clip, epoch=epoch) for epoch, clip in order]

    def read(plan: dict[str, Any]) -> np.ndarray | fsp.Error:
        try:
            return read_clip(plan["path"], plan["indices"], plan["transforms"][-1]["applied"])
        except fsp.Error as error:
            return error

    with Progress(way.name, len(order)) as progress, ThreadPoolExecutor(num_threads) as pool, way.measured():
        for key, plan, made in zip(order, plans, pool.map(read, plans), strict=True):
            if isinstance(made, fsp.Error):
                way.failures.setdefault(plan["path"], str(made))
            else:
                clips[key] = made
            progress.step("clips")
    way.num_clips = len(clips)
    return way, clips


def batches(loader: fsp.ClipLoader, epochs: range, progress: Progress, note: str) -> Iterator[tuple[int, fsp.Batch]]:
    """Iterates over epochs.

    Args:
        loader: The loader.
        epochs: The epochs.
        progress: Counts the batches.
        note: What is shown after the count.

    Yields:
        The epoch and the batch.
    """
    for epoch in epochs:
        loader.set_epoch(epoch)
        for batch in loader:
            progress.step(note)
            yield epoch, batch


def loaded(
    dataset: fsp.datasets.Dataset, epochs: range, num_threads: int, expected: Clips, disk: Path | None = None
) -> Way:
    """Iterates over a loader, and compares its clips.

    Args:
        dataset: The videos.
        epochs: The measured epochs; with a disk cache those before them fill it.
        num_threads: Threads that decode.
        expected: The clips of the first way.
        disk: Folder of the disk cache, if there is one.

    Returns:
        The cost, and where the clips differ.
    """
    way, filling = Way("ClipLoader, disk cache" if disk else "ClipLoader"), Way("filling the disk cache")
    loader = make_loader(dataset, num_threads, disk)
    num_batches = len(loader) * (epochs.stop if disk else len(epochs))
    with Progress(way.name, num_batches) as progress:
        if disk:
            with filling.measured():
                for _ in batches(loader, range(epochs.start), progress, filling.name):
                    pass
            way.filling_cpu_seconds = filling.cpu_seconds
            way.disk_bytes = sum(path.stat().st_size for path in disk.rglob("*") if path.is_file())
        before = loader.stats()["frames_decoded"]
        # Compared later: the loader may work at any time, which must be measured.
        with way.measured():
            delivered = list(batches(loader, epochs, progress, "batches"))
            way.frames_decoded = loader.stats()["frames_decoded"] - before
            way.failures = {failure["path"]: failure["message"] for failure in loader.failures()}
            del loader  # waits until what it decoded for later epochs is stored
    clips: Clips = {}
    for epoch, batch in delivered:
        for clip, frames in zip(batch.clip_ids.tolist(), np.from_dlpack(batch.frames), strict=True):
            if (epoch, clip) in clips:
                way.differences.append(f"epoch {epoch}, clip {clip}: delivered twice")
            clips[epoch, clip] = frames
    way.num_clips = len(clips)
    way.differences += differences(dataset, clips, expected)
    return way


def differences(dataset: fsp.datasets.Dataset, clips: Clips, expected: Clips) -> list[str]:
    """Compares clips byte by byte.

    Args:
        dataset: The videos.
        clips: The clips.
        expected: The clips of the first way.

    Returns:
        What differs, one line for each clip.
    """
    loader, found = make_loader(dataset, 1), []
    for epoch, clip in sorted(clips.keys() | expected.keys()):
        key = (epoch, clip)
        plan = loader.describe_clip(clip, epoch=epoch)
        place = f"{plan['path']}, epoch {epoch}, clip {clip}"
        if key not in clips or key not in expected:
            found.append(f"{place}: delivered {'only clip by clip' if key in expected else 'by the loader only'}")
        elif not np.array_equal(clips[key], expected[key]):
            equal = (clips[key] == expected[key]).all(axis=(1, 2, 3))
            wrong = [index for index, same in zip(plan["indices"], equal, strict=True) if not same]
            found.append(f"{place}: frames {', '.join(map(str, wrong))} differ")
    return found
