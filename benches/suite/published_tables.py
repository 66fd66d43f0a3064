"""The tables of the records that are published, with a description of each. In order of interest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    bench: str
    table: str
    task: str
    #: The data: codec, resolution, length, GOP, number of clips, memory budget.
    data: str


@dataclass(frozen=True)
class Sentence:
    """One row of a table, shown as a sentence with `{value}` and `{ratio}`."""

    bench: str
    table: str
    label: str
    words: str


@dataclass(frozen=True)
class Measured:
    """A row of README.md's table: a question of users, and the table of a bench that answers it."""

    question: str
    bench: str
    table: str


@dataclass(frozen=True)
class Quoted:
    """A row of README.md's table with figures of a record that `make bench` does not write.

    Args:
        quotes: How the record states the figures of framespool, of the peer, and their ratio.
    """

    question: str
    unit: str
    peer: str
    quotes: tuple[str, str, str]
    #: In benches/record.
    record: str


RANDOM_CLIPS = "24 clips of 8 H.264 files, 1080p, 5 to 14 s; GOP of 70 to 250; file opened for each clip, no cache"
EPOCH = "12 H.264 files, 1080p, 300 frames, GOP of 250; clip cache of 2 GiB, which holds all clips"
SHORT_CLIPS = (
    "28 clips of 28 files (23 H.264, 2 MPEG-4, 2 VP8, 1 VP9), 240p to 720p, 2 to 90 s, "
    "GOP of 10 to 250; clip cache of 2 GiB"
)
DISK_CACHE = "H.264 files, 300 frames, GOP of 250"
INDEX = "1,000 H.264 files, half 320x240, half 720p, 2 to 10 s, GOP of 250, 829 MB, in the page cache; no clips"
FRAMES = "16 decoded 1080p frames, 8 bits 4:2:0, in memory; no decoding, no cache"
IMAGENET = "41 JPEG files, mean size 491x384 and 55 KiB, 2 threads; no cache"
PHOTOS = "41 JPEG files, mean size 926x642 and 163 KiB, 2 threads; no cache"

HEADLINES = (
    Headline("random_clips", "cpu", "Random clip, 16 frames, stride 4, to 224x224", RANDOM_CLIPS),
    Headline(
        "shuffled_epochs",
        "windows_1_16 cpu",
        "Epoch, full shuffle: all windows of 16 frames, to 224x224",
        f"216 clips of {EPOCH}",
    ),
    Headline(
        "shuffled_epochs",
        "random_8 cpu",
        "Epoch, full shuffle: eight random clips of 16 frames per video, to 224x224",
        f"96 clips of {EPOCH}",
    ),
    Headline(
        "shuffled_epochs",
        "windows_4_64 cpu",
        "Epoch, full shuffle: windows of 16 frames, stride 4, to 224x224",
        f"48 clips of {EPOCH}",
    ),
    Headline(
        "disk_cache",
        "340x256 cpu",
        "One random clip of 16 frames, stride 4, per video and epoch, to 224x224; disk cache of 16 epochs",
        f"one clip of each of 64 links to 4 {DISK_CACHE}, 340x256; epochs after those that fill the disk cache; "
        "clip cache of 2 GiB",
    ),
    Headline(
        "disk_cache",
        "1920x1080 cpu",
        "One random clip of 16 frames, stride 4, per video and epoch, to 224x224; disk cache of 16 epochs",
        f"one clip of each of 16 links to 4 {DISK_CACHE}, 1080p; epochs after those that fill the disk cache; "
        "clip cache of 2 GiB",
    ),
    Headline(
        "short_clips",
        "all cold",
        "Clip of 16 frames, stride 2, of each video, to 224x224, new process",
        SHORT_CLIPS,
    ),
    Headline(
        "short_clips", "all warm", "Clip of 16 frames, stride 2, of each video, to 224x224, same process", SHORT_CLIPS
    ),
    Headline("index_cost", "cpu", "Frame index", INDEX),
    Headline("index_cost", "bytes", "Frame index", INDEX),
    Headline("pixels", "direct", "YUV planes to 224x224 float32", FRAMES),
    Headline("pixels", "crop", "YUV planes, shorter side 256, center crop 224, float32", FRAMES),
    Headline("pixels", "full", "YUV planes to 8-bit RGB at full size", FRAMES),
    Headline("images", "train imagenet cpu", "JPEG, random resized crop 224, flip", IMAGENET),
    Headline("images", "eval imagenet cpu", "JPEG, shorter side 256, center crop 224", IMAGENET),
    Headline("images", "augment imagenet cpu", "JPEG, rotation, crop, color, grid mask", IMAGENET),
    Headline("images", "square imagenet, 2 x 1 cpu", "JPEG to 640x640", IMAGENET),
    Headline("images", "decode imagenet cpu", "JPEG, decoding only", IMAGENET),
    Headline("images", "train photos cpu", "JPEG, random resized crop 224, flip", PHOTOS),
    Headline("images", "eval photos cpu", "JPEG, shorter side 256, center crop 224", PHOTOS),
    Headline("images", "augment photos cpu", "JPEG, rotation, crop, color, grid mask", PHOTOS),
    Headline("images", "decode photos cpu", "JPEG, decoding only", PHOTOS),
)

SHARED = "72 clips of four such videos"
SHARDS = "144 clips of eight such videos"

SENTENCES = (
    Sentence(
        "shuffled_epochs",
        "windows_1_16 budgets",
        "256 MiB",
        "with a clip cache of 256 MiB, which holds about half of the clips, the epoch of 216 clips takes {value} CPU s",
    ),
    Sentence(
        "shuffled_epochs",
        "windows_1_16 budgets",
        "0 MiB",
        "without a clip cache it takes {value} CPU s",
    ),
    Sentence(
        "disk_cache",
        "340x256 cpu",
        "spdl",
        "with SPDL, the fastest peer that decodes video, one random clip per video and epoch at 340x256 takes {value} "
        "CPU ms, {ratio} times as much as with a disk cache of 16 epochs",
    ),
    Sentence(
        "disk_cache",
        "340x256 cpu",
        "framespool",
        "with framespool without a disk cache, such a clip takes {value} CPU ms, {ratio} times as much",
    ),
    Sentence(
        "disk_cache",
        "340x256 disk",
        "framespool, disk cache of 16 epochs",
        "a disk cache of 16 epochs takes {value} MB per video of 300 frames with clips of 2.4 MB",
    ),
    Sentence(
        "disk_cache",
        "340x256 disk",
        "JPEG frames",
        "all frames of such a video as JPEG files, with 256 pixels on the shorter side, take {value} MB",
    ),
    Sentence(
        "disk_cache",
        "validation",
        "loader",
        "a clip of a validation epoch that the loader reads from disk takes {value} CPU ms, {ratio} times as much as "
        "reading its bytes and copying them once",
    ),
    Sentence(
        "disk_cache",
        "many clips, bytes",
        "ClipLoader",
        "a folder with ten million clips takes {value} bytes of memory per clip",
    ),
    Sentence(
        "scaling",
        "threads",
        "2 threads",
        f"an epoch of {SHARED} takes {{value}} s with two threads, {{ratio}} of one thread's time",
    ),
    Sentence(
        "scaling",
        "threads",
        "2 processes",
        "two independent processes take {ratio} of one thread's time, the limit",
    ),
    Sentence(
        "shards",
        "1 shards wall",
        "framespool",
        f"an epoch of {SHARDS} takes {{value}} s in one process with two threads",
    ),
    Sentence(
        "shards",
        "2 shards wall",
        "framespool",
        "the same epoch takes {value} s in two processes that both read all videos",
    ),
    Sentence(
        "shards",
        "2 shards wall",
        "framespool, stick_to_shard",
        "it takes {value} s with `stick_to_shard=True`, where each process reads its own videos",
    ),
    Sentence(
        "shards",
        "2 shards wall",
        "torchcodec",
        "it takes {value} s with PyTorch's DataLoader and torchcodec in two processes",
    ),
    Sentence("start_up", "seconds", "ClipLoader", "a loader over ten million samples is created in {value} s"),
    Sentence(
        "start_up",
        "bytes",
        "kept",
        "a dataset of ten million samples takes {value} bytes of memory per sample",
    ),
    Sentence(
        "remote",
        "desk_drawing_25p.mp4, 30 ms",
        "by URL, tables alone read",
        "a random clip by URL of a 1080p H.264 file of 14 s takes {ratio} times as long as from the local disk, with a "
        "latency of 30 ms per response",
    ),
    Sentence(
        "ray",
        "2 cores",
        "framespool.ray",
        "batches of 8 clips, 16 frames at 224x224, of 13 H.264 files, 640x480, 2 to 4 s, take {ratio} times as long "
        "through Ray as from the local loader",
    ),
)

#: One plot per bench, with one panel per table.
PLOTS = {
    "random_clips": ("cpu",),
    "shuffled_epochs": ("windows_1_16 cpu", "random_8 cpu", "windows_4_64 cpu"),
    "dataset_size": (
        "340x256-g250-k8 cpu",
        "340x256-g250-k4 cpu",
        "340x256-g250-windows37 cpu",
        "340x256-g250-k8 decoded",
    ),
    "disk_cache": ("340x256 cpu", "1920x1080 cpu", "340x256 disk"),
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

#: README.md's table. `Headline` has the data of the first kind.
README_ROWS: tuple[Measured | Quoted, ...] = (
    Measured("one random clip of a 1080p video", "random_clips", "cpu"),
    Measured("eight random clips of each 1080p video, shuffled", "shuffled_epochs", "random_8 cpu"),
    Measured(
        "one random clip of each 340x256 video per epoch, with a disk cache of 16 epochs", "disk_cache", "340x256 cpu"
    ),
    Quoted(
        "one random clip of each 1080p video per epoch, on an H200 GPU, without a disk cache",
        "clips/s",
        "PyNvVideoCodec",
        ("49.039508733848635", "31.285084450204412", "1.5675044384778134"),
        "nvidia-h200/2026-11-27-bench.json",
    ),
    Measured("JPEG images, random resized crop and flip", "images", "train imagenet cpu"),
    Quoted(
        "samples for Qwen2.5-VL: 2 frames per second, at most 64",
        "samples/s",
        "qwen-vl-utils with torchcodec",
        ("14.79", "4.40", "3.34"),
        "2026-11-27-recipe-qwen-vl.txt",
    ),
    Quoted(
        "samples for a robot policy: two cameras",
        "samples/s",
        "LeRobot with torchcodec",
        ("1023.07", "243.14", "4.19"),
        "2026-11-27-recipe-lerobot.txt",
    ),
)

#: The bench and the table of README.md's chart. It is committed; the build of the documentation draws all plots.
README_CHART = ("disk_cache", "340x256 cpu")
#: The line of docs/benchmarks.md that the build replaces with the plots.
PLOTS_MARK = "<!-- every other plot -->"
