"""The tables of the records that are published, with a description of each. In order of interest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    bench: str
    table: str
    words: str
    #: Whether README.md shows it too; docs/benchmarks.md shows all.
    readme: bool = False


@dataclass(frozen=True)
class Fact:
    """One row of a table, shown as a sentence with `{value}` and `{ratio}`."""

    bench: str
    table: str
    label: str
    words: str
    readme: bool = False


HEADLINES = (
    Headline("random_clips", "cpu", "One random clip from long-GOP 1080p H.264", readme=True),
    Headline("shuffled_epochs", "windows_1_16 cpu", "Shuffled epoch, all windows of 16 frames, stride 1", readme=True),
    Headline("shuffled_epochs", "random_8 cpu", "Shuffled epoch, eight random clips of each video", readme=True),
    Headline("shuffled_epochs", "windows_4_64 cpu", "Shuffled epoch, windows of 16 frames, stride 4", readme=True),
    Headline("short_clips", "all cold", "One clip of each short action video, new process", readme=True),
    Headline("short_clips", "all warm", "One clip of each short action video, same process"),
    Headline("index_cost", "cpu", "Frame index of 1,000 MP4 files", readme=True),
    Headline("index_cost", "bytes", "Frame index of 1,000 MP4 files"),
    Headline("pixels", "direct", "1080p YUV planes to 224x224 float32", readme=True),
    Headline("pixels", "crop", "1080p YUV planes, shorter side 256, center crop 224", readme=True),
    Headline("pixels", "full", "1080p YUV planes to RGB at full size"),
    Headline("images", "train imagenet cpu", "JPEG of ImageNet's size: random resized crop 224, flip", readme=True),
    Headline("images", "eval imagenet cpu", "JPEG of ImageNet's size: shorter side 256, center crop 224", readme=True),
    Headline(
        "images", "augment imagenet cpu", "JPEG of ImageNet's size: rotation, crop, color, grid mask", readme=True
    ),
    Headline("images", "square imagenet, 2 x 1 cpu", "JPEG of ImageNet's size to 640x640"),
    Headline("images", "decode imagenet cpu", "JPEG of ImageNet's size: decoding only"),
    Headline("images", "train photos cpu", "Photographs of 0.6 megapixels: random resized crop 224, flip"),
    Headline("images", "eval photos cpu", "Photographs: shorter side 256, center crop 224"),
    Headline("images", "augment photos cpu", "Photographs: rotation, crop, color, grid mask"),
    Headline("images", "decode photos cpu", "Photographs: decoding only"),
)

FACTS = (
    Fact("scaling", "threads", "2 threads", "an epoch takes {value} s with two threads, {ratio} of one thread's time"),
    Fact(
        "scaling",
        "threads",
        "2 processes",
        "two independent processes take {ratio} of one thread's time, the limit",
    ),
    Fact(
        "shards",
        "1 shards wall",
        "framespool",
        "an epoch over eight videos takes {value} s in one process with two threads",
    ),
    Fact(
        "shards",
        "2 shards wall",
        "framespool",
        "the same epoch takes {value} s in two processes that both read all videos",
    ),
    Fact(
        "shards",
        "2 shards wall",
        "framespool, stick_to_shard",
        "it takes {value} s with `stick_to_shard=True`, where each process reads its own videos",
    ),
    Fact(
        "shards",
        "2 shards wall",
        "torchcodec",
        "it takes {value} s with PyTorch's DataLoader and torchcodec in two processes",
    ),
    Fact("start_up", "seconds", "ClipLoader", "a loader over ten million samples is created in {value} s", readme=True),
    Fact(
        "start_up",
        "bytes",
        "kept",
        "a dataset of ten million samples takes {value} bytes of memory per sample",
        readme=True,
    ),
    Fact(
        "remote",
        "desk_drawing_25p.mp4, 30 ms",
        "by URL, tables alone read",
        "a random clip by URL takes {ratio} times as long as from the local disk, with a latency of 30 ms per response",
        readme=True,
    ),
    Fact("ray", "2 cores", "framespool.ray", "batches through Ray take {ratio} times as long as from the local loader"),
)

#: One plot per bench, with one panel per table.
PLOTS = {
    "random_clips": ("cpu",),
    "shuffled_epochs": ("windows_1_16 cpu", "random_8 cpu", "windows_4_64 cpu"),
    "short_clips": ("all cold", "all warm"),
    "index_cost": ("cpu", "bytes"),
    "pixels": ("direct", "crop", "full", "augment"),
    "images": ("train imagenet cpu", "eval imagenet cpu", "augment imagenet cpu", "decode imagenet cpu"),
    "scaling": ("threads", "memory"),
    "shards": ("1 shards wall", "2 shards wall", "4 shards wall"),
    "remote": ("desk_drawing_25p.mp4, 30 ms", "robot_bag_60p.mp4, 30 ms"),
    "ray": ("1 cores", "2 cores"),
    "start_up": ("seconds",),
}
