"""One adapter in its own process: reads lines of JSON on stdin, answers each with a line of JSON.

    {"do": "check", "job": {...}, "count": n, "path": p}   the job's first n images and labels into the .npz file p
    {"do": "prepare", "job": {...}}                        starts the job and takes its first batch
    {"do": "go", "warm_up": m, "batches": n}               takes m batches, times the next n, then ends the job

Between "go" and the next "prepare" nothing of the job is left running during another library's turn.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import adapters
import numpy as np
from tasks import Job

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.processes import Answers, memory_bytes  # noqa: E402


def cpu_seconds() -> float:
    """CPU seconds of this process and its current worker processes.

    Those of ended workers are not included, so no worker may end between two readings.
    """
    # The clock of another process, as numbered by clock_getcpuclockid().
    clocks = [(~child.pid << 3) | 2 for child in multiprocessing.active_children()]
    return time.process_time() + sum(map(time.clock_gettime, clocks))


class Worker:
    def __init__(self, name: str) -> None:
        self.side = adapters.load(name)
        self.running = None

    def check(self, job: Job, count: int, path: str) -> dict:
        images, labels = [], []
        batches = self.side.batches(job)
        for batch, of in batches:
            images += self.side.arrays(batch)
            labels += np.asarray(of).reshape(-1).tolist()
            if len(images) >= count:
                break
        batches.close()
        named = {f"image_{number:04}": image for number, image in enumerate(images[:count])}
        np.savez(path, labels=np.array(labels[:count], np.int64), **named)
        return {"images": len(named)}

    def prepare(self, job: Job) -> dict:
        self.running = self.side.batches(job)
        next(self.running)
        return {}

    def go(self, warm_up: int, batches: int) -> dict:
        # Here and not in prepare(): while other shards get ready, this one continues to prefetch.
        for _ in range(warm_up):
            next(self.running)
        images, cpu, start = 0, cpu_seconds(), time.perf_counter()
        for _ in range(batches):
            images += len(next(self.running)[1])
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        self.running.close()
        self.running = None
        # Loaders in reference cycles end here, not during the next library's turn.
        gc.collect()
        return {"images": images, "wall_s": wall, "cpu_s": cpu, "peak_bytes": memory_bytes("VmHWM")}


def main() -> None:
    answers = Answers()
    try:
        worker = Worker(sys.argv[1])
        answers.send(version=worker.side.version())
    except Exception as error:  # noqa: BLE001 - any import error is the answer
        answers.send_error(error)
        return
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "go":
                answers.send(**worker.go(request["warm_up"], request["batches"]))
            else:
                request["job"] = Job.from_json(request["job"])
                answers.send(**getattr(worker, request.pop("do"))(**request))
        except Exception as error:  # noqa: BLE001 - any error of a library is its answer
            answers.send_error(error)
    # Skips the interpreter's exit, in which some libraries hang.
    os._exit(0)


if __name__ == "__main__":
    main()
