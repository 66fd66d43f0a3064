"""Errors of a cluster, and the import of Ray on first use."""

from __future__ import annotations

import importlib
from typing import Any

from framespool.errors import Error, UnsupportedError


class WorkerError(Error, RuntimeError):
    """The cluster provided no worker, or the workers that made a batch were lost repeatedly.

    The message names the nodes and the reasons. In place of a batch, the error applies to that batch alone. If there is
    no worker to make the batch, no batch is lost: the next call waits for workers again.
    """


class NoWorkersError(WorkerError):
    """No worker is available; the batch itself is not at fault."""


def import_ray(part: str = "ray") -> Any:
    """Imports a module of Ray.

    Args:
        part: Name of the module.

    Returns:
        The module.

    Raises:
        UnsupportedError: If it is not installed.
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
    """Returns the message of a Ray error on one line.

    Args:
        error: The error.
        most: Maximum number of characters.

    Returns:
        The message.
    """
    return " ".join(str(error).split())[:most]
