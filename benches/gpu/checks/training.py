"""The training examples on the GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import ROOT, missing
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: What a model that ignores the input reaches at most, in percent.
CHANCE = {"train_images.py": 100 / 6, "train_video.py": 100 / 8}
#: The videos of train_video.py; motion_videos.py generates them, which needs an encoder.
VIDEOS = ROOT / "extra" / "training"


@item("training", seconds=120)
def training(context: Context) -> Iterator[Row]:
    """`--device cuda`: the examples run to their end, and the model learns."""
    asked = "runs on the GPU; accuracy at least three times that of chance"
    for script, chance in CHANCE.items():
        path = ROOT / "examples" / script
        if not path.is_file():
            yield Row(script, asked, IMPOSSIBLE, f"no {path}")
            continue
        if why := next(filter(None, map(missing, ("torch", "numpy", "PIL"))), None):
            yield Row(script, asked, IMPOSSIBLE, why)
            continue
        command = [sys.executable, str(path), "--device", "cuda"]
        with tempfile.TemporaryDirectory() as scratch:
            if script == "train_video.py":
                videos = VIDEOS if VIDEOS.is_dir() else Path(scratch) / "videos"
                if videos != VIDEOS:
                    if missing("imageio_ffmpeg"):
                        why = f"neither imageio_ffmpeg, which encodes its videos, nor {VIDEOS}"
                        yield Row(script, asked, IMPOSSIBLE, why)
                        continue
                    generate = [sys.executable, str(ROOT / "examples" / "motion_videos.py"), str(videos)]
                    subprocess.run([*generate, "--per-class", "20"], check=True)
                command += ["--videos", str(videos / "train"), "--validation", str(videos / "val"), "--epochs", "9"]
            environment = {**os.environ, "TMPDIR": scratch}
            run = subprocess.run(
                command, capture_output=True, text=True, env=environment, cwd=scratch, timeout=context.left() + 30
            )
        accuracies = [float(number) for number in re.findall(r"accuracy ([0-9.]+) %", run.stdout)]
        speeds = [float(number) for number in re.findall(r"([0-9]+) samples/s", run.stdout)]
        if run.returncode or not accuracies:
            yield Row(script, asked, FAILED, f"code {run.returncode}: {(run.stderr or run.stdout).strip()[-400:]}")
            continue
        figures = {"accuracy_percent": max(accuracies), "samples_per_s": max(speeds), "epochs": len(accuracies)}
        learned = max(accuracies) >= 3 * chance
        yield Row(script, asked, OK if learned else FAILED, "" if learned else "it does not learn", figures)
