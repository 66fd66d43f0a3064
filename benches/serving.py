"""Video loading of a server under concurrent requests: `framespool.compat.vllm`, and what vLLM's loaders do.

    python3 -m venv opencv && opencv/bin/pip install opencv-python-headless numpy
    python benches/serving.py --opencv opencv/bin/python --torchcodec PYTHON --corpus CORPUS [--json out.json]

A request has the bytes of a video and gets 32 evenly spread frames at full size. As many threads as requests run
at a time, each with one request after the other. Every figure comes from a process of its own; the sides take turns,
and the medians of the rounds are printed. OpenCV and torchcodec, of which at least one is given, do what vLLM's loaders
of these names do: OpenCV grabs each frame up to the last one and converts the selected ones, torchcodec decodes the
selected ones in one call. Both read from memory and have the number of threads that vLLM leaves them. Before anything
is printed, all sides must have selected the same frames, with pixels that differ by at most 3 levels on average.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_FILES = (
    "action/arm_wrestling_k400_340x256.mp4",
    "action/bikes_640x272.mp4",
    "action/people_table_768x432_90s.mp4",
    "action/robot_sink_960x540.mp4",
    "action/dog_fetch_720p.mp4",
)
_FRAMES = 32
_CONCURRENT = (1, 4, 8, 32)
#: Largest mean difference of two frames in levels of 255: the sides interpolate chroma differently.
_TOLERANCE = 3.0


def _framespool() -> Callable[[bytes], tuple[Any, list[int]]]:
    from framespool.compat import vllm

    def load(data: bytes) -> tuple[Any, list[int]]:
        frames, metadata = vllm.load_bytes(data, _FRAMES)
        return frames, metadata["frames_indices"]

    return load


def _opencv() -> Callable[[bytes], tuple[Any, list[int]]]:
    import cv2  # type: ignore[import-not-found]
    import numpy as np

    def load(data: bytes) -> tuple[Any, list[int]]:
        capture = cv2.VideoCapture(io.BytesIO(data), cv2.CAP_FFMPEG, [])
        total = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        indices = np.linspace(0, total - 1, min(_FRAMES, total), dtype=int).tolist()
        height, width = (int(capture.get(side)) for side in (cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH))
        frames = np.empty((len(indices), height, width, 3), np.uint8)
        wanted, found = set(indices), []
        for index in range(total):
            if capture.grab() and index in wanted:
                frames[len(found)] = cv2.cvtColor(capture.retrieve()[1], cv2.COLOR_BGR2RGB)
                found.append(index)
        return frames, found

    return load


def _torchcodec() -> Callable[[bytes], tuple[Any, list[int]]]:
    import numpy as np
    from torchcodec.decoders import VideoDecoder  # type: ignore[import-not-found]

    def load(data: bytes) -> tuple[Any, list[int]]:
        decoder = VideoDecoder(data, dimension_order="NHWC", num_ffmpeg_threads=0)
        total = decoder.metadata.num_frames
        indices = np.linspace(0, total - 1, min(_FRAMES, total), dtype=int).tolist()
        return decoder.get_frames_at(indices).data.numpy(), indices

    return load


_SIDES = {"framespool": _framespool, "opencv": _opencv, "torchcodec": _torchcodec}


def _threads_now() -> int:
    return len(os.listdir("/proc/self/task"))


def serve(side: str, concurrent: int, requests: int, folder: Path, files: list[Path]) -> dict[str, Any]:
    """Runs one side, and writes the result of the first request for each file to the folder."""
    import numpy as np

    load = _SIDES[side]()
    contents = [path.read_bytes() for path in files]
    for number, data in enumerate(contents):
        frames, indices = load(data)
        np.savez(folder / f"{number}.npz", indices=indices, frames=frames[:: max(1, len(frames) // 4)])
        del frames
    before, stop, most = _threads_now(), threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.002):
            most[0] = max(most[0], _threads_now())

    def request(number: int) -> float:
        began = time.perf_counter()
        load(contents[number % len(contents)])
        return time.perf_counter() - began

    watcher = threading.Thread(target=watch)
    watcher.start()
    cpu, began = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(concurrent) as pool:
        seconds = sorted(pool.map(request, range(requests)))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    stop.set()
    watcher.join()
    return {
        "p50": statistics.median(seconds),
        "p95": seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))],
        "rate": requests / wall,
        "cpu": cpu / requests,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        # Without the threads of the requests and of this program.
        "threads": max(0, most[0] - before - concurrent - 1),
    }


def _different(folders: dict[str, Path], files: list[Path]) -> str | None:
    """What framespool and another side returned for a file, if it is not the same."""
    import numpy as np

    for side, (number, path) in itertools.product(folders, enumerate(files)):
        ours, theirs = (np.load(folders[each] / f"{number}.npz") for each in ("framespool", side))
        if ours["indices"].tolist() != theirs["indices"].tolist():
            return f"{path.name}: frames {ours['indices'].tolist()}, {side} has {theirs['indices'].tolist()}"
        difference = np.abs(ours["frames"].astype(int) - theirs["frames"]).mean()
        if not difference <= _TOLERANCE:
            return f"{path.name}: pixels of {side} differ by {difference:.2f} levels on average"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default=os.environ.get("FRAMESPOOL_CORPUS"), help="(default: FRAMESPOOL_CORPUS)")
    parser.add_argument("--opencv", metavar="PYTHON", help="Python with OpenCV")
    parser.add_argument("--torchcodec", metavar="PYTHON", help="Python with torchcodec")
    parser.add_argument("--concurrent", type=int, nargs="+", default=_CONCURRENT, help="requests at a time")
    parser.add_argument("--requests", type=int, default=40, help="requests of a round, at least three per thread")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--json", type=Path, help="also write the figures of all rounds")
    parser.add_argument(
        "--serve", nargs=4, metavar=("SIDE", "CONCURRENT", "REQUESTS", "FOLDER"), help=argparse.SUPPRESS
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="videos instead of the corpus'")
    arguments = parser.parse_args()
    if arguments.serve:
        side, concurrent, requests, folder = arguments.serve
        print(json.dumps(serve(side, int(concurrent), int(requests), Path(folder), arguments.files)))
        return 0
    if not arguments.files and not arguments.corpus:
        sys.exit("no corpus: set FRAMESPOOL_CORPUS to its folder, or give --corpus or files")
    files = arguments.files or [Path(arguments.corpus) / "video" / name for name in _FILES]
    pythons = {"framespool": sys.executable, "opencv": arguments.opencv, "torchcodec": arguments.torchcodec}
    pythons = {side: python for side, python in pythons.items() if python}
    if len(pythons) < 2:
        sys.exit("nothing to compare with: give --opencv or --torchcodec")
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folders = {side: Path(place) / side for side in pythons}
        for folder in folders.values():
            folder.mkdir()
        for concurrent, repeat in itertools.product(arguments.concurrent, range(arguments.rounds)):
            requests = max(arguments.requests, 3 * concurrent)
            for side in list(pythons)[:: 1 if repeat % 2 == 0 else -1]:
                command = [pythons[side], __file__, "--serve", side, str(concurrent), str(requests), str(folders[side])]
                done = subprocess.run([*command, *map(str, files)], stdout=subprocess.PIPE, text=True, check=True)
                rounds.append({"side": side, "concurrent": concurrent, **json.loads(done.stdout)})
            if message := _different(folders, files):
                print(f"the sides differ: {message}", file=sys.stderr)
                return 1
    if arguments.json:
        arguments.json.write_text(json.dumps({"files": [path.name for path in files], "rounds": rounds}, indent=1))
    print(f"{_FRAMES} frames of each of {len(files)} videos in turn, median of {arguments.rounds} rounds")
    columns = ("p50 ms", "p95 ms", "per s", "CPU ms", "RSS MiB", "threads")
    print(f"  {'requests':>8} {'':10} " + " ".join(f"{column:>8}" for column in columns))
    for concurrent, side in itertools.product(arguments.concurrent, pythons):
        own = [each for each in rounds if (each["side"], each["concurrent"]) == (side, concurrent)]
        middle = {name: statistics.median(each[name] for each in own) for name in own[0] if name != "side"}
        print(
            f"  {concurrent:8} {side:10} {middle['p50'] * 1e3:8.0f} {middle['p95'] * 1e3:8.0f} {middle['rate']:8.2f} "
            f"{middle['cpu'] * 1e3:8.0f} {middle['rss']:8.0f} {middle['threads']:8.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
