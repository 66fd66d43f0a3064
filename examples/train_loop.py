"""Shared by train_video.py and train_images.py: ranks, epochs, and checkpoints in the middle of an epoch.

The loader is used directly, without a DataLoader around it: it decodes on its own threads, and each rank creates one
for its own shard. `loader.state_dict()` is the position in the epoch and is saved in the checkpoint with the model and
the optimizer. `loader.load_state_dict()` continues directly after the last batch that was trained on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from framespool.torch import rank_and_world


@dataclass(frozen=True)
class Ranks:
    """This process and its rank in the run."""

    rank: int
    ranks: int
    device: torch.device

    @classmethod
    def join(cls, device: str) -> Ranks:
        """Joins the processes of ``torchrun``, or runs alone; ``device``: "auto", "cpu" or "cuda"."""
        place = rank_and_world()
        rank, ranks = place["shard_id"], place["num_shards"]
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        where = torch.device(device)
        if where.type == "cuda":
            where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(where)
        else:
            # Half of the cores run the model, the others decode. More threads than cores would wait for each other.
            here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // (2 * here)))
        if ranks > 1:
            torch.distributed.init_process_group("nccl" if where.type == "cuda" else "gloo")
        return cls(rank, ranks, where)

    def part(self) -> dict[str, int]:
        """The loader's rank arguments."""
        return {"shard_id": self.rank, "num_shards": self.ranks}

    def sum(self, *values: float) -> list[float]:
        """Each value, summed over all ranks."""
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.ranks > 1:
            torch.distributed.all_reduce(total)
        return total.tolist()

    def say(self, text: str) -> None:
        """Prints on rank 0 only."""
        if self.rank == 0:
            print(text, flush=True)

    def leave(self) -> None:
        """Destroys the process group."""
        if self.ranks > 1:
            torch.distributed.destroy_process_group()


def add_arguments(parser: argparse.ArgumentParser, *, epochs: int, batch_size: int) -> None:
    """Adds the options that both examples have."""
    parser.add_argument("--data", type=Path, help="folder for the generated set (default: a temporary one)")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch-size", type=int, default=batch_size, help="of each rank")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", action="store_true", help="smaller set and fewer epochs; less than a minute")
    parser.add_argument("--checkpoint", type=Path, help="checkpoint file, written every --save-every steps")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="resume from --checkpoint")
    parser.add_argument("--stop-after", type=int, metavar="STEPS", help="stop after this many steps, as if interrupted")
    parser.add_argument("--trace", type=Path, help="folder for logs of each rank's samples, one line per step")


class TrainingRun:
    """A model, its optimizer and its loader, trained and saved together."""

    def __init__(self, model: torch.nn.Module, loader: Any, ranks: Ranks, arguments: argparse.Namespace) -> None:
        self.ranks = ranks
        self.arguments = arguments
        self.loader = loader
        self.model = model.to(ranks.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=arguments.lr, weight_decay=0.02)
        self.step = 0
        #: Loss and number of samples, summed over the steps of this epoch.
        self.sums = [0.0, 0.0]
        if arguments.resume:
            self._load()
        # Gradients are averaged over the ranks as they are computed.
        self.parallel = torch.nn.parallel.DistributedDataParallel(self.model) if ranks.ranks > 1 else self.model

    def _load(self) -> None:
        saved = torch.load(self.arguments.checkpoint, map_location=self.ranks.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])
        self.step = saved["step"]
        # Random states of all ranks of the saved run; the number of ranks may differ now.
        self.sums = saved["sums"] if self.ranks.rank == 0 else [0.0, 0.0]
        self.ranks.say(
            f"resumed at step {self.step}: epoch {saved['loader']['epoch']}, batch {saved['loader']['batch']}"
        )

    def save(self) -> None:
        """Writes everything that the next step depends on. All ranks must call it."""
        path = self.arguments.checkpoint
        if path is None:
            return
        state = self.loader.state_dict()
        # After the last step of an epoch the state is the start of the next one, for which nothing is summed yet.
        sums = self.ranks.sum(*(self.sums if state["batch"] else (0.0, 0.0)))
        if self.ranks.rank == 0:
            saved = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                # The same on all ranks.
                "loader": state,
                "step": self.step,
                "sums": sums,
            }
            part = path.with_suffix(".part")
            torch.save(saved, part)
            part.replace(path)  # atomic: complete or absent

    def train(
        self, take: Callable[[Any], tuple[torch.Tensor, torch.Tensor, Any]], evaluate: Callable[[], float]
    ) -> None:
        """Runs all epochs. ``take`` converts a batch to (inputs, labels, names); ``evaluate`` returns the accuracy."""
        arguments, loader = self.arguments, self.loader
        total = arguments.epochs * len(loader)
        trace = None
        if arguments.trace is not None:
            arguments.trace.mkdir(parents=True, exist_ok=True)
            trace = (arguments.trace / f"{self.ranks.rank}.jsonl").open("a")
        while loader.epoch < arguments.epochs:
            epoch, began, waited = loader.epoch, time.perf_counter(), loader.stats()["consumer_wait_seconds"]
            done = 0
            self.model.train()
            for batch in loader:
                inputs, labels, names = take(batch)
                # A function of the step number, so no state needs saving.
                rate = arguments.lr * min(1.0, (self.step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * self.step / total))
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                loss = torch.nn.functional.cross_entropy(self.parallel(inputs), labels, label_smoothing=0.05)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step += 1
                done += len(labels)
                self.sums = [self.sums[0] + loss.item() * len(labels), self.sums[1] + len(labels)]
                if trace is not None:
                    print(json.dumps({"epoch": epoch, "step": self.step, "ids": names}), file=trace, flush=True)
                if self.step == arguments.stop_after:
                    self.save()
                    self.ranks.say(f"stopped after step {self.step}")
                    return
                if self.step % arguments.save_every == 0:
                    self.save()
            took = time.perf_counter() - began
            waited = loader.stats()["consumer_wait_seconds"] - waited
            loss, items = self.ranks.sum(*self.sums)
            (speed,) = self.ranks.sum(done / took)
            self.sums = [0.0, 0.0]
            accuracy = evaluate()
            self.ranks.say(
                f"epoch {epoch}: loss {loss / items:.3f}, accuracy {100 * accuracy:.1f} %, {speed:.0f} items/s, "
                f"{100 * waited / took:.0f} % of the time spent waiting for the loader"
            )
        self.save()

    @torch.no_grad()
    def accuracy(self, loader: Any, take: Callable[[Any], tuple[torch.Tensor, torch.Tensor, Any]]) -> float:
        """Share of the loader's samples that the model classifies correctly, each counted once over all ranks."""
        self.model.eval()
        right = seen = 0.0
        loader.set_epoch(0)
        for batch in loader:
            inputs, labels, _ = take(batch)
            # Samples that only pad the ranks to equal batch counts are counted on another rank.
            own = ~batch.padding.torch().to(inputs.device)
            right += (self.model(inputs).argmax(1) == labels)[own].sum().item()
            seen += own.sum().item()
        right, seen = self.ranks.sum(right, seen)
        return right / seen

    def digest(self) -> str:
        """SHA-256 of all parameters and buffers."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]
