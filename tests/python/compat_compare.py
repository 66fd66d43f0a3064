"""Compares the compat modules with the libraries that they emulate, frame by frame.

``python tests/python/compat_compare.py decord|torchcodec VIDEO…`` prints a line for each video;
test_compat_torchcodec.py uses the functions. A frame agrees if it is closer to the real library's frame of its number
than to the neighbors, by mean absolute difference. They are not equal, since the color conversion differs (swscale's
fixed-point tables there, the exact formula, rounded once, here).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

#: Largest mean absolute difference, in levels of 255, of two conversions of one frame, if both use the matrix
#: and the range from the stream.
SAME_PICTURE = 3.0


def distance(one: Any, other: Any) -> float:
    return float(np.abs(one.astype(np.int16) - other).mean())


def misplaced(theirs: list[Any], ours: list[Any]) -> list[tuple[int, int]]:
    """(frame, neighbor) pairs for which our frame is closer to their neighbor than to their frame."""
    found = []
    for place, frame in enumerate(ours):
        own = distance(frame, theirs[place])
        for neighbor in (place - 1, place + 1):
            # Without motion, equal neighbors are no evidence.
            apart = 0 <= neighbor < len(theirs) and distance(theirs[neighbor], theirs[place]) > 0.05
            if apart and distance(frame, theirs[neighbor]) < own:
                found.append((place, neighbor))
    return found


def compare(path: str, theirs: Any, ours: Any, rgb: Callable[[Any], Any], times: Callable[[Any, int], Any]) -> dict:
    """Counts, frames and times of one video in two readers; ``rgb`` makes (H, W, 3) arrays of their frames."""
    metadata: dict[str, Any] = {"frames": (len(theirs), len(ours))}
    count = min(len(theirs), len(ours), 40)
    a, b = [rgb(theirs[i]) for i in range(count)], [rgb(ours[i]) for i in range(count)]
    metadata["shape"] = (a[0].shape, b[0].shape)
    if a[0].shape == b[0].shape:
        apart = [distance(x, y) for x, y in zip(a, b, strict=True)]
        metadata["mean"], metadata["worst"] = round(float(np.mean(apart)), 2), round(max(apart), 2)
        metadata["misplaced"] = misplaced(a, b)
    late = [(i, times(theirs, i), times(ours, i)) for i in range(count)]
    metadata["pts"] = [x for x in late if abs(x[1][0] - x[2][0]) > 1e-4][:3]
    metadata["durations"] = [x for x in late if abs(x[1][1] - x[2][1]) > 1e-4][:3]
    # In random order: the real library's own frames, and those decoded in order.
    order = np.random.default_rng(7).permutation(count).tolist()[:12]
    metadata["seeks_theirs"] = [i for i in order if distance(rgb(theirs[i]), a[i]) > 0]
    metadata["seeks_ours"] = [i for i in order if distance(rgb(ours[i]), b[i]) > 0]
    return metadata


def decord_pair(path: str) -> dict[str, Any]:
    import decord
    from framespool.compat import decord as ours

    def times(reader: Any, place: int) -> tuple[float, float]:
        begin, end = (float(x) for x in reader.get_frame_timestamp(place))
        return begin, end - begin

    theirs, mine = decord.VideoReader(path, num_threads=1), ours.VideoReader(path, num_threads=1)
    metadata = compare(path, theirs, mine, lambda frame: frame.asnumpy(), times)
    metadata["keys"] = (theirs.get_key_indices(), mine.get_key_indices())
    metadata["fps"] = (theirs.get_avg_fps(), mine.get_avg_fps())
    return metadata


def torchcodec_pair(path: str) -> dict[str, Any]:
    from framespool.compat.torchcodec import decoders as ours
    from torchcodec import decoders

    def times(decoder: Any, place: int) -> tuple[float, float]:
        frame = decoder.get_frame_at(place)
        return frame.pts_seconds, frame.duration_seconds

    theirs, mine = decoders.VideoDecoder(path), ours.VideoDecoder(path)
    metadata = compare(path, theirs, mine, lambda frame: frame.permute(1, 2, 0).numpy(), times)
    metadata["metadata"] = {
        name: (there, here)
        for name, there in vars(theirs.metadata).items()
        if (here := getattr(mine.metadata, name)) is not None and there != here
    }
    return metadata


def main(which: str, paths: Iterable[str]) -> None:
    pair = {"decord": decord_pair, "torchcodec": torchcodec_pair}[which]
    for path in paths:
        try:
            metadata = {name: value for name, value in pair(path).items() if value not in ([], {})}
        except Exception as reason:  # one library may reject a file that the other reads
            metadata = {"failed": f"{type(reason).__module__}.{type(reason).__name__}: {str(reason)[:200]}"}
        print(Path(path).name, metadata, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
