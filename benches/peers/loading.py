"""framespool's loader as the benchmarks use it, with those of the wanted keywords that the installed build knows."""

from __future__ import annotations

import inspect
from typing import Any

import framespool as fsp

KEYWORDS = frozenset(inspect.signature(fsp.ClipLoader.__init__).parameters)


def rule(sampling: dict[str, Any]) -> fsp.samplers.ClipSampler:
    """{"rule": "windows", "sequence_length": 16, ...} as the rule of that name."""
    numbers = dict(sampling)
    return getattr(fsp.samplers, numbers.pop("rule"))(**numbers)


def make(files: list[str], sampling: dict[str, Any], size: int | None, wanted: dict[str, Any]) -> fsp.ClipLoader:
    """A loader of clips at `size` x `size`, or as they are. What of `wanted` is None or not known is left out."""
    keywords = {name: value for name, value in wanted.items() if value is not None and name in KEYWORDS}
    transforms = [] if size is None else [fsp.transforms.Resize((size, size))]
    return fsp.ClipLoader(files, rule(sampling), transforms=transforms, **keywords)


def unknown(wanted: dict[str, Any]) -> list[str]:
    """The keywords that were asked for and that this build does not have."""
    return [name for name, value in wanted.items() if value is not None and name not in KEYWORDS]


def frames_decoded(stats: dict[str, Any]) -> int:
    return stats["frames_decoded"]
