"""The list of comparisons of `make bench`, with their arguments and the way their output is verified.

long_gop.py and many_files.py in benches/peers generate the videos that several of them read; they measure nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from suite.parsers import clips, epochs, images, system
from suite.record import Result

#: Placeholder for the corpus' folder in a bench's arguments.
CORPUS = "{corpus}"
ACTION = f"{CORPUS}/video/action"
HD = f"{CORPUS}/video/1080p"

REFERENCE_CHECK = (
    "clips of every file at full size and resized, against one sequential decode whose planes have the recorded hashes"
)


@dataclass(frozen=True)
class Bench:
    name: str
    title: str
    #: The program, relative to benches/, and the environment of its libraries (environments.py).
    program: str
    environment: str
    #: Its arguments in a recorded run, and in a trial.
    words: list[str]
    short_words: list[str]
    #: Minutes on two cores, of both; and on the first run on a machine, to generate the videos.
    minutes: float
    short_minutes: float
    #: How its output is verified.
    checked: str
    #: Converts its JSON to tables.
    read: Callable[[dict[str, Any]], Result]
    first_time_minutes: float = 0.0
    variables: dict[str, str] = field(default_factory=dict)


BENCHES = {
    bench.name: bench
    for bench in (
        Bench(
            "random_clips",
            "Random clips from long-GOP 1080p H.264, one thread",
            "peers/random_clips.py",
            "peers",
            ["--clips", "3", "--repeats", "2"],
            ["--clips", "1", "--repeats", "2", "--files", f"{HD}/robot_bag_60p.mp4"],
            8,
            0.5,
            REFERENCE_CHECK,
            clips.random_clips,
            first_time_minutes=2,
        ),
        Bench(
            "short_clips",
            "One clip of each short action video, new and same process, one thread",
            "peers/short_clips.py",
            "peers",
            ["--repeats", "3"],
            ["--repeats", "1", "--passes", "2", "--files"]
            + [f"{ACTION}/{name}" for name in ("arm_wrestling_k400_340x256.mp4", "makeup_ucf_320x240.avi")],
            8,
            0.7,
            REFERENCE_CHECK,
            clips.short_clips,
        ),
        Bench(
            "index_cost",
            "Frame index of 1,000 MP4 files",
            "peers/index_cost.py",
            "peers-dali",
            ["--repeats", "3"],
            ["--files", "24", "--repeats", "1"],
            4,
            0.5,
            "the number of frames of each file must be the one that was written",
            clips.index_cost,
            first_time_minutes=4,
        ),
        Bench(
            "shuffled_epochs",
            "Shuffled epochs over long-GOP 1080p H.264, compared with PyTorch's DataLoader",
            "peers/shuffled_epochs.py",
            "peers",
            ["--repeats", "3", "--peer-clips", "32", "--budgets", "0,256,2048"],
            ["--videos", "2", "--tasks", "windows_1_16", "--repeats", "1", "--peer-clips", "16", "--workers", "2"]
            + ["--budgets", "2048", "--check", "1"],
            35,
            1.5,
            "the first clips against a sequential decode; each epoch holds every clip once, with the first one's bytes",
            epochs.shuffled_epochs,
            first_time_minutes=4,
        ),
        Bench(
            "dataset_size",
            "Epochs over datasets of 0.1 to 100 times the clip cache",
            "peers/dataset_size.py",
            "peers",
            ["--repeats", "1"],
            ["--rows", "340x256-g250-k8", "--ratios", "0.5", "--peers-at", "0.5", "--repeats", "1"],
            60,
            1.5,
            "the first 16 clips against a sequential decode; a clip has the same bytes in every run of framespool",
            epochs.dataset_size,
            first_time_minutes=4,
        ),
        Bench(
            "disk_cache",
            "One random clip per video and epoch, with a disk cache and with other libraries",
            "disk_cache.py",
            "peers",
            ["--rounds", "3"],
            ["--parts", "340x256,validation,many", "--videos", "16", "--epochs", "4", "--clips", "100000"]
            + ["--rounds", "1"],
            25,
            1.5,
            "two epochs are equal with and without the disk cache; the peers' first clips have nearly the same pixels",
            epochs.disk_cache,
            first_time_minutes=2,
        ),
        Bench(
            "scaling",
            "framespool by threads, memory and number of clips",
            "peers/scaling.py",
            "peers",
            ["--repeats", "4", "--budgets", "0,256,2048"],
            ["--parts", "threads,memory", "--videos", "1", "--repeats", "1", "--budgets", "2048"],
            5,
            0.5,
            "all settings must give the same bytes",
            epochs.scaling,
            first_time_minutes=2,
        ),
        Bench(
            "shards",
            "An epoch divided among processes",
            "peers/shards.py",
            "peers",
            ["--repeats", "3"],
            ["--shards", "1,2", "--videos", "1", "--repeats", "1", "--peer-clips", "16", "--sides"]
            + ["framespool,framespool_stick,torchcodec"],
            12,
            0.7,
            "the shards' clips together are the epoch's, in equal parts; frames are checked by shuffled_epochs",
            epochs.shards,
            first_time_minutes=3,
        ),
        Bench(
            "images",
            "JPEG pipelines on the CPU",
            "images/run.py",
            "images",
            ["--rounds", "5", "--batches", "8"],
            ["--tasks", "train", "--sets", "imagenet", "--sides", "framespool,dali,pillow", "--rounds", "2"]
            + ["--batches", "4"],
            45,
            2,
            "pixels against float64 arithmetic, random draws against their ranges, two batches as they are timed",
            images.images,
        ),
        Bench(
            "pixels",
            "Transforms without decoding, 1080p, one thread",
            "pixels/run.py",
            "pixels",
            ["--rounds", "15"],
            ["--groups", "direct", "--rounds", "3"],
            6,
            1,
            "four frames of every line against float64 arithmetic",
            images.pixels,
            first_time_minutes=2,
        ),
        Bench(
            "remote",
            "Videos by URL, with a latency per response",
            "remote.py",
            "peers",
            [f"{HD}/desk_drawing_25p.mp4", f"{HD}/robot_bag_60p.mp4", f"{ACTION}/arm_wrestling_k400_340x256.mp4"]
            + [f"{HD}/jellyfish_30p.mkv", "--latency-ms", "0", "30", "--clips", "8"],
            [f"{ACTION}/arm_wrestling_k400_340x256.mp4", "--latency-ms", "5", "--clips", "3"],
            3,
            0.2,
            "every frame by URL is the file's",
            system.remote,
            variables={"FRAMESPOOL_INDEX": "off"},
        ),
        Bench(
            "ray",
            "framespool.ray compared with the local loader on one machine",
            "ray_throughput.py",
            "frameworks",
            ["--repeats", "5"],
            ["--repeats", "2", "--times", "1", "--cores", "1"],
            3,
            0.7,
            "all sides deliver the same batches, by hash",
            system.ray,
            variables={"FRAMESPOOL_INDEX": "off"},
        ),
        Bench(
            "start_up",
            "Start-up of a loader over ten million samples",
            "start_up.py",
            "peers",
            ["--entries", "10000000"],
            ["--entries", "200000"],
            1,
            0.1,
            "entries drawn from the table are those of the list",
            system.start_up,
            variables={"FRAMESPOOL_INDEX": "off"},
        ),
    )
}
