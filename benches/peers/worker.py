"""One peer in its own process: reads requests as JSON lines on stdin, answers on stdout.

Separate processes because the FFmpegs and thread pools of the peers would disturb one another, and because process
CPU time then belongs to the peer alone, with all threads that it starts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import adapters
import numpy as np

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.processes import Answers  # noqa: E402


def serve(name: str, requests, answers: Answers) -> None:
    try:
        peer = adapters.load(name)
    except ImportError as error:
        answers.send(error=str(error))
        return
    answers.send(version=peer.version())
    # Read at the end of each request, not at its start: CPU time of a peer's threads between two requests counts.
    cpu_before = time.process_time()
    for line in requests:
        request = json.loads(line)
        clip = peer.warm_clip if request["warm"] else peer.clip
        wall_before = time.perf_counter()
        try:
            frames = clip(request["path"], request["indices"], request["size"])
        except Exception as error:  # noqa: BLE001 - any error of a peer is its answer, and the others continue
            answers.send_error(error)
            continue
        wall = time.perf_counter() - wall_before
        cpu = time.process_time() - cpu_before
        if request["save"]:
            np.save(request["save"], frames[:, :: request["step"], :: request["step"]])
        answers.send(cpu_ms=1e3 * cpu, wall_ms=1e3 * wall, shape=frames.shape, dtype=str(frames.dtype))
        del frames
        cpu_before = time.process_time()


def main() -> None:
    serve(sys.argv[1], sys.stdin, Answers())


if __name__ == "__main__":
    main()
