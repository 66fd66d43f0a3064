"""What training_runs.py and framework_runs.py share: videos whose frames show what they are, and the search."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import UnsatisfiedAssumption

#: Frames of the videos. The third one is shorter than most clips.
LENGTHS = (40, 26, 5, 33, 12, 40, 19)
#: Steps of red from video to video, and of green from frame to frame; decoding changes a color by less than half.
RED, GREEN = 34, 6
SIZE = (32, 24)
CLASSES = ("jump", "run", "walk")


class Wrong(AssertionError):
    """A run delivered something that the documentation excludes."""


def require(holds: object, *what: object) -> None:
    """Raises `Wrong` unless `holds`."""
    if not holds:
        raise Wrong(" ".join(map(str, what)))


def make_videos(folder: Path, encoder: str) -> None:
    """Writes the videos, and a file that is none."""
    for video, length in enumerate(LENGTHS):
        colors = [[video * RED + 8, frame * GREEN, 128] for frame in range(length)]
        pixels = np.repeat(np.array(colors, dtype=np.uint8), SIZE[0] * SIZE[1], axis=0)
        width, height = SIZE
        command = [encoder, "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}"]
        command += ["-framerate", "25", "-i", "-", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-qp", "0"]
        command += ["-threads", "1", "-g", str(250 if video % 2 else 12), str(folder / f"{video}.mkv")]
        subprocess.run(command, input=pixels.tobytes(), check=True)
    (folder / "broken.mkv").write_bytes(b"no video" * 100)


def class_of(video: int) -> int:
    """The class of a video, an index of `CLASSES`."""
    return video % len(CLASSES)


def from_json(kind: type[Any], text: str | dict[str, Any]) -> Any:
    """A run from its JSON form."""
    values = json.loads(text) if isinstance(text, str) else text
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def search(strategy: Any, check: Callable[[Any], str], count: int, *, repeatable: bool) -> Counter[str]:
    """Checks this many runs; a run that fails is made as small as possible, and its error names it.

    Args:
        strategy: Strategy that draws runs, which are dataclasses.
        check: Checks one run, and returns its outcome.
        count: Number of runs.
        repeatable: Whether the runs are the same each time.

    Returns:
        Number of runs by outcome. Every 500 runs it is also written to standard error.
    """
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=repeatable,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(strategy)
    def examine(run: Any) -> None:
        try:
            outcomes[check(run)] += 1
        except UnsatisfiedAssumption:
            raise
        except Exception as error:
            error.add_note(f"--run '{json.dumps(dataclasses.asdict(run))}'")
            raise
        if outcomes.total() % 500 == 0:
            print(f"{outcomes.total()} runs: {dict(outcomes)}", file=sys.__stderr__, flush=True)

    examine()
    return outcomes
