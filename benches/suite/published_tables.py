"""Which tables of the records are shown, in words for people who have not read the programs. In order of interest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    bench: str
    table: str
    words: str
    #: Whether README has it too; docs/benchmarks.md has all.
    readme: bool = False


@dataclass(frozen=True)
class Fact:
    """A row of a table that stands by itself, in a sentence: `{value}`, `{low}`, `{high}`, `{ratio}`, `{unit}`."""

    bench: str
    table: str
    label: str
    words: str
    readme: bool = False


HEADLINES = (
    Headline("random_clips", "cpu", "A random clip out of long-GOP 1080p H.264", readme=True),
    Headline("shuffled_epochs", "windows_1_16 cpu", "A shuffled epoch, all windows of 16 frames", readme=True),
    Headline("shuffled_epochs", "random_8 cpu", "A shuffled epoch, eight random clips of each video", readme=True),
    Headline("shuffled_epochs", "windows_4_64 cpu", "A shuffled epoch, windows of 16 frames, stride 4", readme=True),
    Headline("short_clips", "all cold", "One clip of each short action video, a process's first", readme=True),
    Headline("short_clips", "all warm", "The same again in one process"),
    Headline("index_cost", "cpu", "Which frames a thousand MP4s have", readme=True),
    Headline("index_cost", "bytes", "The same: bytes read"),
    Headline("pixels", "direct", "1080p planes to 224x224 float32", readme=True),
    Headline("pixels", "crop", "1080p planes, shorter side 256, centre crop 224", readme=True),
    Headline("pixels", "full", "1080p planes to RGB at full size"),
    Headline("images", "train imagenet cpu", "JPEG of ImageNet's size: random resized crop 224, mirror", readme=True),
    Headline("images", "eval imagenet cpu", "JPEG of ImageNet's size: shorter side 256, centre crop 224", readme=True),
    Headline("images", "augment imagenet cpu", "JPEG of ImageNet's size: rotation, crop, colors, grid", readme=True),
    Headline("images", "square imagenet, 2 x 1 cpu", "JPEG of ImageNet's size to 640x640"),
    Headline("images", "decode imagenet cpu", "JPEG of ImageNet's size: decoding alone"),
    Headline("images", "train photos cpu", "Photographs of 0.6 megapixels: random resized crop 224, mirror"),
    Headline("images", "eval photos cpu", "Photographs: shorter side 256, centre crop 224"),
    Headline("images", "augment photos cpu", "Photographs: rotation, crop, colors, grid mask"),
    Headline("images", "decode photos cpu", "Photographs: decoding alone"),
)

FACTS = (
    Fact("scaling", "threads", "2 threads", "two threads take {value} s for an epoch, {ratio} of one thread's time"),
    Fact("scaling", "threads", "2 processes", "two processes that share nothing, {ratio}: what the machine can give"),
    Fact(
        "shards",
        "1 shards wall",
        "framespool",
        "an epoch of eight videos takes {value} s in one process with two threads",
    ),
    Fact(
        "shards",
        "2 shards wall",
        "framespool",
        "the same takes {value} s in two processes, whose clips come from everywhere",
    ),
    Fact(
        "shards", "2 shards wall", "framespool, stick_to_shard", "it takes {value} s where each keeps to its own videos"
    ),
    Fact("shards", "2 shards wall", "torchcodec", "and {value} s with PyTorch's DataLoader and torchcodec in each"),
    Fact("start_up", "seconds", "ClipLoader", "a loader over ten million entries is made in {value} s", readme=True),
    Fact("start_up", "bytes", "kept", "of each of ten million entries {value} bytes are kept", readme=True),
    Fact(
        "remote",
        "desk_drawing_25p.mp4, 30 ms",
        "by URL, tables alone read",
        "a random clip by URL takes {ratio} times as long as from the disk, with 30 ms before each answer",
        readme=True,
    ),
    Fact("ray", "2 cores", "framespool.ray", "batches through Ray take {ratio} times as long as the local loader's"),
)

#: Plots: a picture for each bench, a panel for each table.
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
