"""The training examples on the GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from common import ROOT, missing
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: What a model that ignores the input reaches at most, in percent.
CHANCE = {"train_images.py": 100 / 6, "train_video.py": 100 / 8}
#: The videos of train_video.py, which needs an encoder to generate them.
VIDEOS = ROOT / "extra" / "training"


@item("training", seconds=120)
def training(context: Context) -> Iterator[Row]:
    """`--device cuda --short`: the examples run to their end, and the model learns."""
    asked = "runs on the GPU; accuracy at least three times that of chance"
    for script, chance in CHANCE.items():
        path = ROOT / "examples" / script
        if not path.is_file():
            yield Row(script, asked, IMPOSSIBLE, f"no {path}")
            continue
        if why := next(filter(None, map(missing, ("torch", "numpy", "PIL"))), None):
            yield Row(script, asked, IMPOSSIBLE, why)
            continue
        command = [sys.executable, str(path), "--device", "cuda", "--short"]
        if script == "train_video.py":
            if missing("imageio_ffmpeg") and not VIDEOS.is_dir():
                yield Row(script, asked, IMPOSSIBLE, f"neither imageio_ffmpeg, which encodes its videos, nor {VIDEOS}")
                continue
            if VIDEOS.is_dir():
                command += ["--data", str(VIDEOS)]
        with tempfile.TemporaryDirectory() as scratch:
            environment = {**os.environ, "TMPDIR": scratch}
            run = subprocess.run(
                command, capture_output=True, text=True, env=environment, cwd=scratch, timeout=context.left() + 30
            )
        accuracies = [float(number) for number in re.findall(r"accuracy ([0-9.]+) %", run.stdout)]
        speeds = [float(number) for number in re.findall(r"([0-9]+) items/s", run.stdout)]
        if run.returncode or not accuracies:
            yield Row(script, asked, FAILED, f"code {run.returncode}: {(run.stderr or run.stdout).strip()[-400:]}")
            continue
        figures = {"accuracy_percent": max(accuracies), "items_per_s": max(speeds), "epochs": len(accuracies)}
        learned = max(accuracies) >= 3 * chance
        yield Row(script, asked, OK if learned else FAILED, "" if learned else "it does not learn", figures)
