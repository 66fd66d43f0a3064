"""Page-locked batches on the host that PyTorch copies asynchronously: not overwritten before the copy has run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import clips
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

from checks.handover import looped, torch_or_reason

ROUNDS = 60


@item("host-batches", seconds=90, checklist="DLPack")
def host_batches(context: Context) -> Iterator[Row]:
    """Copies by `batch.to(non_blocking=True)`, and by the caller on the default stream, after work that delays them."""
    torch, why = torch_or_reason()
    asked = f"{ROUNDS} copies that run late, the batches dropped at once"
    if torch is None:
        yield Row("torch", asked, IMPOSSIBLE, why)
        return
    torch.cuda.init()
    for name, own_stream in (("batch.to(), side stream", True), ("copy by the caller, default stream", False)):
        ours, theirs = looped(), looped(pin_memory=False)
        stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
        results = []
        locked = True
        for _ in range(ROUNDS):
            right = next(theirs).frames.torch().clone()
            batch = next(ours)
            locked &= batch.frames.torch().is_pinned()
            with torch.cuda.stream(stream):
                # Cycles of the GPU's clock, which is at most 2 GHz: about 20 ms.
                torch.cuda._sleep(40_000_000)
                if own_stream:
                    copied = batch.to("cuda", non_blocking=True).frames
                else:
                    copied = batch.frames.torch().to("cuda", non_blocking=True)
            del batch
            results.append((copied, right))
        torch.cuda.synchronize()
        differing = sum(not torch.equal(copied.cpu(), right) for copied, right in results)
        if not locked:
            yield Row(name, asked, FAILED, "PyTorch does not recognize the memory as pinned")
        elif differing:
            yield Row(name, asked, FAILED, f"{differing} of {ROUNDS} copies have other bytes")
        else:
            yield Row(name, asked, OK, figures={"rounds": ROUNDS, "torch": torch.__version__})
    yield data_loader(torch)


def data_loader(torch: Any) -> Row:
    """`pin_memory=True` of PyTorch's DataLoader, whose thread pins what a batch consists of."""
    from framespool.torch import ClipDataset

    name, asked = "DataLoader(pin_memory=True)", "every tensor of every batch is pinned"
    keywords: dict[str, Any] = {"batch_size": 2, "seed": 9, "index": False}
    sampling = fsp.samplers.RandomClips(sequence_length=8, stride=2, padding="loop")
    dataset = ClipDataset([str(clip.path) for clip in clips("loader")], sampling, **keywords)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, pin_memory=True)
    tensors = 0
    for batch in loader:
        for field, value in batch.items():
            if torch.is_tensor(value):
                tensors += 1
                if not value.is_pinned():
                    return Row(name, asked, FAILED, f"{field} is not pinned")
    if not tensors:
        return Row(name, asked, FAILED, "the loader delivered no tensor")
    return Row(name, asked, OK, figures={"tensors": tensors})
