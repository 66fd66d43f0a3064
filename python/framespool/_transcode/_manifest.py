"""What was made before, in a hidden folder beside the results; and that one run at a time works there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any

from framespool.errors import ArgumentError, ReadError

#: Readers of folders do not enter it.
FOLDER = ".framespool-transcode"


class Manifest:
    """Lines of what became of each video; the last one about a video counts."""

    def __init__(self, out: str) -> None:
        self.folder = os.path.join(out, FOLDER)
        self._out = out
        self._path = os.path.join(self.folder, "done.jsonl")
        self._lock: int | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._makers: dict[str, str] = {}
        # What cannot be read cannot be written either: open() says so.
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                # A run that was killed while it wrote leaves half a line, whose video is made again.
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    said = json.loads(line)
                    self._learn(said)

    def _learn(self, said: dict[str, Any]) -> None:
        self._known[said["video"]] = said
        self._makers[said["file"]] = said["video"]

    def done(self, identity: str, state: Any, how: str, name: str) -> dict[str, Any] | None:
        """What is known of a video that was made of the same file, alike, under this name, and lies there still."""
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
        """Of which video a file was made; ``None`` for a file that no run made."""
        return self._makers.get(name)

    def open(self) -> None:
        """Begins to work there: what a run that was killed left half done is removed.

        Raises :class:`~framespool.ReadError` where the folder cannot be made and :class:`~framespool.ArgumentError`
        where another run works there.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise ArgumentError(
                    f"{self._out}: another run is preparing videos into this folder; wait for it, or take another one"
                ) from None
            for entry in os.scandir(self.folder):
                if entry.name.startswith("half-"):
                    os.unlink(entry)
            with open(self._path, "ab+") as file:
                file.seek(max(0, file.tell() - 1))
                if file.read(1) not in (b"", b"\n"):
                    file.write(b"\n")  # after half a line
        except OSError as error:
            self.close()
            raise ReadError(f"{error.filename or self._out}: {error.strerror}; choose a folder to write to") from error

    def close(self) -> None:
        """Lets others work there."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def half(self, number: int) -> str:
        """Where a file lies until it is whole."""
        return os.path.join(self.folder, f"half-{number}.mp4")

    def add(self, said: dict[str, Any]) -> None:
        """Keeps what became of a video."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")
        self._learn(said)
