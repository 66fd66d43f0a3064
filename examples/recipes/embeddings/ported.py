"""The same frames with framespool: its threads decode and resize the next chunks meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp

#: As in the original.
FPS, CHUNK_SIZE, SIZE = 1, 64, (224, 224)


def read(video: Path, num_threads: int) -> Iterator[dict[str, Any]]:
    """Yields chunks of the frames that are shown 0, 1, 2, ... seconds after the first one."""
    chunks = fsp.Video(video, num_threads=num_threads).chunks(
        fps=FPS, chunk_size=CHUNK_SIZE, transforms=[fsp.transforms.Resize(SIZE)]
    )
    for chunk in chunks:
        yield {"frames": chunk.frames.torch(), "pts_seconds": chunk.pts_seconds}
