"""The clip sampler that every preset returns."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Rational
from typing import TYPE_CHECKING, Any

from framespool.samplers._base import ClipSampler

if TYPE_CHECKING:
    from framespool._framespool import SamplerSpec


@dataclass(frozen=True)
class Preset(ClipSampler):
    """The sampling of another codebase; created by the functions of `framespool.samplers.presets`.

    Attributes:
        name: Name of the preset.
        options: All options with their values.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.presets.tsn()
        >>> clip_sampler.name, clip_sampler.options[:1]
        ('tsn', (('num_segments', 3),))
    """

    name: str
    options: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        self.clips_in(0)  # the engine checks the values

    def _spec(self) -> SamplerSpec:
        return (f"preset:{self.name}", dict(self.options), None)


def preset(name: str, options: dict[str, Any]) -> Preset:
    """Creates a preset.

    Args:
        name: Its name in the engine.
        options: The arguments of its function.

    Returns:
        The clip sampler.
    """
    return Preset(name, tuple((option, _plain(value)) for option, value in options.items()))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, a fraction as numerator and denominator, a list as a tuple."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(entry) for entry in value)
    if isinstance(value, Rational) and not isinstance(value, Integral):
        return (value.numerator, value.denominator)
    return value.item() if getattr(value, "shape", None) == () else value
