"""The correct frames of a file, and whether a peer's output has them.

The reference is one sequential decode by PyAV, whose planes must have the hashes that the corpus records. A peer's
frame is wrong if it is far from the reference, or if a neighbor fits it twice as well. This detects an index off by
one even if consecutive frames are similar, and accepts another color conversion or filter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

# Every STEP-th row and column is compared: exact pixels of the full-size frame, with a sixteenth of the memory.
STEP = 4
# Resized frames are compared in means of BLOCK x BLOCK pixels.
BLOCK = 4
NEIGHBOURS = 2
# Mean absolute difference over RGB. Full size: swscale, video_reader-rs' own conversion and exact arithmetic are within
# 2 of each other. Resized: filters add to that.
FULL_SIZE_TOLERANCE = 2.0
RESIZED_TOLERANCE = 4.0
# A correct frame differs by conversion or filter, about equally from all its neighbors if there is little motion. A
# wrong one hardly differs from the neighbor that it is. Half separates the two cases.
NEIGHBOUR_FITS = 0.5


@dataclass
class ReferenceFrames:
    """One file: its number of frames, and the pixels of those that the checks need."""

    num_frames: int
    full_size: dict[int, np.ndarray]
    resized: dict[int, np.ndarray]

    def count_wrong(self, indices: list[int], frames: np.ndarray, size: int | None) -> tuple[int, float]:
        """The number of frames that are not those at `indices`, and the mean difference of the worst one."""
        looks, tolerance = (self.full_size, FULL_SIZE_TOLERANCE) if size is None else (self.resized, RESIZED_TOLERANCE)
        if frames.shape != (len(indices), *looks[indices[0]].shape):
            return len(indices), float("inf")
        wrong = 0
        worst = 0.0
        if size is not None:
            looks = {index: block_means(look) for index, look in looks.items()}
            frames = [block_means(frame) for frame in frames]
        for index, frame in zip(indices, frames, strict=True):
            difference = mean_difference(frame, looks[index])
            worst = max(worst, difference)
            misfits = {i: misfit(frame, looks[i]) for i in neighborhood(index, self.num_frames)}
            wrong += difference > tolerance or min(misfits.values()) < NEIGHBOUR_FITS * misfits[index]
        return wrong, worst


def block_means(image: np.ndarray) -> np.ndarray:
    """Means of BLOCK x BLOCK pixels, in which antialiasing filters hardly differ and motion is still visible."""
    height, width, channels = image.shape
    rows, columns = height // BLOCK, width // BLOCK
    blocks = image[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK, channels)
    return blocks.mean(axis=(1, 3), dtype=np.float32)


def mean_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(np.float32) - b).mean())


def misfit(a: np.ndarray, b: np.ndarray) -> float:
    """The mean difference without each channel's own offset, which a color conversion may cause."""
    difference = a.astype(np.float32) - b
    return float(np.abs(difference - difference.mean(axis=(0, 1))).mean())


def neighborhood(index: int, num_frames: int) -> range:
    return range(max(0, index - NEIGHBOURS), min(num_frames, index + NEIGHBOURS + 1))


def count_frames(path: Path) -> int:
    """Number of displayed frames according to the packets; decode() checks it."""
    with av.open(str(path)) as container:
        return sum(packet.pts is not None for packet in container.demux(video=0))


def decode(path: Path, indices: set[int], size: int, recorded: Path | None) -> ReferenceFrames:
    """Decodes the complete file once and keeps the frames at `indices` and their neighbors."""
    num_frames = count_frames(path)
    keep = {i for index in indices for i in neighborhood(index, num_frames)}
    reference = ReferenceFrames(num_frames, {}, {})
    digests = []
    previous_pts = None
    position = -1
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for position, frame in enumerate(container.decode(stream)):
            # The corpus' frame record gives the order, not the timestamps of the container.
            if not recorded and previous_pts is not None and frame.pts <= previous_pts:
                raise ValueError(f"{path}: frame {position} has pts {frame.pts} after {previous_pts}")
            previous_pts = frame.pts
            if recorded:
                digests.append(hashlib.md5(frame.to_ndarray().tobytes()).hexdigest()[:16])
            if position in keep:
                reference.full_size[position] = frame.to_ndarray(format="rgb24")[::STEP, ::STEP].copy()
                reference.resized[position] = frame.reformat(
                    width=size, height=size, format="rgb24", interpolation="AREA"
                ).to_ndarray()
    if position + 1 != num_frames:
        raise ValueError(f"{path}: {num_frames} packets but {position + 1} frames; clips were drawn from the packets")
    if recorded and digests != [line.split()[1] for line in recorded.read_text().splitlines()]:
        raise ValueError(f"{path}: PyAV's decode differs from {recorded.name} of the corpus")
    return reference
