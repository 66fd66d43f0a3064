"""The record of transcoded videos, in a hidden folder of the results, and the lock that allows one run at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any

from framespool.errors import ArgumentError, ReadError

#: Hidden, so that readers of folders skip it.
FOLDER = ".framespool-transcode"


class Manifest:
    """JSON lines with the result of each video; the last line about a video counts.

    Args:
        out: Folder of the results.
    """

    def __init__(self, out: str) -> None:
        self.folder = os.path.join(out, FOLDER)
        self._out = out
        self._path = os.path.join(self.folder, "done.jsonl")
        # Unique: an encoder that survives its killed run must not write to the files of the next one.
        self._run = f"{os.getpid()}-{time.time_ns()}"
        self._lock: int | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._makers: dict[str, str] = {}
        # If it cannot be read, open() raises the error.
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                # A run that was killed while writing leaves an incomplete line; its video is transcoded again.
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    said = json.loads(line)
                    self._learn(said)

    def _learn(self, said: dict[str, Any]) -> None:
        self._known[said["video"]] = said
        self._makers[said["file"]] = said["video"]

    def done(self, identity: str, state: Any, how: str, name: str) -> dict[str, Any] | None:
        """The entry of a video that is already transcoded.

        Args:
            identity: Identity of the source.
            state: State of the source.
            how: The options as text.
            name: Name of the result.

        Returns:
            The entry, if source, options and name are the same and the file is unchanged; else `None`.
        """
        known = self._known.get(identity)
        if known is None or state is None:
            return None
        if [known.get(key) for key in ("state", "how", "file")] != [state, how, name]:
            return None
        with contextlib.suppress(OSError):
            if os.stat(os.path.join(self._out, name)).st_size == known.get("bytes"):
                return known
        return None

    def source_identity(self, name: str) -> str | None:
        """The identity of the source that a file was made from.

        Args:
            name: Name of the file.

        Returns:
            The identity; `None` if no run made the file.
        """
        return self._makers.get(name)

    def open(self) -> None:
        """Locks the folder, and removes incomplete files of killed runs.

        Raises:
            ReadError: If the folder cannot be created or written.
            ArgumentError: If another run uses the folder.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise ArgumentError(
                    f"{self._out}: another run transcodes videos to this folder; wait for it, or use another folder"
                ) from None
            for entry in os.scandir(self.folder):
                if entry.name.startswith("half-"):
                    os.unlink(entry)
            with open(self._path, "ab+") as file:
                file.seek(max(0, file.tell() - 1))
                if file.read(1) not in (b"", b"\n"):
                    file.write(b"\n")  # ends an incomplete line
        except OSError as error:
            self.close()
            raise ReadError(f"{error.filename or self._out}: {error.strerror}; choose a writable folder") from error

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def half(self, number: int) -> str:
        """The path of an incomplete file.

        Args:
            number: Number of the video.

        Returns:
            The path.
        """
        return os.path.join(self.folder, f"half-{self._run}-{number}.mp4")

    def add(self, said: dict[str, Any]) -> None:
        """Appends an entry.

        Args:
            said: The entry.
        """
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")
        self._learn(said)
