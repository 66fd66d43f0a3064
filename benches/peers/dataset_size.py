"""Measures shuffled epochs by size of the dataset: grouped and full shuffle, and PyTorch's DataLoader with a peer.

    benches/peers/.venv/bin/python benches/peers/dataset_size.py --json out.json
    benches/peers/.venv/bin/python benches/peers/dataset_size.py --rows 340x256-g250-k8 --ratios 10 --repeats 1

README.md describes the measurement and its limits.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import sys
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import av
import cv2
import long_gop
import numpy as np
import oneshot
import reference
from dataset_size_worker import jpeg_paths
from random_clips import corpus, cpu_model, default_work_folder

MIB = 1 << 20
FRAMES = 300
MASTERS = 8
CLIP_FRAMES = 8
SIZE = 112
BATCH = 8
CLIP_BYTES = CLIP_FRAMES * SIZE * SIZE * 3
#: Number of clips that the clip cache holds.
CACHED_CLIPS = 256
#: Clips of a run whose pixels are compared with a sequential decode by PyAV.
CHECKED = 16


@dataclass(frozen=True)
class Row:
    """One dataset: videos of 300 frames."""

    width: int
    height: int
    gop: int
    clips_per_video: int
    stride: int = 4
    num_shards: int = 1

    @property
    def name(self) -> str:
        kind = f"k{self.clips_per_video}" if self.stride > 1 else f"windows{self.clips_per_video}"
        ranks = f"-r{self.num_shards}" if self.num_shards > 1 else ""
        return f"{self.width}x{self.height}-g{self.gop}-{kind}{ranks}"

    def sampling(self) -> dict:
        """Random clips of 8 frames with stride 4, or all windows of 8 consecutive frames."""
        length = {"sequence_length": CLIP_FRAMES, "stride": self.stride}
        if self.stride == 1:
            return {"rule": "windows", **length, "step": CLIP_FRAMES}
        return {"rule": "random", **length, "clips_per_video": self.clips_per_video}


ROWS = {
    row.name: row
    for row in (
        *(Row(340, 256, 250, clips) for clips in (1, 2, 4, 8, 16)),
        *(Row(340, 256, gop, 8) for gop in (12, 30)),
        Row(340, 256, 250, 37, stride=1),
        Row(340, 256, 250, 8, num_shards=4),
        Row(1920, 1080, 250, 8),
    )
}
SIDES = ("grouped", "full", "torchcodec", "decord", "spdl", "jpeg")
#: Extracted frames: shorter side in pixels, and JPEG quality of OpenCV's default.
JPEG_SIDE, JPEG_QUALITY = 256, 95


def videos(row: Row, count: int, sources: list[Path], folder: Path) -> list[str]:
    """``count`` videos of different paths: hard links to the encodes, which are made if they do not exist."""
    size = f"{row.width}x{row.height}-g{row.gop}"
    masters = long_gop.dataset(
        sources, MASTERS, FRAMES, folder / size, size=(row.width, row.height), options={"g": str(row.gop)}
    )
    links = folder / size / "links"
    links.mkdir(exist_ok=True)
    paths = [links / f"{number:06}.mp4" for number in range(count)]
    for number, path in enumerate(paths):
        if not path.exists():
            os.link(masters[number % MASTERS], path)
    return [str(path) for path in paths]


def extract_frames(video: str) -> dict:
    """Writes all frames of a video as JPEG files in one tar, unless they exist; returns bytes and CPU seconds."""
    tar, offsets = jpeg_paths(video)
    cost = Path(f"{video}.jpeg.cost.json")
    if not cost.exists():
        cv2.setNumThreads(0)
        places, began = [], time.process_time()
        with av.open(video) as reading, open(tar, "wb") as file, tarfile.open(fileobj=file, mode="w|") as archive:
            reading.streams.video[0].thread_type = "NONE"
            for number, frame in enumerate(reading.decode(video=0)):
                scale = JPEG_SIDE / min(frame.width, frame.height)
                size = (round(frame.width * scale), round(frame.height * scale))
                pixels = cv2.resize(frame.to_ndarray(format="bgr24"), size, None, 0, 0, cv2.INTER_AREA)
                data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()
                entry = tarfile.TarInfo(f"{number:06}.jpg")
                entry.size = len(data)
                places.append((archive.offset + tarfile.BLOCKSIZE, entry.size))
                archive.addfile(entry, io.BytesIO(data))
        Path(offsets).write_text(json.dumps(places))
        cost.write_text(json.dumps({"bytes": os.path.getsize(tar), "seconds": time.process_time() - began}))
    return json.loads(cost.read_text())


def check(answer: dict, paths: list[str], references: dict) -> int:
    """Number of wrong frames among the first clips."""
    wrong = 0
    for (video, indices), frames in zip(answer["order"], np.load(answer["saved"]), strict=False):
        master = os.path.realpath(paths[video % MASTERS])
        key = (master, tuple(indices))
        if key not in references:
            references[key] = reference.decode(Path(master), set(indices), SIZE, None)
        wrong += references[key].count_wrong(indices, frames, SIZE)[0]
    return wrong


def measure(row: Row, ratio: float, sides: list[str], arguments: argparse.Namespace, references: dict) -> list[dict]:
    """The results of all sides for one dataset, in alternation."""
    count = max(MASTERS, round(ratio * CACHED_CLIPS * row.num_shards / row.clips_per_video))
    paths = videos(row, count, arguments.sources, arguments.work)
    budget = CACHED_CLIPS * CLIP_BYTES
    request = {
        "files": paths,
        "encodes": MASTERS,
        "sampling": row.sampling(),
        "size": SIZE,
        "batch_size": BATCH,
        "cache": budget,
        "threads": arguments.threads,
        "num_shards": row.num_shards,
        "checked": CHECKED,
        # Long enough that the cache is as full as in the rest of the epoch.
        "warm_up": 2 * CACHED_CLIPS // BATCH,
        "batches": (4 if row.width < 1000 else 2) * CACHED_CLIPS // BATCH,
    }
    stored = statistics.mean(os.path.getsize(path) for path in paths[:MASTERS])
    jpeg = [extract_frames(path) for path in paths[:MASTERS]] if "jpeg" in sides else []
    runs: dict[str, list[dict]] = {side: [] for side in sides}
    order: list = []
    digests: dict[str, int] = {}
    for repeat in range(arguments.repeats):
        for side in sides:
            more = {} if side in SIDES[:2] else {"items": order}
            saved = str(arguments.work / "frames.npy")
            answer = oneshot.ask("dataset_size_worker.py", {**request, **more, "side": side, "saved": saved})
            answer["wrong"] = 0 if repeat else check({**answer, "saved": saved}, paths, references)
            if side == "full":
                order = answer["order"]
            for clip, digest in answer.get("digests", {}).items():
                if digests.setdefault(clip, digest) != digest:
                    raise oneshot.WorkerError(f"clip {clip} differs between two runs")
            runs[side].append({name: value for name, value in answer.items() if name not in ("order", "digests")})
            print(f"{row.name} ratio {ratio:g} {side}: {answer['cpu_ms_per_clip']:.1f} ms", file=sys.stderr)
    rows = []
    for side, own in runs.items():
        medians = {
            name: statistics.median(run[name] for run in own)
            for name, value in own[0].items()
            if isinstance(value, (int, float))
        }
        paired = [a["cpu_ms_per_clip"] / b["cpu_ms_per_clip"] for a, b in zip(own, runs["grouped"], strict=True)]
        medians |= {"disk_bytes_per_video": stored, "extraction_cpu_s_per_video": 0.0}
        if side == "jpeg":
            medians["disk_bytes_per_video"] = statistics.mean(cost["bytes"] for cost in jpeg)
            medians["extraction_cpu_s_per_video"] = statistics.mean(cost["seconds"] for cost in jpeg)
        medians |= {"name": row.name, "ratio": ratio, "side": side, "videos": count, "version": own[0]["version"]}
        rows.append({**medians, "cpu_over_grouped": statistics.median(paired), "runs": own})
    return rows


def print_rows(rows: list[dict]) -> None:
    for row in rows:
        packets, expected = row.get("packets_per_clip"), row.get("expected_packets_per_clip")
        decoded = f"{row['frames_decoded_per_clip']:>9.1f}" if packets else f"{'-':>9}"
        agreement = f"{packets / expected:>8.2f}" if packets and expected else f"{'-':>8}"
        mixing = f"{row['mixing']:>7.2f}" if row.get("mixing") is not None else f"{'-':>7}"
        over = row["needed"]
        over = f"{row['frames_decoded_per_clip'] / over:>8.2f}" if packets and over else f"{'-':>8}"
        print(
            f"  {row['name']:<24}{row['ratio']:>6g}{row['videos']:>8} {row['side']:<11}"
            f"{decoded}{over}{agreement}{mixing}"
            f"{row['cpu_ms_per_clip']:>9.1f}{row['cpu_over_grouped']:>8.2f}{row['clips_per_second']:>9.1f}"
            f"{row['peak_memory_bytes'] / MIB:>8.0f}{row['next_ms_p50']:>8.1f}{row['next_ms_p95']:>8.1f}"
            f"{row['next_ms_p99']:>8.1f}{row['wrong']:>6.0f}{row['disk_bytes_per_video'] / MIB:>9.2f}"
            f"{row['extraction_cpu_s_per_video']:>9.2f}"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated (default: all)")
    parser.add_argument("--ratios", default="0.1,1,10,100", help="epoch's clips / clips in the cache (default: all)")
    parser.add_argument("--sides", default=",".join(SIDES), help="libraries and shuffles (default: all)")
    parser.add_argument("--peers-at", type=float, default=10, help="the ratio at which peers are measured (default 10)")
    parser.add_argument("--threads", type=int, default=2, help="threads, and workers of the DataLoader (default 2)")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, default=default_work_folder() / "dataset_size", help="folder of the encodes"
    )
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    arguments.rows, arguments.sides = arguments.rows.split(","), arguments.sides.split(",")
    if unknown := (set(arguments.rows) - set(ROWS)) | (set(arguments.sides) - set(SIDES)):
        parser.error(f"unknown {', '.join(sorted(unknown))}; choose from {', '.join([*ROWS, *SIDES])}")
    arguments.ratios = [float(ratio) for ratio in arguments.ratios.split(",")]
    return arguments


def main() -> None:
    arguments = parse_arguments()
    arguments.sources = sorted((corpus() / "video" / "1080p").glob("*.m*"))
    if not arguments.sources:
        sys.exit(f"no videos in {corpus()}: set FRAMESPOOL_CORPUS")
    print(f"{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    print(f"clips of {CLIP_FRAMES} frames at {SIZE}x{SIZE}, cache of {CACHED_CLIPS} clips, batches of {BATCH}\n")
    print(
        f"  {'dataset':<24}{'ratio':>6}{'videos':>8} {'':<11}{'decoded':>9}{'/needed':>8}{'/model':>8}{'mixing':>7}"
        f"{'CPU ms':>9}{'ratio':>8}{'clips/s':>9}{'MiB':>8}{'p50 ms':>8}{'p95':>8}{'p99':>8}"
        f"{'wrong':>6}{'MiB/video':>10}{'prep s':>8}"
    )
    report: dict = {"cpu": cpu_model(), "python": platform.python_version(), "rows": []}
    references: dict = {}
    for name in arguments.rows:
        for ratio in arguments.ratios:
            peers = ratio == arguments.peers_at
            sides = [side for side in arguments.sides if peers or side in SIDES[:2]]
            try:
                rows = measure(ROWS[name], ratio, sides, arguments, references)
            except oneshot.WorkerError as error:
                print(f"  {name:<24}{ratio:>6g} FAILED: {error}")
                continue
            print_rows(rows)
            sys.stdout.flush()
            report["rows"] += [{**asdict(ROWS[name]), **row} for row in rows]
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
