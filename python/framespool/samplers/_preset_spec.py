"""The description of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Required:
    """Marks an option of a preset that has no default."""


@dataclass(frozen=True)
class PresetSpec:
    """A preset.

    Attributes:
        doc: What it reproduces, for people.
        options: Options with their defaults.
    """

    doc: str
    options: Mapping[str, Any] = field(default_factory=dict)
