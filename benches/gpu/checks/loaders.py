"""Loaders: the same order and bytes with every decoder and any number of workers."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from bench_videos import full_hd
from common import TRY, clips
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item


def digest(batch: fsp.Batch) -> str:
    """All data of a batch."""
    seen = hashlib.blake2b(digest_size=16)
    for name, value in sorted(batch.as_dict().items()):
        seen.update(name.encode())
        # A tuple has the columns of the videos.
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            seen.update(repr((tensor.shape, tensor.dtype)).encode())
            seen.update(tensor.tobytes())
    return seen.hexdigest()


def epochs(loader: fsp.ClipLoader, count: int = 2) -> list[str]:
    made = []
    for epoch in range(count):
        loader.set_epoch(epoch)
        made += [digest(batch) for batch in loader]
    return made


SAMPLINGS = {
    "windows 16": lambda: fsp.samplers.Windows(sequence_length=16),
    "random 8, stride 4": lambda: fsp.samplers.RandomClips(
        sequence_length=8, stride=4, clips_per_video=3, padding="loop"
    ),
    "segments": lambda: fsp.samplers.Segments(num_segments=8, mode="random"),
}


@item("loaders", seconds=240)
def loaders(context: Context) -> Iterator[Row]:
    t = fsp.transforms
    dataset = [(str(clip.path), label) for label, clip in enumerate(clips("loader"))]
    dataset += [(str(clip.path), 99) for clip in clips("random", "1080p|pyramid|vp9")]
    train: dict[str, Any] = {
        "batch_size": 4,
        "transforms": [t.RandomResizedCrop(112), t.RandomHorizontalFlip(), t.Normalize((0.45,) * 3, (0.225,) * 3)],
        "shuffle": "full",
        "seed": 5,
        "dtype": "float16",
        "layout": "NCTHW",
        "last_batch": "fill",
        "index": False,
    }
    variants: list[dict[str, Any]] = [{"device": fsp.Gpu(0, decoder=d)} for d in ("auto", "nvdec", "cpu")]
    variants += [{"device": fsp.Gpu(0, decoder="nvdec", threads=n)} for n in (1, 2, 28)]
    variants += [
        {"device": fsp.Gpu(0, decoder="nvdec"), "cache": 0},
        {"device": fsp.Gpu(0, decoder="nvdec"), "prefetch_batches": 6},
    ]
    for (name, sampling), shuffle in itertools.product(SAMPLINGS.items(), ("full", "buffer")):
        if context.left() < 0:
            return
        keywords = {**train, "shuffle": shuffle}
        want = epochs(fsp.ClipLoader(dataset, sampling(), **keywords))
        for variant in variants:
            asked = f"{name}, {shuffle} shuffle, {', '.join(f'{k}={v}' for k, v in variant.items())}: batches == CPU's"
            if context.left() < 0:
                yield Row(name, asked, IMPOSSIBLE, "out of time; raise --budget")
                continue
            loader = fsp.ClipLoader(dataset, sampling(), **{**keywords, "device": "cuda:0", **variant})
            have = epochs(loader)
            stats = loader.stats()
            figures = {
                "batches": len(have),
                "by_gpu": stats["frames_decoded_by_gpu"],
                "workers": stats["nvdec_threads"],
            }
            wrong = [i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b]
            if have == want:
                yield Row(name, asked, OK, figures=figures)
            else:
                why = f"{len(wrong)} batches differ, the first is {wrong[:1]}; {len(have)} against {len(want)} batches"
                yield Row(name, asked, FAILED, why, figures)


@item("two-loaders", seconds=120)
def two_loaders(context: Context) -> Iterator[Row]:
    """Several loaders and videos of one process share the decoders."""
    dataset = [str(clip.path) for clip in clips("loader")]
    keywords: dict[str, Any] = {"batch_size": 4, "transforms": [fsp.transforms.Resize((96, 96))], "index": False}
    sampling = fsp.samplers.Windows(sequence_length=8)
    want = [digest(batch) for batch in fsp.ClipLoader(dataset, sampling, **keywords)]
    gpu = {"device": fsp.Gpu("cuda:0", decoder="nvdec", threads=7)}
    running = [iter(fsp.ClipLoader(dataset, sampling, **keywords, **gpu)) for _ in range(3)]
    have = [[digest(batch) for batch in turn] for turn in zip(*running, strict=True)]
    same = have == [[each] * 3 for each in want]
    name, asked = "three loaders in turn", "each delivers the CPU's batches"
    yield Row(name, asked, OK if same else FAILED, "" if same else "they differ", {"batches": 3 * len(have)})


@item("auto-order", seconds=30)
def auto_order(context: Context) -> Iterator[Row]:
    """Whether CPU or NVDEC decodes a clip depends on timing; batches must not."""
    videos = full_hd("h264")
    name, asked = "auto, twice", "random clips of 16, stride 4: two runs deliver the batches of the CPU"
    if not videos:
        yield Row(name, asked, IMPOSSIBLE, "no 1080p H.264 here")
        return
    count = 1 if TRY else 3
    keywords: dict[str, Any] = {"batch_size": 2 if TRY else 16, "shuffle": "full", "seed": 4, "index": False}
    keywords["transforms"] = [fsp.transforms.Resize((224, 224))]
    sampling = fsp.samplers.RandomClips(sequence_length=16, stride=4, padding="loop")
    dataset = [str(videos[number % len(videos)].path) for number in range(keywords["batch_size"] * count)]
    want = epochs(fsp.ClipLoader(dataset, sampling, **keywords), 1)
    loaders = [fsp.ClipLoader(dataset, sampling, device=fsp.Gpu(0, decoder="auto"), **keywords) for _ in range(2)]
    have = [epochs(loader, 1) for loader in loaders]
    shares = [loader.stats()["frames_decoded_by_gpu"] / loader.stats()["frames_decoded"] for loader in loaders]
    same = have == [want, want]
    figures = {"batches": len(want), "by_gpu_shares": shares}
    yield Row(name, asked, OK if same else FAILED, "" if same else "batches differ", figures)


#: Samples of the dataset, and epochs whose batches are compared with the CPU's.
SAMPLES, COMPARED = (3, 2) if TRY else (48, 3)
#: Epochs of the disk cache; 1 is none.
AHEAD = (1, 3) if TRY else (1, 8, 16)


@item("epochs-ahead", seconds=150)
def epochs_ahead(context: Context) -> Iterator[Row]:
    """A disk cache for 8 and 16 epochs against none: the same bytes, and clips per second after as many epochs."""
    videos = [video for video in full_hd("h264") if TRY or video.kind == "GOP 250"]
    asked = "random clips of 16, stride 4: batches == CPU's, without a cache"
    if not videos:
        yield Row("epochs-ahead", asked, IMPOSSIBLE, "no 1080p H.264 with GOP 250; see README.md, encode.py")
        return
    dataset = [str(videos[number % len(videos)].path) for number in range(SAMPLES)]
    sampling = fsp.samplers.RandomClips(sequence_length=16, stride=4, padding="loop")
    t = fsp.transforms
    keywords: dict[str, Any] = {
        "batch_size": 8,
        "transforms": [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.Normalize((0.45,) * 3, (0.225,) * 3)],
        "dtype": "float16",
        "shuffle": "full",
        "seed": 7,
        "index": False,
    }
    want = epochs(fsp.ClipLoader(dataset, sampling, **keywords), COMPARED)
    wanted = context.arguments.get("ahead")
    for ahead in [wanted] if wanted else AHEAD:
        name = f"{ahead} epochs at once"
        if not wanted and context.left() < 0:
            yield Row(name, asked, IMPOSSIBLE, "out of time; raise --budget")
            continue
        with tempfile.TemporaryDirectory() as folder:
            cache = fsp.Cache(disk=folder, disk_size="20GiB", epochs=ahead) if ahead > 1 else "2GiB"
            device = fsp.Gpu(0, decoder=context.arguments.get("decoder", "auto"))
            loader = fsp.ClipLoader(dataset, sampling, device=device, cache=cache, **keywords)
            have = epochs(loader, COMPARED)
            # From here on each epoch decodes the same share of the videos.
            for _ in range(COMPARED, ahead):
                for _ in loader:
                    pass
            before, begun = loader.stats(), time.perf_counter()
            for _ in range(ahead if ahead > 1 else 4):
                for _ in loader:
                    pass
            seconds, stats = time.perf_counter() - begun, loader.stats()
            del loader
        count = stats["clips"] - before["clips"]
        figures = {
            "clips_per_s": count / seconds,
            "frames_per_clip": (stats["frames_decoded"] - before["frames_decoded"]) / count,
            "read": stats["disk_clips_read"],
            "stored": stats["disk_clips_stored"],
            "not_stored": stats["disk_clips_not_stored"],
            "megabytes_written": stats["disk_bytes_written"] / 1e6,
        }
        if have != want:
            yield Row(name, asked, FAILED, "batches differ from those of the CPU", figures)
        elif ahead > 1 and not stats["disk_clips_read"]:
            yield Row(name, asked, FAILED, "no clip was read from the disk", figures)
        elif stats["upload_fallbacks"]:
            yield Row(name, asked, FAILED, "; ".join(stats["upload_fallbacks"]), figures)
        else:
            yield Row(name, asked, OK, figures=figures)
