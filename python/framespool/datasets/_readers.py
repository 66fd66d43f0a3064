"""What the readers of datasets share: arguments, expansion of file patterns, and warnings about skipped samples."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import as_sequence, choice, integer, is_url
from framespool.datasets._dataset import Dataset, first_sample, renumbered
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError
from framespool.video._sources import ImageSequence

StrPath = str | os.PathLike[str]
StrPaths = StrPath | Iterable[StrPath]
Fps = float | tuple[int, int]

#: Minimum number of files to list in parallel: most of the time is disk latency.
_THREADS = 8
#: Maximum number of files that a pattern may expand to.
_MAX_FILES = 1_000_000


def annotated_dataset(found: Any, classes: Sequence[str] | None = None) -> Dataset:
    """Creates the dataset of an annotation file.

    Args:
        found: What the engine read: sample table, classes, columns, and notes on skipped lines, which become warnings
            at the line that called the public function.
        classes: As for `with_classes()`.

    Returns:
        The dataset.
    """
    table, names, columns, notes = found
    warn_notes(notes)
    return with_classes(Dataset(SampleList(table), names, columns), classes)


def class_names(classes: Sequence[str] | None) -> list[str] | None:
    """Checks the argument `classes` of a reader.

    Args:
        classes: The argument; `None` if the names are those that the reader finds.

    Returns:
        The names.

    Raises:
        ArgumentError: If it is not a list of different names.
    """
    if classes is None:
        return None
    names = as_sequence(classes)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"classes must be a list of names, got {classes!r}")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ArgumentError(f"classes must be distinct, got {twice!r} twice")
    return list(names)


def with_classes(dataset: Dataset, classes: Sequence[str] | None) -> Dataset:
    """Numbers the labels of a dataset by class names that the caller gave.

    Args:
        dataset: The dataset. If it has no class names, its labels are already indices of `classes`.
        classes: Names in the order of their labels; `None` to change nothing.

    Returns:
        The dataset with these classes.

    Raises:
        ArgumentError: If a sample has another class; the message has its index, source and class.
    """
    names = class_names(classes)
    if names is None or names == dataset.classes:
        return dataset
    own, known = dataset.classes or names, set(names)

    def is_unknown(label: Any) -> bool:
        if not isinstance(label, int):
            return bool(dataset.classes)
        return not (0 <= label < len(own) and own[label] in known)

    wrong = first_sample(dataset, is_unknown)
    if wrong is not None:
        sample, label = wrong
        is_named = bool(dataset.classes) and isinstance(label, int) and 0 <= label < len(own)
        shown = own[label] if is_named else label
        raise ArgumentError(f"{sample}: the label {shown!r} is not one of the {len(names)} classes")
    samples = renumbered(dataset, names) if dataset.classes else dataset.samples
    return Dataset(samples, names, dataset.columns, dataset.stream)


def warn_notes(notes: list[str], stacklevel: int = 4) -> None:
    """Emits notes on skipped lines as warnings.

    Args:
        notes: The notes.
        stacklevel: As for `warnings.warn`. By default the caller of the caller's caller.
    """
    for note in notes:
        warnings.warn(note, stacklevel=stacklevel)


def archive_dataset(on_error: str, read: Callable[[], Any], classes: Sequence[str] | None = None) -> Dataset:
    """Creates the dataset of an archive, and warns of skipped samples.

    Args:
        on_error: `"raise"` or `"skip"`.
        read: Has the engine read the archive: sample table, columns, number of skipped samples, and first reasons.
        classes: As for `with_classes()`.

    Returns:
        The dataset.

    Raises:
        ArgumentError: If `on_error` is neither of its words, or a label is not the number of one of `classes`.
    """
    choice("on_error", on_error, ("raise", "skip"))
    table, columns, left_out, reasons = read()
    warn_left_out(left_out, reasons, stacklevel=4)
    return with_classes(Dataset(SampleList(table), columns=columns), classes)


def warn_left_out(left_out: int, reasons: Sequence[str], stacklevel: int = 3) -> None:
    """Warns of skipped samples, if there are any.

    Args:
        left_out: Number of skipped samples.
        reasons: The first reasons.
        stacklevel: As for `warnings.warn`. By default the caller of the caller.
    """
    if left_out:
        more = f", and {left_out - len(reasons)} more" if left_out > len(reasons) else ""
        warnings.warn(f"{left_out} skipped: {'; '.join(reasons)}{more}", stacklevel=stacklevel)


def listing_threads() -> int:
    """Returns the number of files to list in parallel.

    Returns:
        Number of threads.
    """
    return max(_THREADS, _framespool.cores())


def numbered_frames(pattern: str, first: int, fps: Fps) -> tuple[str, int, int | None, tuple[int, int]]:
    """Checks the arguments for folders of frames as `ImageSequence` does.

    Args:
        pattern: File name of a frame.
        first: Number of the first frame.
        fps: Frame rate.

    Returns:
        Pattern, first number, count (`None`) and frame rate, as the engine takes them.

    Raises:
        ArgumentError: If a value has a wrong type or is out of range.
    """
    if not isinstance(pattern, str):
        raise ArgumentError(f"pattern must be a string, got {pattern!r}")
    checked = ImageSequence("", pattern=pattern, first=first, fps=fps)
    return pattern, integer("first", checked.first), None, checked._fps


def string_list(name: str, value: Any) -> list[str]:
    """Checks a list of strings.

    Args:
        name: Name of the argument, for messages.
        value: The argument.

    Returns:
        The strings.

    Raises:
        ArgumentError: If it is not a list of strings, is empty, or contains an empty string.
    """
    words = as_sequence(value)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ArgumentError(f"{name} must be a string or a list of strings, none of them empty, got {value!r}")
    return list(words)


def expand_paths(name: str, paths: StrPaths) -> list[str]:
    """Returns files, with the braces of patterns expanded.

    Args:
        name: Name of the argument, for messages.
        paths: A path, a pattern or several of them.

    Returns:
        The paths, at least one.

    Raises:
        ArgumentError: If there is none, if there are too many, or if one is neither a path nor a valid pattern.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    given = as_sequence(paths)
    if given is None or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise ArgumentError(f"{name} must be a path, a pattern or a list of them, got {paths!r}")
    files: list[str] = []
    for path in map(os.fspath, given):
        if not isinstance(path, str):
            raise ArgumentError(f"{name} must be strings, got {path!r}")
        # A file whose name is the pattern itself takes precedence.
        plain = "{" not in path or (not is_url(path) and os.path.exists(path))
        found = [path] if plain else itertools.islice(_expanded(path), _MAX_FILES + 1)
        files.extend(found)
        if len(files) > _MAX_FILES:
            raise ArgumentError(f"{name} must be at most {_MAX_FILES} files, exceeded at {path!r}")
    if not files:
        raise ArgumentError(f"{name} must name at least one file, got {paths!r}")
    return files


_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def _expanded(pattern: str) -> Iterator[str]:
    """Expands `a-{00..02}-{x,y}` as the shell does; the last braces vary fastest."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        yield pattern
        return
    before, inside, behind = pattern[: match.start()], match[1], pattern[match.end() :]
    numbers = _RANGE.fullmatch(inside)
    choices: Iterable[str]
    if numbers is not None:
        first, last = numbers[1], numbers[2]
        # Leading zeros are kept: numbers are padded to the digits of the longer bound.
        padded = any(bound.lstrip("-").startswith("0") and len(bound.lstrip("-")) > 1 for bound in (first, last))
        width = max(len(first), len(last)) if padded else 0
        step = 1 if int(last) >= int(first) else -1
        choices = (f"{number:0{width}d}" for number in range(int(first), int(last) + step, step))
    elif "," in inside:
        choices = inside.split(",")
    else:
        raise ArgumentError(
            f"{{{inside}}} in {pattern!r} must be a range such as {{000..127}} or a list such as {{a,b}}"
        )
    for choice_ in choices:
        for rest in _expanded(behind):
            yield before + choice_ + rest
