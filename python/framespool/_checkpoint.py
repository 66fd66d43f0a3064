"""Where a loader is, as a few numbers; and whether such a state fits a loader."""

from __future__ import annotations

import functools
import hashlib
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framespool._validate_args import integer
from framespool.datasets import ArchiveMember, Dataset, ImageSequence, MixtureDataset, TableCell, VideoSegment
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError

#: Raised when states change what they mean.
FORMAT = 2

_FIELD_NAMES = {
    "dataset": "the dataset (names of the files, labels, parts, stream)",
    "num_clips": "the number of clips",
    "clip_sampler": "the clip sampler",
    "transforms": "transforms",
    "order": "the order",
    "seed": "seed",
    "images": "how images are decoded",
    "global_batch_size": "the global batch size (batch_size x num_shards)",
}


def fingerprint(dataset: Dataset, stream: int | None = None) -> str:
    """16 hexadecimal digits of file names, labels, parts and ``stream``, if one was chosen: below the folder that all
    files have in common, so that a dataset may move. Videos given as bytes count with what they hold."""
    digest = hashlib.blake2b(digest_size=8)
    if stream is not None:
        digest.update(f"stream {stream};".encode())
    if isinstance(dataset.samples, SampleList) and (below := dataset.samples.table.names()) is not None:
        digest.update(below)
        digest.update(dataset.samples.table.labels())
        return digest.hexdigest()
    names: list[str] = []
    for number, (entry, _) in enumerate(dataset.samples):
        if isinstance(entry, VideoSegment):
            frames, seconds = (entry.start_frame, entry.end_frame), (entry.start_seconds, entry.end_seconds)
            digest.update(f"{number}:{frames},{seconds};".encode())
        source = entry.source if isinstance(entry, VideoSegment) else entry
        if isinstance(source, ImageSequence):
            digest.update(f"{number}:{source.pattern},{source.first},{source.count},{source._fps};".encode())
            source = source.folder
        if isinstance(source, ArchiveMember):
            digest.update(f"{number}:{source.offset_bytes}+{source.num_bytes};".encode())
            source = source.file
        if isinstance(source, TableCell):
            digest.update(f"{number}:{source.column}[{source.row}];".encode())
            source = source.file
        if isinstance(source, bytes):
            names.append(hashlib.blake2b(source, digest_size=8).hexdigest())
        else:
            names.append(os.fspath(source))
    common = len(os.path.dirname(os.path.commonprefix(names)))
    digest.update(os.fsencode("\n".join(name[common:].lstrip(os.sep) for name in names)))
    digest.update(array("q", [label for _, label in dataset.samples]).tobytes())
    return digest.hexdigest()


def order(settings: Mapping[str, Any], mixture: MixtureDataset | None) -> dict[str, Any]:
    """What decides the order of clips, apart from numbers that are told by themselves."""
    names = ["shuffle", "last_batch", "order"]
    if settings["shuffle"] == "buffer":
        names.append("initial_fill")
    if settings["stick_to_shard"] or settings["order"] != "framespool":
        # Each rank has a list of its own: another number of ranks would have others.
        names += ["stick_to_shard", "num_shards"]
    if settings["num_workers"] > 1:
        names += ["num_workers"]
    rest: dict[str, Any] = {}
    if mixture is not None:
        rest = {"mix": (mixture.lengths, mixture.weights, mixture.replacement, mixture.epoch_clips)}
    return {**{name: settings[name] for name in names}, **rest}


def text(value: Any) -> str:
    """What decides about clips, as text that is the same in every process."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(text(item) for item in value) + ")"
    if isinstance(value, functools.partial):
        return text({"partial": value.func, "of": (value.args, value.keywords)})
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return repr(value)


def _differ(said: Any, mine: Any) -> bool:
    try:
        return bool(said != mine)
    except (TypeError, ValueError, RuntimeError):
        return True  # an array of several numbers: neither equal nor not


def position(state: Any, mine: Mapping[str, Any], batches: int, max_epoch: int) -> tuple[int, int]:
    """Epoch and batch of a state that fits.

    Raises :class:`~framespool.ArgumentError` for one that does not, naming every difference.
    """
    if not isinstance(state, Mapping):
        raise ArgumentError(f"a state is what state_dict() returned, got {state!r}")
    missing = [key for key in ("format", "epoch", "batch", *mine) if key not in state]
    if missing:
        raise ArgumentError(f"the state lacks {', '.join(missing)}; it must be what state_dict() returned, whole")
    if _differ(state["format"], FORMAT):
        raise ArgumentError(
            f"the state has format {state['format']!r}, this release reads format {FORMAT}; "
            "use the release that wrote it"
        )
    foreign = [_FIELD_NAMES[key] for key in state if key in _FIELD_NAMES and key not in mine]
    if foreign:
        raise ArgumentError(f"the state is that of another kind of loader: it says {', '.join(foreign)}")
    differ = [
        f"{_FIELD_NAMES[key]} was {state[key]}, is {value}" for key, value in mine.items() if _differ(state[key], value)
    ]
    if differ:
        raise ArgumentError(
            f"the state does not fit this loader: {'; '.join(differ)}. Make the loader as it was, or begin anew with "
            "set_epoch()"
        )
    # One more than can be chosen: what a state says after the last one.
    epoch, batch = integer("epoch", state["epoch"], most=max_epoch + 1), integer("batch", state["batch"], most=2**63)
    if batch > batches:
        raise ArgumentError(f"the state is at batch {batch}, but an epoch has {batches}")
    return epoch, batch


def configuration(
    dataset: str, sampling: Any, transforms: Sequence[Any], order: Mapping[str, Any], **more: int | str
) -> dict[str, Any]:
    """What must be the same for a state to fit."""
    return {
        "dataset": dataset,
        "clip_sampler": text(sampling),
        "transforms": text(transforms),
        "order": text(order),
        **more,
    }
