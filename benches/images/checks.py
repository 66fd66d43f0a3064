"""The lines of the tables, the expected result of each, and its checks.

Each line has three checks. With all random parameters pinned: its pixels against float64 arithmetic and its labels
against the files'. For random tasks: its draws, read back from an image of coordinates. And two batches as timed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import image_sets
import numpy as np
import reference
from processes import WorkerError, WorkerProcess
from tasks import BATCH, Job, geometry_only, pinned, timed

# Compared images of each set, and draws that are read back.
COMPARED = 6
DRAWS = 192

# Mean absolute difference from the reference, in code values. Rounding once gives 0.25; a shift by one pixel gives 7
# on these images at 224x224.
SAME = 0.0
ROUNDED = 0.75
# Colors are truncated to 8 bits after each step, not rounded.
CUT_OFF = 1.25
# Chroma is repeated, not interpolated, or libjpeg decoded a smaller image first.
NEAR = 1.75


@dataclass(frozen=True)
class Entry:
    """A line of a task's tables."""

    task: str
    label: str
    side: str
    variant: str = ""
    tolerance: float = ROUNDED
    kernel: str = "triangle"
    # Whether PyTorch's DataLoader creates the batches, which needs a choice of the number of workers.
    by_loader: bool = False
    note: str = ""


@dataclass(frozen=True)
class Result:
    text: str
    wrong: bool = False

    def __str__(self) -> str:
        return f"WRONG {self.text}" if self.wrong else self.text


def pipelines(task: str) -> list[Entry]:
    aliases = {"kernel": "two taps", "note": "aliases: two pixels for each, at every scale"}
    by_steps = CUT_OFF if task == "augment" else ROUNDED
    once = {"kernel": "once", "note": "of the two resizes one is made"} if task == "augment" else {}
    entries = [
        Entry(task, "framespool", "framespool", "", NEAR, **once),
        Entry(task, "framespool, exact", "framespool", "exact", **once),
        # Its longer side keeps its fraction of a pixel (subpixel_scale).
        Entry(task, "DALI", "dali", "", NEAR if task == "eval" else ROUNDED),
        Entry(task, "torchvision, tensors", "torchvision", "", by_steps, by_loader=True),
        Entry(task, "torchvision, Pillow", "torchvision", "pil", by_steps, by_loader=True),
    ]
    if task == "train":
        part = Entry(task, "DALI, image_random_crop", "dali", "part", note="decodes the rows that it needs")
        entries.insert(3, part)
    if task != "augment":
        entries += [
            Entry(task, "Pillow", "pillow", "", by_loader=True),
            Entry(task, "Pillow, draft", "pillow", "draft", NEAR, by_loader=True),
        ]
    entries += [
        Entry(task, "OpenCV", "opencv", "", by_loader=True, **aliases),
        Entry(task, "simplejpeg, OpenCV", "opencv", "simplejpeg", by_loader=True, **aliases),
        Entry(task, "simplejpeg scaled, OpenCV area", "opencv", "scaled", NEAR, "area", by_loader=True),
    ]
    if task != "augment":
        entries.append(Entry(task, "SPDL", "spdl", "", NEAR))
    return entries


ENTRIES: dict[str, list[Entry]] = {task: pipelines(task) for task in ("train", "augment", "eval", "square")}
ENTRIES["decode"] = [
    Entry("decode", "framespool", "framespool", "", NEAR, note="decode_images, a batch a call"),
    Entry("decode", "framespool, exact", "framespool", "exact", SAME),
    Entry("decode", "framespool, ImageLoader", "framespool", "loader", NEAR),
    Entry("decode", "framespool, ImageLoader, exact", "framespool", "loader exact", SAME),
    Entry("decode", "DALI", "dali"),
    Entry("decode", "torchvision.io", "torchvision"),
    Entry("decode", "Pillow", "pillow"),
    Entry("decode", "simplejpeg", "opencv", "simplejpeg"),
    Entry("decode", "simplejpeg, fast", "opencv", "fast", NEAR, note="fast IDCT, no fancy upsampling"),
    Entry("decode", "OpenCV", "opencv"),
    Entry("decode", "SPDL", "spdl", "", NEAR, note="FFmpeg's decoder and swscale"),
]


def check(worker: WorkerProcess, entry: Entry, source: Path, folder: Path) -> dict[str, Result]:
    """Results by name of the check, up to the first failure."""
    results: dict[str, Result] = {}
    steps = {"pixels": pixels, "draws": draws, "batches": batches}
    if timed(entry.task) is None:
        del steps["draws"]
    for name, step in steps.items():
        try:
            results[name] = step(worker, entry, source, folder)
        except (WorkerError, ValueError) as error:
            results[name] = Result(str(error), wrong=True)
        if results[name].wrong:
            break
    return results


def images_of(worker: WorkerProcess, job: Job, count: int) -> tuple[list[np.ndarray], list[int]]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "answer.npz"
        worker.ask({"do": "check", "job": job.to_json(), "count": count, "path": str(path)})
        with np.load(path) as saved:
            return [saved[name] for name in sorted(saved.files) if name != "labels"], saved["labels"].tolist()


def pixels(worker: WorkerProcess, entry: Entry, source: Path, folder: Path) -> Result:
    """All random parameters pinned; images are tested one by one, since pinning a crop depends on their shape."""
    apart = []
    for name in image_sets.SETS:
        files = image_sets.make(name, source, folder, 1)
        for file in files[:: max(1, len(files) // COMPARED)][:COMPARED]:
            height, width = reference.rgb(file[0]).shape[:2]
            fixed = pinned(entry.task, width / height)
            job = Job(entry.task, [file], entry.variant, batch=1, shuffle=False, draws=fixed)
            (image,), labels = images_of(worker, job, 1)
            if labels != [file[1]]:
                raise ValueError(f"label {labels} for {file[1]}")
            apart.append(reference.difference(job, image, file[0], entry.kernel))
    mean, largest = float(np.mean([mean for mean, _ in apart])), max(most for _, most in apart)
    return Result(f"off by {mean:.2f} (max {largest:.0f})", wrong=not mean <= entry.tolerance)


def draws(worker: WorkerProcess, entry: Entry, source: Path, folder: Path) -> Result:
    """Repeated draws for one image."""
    plain = geometry_only(timed(entry.task))
    files = [(image_sets.coordinates(folder), 0)] * DRAWS
    job = Job(entry.task, files, entry.variant, batch=BATCH, draws=plain, seed=7)
    images, _ = images_of(worker, job, DRAWS)
    failure = reference.check_draw_statistics(plain, [reference.read_back(job, image) for image in images])
    return Result(failure or "fair dice", wrong=bool(failure))


def batches(worker: WorkerProcess, entry: Entry, source: Path, folder: Path) -> Result:
    """Two batches as timed: type, shape, an order that differs from the files', plausible values."""
    files = image_sets.make("imagenet", source, folder, 3 * BATCH)
    job = Job(entry.task, files, entry.variant, draws=timed(entry.task), seed=3)
    images, labels = images_of(worker, job, 2 * BATCH)
    if len(images) != 2 * BATCH:
        raise ValueError(f"{len(images)} images in two batches")
    if labels == [label for _, label in files[: len(labels)]]:
        raise ValueError("the order is not shuffled")
    got = np.stack([reference.code_values(job, image).mean(axis=(0, 1)) for image in images]).mean(axis=0)
    whole = np.stack([reference.rgb(path).mean(axis=(0, 1)) for path, _ in files[:41]]).mean(axis=0)
    # A grid covers a sixth, rotation a tenth; otherwise another region of the same images is seen.
    apart = float(np.abs(got - whole * (0.75 if entry.task == "augment" else 1)).max())
    return Result(f"mean off by {apart:.0f}", wrong=apart > 30)
