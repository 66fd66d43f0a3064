"""Measures an epoch divided among 1, 2 and 4 processes: framespool's loader against PyTorch's DataLoader with a peer.

    benches/peers/.venv/bin/python benches/peers/shards.py --json out.json
    benches/peers/.venv/bin/python benches/peers/shards.py --shards 1,2 --videos 2 --repeats 1

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import adapters
import long_gop
import oneshot
from random_clips import SIZE, corpus, cpu_model, default_work_folder
from shuffled_epochs import BATCH, FRAMES, TASKS

#: The second one keeps each process at its own range of the dataset, so that no two processes decode the same video.
OWN = ("framespool", "framespool_stick")


class Race:
    """One dataset and one clip sampler, divided among processes that start simultaneously."""

    def __init__(self, files: list[Path], arguments: argparse.Namespace) -> None:
        self.files = files
        self.arguments = arguments
        #: Clips of the epoch as delivered by one process: (video, indices in presentation order).
        self.order: list[list] = []

    def _ask(self, side: str, shards: int, each) -> list[dict]:
        with tempfile.TemporaryDirectory() as meet, ThreadPoolExecutor(shards) as pool:
            common = {
                "side": side,
                "files": [str(path) for path in self.files],
                "sampling": TASKS[self.arguments.task],
                "batch_size": BATCH,
                "size": SIZE,
                "seed": 0,
                "initial_fill": None,
                "meet": meet,
                "num_shards": shards,
            }
            # A new index for each process and epoch: no epoch benefits from another's.
            with tempfile.TemporaryDirectory() as index:
                requests = [{**common, "index": f"{index}/{shard}", **each(shard)} for shard in range(shards)]
                return list(pool.map(lambda request: oneshot.ask("epoch_worker.py", request), requests))

    def framespool(self, side: str, shards: int) -> dict:
        """A complete epoch; every clip must occur once, and all shards must have equally many batches."""
        threads = max(1, self.arguments.cores // shards)
        answers = self._ask(side, shards, lambda shard: {"shard_id": shard, "threads": threads})
        got = [clip for answer in answers for clip in answer["order"]]
        if not self.order:
            self.order = got
        wanted, clips = {_key(clip) for clip in self.order}, {_key(clip) for clip in got}
        batches = {-(-answer["clips"] // BATCH) for answer in answers}
        # If the shards are not equal parts, a clip or two is repeated to make them so.
        again = len(got) - len(wanted)
        if clips != wanted or not 0 <= again < shards * BATCH or len(batches) != 1:
            raise oneshot.WorkerError(f"{shards} shards do not contain each clip once in equal parts")
        return self._result(answers, share=1.0)

    def peer(self, side: str, shards: int) -> dict:
        """The first clips of each shard's part of the same order, the same total for any number of shards."""
        workers = max(1, self.arguments.cores // shards)
        count = self.arguments.peer_clips // shards
        answers = self._ask(
            side, shards, lambda shard: {"items": self.order[shard::shards][:count], "workers": workers}
        )
        return self._result(answers, share=count * shards / len(self.order))

    def _result(self, answers: list[dict], share: float) -> dict:
        # The epoch ends when the slowest process has finished.
        wall = max(answer["usage"]["wall_s"] for answer in answers)
        return {
            "wall_s": wall / share,
            "cpu_s": sum(answer["usage"]["cpu_s"] for answer in answers) / share,
            "version": answers[0]["version"],
        }

    def run(self, side: str, shards: int) -> dict:
        return self.framespool(side, shards) if side in OWN else self.peer(side, shards)


def _key(clip: list) -> tuple:
    return clip[0], tuple(clip[1])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--task", default="windows_1_16", choices=TASKS)
    parser.add_argument("--videos", type=int, default=8, help="videos of 300 frames (default 8)")
    parser.add_argument("--sides", default="framespool,framespool_stick,torchcodec,decord")
    parser.add_argument("--peer-clips", type=int, default=32, help="total clips to time a peer with (default 32)")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="cores divided among the processes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="folder of the encodes")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    arguments.sides = arguments.sides.split(",")
    unknown = set(arguments.sides) - {*OWN, *adapters.NAMES}
    if unknown or OWN[0] not in arguments.sides:
        parser.error(
            f"--sides needs framespool, and any of {', '.join((*OWN[1:], *adapters.NAMES))} in addition, "
            f"got {','.join(arguments.sides)}"
        )
    if any(arguments.peer_clips % (count * BATCH) for count in arguments.shards):
        parser.error(f"--peer-clips must be a multiple of {BATCH} for every number of shards")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    sources = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    if not sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS")
    race = Race(long_gop.dataset(sources, arguments.videos, FRAMES, arguments.work), arguments)
    print(f"{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    race.framespool(OWN[0], 1)  # not timed: it returns the order
    settings = [(side, count) for side in arguments.sides for count in arguments.shards]
    runs: dict[tuple[str, int], list[dict]] = {setting: [] for setting in settings}
    left_out: dict[str, str] = {}
    for repeat in range(arguments.repeats):
        for side, count in settings:
            if side in left_out:
                continue
            try:
                runs[side, count].append(race.run(side, count))
            except oneshot.WorkerError as error:
                left_out[side] = str(error)
        settings.append(settings.pop(0))
        print(f"repeat {repeat + 1} of {arguments.repeats} done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    frames, rule = FRAMES * len(race.files), TASKS[arguments.task]
    print(f"{len(race.files)} videos of {FRAMES} frames, {len(race.order)} clips, {rule}, batches of {BATCH}")
    columns = f"{'epoch s':>9}{'CPU s':>9}{'frames/s':>10}{'speedup':>12}{'wall ratio':>12}{'CPU ratio':>11}"
    print(f"  {'side':<24}{'shards':>7}{columns}")
    rows = []
    for (side, count), own in sorted(runs.items(), key=lambda item: (arguments.sides.index(item[0][0]), item[0][1])):
        if side in left_out or not own:
            continue
        wall, cpu = (statistics.median(run[what] for run in own) for what in ("wall_s", "cpu_s"))

        def ratio(other: tuple[str, int], what: str, mine: list[dict] = own) -> float:
            return statistics.median(a[what] / b[what] for a, b in zip(mine, runs[other], strict=False))

        alone = 1 / ratio((side, arguments.shards[0]), "wall_s")
        against = [ratio(("framespool", count), what) for what in ("wall_s", "cpu_s")]
        name = f"{side} {own[0]['version'].split()[0]}"
        print(
            f"  {name:<24}{count:>7}{wall:>9.2f}{cpu:>9.2f}{frames / wall:>10.0f}{alone:>12.2f}"
            f"{against[0]:>12.2f}{against[1]:>11.2f}"
        )
        rows.append({"side": side, "shards": count, "wall_s": wall, "cpu_s": cpu, "runs": own})
    for side, reason in left_out.items():
        print(f"  {side}: omitted ({reason})")
    if arguments.json:
        properties = {"videos": len(race.files), "frames": FRAMES, "clips": len(race.order), "cores": arguments.cores}
        report = {"cpu": cpu_model(), **properties, "task": arguments.task, "rows": rows, "left_out": left_out}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
