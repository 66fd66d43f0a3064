"""Processes: fork, interpreter exit, GPU memory held by others."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import TRY, clips, timed
from cuda import Driver
from equality import Comparison, Outcome, batches, differ
from items import FAILED, OK, Context, Row, item, python

HEAD = """
import os, sys, threading, time
import framespool as fsp
PATHS = {paths!r}
def loader(**keywords):
    small = [fsp.transforms.Resize((120, 160))]
    common = dict(batch_size=2, transforms=small, device=fsp.Gpu(0, decoder="nvdec"), index=False)
    return fsp.ClipLoader(PATHS, fsp.samplers.Windows(sequence_length=8), **(common | keywords))
"""

FORK = """
held = loader()
video = fsp.Video(PATHS[0], device="cuda:0", index=False)
batch = next(iter(held))
child = os.fork()
if child == 0:
    wrong = 0
    for what, call in (
        ("Video", lambda: video.frames([0])),
        ("loader", lambda: next(iter(held))),
        ("new Video", lambda: fsp.Video(PATHS[0], device="cuda:0", index=False).frames([0])),
        ("new loader", lambda: next(iter(loader()))),
        ("tensor", lambda: batch.frames.tobytes()),
    ):
        try:
            call()
            print(what, "worked in the child", flush=True)
            wrong += 1
        except fsp.errors.ForkedError as error:
            assert "spawn" in str(error) or "fork" in str(error), error
        except Exception as error:
            print(what, "raised", type(error).__name__, error, flush=True)
            wrong += 1
    # Decoding on the CPU still works.
    fsp.Video(PATHS[0], index=False).frames([0])
    os._exit(wrong)
_, status = os.waitpid(child, 0)
assert next(iter(held)).frames.tobytes()
sys.exit(os.waitstatus_to_exitcode(status))
"""

ENDS = {
    "in the middle of an epoch": "held = loader(); it = iter(held); next(it)",
    "while a batch is alive": "batch = next(iter(loader())); text = batch.frames.tobytes()",
    "sys.exit in the loop": "for batch in loader(): sys.exit(0)",
    "loader dropped, batch kept": (
        "import gc\nbatch = next(iter(loader())); gc.collect(); text = batch.frames.tobytes()"
    ),
    "an uncaught exception": (
        "sys.excepthook = lambda *a: None\n"  # its traceback is expected
        "held = loader(); next(iter(held)); raise ValueError"
    ),
    "three loaders, two videos": (
        "held = [loader() for _ in range(3)]; its = [iter(h) for h in held]; [next(i) for i in its]\n"
        "videos = [fsp.Video(p, device='cuda:0', index=False) for p in PATHS[:2]]; frames = [v[0] for v in videos]"
    ),
    "batches in another thread": (
        "held = loader()\nthread = threading.Thread(target=lambda: [None for _ in held]); thread.start(); thread.join()"
    ),
    "with torch at work": (
        "try:\n    import torch\n    cuda = torch.cuda.is_available()\nexcept ImportError:\n    cuda = False\n"
        "if cuda:\n    held = loader(); t = torch.from_dlpack(next(iter(held)).frames); s = torch.cuda.Stream()\n"
        "    with torch.cuda.stream(s):\n        u = (t.float() * 2).sum()\n"
    ),
}


def head() -> str:
    return HEAD.format(paths=[str(clip.path) for clip in clips("loader")])


@item("fork", seconds=90)
def fork(context: Context) -> Iterator[Row]:
    """CUDA does not survive fork(); framespool must report that."""
    run = python(head() + FORK)
    right = run.returncode == 0
    why = "" if right else f"code {run.returncode}: {run.stdout.strip()[-300:]} {run.stderr.strip()[-300:]}"
    yield Row("fork", "the child gets an error, the parent continues", OK if right else FAILED, why)


@item("exit", seconds=240)
def ends(context: Context) -> Iterator[Row]:
    """No crash and no hang at interpreter exit, even with decoding in progress."""
    for name, program in ENDS.items():
        try:
            run = python(head() + program, timeout=60)
        except subprocess.TimeoutExpired:
            yield Row(name, "the process exits", FAILED, "it hangs: still running after 60 s")
            continue
        right = run.returncode == ("raise" in program) and not run.stderr.strip()
        why = "" if right else f"code {run.returncode}: {run.stderr.strip()[-400:]}"
        yield Row(name, "the process exits, silently", OK if right else FAILED, why)


@item("close", seconds=60)
def close(context: Context) -> Iterator[Row]:
    """A closed loader releases its device memory; decoders are kept deliberately."""
    from framespool import gpu

    driver = Driver()

    def used() -> int:
        gpu.clear_decoder_cache()
        free, total = driver.memory()
        return total - free

    paths = [str(clip.path) for clip in clips("loader")]
    held = []
    sampling = fsp.samplers.UniformClips(sequence_length=8, stride=2, clips_per_video=2)
    small = [fsp.transforms.Resize((240, 320))]
    keywords: dict[str, Any] = {
        "batch_size": 4,
        "transforms": small,
        "device": fsp.Gpu(0, decoder="nvdec"),
        "index": False,
    }
    for _ in range(6):
        loader = fsp.ClipLoader(paths, sampling, **keywords)
        for _ in loader:
            pass
        del loader
        held.append(used())
    figures = {"used_MB": [round(size / 1e6) for size in held]}
    # The first round allocates what the process keeps; later rounds must not add to it.
    right = held[-1] <= held[1] + 32 * 2**20
    yield Row("close", "six loaders in sequence: memory does not grow", OK if right else FAILED, "", figures)


@item("memory", seconds=180)
def memory(context: Context) -> Iterator[Row]:
    """With nearly all device memory taken by another allocation: correct batches, or a clear error, and no hang."""
    driver = Driver()
    paths = [str(clip.path) for clip in timed("bench", "1080p/")][:2]
    keywords: dict[str, Any] = {
        "batch_size": 2,
        "transforms": [fsp.transforms.Resize((128, 128))],
        "index": False,
        "last_batch": "drop",
    }
    sampling = fsp.samplers.UniformClips(sequence_length=8, stride=2, clips_per_video=4)
    cpu = batches(fsp.ClipLoader(paths, sampling, **keywords))
    right = {tuple(batch.clip_ids.tolist()): outcome for outcome, batch in cpu}
    # Kernels and streams of the first use must not be what fails.
    list(fsp.ClipLoader(paths[:1], sampling, device=fsp.Gpu("cuda:0", decoder="nvdec", threads=1), **keywords))
    for leave_bytes in (2 << 30, 512 << 20, 128 << 20, 32 << 20, 1 << 20):
        from framespool import gpu

        gpu.clear_decoder_cache()
        name = f"{leave_bytes >> 20} MiB left"
        with driver.occupied(leave_bytes) as free:
            asked = "batches == CPU's, or GpuError"
            begun = Outcome.of(
                lambda: [fsp.ClipLoader(paths, sampling, device=fsp.Gpu("cuda:0", decoder="nvdec"), **keywords)]
            )
            if begun.error is not None:
                yield Row(name, asked, *clear(begun.error), {"free_MB": free / 1e6})
                continue
            loader = begun.tensors[0]
            compared, errors = Comparison(), []
            # A batch without memory is not delivered: the next request is for the same batch.
            for left, batch in batches(loader):
                if left.error is not None:
                    errors.append(left.error)
                    continue
                clip_ids = tuple(batch.clip_ids.tolist())
                differ(f"clips {clip_ids}", left, right[clip_ids], compared)
            stats = loader.stats()
            figures = {
                "free_MB": free / 1e6,
                "batches": compared.cases,
                "errors": len(errors),
                "workers": stats["nvdec_threads"],
                "by_gpu": stats["frames_decoded_by_gpu"],
                "cpu_fallbacks": sum(stats["cpu_fallbacks"].values()),
            }
            del loader, begun
            if not compared.same:
                yield Row(name, asked, FAILED, compared.first, figures)
            elif errors:
                yield Row(name, asked, *clear(errors[0]), figures)
            else:
                yield Row(name, asked, OK, "; ".join(stats["cpu_fallbacks"])[:300], figures)
    after = fsp.ClipLoader(paths, sampling, device=fsp.Gpu("cuda:0", decoder="nvdec"), **keywords)
    compared = Comparison()
    for (left, _), (clip_ids, want) in zip(batches(after), right.items(), strict=True):
        differ(f"clips {clip_ids}", left, want, compared)
    yield Row("afterwards", "everything works again", OK if compared.same else FAILED, compared.first)


@item("memory-loader", seconds=30)
def memory_loader(context: Context) -> Iterator[Row]:
    """NVDEC with 1.5 GB left from the start, then with none left while it runs, then with all of it again."""
    from framespool import gpu

    driver = Driver()
    paths = [str(clip.path) for clip in timed("bench", "1080p/")][:2] * (2 if TRY else 12)
    keywords: dict[str, Any] = {
        "batch_size": 2,
        "transforms": [fsp.transforms.Resize((128, 128))],
        "index": False,
        "last_batch": "drop",
    }
    sampling = fsp.samplers.RandomClips(sequence_length=8, stride=2, padding="loop")
    right = [outcome for outcome, _ in batches(fsp.ClipLoader(paths, sampling, **keywords))]
    gpu.clear_decoder_cache()
    with driver.occupied(min(1_500_000_000, driver.memory()[0])) as free:
        loader = fsp.ClipLoader(paths, sampling, device=fsp.Gpu("cuda:0", decoder="nvdec"), **keywords)
        yield compared_epoch("1.5 GB left at the start", loader, right, free)
        yield compared_epoch("nothing left after the first batch", loader, right, 0, driver)
        yield compared_epoch("1.5 GB again", loader, right, driver.memory()[0], recovered=True)


def compared_epoch(
    name: str,
    loader: fsp.ClipLoader,
    right: list[Outcome],
    free_bytes: int,
    driver: Driver | None = None,
    recovered: bool = False,
) -> Row:
    """An epoch whose batches must be the CPU's; without memory a batch may be an error that states it."""
    before = loader.stats()
    loader.set_epoch(0)
    compared, errors = Comparison(), []
    with contextlib.ExitStack() as stack:
        for number, (ours, _) in enumerate(batches(loader)):
            if number == 0 and driver:
                stack.enter_context(driver.occupied(0))
            if ours.error is not None:
                errors.append(ours.error)
            else:
                # A batch without memory is not delivered: the next request is for the same batch.
                differ(f"batch {number}", ours, right[number - len(errors)], compared)
    stats = loader.stats()
    figures = {
        "free_MB": free_bytes / 1e6,
        "batches": compared.cases,
        "errors": len(errors),
        "workers": stats["nvdec_threads"],
        "by_gpu": stats["frames_decoded_by_gpu"] - before["frames_decoded_by_gpu"],
        "decoded": stats["frames_decoded"] - before["frames_decoded"],
    }
    asked = "batches == CPU's" + ("" if recovered else ", or GpuError")
    if not compared.same:
        return Row(name, asked, FAILED, compared.first, figures)
    if errors:
        result, why = clear(errors[0])
        return Row(name, asked, FAILED if recovered else result, why, figures)
    return Row(name, asked, OK, "; ".join(stats["cpu_fallbacks"])[:300], figures)


def clear(error: fsp.Error) -> tuple[str, str]:
    """Whether the error states the cause."""
    clear = isinstance(error, fsp.errors.GpuError) and "memory" in str(error)
    return OK if clear else FAILED, f"{type(error).__name__}: {error}"
