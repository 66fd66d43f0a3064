"""Batches that are limited by what their clips cost, in place of a number of clips."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from framespool._common.validate_args import integer

#: Clips per batch that the order assumes if batches have a budget: how far a grouped shuffle spreads a video.
_USUAL_CLIPS = 8


@dataclass(frozen=True)
class PixelBudget:
    """Limits the pixels of a batch: frames x height x width, summed over its clips.

    In place of a `batch_size`. Batches then have different numbers of clips, and clips of like shape share a batch; see
    docs/howto/sampling.md. A clip that is larger than the budget is a batch of its own.

    Args:
        pixels: Maximum number of pixels.
        max_clips: Maximum number of clips. `None`: no limit.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=fsp.PixelBudget(2 * 8 * 112 * 112),
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> len(next(iter(loader)))
        2
    """

    pixels: int
    _: KW_ONLY
    max_clips: int | None = None

    def __post_init__(self) -> None:
        integer("pixels", self.pixels, least=1, most=2**63)
        _check_max_clips(self.max_clips)


@dataclass(frozen=True)
class TokenBudget:
    """Limits the tokens of a batch of a video-language model, as `PixelBudget` limits pixels.

    A token is two frames x a square of the factor of `transforms.SmartResize`, which must be one of the transforms.

    Args:
        tokens: Maximum number of tokens.
        max_clips: Maximum number of clips. `None`: no limit.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=fsp.TokenBudget(1024),
        ...     transforms=[fsp.transforms.SmartResize(factor=28, max_pixels=128 * 28 * 28)],
        ... )
        >>> batch = next(iter(loader))
    """

    tokens: int
    _: KW_ONLY
    max_clips: int | None = None

    def __post_init__(self) -> None:
        integer("tokens", self.tokens, least=1, most=2**63)
        _check_max_clips(self.max_clips)


def _check_max_clips(max_clips: Any) -> None:
    if max_clips is not None:
        integer("max_clips", max_clips, least=1)


def clips_per_batch(batch_size: Any) -> int:
    """Converts the argument `batch_size` of a loader.

    Args:
        batch_size: A number, or a budget.

    Returns:
        The number; with a budget the one that the order assumes.

    Raises:
        ArgumentError: If it is neither.
    """
    if isinstance(batch_size, (PixelBudget, TokenBudget)):
        return _USUAL_CLIPS if batch_size.max_clips is None else batch_size.max_clips
    return integer("batch_size", batch_size)
