"""Measures seconds and bytes read to index the frames of a thousand MP4s, framespool against its peers.

    benches/peers/.venv/bin/python benches/peers/index_cost.py --json out.json
    benches/peers/.venv/bin/python benches/peers/index_cost.py --files 200 --repeats 1 --storage

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
from pathlib import Path

import many_files
import oneshot
from random_clips import corpus, cpu_model, default_work_folder

HERE = Path(__file__).resolve().parent
DALI_PYTHON = HERE / ".venv-dali" / "bin" / "python"
BASELINE = "framespool_video"
# A loader with a stored index; the others start with none.
WARM = "framespool_warm"
SIDES = (BASELINE, "framespool", WARM, "framespool_index", "torchcodec", "decord", "pyav", "spdl", "dali")
MB = 1_000_000


def ask(side: str, files: list[many_files.File], index: str, threads: int | None = None) -> dict:
    request = {"side": side, "files": [str(file.path) for file in files], "index": index, "threads": threads}
    if side != "dali":
        return oneshot.ask("index_worker.py", request)
    if not DALI_PYTHON.exists():
        raise oneshot.WorkerError("not installed: benches/peers/setup.sh --dali")
    return oneshot.ask("index_worker.py", request, python=DALI_PYTHON)


def run(side: str, files: list[many_files.File], threads: int | None, storage: bool) -> dict:
    """One measurement, rejected if a frame count is wrong."""
    with tempfile.TemporaryDirectory() as index:
        if side == WARM:
            before = ask("framespool", files, index, threads)
            if "index" in before["unknown"]:
                raise oneshot.WorkerError("this build stores no index")
        for file in files:
            prepare(file.path, storage)
        answer = ask(side, files, index, threads)
        answer["index_bytes"] = sum(path.stat().st_size for path in Path(index).rglob("*") if path.is_file())
    expected = [file.num_frames for file in files]
    if answer.get("counts", expected) != expected:
        wrong = sum(a != b for a, b in zip(answer["counts"], expected, strict=True))
        raise oneshot.WorkerError(f"WRONG: wrong number of frames in {wrong} files")
    if answer["total"] != sum(expected):
        raise oneshot.WorkerError(f"WRONG: {answer['total']} frames, not {sum(expected)}")
    return answer


def prepare(path: Path, storage: bool) -> None:
    """Loads a file into the page cache, or evicts it."""
    if not storage:
        path.read_bytes()
        return
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def print_table(runs: dict[str, list[dict]], num_files: int, num_bytes: int) -> None:
    columns = f"{'wall s':>9}{'CPU s':>9}{'MB read':>10}{'KB/file':>9}{'reads':>9}{'MB stored':>11}"
    ratios = f"{'wall x':>8}{'CPU x':>8}{'bytes x':>9}"
    print(f"\n  {'side':<18}{columns}{ratios}")
    base = runs.get(BASELINE, [])
    for side, own in runs.items():
        wall, cpu, read, reads, stored = (
            statistics.median(entry["usage"][what] for entry in own)
            for what in ("wall_s", "cpu_s", "bytes_read", "reads", "storage_bytes")
        )
        cells = (
            f"{wall:>9.2f}{cpu:>9.2f}{read / MB:>10.1f}{read / num_files / 1e3:>9.1f}{reads:>9.0f}{stored / MB:>11.1f}"
        )
        for what, width in (("wall_s", 8), ("cpu_s", 8), ("bytes_read", 9)):
            paired = [a["usage"][what] / b["usage"][what] for a, b in zip(own, base, strict=False)]
            cells += f"{statistics.median(paired):>{width}.1f}" if paired else f"{'-':>{width}}"
        index = own[-1]["index_bytes"]
        print(f"  {side:<18}{cells}" + (f"  left an index of {index / MB:.1f} MB" if index else ""))
    print(f"  {'(the files)':<18}{'':>18}{num_bytes / MB:>10.1f}{num_bytes / num_files / 1e3:>9.1f}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000, help="MP4s (default 1000, 0.8 GB)")
    parser.add_argument("--sides", default=",".join(SIDES), help="comma-separated (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="processes per library (default 3)")
    parser.add_argument("--threads", type=int, help="framespool's num_threads (default: its own)")
    parser.add_argument("--storage", action="store_true", help="evict the files from the page cache before each run")
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="folder of the files")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    for option in ("files", "repeats"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(arguments, option)}")
    arguments.sides = arguments.sides.split(",")
    if set(arguments.sides) - set(SIDES):
        parser.error(f"unknown {', '.join(sorted(set(arguments.sides) - set(SIDES)))}; choose from {', '.join(SIDES)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    sources = sorted((corpus() / "video" / "1080p").glob("*.mp4"))
    if not sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS")
    files = many_files.make(sources, arguments.files, arguments.work / "many")
    num_bytes = sum(file.path.stat().st_size for file in files)
    runs: dict[str, list[dict]] = {}
    left_out: dict[str, str] = {}
    order = list(arguments.sides)
    for repeat in range(arguments.repeats):
        for side in list(order):
            try:
                runs.setdefault(side, []).append(run(side, files, arguments.threads, arguments.storage))
            except oneshot.WorkerError as error:
                print(f"{side}: omitted ({error})")
                left_out[side] = str(error)
                order.remove(side)
                runs.pop(side)
        order.append(order.pop(0))
        print(f"repeat {repeat + 1} of {arguments.repeats} done", file=sys.stderr)

    print(f"\n{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    total = sum(file.num_frames for file in files)
    where = "not in the page cache" if arguments.storage else "in the page cache"
    print(f"{len(files)} files, {num_bytes / MB:.0f} MB, {total} frames, {where}; {arguments.repeats} repeats")
    for side, own in runs.items():
        print(f"  {side:<18}{own[0]['version']}")
    print_table({side: runs[side] for side in SIDES if side in runs}, len(files), num_bytes)
    if arguments.json:
        report = {"cpu": cpu_model(), "python": platform.python_version(), "files": len(files), "runs": runs}
        report |= {"bytes": num_bytes, "frames": total, "left_out": left_out}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
