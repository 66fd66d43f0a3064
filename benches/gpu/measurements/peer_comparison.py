"""Times framespool and its peers in turn, within one process, on the same clips, after verifying their output.

Two tasks. One clip per video: each clip is of a file of its own for framespool, so that no picture serves two clips.
Many clips per video: the clips overlap, and framespool decodes their pictures once. Peers keep their readers open in
both, and have only the few files behind the clips to open.
"""

from __future__ import annotations

import collections
import importlib.util
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
from bench_videos import BenchVideo, full_hd
from common import TRY
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item
from peers import PEERS, Peer
from timing import SIZE, synchronize

from measurements.loading import PUBLISHED

LENGTH, STRIDE = 16, 4
SPAN = (LENGTH - 1) * STRIDE + 1
CLIPS = 8 if TRY else 64
ROUNDS = 5
THREADS = (4, 8, 16)
#: GOPs to compare, if there are such videos.
KINDS = ("GOP 30", "GOP 250")


def draw(videos: list[BenchVideo], count: int) -> list[tuple[str, list[int]]]:
    """The same clips in every run and for every library."""
    numbers = random.Random(11)
    clips = []
    for _ in range(count):
        video = numbers.choice(videos)
        start = numbers.randrange(video.frames - SPAN + 1)
        clips.append((str(video.path), list(range(start, start + SPAN, STRIDE))))
    return clips


def separate(clips: list[tuple[str, list[int]]], folder: Path) -> list[tuple[str, list[int]]]:
    """The same clips, each of a file of its own: a link to the file."""
    linked = []
    for number, (path, frames) in enumerate(clips):
        link = folder / f"{number:03}{Path(path).suffix}"
        link.symlink_to(Path(path).resolve())
        linked.append((str(link), frames))
    return linked


def ours(clips: list[tuple[str, list[int]]], **options: Any) -> fsp.ClipLoader:
    """A loader of exactly these clips: each is a segment of a video that contains one window."""
    parts = [
        fsp.datasets.VideoSegment(path, start_frame=frames[0], end_frame=frames[0] + SPAN) for path, frames in clips
    ]
    keywords = {"device": fsp.Gpu(0, decoder="nvdec"), **options}
    return fsp.ClipLoader(
        parts,
        fsp.samplers.Windows(sequence_length=LENGTH, stride=STRIDE),
        batch_size=4,
        transforms=[fsp.transforms.Resize((SIZE, SIZE))],
        layout="NTCHW",
        **keywords,
    )


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - cpu


def exhaust(loader: fsp.ClipLoader) -> None:
    # Batches are copied in their own streams, so the last one delivered need not be the last one finished.
    last = collections.deque(loader, maxlen=3)
    for batch in last:
        synchronize(batch)


def compare_with_peer(peer: type[Peer], context: Context) -> Iterator[Row]:
    if why := peer.missing():
        yield Row(peer.name, "random clips in turn with framespool", IMPOSSIBLE, why)
        return
    kinds: dict[str, list[BenchVideo]] = {}
    for video in full_hd("h264"):
        if video.frames >= SPAN:
            kinds.setdefault(video.kind, []).append(video)
    chosen = [kind for kind in KINDS if kind in kinds] or list(kinds)
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen:
            yield from peer_rates(peer, kind, kinds[kind], Path(folder), context.budget_seconds / len(chosen))


def peer_rates(
    peer: type[Peer], kind: str, videos: list[BenchVideo], folder: Path, budget_seconds: float
) -> Iterator[Row]:
    import torch

    until = time.monotonic() + budget_seconds
    what = f"{kind}: random clips of {LENGTH}, stride {STRIDE}, {SIZE}x{SIZE} on the GPU, in turn with framespool"
    clips = draw(videos, CLIPS)
    try:
        problem = next(filter(None, (peer(1, SIZE).wrong(clip) for clip in clips[:3])), "")
    except Exception as error:  # a peer may raise anything
        yield Row(peer.name, what, IMPOSSIBLE, f"{type(error).__name__}: {error}"[:300])
        return
    if problem:
        yield Row(peer.name, what, IMPOSSIBLE, f"not timed, wrong output: {problem}")
        return
    links = folder / kind.replace(" ", "-")
    links.mkdir()
    tasks = {"one clip per video": separate(clips, links), "many clips per video": clips}
    for name, ours_clips in tasks.items():
        check = ours_clips[:8]
        for ours_batch, right in zip(ours(check), ours(check, device="cpu"), strict=True):
            if ours_batch.frames.tobytes() != right.frames.tobytes():
                yield Row("framespool", f"{what}, {name}", FAILED, "its output differs from the CPU's")
                return
    sides = {threads: peer(threads, SIZE) for threads in THREADS}

    def run_peer(threads: int, some: list[tuple[str, list[int]]] = clips) -> None:
        for _ in sides[threads].run(some):
            pass
        torch.cuda.synchronize()

    # Its fastest setting, after a warm-up in which readers and decoders are created.
    tried: dict[int, float] = {}
    for threads in THREADS:
        run_peer(threads, clips[: 2 * threads])
        tried[threads] = timed(lambda threads=threads: run_peer(threads, clips[:32]))[0]
    best = min(tried, key=tried.__getitem__)
    loaders = {name: ours(ours_clips) for name, ours_clips in tasks.items()}
    work: dict[str, Callable[[], None]] = {name: (lambda n=name: exhaust(loaders[n])) for name in loaders}
    work[peer.name] = lambda: run_peer(best)
    for loader in loaders.values():
        exhaust(loader)
    walls: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for number in range(ROUNDS):
        for name in list(walls)[:: 1 if number % 2 else -1]:
            walls[name].append(timed(work[name]))
        if time.monotonic() > until:
            break
    theirs = walls[peer.name]
    for name in tasks:
        figures: dict[str, Any] = {
            "peer_over_framespool": statistics.median(b[0] / a[0] for a, b in zip(walls[name], theirs, strict=True)),
            "version": sides[best].version(),
            "threads": best,
            "files": len(videos),
            "rounds": len(theirs),
        }
        for side, times in (("framespool", walls[name]), (peer.name, theirs)):
            wall = statistics.median(seconds for seconds, _ in times)
            figures[f"{side}_clips_per_s"] = CLIPS / wall
            figures[f"{side}_cores"] = statistics.median(cpu / seconds for seconds, cpu in times)
        stats = loaders[name].stats()
        passes = len(theirs) + 1
        figures["framespool_pictures_per_clip"] = stats["frames_decoded"] / (CLIPS * passes)
        yield Row(peer.name, f"{what}, {name}", OK, "", figures)


def register(peer: type[Peer]) -> None:
    @item(f"peer-{peer.name.lower()}", seconds=150)
    def run(context: Context) -> Iterator[Row]:
        yield from compare_with_peer(peer, context)


for each in PEERS:
    register(each)


@item("peer-dali", seconds=150)
def dali(context: Context) -> Iterator[Row]:
    """DALI reads sequences of complete videos: the published settings, full size, in turn."""
    name, asked = "nvidia-dali", "1080p, sequence_length 16, batch 8, full size, in turn with framespool"
    try:
        found = importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        yield Row(name, asked, IMPOSSIBLE, "nvidia.dali is not installed")
        return
    videos = [video for video in full_hd("h264") if video.frames >= PUBLISHED[1]]
    if not videos:
        yield Row(name, asked, IMPOSSIBLE, f"no 1080p H.264 of {PUBLISHED[1]} frames; see README.md, encode.py")
        return
    yield dali_rates(videos, context)


def dali_rates(videos: list[BenchVideo], context: Context) -> Row:
    import nvidia.dali as dali
    import nvidia.dali.fn as fn
    import torch

    name, asked = "nvidia-dali", "1080p, sequence_length 16, batch 8, full size, in turn with framespool"
    files = [str(videos[number % len(videos)].path) for number in range(24)]
    sequences = sum(video.frames // 16 for video in (videos[n % len(videos)] for n in range(24)))

    @dali.pipeline_def(batch_size=8, num_threads=4, device_id=0)
    def pipeline() -> Any:
        return fn.readers.video(device="gpu", filenames=files, sequence_length=16, step=16, name="reader")

    pipe = pipeline()
    pipe.build()
    (first,) = pipe.run()
    theirs = torch.from_dlpack(first[0]).float().cpu()[:, ::4, ::4]
    right = torch.from_dlpack(fsp.Video(files[0], index=False, layout="THWC").frames(range(16)).frames).float()[
        :, ::4, ::4
    ]
    if (
        off := float((theirs - right).abs().mean())
    ) > 6.0:  # always BT.601, so the difference is larger than for others
        return Row(name, asked, IMPOSSIBLE, f"not timed: its first sequence differs by {off:.1f} in the mean")
    sampler = fsp.samplers.Windows(sequence_length=16)
    loader = fsp.ClipLoader(files, sampler, batch_size=8, device=fsp.Gpu("cuda:0", decoder="nvdec"), layout="NTHWC")

    def run_dali() -> None:
        for _ in range(sequences // 8):
            pipe.run()
        torch.cuda.synchronize()

    run_dali()
    exhaust(loader)
    pairs = []
    for _ in range(ROUNDS):
        pairs.append((timed(lambda: exhaust(loader)), timed(run_dali)))
        if context.left() < 0:
            break
    figures = {
        "peer_over_framespool": statistics.median(b[0] / a[0] for a, b in pairs),
        "framespool_frames_per_s": sequences * 16 / statistics.median(a[0] for a, _ in pairs),
        "dali_frames_per_s": sequences // 8 * 128 / statistics.median(b[0] for _, b in pairs),
        "differs_by": off,
        "version": dali.__version__,
        "rounds": len(pairs),
    }
    return Row(name, asked, OK, "", figures)
