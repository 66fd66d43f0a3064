"""Trains examples/train_video.py with the grouped and the full shuffle, some seeds each, and compares the accuracies.

    python benches/training_equivalence.py --data set/ --seeds 5

The clip cache holds a tenth of an epoch's clips, so that the grouped shuffle cannot spread clips over the whole epoch.
Needs PyTorch. The classes are motions, which a model cannot recognize from single frames.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from motion_videos import make_set  # noqa: E402

#: Bytes of a cached clip of the example: 6 frames of 32 x 32 in RGB.
CLIP_BYTES = 6 * 32 * 32 * 3
SHUFFLES = ("grouped", "full")


def accuracies(arguments: argparse.Namespace, shuffle: str, seed: int, budget: int) -> list[float]:
    """Validation accuracy after each epoch, in percent."""
    command = [sys.executable, ROOT / "examples" / "train_video.py", "--device", "cpu"]
    command += ["--videos", arguments.data / "train", "--validation", arguments.data / "val"]
    command += ["--dtype", "float32", "--epochs", str(arguments.epochs), "--seed", str(seed)]
    command += ["--shuffle", shuffle, "--cache", str(budget)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"training with seed {seed} failed:\n{done.stderr[-4000:]}")
    return [float(word) for word in re.findall(r"accuracy ([\d.]+) %", done.stdout)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder for the generated videos (default: a temporary one)")
    parser.add_argument("--videos", type=int, default=24, help="training videos per class (default 24)")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        arguments.data = arguments.data or Path(scratch)
        make_set(arguments.data, arguments.videos, max(4, arguments.videos // 4))
        clips = 8 * arguments.videos * 4
        budget = clips // 10 * CLIP_BYTES
        found: dict[str, list[list[float]]] = {shuffle: [] for shuffle in SHUFFLES}
        for seed in range(arguments.seeds):
            for shuffle in SHUFFLES:
                found[shuffle].append(accuracies(arguments, shuffle, seed, budget))
                print(f"seed {seed} {shuffle}: {found[shuffle][-1]}", file=sys.stderr)
    print(f"{clips} clips per epoch, 4 of each video; cache of {clips // 10} clips; {arguments.epochs} epochs\n")
    print(f"  {'shuffle':<10}{'last accuracy %':>16}{'deviation':>11}{'mean of last 3':>16}  of each seed")
    means = {}
    for shuffle, runs in found.items():
        last = [statistics.mean(run[-3:]) for run in runs]
        means[shuffle] = statistics.mean(last), statistics.stdev(last) if len(last) > 1 else 0.0
        ends = [run[-1] for run in runs]
        print(
            f"  {shuffle:<10}{statistics.mean(ends):>16.1f}{means[shuffle][1]:>11.1f}{means[shuffle][0]:>16.1f}  "
            + " ".join(f"{end:.1f}" for end in ends)
        )
    difference = abs(means["grouped"][0] - means["full"][0])
    deviation = max(deviation for _, deviation in means.values())
    print(f"\n  difference {difference:.1f}, standard deviation over the seeds {deviation:.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"clips": clips, "budget": budget, "accuracies": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
