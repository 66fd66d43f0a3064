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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import inputs
import numpy as np
import reference
from inputs import CHECKED_FRAMES, NUM_FRAMES, SIDE, STEPS, Inputs
from reference import Expected

# Appended to the path: both folders have a reference.py.
sys.path += [str(Path(__file__).resolve().parents[1] / "peers"), str(Path(__file__).resolve().parents[1])]
from environment import worker_environment  # noqa: E402
from suite.machine import cpu_model  # noqa: E402

HERE = Path(__file__).resolve().parent
RUST_ADAPTERS = ("framespool", "fir_planes", "yuv_fir", "yuv", "read")
OTHER_BUILD = "other"
OTHER_LABEL = " (other)"
DALI_PYTHON = HERE / ".venv-dali" / "bin" / "python"
# swscale's default conversion rounds down, by one code value; its default resize at even widths by two.
ROUNDED_DOWN = 1.25
ROUNDED_DOWN_TWICE = 2.5
# Each of torchvision's and DALI's steps rounds to 8 bits.
ROUNDED_EACH_STEP = 1.25


@dataclass(frozen=True)
class Entry:
    """A line of a table: a library with one of its cases."""

    label: str
    side: str
    case: str
    # Nothing is expected of entries that output no pixels.
    expected: Expected | None = Expected()
    # Checked clips whose output is compared: torchvision rotates hues in another color space.
    checked: int = len(CHECKED_FRAMES)
    # The compared case, unless the library has another name for it.
    same_as: str | None = None
    note: str = ""

    @property
    def asked(self) -> str:
        return self.same_as or self.case.partition("-")[0]


@dataclass(frozen=True)
class Difference:
    """A line that is another line's time minus a third's, round by round."""

    label: str
    of: str
    less: str
    note: str = ""


@dataclass(frozen=True)
class Group:
    """A table. The ratios are relative to its first entry."""

    title: str
    frames: int
    entries: list[Entry]
    differences: list[Difference] = field(default_factory=list)
    # Different frames, used in turn.
    ring: int = NUM_FRAMES


@dataclass
class Sample:
    group: str
    label: str
    round: int
    cpu_ms: float
    wall_ms: float


def resize_entries(case: str) -> list[Entry]:
    def with_(side: str, flags: str = "") -> tuple[str, str]:
        return side, f"{case}-{flags}" if flags else case

    # The odd width of `crop` makes swscale use other paths.
    swscale, dark = (ROUNDED_DOWN_TWICE, "; 2 too dark, half the chroma") if case == "direct" else (0.75, "")
    entries = [
        Entry("framespool", "framespool", case),
        Entry("fast_image_resize planes, yuv", *with_("fir_planes")),
    ]
    if case == "crop":
        entries.append(
            Entry(
                "fast_image_resize planes' box, yuv",
                "fir_planes",
                "box",
                same_as="crop",
                note="resizes only the region of the crop; its edge pixels differ",
            )
        )
    entries += [
        Entry("yuv, fast_image_resize RGB", *with_("yuv_fir")),
        Entry("swscale bilinear, NumPy", *with_("swscale"), Expected(tolerance=swscale), note="PyAV's default" + dark),
        Entry(
            "swscale area, NumPy",
            *with_("swscale", "area"),
            Expected(kernel="area", tolerance=swscale),
            note=dark.removeprefix("; "),
        ),
        Entry("swscale accurate, NumPy", *with_("swscale", "accurate"), note="exact rounding, all chroma"),
        Entry("OpenCV area, NumPy", *with_("opencv"), Expected(kernel="area", matrix="bt601"), note="BT.601 only"),
        Entry("torchvision, RGB given", *with_("torchvision"), note="starts from RGB"),
        Entry("swscale RGB, torchvision", *with_("torchvision", "yuv"), Expected(tolerance=ROUNDED_DOWN)),
    ]
    return entries


def aliasing_entries() -> list[Entry]:
    two_taps = Expected(kernel="bilinear")
    two_taps_601 = Expected(kernel="bilinear", matrix="bt601")
    return [
        Entry("framespool, two taps", "framespool", "direct2", two_taps, same_as="direct", note="aliases"),
        Entry("swscale fast_bilinear, NumPy", "swscale", "direct-fast", two_taps, note="aliases; columns drift"),
        Entry("OpenCV linear, NumPy", "opencv", "direct-linear", two_taps_601, note="aliases; BT.601 only"),
    ]


def torchcodec_entries(case: str, label: str) -> tuple[list[Entry], list[Difference]]:
    read = Entry("reading that video", "decode", "raw", None, note="PyAV")
    entry = Entry(f"{label}, with reading", "torchcodec", case, Expected(tolerance=ROUNDED_DOWN), note="raw video")
    return [entry, read], [Difference(label, entry.label, read.label, "the first minus the second")]


def full_entries() -> list[Entry]:
    return [
        Entry("framespool", "framespool", "full"),
        Entry("swscale (PyAV's rgb24)", "swscale", "full", Expected(tolerance=ROUNDED_DOWN), note="1 too dark"),
        Entry("yuv", "yuv", "full"),
        Entry("OpenCV cvtColor", "opencv", "full", Expected(matrix="bt601"), note="BT.601 only"),
    ]


def augment_entries() -> list[Entry]:
    by_steps = Expected(tolerance=ROUNDED_EACH_STEP)
    entries = [Entry("framespool, plain resize", "framespool", "direct")]
    for n, step in enumerate(STEPS):
        words = "random resized crop" if n == 0 else f" + {step}"
        entries.append(Entry(f"framespool, {words}".replace(",  ", ", "), "framespool", f"aug-{step}"))
    entries += [
        Entry("framespool, all, compiled before", "framespool", "aug-kept", same_as="aug-grid"),
        Entry("torchvision, + flip", "torchvision", "aug-flip", note="starts from RGB"),
        Entry("torchvision, all", "torchvision", "aug-grid", by_steps, checked=3, note="starts from RGB"),
        Entry("DALI, + flip", "dali", "aug-flip", note="starts from RGB"),
        Entry("DALI, all", "dali", "aug-grid", replace(by_steps, contrast_center=127.5), note="starts from RGB"),
    ]
    return entries


def decode_entries(videos: list[Path]) -> list[Entry]:
    return [
        Entry("framespool, 224x224", "framespool", "direct"),
        Entry("framespool, 256 and crop", "framespool", "crop"),
        Entry("reading the planes once", "read", "planes", None, note="exclusive or, in Rust"),
        *(Entry(f"decoding {video.name}", "decode", str(video), None) for video in videos),
    ]


def all_groups(videos: list[Path]) -> dict[str, Group]:
    resized, less_reading = torchcodec_entries("direct", "torchcodec Resize")
    full, full_less_reading = torchcodec_entries("full", "torchcodec, no Resize")
    many = f"{NUM_FRAMES} frames by turns"
    warm = "the same frame repeatedly"
    return {
        "direct": Group(
            f"1080p to 224x224, normalized float32, channels first; {many}",
            32,
            resize_entries("direct") + resized + aliasing_entries(),
            less_reading,
        ),
        "crop": Group(f"1080p, shorter side to 256, center crop 224, same output; {many}", 32, resize_entries("crop")),
        "warm": Group(f"1080p to 224x224 as above; {warm}", 32, resize_entries("direct"), ring=1),
        "full": Group(f"1080p to RGB, 8 bits, channels last; {many}", 16, full_entries() + full, full_less_reading),
        "full_warm": Group(f"1080p to RGB as above; {warm}", 16, full_entries(), ring=1),
        "decode": Group(f"decoding before it; {many}", 32, decode_entries(videos)),
        "augment": Group(
            "augmentation, each step with those before it; a new one every 16 frames", 32, augment_entries()
        ),
    }


class WorkerError(Exception):
    """An adapter cannot do the job."""


class Worker:
    """An adapter in its own process."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self._answer()["version"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"its process ended with status {self.process.wait()}"}
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, *words: object) -> dict:
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended: reading its answer reports the status
        return self._answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


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


def start_workers(groups: dict[str, Group], folder: Path, facts: Inputs, builds: dict[str, Path]) -> dict[str, Worker]:
    workers = {}
    for name in dict.fromkeys(entry.side for group in groups.values() for entry in group.entries):
        if name in builds or name in RUST_ADAPTERS:
            side = "framespool" if name == OTHER_BUILD else name
            path = builds.get(name, builds["framespool"])
            command = [str(path), side, str(folder), str(facts.width), str(facts.height)]
        else:
            python = str(DALI_PYTHON) if name == "dali" else sys.executable
            command = [python, str(HERE / "worker.py"), name, str(folder)]
        try:
            workers[name] = Worker(command, {**worker_environment(), "PYTHONWARNINGS": "ignore"})
        except (WorkerError, FileNotFoundError) as error:
            print(f"{name}: left out ({error})")
    return workers


def check(groups: dict[str, Group], workers: dict[str, Worker], folder: Path, facts: Inputs) -> dict[str, dict]:
    """By library and case: the difference of its output from the expected one, or the failure."""
    checker = AnswerChecker(facts)
    results: dict[str, dict] = {}
    for entry in dict.fromkeys(entry for group in groups.values() for entry in group.entries):
        key = f"{entry.side} {entry.case}"
        if entry.side not in workers or entry.expected is None or key in results:
            continue
        try:
            workers[entry.side].ask("check", entry.case, folder / "answer.raw")
            results[key] = checker.compare(folder / "answer.raw", entry)
        except WorkerError as error:
            results[key] = {"failure": str(error)}
    return results


class AnswerChecker:
    """The expected results, computed on demand."""

    def __init__(self, facts: Inputs) -> None:
        self.facts = facts
        planes = facts.planes()
        self.planes = [planes[index] for index in CHECKED_FRAMES]
        self.rgb: dict[str, list[np.ndarray]] = {}

    def compare(self, path: Path, entry: Entry) -> dict:
        width, height = self.facts.width, self.facts.height
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

    def expected(self, n: int, entry: Entry, expected: Expected) -> np.ndarray:
        """For the n-th checked frame, which belongs to the n-th clip."""
        matrix = expected.matrix
        if matrix not in self.rgb:
            width, height = self.facts.width, self.facts.height
            self.rgb[matrix] = [reference.exact_rgb(planes, width, height, matrix) for planes in self.planes]
        rgb = self.rgb[matrix][n]
        if entry.asked == "full":
            return rgb
        case = entry.same_as or entry.case
        if case.startswith("aug-"):
            steps = STEPS[: STEPS.index(case.removeprefix("aug-")) + 1]
            return reference.augmented(rgb, self.facts.clips[n], steps, expected)
        return reference.resized(rgb, entry.asked, expected.kernel)


def measurable(group: Group, workers: dict[str, Worker], checks: dict[str, dict]) -> list[Entry]:
    def is_right(entry: Entry) -> bool:
        result = checks.get(f"{entry.side} {entry.case}", {})
        return not (result.get("failure") or result.get("wrong"))

    return [entry for entry in group.entries if entry.side in workers and is_right(entry)]


def measure(
    groups: dict[str, Group], workers: dict[str, Worker], checks: dict[str, dict], rounds: int
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
                    answer = workers[entry.side].ask("time", entry.case, group.ring, group.frames, clip)
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
            "to_twin": ratio(label, label.removesuffix(OTHER_LABEL)) if label.endswith(OTHER_LABEL) else None,
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
            if row["to_twin"] is not None:
                notes.append(f"{row['to_twin']:.2f} of the line above")
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


def corpus() -> Path:
    if not (place := os.environ.get("FRAMESPOOL_CORPUS")):
        sys.exit("no corpus: set FRAMESPOOL_CORPUS to its folder")
    return Path(place).resolve()


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
        facts = Inputs.read(folder)
        workers = start_workers(groups, folder, facts, builds)
        if "framespool" not in workers:
            sys.exit("framespool failed, nothing to compare with")
        versions = {name: worker.version for name, worker in workers.items()}
        checks = check(groups, workers, folder, facts)
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
