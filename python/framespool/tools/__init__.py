"""What a training run does not need: reports about datasets, loaders and machines, checks, previews, transcoding.

The shell has the same as `framespool probe`, `validate`, `bench`, `doctor`, `preview`, `transcode` and `analyze`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool._framespool import remote_stats

#: The modules of the names, which are imported on first access.
_MODULES = {
    "AccessReport": "_analyze_access",
    "BenchReport": "_bench",
    "DatasetSummary": "_probe._probe",
    "Distribution": "_probe._distribution",
    "Finding": "_doctor",
    "TranscodeEstimate": "_transcode",
    "TranscodeReport": "_transcode",
    "ValidationReport": "_validate",
    "analyze_access": "_analyze_access",
    "bench": "_bench",
    "doctor": "_doctor",
    "estimate_transcode": "_transcode",
    "preview": "_preview",
    "probe": "_probe._probe",
    "transcode": "_transcode",
    "validate": "_validate",
}

if TYPE_CHECKING:
    from framespool.tools._analyze_access import AccessReport, analyze_access
    from framespool.tools._bench import BenchReport, bench
    from framespool.tools._doctor import Finding, doctor
    from framespool.tools._preview import preview
    from framespool.tools._probe._distribution import Distribution
    from framespool.tools._probe._probe import DatasetSummary, probe
    from framespool.tools._transcode import TranscodeEstimate, TranscodeReport, estimate_transcode, transcode
    from framespool.tools._validate import ValidationReport, validate
else:

    def __getattr__(name: str) -> Any:
        """Imports a tool on first access."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})


__all__ = [
    "AccessReport",
    "BenchReport",
    "DatasetSummary",
    "Distribution",
    "Finding",
    "TranscodeEstimate",
    "TranscodeReport",
    "ValidationReport",
    "analyze_access",
    "bench",
    "doctor",
    "estimate_transcode",
    "preview",
    "probe",
    "remote_stats",
    "transcode",
    "validate",
]
