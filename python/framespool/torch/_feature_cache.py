"""Results of a function of clips, such as latents or features, which are kept on disk."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from framespool._common.batch_methods import BatchMethods
from framespool._common.pytorch import needed, torch
from framespool._common.tensor_methods import map_nested
from framespool._common.validate_args import byte_size, user_stacklevel
from framespool.errors import ArgumentError
from framespool.loaders._images import ImageBatch
from framespool.torch._feature_store import FeatureStore

#: Changes when stored results change.
_FORMAT = 1

#: Tensors of a stored result start at a multiple of this.
_ALIGN = 16


class FeatureCache:
    """Keeps what a function computes from clips, such as latents of a VAE, features or tokens, on disk.

    `get_or_compute()` calls the function with the frames of the clips of a batch whose results are not stored, and
    stores these results. The key of a result is made of the clip's row of `batch.content_keys`, `name` and `version`.
    The former is a digest of everything that determines the frames: the file and its version, frame indices, transforms
    and, with random ones, seed, epoch and clip. A file that is copied or moved is another file.

    So results are found again in another epoch if clip sampler and transforms are not random, and in another run with
    the same seed if they are.

    The loader of such a batch has decoded all clips. A `FeatureLoader` decodes only those without a result.

    All ranks, threads and runs may use the same folder. Results are appended to segment files of 256 MiB, without
    pickle and with checksums; files are private to the user. Any file may be deleted at any time: what is missing, cut
    or damaged is computed. If the disk is full or cannot be written, a warning says so once, and results are computed
    and not stored.

    Args:
        folder: The folder, which is created if it does not exist. Only what framespool has written is deleted.
        name: Name of the function.
        version: Version of the function, such as the name of its checkpoint. Change it together with anything that
            changes the results: weights, code, precision.
        size: Maximum size of all results in the folder, under every name and version, in bytes or as `"200GiB"`. If it
            is full, results are not stored, because the clips of an epoch would evict each other before their next
            use. Only files that no process has read or written for two weeks are deleted for new results. Several
            processes that write at the same time may exceed it by 64 MiB each.

    Raises:
        ArgumentError: If an argument is invalid, or the folder cannot be created.
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.UniformClips(sequence_length=4),
        ...     batch_size=3,
        ...     transforms=[fsp.transforms.Resize((32, 32))],
        ...     dtype="float32",
        ... )
        >>> cache = framespool.torch.FeatureCache("features", name="mean color", version=1, size="1GiB")
        >>> def encode(frames):
        ...     return frames.mean(dim=(1, 3, 4))
        >>> for epoch in range(2):
        ...     for batch in loader:
        ...         features = cache.get_or_compute(batch, encode)
        >>> features.shape, cache.stats()["computed"], cache.stats()["found"]
        (torch.Size([3, 3]), 3, 3)
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str, version: str | int, size: int | str) -> None:
        needed()
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise ArgumentError(f"folder must be a path, got {folder!r}")
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name must be a string that is not empty, got {name!r}")
        if isinstance(version, bool) or not isinstance(version, (str, int)):
            raise ArgumentError(f"version must be a string or an int, got {version!r}")
        limit = byte_size("size", size)
        self._path = os.path.abspath(os.fspath(folder))
        self._arguments: dict[str, Any] = {"name": name, "version": version, "size": size}
        self._function_key = _digest([_FORMAT, name, str(version)])
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{name}-{version}")[:60]
        self._store = FeatureStore(Path(self._path), f"{readable}-{self._function_key.hex()[:16]}", limit)
        self._computed, self._warned, self._lock = 0, False, threading.Lock()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"FeatureCache({self._path!r}, {arguments})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to another process, which writes files of its own.
        return functools.partial(FeatureCache, self._path, **self._arguments), ()

    def get_or_compute(self, batch: Any, function: Callable[[Any], Any]) -> Any:
        """Returns the results of a function for the clips of a batch; computes those that are not stored.

        Clips with the same key are computed once. A clip without a key, whose row of `content_keys` is zero because a
        change of its file could not be noticed, is computed each time and not stored. The function must give each clip
        a result that does not depend on the other clips of the batch. The last bits of many operators do depend on the
        number of clips: a function that loops over the clips gives the same bits in each run.

        Args:
            batch: A `Batch` or an `ImageBatch`, or a dict with `frames` (or `images`) and `content_keys`, as
                `ClipDataset`, `TorchLoader` and a `DataLoader` over a `VideoDataset` deliver it.
            function: Gets the frames of n clips, a `torch.Tensor` (n, ...) on the device of the batch, or a list of n
                tensors if clips differ in size. It returns a `torch.Tensor` (n, ...), a list of n tensors, or a dict or
                tuple of such. It is called without gradients, at most once, and not if all results are stored.

        Returns:
            What the function would return for all N clips: tensors (N, ...) or lists of N tensors, in the order of the
            batch, on the device of the frames, without gradients.

        Raises:
            ArgumentError: If the batch has no `content_keys`; if these do not determine the frames, because `MixUp`,
                `CutMix` or a function among the transforms has changed them; or if the function returns something else,
                or results that differ in shape between calls.

        Example:
            >>> latents = cache.get_or_compute(batch, lambda frames: vae.encode(frames).mean)  # doctest: +SKIP
        """
        frames, keys = self._frames_and_keys(batch)
        device = frames[0].device if isinstance(frames, list) else frames.device
        return self._results(keys, function, frames, device)

    def _results(
        self,
        keys: Sequence[bytes | None],
        function: Callable[[Any], Any],
        frames: Any,
        device: Any,
        has_frames: Sequence[bool] | None = None,
        make: Callable[[list[int]], Any] | None = None,
    ) -> Any:
        """The results of a batch.

        Args:
            keys: The key of each row.
            function: See `get_or_compute()`.
            frames: The frames of all rows, or of some.
            device: Where the results are placed.
            has_frames: Which rows these are; `None`: all.
            make: Returns the frames of other rows.
        """
        stored = self._stored(keys)
        found = [value for value in stored if value is not None]
        # Results are computed for the first row of each key, and for each row without one.
        numbers: dict[bytes | int, int] = {}
        rows: list[int] = []
        #: For each row the number of its result: of those that were found, then of those that were computed.
        sources: list[int] = []
        num_found = 0
        for row, (key, value) in enumerate(zip(keys, stored, strict=True)):
            if value is not None:
                sources.append(num_found)
                num_found += 1
                continue
            number = numbers.setdefault(row if key is None else key, len(rows))
            if number == len(rows):
                rows.append(row)
            sources.append(len(found) + number)
        with self._lock:
            self._computed += len(rows)
        computed = None
        if rows or not keys:
            selected = frames
            if make is not None and has_frames is not None and not all(has_frames):
                selected = _completed(frames, has_frames, rows, make)
            elif len(rows) < len(keys):
                selected = _rows_of(frames, rows)
            computed = self._compute(function, selected, device)
            self._keep([keys[row] for row in rows], computed)
        return self._combined(found, computed, sources, device)

    def get(self, content_key: Any) -> Any:
        """Returns the stored result of a clip.

        Args:
            content_key: A row of `batch.content_keys`, or its bytes.

        Returns:
            The result without the dimension of the batch, on the CPU; `None` if there is none, or no key.

        Raises:
            ArgumentError: If it is not a key.

        Example:
            >>> import framespool as fsp
            >>> import framespool.torch
            >>> loader = fsp.ClipLoader(
            ...     ["a.mp4"],
            ...     fsp.samplers.UniformClips(sequence_length=4),
            ...     batch_size=1,
            ...     transforms=[fsp.transforms.Resize((32, 32))],
            ... )
            >>> batch = next(iter(loader)).torch()
            >>> cache = framespool.torch.FeatureCache("features", name="mean color", version=1, size="1GiB")
            >>> cache.get(batch.content_keys[0]) is None
            True
            >>> color = cache.get_or_compute(batch, lambda frames: frames.float().mean(dim=(1, 3, 4)))
            >>> cache.get(batch.content_keys[0]).equal(color[0])
            True
        """
        if content_key is None:
            return None
        row = content_key if isinstance(content_key, bytes) else _bytes_of(content_key)
        if row is None or not row or len(row) % 16:
            raise ArgumentError(f"content_key must be 16 bytes or a row of batch.content_keys, got {content_key!r}")
        (value,) = self._stored([self._key(row, b"")])
        return None if value is None else _built(value.structure, iter(value.tensors))

    def stats(self) -> dict[str, int]:
        """Counts since the cache was created in this process.

        Returns:
            `found`: results that were read; `computed`: clips that the function was called for; `stored` and
            `not_stored`: computed results that were and were not written; `damaged`: results that could not be read,
            or had another checksum.

        Example:
            >>> import framespool as fsp
            >>> import framespool.torch
            >>> framespool.torch.FeatureCache("features", name="vae", version="1.5", size="1GiB").stats()
            {'found': 0, 'computed': 0, 'stored': 0, 'not_stored': 0, 'damaged': 0}
        """
        counts = self._store.counts
        return {"found": counts["found"], "computed": self._computed, **counts}

    def _frames_and_keys(self, batch: Any) -> tuple[Any, list[bytes | None]]:
        """The frames of a batch, as PyTorch has them, and the keys of the results."""
        name = "images" if isinstance(batch, ImageBatch) else "frames"
        if isinstance(batch, Mapping):
            name = next((each for each in ("frames", "images") if each in batch), "")
        elif not isinstance(batch, BatchMethods):
            name = ""
        if not name:
            raise ArgumentError(
                f"batch must be a batch of a loader, or a dict with frames and content_keys, got {type(batch).__name__}"
            )
        if "mixed_with" in batch and batch["mixed_with"] is not None:
            raise ArgumentError(
                "MixUp and CutMix mix each clip with another one of the batch, so a result would belong to both. Omit "
                "them among the transforms, and mix the results"
            )
        if "content_keys" not in batch or batch["content_keys"] is None:
            raise ArgumentError(
                "the batch has no content_keys, which determine its frames. If a function is among the transforms of "
                "the loader, omit it there and call it in the function of the FeatureCache; if the batch is a dict, "
                "pass content_keys of the loader's batch with it"
            )
        values = (batch[name], batch["content_keys"])
        frames, rows = (map_nested(value, "torch", lambda tensor: tensor.torch()) for value in values)
        many = frames if isinstance(frames, list) else [frames]
        if not many or not all(isinstance(each, torch.Tensor) and each.ndim for each in many):
            raise ArgumentError(f"{name} must be a tensor or a list of tensors, got {type(frames).__name__}")
        found = [row for row in map(_bytes_of, rows) if row is not None]
        if len(found) != len(frames) or len(found) != len(rows):
            raise ArgumentError(
                f"content_keys must be uint8 of shape (N, 16) for N clips, got "
                f"{tuple(getattr(rows, 'shape', [len(rows)]))} for {len(frames)}"
            )
        # Padding depends on the other clips of the batch; its values are known once the shape is.
        padded = "unpadded_sizes" in batch and batch["unpadded_sizes"] is not None
        shapes = [repr(tuple(clip.shape)).encode() if padded else b"" for clip in frames]
        return frames, [self._key(row, shape) for row, shape in zip(found, shapes, strict=True)]

    def _key(self, row: bytes, shape: bytes) -> bytes | None:
        """The key of a result; `None` if a clip has no key. With `group_clips` a row holds the keys of its clips."""
        if any(not any(row[first : first + 16]) for first in range(0, len(row), 16)):
            return None
        if len(row) == 16 and not shape:
            return row  # a loader knows the clips that have a result by these keys
        return hashlib.blake2b(row + shape, key=self._function_key, digest_size=16).digest()

    def _stored(self, keys: Sequence[bytes | None]) -> list[_Result | None]:
        """The results that are stored."""
        known = [key for key in keys if key is not None]
        values = iter(self._store.read(known) if known else [])
        return [None if key is None or (value := next(values)) is None else _decoded(value) for key in keys]

    def _compute(self, function: Callable[[Any], Any], frames: Any, device: Any) -> _Results:
        with torch.no_grad():
            returned = function(frames)
        leaves: list[Any] = []
        structure = _flattened(returned, len(frames), leaves)
        return _Results(structure, [map_nested(leaf, "to", lambda tensor: _plain(tensor, device)) for leaf in leaves])

    def _keep(self, keys: Sequence[bytes | None], results: _Results) -> None:
        """Stores results of clips that have a key."""
        host = [map_nested(leaf, "cpu", lambda tensor: tensor.cpu()) for leaf in results.leaves]
        values = [
            (key, _encoded(results.structure, [leaf[row] for leaf in host]))
            for row, key in enumerate(keys)
            if key is not None
        ]
        if values and not self._store.write(values) and not self._warned:
            self._warned = True
            warnings.warn(
                f"results of {self._arguments['name']!r} are not stored in {self._path}: {self._store.failure}. They "
                "are computed each time; give the folder more space, or name another one",
                stacklevel=user_stacklevel(),
            )

    def _combined(self, found: list[_Result], computed: _Results | None, sources: list[int], device: Any) -> Any:
        """The results in the order of the rows."""
        structures = [value.structure for value in found] + ([] if computed is None else [computed.structure])
        if any(structure != structures[0] for structure in structures):
            self._raise_different("structure", structures)
        in_order = sources == list(range(len(sources)))
        leaves: list[Any] = []
        for number, kind in enumerate(_kinds(structures[0])):
            own = [] if computed is None else computed.leaves[number]
            read = [value.tensors[number] for value in found]
            if kind == "list":
                rows = [tensor.to(device) for tensor in read] + list(own)
                leaves.append([rows[source] for source in sources])
                continue
            forms = {(str(each.dtype), tuple(each.shape)) for each in (*read, *own[:1])}
            if len(forms) > 1:
                self._raise_different("dtype and shape", sorted(forms))
            parts = [torch.stack(read).to(device)] if read else []
            parts += [] if computed is None else [own]
            rows = parts[0] if len(parts) == 1 else torch.cat(parts)
            leaves.append(rows if in_order else rows[torch.tensor(sources, device=device)])
        return _built(structures[0], iter(leaves))

    def _raise_different(self, what: str, forms: Sequence[Any]) -> None:
        raise ArgumentError(
            f"results of {self._arguments['name']!r} differ in {what}: {forms[0]} and "
            f"{next(form for form in forms if form != forms[0])}. Change version if the function has changed; if the "
            "results of clips differ in size, return a list of tensors"
        )


class _Result(NamedTuple):
    """The result of one clip: how it is nested, and its tensors on the CPU."""

    structure: Any
    tensors: list[Any]


class _Results(NamedTuple):
    """The results of several clips: how they are nested, and their tensors (n, ...) or lists of n tensors."""

    structure: Any
    leaves: list[Any]


def _rows_of(frames: Any, rows: Sequence[int]) -> Any:
    """The frames of some rows."""
    if isinstance(frames, list):
        return [frames[row] for row in rows]
    if list(rows) == list(range(len(frames))):
        return frames
    return frames[torch.tensor(rows, dtype=torch.int64, device=frames.device)]


def _completed(frames: Any, has_frames: Sequence[bool], rows: Sequence[int], make: Callable[[list[int]], Any]) -> Any:
    """The frames of some rows of a batch that has frames of some rows, which may be others."""
    places = {row: place for place, row in enumerate(row for row, has in enumerate(has_frames) if has)}
    given = _rows_of(frames, [places[row] for row in rows if row in places])
    missing = [row for row in rows if row not in places]
    if not missing:
        return given
    made = make(missing)
    order = {row: place for place, row in enumerate([*(row for row in rows if row in places), *missing])}
    if len(given) == 0:  # then frames are a list if the engine could not know their shape
        return _rows_of(made, [order[row] for row in rows])
    if isinstance(frames, list):
        both = [*given, *made]
        return [both[order[row]] for row in rows]
    return _rows_of(torch.cat([given, made]), [order[row] for row in rows])


def _bytes_of(row: Any) -> bytes | None:
    """The bytes of a row of keys, (16,) or (C, 16) uint8; `None` if it is none."""
    if not isinstance(row, torch.Tensor):
        row = map_nested(row, "torch", lambda tensor: tensor.torch())
    if not isinstance(row, torch.Tensor) or row.dtype != torch.uint8 or not row.ndim or row.shape[-1] != 16:
        return None
    return bytes(row.flatten().tolist())


def _plain(tensor: Any, device: Any) -> Any:
    """A tensor as a training can use it."""
    tensor = tensor.detach().as_subclass(torch.Tensor).to(device)
    # Autograd refuses tensors that were made in inference mode.
    return tensor.clone() if tensor.is_inference() else tensor


def _flattened(value: Any, count: int, leaves: list[Any]) -> Any:
    """Appends the tensors of what the function returned to a list, and returns how they are nested."""
    if type(value) is tuple:
        return {"tuple": [_flattened(each, count, leaves) for each in value]}
    if type(value) is dict and all(isinstance(name, str) for name in value):
        return {"dict": [[name, _flattened(each, count, leaves)] for name, each in value.items()]}
    is_list = type(value) is list
    tensors = value if is_list else [value]
    if not all(isinstance(each, torch.Tensor) and each.layout == torch.strided for each in tensors):
        raise ArgumentError(
            "the function must return a tensor (n, ...), a list of n tensors, or a dict or tuple of such, got "
            f"{type(value).__name__}" + (f" of {', '.join({type(each).__name__ for each in value})}" if is_list else "")
        )
    if len(value) != count if is_list else value.shape[:1] != (count,):
        what = f"a list of {len(value)}" if is_list else f"a tensor of shape {tuple(value.shape)}"
        raise ArgumentError(f"the function got {count} clips and returned {what}; it must return {count} results")
    leaves.append(value)
    return "list" if is_list else "tensor"


def _kinds(structure: Any) -> list[str]:
    """The kinds of the tensors of a structure, in order."""
    if isinstance(structure, str):
        return [structure]
    if "tuple" in structure:
        return [kind for each in structure["tuple"] for kind in _kinds(each)]
    return [kind for _, each in structure["dict"] for kind in _kinds(each)]


def _built(structure: Any, leaves: Iterator[Any]) -> Any:
    """Nests tensors again."""
    if isinstance(structure, str):
        return next(leaves)
    if "tuple" in structure:
        return tuple(_built(each, leaves) for each in structure["tuple"])
    return {name: _built(each, leaves) for name, each in structure["dict"]}


def _aligned(number: int) -> int:
    return -(-number // _ALIGN) * _ALIGN


def _encoded(structure: Any, tensors: Sequence[Any]) -> bytearray:
    """A result as bytes: the length of a JSON header, the header, the elements of the tensors."""
    described = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]
    header = json.dumps([structure, described]).encode()
    record = bytearray(_aligned(4 + len(header)) + sum(_aligned(tensor.nbytes) for tensor in tensors))
    record[: 4 + len(header)] = len(header).to_bytes(4, "little") + header
    offset = _aligned(4 + len(header))
    for tensor in tensors:
        if tensor.numel():
            elements = torch.frombuffer(record, dtype=tensor.dtype, offset=offset, count=tensor.numel())
            elements.view(tensor.shape).copy_(tensor)
        offset += _aligned(tensor.nbytes)
    return record


def _decoded(value: memoryview) -> _Result:
    """A result from what `_encoded()` returned, without a copy."""
    end = 4 + int.from_bytes(value[:4], "little")
    structure, described = json.loads(bytes(value[4:end]))
    tensors, offset = [], _aligned(end)
    for name, shape in described:
        dtype = getattr(torch, name)
        count = math.prod(shape)
        tensor = torch.empty(0, dtype=dtype)
        if count:
            tensor = torch.frombuffer(value, dtype=dtype, offset=offset, count=count)
        tensors.append(tensor.view(shape))
        offset += _aligned(tensor.nbytes)
    return _Result(structure, tensors)


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).digest()
