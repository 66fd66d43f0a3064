"""Compares the preset "slowfast" with PySlowFast's arithmetic in PyTorch: `torch.linspace` in float32, clamped and
truncated. Also compares PyTorch with the NumPy form of it that the tests use.

    python benches/peers/check_sampling.py [--cases 20000] [--seed 0]

Run by hand; needs torch. PyTorch chooses its routines by the CPU: with AVX2, AVX-512 or on Arm they round a product and
a sum once, as the preset does. `ATEN_CPU_CAPABILITY=default` shows how rarely the others differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

try:
    import framespool as fsp
    import torch
except ImportError as error:
    print(f"check_sampling.py: skipped ({error})")
    sys.exit()

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "python"))
from presets_golden import torch_linspace  # noqa: E402


def differing_values(rng: np.random.Generator, cases: int) -> int:
    """Number of cases in which the NumPy form differs from torch.linspace in a float32 value."""
    differing = 0
    for _ in range(cases):
        start = rng.choice([0.0, rng.uniform(0, 5000)])
        end, count = start + rng.uniform(0, 500), int(rng.integers(1, 130))
        differing += not np.array_equal(torch.linspace(start, end, count).numpy(), torch_linspace(start, end, count))
    return differing


def differing_clips(rng: np.random.Generator, cases: int) -> int:
    """Number of cases in which the preset selects other frames than PyTorch."""
    differing = 0
    for _ in range(cases):
        count, rate = int(rng.choice([1, 4, 8, 16, 32, 64])), int(rng.choice([1, 2, 4, 8]))
        fps, length = float(rng.choice([12.5, 23.976, 24, 25, 29.97, 30, 50, 60])), int(rng.integers(1, 2000))
        drawn = float(rng.random())
        span = max(1.0, rate * count / 30 * fps)
        start = max(length - span, 0) * drawn
        index = torch.clamp(torch.linspace(start, start + span - 1, count), 0, length - 1).long().tolist()
        rule = fsp.samplers.preset("slowfast", num_frames=count, sampling_rate=rate)
        differing += rule.frames(length, fps=fps, draws=[drawn]).indices != index
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="cases of each kind (default: 20000)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    values, clips = differing_values(rng, options.cases), differing_clips(rng, options.cases)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; {options.cases} cases of each kind")
    print(f"torch.linspace against its NumPy form: {values} differ in a value")
    print(f"the preset slowfast against torch:     {clips} differ in a frame")
    return 1 if values or clips else 0


if __name__ == "__main__":
    sys.exit(main())
