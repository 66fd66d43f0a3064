"""A Python adapter in its own process: the same requests and answers as the Rust worker's (README.md)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import adapters
from inputs import Inputs

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.processes import Answers  # noqa: E402


def serve(name: str, folder: Path, requests, answers: Answers) -> None:
    try:
        side = adapters.load(name, Inputs.read(folder))
    except ImportError as error:
        answers.send(error=str(error))
        return
    answers.send(version=side.version())
    for line in requests:
        verb, case, *words = line.split()
        try:
            side.prepare(case)
            if verb == "check":
                side.check().tofile(words[0])
                answers.send()
                continue
            ring, frames, first_clip = map(int, words)
            wall, cpu = time.perf_counter(), time.process_time()
            side.run(ring, frames, first_clip)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            answers.send(cpu_ms=1e3 * cpu, wall_ms=1e3 * wall, frames=frames, scratch_bytes=None)
        except Exception as error:  # noqa: BLE001 - any error of an adapter is its answer, and the others continue
            answers.send_error(error)


def main() -> None:
    serve(sys.argv[1], Path(sys.argv[2]), sys.stdin, Answers())


if __name__ == "__main__":
    main()
