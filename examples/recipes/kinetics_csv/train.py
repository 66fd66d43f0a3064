"""Trains a small R(2+1)D on the videos of a CSV file, on one process or several; a stopped run resumes exactly.

python train.py videos.csv --stop-after 5
python train.py videos.csv --resume
torchrun --nproc-per-node 2 train.py videos.csv
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
from pathlib import Path
from typing import Any

import ported
import torch
import torch.distributed as dist
from torch import nn

EPOCHS, CLIPS_PER_BATCH, BATCHES_PER_STEP, CROP = 2, 2, 2, 112


def factorized(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    """A convolution over space, and one over time."""
    space = nn.Conv3d(inputs, outputs, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
    time = nn.Conv3d(outputs, outputs, (3, 1, 1), padding=(1, 0, 0), bias=False)
    return [space, nn.BatchNorm3d(outputs), nn.ReLU(), time, nn.BatchNorm3d(outputs), nn.ReLU()]


@torch.no_grad()
def evaluate(model: nn.Module, loader: Any) -> str:
    """Averages the probabilities of the views of each video. Videos that only fill a batch do not count."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.int64)
    for batch in loader:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch.frames.flatten(0, 2)).float()
        predicted = logits.softmax(1).unflatten(0, batch.frames.shape[:3]).mean((1, 2)).argmax(1)
        counts += torch.stack([(predicted == batch.labels)[~batch.padding].sum(), (~batch.padding).sum()])
    dist.all_reduce(counts)
    return f"{counts[0]} of {counts[1]} videos right"


def run(table: Path, checkpoint: Path, stop_after: int | None, resume: bool) -> None:
    """Trains. The last line of each rank is the digest of its parameters."""
    rank = dist.get_rank()
    train, val = (ported.make_loader(table, split, CLIPS_PER_BATCH, CROP) for split in ("train", "val"))
    torch.manual_seed(0)
    layers = [*factorized(3, 8, 4), *factorized(8, 16, 4), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Dropout(0.2)]
    model = nn.Sequential(*layers, nn.Linear(16, len(train.dataset.classes)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    steps_per_epoch = -(-len(train) // BATCHES_PER_STEP)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * steps_per_epoch)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": train}
    torch.manual_seed(rank)  # of dropout, which differs between ranks
    if resume:
        saved = torch.load(checkpoint)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["generators"][rank])
    parallel = nn.parallel.DistributedDataParallel(model)

    def save() -> None:
        generators: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(generators, torch.get_rng_state())
        if rank == 0:
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**states, "generators": generators}, f"{checkpoint}.partial")
            Path(f"{checkpoint}.partial").replace(checkpoint)

    while train.epoch < EPOCHS:
        epoch = train.epoch
        parallel.train()
        for number, batch in enumerate(train, train.first_batch + 1):
            is_last = number % BATCHES_PER_STEP == 0 or number == len(train)
            with contextlib.nullcontext() if is_last else parallel.no_sync():
                with torch.autocast("cpu", torch.bfloat16):
                    logits = parallel(batch.frames)
                loss = nn.functional.cross_entropy(logits.float(), batch.labels)
                (loss / BATCHES_PER_STEP).backward()
            clips = f"clips {batch.clip_ids.tolist()} from frames {batch.indices[:, 0].tolist()}"
            print(f"epoch {epoch} batch {number}: {clips}, loss {loss.item()}", flush=True)
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
                if schedule.last_epoch == stop_after:
                    return save()
        # In evaluation the wrapper gives all ranks the statistics of rank 0, too.
        print(f"epoch {epoch}: {evaluate(parallel, val)}", flush=True)
        save()
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
    print(f"parameters {digest.hexdigest()[:16]}", flush=True)


def main() -> None:
    """Joins the ranks that torchrun starts, or trains alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="CSV file with the columns path, label name and split")
    parser.add_argument("--checkpoint", type=Path, default="checkpoint.pt", help="file, written after each epoch")
    parser.add_argument("--stop-after", type=int, metavar="STEPS", help="write the checkpoint after this step and stop")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    arguments = parser.parse_args()
    alone = {} if dist.is_torchelastic_launched() else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", **alone)
    run(**vars(arguments))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
