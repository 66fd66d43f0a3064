"""The sampling of other codebases, index for index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler, arguments
from framespool.samplers._preset_table import PRESETS, PresetSpec, Required

if TYPE_CHECKING:
    from framespool._framespool import SamplerArgs


@dataclass(frozen=True)
class Preset(ClipSampler):
    """The sampling of another codebase; created by `preset()`.

    Attributes:
        name: Name of the preset.
        options: All options with their values.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.preset("tsn")
        >>> clip_sampler.name, clip_sampler.options[:1]
        ('tsn', (('num_segments', 3),))
    """

    name: str
    options: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        self.clips_in(0)  # the engine checks the values

    def _sampler_args(self) -> SamplerArgs:
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in self.options}
        return (f"preset:{self.name}", arguments(**values))


def presets() -> dict[str, str]:
    """Lists all presets.

    Returns:
        For each name what the preset reproduces, and its options with their defaults.

    Example:
        >>> import framespool as fsp
        >>> sorted(fsp.samplers.presets())[:3]
        ['cosmos_curate', 'dali', 'dali_uniform_sample']
    """
    import inspect

    return {name: f"{inspect.cleandoc(spec.doc)}\n\n{_options(spec)}" for name, spec in PRESETS.items()}


def _options(spec: PresetSpec) -> str:
    shown = [
        f"{option} (required)" if default is Required else f"{option}={default!r}"
        for option, default in spec.options.items()
    ]
    return f"Options: {', '.join(shown) or 'none'}."


def preset(name: str, /, **options: Any) -> Preset:
    """Samples as another codebase does, index for index.

    Deterministic (test-time) sampling is reproduced exactly; random sampling exactly for the same draws.

    Args:
        name: Name of the preset; `presets()` lists them.
        options: Options, with the names of the codebase.

    Returns:
        The clip sampler.

    Raises:
        ArgumentError: If the preset or an option does not exist, or an option is missing or invalid.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.preset("slowfast", mode="test", num_frames=8, sampling_rate=8)
        >>> clip_sampler.clips_in(300)
        10
    """
    spec = PRESETS.get(name)
    if spec is None:
        raise ArgumentError(f"preset must be one of {', '.join(sorted(PRESETS))}, got {name!r}")
    for option in options:
        if option not in spec.options:
            raise ArgumentError(f"preset {name!r} has no option {option!r}; its options are {', '.join(spec.options)}")
    values = {**spec.options, **options}
    for option, value in values.items():
        if value is Required:
            raise ArgumentError(f"preset {name!r} needs {option}=")
    frozen = {option: tuple(v) if isinstance(v, list) else v for option, v in values.items()}
    return Preset(name, tuple(frozen.items()))
