"""Batches exported to other libraries: correct from the start, and not overwritten while they are read."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import clips, missing, version_of
from equality import Comparison
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item, python

ROUNDS = 200
CAPTURES = 100


def torch_or_reason() -> tuple[Any, str]:
    if why := missing("torch"):
        return None, why
    import torch

    if not torch.cuda.is_available():
        return None, f"torch {torch.__version__} has no CUDA support, or does not find this GPU"
    return torch, ""


def looped(**keywords: Any) -> Iterator[fsp.Batch]:
    """Endless small batches, so that their memory is soon reused."""
    dataset = [str(clip.path) for clip in clips("loader")]
    t = fsp.transforms
    loader = fsp.ClipLoader(
        dataset,
        fsp.samplers.RandomClips(sequence_length=8, stride=2, clips_per_video=4, padding="loop"),
        batch_size=2,
        transforms=[t.RandomResizedCrop(160), t.RandomHorizontalFlip()],
        shuffle="full",
        seed=9,
        prefetch_batches=1,
        index=False,
        **keywords,
    )
    while True:
        yield from loader


def weights(torch: Any, count: int) -> Any:
    """A weight for each byte: a weighted sum changes if any byte does."""
    drawn = torch.Generator().manual_seed(1)
    return torch.randint(1, 1 << 20, (count,), generator=drawn, dtype=torch.int64)


@item("torch-streams", seconds=240, checklist="DLPack")
def torch_streams(context: Context) -> Iterator[Row]:
    """Reads on busy side streams and drops the tensors at once: the reads run late, when the memory could be reused."""
    torch, why = torch_or_reason()
    name, asked = "torch", f"{ROUNDS} rounds on busy side streams, tensors dropped before they are read"
    if torch is None:
        yield Row(name, asked, IMPOSSIBLE, why)
        return
    ours, theirs = looped(device="cuda:0"), looped()
    streams = [torch.cuda.Stream() for _ in range(3)]
    # Work that occupies a stream for some milliseconds.
    heavy = torch.rand(4096, 4096, device="cuda")
    by_byte = None
    waiting: collections.deque[tuple[int, Any, Any, int]] = collections.deque()
    compared = Comparison()
    for number in range(ROUNDS):
        right = torch.from_dlpack(next(theirs).frames).flatten().to(torch.int64)
        if by_byte is None:
            by_byte = weights(torch, right.numel())
            by_byte_there = by_byte.cuda()
            torch.cuda.synchronize()
        frames = next(ours).frames
        with torch.cuda.stream(streams[number % 3]):
            busy = heavy
            for _ in range(4):
                busy = busy @ heavy
            tensor = torch.from_dlpack(frames)
            total = (tensor.flatten().to(torch.int64) * by_byte_there).sum()
            del tensor, frames
            computed = torch.cuda.Event()
            computed.record()
        waiting.append((number, total, computed, int((right * by_byte).sum())))
        while len(waiting) > 16:
            settle(waiting, compared)
    while waiting:
        settle(waiting, compared)
    if compared.same:
        yield Row(name, asked, OK, figures={"rounds": compared.cases, "torch": torch.__version__})
    else:
        yield Row(name, asked, FAILED, f"{compared.differing} rounds differ; {compared.first}")


def settle(waiting: Any, compared: Comparison) -> None:
    number, total, computed, right = waiting.popleft()
    compared.cases += 1
    # int() reads on the default stream, which does not wait for the side streams of PyTorch.
    computed.synchronize()
    if int(total) != right:
        compared.note(f"round {number}", f"{int(total)} and not {right}")


@item("held-stream", seconds=60, checklist="DLPack")
def held_stream(context: Context) -> Iterator[Row]:
    """Blocks the consumer's stream while it still has to read a batch: later batches have the CPU's bytes."""
    torch, why = torch_or_reason()
    holds, batches = 3, 8
    name, asked = "torch", f"{holds} times a stream is blocked for about a second with a batch still to be read"
    if torch is None:
        yield Row(name, asked, IMPOSSIBLE, why)
        return
    ours, theirs = looped(device="cuda:0"), looped()
    stream = torch.cuda.Stream()
    compared = Comparison()
    for hold in range(holds):
        with torch.cuda.stream(stream):
            # Cycles of the GPU's clock, which is at most 2 GHz.
            torch.cuda._sleep(2_000_000_000)
            read = torch.from_dlpack(next(ours).frames).clone()
        right = [torch.from_dlpack(next(theirs).frames).clone()]
        got = [torch.from_dlpack(next(ours).frames).clone() for _ in range(batches)]
        right += [torch.from_dlpack(next(theirs).frames).clone() for _ in range(batches)]
        torch.cuda.synchronize()
        for number, (mine, other) in enumerate(zip([read, *got], right, strict=True)):
            compared.cases += 1
            if not torch.equal(mine.cpu(), other):
                compared.note(f"hold {hold}, batch {number}", "its bytes differ from the CPU's")
    if compared.same:
        yield Row(name, asked, OK, figures={"batches": compared.cases})
    else:
        yield Row(name, asked, FAILED, f"{compared.differing} of {compared.cases} batches differ; {compared.first}")


@item("second-stream", seconds=60, checklist="DLPack")
def second_stream(context: Context) -> Iterator[Row]:
    """A prefetcher as in many training scripts: imports on a side stream, reads late on the main one, and drops."""
    torch, why = torch_or_reason()
    rounds = 60
    name, asked = "torch", f"{rounds} batches imported on a side stream and read 50 ms later on the main one"
    if torch is None:
        yield Row(name, asked, IMPOSSIBLE, why)
        return
    ours, theirs = looped(device="cuda:0"), looped()
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    sums, right, addresses = [], [], []
    by_byte = by_byte_there = None
    for _ in range(rounds):
        frames = torch.from_dlpack(next(theirs).frames).flatten().to(torch.int64)
        if by_byte is None:
            by_byte = weights(torch, frames.numel())
            by_byte_there = by_byte.cuda()
        right.append(int((frames * by_byte).sum()))
        batch = next(ours)
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(batch.frames)
        main.wait_stream(side)
        tensor.record_stream(main)
        addresses.append(tensor.data_ptr())
        torch.cuda._sleep(100_000_000)  # cycles of at most 2 GHz
        sums.append((tensor.flatten().to(torch.int64) * by_byte_there).sum())
        del tensor, batch  # the loader may write to this memory only after the sum
    torch.cuda.synchronize()
    wrong = [number for number, (a, b) in enumerate(zip(sums, right, strict=True)) if int(a) != b]
    figures = {"rounds": rounds, "differing": len(wrong), "addresses": len(set(addresses))}
    if wrong:
        yield Row(name, asked, FAILED, f"{len(wrong)} batches were overwritten before they were read", figures)
    elif len(set(addresses)) == rounds:
        yield Row(name, asked, IMPOSSIBLE, "no memory was used twice, so nothing was shown", figures)
    else:
        yield Row(name, asked, OK, figures=figures)


@item("torch-capture", seconds=120, checklist="captures")
def torch_capture(context: Context) -> Iterator[Row]:
    """Captures graphs while a loader's threads decode: neither may disturb the other."""
    torch, why = torch_or_reason()
    name, asked = "torch", f"{CAPTURES} graphs captured in mode global while a loader runs"
    if torch is None:
        yield Row(name, asked, IMPOSSIBLE, why)
        return
    ours, theirs = looped(device="cuda:0"), looped()
    start = torch.arange(1024, dtype=torch.float32, device="cuda")
    compared = Comparison()
    for number in range(CAPTURES):
        compared.cases += 1
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                end = start
                for _ in range(200):
                    end = end + 1
            graph.replay()
            if not torch.equal(end.cpu(), start.cpu() + 200):
                compared.note(f"graph {number}", "its replay gave a different result")
            if next(ours).frames.cpu().tobytes() != next(theirs).frames.tobytes():
                compared.note(f"batch {number}", "its bytes differ from the CPU's")
        except (RuntimeError, fsp.Error) as error:
            compared.note(f"graph {number}", f"{type(error).__name__}: {error}")
    if compared.same:
        yield Row(name, asked, OK, figures={"graphs": compared.cases, "torch": torch.__version__})
    else:
        yield Row(name, asked, FAILED, f"{compared.differing} of {compared.cases} differ; {compared.first}")


@item("torch-views", seconds=60, checklist="DLPack")
def torch_views(context: Context) -> Iterator[Row]:
    """Operations of a training loop on a batch."""
    torch, why = torch_or_reason()
    if torch is None:
        yield Row("torch", "views, dtypes, lifetimes", IMPOSSIBLE, why)
        return
    path = clips("loader")[0].path
    asked = "from_dlpack, .torch(), t[i], .cpu() have the CPU's bytes"
    for dtype in ("uint8", "float16", "bfloat16", "float32"):
        ours = fsp.Video(path, device="cuda:0", index=False).frames([0, 3, 9], dtype=dtype).frames
        theirs = fsp.Video(path, index=False).frames([0, 3, 9], dtype=dtype).frames
        right = theirs.torch()
        views = [torch.from_dlpack(ours), ours.torch(), torch.stack([ours[i].torch() for i in range(3)])]
        views += [ours.cpu().torch().cuda(), torch.from_dlpack(ours).clone()]
        same = all(view.is_cuda and torch.equal(view.cpu(), right) for view in views)
        yield Row(dtype, asked, OK if same else FAILED, "" if same else "a view differs")
    held = [torch.from_dlpack(batch.frames) for batch, _ in zip(looped(device="cuda:0"), range(8), strict=False)]
    want = [torch.from_dlpack(batch.frames) for batch, _ in zip(looped(), range(8), strict=False)]
    same = all(torch.equal(a.cpu(), b) for a, b in zip(held, want, strict=True))
    yield Row("kept", "eight batches kept while the loader goes on, and after it is gone", OK if same else FAILED)


CUPY = """
import cupy, numpy, framespool as fsp
ours = fsp.Video(PATH, device="cuda:0", index=False).frames([0, 3, 9]).frames
right = fsp.Video(PATH, index=False).frames([0, 3, 9]).frames.numpy()
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    a = cupy.from_dlpack(ours).copy()
    b = cupy.asarray(ours).copy()
stream.synchronize()
assert (a.get() == right).all(), "from_dlpack"
assert (b.get() == right).all(), "asarray, by __cuda_array_interface__"
print(cupy.__version__)
"""

JAX = """
import jax, numpy, framespool as fsp
ours = fsp.Video(PATH, device="cuda:0", index=False).frames([0, 3, 9]).frames
right = fsp.Video(PATH, index=False).frames([0, 3, 9]).frames.numpy()
assert any(d.platform == "gpu" for d in jax.devices()), "JAX finds no GPU"
assert (numpy.asarray(jax.dlpack.from_dlpack(ours)) == right).all(), "from_dlpack"
print(jax.__version__)
"""

NUMBA = """
from numba import cuda
import numba, framespool as fsp
ours = fsp.Video(PATH, device="cuda:0", index=False).frames([0, 3, 9]).frames
right = fsp.Video(PATH, index=False).frames([0, 3, 9]).frames.numpy()
assert (cuda.as_cuda_array(ours).copy_to_host() == right).all(), "as_cuda_array"
print(numba.__version__)
"""


@item("others", seconds=180, checklist="DLPack")
def others(context: Context) -> Iterator[Row]:
    """CuPy, JAX, Numba: each in its own process, since each handles the CUDA context differently."""
    path = str(clips("loader")[0].path)
    for module, program in (("cupy", CUPY), ("jax", JAX), ("numba", NUMBA)):
        asked = f"a batch in {module} has the CPU's bytes"
        if why := missing(module) or missing("numpy"):
            yield Row(module, asked, IMPOSSIBLE, why)
            continue
        run = python(f"PATH = {path!r}\n{program}", env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
        if run.returncode == 0:
            yield Row(module, asked, OK, figures={"version": run.stdout.strip()})
        elif "finds no GPU" in run.stderr or version_of(module) is None:
            yield Row(module, asked, IMPOSSIBLE, run.stderr.strip().splitlines()[-1])
        else:
            yield Row(module, asked, FAILED, run.stderr.strip()[-400:])


@item("interface", seconds=30, checklist="DLPack")
def interface(context: Context) -> Iterator[Row]:
    """The interfaces of a tensor that need no library."""
    path = clips("loader")[0].path
    data = fsp.Video(path, device="cuda:0", index=False).frames([0, 1]).frames
    described = data.__cuda_array_interface__
    right = (
        data.__dlpack_device__() == (2, 0)
        and described["shape"] == data.shape
        and described["typestr"] == "|u1"
        and described["data"][0] > 0
        and data.device == "cuda:0"
        and data.tobytes() == fsp.Video(path, index=False).frames([0, 1]).frames.tobytes()
        and data[1].tobytes() == data.cpu()[1].tobytes()
    )
    why = "" if right else f"{data!r}: {described}"
    yield Row("interface", "__dlpack_device__, __cuda_array_interface__, .cpu(), t[i]", OK if right else FAILED, why)
