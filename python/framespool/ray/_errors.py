"""What only a cluster can do wrong, and Ray itself, which is imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

from framespool.errors import Error, UnsupportedError


class WorkerError(Error, RuntimeError):
    """No worker could be had from the cluster, or those that made a batch were lost again and again.

    The message says on which nodes, and why. In place of a batch it is raised for that batch alone; where there is no
    worker to make it, no batch is lost: asked again, the loader waits for workers again.
    """


class NoWorkersError(WorkerError):
    """Nobody is there to make a batch, which says nothing of the batch."""


def import_ray(part: str = "ray") -> Any:
    """The module of that name of Ray.

    Raises :class:`~framespool.UnsupportedError` where it is not installed.
    """
    try:
        return importlib.import_module(part)
    except ImportError as error:
        extra = "ray" if part == "ray" else "ray[data]"
        raise UnsupportedError(
            f'framespool.ray needs {part}, which cannot be imported ({error}); pip install "{extra}", or use '
            "framespool.ClipLoader, which needs no cluster"
        ) from error


def first_lines(error: BaseException, most: int = 400) -> str:
    """What Ray says of an error, on one line."""
    return " ".join(str(error).split())[:most]
