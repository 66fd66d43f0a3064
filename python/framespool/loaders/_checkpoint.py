"""The state of a loader, and whether a state fits a loader."""

from __future__ import annotations

import functools
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import as_sequence, integer
from framespool.datasets import Dataset, MixtureDataset
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError
from framespool.options._order import MAX_EPOCH, shuffle_name
from framespool.transforms._functions import FunctionTransform
from framespool.video._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment

#: Increased when the meaning of a state changes.
FORMAT = 3

_FIELD_NAMES = {
    "dataset": "the dataset (names of the files, labels, parts, stream)",
    "num_clips": "the number of clips",
    "clip_sampler": "the clip sampler",
    "transforms": "transforms",
    "order": "the order",
    "seed": "seed",
    "images": "how images are decoded",
    "audio": "the audio of a window",
    "global_batch_size": "the global batch size (batch_size x num_shards)",
}


def fingerprint(dataset: Dataset, stream: int | None = None) -> str:
    """A fingerprint of a dataset: file names, labels, segments and the stream.

    File names are relative to the folder that all files share, so that a dataset may move. Signatures of presigned URLs
    are omitted. Videos given as bytes are hashed.

    Args:
        dataset: The dataset.
        stream: Index of the video stream, if one was chosen.

    Returns:
        16 hexadecimal digits.
    """
    import hashlib  # loads OpenSSL, which `import framespool` need not wait for

    digest = hashlib.blake2b(digest_size=8)
    if stream is not None:
        digest.update(f"stream {stream};".encode())
    if isinstance(dataset.samples, SampleList) and (below := dataset.samples.table.names()) is not None:
        digest.update(below)
        digest.update(dataset.samples.table.labels())
        return digest.hexdigest()
    names: list[str] = []
    entries: list[Any] = [entry for entry, _ in dataset.samples]
    if dataset._has_sources:
        digest.update(repr([(len(entry.videos), len(entry.images)) for entry in entries]).encode())
        entries = [source for entry in entries for source in entry]
    for number, entry in enumerate(entries):
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
            name = os.fspath(source)
            names.append(_framespool.without_signature(name) if "://" in name else name)
    common = len(os.path.dirname(os.path.commonprefix(names)))
    digest.update(os.fsencode("\n".join(name[common:].lstrip(os.sep) for name in names)))
    labels = [label for _, label in dataset.samples]
    are_integers = all(isinstance(label, int) for label in labels)
    digest.update(array("q", labels).tobytes() if are_integers else repr(labels).encode())
    return digest.hexdigest()


def order(settings: Mapping[str, Any], mixture: MixtureDataset | None) -> dict[str, Any]:
    """The settings that determine the order of clips, except those that the state lists separately.

    Args:
        settings: Settings of the order.
        mixture: The mixture of datasets, if there is one.

    Returns:
        The settings by name.
    """
    found: dict[str, Any] = {
        "shuffle": shuffle_name(settings),
        "last_batch": settings["last_batch"],
        "order": "framespool",  # of earlier releases, which had other ones
    }
    names = []
    if found["shuffle"] == "buffer":
        found |= settings["shuffle"]["buffer"]
    if settings["stick_to_shard"]:
        # Each rank has a list of its own, which depends on the number of ranks.
        names += ["stick_to_shard", "num_shards"]
    names += [name for name in ("num_nodes", "num_workers", "repeats") if settings[name] > 1]
    found |= {name: settings[name] for name in names}
    if (weights := settings["weights"]) is not None:
        import hashlib

        # A digest: there may be millions of weights.
        digest = hashlib.blake2b(array("d", weights["weights"]).tobytes(), digest_size=8).hexdigest()
        found["weights"] = (digest, weights["replacement"], weights["epoch_clips"])
    if mixture is not None:
        found["mix"] = (mixture.lengths, mixture.weights, mixture.replacement, mixture.epoch_clips)
    return found


def text(value: Any) -> str:
    """Converts a configuration value to text that is the same in every process.

    Args:
        value: A value, list or mapping; functions are represented by their names.

    Returns:
        The text.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(text(item) for item in value) + ")"
    if isinstance(value, FunctionTransform):
        of: Any = value
        # Where a function runs does not change its result.
        return f"{type(value).__name__}{text([getattr(of, each.name) for each in fields(of) if each.compare])}"
    if isinstance(value, functools.partial):
        return text({"partial": value.func, "of": (value.args, value.keywords)})
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return repr(value)


def _differ(said: Any, mine: Any) -> bool:
    try:
        return bool(said != mine)
    except (TypeError, ValueError, RuntimeError):
        return True  # an array of several numbers has no single truth value


def position(state: Any, mine: Mapping[str, Any], batches: Callable[[int], int]) -> tuple[int, int]:
    """The position of a state that fits a loader.

    Args:
        state: The state.
        mine: Configuration of the loader.
        batches: Number of batches of an epoch.

    Returns:
        Epoch and batch.

    Raises:
        ArgumentError: If the state does not fit; the message lists every difference.
    """
    if not isinstance(state, Mapping):
        raise ArgumentError(f"state must be a result of state_dict(), got {state!r}")
    missing = [key for key in ("format", "epoch", "batch", *mine) if key not in state]
    if missing:
        raise ArgumentError(f"the state lacks {', '.join(missing)}; it must be a complete result of state_dict()")
    if _differ(state["format"], FORMAT):
        raise ArgumentError(
            f"the state has format {state['format']!r}, this release reads format {FORMAT}; "
            "use the release that wrote it"
        )
    foreign = [_FIELD_NAMES[key] for key in state if key in _FIELD_NAMES and key not in mine]
    if foreign:
        raise ArgumentError(f"the state is from another kind of loader: it has {', '.join(foreign)}")
    differ = [
        f"{_FIELD_NAMES[key]} was {state[key]}, is {value}" for key, value in mine.items() if _differ(state[key], value)
    ]
    if differ:
        raise ArgumentError(
            f"the state does not match this loader: {'; '.join(differ)}. Create the loader with the same arguments, or "
            "start again with set_epoch()"
        )
    # One more than can be chosen: the state after the last epoch.
    epoch, batch = integer("epoch", state["epoch"], most=MAX_EPOCH + 1), integer("batch", state["batch"], most=2**63)
    if batch > (length := batches(epoch)):
        raise ArgumentError(f"the state is at batch {batch}, but an epoch has {length}")
    return epoch, batch


def grouped(state: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[int, int, int]:
    """The parameters of the grouped shuffle with which a loader continues at a state.

    They are those of the state, except for what the user of the loader states otherwise. That may change between two
    epochs; within one, clips would be omitted and repeated.

    Args:
        state: A state of a loader with a grouped shuffle.
        given: `block_size`, `max_chunk` and `num_streams` of the loader; `None` if the user left it open.

    Returns:
        Number of streams, block size and maximum chunk.

    Raises:
        ArgumentError: If the state does not have them, or is within an epoch that has others.
    """
    values = as_sequence(state.get("grouped"))
    if values is None or len(values) != 3:
        raise ArgumentError(
            f"the state has grouped={state.get('grouped')!r}, expected three ints; it must be a complete result of "
            "state_dict()"
        )
    streams, block, chunk = values
    found = {
        "num_streams": integer("num_streams", streams, least=1),
        "block_size": integer("shuffle_block_size", block, most=2**64 - 1),
        "max_chunk": integer("max_chunk", chunk, least=1),
    }
    # Little memory shortens chunks below the stated maximum, which states of earlier releases do not have.
    before = {**found, "max_chunk": state.get("max_chunk", given["max_chunk"])}
    changed = {name: value for name, value in given.items() if value is not None and _differ(before[name], value)}
    if changed and _differ(state["batch"], 0):
        now, was = (", ".join(f"{name}={of[name]}" for name in changed) for of in (given, before))
        raise ArgumentError(
            f"the state is within an epoch with GroupedShuffle({was}), but this loader has {now}: the rest of the "
            "epoch would omit some clips and repeat others. Create the loader with the former, or load a state of the "
            "start of an epoch"
        )
    found |= changed
    return found["num_streams"], found["block_size"], found["max_chunk"]


def configuration(
    dataset: str, sampling: Any, transforms: Sequence[Any], order: Mapping[str, Any], **more: int | str
) -> dict[str, Any]:
    """The configuration that must be the same for a state to fit.

    Args:
        dataset: Fingerprint of the dataset.
        sampling: Arguments of the clip sampler.
        transforms: The transforms.
        order: Settings of the order.
        more: Further entries.

    Returns:
        The configuration by name.
    """
    return {
        "dataset": dataset,
        "clip_sampler": text(sampling),
        "transforms": text(transforms),
        "order": text(order),
        **more,
    }
