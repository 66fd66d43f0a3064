"""Environment variables of the processes of a benchmark."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def worker_environment() -> dict[str, str]:
    """One thread for libraries that count cores themselves, no existing index, and the FFmpeg that setup.sh linked."""
    libraries = [Path(sys.prefix) / "lib" / "ffmpeg", Path(sysconfig.get_paths()["platlib"]) / "av.libs"]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        # A measurement uses its own index or none, not the user's.
        "FRAMESPOOL_INDEX": os.environ.get("FRAMESPOOL_INDEX", "off"),
        "OMP_NUM_THREADS": "1",
        "LD_LIBRARY_PATH": ":".join([*map(str, libraries), *([inherited] if inherited else [])]),
    }
