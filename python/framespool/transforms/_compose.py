"""Lists of transforms, and the callable that may end them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from framespool._validate_args import as_sequence
from framespool.errors import ArgumentError
from framespool.transforms import _color, _erasing, _geometry
from framespool.transforms._args import Transform

if TYPE_CHECKING:
    from framespool._framespool import Step


#: All there are: a subclass of a user's own means nothing to the engine.
_BUILT_IN = {getattr(module, name) for module in (_geometry, _color, _erasing) for name in module.__all__}


def split(
    transforms: Iterable[Transform | Callable[[Any], Any]] | None,
) -> tuple[list[Step], Callable[[Any], Any] | None]:
    """The engine's form of a list of transforms, and the callable at its end if there is one."""
    entries = () if transforms is None else as_sequence(transforms)
    if entries is None:
        raise ArgumentError(f"transforms must be a list, got {transforms!r}; put it in [ ]")
    wanted: list[Step] = []
    for place, entry in enumerate(entries):
        if type(entry) in _BUILT_IN:
            wanted.append(entry._step())
        elif isinstance(entry, type):
            raise ArgumentError(f"transforms: {entry.__name__} is a class; give an object, {entry.__name__}(...)")
        elif not callable(entry):
            raise ArgumentError(
                f"transforms must be framespool.transforms objects, and the last may be a callable; got {entry!r}"
            )
        elif place + 1 < len(entries):
            name = type(entry).__name__
            ours = f" or use framespool.transforms.{name}" if name in {ours.__name__ for ours in _BUILT_IN} else ""
            raise ArgumentError(f"transforms: a callable must come last, got {entry!r} before others; move it{ours}")
        else:
            return wanted, entry
    return wanted, None


def steps(transforms: Iterable[Transform | Callable[[Any], Any]] | None) -> list[Step]:
    """As :func:`split`, for callers that have no use for a callable."""
    wanted, function = split(transforms)
    if function is not None:
        raise ArgumentError(f"transforms: no callable can be used here, got {function!r}; apply it to the result")
    return wanted


def finish(function: Callable[[Any], Any] | None, frames: Any) -> Any:
    """``frames`` after the user's callable."""
    if function is None:
        return frames
    if isinstance(frames, list):
        # Even if those of this batch happen to be of one size: what a callable gets must not depend on luck.
        raise ArgumentError(
            f"{function!r} needs frames of one size, which these transforms do not give; "
            "put Resize((height, width)) or a crop before it"
        )
    # A module of PyTorch is only ever given by a program that has imported PyTorch: it is not imported for this.
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    if isinstance(module, type) and isinstance(function, module):
        frames = frames.torch()
    return function(frames)
