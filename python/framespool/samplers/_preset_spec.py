"""What a preset says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Required:
    """Stands in a preset's defaults for an option that must be given."""


@dataclass(frozen=True)
class PresetSpec:
    """A preset: what it reproduces (for people), and its options with their defaults."""

    doc: str
    options: Mapping[str, Any] = field(default_factory=dict)
