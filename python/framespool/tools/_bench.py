"""The speed of a loader on this machine, where its time goes, and what would make it faster."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from framespool._common.counters import difference
from framespool._common.format import bytes_text
from framespool._common.validate_args import number
from framespool.errors import ArgumentError, Error, UnsupportedError
from framespool.loaders._base import BaseLoader
from framespool.loaders._clips import ClipLoader
from framespool.loaders._disk_cache import OPTION

#: Parts of a worker's time, with their description.
_PARTS = {
    "planning": "opening files and planning",
    "reading": "reading packets",
    "decoding": "decoding",
    "transform": "resizing and colors",
}


@dataclass(frozen=True)
class BenchReport:
    """The result of `bench()`.

    Attributes:
        clips: Clips delivered after the first batch.
        frames: Frames delivered after the first batch.
        seconds: Duration after the first batch.
        first_batch_seconds: Time until the first batch.
        first_epoch_seconds: Duration of the epoch before the measurement, which fills the disk cache; `None` for a
            loader without one.
        clips_per_second: `clips / seconds`.
        frames_per_second: `frames / seconds`.
        frames_decoded_per_frame_delivered: Cost of a delivered frame.
        bytes_read: Bytes read from files.
        shares: Shares of the workers' time by activity; with `"waiting"` they sum to 1.
        expected: As `DatasetSummary.expected`.
        advice: Sentences, the most useful first.
        stats: `ClipLoader.stats()` of the measured time; counters are differences.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     ["a.mp4", "phone.mp4"],
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> report = fsp.tools.bench(loader, seconds=0.2)
        >>> report.frames == 8 * report.clips
        True
        >>> sorted(report.shares)
        ['decoding', 'other work', 'planning', 'reading', 'transform', 'waiting']
    """

    clips: int
    frames: int
    seconds: float
    first_batch_seconds: float
    first_epoch_seconds: float | None
    clips_per_second: float
    frames_per_second: float
    frames_decoded_per_frame_delivered: float
    bytes_read: int
    shares: dict[str, float]
    expected: dict[str, Any] | None
    advice: list[str]
    stats: dict[str, Any] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON.

        Returns:
            The values by name.
        """
        return asdict(self)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the shares as a bar chart.

        Args:
            path: The PNG file to write.

        Raises:
            UnsupportedError: If Pillow is not installed.
        """
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError as error:
            raise UnsupportedError(f"a plot needs Pillow ({error}); pip install pillow") from error
        width, line, left = 720, 26, 220
        sheet = Image.new("RGB", (width, line * (len(self.shares) + 2) + 10), (255, 255, 255))
        draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
        title = (
            f"{self.clips_per_second:.1f} clips/s, {self.frames_per_second:.0f} frames/s: where the workers' time goes"
        )
        draw.text((10, 8), title, fill=(0, 0, 0), font=font)
        for row, (name, share) in enumerate(self.shares.items(), 1):
            top = 8 + line * row + 6
            draw.text((10, top), _PARTS.get(name, name), fill=(0, 0, 0), font=font)
            color = (170, 170, 170) if name == "waiting" else (47, 111, 178)
            draw.rectangle((left, top, left + max(1, int(share * (width - left - 70))), top + 16), fill=color)
            draw.text((width - 55, top), f"{share:.0%}", fill=(0, 0, 0), font=font)
        sheet.save(os.fspath(path), format="PNG")


def bench(loader: BaseLoader[Any], *, seconds: float = 10.0) -> BenchReport:
    """Takes batches from a loader as fast as possible for some seconds and discards them.

    The first batch, for which files are opened and decoders created, is timed separately. Before it, the expected cost
    is estimated, which opens up to 32 videos. With a disk cache, the measurement begins after a whole epoch, since the
    first one decodes each video for several epochs. The loader advances, epoch after epoch; `next` of an iterator that
    has not reached its end raises `CancelledError`.

    Args:
        loader: A `ClipLoader` or an `ImageLoader`.
        seconds: Duration of the measurement, up to 86400; longer if it delivers no batch.

    Returns:
        The measurement, with advice.

    Raises:
        ArgumentError: If an epoch has no batch.
        Error: If a file fails, as the loader raises it.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     ["a.mp4", "phone.mp4"],
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> report = fsp.tools.bench(loader, seconds=0.2)
        >>> report.clips_per_second > 0
        True
    """
    budget = check_seconds(seconds)
    if not len(loader):
        raise ArgumentError("an epoch has no batch; use a smaller batch_size or last_batch='partial'")
    expected = expected_cost(loader)
    began = time.perf_counter()
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - began
    first_epoch = None
    if loader._settings["options"]["clip_store"] is not None:
        for _ in batches:
            pass
        first_epoch, batches = time.perf_counter() - began, iter(loader)
    before = loader.stats()
    start = time.perf_counter()
    while time.perf_counter() - start < budget or loader.stats()["clips"] == before["clips"]:
        if next(batches, None) is None:
            batches = iter(loader)
    took = time.perf_counter() - start
    stats = difference(loader.stats(), before)
    loader._cancel()
    busy = stats["worker_busy_seconds"]
    all_time = busy + stats["worker_blocked_seconds"] + stats["worker_idle_seconds"]
    parts = {name: stats[f"{name}_seconds"] for name in _PARTS}
    rest = max(0.0, busy - sum(parts.values()))
    whole = max(all_time, sum(parts.values()), 1e-9)
    shares = {name: value / whole for name, value in parts.items()} | {"other work": rest / whole}
    shares["waiting"] = max(0.0, 1 - sum(shares.values()))
    frames = stats["frames"]
    each = stats["frames_decoded_per_frame_delivered"]
    return BenchReport(
        clips=stats["clips"],
        frames=frames,
        seconds=took,
        first_batch_seconds=first,
        first_epoch_seconds=first_epoch,
        clips_per_second=stats["clips"] / took,
        frames_per_second=frames / took,
        frames_decoded_per_frame_delivered=each,
        bytes_read=stats["bytes_read"],
        shares=shares,
        expected=expected,
        advice=[*expected_advice(expected, loader), *_advice(shares, each, stats)] or ["Nothing stands out."],
        stats=stats,
    )


def check_seconds(seconds: Any) -> float:
    """Checks the duration of a measurement.

    Args:
        seconds: The duration.

    Returns:
        The duration in seconds.

    Raises:
        ArgumentError: If it is not a number above 0, of a day at most.
    """
    return number("seconds", seconds, above=0, most=86400.0)


def expected_cost(loader: BaseLoader[Any]) -> dict[str, Any] | None:
    """The expected decoding cost of an epoch.

    Args:
        loader: The loader.

    Returns:
        dict: As `DatasetSummary.expected`; `None` where it is not defined, for images and for the orders of other
            libraries, and if none of the videos can be read.
    """
    if not isinstance(loader, ClipLoader):
        return None
    try:
        return loader._estimate_cost()
    except Error:
        return None


def expected_text(expected: dict[str, Any]) -> list[str]:
    """Describes an expected decoding cost.

    Args:
        expected: Result of `expected_cost()`.

    Returns:
        A line about shuffles, and one about disk caches if clips can be stored.
    """
    packets = expected["packets_per_clip"]
    lines = [
        f'expected in an epoch: {packets["grouped"]:.0f} packets per clip with shuffle="grouped" '
        f'(mixing {expected["mixing"]:.2f}), {packets["full"]:.0f} with "full", {packets["single"]:.0f} for each clip '
        f"alone; grouped decodes {packets['full'] / max(packets['grouped'], 1e-9):.1f} times less than full"
    ]
    if expected["disk_caches"]:
        with_cache = [
            f"{each['frames_per_clip']:.0f} with a disk cache of {each['epochs']} epochs "
            f"({each['first_epoch_frames_per_clip']:.0f} in the first epoch, {bytes_text(each['disk_bytes'])} on disk)"
            for each in expected["disk_caches"]
        ]
        before = f"{expected['frames_per_clip']:.0f} frames decoded per clip"
        lines.append(f"expected over many epochs: {before}, {', '.join(with_cache)}")
    return lines


def expected_advice(expected: dict[str, Any] | None, loader: BaseLoader[Any]) -> list[str]:
    """Suggests a shuffle or a disk cache that is expected to decode less.

    Args:
        expected: Result of `expected_cost()`.
        loader: The loader.

    Returns:
        Sentences, the most useful first.
    """
    if expected is None:
        return []
    packets, found = expected["packets_per_clip"], []
    if loader._order["shuffle"] == "full" and packets["full"] > 1.2 * packets["grouped"]:
        found.append(
            f'shuffle="grouped" is expected to decode {packets["full"] / packets["grouped"]:.1f} times less than '
            f'"full" over an epoch of this dataset.'
        )
    if (disk_cache := _disk_cache_advice(expected, loader._settings["options"])) is not None:
        found.append(disk_cache)
    return found


def _disk_cache_advice(expected: dict[str, Any], settings: dict[str, Any]) -> str | None:
    """What to change about the disk cache of a loader; `None` if nothing."""
    if settings["gpu"]["device"] is not None or not expected["disk_caches"]:
        return None
    if settings["clip_store"] is not None:
        (own,), size = expected["disk_caches"], settings["clip_store"]["bytes"]
        if own["disk_bytes"] <= size:
            return None
        return (
            f"The disk cache would need {bytes_text(own['disk_bytes'])}, but its size is {bytes_text(size)}: clips of "
            "the latest epochs are decoded again. Raise its size, or use fewer epochs."
        )
    usual = next(each for each in expected["disk_caches"] if each["epochs"] == 8)
    before, after = expected["frames_per_clip"], usual["frames_per_clip"]
    if before <= 1.5 * after:
        return None
    return (
        f"A disk cache of 8 epochs is expected to reduce the decoded frames per clip from {before:.0f} to {after:.0f} "
        f"in a run of many epochs, with {bytes_text(usual['disk_bytes'])} on disk over all ranks: {OPTION}."
    )


def _advice(shares: dict[str, float], each: float, stats: dict[str, Any]) -> list[str]:
    """Suggestions from what was measured, the most useful first."""
    found = []
    if stats["index_cache_error"]:
        found.append(
            f"Indexes are not stored: {stats['index_cache_error']}. Set FRAMESPOOL_INDEX to a writable folder."
        )
    elif stats["videos_indexed"] > stats["index_hits"] and shares["planning"] > 0.15:
        found.append("Videos were indexed while loading. Run `framespool index` once to make the first epoch faster.")
    if shares["waiting"] > 0.5:
        found.append(
            "The workers are mostly idle. Batches may be small, or clips few: raise prefetch_batches or batch_size, or "
            "use fewer threads."
        )
    if shares["decoding"] > 0.5 and each > 1.5:
        found.append(
            f"Decoding dominates, and {each:.1f} frames are decoded per frame delivered: those between the frames of a "
            "clip, and those from a keyframe to the start of a clip. Use more clips per video (clips_per_video), or "
            "raise cache=, so that neighboring clips are decoded together. Transcoding to shorter GOPs helps too: "
            "framespool transcode."
        )
    elif shares["decoding"] > 0.5:
        found.append(
            f"Decoding dominates, and nearly all decoded frames are delivered ({each:.2f} decoded per frame). Only "
            "smaller videos, more cores or a GPU with NVDEC (device='cuda:0') would help."
        )
    if stats["clips_evicted"]:
        found.append(
            f"{stats['clips_evicted']} clips were evicted from the clip cache: raise cache= "
            f"(now {stats['memory_budget'] >> 20} MiB)."
        )
    if shares["transform"] > 0.35:
        found.append(
            "Transforms take long. A smaller output size helps, and dtype='uint8' with normalization on the GPU."
        )
    if shares["reading"] > 0.25:
        found.append(
            "Reading takes long: the disk or the network is slow. A local copy or a larger prefetch_batches would help."
        )
    if stats["errors"]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in stats["errors"].items())
        found.append(f"Files failed ({kinds}): `framespool validate` lists them, Dataset.exclude removes them.")
    if stats["cpu_fallbacks"]:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in stats["cpu_fallbacks"].items())
        found.append(
            f"NVDEC work fell back to the CPU, with the same result: {reasons}. "
            'Gpu(on_fallback="raise") makes it an error.'
        )
    return found
