"""A Python adapter in its own process: the same requests and answers as the Rust worker's (README.md)."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import adapters
from inputs import Inputs


def serve(name: str, folder: Path, requests, answers) -> None:
    def answer(**fields) -> None:
        print(json.dumps(fields), file=answers, flush=True)

    try:
        side = adapters.load(name, Inputs.read(folder))
    except ImportError as error:
        answer(error=str(error))
        return
    answer(version=side.version())
    for line in requests:
        verb, case, *words = line.split()
        try:
            side.prepare(case)
            if verb == "check":
                side.check().tofile(words[0])
                answer()
                continue
            ring, frames, first_clip = map(int, words)
            wall, cpu = time.perf_counter(), time.process_time()
            side.run(ring, frames, first_clip)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            answer(cpu_ms=1e3 * cpu, wall_ms=1e3 * wall, frames=frames, scratch_bytes=None)
        except Exception as error:  # noqa: BLE001 - any error of an adapter is its answer, and the others continue
            answer(error=f"{type(error).__name__}: {error}")


def main() -> None:
    # Libraries that print to stdout must not break the protocol.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], Path(sys.argv[2]), sys.stdin, answers)


if __name__ == "__main__":
    main()
