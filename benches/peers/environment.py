"""What the processes of a benchmark are started with."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def worker_environment() -> dict[str, str]:
    """One thread for whatever counts cores by itself, no index from before, and the FFmpeg that setup.sh linked."""
    libraries = [Path(sys.prefix) / "lib" / "ffmpeg", Path(sysconfig.get_paths()["platlib"]) / "av.libs"]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        **os.environ,
        # What is measured brings an index of its own or none: not the one that this machine's user has filled.
        "FRAMESPOOL_INDEX": os.environ.get("FRAMESPOOL_INDEX", "off"),
        "OMP_NUM_THREADS": "1",
        "LD_LIBRARY_PATH": ":".join([*map(str, libraries), *([inherited] if inherited else [])]),
    }
