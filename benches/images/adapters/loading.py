"""PyTorch's DataLoader around a function from a path to a tensor, for libraries that decode single images."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch
from tasks import Job
from torch.utils.data import DataLoader, Dataset

from .base import Batch, order


class Files(Dataset):
    def __init__(self, job: Job, load: Callable[[str], torch.Tensor]) -> None:
        self.files = order(job)
        self.load = load

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        path, label = self.files[place]
        return self.load(path), label


def batches(job: Job, load: Callable[[str], torch.Tensor]) -> Iterator[Batch]:
    """Without workers, the job's threads are PyTorch's own, within an operation; each worker has one."""
    torch.set_num_threads(job.threads if job.workers == 0 else 1)
    torch.manual_seed(job.seed)
    loader = DataLoader(
        Files(job, load),
        batch_size=job.batch,
        num_workers=job.workers,
        drop_last=True,
        worker_init_fn=lambda worker: random.seed(job.seed + worker),
    )
    yield from loader
