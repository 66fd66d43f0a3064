"""How the files of a dataset are opened: the index cache, and what happens if a file or its server fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from framespool._common.index_cache import cache_location
from framespool._common.validate_args import choice, number
from framespool.errors import ArgumentError


@dataclass(frozen=True)
class OnError:
    """What happens if the file of a clip fails, and while a server is unavailable.

    In place of the word `on_error`.

    Args:
        action: As the word: `"raise"`, `"skip"` or `"replace"`.
        outage: What happens while the server of a URL is unavailable. No clip is skipped or replaced because of it.
            - `"wait"`: it is waited for, for `FRAMESPOOL_REMOTE_TIMEOUT` seconds (120), then the error is raised.
            - `"raise"`: the error is raised after about a second.
            - a number: the time in seconds for which it is waited for.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=16),
        ...     batch_size=8,
        ...     on_error=fsp.options.OnError("skip", outage=600),
        ... )
    """

    action: Literal["raise", "skip", "replace"] = "raise"
    _: KW_ONLY
    outage: Literal["wait", "raise"] | float = "wait"

    def __post_init__(self) -> None:
        choice("on_error", self.action, ("raise", "skip", "replace"))
        if isinstance(self.outage, str):
            choice("outage", self.outage, ("wait", "raise"))
        else:
            number("outage", self.outage, least=0, most=1e9)

    def _for_engine(self) -> dict[str, Any]:
        """The settings of the engine, by their names there."""
        timeout = None
        if self.outage != "wait":
            seconds = 0.0 if self.outage == "raise" else float(self.outage)
            timeout = {"secs": int(seconds), "nanos": int(seconds % 1 * 1e9)}
        return {"on_error": self.action, "outage_timeout": timeout}


@dataclass(frozen=True)
class Index:
    """The index cache of a loader, and how the indexing of videos is reported before training starts.

    In place of the folder `index`.

    Args:
        folder: The folder, shared by all processes of a machine, `False` for none, or `None` for the default
            (`FRAMESPOOL_INDEX`, else a folder in the user's cache). See docs/howto/indexing.md.
        progress: How the indexing is reported.
            - `None`: on stderr if that is a terminal, by the first rank, after a second.
            - `True`: on stderr, by every rank, also if that is no terminal, such as in a notebook.
            - `False`: not at all.
            - a function of (done, total), the numbers of indexed videos and of samples: it is called while the loader
              is created if the clip sampler counts clips by the lengths of the videos, else after each batch of the
              first epoch.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> seen = []
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.Windows(sequence_length=16),
        ...     batch_size=8,
        ...     index=fsp.options.Index("indexes", progress=lambda done, total: seen.append((done, total))),
        ... )
        >>> seen[-1]
        (3, 3)
    """

    folder: str | os.PathLike[str] | Literal[False] | None = None
    _: KW_ONLY
    progress: bool | Callable[[int, int], object] | None = None

    def __post_init__(self) -> None:
        cache_location(self.folder)
        if self.progress is not None and not isinstance(self.progress, bool) and not callable(self.progress):
            raise ArgumentError(
                f"progress must be None, True, False or a function of (done, total), got {self.progress!r}"
            )


def quiet_index(index: Any) -> Index:
    """The argument `index` of a loader without a report of the indexing, for processes that share a terminal.

    Args:
        index: An `Index`, or what stands for its folder.

    Returns:
        The `Index`.
    """
    return Index(index.folder if isinstance(index, Index) else index, progress=False)
