"""Measures shuffled epochs over long-GOP 1080p H.264: framespool against PyTorch's DataLoader with a peer.

    benches/peers/.venv/bin/python benches/peers/shuffled_epochs.py --repeats 3 --json out.json
    benches/peers/.venv/bin/python benches/peers/shuffled_epochs.py --videos 2 --tasks windows_1_16 --peer-clips 16

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
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import adapters
import av
import long_gop
import numpy as np
import oneshot
import reference
from random_clips import SIZE, corpus, cpu_model, default_work_folder

FRAMES = 300
BATCH = 8
INITIAL_FILL = 1024
TASKS = {
    "windows_1_16": {"rule": "windows", "sequence_length": 16, "stride": 1, "step": 16},
    "windows_4_64": {"rule": "windows", "sequence_length": 16, "stride": 4, "step": 64},
    "random_8": {"rule": "random", "sequence_length": 16, "stride": 4, "clips_per_video": 8},
}
OWN = ("framespool", "framespool_buffer")
MIB = 1 << 20


@dataclass
class Contender:
    """Results of one library in one task."""

    name: str
    version: str = ""
    workers: int | None = None
    # Of the first epoch: a repeated epoch must give the same bytes.
    digest: int | None = None
    frames_checked: int = 0
    frames_wrong: int = 0
    runs: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Task:
    """One dataset, one clip sampler; runs each library in its own process (epoch_worker.py)."""

    def __init__(self, name: str, files: list[Path], arguments: argparse.Namespace) -> None:
        self.name = name
        self.files = files
        self.arguments = arguments
        self.span = (TASKS[name]["sequence_length"] - 1) * TASKS[name]["stride"] + 1
        # Every clip of the epoch in delivery order, as (video, frame indices); reported by the first framespool epoch.
        self.order: list[list] = []
        self.num_clips = sum(expected_clips(TASKS[name]) for _ in files)

    def ask(self, side: str, **more) -> dict:
        request = {
            "side": side,
            "files": [str(path) for path in self.files],
            "sampling": TASKS[self.name],
            "batch_size": BATCH,
            "size": SIZE,
            "seed": self.arguments.seed,
            "initial_fill": INITIAL_FILL,
            "threads": self.arguments.threads,
            "lookahead": self.arguments.lookahead,
        }
        if side not in OWN:
            return oneshot.ask("epoch_worker.py", {**request, **more})
        # A new index each time, so that no epoch benefits from the previous one.
        with tempfile.TemporaryDirectory() as index:
            return oneshot.ask("epoch_worker.py", {**request, "index": index, **more})

    def check(self, side: Contender) -> None:
        """Compares the first clips of the epoch with the reference, at full size and resized."""
        count = self.arguments.check
        with tempfile.TemporaryDirectory() as scratch:
            saved = Path(scratch) / "frames.npy"
            for size, step in ((None, reference.STEP), (SIZE, 1)):
                more = {"save": str(saved), "step": step, "size": size, "batch_size": 1, "clips": count}
                if side.name not in OWN:
                    more |= {"items": self.order[:count], "workers": 0}
                answer = self.ask(side.name, **more)
                for frames, (video, indices) in zip(np.load(saved), answer.get("order", self.order), strict=False):
                    wrong, _ = self.reference(video, indices).count_wrong(indices, frames, size)
                    side.frames_checked += len(indices)
                    side.frames_wrong += wrong
        side.version = answer["version"]

    def reference(self, video: int, indices: list[int]) -> reference.ReferenceFrames:
        key = (self.files[video], tuple(indices))
        if key not in self.arguments.references:
            self.arguments.references[key] = reference.decode(self.files[video], set(indices), SIZE, None)
        return self.arguments.references[key]

    def first_epoch(self, side: Contender) -> None:
        answer = self.epoch(side)
        side.digest = answer["digest"]
        if side.name == OWN[0]:
            self.order = answer["order"]

    def epoch(self, side: Contender, **more) -> dict:
        """One epoch of framespool, which must contain every clip exactly once."""
        answer = self.ask(side.name, **more)
        if sorted(map(start_of, answer["order"])) != self.expected(answer["order"]):
            raise oneshot.WorkerError("the epoch does not contain each clip exactly once")
        answer["usage"]["clips"] = answer["clips"]
        decoded = answer["stats"]["frames_decoded"]
        answer["pictures_per_picture"] = decoded / (FRAMES * len(self.files))
        return answer

    def expected(self, order: list) -> list[tuple]:
        """The clips of an epoch, in the form of start_of(); starts of random clips are taken from `order`."""
        sampling = TASKS[self.name]
        if sampling["rule"] == "windows":
            starts = range(0, FRAMES - self.span + 1, sampling["step"])
            return [(video, start) for video in range(len(self.files)) for start in starts]
        starts = sorted(map(start_of, order))
        each = sampling["clips_per_video"]
        fitting = all(0 <= start <= FRAMES - self.span for _, start in starts)
        even = [video for video, _ in starts] == [video for video in range(len(self.files)) for _ in range(each)]
        return starts if fitting and even else []

    def peer_run(self, side: Contender, count: int, workers: int) -> dict:
        """`count` clips, spread over the epoch: the first ones of the shuffled order.

        Workers get complete batches, so each must have equally many.
        """
        share = BATCH * max(1, *self.arguments.workers)
        count = -(-count // share) * share
        answer = self.ask(side.name, items=self.order[:count], workers=workers)
        answer["usage"]["clips"] = answer["clips"]
        return answer

    def calibrate(self, side: Contender) -> None:
        """Finds the number of workers with the least wall time."""
        choices = self.arguments.workers
        if len(choices) == 1:
            side.workers = choices[0]
            return
        runs = {n: self.peer_run(side, self.arguments.calibration_clips, n) for n in choices}
        walls = {n: per_clip(run, "wall_s") for n, run in runs.items()}
        side.workers = min(walls, key=walls.get)
        listed = ", ".join(f"{n}: {wall * 1e3:.0f}" for n, wall in walls.items())
        side.notes.append(f"wall ms/clip by workers: {listed}")

    def pictures_per_picture(self) -> float:
        """Frames that a reader decodes if it starts at the keyframe before each clip, per frame of the dataset."""
        needed = [Pictures.of(path) for path in self.files]
        total = sum(needed[video].to_decode(indices) for video, indices in self.order)
        return total / (FRAMES * len(self.files))


@dataclass
class Pictures:
    """Positions in decode order: of keyframes, and of the frames displayed up to each index in presentation order."""

    keys: list[int]
    place: list[int]
    last_place: list[int]

    @staticmethod
    def of(path: Path) -> Pictures:
        with av.open(str(path)) as container:
            packets = [(p.pts, p.is_keyframe) for p in container.demux(video=0) if p.pts is not None]
        place = [at for at, _ in sorted(enumerate(packets), key=lambda packet: packet[1][0])]
        keys = [at for at, (_, key) in enumerate(packets) if key]
        return Pictures(keys, place, list(accumulate(place, max)))

    def to_decode(self, indices: list[int]) -> int:
        # Frames that are displayed earlier must be output earlier: up to the last of them in decode order.
        return self.last_place[indices[-1]] + 1 - self.keys[bisect_right(self.keys, self.place[indices[0]]) - 1]


def start_of(clip: list) -> tuple[int, int]:
    video, indices = clip
    return video, indices[0]


def expected_clips(sampling: dict) -> int:
    if sampling["rule"] == "random":
        return sampling["clips_per_video"]
    span = (sampling["sequence_length"] - 1) * sampling["stride"] + 1
    return len(range(0, FRAMES - span + 1, sampling["step"]))


def run_task(task: Task, names: list[str]) -> tuple[dict[str, Contender], dict[str, str]]:
    """Checks, then times: every library has a turn in each repeat, in rotating order."""
    left_out = {}
    sides = {}

    def attempt(name: str, *steps) -> bool:
        side = sides.setdefault(name, Contender(name))
        try:
            for step in steps:
                step(side)
        except oneshot.WorkerError as error:
            left_out[name] = str(error)
            del sides[name]
        return name in sides

    def run(side: Contender) -> None:
        if side.name in OWN:
            side.runs.append(task.epoch(side))
        else:
            side.runs.append(task.peer_run(side, task.arguments.peer_clips, side.workers))

    for name in (OWN[0], *(name for name in names if name != OWN[0])):
        # framespool's first epoch is not timed: it reports the order for checking and calibrating the others.
        done = attempt(name, task.check, task.first_epoch if name in OWN else task.calibrate)
        if not done and name == OWN[0]:
            sys.exit(f"framespool: {left_out[name]}")
    order = list(sides)
    for repeat in range(task.arguments.repeats):
        for name in order:
            if name in sides and not attempt(name, run) and name == OWN[0]:
                sys.exit(f"framespool: {left_out[name]}")
        order.append(order.pop(0))
        print(f"{task.name}: repeat {repeat + 1} of {task.arguments.repeats} done", file=sys.stderr)
    for side in sides.values():
        if {run["digest"] for run in side.runs if "digest" in run} - {side.digest}:
            side.notes.append("WRONG: not every epoch gave the same bytes")
    return sides, left_out


def per_clip(run: dict, what: str) -> float:
    return run["usage"][what] / run["usage"]["clips"]


def print_task(task: Task, sides: dict[str, Contender], left_out: dict[str, str]) -> None:
    clips = task.num_clips
    print(f"\n{task.name}: {len(task.files)} videos, {clips} clips, {TASKS[task.name]}")
    columns = f"{'epoch s':>9}{'CPU s':>9}{'clips/s':>9}{'decoded':>9}{'wall ratio':>12}{'CPU ratio':>11}"
    print(f"  {'side':<24}{columns}  answers")
    peers_decode = task.pictures_per_picture()
    own = sides[OWN[0]]
    for name, side in sorted(sides.items(), key=lambda item: item[1].frames_wrong > 0):
        wall, cpu = (statistics.median(per_clip(run, what) for run in side.runs) for what in ("wall_s", "cpu_s"))
        ratios = [
            statistics.median(
                per_clip(run, what) / per_clip(base, what) for run, base in zip(side.runs, own.runs, strict=True)
            )
            for what in ("wall_s", "cpu_s")
        ]
        decoded = side.runs[0].get("pictures_per_picture", peers_decode)
        wrong = side.frames_wrong
        outcome = f"WRONG {wrong} of {side.frames_checked}" if wrong else f"right ({side.frames_checked} frames)"
        label = name if side.workers is None else f"{name}, {side.workers} worker{'s' * (side.workers != 1)}"
        print(
            f"  {label:<24}{wall * clips:>9.1f}{cpu * clips:>9.1f}{1 / wall:>9.1f}{decoded:>9.2f}"
            f"{ratios[0]:>12.2f}{ratios[1]:>11.2f}  {outcome}"
        )
    for name, side in sides.items():
        timed = side.runs[0]["usage"]["clips"]
        if timed < clips:
            side.notes.append(f"timed on the first {timed} clips of the order, scaled to {clips}")
        for note in side.notes:
            print(f"    {name}: {note}")
    building = statistics.median(run["building"]["wall_s"] for run in own.runs)
    print(f"    framespool: building the loader, including the index, took {building * 1e3:.0f} ms more")
    for name, reason in left_out.items():
        print(f"    {name}: omitted ({reason})")


def budgets(task: Task, own: Contender) -> list[dict]:
    """framespool under each budget, one process each."""
    rows = []
    print(f"\n{task.name}: framespool by memory budget (peak RSS includes everything else)")
    print(f"  {'budget MiB':<12}{'epoch s':>9}{'CPU s':>9}{'decoded':>9}{'store MiB':>11}{'peak RSS MiB':>14}  answers")
    for budget in task.arguments.budgets:
        try:
            run = task.epoch(own, memory=budget * MIB)
        except oneshot.WorkerError as error:
            print(f"  {budget:<12}omitted ({error})")
            continue
        if "cache" in run["unknown"]:
            print("  skipped: this build has no cache=")
            break
        same = run["digest"] == own.digest and run["order"] == task.order
        store = run["stats"].get("clip_cache_peak_bytes")
        usage, decoded = run["usage"], run["pictures_per_picture"]
        print(
            f"  {budget:<12}{usage['wall_s']:>9.1f}{usage['cpu_s']:>9.1f}{decoded:>9.2f}"
            f"{'-' if store is None else f'{store / MIB:.0f}':>11}{run['peak_memory_bytes'] / MIB:>14.0f}"
            f"  {'same bytes' if same else 'WRONG: other bytes'}"
        )
        rows.append({"budget_mib": budget, "same": same, **run})
    return rows


def parse_arguments() -> argparse.Namespace:
    whole_list = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=12, help="videos of 300 frames (default 12)")
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated (default: all)")
    parser.add_argument(
        "--sides", default="framespool,framespool_buffer,torchcodec,decord", help="these, or any adapter's name"
    )
    parser.add_argument("--repeats", type=int, default=3, help="epochs per library (default 3)")
    parser.add_argument("--peer-clips", type=int, default=48, help="clips that peers are timed on (default 48)")
    parser.add_argument("--calibration-clips", type=int, default=16)
    parser.add_argument("--workers", type=whole_list, default=[0, 1, 2], help="worker counts to choose from")
    parser.add_argument("--threads", type=int, help="framespool's num_threads (default: its own)")
    parser.add_argument("--lookahead", type=int, help="lookahead of framespool's cache in clips (default: its own)")
    parser.add_argument("--budgets", type=whole_list, default=[0, 64, 256, 1024, 2048], help="in MiB")
    parser.add_argument("--check", type=int, default=4, help="clips whose frames are checked (default 4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="folder of the encodes")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    for option in ("videos", "repeats", "peer_clips", "calibration_clips", "check"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option.replace('_', '-')} must be at least 1, got {getattr(arguments, option)}")
    arguments.tasks, arguments.sides = arguments.tasks.split(","), arguments.sides.split(",")
    for given, known in ((arguments.tasks, TASKS), (arguments.sides, (*OWN, *adapters.NAMES))):
        if set(given) - set(known):
            parser.error(f"unknown {', '.join(sorted(set(given) - set(known)))}; choose from {', '.join(known)}")
    arguments.references = {}
    return arguments


def main() -> None:
    arguments = parse_arguments()
    sources = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    if not sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS")
    files = long_gop.dataset(sources, arguments.videos, FRAMES, arguments.work)
    print(f"{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    print(f"{FRAMES}-frame videos, clips to {SIZE}x{SIZE} in batches of {BATCH}; {arguments.repeats} repeats")
    report = {"cpu": cpu_model(), "python": platform.python_version(), "tasks": {}}
    for name in arguments.tasks:
        task = Task(name, files, arguments)
        sides, left_out = run_task(task, arguments.sides)
        print_task(task, sides, left_out)
        rows = budgets(task, sides[OWN[0]])
        report["tasks"][name] = {
            "sides": {side.name: vars(side) for side in sides.values()},
            "left_out": left_out,
            "peers_pictures_per_picture": task.pictures_per_picture(),
            "budgets": rows,
        }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
