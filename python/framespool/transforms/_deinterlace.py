"""What becomes of the two fields of interlaced video."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from framespool._common.validate_args import as_sequence, choice
from framespool.errors import ArgumentError
from framespool.transforms._args import Transform


@dataclass(frozen=True)
class Deinterlace(Transform):
    """Make one picture of the two fields of interlaced video; other video stays as it is.

    It must be the first transform of a `ClipLoader`. `Video` has an argument `deinterlace`.

    Args:
        method: `"bob"`: each line of the field that is shown second is replaced by the adjacent line of the other
            field. `"linear"`: it is replaced by the mean of the lines above and below it.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     transforms=[fsp.transforms.Deinterlace("linear"), fsp.transforms.Resize(128)],
        ... )
    """

    method: Literal["bob", "linear"]

    def __post_init__(self) -> None:
        choice("Deinterlace: method", self.method, ("bob", "linear"))

    def _step(self) -> dict[str, Any]:
        raise ArgumentError(f"transforms: {self!r} must be the first transform of a ClipLoader; Video has deinterlace=")


def without_deinterlace(transforms: Any) -> tuple[str, Any]:
    """Takes a `Deinterlace` from the begin of a list of transforms.

    Args:
        transforms: The argument of a loader.

    Returns:
        The method, `"weave"` without one, and the other transforms.
    """
    entries = as_sequence(transforms)
    if not entries or not isinstance(entries[0], Deinterlace):
        return "weave", transforms
    return entries[0].method, list(entries[1:])
