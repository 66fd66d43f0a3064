"""Memory of a loader, by video and threads: `benches/memory.py [--corpus FOLDER | FILE...]`.

Without files, five 1080p videos of the corpus are measured, one for each codec. Each figure comes from its own process:
a loader of eight clips of 16 frames at 112x112, batches of one, no memory for cached clips, and one prefetched batch
for each further thread, so that mostly decoding memory grows. The peak is the kernel's (`ru_maxrss`), the slope that of
a straight line through the medians. Bytes are compared with those of one thread before anything is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

_CLIPS = {
    "h264": "1080p/park_street_30p.mp4",
    "hevc": "derived/hevc_main_open_gop_1080p.mp4",
    "hevc, 10 bit": "derived/hevc_main10_1080p.mkv",
    "vp9": "derived/vp9_1080p.webm",
    "av1": "derived/av1_svt_1080p.mp4",
}
_THREADS = (1, 2, 4, 8)
_REPEATS = 3

_SIDE = """
import hashlib, resource, sys
import framespool as fsp
path, threads = sys.argv[1], int(sys.argv[2])
loader = fsp.ClipLoader(
    [path] * 8, fsp.samplers.RandomClips(sequence_length=16), batch_size=1, num_threads=threads,
    prefetch_batches=threads - 1,
    cache=fsp.Cache(0, lookahead=0), transforms=[fsp.transforms.Resize((112, 112))], seed=3, index=False,
)
digest = hashlib.sha256()
for batch in loader:
    digest.update(batch.frames.tobytes())
print(digest.hexdigest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measured(path: Path, threads: int) -> tuple[str, float]:
    """The digest of the output, and the peak in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", _SIDE, str(path), str(threads)], capture_output=True, text=True, check=True
    )
    digest, kibibytes = done.stdout.split()
    return digest, int(kibibytes) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default=os.environ.get("FRAMESPOOL_CORPUS"), help="(default: FRAMESPOOL_CORPUS)")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="videos of at least 16 frames")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.corpus:
        sys.exit("no corpus: set FRAMESPOOL_CORPUS to its folder, or give --corpus or files")
    clips = {path.stem: path for path in arguments.files} or {
        name: Path(arguments.corpus) / "video" / clip for name, clip in _CLIPS.items()
    }
    print(f"peak memory in MiB by threads, median of {_REPEATS}")
    print(f"  {'':14}" + "".join(f"{threads:>8}" for threads in _THREADS) + "   each thread")
    for name, clip in clips.items():
        runs = {n: [measured(clip, n) for _ in range(_REPEATS)] for n in _THREADS}
        if len({digest for some in runs.values() for digest, _ in some}) != 1:
            print(f"{name}: the bytes depend on the number of threads", file=sys.stderr)
            return 1
        peaks = [statistics.median(peak for _, peak in runs[n]) for n in _THREADS]
        slope = statistics.linear_regression(_THREADS, peaks).slope
        print(f"  {name:14}" + "".join(f"{peak:8.0f}" for peak in peaks) + f"{slope:14.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
