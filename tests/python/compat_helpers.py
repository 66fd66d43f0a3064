"""What the tests of framespool.compat share."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import record_compat

GOLDEN = json.loads(record_compat.GOLDEN.read_text())
VFR = "derived/vfr_60_15_30_640x360.mp4"
OPEN_GOP = "derived/h264_cut_open_gop_720p.mp4"

#: Steps of READER_WALK at which decord returns a wrong frame, and the correct one: after seek(4) it
#: is 60 frames off, and [-1] is frame 77 of 88.
DECORD_WRONG = {3: 0, 4: 5, 5: 6, 18: 87}

#: Expressions of audio for which decord's result is wrong, and the correct one: it loses samples when it resamples, and
#: does not return the second channel of this file.
DECORD_WRONG_AUDIO = {
    "tuple((r[-1].asnumpy() * 32768).tolist())": [7999, -15998],
    "tuple((r[20:5:-3].asnumpy()[1] * 32768).tolist())": [-40, -34, -28, -22, -16],
    "tuple((r.get_batch([7, 2, -1, 2]).asnumpy()[0] * 32768).tolist())": [7, 2, 7999, 2],
    "A(audio, sample_rate=8000).shape": [1, 24000],
}


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def torch_or_skip():
    return pytest.importorskip("torch", exc_type=ImportError)


def skip_if_ffmpeg_links_dangle(reason: RuntimeError, folder: Path = Path(sys.prefix) / "lib" / "ffmpeg") -> None:
    """Skips a test whose torchcodec cannot load FFmpeg because the links of benches/peers/link_libraries.py dangle."""
    dangling = [link.name for link in sorted(folder.glob("*")) if not link.exists()]
    if dangling and "Could not load libtorchcodec" in str(reason):
        pytest.skip(
            f"torchcodec finds no FFmpeg: {', '.join(dangling)} in {folder} are links to missing files; run "
            f"{sys.executable} benches/peers/link_libraries.py"
        )


def array(frame) -> np.ndarray:
    return np.from_dlpack(frame)
