"""framespool's loader for the benchmarks, with those of the `wanted` arguments that the installed build supports."""

from __future__ import annotations

import inspect
from typing import Any

import framespool as fsp

KEYWORDS = frozenset(inspect.signature(fsp.ClipLoader.__init__).parameters)


def rule(sampling: dict[str, Any]) -> fsp.samplers.ClipSampler:
    """Converts {"rule": "windows", "sequence_length": 16, ...} to the sampler of that name."""
    numbers = dict(sampling)
    kinds = {"windows": fsp.samplers.Windows, "random": fsp.samplers.RandomClips}
    return kinds[numbers.pop("rule")](**numbers)


def make(files: list[str], sampling: dict[str, Any], size: int | None, wanted: dict[str, Any]) -> fsp.ClipLoader:
    """A loader of clips at `size` x `size`, or unscaled. Omits arguments of `wanted` that are None or not supported."""
    keywords = {name: value for name, value in wanted.items() if value is not None and name in KEYWORDS}
    # The layout of the peers, so that the values can be compared.
    keywords.setdefault("layout", "NTHWC")
    transforms = [] if size is None else [fsp.transforms.Resize((size, size))]
    return fsp.ClipLoader(files, rule(sampling), transforms=transforms, **keywords)


def unknown(wanted: dict[str, Any]) -> list[str]:
    """The requested arguments that this build does not support."""
    return [name for name, value in wanted.items() if value is not None and name not in KEYWORDS]


def frames_decoded(stats: dict[str, Any]) -> int:
    return stats["frames_decoded"]
