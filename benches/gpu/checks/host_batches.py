"""Page-locked batches on the host that PyTorch copies asynchronously: not overwritten before the copy has run."""

from __future__ import annotations

from collections.abc import Iterator

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
