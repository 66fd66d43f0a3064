"""Scenarios of the soak test (``soak.py``), one function each; all random draws use the given generator.

Each takes the soak files, a generator and counts to add to. Errors of framespool are expected and counted by
class; any other error, and :class:`WrongResult` for a wrong result, ends the soak.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import framespool as fsp

MAX_FRAMES = 300


class WrongResult(Exception):
    """A delivered result is wrong."""


def is_short(path: Path) -> bool:
    """Whether a file contains a video that is not long: a small file may have a long one."""
    try:
        return len(fsp.Video(path, index=False)) <= MAX_FRAMES
    except fsp.Error:
        return False


@dataclass(frozen=True)
class SoakFiles:
    """Files to read, and a place to write."""

    videos: list[Path]
    damaged_videos: list[Path]
    pictures: list[Path]
    damaged_pictures: list[Path]
    work: Path
    #: A small file system; ``None`` if none could be mounted.
    full: Path | None

    @classmethod
    def of(cls, media: Path, work: Path, *, full_disk: bool) -> SoakFiles:
        """The smaller ones of the test media: a soak is about many loaders, not about long decoding."""

        def small(pattern: str, most: int) -> list[Path]:
            found = sorted(path for path in media.glob(pattern) if path.is_file() and path.stat().st_size <= most)
            return [path for path in found if path.suffix not in (".md", ".json", ".txt")]

        videos = (
            small("video/action/words/*", 1 << 20) + small("video/odd/*", 1 << 19) + small("video/derived/*", 1 << 18)
        )
        return cls(
            videos=[path for path in videos if is_short(path)],
            damaged_videos=small("video/corrupt/**/*", 1 << 19),
            pictures=small("images/classes/*/*.jpg", 1 << 17),
            damaged_pictures=small("images/corrupt/**/*", 1 << 18),
            work=work,
            full=work / "full" if full_disk else None,
        )

    def own(self, name: str) -> Path:
        """A folder for one thread, so that concurrent scenarios do not share files."""
        folder = self.work / f"{name}-{threading.current_thread().name}"
        folder.mkdir(exist_ok=True)
        return folder


@contextlib.contextmanager
def counted(counts: Counter[str]) -> Iterator[None]:
    """Counts errors of framespool; an internal error is not expected."""
    try:
        yield
    except fsp.errors.InternalError:
        raise
    except fsp.Error as error:
        counts[type(error).__name__] += 1


def settings(draw: Random) -> dict[str, Any]:
    """Random arguments that both kinds of loaders have."""
    return {
        "batch_size": draw.choice([1, 2, 5, 8]),
        "transforms": [
            fsp.transforms.RandomResizedCrop(draw.choice([24, 64, 112])),
            fsp.transforms.RandomHorizontalFlip(),
        ],
        "shuffle": draw.choice(["full", "buffer", False]),
        "seed": draw.randrange(1 << 32),
        "last_batch": draw.choice(["partial", "drop", "fill"]),
        "on_error": draw.choice(["raise", "skip", "replace"]),
        "num_threads": draw.choice([1, 2, 3, 6]),
        "prefetch_batches": draw.choice([0, 1, 3]),
        "dtype": draw.choice(["uint8", "float16", "float32"]),
    }


def clip_loader(files: list[Any], draw: Random, **keywords: Any) -> fsp.ClipLoader:
    """A clip loader over these files, with random arguments."""
    rule = draw.choice(
        [
            fsp.samplers.RandomClips(
                sequence_length=4, stride=draw.choice([1, 3]), clips_per_video=draw.choice([1, 3])
            ),
            fsp.samplers.Windows(sequence_length=8, step=16),
        ]
    )
    own = {
        "cache": fsp.Cache(draw.choice([0, "1MiB", "16MiB", "2GiB"]), lookahead=draw.choice([0, 7, 65536])),
        "index": False,
    }
    return fsp.ClipLoader(files, rule, **{**settings(draw), **own, **keywords})


def image_loader(files: list[Any], draw: Random, **keywords: Any) -> fsp.ImageLoader:
    """The same for images."""
    return fsp.ImageLoader(files, **{**settings(draw), "exact": draw.random() < 0.3, **keywords})


def some(files: list[Path], draw: Random, most: int) -> list[tuple[str, int]]:
    """Some of the files, with labels."""
    chosen = draw.sample(files, min(len(files), draw.randint(1, most)))
    return [(str(path), label) for label, path in enumerate(chosen)]


def take(loader: Any, most: int, counts: Counter[str]) -> list[Any]:
    """Up to a number of batches; errors instead of a batch are counted and skipped."""
    batches, taken = iter(loader), []
    for _ in range(most):
        with counted(counts):
            try:
                taken.append(next(batches))
            except StopIteration:
                break
            counts["batches"] += 1
    return taken


def whole_loader(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """One or two complete epochs, with damaged files among valid ones."""
    make = clip_loader if draw.random() < 0.5 else image_loader
    files = soak_files.videos if make is clip_loader else soak_files.pictures
    damaged = soak_files.damaged_videos if make is clip_loader else soak_files.damaged_pictures
    dataset = some(files, draw, 10) + (some(damaged, draw, 4) if draw.random() < 0.6 else [])
    with counted(counts):
        loader = make(dataset, draw)
        for _ in range(draw.randint(1, 2)):
            take(loader, len(loader) + 1, counts)
        loader.stats()
        loader.failures()


def left_early(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Consumers that stop in the middle and keep batches after the loader is dropped."""
    make = draw.choice([clip_loader, image_loader])
    dataset = some(soak_files.videos if make is clip_loader else soak_files.pictures, draw, 12)
    with counted(counts):
        loader = make(dataset, draw)
        for _ in range(draw.randint(0, 3)):
            held = take(loader, draw.randint(0, 2), counts)
            if held and not isinstance(held[-1].frames if make is clip_loader else held[-1].images, list):
                view = (held[-1].frames if make is clip_loader else held[-1].images).numpy()
                del held
                if view.size:
                    view.max()
        if draw.random() < 0.5:
            iter(loader)


def many_at_once(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Several loaders in one process, taken in turns."""
    with counted(counts):
        loaders = [
            clip_loader(some(soak_files.videos, draw, 5), draw, num_threads=1, on_error="skip") for _ in range(3)
        ]
        loaders += [
            image_loader(some(soak_files.pictures, draw, 9), draw, num_threads=1, on_error="skip") for _ in range(2)
        ]
        epochs = [iter(loader) for loader in loaders]
        for _ in range(12):
            with counted(counts), contextlib.suppress(StopIteration):
                next(draw.choice(epochs))
                counts["batches"] += 1


def another_thread(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """A loader that one thread creates, another one reads, and a third one queries for counts."""
    with counted(counts):
        loader = clip_loader(some(soak_files.videos, draw, 6), draw, on_error="skip")
        done = threading.Event()

        def poll() -> None:
            while not done.wait(0.01):
                loader.stats()

        threads = [threading.Thread(target=poll), threading.Thread(target=take, args=(loader, 6, counts))]
        for thread in threads:
            thread.start()
        threads[1].join()
        done.set()
        threads[0].join()


def single_videos(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Random access, iteration that is left, pickles, videos in memory."""
    for path in draw.sample(soak_files.videos, 4) + draw.sample(soak_files.damaged_videos, 2):
        with counted(counts):
            video = fsp.Video(path.read_bytes() if draw.random() < 0.3 else str(path), index=False)
            frames = sorted(draw.randrange(len(video)) for _ in range(4))
            if draw.random() < 0.5:
                draw.shuffle(frames)
            video.frames(frames, transforms=[fsp.transforms.Resize(32)])
            for _ in zip(range(draw.randint(1, 10)), video, strict=False):
                pass
            if draw.random() < 0.3:
                with contextlib.suppress(TypeError):  # made from bytes
                    pickle.loads(pickle.dumps(video))[0]
            counts["videos"] += 1


def random_damage(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Valid files with some bytes flipped, removed, or truncated."""
    folder = soak_files.own("damage")
    videos = draw.random() < 0.5
    dataset = []
    for number, path in enumerate(draw.sample(soak_files.videos if videos else soak_files.pictures, 4)):
        content = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 8)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.3:
            at = draw.randrange(len(content))
            del content[at : at + draw.choice([1, 188, len(content)])]
        file = folder / f"{number}{path.suffix}"
        file.write_bytes(content)
        dataset.append((str(file), number))
    with counted(counts):
        loader = (clip_loader if videos else image_loader)(dataset, draw)
        take(loader, 2 * len(loader), counts)


def files_that_change(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Files replaced, truncated and removed while a loader reads them."""
    folder = soak_files.own("moving")
    videos = draw.random() < 0.6
    sources = draw.sample(soak_files.videos if videos else soak_files.pictures, 6)
    files = [folder / f"{number}{path.suffix}" for number, path in enumerate(sources)]
    for file, source in zip(files, sources, strict=True):
        file.write_bytes(source.read_bytes())
    done = threading.Event()
    moves = Random(draw.randrange(1 << 32))

    def meddle() -> None:
        while not done.wait(moves.choice([0.0, 0.002, 0.01])):
            number = moves.randrange(len(files))
            fresh = files[number].with_suffix(".new")
            match moves.randrange(4):
                case 0:
                    with contextlib.suppress(FileNotFoundError):
                        os.truncate(files[number], moves.randrange(sources[number].stat().st_size))
                case 1:
                    files[number].unlink(missing_ok=True)
                case 2:
                    files[number].write_bytes(sources[number].read_bytes())
                case 3:
                    fresh.write_bytes(moves.choice(sources).read_bytes())
                    fresh.rename(files[number])

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        with counted(counts):
            index = str(soak_files.own("moving-index")) if draw.random() < 0.5 else False
            keywords = {"index": index} if videos else {}
            loader = (clip_loader if videos else image_loader)([(str(f), 0) for f in files], draw, **keywords)
            for _ in range(3):
                take(loader, len(loader), counts)
    finally:
        done.set()
        thread.join()


def index_without_room(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Indices on a disk that is full, or gets full: the loader continues without."""
    full = soak_files.full if soak_files.full is not None else soak_files.own("no-room")
    place = full / f"index-{draw.randrange(2)}"
    ballast = full / "ballast"
    with contextlib.suppress(OSError):
        ballast.unlink(missing_ok=True) if draw.random() < 0.5 else ballast.write_bytes(bytes(1 << 20))
    with counted(counts):
        loader = clip_loader(some(soak_files.videos, draw, 8), draw, index=str(place))
        take(loader, len(loader), counts)
        counts["index errors"] += loader.stats()["index_cache_error"] is not None


def index_that_is_kept(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Indices in a folder that several loaders share, and that is removed repeatedly."""
    place = soak_files.own("index")
    if draw.random() < 0.2:
        for file in place.iterdir():
            file.unlink(missing_ok=True)
    with counted(counts):
        loader = clip_loader(some(soak_files.videos, draw, 8), draw, index=str(place))
        take(loader, len(loader), counts)


def digest(batch: Any) -> str:
    """Digest of everything in a batch of clips of one size."""
    md5 = hashlib.md5()
    for name in ("frames", "labels", "indices", "mask", "video_ids", "clip_ids", "padding"):
        md5.update(getattr(batch, name).tobytes())
    return md5.hexdigest()


def states(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """A state through JSON into a new loader with other threads and budgets: the next batches must be equal."""
    dataset = some(soak_files.videos[:13], draw, 13)
    fixed: dict[str, Any] = {
        **{key: value for key, value in settings(draw).items() if key not in ("num_threads", "prefetch_batches")},
        "index": False,
        "on_error": "skip",
    }
    rule = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=2)

    def make() -> fsp.ClipLoader:
        free = {
            "num_threads": draw.choice([1, 3]),
            "prefetch_batches": draw.choice([0, 2]),
            "cache": draw.choice([0, "64MiB"]),
        }
        return fsp.ClipLoader(dataset, rule, **fixed, **free)

    with counted(counts):
        first = make()
        epoch = iter(first)
        for _ in range(draw.randint(0, max(0, len(first) - 1))):
            next(epoch)
            counts["batches"] += 1
        state = json.loads(json.dumps(first.state_dict()))
        rest = [digest(batch) for batch in epoch]
        second = make()
        second.load_state_dict(state)
        resumed = [digest(batch) for batch in second]
        counts["states"] += 1
        # At the end of an epoch the state is the start of the next one.
        if rest and rest != resumed:
            raise WrongResult(
                f"{len(rest)} batches were left, {len(resumed)} came, and they differ: {dataset}, {fixed}"
            )


def dropped_at_once(soak_files: SoakFiles, draw: Random, counts: Counter[str]) -> None:
    """Loaders created and dropped, some in a reference cycle that only the garbage collector finds."""
    for _ in range(3):
        with counted(counts):
            loader = clip_loader(some(soak_files.videos, draw, 6), draw)
            if draw.random() < 0.5:
                iter(loader)
                time.sleep(draw.random() / 100)
            if draw.random() < 0.3:
                loader.circle = loader  # type: ignore[attr-defined]


#: Every scenario by its name.
SCENARIOS: dict[str, Callable[[SoakFiles, Random, Counter[str]], None]] = {
    story.__name__: story
    for story in (
        whole_loader,
        left_early,
        many_at_once,
        another_thread,
        single_videos,
        random_damage,
        files_that_change,
        index_without_room,
        index_that_is_kept,
        states,
        dropped_at_once,
    )
}
