"""Images: fallbacks equal the CPU's bytes, nvJPEG is close to them, and repeated decoding gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import clips, missing
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: Largest difference in levels between nvJPEG's and libjpeg's inverse transform, after the conversion to RGB.
MOST, MEAN = 16, 0.6


def loader(files: list[str], **more: Any) -> fsp.ImageLoader:
    return fsp.ImageLoader(files, **{"batch_size": 4, **more})


def pictures(made: fsp.ImageLoader) -> list[Any]:
    """The images of one epoch, on the host: NumPy arrays."""
    found: list[Any] = []
    for batch in made:
        images = batch.images
        each = images if isinstance(images, list) else [images[i] for i in range(len(batch))]
        found += [image.cpu().numpy() for image in each]
    return found


def nvjpeg(files: list[str], **more: Any) -> fsp.ImageLoader:
    return loader(files, device=fsp.Gpu(0, decoder="nvjpeg"), **more)


def unusable() -> str | None:
    """Why nvJPEG cannot be used here."""
    try:
        nvjpeg([str(clips("photo")[0].path)])
    except fsp.errors.GpuError as error:
        return str(error)
    return None


@item("jpeg", seconds=120)
def jpeg(context: Context) -> Iterator[Row]:
    if why := missing("numpy"):
        yield Row("images", "images are compared", IMPOSSIBLE, why)
        return
    import numpy as np

    photos, odd = ([str(clip.path) for clip in clips(group)] for group in ("photo", "odd"))
    resized = {"transforms": [fsp.transforms.Resize((224, 224))]}
    for name, more in (("full size", {}), ("resized", resized), ("exact", {"exact": True, **resized})):
        want, have = pictures(loader(photos + odd, **more)), pictures(loader(photos + odd, device="cuda:0", **more))
        wrong = [i for i, (a, b) in enumerate(zip(have, want, strict=True)) if not np.array_equal(a, b)]
        asked = f"{name}: images decoded by the CPU == those without a GPU"
        yield Row(name, asked, FAILED if wrong else OK, f"images {wrong[:4]} differ" if wrong else "")
    if reason := unusable():
        yield Row("nvJPEG", "nvJPEG decodes", IMPOSSIBLE, reason)
        return
    for group, files in (("photo", photos), ("odd", odd)):
        made = nvjpeg(files)
        have, want = pictures(made), pictures(loader(files))
        stats = made.stats()
        far = []
        worst, means = 0, []
        for path, a, b in zip(files, have, want, strict=True):
            difference = np.abs(a.astype(int) - b)
            worst, means = max(worst, int(difference.max())), [*means, float(difference.mean())]
            if difference.max() > MOST or difference.mean() > MEAN:
                far.append(path.rsplit("/", 1)[-1])
        figures = {"worst": worst, "mean": max(means), "by_gpu": stats["frames_decoded_by_gpu"]}
        all_counted = sum(stats["cpu_fallbacks"].values()) + stats["frames_decoded_by_gpu"] == len(files)
        right = not far and all_counted and (group == "odd" or stats["frames_decoded_by_gpu"] > 0)
        why = f"far off: {far[:4]}; fallbacks to the CPU: {stats['cpu_fallbacks']}"
        asked = f"{group}: nvJPEG's images within {MOST} levels and {MEAN} in the mean of the CPU's"
        yield Row(group, asked, OK if right else FAILED, why if stats["cpu_fallbacks"] or far else "", figures)
    for clip in clips("broken"):
        try:
            pictures(nvjpeg([str(clip.path)]))
        except fsp.Error as error:
            named = clip.path.name in str(error)
            yield Row(clip.name, "a damaged file is an error that names it", OK if named else FAILED, str(error))
        else:
            yield Row(clip.name, "a damaged file is an error that names it", FAILED, "it was delivered")


@item("jpeg-order", seconds=120)
def order(context: Context) -> Iterator[Row]:
    """Planes that are written too early or read too late give images that vary between runs."""
    if reason := missing("numpy") or unusable():
        yield Row("order", "nvJPEG decodes", IMPOSSIBLE, reason)
        return
    import numpy as np

    photos = [str(clip.path) for clip in clips("photo")] * 6
    t = fsp.transforms
    keywords: dict[str, Any] = {
        "batch_size": 8,
        "transforms": [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.Normalize((0.45,) * 3, (0.225,) * 3)],
        "shuffle": "full",
        "dtype": "float16",
        "layout": "NCHW",
    }
    want: list[list[Any]] = []
    for threads in (1, 2, 8, 16):
        made = nvjpeg(photos, num_threads=threads, **keywords)
        wrong, rounds = 0, 0
        for epoch in range(3):
            if context.left() < 0:
                break
            made.set_epoch(epoch)
            have = pictures(made)
            if threads == 1:
                want.append(have)
            elif epoch < len(want):
                wrong += sum(not np.array_equal(a, b) for a, b in zip(have, want[epoch], strict=True))
            rounds += 1
        figures = {"epochs": rounds, "images": rounds * len(photos), "by_gpu": made.stats()["frames_decoded_by_gpu"]}
        asked = f"{threads} threads: the images of one thread"
        yield Row(f"{threads} threads", asked, FAILED if wrong else OK, f"{wrong} differ" if wrong else "", figures)
