"""Trains a video classifier on `videos/<class>/<file>`: one process or several, CPUs or GPUs.

    python examples/train_video.py --videos videos/                               # without a GPU too
    torchrun --nproc-per-node 8 examples/train_video.py --videos videos/          # one process per GPU
    python examples/train_video.py --checkpoint run/last.pt --resume              # starts, and continues

Mixed precision in bfloat16, a warm-up and a cosine schedule, accumulated gradients, and a validation that counts each
clip once. A run that is killed at any time and started again with `--resume` ends with the same parameters: bit for bit
on a CPU, and on a GPU if its kernels are deterministic. `examples/motion_videos.py` generates videos to try it with.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import time
from pathlib import Path
from typing import Any

import framespool as fsp
import torch
import torch.distributed as dist
from framespool.torch import ClipLoader
from torch.nn.parallel import DistributedDataParallel

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


class Net(torch.nn.Sequential):
    """A small 3D CNN, in place of your model: (N, 3, T, H, W) to (N, classes)."""

    def __init__(self, num_classes: int, dropout: float = 0.1, width: int = 12) -> None:
        layers: list[torch.nn.Module] = []
        for n, (kernel, stride) in enumerate([((3, 5, 5), (1, 2, 2)), ((3, 3, 3), (1, 2, 2)), ((3, 3, 3), (2, 2, 2))]):
            here, there = 3 if n == 0 else width << (n - 1), width << n
            padding = tuple(size // 2 for size in kernel)
            convolution = torch.nn.Conv3d(here, there, kernel, stride, padding, bias=False)
            layers += [convolution, torch.nn.BatchNorm3d(there), torch.nn.ReLU()]
        pool = [torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten(), torch.nn.Dropout(dropout)]
        super().__init__(*layers, *pool, torch.nn.Linear(there, num_classes))


class _HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of the description, and shows defaults."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options of every training program of this folder."""
    parser = argparse.ArgumentParser(description=description, formatter_class=_HelpFormatter)
    add = parser.add_argument
    add("--epochs", type=int, default=10, help="epochs in all")
    add("--batch-size", type=int, default=16, help="of each rank")
    add("--accumulate", type=int, default=1, metavar="BATCHES", help="batches of a rank per optimizer step")
    add("--lr", type=float, default=0.01, help="largest learning rate")
    add("--dtype", choices=DTYPES, default="bfloat16", help="of the frames, and of autocast")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    add("--seed", type=int, default=0)
    add("--save-every", type=int, default=500, metavar="STEPS", help="write a checkpoint after so many steps")
    add("--resume", action="store_true", help="continue from the checkpoint, if there is one")
    return parser


def add_loop_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the loop in this file."""
    add = parser.add_argument
    add("--warmup", type=int, default=20, metavar="STEPS", help="steps until the learning rate is reached")
    add("--checkpoint", type=Path, metavar="FILE", help="written every --save-every steps and after each epoch")
    add("--evaluate", action="store_true", help="validate the checkpoint, without training")
    add("--log-every", type=int, default=20, metavar="STEPS")


def add_clip_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the clips."""
    add = parser.add_argument
    add("--videos", type=Path, default=Path("videos"), help="folder with a folder of videos for each class")
    add("--validation", type=Path, metavar="FOLDER", help="the same for validation (default: every fifth video)")
    add("--frames", type=int, default=6, help="frames per clip")
    add("--size", type=int, default=32, help="width and height of the clips")
    add("--clips-per-video", type=int, default=4, help="of an epoch")
    add("--shuffle", choices=["grouped", "full"], default="grouped")
    add("--cache", default="2GiB", help="memory for clips that wait for their batch, per rank")
    add("--disk-cache", type=Path, metavar="FOLDER", help="keep clips of later epochs in a folder on a local disk")
    add("--disk-size", default="100GiB", help="maximum size of --disk-cache")
    add("--dropout", type=float, default=0.1)


def loader_arguments(arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the loaders for training and for validation."""
    t = fsp.transforms
    videos = fsp.datasets.folder(arguments.videos)
    if arguments.validation is None:
        held_out = range(0, len(videos), 5)
        training = videos.subset([n for n in range(len(videos)) if n not in held_out])
        validation = videos.subset(held_out)
    else:
        training, validation = videos, fsp.datasets.folder(arguments.validation)
        if training.classes != validation.classes:
            raise SystemExit(f"{arguments.videos} and {arguments.validation} have different folders of classes")
    on_disk = {"disk": arguments.disk_cache, "disk_size": arguments.disk_size, "epochs": 16}
    common = {
        "batch_size": arguments.batch_size,
        "layout": "NCTHW",
        "dtype": arguments.dtype,
        "device": arguments.device,  # with a GPU, batches are made in its memory
        "cache": fsp.Cache(arguments.cache, **(on_disk if arguments.disk_cache else {})),
        "seed": arguments.seed,
    }
    clip = {"sequence_length": arguments.frames, "stride": 2}
    normalize = t.Normalize((0.45,) * 3, (0.225,) * 3)
    train = {
        "dataset": training,
        "clip_sampler": fsp.samplers.RandomClips(**clip, clips_per_video=arguments.clips_per_video),
        # No flip here: it would turn a motion to the left into one to the right.
        "transforms": [t.RandomResizedCrop(arguments.size, scale=(0.7, 1.0)), normalize],
        "shuffle": arguments.shuffle,
        "last_batch": "drop",  # batches of one size: clips of all steps have the same weight
        "on_error": "replace",  # so do clips that replace those of damaged files
    }
    val = {
        "dataset": validation,
        "clip_sampler": fsp.samplers.UniformClips(**clip, clips_per_video=2),
        "transforms": [t.Resize((arguments.size, arguments.size)), normalize],
        "on_error": "skip",
    }
    return {**train, **common}, {**val, **common}


def say(text: str) -> None:
    """Prints on rank 0."""
    if dist.get_rank() == 0:
        print(text, flush=True)


def total(*values: float | torch.Tensor, device: torch.device) -> list[float]:
    """Each value, summed over all ranks."""
    summed = torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)
    dist.all_reduce(summed)
    return summed.tolist()


def join(device: str) -> torch.device:
    """Joins the processes that `torchrun` started, or forms a group of one process; returns the device."""
    if device == "cuda":
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(where)
        torch.cuda.init()  # "cuda" is this device, also for the loaders
    else:
        where = torch.device("cpu")
        # Half of the cores run the model, the others decode. More threads than cores would wait for each other.
        ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // (2 * ranks_here)))
        torch.use_deterministic_algorithms(True)
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("nccl" if device == "cuda" else "gloo", **alone)
    return where


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint on rank 0. The file is always complete: the old one or the new one."""
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


@torch.no_grad()
def validate(model: torch.nn.Module, loader: Any, arguments: argparse.Namespace) -> str:
    """Loss and accuracy over all ranks. Each clip counts once, and each time it is the same clip."""
    device = next(model.parameters()).device
    loss, right, clips = torch.zeros(3, dtype=torch.float64, device=device)
    for buffer in model.buffers():
        # Each rank has its own running statistics; those of rank 0 are saved, and validated here.
        dist.broadcast(buffer, 0)
    loader.set_epoch(0)
    model.eval()
    for batch in loader:
        inputs, labels = batch
        # Clips that fill a batch, so that all ranks have equal batches, count on another rank.
        own = ~batch.padding.to(device)
        with torch.autocast(device.type, DTYPES[arguments.dtype], enabled=arguments.dtype != "float32"):
            outputs = model(inputs).float()
        loss += torch.nn.functional.cross_entropy(outputs[own], labels[own], reduction="sum")
        right += (outputs.argmax(1) == labels)[own].sum()
        clips += own.sum()
    model.train()
    loss, right, clips = total(loss, right, clips, device=device)
    return f"loss {loss / clips:.4f}, accuracy {100 * right / clips:.2f} % of {clips:.0f} samples"


def fit(model: torch.nn.Module, training: Any, validation: Any, arguments: argparse.Namespace) -> None:
    """Trains, validates after each epoch, and saves everything that the next step depends on."""
    device, path = next(model.parameters()).device, arguments.checkpoint
    if path is None and (arguments.resume or arguments.evaluate):
        raise SystemExit("--resume and --evaluate need --checkpoint, the file to read")
    if arguments.evaluate:
        model.load_state_dict(torch.load(path, map_location=device, weights_only=True)["model"])
        say(validate(model, validation, arguments))
        return
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.02)
    steps = arguments.epochs * math.ceil(len(training) / arguments.accumulate)

    def rate(step: int) -> float:
        if step < arguments.warmup:
            return (step + 1) / arguments.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - arguments.warmup) / max(1, steps - arguments.warmup)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": training}
    step = 0
    if arguments.resume and path.exists():
        saved = torch.load(path, map_location=device, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        step = saved["step"]
        say(f"resumed at step {step}: epoch {training.epoch}, batch {training.first_batch}")

    # Sends rank 0's parameters to the others, and averages the gradients over all ranks.
    parallel = DistributedDataParallel(model)
    while training.epoch < arguments.epochs:
        epoch, samples, began = training.epoch, 0, time.perf_counter()
        waited = training.stats()["consumer_wait_seconds"]
        # After a resume the first iteration begins in the middle of its epoch.
        for number, batch in enumerate(training, training.first_batch + 1):
            inputs, labels = batch
            # Random numbers of the model, here of its dropout, depend on the batch and need no state.
            torch.manual_seed((arguments.seed << 40) + (epoch * len(training) + number) * 4096 + dist.get_rank())
            # The last step of an epoch may have fewer batches.
            first = (number - 1) // arguments.accumulate * arguments.accumulate
            batches = min(arguments.accumulate, len(training) - first)
            is_last = number == first + batches
            with contextlib.nullcontext() if is_last else parallel.no_sync():
                with torch.autocast(device.type, DTYPES[arguments.dtype], enabled=arguments.dtype != "float32"):
                    loss = torch.nn.functional.cross_entropy(parallel(inputs), labels, label_smoothing=0.05)
                (loss / batches).backward()
            samples += len(labels)
            if not is_last:
                continue
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            if step % arguments.log_every == 0:
                (mean,) = total(loss.detach() / dist.get_world_size(), device=device)
                say(f"step {step}: loss {mean:.4f}, learning rate {schedule.get_last_lr()[0]:.2g}")
            if path is not None and step % arguments.save_every == 0:
                save(path, {**{name: part.state_dict() for name, part in parts.items()}, "step": step})
        took = time.perf_counter() - began
        waited = training.stats()["consumer_wait_seconds"] - waited
        (speed,) = total(samples / took, device=device)
        say(f"epoch {epoch}: {validate(model, validation, arguments)}")
        say(f"epoch {epoch}: {speed:.0f} samples/s, {100 * waited / took:.0f} % of the time waiting for the loader")
        if path is not None:
            save(path, {**{name: part.state_dict() for name, part in parts.items()}, "step": step})
    for failure in (*training.failures(), *validation.failures()):
        print(f"not used: {failure['message']}", flush=True)
    say(f"parameters {digest(model)}")


def digest(model: torch.nn.Module) -> str:
    """SHA-256 of the parameters and buffers, to compare runs."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        hashed.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


def main() -> None:
    parser = parser_of(__doc__)
    add_loop_arguments(parser)
    add_clip_arguments(parser)
    arguments = parser.parse_args()
    device = join(arguments.device)
    try:
        train, val = loader_arguments(arguments)
        training, validation = ClipLoader(**train), ClipLoader(**val)  # the shards are those of the process group
        say(f"{training.num_clips} clips per epoch, {len(training)} batches on each of {dist.get_world_size()} ranks")
        torch.manual_seed(arguments.seed)
        fit(Net(len(training.dataset.classes), arguments.dropout).to(device), training, validation, arguments)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
