"""Measures random clips from long-GOP 1080p H.264: CPU time per clip, framespool against its peers, one thread each.

    benches/peers/.venv/bin/python benches/peers/random_clips.py --clips 6 --repeats 2 --json out.json

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import adapters
import long_gop
import numpy as np
import reference

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.folders import corpus, default_work_folder  # noqa: E402
from harness.processes import WorkerProcess  # noqa: E402
from suite.machine import cpu_model  # noqa: E402

HERE = Path(__file__).resolve().parent
SEQUENCE_LENGTH = 16
STRIDE = 4
SIZE = 224


@dataclass(frozen=True)
class Clip:
    path: Path
    indices: list[int]


@dataclass
class Sample:
    peer: str
    file: str
    clip: int
    repeat: int
    cpu_ms: float
    wall_ms: float


class Worker(WorkerProcess):
    """A peer in its own process (worker.py)."""

    def __init__(self, name: str, warm: bool) -> None:
        self.name = name
        self.warm = warm
        super().__init__([sys.executable, str(HERE / "worker.py"), name])

    def clip(self, clip: Clip, size: int | None = SIZE, save: Path | None = None) -> dict:
        return self.ask(
            {
                "path": str(clip.path),
                "indices": clip.indices,
                "size": size,
                "warm": self.warm,
                "save": save and str(save),
                "step": reference.STEP if size is None else 1,
            }
        )


def recorded_frames(path: Path) -> Path | None:
    """The corpus' frame record of a file, if the file is in the corpus."""
    if not os.environ.get("FRAMESPOOL_CORPUS") or not path.is_relative_to(corpus()):
        return None
    recorded = corpus() / "frames" / f"{path.relative_to(corpus())}.txt"
    return recorded if recorded.exists() else None


def default_files(work: Path) -> list[Path]:
    sources = sorted((corpus() / "video" / "1080p").glob("*.mp4"))
    if not sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS or name files with --files")
    return sources + [long_gop.encode(source, work) for source in sources]


def draw_clips(files: list[Path], clips_per_file: int, seed: int) -> list[Clip]:
    """Uniform starts; each file has its own generator, so that skipping a file does not change the others' clips."""
    span = (SEQUENCE_LENGTH - 1) * STRIDE + 1
    clips = []
    for path in files:
        generator = random.Random(f"{seed} {path.name}")
        last_start = reference.count_frames(path) - span
        if last_start < 0:
            sys.exit(f"{path.name} is shorter than one clip of {span} frames")
        for _ in range(clips_per_file):
            start = generator.randint(0, last_start)
            clips.append(Clip(path, list(range(start, start + span, STRIDE))))
    return clips


def start_workers(names: list[str], warm: bool) -> dict[str, Worker]:
    workers = {}
    for name in names:
        try:
            workers[name] = Worker(name, warm)
        except RuntimeError as error:
            print(f"{name}: omitted ({error})")
    return workers


def check(names: list[str], clips: list[Clip], per_file: int, warm: bool) -> dict[str, dict]:
    """Errors of each peer, and the failure that ended its checks, if any.

    Counts checked and wrong frames by file, at full size and resized; reports the largest mean difference of a
    full-size frame.

    The checks run in separate processes, so that readers that stay open do not affect the timing.
    """
    workers = start_workers(names, warm)
    results = {name: {"by_file": {}, "difference": 0.0, "failure": None} for name in workers}
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch) / "frames.npy"
        for path in dict.fromkeys(clip.path for clip in clips):
            chosen = [clip for clip in clips if clip.path == path][:per_file]
            wanted = {index for clip in chosen for index in clip.indices}
            expected = reference.decode(path, wanted, SIZE, recorded_frames(path))
            for name, worker in workers.items():
                result = results[name]
                counts = result["by_file"][path.name] = {"frames": 0, "wrong": 0}
                for clip in chosen:
                    for size in (None, SIZE):
                        if result["failure"]:
                            continue
                        try:
                            worker.clip(clip, size, saved)
                        except RuntimeError as error:
                            result["failure"] = f"{path.name}: {error}"
                            continue
                        wrong, difference = expected.count_wrong(clip.indices, np.load(saved), size)
                        counts["frames"] += len(clip.indices)
                        counts["wrong"] += wrong
                        if size is None:
                            result["difference"] = max(result["difference"], difference)
    for worker in workers.values():
        worker.close()
    return results


def measure(workers: dict[str, Worker], clips: list[Clip], repeats: int) -> list[Sample]:
    """Every peer decodes each clip before the next one, in rotating order, so that noise affects all equally."""
    warm = any(worker.warm for worker in workers.values())
    first_of_file = list({clip.path: clip for clip in reversed(clips)}.values())
    for worker in workers.values():
        # Untimed: libraries load and allocate at their first call; warm readers open.
        for clip in first_of_file if warm else clips[:1]:
            worker.clip(clip)
    samples = []
    order = list(workers)
    for repeat in range(repeats):
        for number, clip in enumerate(clips):
            for name in order:
                answer = workers[name].clip(clip)
                samples.append(Sample(name, clip.path.name, number, repeat, answer["cpu_ms"], answer["wall_ms"]))
            order.append(order.pop(0))
        print(f"repeat {repeat + 1} of {repeats} done", file=sys.stderr)
    return samples


def summarise(samples: list[Sample], baseline: str) -> dict[str, dict[str, float | None]]:
    """Per peer: median CPU and wall time of a clip, and the median of its ratios to the baseline, clip by clip."""
    baseline_ms = {(s.clip, s.repeat): s.cpu_ms for s in samples if s.peer == baseline}
    summary = {}
    for name in dict.fromkeys(sample.peer for sample in samples):
        own = [sample for sample in samples if sample.peer == name]
        ratios = [s.cpu_ms / baseline_ms[s.clip, s.repeat] for s in own] if baseline_ms else []
        summary[name] = {
            "cpu_ms": statistics.median(s.cpu_ms for s in own),
            "wall_ms": statistics.median(s.wall_ms for s in own),
            "ratio": statistics.median(ratios) if ratios else None,
        }
    return summary


def results_by_peer(checks: dict[str, dict], file_names: list[str]) -> dict[str, dict[str, int]]:
    return {
        name: {key: sum(result["by_file"][file][key] for file in file_names) for key in ("frames", "wrong")}
        for name, result in checks.items()
        if not result["failure"]
    }


def print_table(title: str, summary: dict[str, dict], answers: dict[str, dict[str, int]], baseline: str) -> None:
    print(f"\n{title}")
    print(f"  {'peer':<14}{'CPU ms/clip':>12}{'wall ms':>10}{'  / ' + baseline:>14}  answers")
    # A peer with wrong frames is listed below all others, at any speed.
    for name in sorted(summary, key=lambda name: (answers[name]["wrong"] > 0, summary[name]["cpu_ms"])):
        row = summary[name]
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        wrong, frames = answers[name]["wrong"], answers[name]["frames"]
        outcome = f"WRONG {wrong} of {frames} frames" if wrong else f"right ({frames} frames)"
        print(f"  {name:<14}{row['cpu_ms']:>12.1f}{row['wall_ms']:>10.1f}{ratio:>14}  {outcome}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=4, help="clips per file (default 4)")
    parser.add_argument("--repeats", type=int, default=2, help="repetitions of every clip (default 2)")
    parser.add_argument("--files", type=Path, nargs="+", help="videos; default: 1080p of the corpus and x264 encodes")
    parser.add_argument("--peers", default=",".join(adapters.NAMES), help="comma-separated (default: all)")
    parser.add_argument("--baseline", default="framespool", help="reference peer of the ratios")
    parser.add_argument("--warm", action="store_true", help="keep each file's reader open between clips")
    parser.add_argument("--check", type=int, default=1, help="clips per file whose frames are checked (default 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="folder of the encodes")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    parser.add_argument("--list", action="store_true", help="print which peers load, with their versions, and exit")
    arguments = parser.parse_args()
    for option in ("clips", "repeats", "check"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(arguments, option)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    names = arguments.peers.split(",")
    unknown = sorted(set(names) - set(adapters.NAMES))
    if unknown:
        sys.exit(f"unknown peers {', '.join(unknown)}; choose from {', '.join(adapters.NAMES)}")
    if arguments.list:
        for name, worker in start_workers(names, warm=False).items():
            print(f"{name}: {worker.version}")
            worker.close()
        return

    files = [path.resolve() for path in arguments.files] if arguments.files else default_files(arguments.work)
    clips = draw_clips(files, arguments.clips, arguments.seed)
    checks = check(names, clips, arguments.check, arguments.warm)
    for name, result in checks.items():
        if result["failure"]:
            print(f"{name}: skipped, failed on {result['failure']}")
    workers = start_workers([name for name in checks if not checks[name]["failure"]], arguments.warm)
    if not workers:
        sys.exit("no peer left to measure")
    versions = {name: worker.version for name, worker in workers.items()}
    samples = measure(workers, clips, arguments.repeats)
    for worker in workers.values():
        worker.close()

    mode = "reader kept open per file" if arguments.warm else "file opened for each clip"
    print(f"\n{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}")
    print(f"{SEQUENCE_LENGTH} frames, stride {STRIDE}, to {SIZE}x{SIZE}; one thread; {mode}")
    print(f"{len(files)} files, {arguments.clips} clips each, {arguments.repeats} repeats, seed {arguments.seed}\n")
    for name, version in versions.items():
        difference = checks[name]["difference"]
        print(f"  {name:<14}{version}; full-size RGB differs from swscale's by at most {difference:.2f}")
    by_file = {
        path.name: summarise([sample for sample in samples if sample.file == path.name], arguments.baseline)
        for path in files
    }
    for file_name, summary in by_file.items():
        print_table(file_name, summary, results_by_peer(checks, [file_name]), arguments.baseline)
    overall = summarise(samples, arguments.baseline)
    print_table("all files", overall, results_by_peer(checks, list(by_file)), arguments.baseline)
    if arguments.json:
        report = {
            "cpu": cpu_model(),
            "python": platform.python_version(),
            "mode": "warm" if arguments.warm else "cold",
            "clips_per_file": arguments.clips,
            "repeats": arguments.repeats,
            "seed": arguments.seed,
            "baseline": arguments.baseline,
            "peers": names,
            "versions": versions,
            "checks": checks,
            "overall": overall,
            "by_file": by_file,
            "samples": [asdict(sample) for sample in samples],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
