"""Lists of transforms, and the callable at their end."""

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


#: All transforms; the engine does not know subclasses of users.
_BUILT_IN = {getattr(module, name) for module in (_geometry, _color, _erasing) for name in module.__all__}


def split(
    transforms: Iterable[Transform | Callable[[Any], Any]] | None,
) -> tuple[list[Step], Callable[[Any], Any] | None]:
    """Splits a list of transforms into the engine's form and the callable at its end.

    Args:
        transforms: The list, or ``None``.

    Returns:
        The steps, and the callable or ``None``.

    Raises:
        ArgumentError: If an entry is neither a transform nor a callable at the end.
    """
    entries = () if transforms is None else as_sequence(transforms)
    if entries is None:
        raise ArgumentError(f"transforms must be a list, got {transforms!r}; use [...]")
    native_steps: list[Step] = []
    for place, entry in enumerate(entries):
        if type(entry) in _BUILT_IN:
            native_steps.append(entry._step())
        elif isinstance(entry, type):
            raise ArgumentError(f"transforms: {entry.__name__} is a class; use an object, {entry.__name__}(...)")
        elif not callable(entry):
            raise ArgumentError(
                f"transforms must be framespool.transforms objects, and the last may be a callable; got {entry!r}"
            )
        elif place + 1 < len(entries):
            name = type(entry).__name__
            ours = f" or use framespool.transforms.{name}" if name in {ours.__name__ for ours in _BUILT_IN} else ""
            raise ArgumentError(f"transforms: a callable must come last, got {entry!r} before others; move it{ours}")
        else:
            return native_steps, entry
    return native_steps, None


def steps(transforms: Iterable[Transform | Callable[[Any], Any]] | None) -> list[Step]:
    """Converts a list of transforms without a callable to the engine's form.

    Args:
        transforms: The list, or ``None``.

    Returns:
        The steps.

    Raises:
        ArgumentError: If an entry is not a transform.
    """
    native_steps, function = split(transforms)
    if function is not None:
        raise ArgumentError(f"transforms: a callable is not supported here, got {function!r}; apply it to the result")
    return native_steps


def finish(function: Callable[[Any], Any] | None, frames: Any) -> Any:
    """Applies the user's callable.

    Args:
        function: The callable, or ``None``.
        frames: A Tensor or a list of Tensors.

    Returns:
        The result of the callable, or ``frames`` without one.

    Raises:
        ArgumentError: If frames of different sizes are passed to a callable.
    """
    if function is None:
        return frames
    if isinstance(frames, list):
        # Also if the frames of this batch have one size: the input of a callable must not vary between batches.
        raise ArgumentError(
            f"{function!r} needs frames of one size, but these transforms give different ones; "
            "put Resize((height, width)) or a crop before it"
        )
    # A PyTorch module implies that the program has imported PyTorch, so it is not imported here.
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    if isinstance(module, type) and isinstance(function, module):
        frames = frames.torch()
    return function(frames)
