#!/usr/bin/env python3
"""Trains from a server that goes away several times, and checks that no clip is lost and that the log says so.

    python tests/python/soak_remote.py --minutes 30 --outages 3 --seconds 60

A loader with ``on_error="skip"`` reads clips from nginx, without a block cache. nginx is stopped for the given time,
several times. Every epoch must have the clips and pixels of the same epoch read from the disk. Prints what the logger
``framespool.remote`` receives as it happens, and a line per minute with memory; a difference sets the exit status to 1.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

os.environ["FRAMESPOOL_REMOTE_CACHE"] = "0"

import framespool as fsp
import numpy as np
from servers import Nginx

VIDEOS = ["derived/base_640x360.mp4", "action/street_426x240.mp4", "action/phone_176x144.mp4"]


def epoch_digest(loader: fsp.ClipLoader, epoch: int) -> tuple[int, str]:
    """Number and hash of the clips of an epoch, in order."""
    loader.set_epoch(epoch)
    digest, clips = hashlib.sha256(), 0
    for batch in loader:
        digest.update(repr(batch.clip_ids.tolist()).encode())
        digest.update(np.asarray(batch.frames).tobytes())
        clips += len(batch.clip_ids.tolist())
    return clips, digest.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=Path("target/media/video"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--outages", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="duration of an outage")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        root = place / "root"
        root.mkdir()
        videos = []
        for number in range(24):
            videos.append(root / f"{number}.mp4")
            videos[-1].write_bytes((arguments.media / VIDEOS[number % len(VIDEOS)]).read_bytes())
        server = Nginx(root, place)
        server.start()

        def loader_of(paths: list[str]) -> fsp.ClipLoader:
            settings: dict[str, Any] = {"batch_size": 4, "num_threads": 2, "seed": 1, "shuffle": "full", "index": False}
            sampler = fsp.samplers.RandomClips(sequence_length=8, stride=2, clips_per_video=2)
            resize = [fsp.transforms.Resize((96, 96))]
            return fsp.ClipLoader(paths, sampler, transforms=resize, on_error="skip", **settings)

        local = loader_of([str(path) for path in videos])
        remote = loader_of([server.url(path) for path in videos])
        begun, ended = time.monotonic(), threading.Event()

        def interrupt_server() -> None:
            for number in range(arguments.outages):
                at = begun + 60 * arguments.minutes * (number + 0.5) / arguments.outages
                if ended.wait(max(at - time.monotonic(), 0)):
                    return
                logging.info("the server is stopped")
                server.stop()
                ended.wait(arguments.seconds)
                server.start()
                logging.info("the server is started")

        outages = threading.Thread(target=interrupt_server)
        outages.start()
        epoch, clips, wrong, reported = 0, 0, 0, 0.0
        while time.monotonic() - begun < 60 * arguments.minutes or outages.is_alive():
            expected, received = epoch_digest(local, epoch), epoch_digest(remote, epoch)
            clips += received[0]
            if expected != received:
                wrong += 1
                logging.error("epoch %d differs: %s, expected %s", epoch, received, expected)
            epoch += 1
            if time.monotonic() - reported >= 60:
                reported = time.monotonic()
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                logging.info("epoch %d, %d clips, %d epochs differ, peak memory %d MiB", epoch, clips, wrong, peak)
        ended.set()
        outages.join()
        server.stop()
        stats = remote.stats()
        logging.info(
            "%d epochs, %d clips; %d skipped, %d epochs differ, %d outages, %d requests of which %d repeated",
            epoch,
            clips,
            stats["clips_skipped"],
            wrong,
            fsp.tools.remote_stats()["remote_outages"],
            fsp.tools.remote_stats()["remote_requests"],
            fsp.tools.remote_stats()["remote_retries"],
        )
    lost = wrong or stats["clips_skipped"] or fsp.tools.remote_stats()["remote_outages"] < arguments.outages
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
