"""Shared by the programs: their options, a small model, and what the tests compare."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import torch


def read_arguments(description: str) -> argparse.Namespace:
    """Reads the command line of a program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path, help="folder with train/<class>/ and val/<class>/")
    parser.add_argument("--folder", type=Path, default=Path("run"), help="folder of the checkpoints")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="threads, or processes that decode")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS", help="steps between checkpoints")
    parser.add_argument("--stop-after", type=int, metavar="STEPS", help="stop after this many steps, as if interrupted")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint")
    return parser.parse_args()


def count_classes(videos: Path) -> int:
    """The number of classes for training."""
    return sum(1 for _ in (videos / "train").iterdir())


def make_model(num_classes: int) -> torch.nn.Module:
    """A placeholder for a pretrained video classifier: one embedding per patch, averaged; random weights.

    It takes (N, 3, T, H, W) float32 and returns (N, num_classes) float32.
    """
    torch.manual_seed(0)
    embed = torch.nn.Conv3d(3, 16, (2, 16, 16), (2, 16, 16))
    pool = [torch.nn.GELU(), torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten()]
    return torch.nn.Sequential(embed, *pool, torch.nn.Dropout(0.1), torch.nn.Linear(16, num_classes))


def print_step(step: int, batch: dict[str, Any]) -> None:
    """Prints what a step trains on."""
    print(f"step {step}: clips {batch['clip_ids'].tolist()}, frames {batch['indices'].tolist()}", flush=True)


def print_parameters(model: torch.nn.Module) -> None:
    """Prints the SHA-256 of all parameters."""
    data = b"".join(value.detach().cpu().numpy().tobytes() for value in model.parameters())
    print(f"parameters {hashlib.sha256(data).hexdigest()[:16]}")
