"""What several rules have in common: how far frames are apart, and what stands for those past the end."""

from __future__ import annotations

from typing import Any, Literal

from framespool._validate_args import integer, number
from framespool.errors import ArgumentError

PadMode = Literal["none", "constant", "edge", "reflect_101", "reflect_1001"]
Short = Literal["repeat", "loop", "wrap", "clamp", "blank", "drop", "error"]
Group = Literal["independent", "partitioned"]
SegmentMode = Literal["random", "middle"]


def set_fields(rule: Any, **values: Any) -> None:
    """Writes checked values back into a frozen dataclass, so that rules that mean the same compare equal."""
    for name, value in values.items():
        object.__setattr__(rule, name, value)


def positive_integers(rule: Any, *names: str) -> None:
    """Checks that these fields are whole numbers from 1."""
    set_fields(rule, **{name: integer(name, getattr(rule, name), least=1) for name in names})


def validate_spacing(rule: Any) -> None:
    """Checks that one of ``stride``, ``fps`` and ``duration_seconds`` is given, or none, which is a stride of 1."""
    values = {name: getattr(rule, name) for name in ("stride", "fps", "duration_seconds")}
    given = {name: value for name, value in values.items() if value is not None}
    if len(given) > 1:
        shown = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise ArgumentError(f"give one of stride, fps and duration_seconds, got {shown}")
    if rule.fps is not None:
        set_fields(rule, fps=number("fps", rule.fps, above=0))
    elif rule.duration_seconds is not None:
        set_fields(rule, duration_seconds=number("duration_seconds", rule.duration_seconds, above=0))
    else:
        set_fields(rule, stride=integer("stride", 1 if rule.stride is None else rule.stride, least=1))
