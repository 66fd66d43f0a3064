"""Small training runs of arbitrary settings, and what must hold for each of them.

    python tests/python/training_runs.py --runs 10000             searches for a run with wrong data, and shrinks it
    python tests/python/training_runs.py --run '{"batch_size": 3, …}'   checks one run again

A run is a dataset, a clip sampler, transforms, and the arguments of a loader. The videos are such that a frame shows by
its colors which video and which frame it is, also after crops and flips. So `check()` does not need a second
decoder, and knows nothing of the order: it requires what the documentation promises.

- The frames are those of `indices`, in the video of `video_ids`; the label is the label of that file, and
  `frame_columns` are those of the frames.
- Each clip occurs as often in an epoch, over all ranks, as `last_batch`, `repeats`, `on_error` and `short` promise.
- All ranks have `len(loader)` batches.
- Another epoch has another order, if it is shuffled, and other frames, if they are random.
- An epoch that `set_epoch()` chose is the one that iterations arrive at.
- The rest of an epoch after `load_state_dict()` is the same: in another process, with other threads, and on another
  number of ranks with the same global batch size.
- `describe_clip()` knows the frames before they are decoded, `batch()` makes a batch again, and `dropped()` lists the
  videos without clips.
- A `DataLoader` over a `ClipDataset` delivers the same batches, and a `VideoDataset` the same clips.
- `MixUp` and `CutMix` combine a clip with another one, and its label in the same proportion.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import drawn_runs
import framespool as fsp
import framespool.torch
import numpy as np
import torch
from drawn_runs import CLASSES, GREEN, LENGTHS, RED, Wrong, class_of, from_json, make_videos, require
from hypothesis import strategies as st
from torch.utils.data import DataLoader

MEAN, STD = 0.4, 0.25


@dataclass(frozen=True)
class Run:
    """The settings of a run; its JSON form repeats it.

    Args:
        videos: Numbers of the videos that are its samples.
        names: Whether labels are names.
        kind: `"plain"`, or how the dataset is made of two parts: `"joined"`, `"mixed"` with weights 1 and 2; or
            `"weighted"`, with the weights 1, 2, 3, 1, 2, and so on.
        broken: Position of a file that cannot be read, or `None`.
        sampler: Name of a clip sampler of `SAMPLERS`.
        short: As for the clip samplers that have it.
        clips_per_video: Likewise.
        transforms: Names of `TRANSFORMS`.
        dtype: As for `ClipLoader`, like all that follow.
    """

    videos: tuple[int, ...] = (0, 1, 2, 3)
    names: bool = False
    kind: str = "plain"
    broken: int | None = None
    sampler: str = "random"
    short: str = "repeat"
    clips_per_video: int = 1
    transforms: tuple[str, ...] = ()
    dtype: str = "uint8"
    layout: str = "NTCHW"
    batch_size: int = 2
    num_shards: int = 1
    shuffle: str | bool = False
    stick_to_shard: bool = False
    last_batch: str = "partial"
    on_error: str = "raise"
    repeats: int = 1
    group_clips: bool = False
    num_threads: int = 1
    prefetch_batches: int = 1
    cache: int = 1 << 20
    seed: int = 0
    epoch: int = 0
    stop_after: int = 1


SAMPLERS = {
    "random": lambda run: fsp.samplers.RandomClips(
        sequence_length=4, stride=2, clips_per_video=run.clips_per_video, padding=run.short
    ),
    "partitioned": lambda run: fsp.samplers.RandomClips(
        sequence_length=3,
        clips_per_video=run.clips_per_video,
        padding=run.short,
        group="partitioned",
        frame_jitter=True,
    ),
    "segments": lambda run: fsp.samplers.Segments(
        num_segments=4, clips_per_video=run.clips_per_video, padding=run.short
    ),
    "uniform": lambda run: fsp.samplers.UniformClips(
        sequence_length=4, stride=2, clips_per_video=run.clips_per_video, padding=run.short
    ),
    "windows": lambda run: fsp.samplers.Windows(sequence_length=4, stride=2, step=3),
}
RANDOM_SAMPLERS = {"random", "partitioned", "segments"}
TRANSFORMS: dict[str, Any] = {
    "resize": lambda: fsp.transforms.Resize((16, 20)),
    "crop": lambda: fsp.transforms.RandomResizedCrop((16, 16), scale=(0.3, 1.0)),
    "flip": lambda: fsp.transforms.RandomHorizontalFlip(),
    "center": lambda: fsp.transforms.CenterCrop((12, 12)),
    "views": lambda: fsp.transforms.ThreeCrop(16),
    "normalize": lambda: fsp.transforms.Normalize(MEAN, STD),
    "jitter": lambda: fsp.transforms.RandomShortestSize([14, 17, 20]),
    "random_crop": lambda: fsp.transforms.RandomCrop(12),
    "cover": lambda: fsp.transforms.Resize((18, 18), fit="cover"),
    "apply": lambda: fsp.transforms.RandomApply([fsp.transforms.RandomHorizontalFlip(1.0)], p=0.4),
    "per_clip": lambda: fsp.transforms.PerClip(_noise),
    "on_workers": lambda: fsp.transforms.PerClip(_noise, on="workers"),
    "per_batch": lambda: fsp.transforms.PerBatch(_batch_noise),
    "mixup": lambda: fsp.transforms.MixUp(num_classes=len(CLASSES)),
    "cutmix": lambda: fsp.transforms.CutMix(num_classes=len(CLASSES)),
    "one_of": lambda: fsp.transforms.OneOf(
        [fsp.transforms.MixUp(num_classes=len(CLASSES)), fsp.transforms.CutMix(num_classes=len(CLASSES))]
    ),
}
MIXING = {"mixup", "cutmix", "one_of"}
#: Transforms that change single values of pixels.
NOISE = {"per_clip", "on_workers", "per_batch"}
#: Kinds of datasets whose clips occur by weight.
WEIGHTED = {"mixed", "weighted"}


#: Fields of `Run` that are arguments of `ClipLoader`.
LOADER_ARGUMENTS = (
    *("dtype", "layout", "batch_size", "shuffle", "last_batch", "on_error", "repeats", "group_clips"),
    *("num_threads", "prefetch_batches", "cache", "seed"),
)


def loader_arguments(run: Run) -> dict[str, Any]:
    """Arguments of `ClipLoader` that all loaders of a run have."""
    shards = fsp.options.Shards(run.num_shards, stick_to_shard=run.stick_to_shard)
    return {name: getattr(run, name) for name in LOADER_ARGUMENTS} | {"num_shards": shards}


def _noise(clip: torch.Tensor) -> torch.Tensor:
    """Changes one value in a corner by a random amount, which must be the same after a resumption."""
    changed = clip.clone()
    changed[0, :, 0, 0] += torch.rand(()).to(clip.dtype) * 0.5
    return changed


def _batch_noise(frames: torch.Tensor, context: Any) -> torch.Tensor:
    """The same for a batch; it also looks at what the context says."""
    require(len(context.labels) == len(context.clip_ids) == len(frames), "context", context)
    changed = frames.clone()
    changed.reshape(len(frames), -1)[:, 0] += torch.rand(len(frames), generator=context.generator)
    return changed


@st.composite
def runs(draw: Any) -> Run:
    """Runs whose settings `ClipLoader` accepts together."""
    videos = tuple(draw(st.lists(st.integers(0, len(LENGTHS) - 1), min_size=1, max_size=9)))
    sampler = draw(st.sampled_from(sorted(SAMPLERS)))
    dtype = draw(st.sampled_from(["uint8", "float32"]))
    spatial = draw(
        st.sampled_from(
            [
                *[("resize",), ("crop",), ("crop", "flip"), ("center",), ("resize", "views"), ()],
                *[("jitter", "random_crop"), ("cover", "center"), ("resize", "apply")],
            ]
        )
    )
    tail: tuple[str, ...] = ()
    if dtype == "float32":
        tail = draw(st.sampled_from([(), ("normalize",)]))
        tail += draw(st.sampled_from([(), *((name,) for name in sorted(MIXING | NOISE)), ("on_workers", "mixup")]))
    grouped = sampler != "windows" and not (MIXING | NOISE) & set(tail) and draw(st.booleans())
    if not spatial and (grouped or (MIXING | {"per_batch"}) & set(tail)):
        spatial = ("resize",)  # the size of the clips must be known
    kind = draw(st.sampled_from(["plain", "plain", *(["joined", "mixed"] if len(videos) > 1 else []), "weighted"]))
    if grouped and kind in WEIGHTED:
        kind = "plain"
    shuffle = draw(st.sampled_from([True, "full", "grouped", *([] if kind in WEIGHTED else [False, "buffer"])]))
    repeats = draw(st.sampled_from([1, 1, 2, 3]))
    stick_to_shard = (
        kind not in WEIGHTED and shuffle != "grouped" and draw(st.sampled_from([False, False, False, True]))
    )
    return Run(
        videos=videos,
        names=draw(st.booleans()),
        kind=kind,
        broken=draw(st.sampled_from([None, None, None, *range(len(videos))])),
        sampler=sampler,
        short=draw(st.sampled_from(["repeat", "loop", "edge"] if grouped else ["repeat", "loop", "drop"])),
        clips_per_video=draw(st.integers(1, 3)),
        transforms=spatial + tail,
        dtype=dtype,
        layout=draw(st.sampled_from(["NTCHW", "NCTHW", "NTHWC"])),
        batch_size=draw(st.integers(1, 5)),
        num_shards=draw(st.integers(1, 3)),
        shuffle="full" if grouped and shuffle == "grouped" else shuffle,
        stick_to_shard=stick_to_shard,
        last_batch=draw(st.sampled_from(["partial", "drop", "fill"])),
        on_error=draw(st.sampled_from(["raise", "replace"] if grouped else ["raise", "skip", "replace"])),
        repeats=repeats,
        group_clips=grouped,
        num_threads=draw(st.integers(1, 3)),
        prefetch_batches=draw(st.integers(0, 3)),
        cache=draw(st.sampled_from([0, 20_000, 1 << 30])),
        seed=draw(st.integers(0, 3)),
        epoch=draw(st.integers(0, 2)),
        stop_after=draw(st.integers(0, 4)),
    )


# ---- the dataset -----------------------------------------------------------------------------------------------------


def labels_of(run: Run, dataset: fsp.datasets.Dataset) -> list[int]:
    """The label that each sample must have: its class, or the number of the class's name in the dataset."""
    classes = [class_of(video) for video in run.videos]
    if not run.names:
        return classes
    require(set(dataset.classes) >= {CLASSES[label] for label in classes}, "classes", dataset.classes)
    return [dataset.classes.index(CLASSES[label]) for label in classes]


def dataset_of(run: Run, folder: Path) -> fsp.datasets.Dataset:
    """The dataset of a run."""
    files = [str(folder / ("broken.mkv" if n == run.broken else f"{video}.mkv")) for n, video in enumerate(run.videos)]
    labels = [CLASSES[class_of(video)] if run.names else class_of(video) for video in run.videos]
    samples = list(zip(files, labels, strict=True))
    if run.kind in ("plain", "weighted"):
        whole = fsp.datasets.Dataset(samples)
        weights = [1 + n % 3 for n in range(len(samples))]
        return whole if run.kind == "plain" else fsp.datasets.weighted(whole, weights)
    # Without all names in the first part, names and numbers of the parts differ.
    middle = len(samples) // 2
    first, second = fsp.datasets.Dataset(samples[:middle]), fsp.datasets.Dataset(samples[middle:])
    return first + second if run.kind == "joined" else fsp.datasets.mix((first, 1), (second, 2))


# ---- what a loader delivers ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clip:
    """One delivered clip."""

    video: int
    view: int
    requested: int
    indices: tuple[int, ...]
    label: tuple[float, ...]
    padding: bool
    pixels: str
    #: Row of the clip that was mixed into it, and its own part.
    mixed_with: int
    weight: float


def loader_of(run: Run, folder: Path, shard: int = 0, kind: Any = framespool.torch.ClipLoader, **changes: Any) -> Any:
    """A loader of a run."""
    keywords = loader_arguments(replace(run, num_shards=changes.pop("num_shards", run.num_shards)))
    keywords |= {"shard_id": shard, "index": False} | changes
    keywords["frame_columns"] = {"frame": [range(LENGTHS[video]) for video in run.videos]}
    transforms = [TRANSFORMS[name]() for name in run.transforms]
    return kind(dataset_of(run, folder), SAMPLERS[run.sampler](run), transforms=transforms, **keywords)


def clips_of(batch: Any, run: Run, known: list[int]) -> list[Clip]:
    """The clips of a batch, whose pixels have been compared with what they must show."""
    values = batch if isinstance(batch, dict) else batch.as_dict()
    require(torch.equal(values["columns"]["frame"], values["indices"]), "frame_columns", values["columns"])
    ids = values["clip_ids"]
    count, views = (ids.shape if ids.ndim == 2 else (ids.shape[0], 1)) if run.group_clips else (ids.shape[0], 1)
    frames = values["frames"]
    if run.group_clips and ids.ndim == 2:
        frames = frames.flatten(0, 1) if isinstance(frames, torch.Tensor) else frames
    per_video = lambda value: value.repeat_interleave(views, 0)  # noqa: E731
    videos, labels = per_video(values["video_ids"].reshape(count, -1)[:, 0]), per_video(values["labels"])
    flat = {name: values[name].reshape(count * views, -1) for name in ("indices", "view_ids", "requested_ids")}
    padding = values["padding"]
    padding = padding.reshape(-1) if padding.numel() == count * views else per_video(padding)
    mixed, weights = (values.get(name) for name in ("mixed_with", "mix_weights"))
    require((mixed is not None) == bool(MIXING & set(run.transforms)), "mixed_with", mixed)
    colors = [_colors(frames[place], run.layout) for place in range(count * views)]
    clips = []
    for place in range(count * views):
        clip = Clip(
            video=int(videos[place]),
            view=int(flat["view_ids"][place, 0]),
            requested=int(flat["requested_ids"][place, 0]),
            indices=tuple(flat["indices"][place].tolist()),
            label=tuple(labels[place].reshape(-1).tolist()),
            padding=bool(padding[place]),
            pixels=hashlib.md5(frames[place].contiguous().numpy().tobytes()).hexdigest(),
            mixed_with=0 if mixed is None else int(mixed[place]),
            weight=1.0 if weights is None else float(weights[place]),
        )
        clips.append(clip)
    for place in range(len(clips)):
        _check_pixels(run, clips, colors, place)
        _check_label(run, clips, place, known)
    return clips


def _colors(frames: torch.Tensor, layout: str) -> torch.Tensor:
    """Red and green of each frame of a clip, at a few pixels: (T, pixels, 2)."""
    order = layout.removeprefix("N")
    views = frames.ndim - len(order)
    moved = frames.movedim([views + order.index(axis) for axis in "THWC"], [views + n for n in range(4)])
    moved = moved.reshape(-1, *moved.shape[-4:])  # (views, T, H, W, C)
    # Without the corner that `_noise` changes.
    pixels = moved[:, :, 1::5, 1::5, :2].permute(1, 0, 2, 3, 4)
    return pixels.reshape(pixels.shape[0], -1, 2).double()


def _expected(run: Run, clip: Clip) -> torch.Tensor:
    """Red and green that the frames of a clip must have: (T, 1, 2)."""
    video = run.videos[clip.video]
    shown = torch.tensor([[video * RED + 8, index * GREEN] for index in clip.indices], dtype=torch.float64)
    if run.dtype == "float32":
        shown = shown / 255
    if "normalize" in run.transforms:
        shown = (shown - MEAN) / STD
    return shown.unsqueeze(1)


def _check_pixels(run: Run, clips: list[Clip], colors: list[torch.Tensor], place: int) -> None:
    """Requires that the frames of a clip are those of its indices."""
    clip, got = clips[place], colors[place]
    require(all(0 <= index < LENGTHS[run.videos[clip.video]] for index in clip.indices), "indices", clip)
    close = 2.9 * (1 if run.dtype == "uint8" else 1 / 255) / (STD if "normalize" in run.transforms else 1)
    mine = _expected(run, clip)
    if not MIXING & set(run.transforms):
        require(((got - mine).abs() <= close).all(), "frames of", clip, "show", got[:, 0].tolist())
        return
    theirs = _expected(run, clips[clip.mixed_with])
    blended = clip.weight * mine + (1 - clip.weight) * theirs
    boxed = torch.minimum((got - mine).abs(), (got - theirs).abs())
    is_blended, is_boxed = ((got - blended).abs() <= 2 * close).all(), (boxed <= close).all()
    name = next(name for name in run.transforms if name in MIXING)
    fits = {"mixup": is_blended, "cutmix": is_boxed, "one_of": is_blended or is_boxed}[name]
    require(fits, "frames of", clip, "mixed with", clips[clip.mixed_with], "show", got[:, 0].tolist())


def _check_label(run: Run, clips: list[Clip], place: int, known: list[int]) -> None:
    """Requires that the label of a clip is that of its video, mixed as its frames are."""
    clip = clips[place]
    if not MIXING & set(run.transforms):
        require(clip.label == (known[clip.video],), "label", clip, "in place of", known[clip.video])
        return
    other = clips[clip.mixed_with]
    expected = np.zeros(len(CLASSES))
    expected[known[clip.video]] += clip.weight
    expected[known[other.video]] += 1 - clip.weight
    require(np.abs(expected - clip.label).max() < 1e-5, "label", clip, "in place of", expected)
    identity = (clip.video, clip.view)
    alone = all((each.video, each.view) == identity for each in clips)
    require(alone or (other.video, other.view) != identity, "a clip is mixed with itself:", clip, other)


def deliveries(loader: Any, run: Run, most: int | None = None) -> list[list[Clip] | str]:
    """The batches of an iteration; in the place of an error its type."""
    found: list[list[Clip] | str] = []
    known = labels_of(run, loader.dataset)
    batches = iter(loader)
    while most is None or len(found) < most:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except fsp.Error as error:
            require("broken.mkv" in str(error), "an error without the broken file:", error)
            found.append(type(error).__name__)
            continue
        found.append(clips_of(batch, run, known))
    return found


# ---- what must hold --------------------------------------------------------------------------------------------------


def universe(run: Run) -> list[tuple[int, int]]:
    """The clips of the dataset, as (sample, number within the video)."""
    found = []
    for sample, video in enumerate(run.videos):
        length = LENGTHS[video]
        counted = run.sampler == "windows" or run.short == "drop"
        if run.sampler == "windows":
            count = max(0, (length - 7) // 3 + 1)
        elif run.short == "drop" and length < {"random": 7, "uniform": 7, "partitioned": 3, "segments": 1}[run.sampler]:
            count = 0
        else:
            count = run.clips_per_video
        if counted and sample == run.broken:
            count = 0  # it could not be counted
        found += [(sample, view) for view in range(count)]
    return found


def check(run: Run, folder: Path, other: Other) -> str:
    """Checks one run; returns what became of it: `"run"`, or `"refused"` if its settings do not fit each other.

    Args:
        run: The settings.
        folder: Folder of `make_videos()`.
        other: Another process.

    Raises:
        Wrong: If something does not hold.
    """
    clips = universe(run)
    counted = run.sampler == "windows" or run.short == "drop"
    try:
        loaders = [loader_of(run, folder, shard) for shard in range(run.num_shards)]
    except fsp.errors.ArgumentError as error:
        # Without clips, or with fewer clips than ranks.
        units = len({sample for sample, _ in clips}) if run.group_clips else len(clips)
        few = units < run.num_shards * (run.batch_size if run.last_batch == "drop" else 1) or not clips
        halves = {sample < len(run.videos) // 2 for sample, _ in clips}
        require(few or (run.kind == "mixed" and len(halves) < 2), "refused:", error)
        return "refused"
    except fsp.Error as error:
        require(counted and run.broken is not None and run.on_error == "raise" and "broken.mkv" in str(error), error)
        return "refused"
    if counted and run.broken is not None and run.on_error == "raise":
        raise Wrong("the broken file was counted without an error")
    require({loader.num_clips for loader in loaders} == {len(clips)}, "num_clips", loaders[0].num_clips)
    lengths = {len(loader) for loader in loaders}
    require(len(lengths) == 1, "len() differs between ranks", lengths)
    epochs = []
    for epoch in range(run.epoch + 2):
        if epoch < run.epoch:
            continue
        for loader in loaders:
            loader.set_epoch(epoch)
        ranks = [deliveries(loader, run) for loader in loaders]
        require({len(rank) for rank in ranks} == lengths, "batches", [len(rank) for rank in ranks], lengths)
        _check_counts(run, clips, ranks)
        for loader, rank in zip(loaders, ranks, strict=True):
            require(loader.epoch == epoch + 1, "the next epoch is", loader.epoch)
            for index in [n for n, batch in enumerate(rank) if not isinstance(batch, str)][1:2]:
                one = clips_of(loader.batch(epoch=epoch, index=index), run, labels_of(run, loader.dataset))
                require(one == rank[index], "batch()", one, "in place of", rank[index])
            _check_description(run, loader, rank, epoch)
        epochs.append(ranks)
    dropped = [each for each in loaders[0].dropped() if each["video_id"] is not None and each["clips"] == 0]
    whole = {sample for sample, _ in clips}
    missing = [sample for sample in range(len(run.videos)) if sample not in whole]
    require(sorted(each["video_id"] for each in dropped) == missing, "dropped()", dropped, "in place of", missing)
    _check_epochs_differ(run, clips, *epochs)
    _check_resumption(run, folder, loaders, epochs[0], other)
    _check_data_loader(run, folder, epochs)
    return "run"


def _units(run: Run, clips: list[tuple[int, int]]) -> int:
    """What `batch_size` counts: clips, or videos with `group_clips`."""
    return len({sample for sample, _ in clips}) if run.group_clips else len(clips)


def _check_counts(run: Run, clips: list[tuple[int, int]], ranks: list[list[list[Clip] | str]]) -> None:
    """Each clip as often as promised."""
    delivered = [clip for rank in ranks for batch in rank if not isinstance(batch, str) for clip in batch]
    errors = sum(isinstance(batch, str) for rank in ranks for batch in rank)
    broken = {pair for pair in clips if pair[0] == run.broken}
    require(errors == 0 or (broken and (run.on_error == "raise" or broken == set(clips))), "errors", errors)
    require(not any(clip.video == run.broken for clip in delivered), "a clip of the broken file")
    counts: Counter[tuple[int, int]] = Counter()
    for clip in delivered:
        if not clip.padding:
            replaced = clips[clip.requested] != (clip.video, clip.view)
            require(not replaced or (run.on_error == "replace" and clips[clip.requested] in broken), "replaced", clip)
            counts[clips[clip.requested]] += 1
    if run.kind in WEIGHTED:
        require(all(count % run.repeats == 0 for count in counts.values()), "repeats", counts)
        expected = len(clips) if run.last_batch != "drop" else len(clips) // (run.batch_size * run.num_shards)
        expected *= run.repeats * (run.batch_size * run.num_shards if run.last_batch == "drop" else 1)
        least = expected - errors * run.batch_size * run.repeats if run.on_error != "skip" else 0
        require(least <= counts.total() <= expected, counts.total(), "clips in place of", expected)
        return
    require(set(counts.values()) <= {run.repeats}, "a clip was delivered", set(counts.values()), "times")
    expected = units = _units(run, clips)
    if run.last_batch == "drop":
        ranks_apart = run.num_shards if run.stick_to_shard else 1
        step = run.batch_size * run.num_shards // ranks_apart
        expected = units // ranks_apart // step * step * ranks_apart
    views = len(clips) // max(1, _units(run, clips))
    missing = expected * views - len(counts)
    if errors:
        require(missing <= errors * run.batch_size * views, missing, "clips missing, but", errors, "errors")
    elif run.on_error == "skip":
        require(0 <= missing <= len(broken) or run.last_batch == "drop", missing, "clips missing")
        require(missing >= 0, "too many clips")
        lost = set(clips) - set(counts) - broken
        require(len(lost) <= (units - expected) * views, "lost:", sorted(lost))
    else:
        require(missing == 0, missing, "of", expected, "clips missing")
    if run.last_batch == "fill" and run.on_error == "replace" and not errors:
        sizes = {len(batch) for rank in ranks for batch in rank}
        require(sizes == {run.batch_size * run.repeats * views}, "sizes of batches", sizes)


def _check_description(run: Run, loader: Any, rank: list[list[Clip] | str], epoch: int) -> None:
    """`describe_clip()` knows the frames of a clip."""
    batches = [batch for batch in rank if not isinstance(batch, str)]
    for clip in [batch[0] for batch in batches[:2] if batch]:
        if run.group_clips or run.kind in WEIGHTED or clips_replaced(run, clip):
            continue  # of a clip that occurs several times, the first occurrence is described
        described = loader.describe_clip(clip.requested, epoch=epoch)
        require(tuple(described["indices"]) == clip.indices, "describe_clip", described["indices"], clip)
        require(described["video_id"] == clip.video, "describe_clip", described["video_id"], clip)


def clips_replaced(run: Run, clip: Clip) -> bool:
    """Whether a clip took the place of another."""
    return universe(run)[clip.requested] != (clip.video, clip.view)


def _content(ranks: list[list[list[Clip] | str]]) -> list[Any]:
    """All clips of an epoch in their order, without those that fill batches."""
    return [
        batch if isinstance(batch, str) else [(c.video, c.view, c.indices) for c in batch if not c.padding]
        for rank in ranks
        for batch in rank
    ]


def _check_epochs_differ(run: Run, clips: list[tuple[int, int]], first: Any, second: Any) -> None:
    """Another epoch has another order and other frames, where something is random."""
    free = [sample for sample, _ in clips if LENGTHS[run.videos[sample]] >= 19 and sample != run.broken]
    delivered = _content(first), _content(second)
    if any(isinstance(batch, str) for batch in sum(delivered, [])) or run.on_error == "replace":
        return
    frames = [Counter(itertools.chain(*epoch)) for epoch in delivered]
    delivered_free = [clip for batch in delivered[0] for clip in batch if clip[0] in free]
    if run.sampler in RANDOM_SAMPLERS and len(delivered_free) >= 8 * run.repeats:
        require(frames[0] != frames[1], "both epochs have the same frames")
    if run.sampler not in RANDOM_SAMPLERS and run.last_batch == "partial" and run.kind not in WEIGHTED:
        require(frames[0] == frames[1], "a clip sampler without random numbers gives other frames")
    order = [[(video, view) for batch in epoch for video, view, _ in batch] for epoch in delivered]
    if run.shuffle is False and run.last_batch != "drop":
        require(order[0] == order[1], "another order without shuffle")
    elif run.shuffle in ("full", "grouped", True) and run.num_shards == 1 and len({n for n, _ in order[0]}) >= 7:
        require(order[0] != order[1], "both epochs have the same order")


def _clip_of(values: dict[str, Any]) -> Clip:
    """A clip from its JSON form."""
    return Clip(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _global(ranks: list[list[list[Clip] | str]], whole: bool, padding: bool = True) -> list[Any]:
    """The batches of all ranks together, each as a sorted list.

    Args:
        ranks: The batches of each rank.
        whole: Whether labels and pixels are included.
        padding: Whether clips that fill batches are included.
    """
    batches = []
    for parts in itertools.zip_longest(*ranks, fillvalue=[]):
        if any(isinstance(part, str) for part in parts):
            batches.append("error")
            continue
        clips = [dataclasses.astuple(clip) for part in parts for clip in part if padding or not clip.padding]
        batches.append(sorted(clip if whole else clip[:4] for clip in clips))
    return batches


def _check_resumption(run: Run, folder: Path, loaders: list[Any], epoch: Any, other: Other) -> None:
    """A state continues the same epoch, in another process and on other numbers of ranks."""
    after = min(run.stop_after, len(loaders[0]))
    states = []
    for loader, rank in zip(loaders, epoch, strict=True):
        loader.set_epoch(run.epoch)
        begun = deliveries(loader, run, most=after)
        require(_global([begun], True) == _global([rank[:after]], True), "the epoch that was chosen again differs")
        states.append(loader.state_dict())
    require(all(state == states[0] for state in states), "states differ between ranks")
    state = json.loads(json.dumps(states[0]))
    expected = [rank[after:] for rank in epoch] if after < len(loaders[0]) else None
    shapes = {(run.num_shards, run.batch_size)}
    whole = run.num_shards * run.batch_size
    if not run.stick_to_shard:  # else each rank has a list of its own
        shapes |= {(ranks, whole // ranks) for ranks in (1, 2, 3) if whole % ranks == 0}
    for shards, size in sorted(shapes):
        same = shards == run.num_shards
        answer = other.resume(run, state, {"num_shards": shards, "batch_size": size})
        if answer is None or (expected is None and not same):
            require(not same, "a state does not fit its own run")
            continue
        if expected is None:
            require(answer["epoch"] == run.epoch + 1, "after the last batch the epoch is", answer["epoch"])
            continue
        got = [[b if isinstance(b, str) else list(map(_clip_of, b)) for b in rank] for rank in answer["ranks"]]
        # The partners of mixed clips are those of the rank's batch.
        compare_all = same or not (MIXING | {"per_batch"}) & set(run.transforms)
        if run.on_error != "raise" and run.broken is not None and not same:
            continue  # a rank whose batch would be empty gets another clip
        # Which clips make ranks equal depends on their number.
        mine, theirs = (_global(each, compare_all, padding=same) for each in (expected, got))
        if not same and ("error" in mine or "error" in theirs):
            continue  # one error covers the batch of a rank
        require(mine == theirs, f"after a resumption on {shards} ranks:", theirs, "in place of", mine)


def _check_data_loader(run: Run, folder: Path, epochs: Any) -> None:
    """A `DataLoader` over the datasets for it delivers the same batches and clips."""
    with_errors = any(isinstance(batch, str) for ranks in epochs for rank in ranks for batch in rank)
    if with_errors:
        return
    dataset = loader_of(run, folder, 0, framespool.torch.ClipDataset)
    batches, known = DataLoader(dataset, batch_size=None), labels_of(run, dataset.dataset)
    dataset.set_epoch(run.epoch)
    for ranks in epochs:
        got = [clips_of(batch, run, known) for batch in batches]
        require(_global([got], True) == _global([ranks[0]], True), "a DataLoader delivers other batches")
    batched = (MIXING | NOISE) & set(run.transforms) or run.group_clips or run.repeats > 1
    if batched or run.kind in WEIGHTED or run.broken is not None:
        return
    keywords = {name: getattr(run, name) for name in ("dtype", "num_threads", "cache", "seed")}
    transforms = [TRANSFORMS[name]() for name in run.transforms]
    items = framespool.torch.VideoDataset(
        dataset_of(run, folder),
        SAMPLERS[run.sampler](run),
        transforms=transforms,
        layout=run.layout[1:],
        index=False,
        **keywords,
    )
    items.set_epoch(run.epoch)
    for clip in [batch[0] for batch in epochs[0][0][:3]]:
        item = items[clip.requested]
        require(tuple(item["indices"].tolist()) == clip.indices, "VideoDataset", item["indices"], clip)
        pixels = hashlib.md5(item["frames"].contiguous().numpy().tobytes()).hexdigest()
        require(pixels == clip.pixels, "VideoDataset has other pixels", clip)


# ---- another process -------------------------------------------------------------------------------------------------


class Other:
    """Another process, which resumes runs."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "7"},
        )

    def resume(self, run: Run, state: dict[str, Any], changes: dict[str, Any]) -> Any:
        """Resumes a run at a state with other numbers of ranks; `None` if that is refused."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([dataclasses.asdict(run), state, changes]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        require(line, "the other process ended")
        answer = json.loads(line)
        if isinstance(answer, str):
            raise Wrong(f"in another process: {answer}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def serve(folder: Path) -> None:
    """Resumes the runs that standard input names."""
    for line in sys.stdin:
        settings_, state, changes = json.loads(line)
        try:
            print(json.dumps(_resumed(from_json(Run, settings_), folder, state, changes)), flush=True)
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)


def _resumed(run: Run, folder: Path, state: dict[str, Any], changes: dict[str, Any]) -> Any:
    more = {"num_threads": 3 - run.num_threads % 3, "prefetch_batches": 3 - run.prefetch_batches}
    try:
        loaders = [loader_of(run, folder, shard, **changes, **more) for shard in range(changes["num_shards"])]
        for loader in loaders:
            loader.load_state_dict(state)
    except fsp.errors.ArgumentError:
        return None
    epoch = loaders[0].epoch
    found = [deliveries(loader, run) for loader in loaders] if epoch == run.epoch else []
    ranks = [[b if isinstance(b, str) else [dataclasses.asdict(c) for c in b] for b in rank] for rank in found]
    return {"epoch": epoch, "ranks": ranks}


# ---- the search ------------------------------------------------------------------------------------------------------


def search(count: int, folder: Path, other: Other, *, repeatable: bool) -> Counter[str]:
    """Checks this many runs; see `drawn_runs.search()`."""
    return drawn_runs.search(runs(), lambda run: check(run, folder, other), count, repeatable=repeatable)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--run", help="check only this run, given as JSON")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.serve:
        serve(options.serve)
        return
    from framespool.tools._transcode import _ffmpeg

    with tempfile.TemporaryDirectory(prefix="training-runs-") as place:
        folder = Path(place)
        make_videos(folder, _ffmpeg.find())
        other = Other(folder)
        try:
            if options.run:
                print(check(from_json(Run, options.run), folder, other))
            else:
                print(dict(search(options.runs, folder, other, repeatable=False)))
        finally:
            other.close()


if __name__ == "__main__":
    # Under its own name, by which states know its functions.
    import training_runs

    training_runs.main()
