"""Lists of transforms, and the functions of the user at their end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from framespool._common.validate_args import as_sequence
from framespool.errors import ArgumentError
from framespool.transforms import _augment, _choices, _color, _erasing, _geometry, _resize
from framespool.transforms._args import Transform
from framespool.transforms._deinterlace import Deinterlace
from framespool.transforms._functions import FunctionTransform, PerClip
from framespool.transforms._torchvision import is_torchvision, translate

#: All transforms; the engine does not know subclasses of users.
_BUILT_IN = {
    getattr(module, name)
    for module in (_geometry, _resize, _color, _augment, _erasing, _choices)
    for name in module.__all__
}


def split(
    transforms: Iterable[Transform | Callable[[Any], Any]] | None, dtype: str
) -> tuple[list[Transform], tuple[Any, ...]]:
    """Splits a list of transforms into those of the engine and the functions at its end.

    Transforms of torchvision are replaced by framespool's, and `Normalize` is moved behind crops, flips and resizes.

    Args:
        transforms: The list, or `None`.
        dtype: The dtype of the result.

    Returns:
        The engine's transforms, and the functions: any number of `FunctionTransform`, such as `PerClip`, and at the end
        at most one callable.

    Raises:
        ArgumentError: If an entry is neither a transform nor a function at the end, or is a transform of torchvision
            without an equivalent.
    """
    given = listed(transforms)
    if given is None:
        raise ArgumentError(f"transforms must be a list, got {transforms!r}; use [...]")
    entries = translate(given, dtype)
    built_in: list[Any] = []
    functions: list[Any] = []
    for place, entry in enumerate(entries):
        if isinstance(entry, Deinterlace):
            entry._step()  # raises that it is at the wrong place
        elif _is_built_in(entry):
            if functions:
                raise ArgumentError(
                    f"transforms: a callable must come last, got {functions[0]!r} before {entry!r}; move it"
                )
            built_in.append(entry)
        elif isinstance(entry, type):
            raise ArgumentError(f"transforms: {entry.__name__} is a class; use an object, {entry.__name__}(...)")
        elif isinstance(entry, FunctionTransform):
            functions.append(entry)
        elif not callable(entry):
            raise ArgumentError(
                f"transforms must be framespool.transforms objects, and the last may be a callable; got {entry!r}"
            )
        elif place + 1 < len(entries):
            name = type(entry).__name__
            ours = f" or use framespool.transforms.{name}" if name in {ours.__name__ for ours in _BUILT_IN} else ""
            raise ArgumentError(f"transforms: a callable must come last, got {entry!r} before others; move it{ours}")
        else:
            functions.append(entry)
    late = next((place for place, function in enumerate(functions) if not on_workers(function)), len(functions))
    for function in functions[late:]:
        if on_workers(function):
            raise ArgumentError(
                f"transforms: {function!r} must come before {functions[late]!r}, which runs on the thread that takes "
                'batches; move it, or use on="consumer"'
            )
    mixing = [function for function in functions if getattr(function, "_mixes", False)]
    if len(mixing) > 1:
        first, second = mixing[:2]
        raise ArgumentError(
            f"transforms: {second!r} would mix clips again that {first!r} has mixed; for one of them per batch use "
            f"OneOf([{first!r}, {second!r}])"
        )
    return _normalize_late(built_in), tuple(functions)


def listed(transforms: Any) -> tuple[Any, ...] | None:
    """The entries of the argument `transforms`, which may be one transform of torchvision, such as a `Compose`.

    Args:
        transforms: The argument.

    Returns:
        The entries; `None` if the argument is no list.
    """
    if transforms is None:
        return ()
    return (transforms,) if is_torchvision(transforms) else as_sequence(transforms)


def on_workers(function: Any) -> bool:
    """Whether a function at the end of a list runs on threads, ahead of the thread that takes batches.

    Args:
        function: The function.

    Returns:
        The answer.
    """
    return isinstance(function, PerClip) and function.on == "workers"


def _normalize_late(entries: list[Any]) -> list[Any]:
    """Moves `Normalize` behind the transforms that follow it and only move pixels: rounding and clamping differ."""
    moved: list[Any] = []
    normalize: list[Any] = []
    for entry in entries:
        if normalize and not entry._moves_pixels:
            moved += normalize
            normalize = []
        (normalize if isinstance(entry, _color.Normalize) else moved).append(entry)
    return moved + normalize


def _is_built_in(entry: Any) -> bool:
    """Whether an entry is a transform of this package, with those in its lists."""
    if type(entry) not in _BUILT_IN:
        return False
    lists = entry._lists() if isinstance(entry, _choices.ListTransform) else ()
    return all(_is_built_in(inner) for entries in lists for inner in entries)


def steps(transforms: Iterable[Transform | Callable[[Any], Any]] | None) -> list[Transform]:
    """Checks a list of transforms without functions.

    Args:
        transforms: The list, or `None`.

    Returns:
        The transforms.

    Raises:
        ArgumentError: If an entry is not a transform.
    """
    native_steps, functions = split(transforms, "uint8")
    if functions:
        raise ArgumentError(
            f"transforms: a callable is not supported here, got {functions[0]!r}; apply it to the result"
        )
    return native_steps
