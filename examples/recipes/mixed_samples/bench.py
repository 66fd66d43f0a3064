"""Measures both loaders in turn, each with two workers or threads; a batch is what the processor of the model makes.

python examples/recipes/mixed_samples/bench.py --rounds 5 VIDEO...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import bench_arguments, compare_speed  # noqa: E402
from qwen_vl_utils import vision_process  # noqa: E402

from dataset import COUNTS, write_records  # noqa: E402


def embed(inputs: dict[str, Any]) -> torch.Tensor:
    """A placeholder for the model: a number per sample that depends on all patches."""
    patches = [inputs[key].mean() for key in ("pixel_values", "pixel_values_videos") if key in inputs]
    return torch.full((inputs["num_samples"], 8), float(sum(patches, torch.tensor(0.0))))


def main() -> None:
    """Prints the table."""
    arguments = bench_arguments(__doc__, batch_size=(4, "samples per batch"))
    with tempfile.TemporaryDirectory() as folder:
        path = write_records(Path(folder), arguments.videos, 4 * len(COUNTS))
        size, workers = arguments.batch_size, arguments.workers
        reader = vision_process.get_video_reader_backend()
        loaders = {
            f"qwen-vl-utils ({reader})": lambda: original.make_loader(path, size, workers),
            "framespool": lambda: ported.make_loader(path, size, workers),
        }
        print("\n".join(compare_speed(loaders, arguments.rounds, embed)))


if __name__ == "__main__":
    main()
