"""Failure lists: which samples of a dataset failed, in memory and as files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import display_path, is_url
from framespool.errors import ArgumentError
from framespool.video._sources import ArchiveMember, ImageSequence, Source, TableCell, VideoSegment


def failure_record(source: Source, kind: str) -> dict[str, Any]:
    """The fields of a failure that identify the source.

    Args:
        source: The source as the dataset has it.
        kind: Kind of the error, a key of `BY_KIND`.

    Returns:
        dict: `path`, and `part`, `frames`, `member` or `cell` where they apply. Of a URL with user name, password or
        query, `path` is the rest, and `url_sha256` identifies the complete one without a signature: failure lists are
        files that are shared.
    """
    fields: dict[str, Any] = {}
    if kind == "clip_sampling" and isinstance(source, VideoSegment):
        fields["part"] = source.bounds()  # the file itself may be valid
    source = source.source if isinstance(source, VideoSegment) else source
    if isinstance(source, ImageSequence):
        # The message names the file; the dataset has the folder.
        return fields | _path_fields(source.folder) | {"frames": source._which}
    if isinstance(source, ArchiveMember):
        return fields | _path_fields(source.file) | {"member": source._which}
    if isinstance(source, TableCell):
        return fields | _path_fields(source.file) | {"cell": source._which}
    return fields | ({"path": None} if isinstance(source, bytes) else _path_fields(source))


def _path_fields(source: str | os.PathLike[str]) -> dict[str, str]:
    path = os.fspath(source)
    shown = display_path(path)
    return {"path": shown} if shown == path else {"path": shown, "url_sha256": _sha256(path)}


def _sha256(path: str) -> str:
    import hashlib  # loads OpenSSL, which `import framespool` need not wait for

    # A presigned URL is the same file with tomorrow's signature.
    return hashlib.sha256(os.fsencode(_framespool.without_signature(path))).hexdigest()


def sample_key(entry: Any) -> tuple[str, str, str] | None:
    """Returns the key that identifies a sample, or a failure, in failure lists.

    Args:
        entry: A source, or a mapping from a failure list.

    Returns:
        The path (of a URL with secrets, the rest and a hash), which frames or which archive member of it (or ""), and
        the bounds of the segment (or ""). `None` for bytes.
    """
    frames: Any = {}
    bounds: Any = {}
    digest = None
    if isinstance(entry, Mapping):
        digest = entry.get("url_sha256")
        member = {name: value for name, value in entry.get("member", {}).items() if name != "name"}
        entry, frames, bounds = entry.get("path"), entry.get("frames", entry.get("cell", member)), entry.get("part", {})
    if isinstance(entry, VideoSegment):
        entry, bounds = entry.source, entry.bounds()
    if isinstance(entry, ImageSequence):
        entry, frames = entry.folder, entry._which
    if isinstance(entry, ArchiveMember):
        entry, frames = entry.file, {"offset_bytes": entry.offset_bytes, "num_bytes": entry.num_bytes}
    if isinstance(entry, TableCell):
        entry, frames = entry.file, entry._which
    if entry is None or isinstance(entry, bytes):
        return None
    path = os.fspath(entry)
    shown = display_path(path)
    if digest is None and shown != path:
        digest = _sha256(path)
    # A URL is kept unchanged: the server interprets "//" and "..".
    key = shown if is_url(path) else os.path.normpath(path)
    key = key if digest is None else f"{key} sha256={digest}"
    return key, _properties_text(frames), _properties_text(bounds)


def _properties_text(properties: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(properties.items()))


def write_failures(path: str | os.PathLike[str], failures: Iterable[Mapping[str, Any]]) -> int:
    """Writes failures to a file, one JSON object per line; an existing file is replaced.

    Bytes have no path; a failure list cannot exclude them, and they are not written.

    Args:
        path: File to write.
        failures: What `ClipLoader.failures()` returns.

    Returns:
        The number of failures written.
    """
    import json

    kept = [failure for failure in failures if failure["path"] is not None]
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(json.dumps(failure) + "\n" for failure in kept)
    return len(kept)


def read_failures(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, str]]:
    """Reads a file that `write_failures()` wrote.

    Args:
        path: The file.

    Yields:
        The key of each failure, see `sample_key()`.

    Raises:
        ArgumentError: If a line is not a JSON object with a `path`.
    """
    import json

    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                bad = sample_key(json.loads(line))
            except (ValueError, TypeError, AttributeError):
                bad = None
            if bad is None:
                raise ArgumentError(f'{os.fspath(path)}, line {number}: expected an object with a "path"')
            yield bad
