"""Costs of videos by URL: requests, bytes and seconds, with a local server.

    python benches/remote.py VIDEO... [--latency-ms 0 30] [--clips 8] [--csv FILE] [--json FILE]

For each file and latency: requests and bytes for the index; for one clip of 16 frames, stride 4, at a random position;
for the complete file in order. Seconds are of one clip, the median of several at different positions: cold (only the
data from which the index was built is in memory) and warm (the same clip again), compared with the local file. The
server delays each answer by the latency. Frames are compared with those of the file before anything is written.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np

FIELDS = [
    "file", "size", "latency_ms", "index_requests", "index_bytes", "clip_requests", "clip_bytes", "whole_requests",
    "whole_bytes", "whole_seconds", "local_whole_seconds", "cold_clip_seconds", "warm_clip_seconds",
    "local_clip_seconds",
]  # fmt: skip


@contextlib.contextmanager
def server(file: Path, latency_seconds: float) -> Iterator[Callable[[], str]]:
    """Serves one file under any number of URLs; each is a separate file for its reader."""
    content = file.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            time.sleep(latency_seconds)
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            body = content[int(first) : int(last) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(content)}")
            self.send_header("ETag", '"same"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads, listening.block_on_close = True, False
        threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        numbers = itertools.count()
        yield lambda: f"http://127.0.0.1:{listening.server_address[1]}/{next(numbers)}/{file.name}"
        listening.shutdown()


def spent(work: Callable[[], Any]) -> tuple[Any, float, int, int]:
    """The result of the work; its seconds, requests and bytes."""
    before, begun = fsp.tools.remote_stats(), time.perf_counter()
    result = work()
    seconds, after = time.perf_counter() - begun, fsp.tools.remote_stats()
    requests, received = (after[name] - before[name] for name in ("remote_requests", "remote_bytes"))
    return result, seconds, requests, received


def all_frames(source: str | Path) -> int:
    """Decodes a file from its first frame to its last; returns the sum of some pixel values."""
    return sum(int(np.asarray(frame)[::64, ::64].sum()) for frame in fsp.Video(source, index=False))


def measure(file: Path, latency_ms: float, clips: int) -> dict[str, Any]:
    """One row of the table."""
    local = fsp.Video(file, index=False)
    span = min(61, len(local))
    draw = random.Random(7)
    wanted = [
        list(range(start, start + span, 4)) for start in (draw.randrange(len(local) - span + 1) for _ in range(clips))
    ]
    expected = [np.asarray(local.frames(indices).frames) for indices in wanted]
    with server(file, latency_ms / 1000) as url:
        video, _, index_requests, index_bytes = spent(lambda: fsp.Video(url(), index=False))
        cold, warm, at_home, per_clip = [], [], [], []
        for indices, right in zip(wanted, expected, strict=True):
            fresh = fsp.Video(url(), index=False)
            frames, seconds, requests, received = spent(lambda: fresh.frames(indices))  # noqa: B023
            if not np.array_equal(np.asarray(frames.frames), right):
                sys.exit(f"{file}: frames {indices[0]}..{indices[-1]} by URL differ from those of the file")
            cold.append(seconds)
            per_clip.append((requests, received))
            warm.append(spent(lambda: fresh.frames(indices))[1])  # noqa: B023
            at_home.append(spent(lambda: local.frames(indices))[1])  # noqa: B023
        right_sum, local_seconds, *_ = spent(lambda: all_frames(file))
        whole_sum, whole_seconds, whole_requests, whole_bytes = spent(lambda: all_frames(url()))
        if right_sum != whole_sum:
            sys.exit(f"{file}: its frames by URL differ from those of the file")
    del video
    return {
        "file": file.name,
        "size": file.stat().st_size,
        "latency_ms": latency_ms,
        "index_requests": index_requests,
        "index_bytes": index_bytes,
        "clip_requests": statistics.mean(requests for requests, _ in per_clip),
        "clip_bytes": round(statistics.mean(received for _, received in per_clip)),
        "whole_requests": whole_requests,
        "whole_bytes": whole_bytes,
        "whole_seconds": round(whole_seconds, 3),
        "local_whole_seconds": round(local_seconds, 3),
        "cold_clip_seconds": round(statistics.median(cold), 4),
        "warm_clip_seconds": round(statistics.median(warm), 4),
        "local_clip_seconds": round(statistics.median(at_home), 4),
        "cold_clip_samples": cold,
        "warm_clip_samples": warm,
        "local_clip_samples": at_home,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--latency-ms", nargs="+", type=float, default=[0, 30])
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", type=Path, help="write every clip's seconds to this file")
    args = parser.parse_args()
    rows = [measure(file, latency, args.clips) for latency in args.latency_ms for file in args.videos]
    widths = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in FIELDS}
    print("  ".join(name.rjust(widths[name]) for name in FIELDS))
    for row in rows:
        print("  ".join(str(row[name]).rjust(widths[name]) for name in FIELDS))
    if args.csv:
        with args.csv.open("w", newline="") as out:
            writer = csv.DictWriter(out, FIELDS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    if args.json:
        args.json.write_text(json.dumps({"versions": {"framespool": fsp.__version__}, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
