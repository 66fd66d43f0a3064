"""Times the CPU transform pipeline against its peers: a 1080p frame to model input, one thread each, in one run.

    benches/peers/.venv/bin/python benches/pixels/run.py --json out.json
    benches/peers/.venv/bin/python benches/pixels/run.py --groups direct,augment --rounds 30

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import inputs
import numpy as np
import reference
from entries import Entry, Group, all_groups
from inputs import CHECKED_FRAMES, SIDE, STEPS, Inputs

# Appended to the path: modules that all benches share.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from harness.folders import corpus  # noqa: E402
from harness.processes import WorkerError, WorkerProcess  # noqa: E402
from suite.machine import cpu_model  # noqa: E402

HERE = Path(__file__).resolve().parent
RUST_ADAPTERS = ("framespool", "fir_planes", "yuv_fir", "yuv", "read")
OTHER_BUILD = "other"
OTHER_LABEL = " (other)"
DALI_PYTHON = HERE / ".venv-dali" / "bin" / "python"


@dataclass
class Sample:
    group: str
    label: str
    round: int
    cpu_ms: float
    wall_ms: float


def build_worker() -> Path:
    """The Rust worker, built from the current sources."""
    built = subprocess.run(
        ["cargo", "build", "--release", "--locked", "--message-format=json-render-diagnostics"],
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if built.returncode:
        sys.exit("the Rust worker does not build")
    artifacts = [json.loads(line) for line in built.stdout.splitlines()]
    return Path(next(artifact["executable"] for artifact in artifacts if artifact.get("executable")))


def start_workers(
    groups: dict[str, Group], folder: Path, properties: Inputs, builds: dict[str, Path]
) -> dict[str, WorkerProcess]:
    workers = {}
    for name in dict.fromkeys(entry.side for group in groups.values() for entry in group.entries):
        if name in builds or name in RUST_ADAPTERS:
            side = "framespool" if name == OTHER_BUILD else name
            path = builds.get(name, builds["framespool"])
            command = [str(path), side, str(folder), str(properties.width), str(properties.height)]
        else:
            python = str(DALI_PYTHON) if name == "dali" else sys.executable
            command = [python, str(HERE / "worker.py"), name, str(folder)]
        try:
            workers[name] = WorkerProcess(command, {"PYTHONWARNINGS": "ignore"})
        except WorkerError as error:
            print(f"{name}: omitted ({error})")
    return workers


def check(
    groups: dict[str, Group], workers: dict[str, WorkerProcess], folder: Path, properties: Inputs
) -> dict[str, dict]:
    """By library and case: the difference of its output from the expected one, or the failure."""
    checker = AnswerChecker(properties)
    results: dict[str, dict] = {}
    for entry in dict.fromkeys(entry for group in groups.values() for entry in group.entries):
        key = f"{entry.side} {entry.case}"
        if entry.side not in workers or entry.expected is None or key in results:
            continue
        try:
            workers[entry.side].ask(f"check {entry.case} {folder / 'answer.raw'}")
            results[key] = checker.compare(folder / "answer.raw", entry)
        except WorkerError as error:
            results[key] = {"failure": str(error)}
    return results


class AnswerChecker:
    """The expected results, computed on demand."""

    def __init__(self, properties: Inputs) -> None:
        self.properties = properties
        planes = properties.planes()
        self.planes = [planes[index] for index in CHECKED_FRAMES]
        self.rgb: dict[str, list[np.ndarray]] = {}

    def compare(self, path: Path, entry: Entry) -> dict:
        width, height = self.properties.width, self.properties.height
        if entry.asked == "full":
            got = np.fromfile(path, np.uint8).reshape(-1, height, width, 3)
        else:
            elements = np.fromfile(path, np.float32).reshape(-1, 3, SIDE, SIDE)
            got = [reference.code_values(picture) for picture in elements]
        apart = [reference.difference(got[n], self.expected(n, entry, entry.expected)) for n in range(entry.checked)]
        mean, largest = (max(values) for values in zip(*apart, strict=True))
        result = {"mean": mean, "max": largest, "wrong": not mean <= entry.expected.tolerance}
        if entry.expected.kernel != "triangle":
            smooth = replace(entry.expected, kernel="triangle")
            apart = [reference.difference(got[n], self.expected(n, entry, smooth)) for n in range(entry.checked)]
            result["from_triangle"] = max(mean for mean, _ in apart)
        return result

    def expected(self, n: int, entry: Entry, expected: reference.Expected) -> np.ndarray:
        """For the n-th checked frame, which belongs to the n-th clip."""
        matrix = expected.matrix
        if matrix not in self.rgb:
            width, height = self.properties.width, self.properties.height
            self.rgb[matrix] = [inputs.exact_rgb(planes, width, height, matrix) for planes in self.planes]
        rgb = self.rgb[matrix][n]
        if entry.asked == "full":
            return rgb
        case = entry.same_as or entry.case
        if case.startswith("aug-"):
            steps = STEPS[: STEPS.index(case.removeprefix("aug-")) + 1]
            return reference.augmented(rgb, self.properties.clips[n], steps, expected)
        return reference.resized(rgb, entry.asked, expected.kernel)


def measurable(group: Group, workers: dict[str, WorkerProcess], checks: dict[str, dict]) -> list[Entry]:
    def is_right(entry: Entry) -> bool:
        result = checks.get(f"{entry.side} {entry.case}", {})
        return not (result.get("failure") or result.get("wrong"))

    return [entry for entry in group.entries if entry.side in workers and is_right(entry)]


def measure(
    groups: dict[str, Group], workers: dict[str, WorkerProcess], checks: dict[str, dict], rounds: int
) -> tuple[list[Sample], dict[str, int]]:
    """Runs every entry of every table per round, the entries of a table in direct sequence and in rotating order.

    So noise affects all equally. Also returns the bytes of scratch memory, by case.
    """
    samples: list[Sample] = []
    scratch: dict[str, int] = {}
    orders = {name: measurable(group, workers, checks) for name, group in groups.items()}
    for number in range(-1, rounds):
        for name, group in groups.items():
            for entry in orders[name]:
                clip = max(number, 0) * -(-group.frames // inputs.CLIP)
                try:
                    answer = workers[entry.side].ask(f"time {entry.case} {group.ring} {group.frames} {clip}")
                except WorkerError as error:
                    sys.exit(f"{entry.label}: {error}")
                if answer["scratch_bytes"] is not None and entry.side == "framespool":
                    scratch[entry.case] = max(answer["scratch_bytes"], scratch.get(entry.case, 0))
                # The first round is not counted: libraries load and allocate at their first call.
                if number >= 0:
                    cpu_ms, wall_ms = answer["cpu_ms"] / answer["frames"], answer["wall_ms"] / answer["frames"]
                    samples.append(Sample(name, entry.label, number, cpu_ms, wall_ms))
            orders[name].append(orders[name].pop(0))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return samples, scratch


def with_differences(samples: list[Sample], groups: dict[str, Group]) -> list[Sample]:
    by_key = {(s.group, s.label, s.round): s for s in samples}
    extra = []
    for name, group in groups.items():
        for wanted in group.differences:
            for sample in [s for s in samples if (s.group, s.label) == (name, wanted.of)]:
                less = by_key.get((name, wanted.less, sample.round))
                if less is not None:
                    cpu_ms, wall_ms = sample.cpu_ms - less.cpu_ms, sample.wall_ms - less.wall_ms
                    extra.append(Sample(name, wanted.label, sample.round, cpu_ms, wall_ms))
    return samples + extra


def summarise(samples: list[Sample], group: str, baseline: str) -> dict[str, dict[str, float | None]]:
    """Median CPU and wall time per frame, and the median of the ratios to the baseline, round by round."""
    own = [sample for sample in samples if sample.group == group]
    by_label: dict[str, dict[int, Sample]] = {}
    for sample in own:
        by_label.setdefault(sample.label, {})[sample.round] = sample

    def ratio(label: str, to: str) -> float | None:
        rounds = by_label[label].keys() & by_label.get(to, {}).keys()
        ratios = [by_label[label][number].cpu_ms / by_label[to][number].cpu_ms for number in rounds]
        return statistics.median(ratios) if ratios else None

    return {
        label: {
            "cpu_ms": statistics.median(sample.cpu_ms for sample in mine.values()),
            "wall_ms": statistics.median(sample.wall_ms for sample in mine.values()),
            "ratio": ratio(label, baseline),
            # The other build's relative to this one's.
            "to_other": ratio(label, label.removesuffix(OTHER_LABEL)) if label.endswith(OTHER_LABEL) else None,
        }
        for label, mine in by_label.items()
    }


def print_table(group: Group, summary: dict[str, dict[str, float | None]], checks: dict[str, dict]) -> None:
    print(f"\n{group.title}")
    print(f"  {'':<42}{'CPU ms':>8}{'wall ms':>9}{'ratio':>8}   off by: mean, max")
    for line in [*group.entries, *group.differences]:
        result = checks.get(f"{line.side} {line.case}", {}) if isinstance(line, Entry) else {}
        answers = f"{result['mean']:.2f}, {result['max']:.0f}" if "mean" in result else ""
        notes = [line.note] if line.note else []
        if "from_triangle" in result:
            notes.append(f"{result['from_triangle']:.1f} from the triangle's image")
        if result.get("failure") or result.get("wrong"):
            outcome = f"failed: {result['failure']}" if result.get("failure") else f"WRONG: off by {answers}"
            print(f"  {line.label:<42}{outcome}  {'; '.join(notes)}".rstrip())
        elif line.label in summary:
            row = summary[line.label]
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
            if row["to_other"] is not None:
                notes.append(f"{row['to_other']:.2f} of the line above")
            times = f"{row['cpu_ms']:>8.3f}{row['wall_ms']:>9.3f}{ratio:>8}"
            print(f"  {line.label:<42}{times}   {answers:<10}  {'; '.join(notes)}".rstrip())


def print_shares(group: Group, summary: dict[str, dict[str, float | None]]) -> None:
    """The pipeline as a share of decoding, and as a multiple of reading the planes."""
    labels = [entry.label for entry in group.entries if entry.label in summary]
    passes = [label for label in labels if label.startswith("framespool")]
    print(f"\n  {'':<42}" + "".join(f"{label.removeprefix('framespool, '):>18}" for label in passes))
    for label in labels:
        if label not in passes:
            parts = [summary[name]["cpu_ms"] / summary[label]["cpu_ms"] for name in passes]
            texts = [f"{100 * part:.1f} %" if part < 1 else f"{part:.1f} times" for part in parts]
            print(f"  {'of ' + label:<42}" + "".join(f"{text:>18}" for text in texts))


def described(group: Group) -> dict[str, dict[str, str]]:
    """By label: the key of its check, and notes."""
    lines = {entry.label: {"key": f"{entry.side} {entry.case}", "note": entry.note} for entry in group.entries}
    return lines | {line.label: {"key": "", "note": line.note} for line in group.differences}


def versions_of_crates() -> dict[str, str]:
    import tomllib

    packages = tomllib.loads((HERE / "Cargo.lock").read_text())["package"]
    return {package["name"]: package["version"] for package in packages}


def add_other_build(groups: dict[str, Group]) -> None:
    """The other build's line after each of framespool's."""
    for group in groups.values():
        for n, entry in reversed(list(enumerate(group.entries))):
            if entry.side == "framespool":
                group.entries.insert(n + 1, replace(entry, side=OTHER_BUILD, label=entry.label + OTHER_LABEL))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(all_groups([]))
    parser.add_argument("--groups", help=f"comma-separated, of {names} (default: all)")
    parser.add_argument("--sides", help="comma-separated; framespool is always included (default: all)")
    parser.add_argument("--rounds", type=int, default=15, help="number of rounds (default 15)")
    parser.add_argument("--video", type=Path, help="source of the frames (default: drone_city_24p.mp4)")
    parser.add_argument("--seed", type=int, default=0, help="of the augmentations")
    parser.add_argument("--worker", type=Path, help="path of an existing Rust worker, instead of building one")
    parser.add_argument("--other", type=Path, help="a second Rust worker, whose framespool is measured too")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {arguments.rounds}")
    return arguments


def chosen_groups(arguments: argparse.Namespace) -> dict[str, Group]:
    videos = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    groups = all_groups(videos)
    if arguments.groups:
        unknown = sorted(set(arguments.groups.split(",")) - set(groups))
        if unknown:
            sys.exit(f"unknown groups {', '.join(unknown)}; choose from {', '.join(groups)}")
        groups = {name: groups[name] for name in arguments.groups.split(",")}
    if arguments.sides:
        wanted = {"framespool", *arguments.sides.split(",")}
        for group in groups.values():
            group.entries[:] = [entry for entry in group.entries if entry.side in wanted]
    if arguments.other:
        add_other_build(groups)
    return groups


def main() -> None:
    arguments = parse_arguments()
    groups = chosen_groups(arguments)
    video = arguments.video or corpus() / "video" / "1080p" / "drone_city_24p.mp4"
    if not video.exists():
        sys.exit(f"no video {video}: set FRAMESPOOL_CORPUS or pass one with --video")
    builds = {"framespool": arguments.worker or build_worker()}
    if arguments.other:
        builds[OTHER_BUILD] = arguments.other
    with tempfile.TemporaryDirectory() as scratch_folder:
        folder = Path(scratch_folder)
        try:
            inputs.write(folder, video, arguments.seed)
        except ValueError as error:
            sys.exit(str(error))
        properties = Inputs.read(folder)
        workers = start_workers(groups, folder, properties, builds)
        if "framespool" not in workers:
            sys.exit("framespool failed, nothing to compare with")
        versions = {name: worker.version for name, worker in workers.items()}
        checks = check(groups, workers, folder, properties)
        samples, scratch = measure(groups, workers, checks, arguments.rounds)
        for worker in workers.values():
            worker.close()

    samples = with_differences(samples, groups)
    crates = {name: versions_of_crates()[name] for name in ("fast_image_resize", "yuv")}
    print(f"\n{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}")
    print(f"frames of {video.name}; one thread; {arguments.rounds} rounds; milliseconds per frame, medians")
    print("ratio: CPU time relative to the table's first line, median over rounds")
    print("off by: from float64, in code values 0 to 255, the worst of the frames checked\n")
    for name, version in versions.items():
        print(f"  {name:<14}{version}")
    print("  crates        " + ", ".join(f"{name} {version}" for name, version in crates.items()))
    summaries = {name: summarise(samples, name, group.entries[0].label) for name, group in groups.items()}
    for name, group in groups.items():
        print_table(group, summaries[name], checks)
        if name == "decode":
            print_shares(group, summaries[name])
    print("\nframespool's scratch memory for rows, bytes per worker")
    for case, size in scratch.items():
        print(f"  {case:<42}{size:>8}")
    if arguments.json:
        report = {
            "cpu": cpu_model(),
            "python": platform.python_version(),
            "video": video.name,
            "rounds": arguments.rounds,
            "seed": arguments.seed,
            "versions": versions | crates,
            "checks": checks,
            "scratch_bytes": scratch,
            "groups": {name: {"title": group.title, "lines": summaries[name]} for name, group in groups.items()},
            "entries": {name: described(group) for name, group in groups.items()},
            "samples": [asdict(sample) for sample in samples],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
