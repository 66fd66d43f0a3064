"""What a training run does not need: reports about datasets, loaders and machines, checks, previews, shots, new files.

`probe` reports on a dataset without decoding, `bench` on a loader by decoding, `doctor` on the machine. The shell has
the same as `framespool probe`, `validate`, `bench`, `doctor`, `preview`, `shots` and `transcode`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framespool._framespool import remote_stats

#: The modules of the names, which are imported on first access.
_MODULES = {
    "BenchReport": "_bench",
    "DatasetSummary": "_probe._probe",
    "Distribution": "_probe._distribution",
    "Finding": "_doctor",
    "ShotReport": "_shots",
    "TranscodeReport": "_transcode",
    "ValidationReport": "_validate",
    "bench": "_bench",
    "doctor": "_doctor",
    "preview": "_preview",
    "probe": "_probe._probe",
    "split_shots": "_shots",
    "transcode": "_transcode",
    "validate": "_validate",
}

#: Earlier names, and what replaces them.
REPLACED = {
    "AccessReport": "framespool.tools.DatasetSummary",
    "TranscodeEstimate": "framespool.tools.TranscodeReport.estimate",
    "analyze_access": "framespool.tools.probe(dataset)",
    "estimate_transcode": "framespool.tools.transcode(..., dry_run=True)",
}

if TYPE_CHECKING:
    from framespool.tools._bench import BenchReport, bench
    from framespool.tools._doctor import Finding, doctor
    from framespool.tools._preview import preview
    from framespool.tools._probe._distribution import Distribution
    from framespool.tools._probe._probe import DatasetSummary, probe
    from framespool.tools._shots import ShotReport, split_shots
    from framespool.tools._transcode import TranscodeReport, transcode
    from framespool.tools._validate import ValidationReport, validate
else:

    def __getattr__(name: str) -> Any:
        """Imports a tool on first access."""
        if name not in _MODULES:
            hint = f"; use {REPLACED[name]}" if name in REPLACED else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})


__all__ = [
    "BenchReport",
    "DatasetSummary",
    "Distribution",
    "Finding",
    "ShotReport",
    "TranscodeReport",
    "ValidationReport",
    "bench",
    "doctor",
    "preview",
    "probe",
    "remote_stats",
    "split_shots",
    "transcode",
    "validate",
]
