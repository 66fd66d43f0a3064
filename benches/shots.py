"""Compares `tools.split_shots()` with the ContentDetector of PySceneDetect: cuts, CPU time and wall time.

    python3 -m venv scenes && scenes/bin/pip install scenedetect opencv-python-headless
    python benches/shots.py --peer scenes/bin/python --videos shots --corpus CORPUS --json out.json

Both sides have their defaults: PySceneDetect scales frames to 256 pixels and compares all of them. Each file is read
by each side in turn, in a process of its own; times are without imports. A cut is correct if the peer has one within a
frame of it, and the other way round. They are compared by time, as the peer numbers frames by their times.

The files are concatenations of parts of the corpus, encoded in several ways, and the files of the corpus in which the
peer finds cuts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

X264 = ["-c:v", "libx264", "-preset", "medium", "-crf", "23"]
#: Width, height, frame rate, number of parts, and encoder of each concatenation.
KINDS: dict[str, tuple[int, int, int, int, list[str]]] = {
    "x264_360p_a.mp4": (640, 360, 25, 6, X264),
    "x264_360p_b.mp4": (640, 360, 30, 6, X264),
    "x264_720p_a.mp4": (1280, 720, 25, 6, X264),
    "x264_720p_b.mp4": (1280, 720, 30, 5, X264),
    "x264_fixed_gop60.mp4": (640, 360, 30, 6, [*X264, "-g", "60", "-sc_threshold", "0"]),
    "x264_fixed_gop250.mp4": (640, 360, 25, 6, [*X264, "-g", "250", "-sc_threshold", "0"]),
    "x264_baseline.mp4": (640, 360, 25, 6, [*X264, "-profile:v", "baseline"]),
    "x264_open_gop.mp4": (854, 480, 25, 6, [*X264, "-x264-params", "open-gop=1:keyint=48"]),
    "hevc_480p.mp4": (854, 480, 25, 5, ["-c:v", "libx265", "-preset", "fast", "-x265-params", "log-level=error"]),
    "vp9_360p.webm": (
        640,
        360,
        25,
        6,
        ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "6", "-b:v", "600k"],
    ),
    "mpeg4_360p.mp4": (640, 360, 25, 6, ["-c:v", "mpeg4", "-q:v", "5"]),
    "x264_1080p.mp4": (1920, 1080, 25, 4, ["-c:v", "libx264", "-preset", "veryfast", "-crf", "24"]),
}
PARTS = [
    "1080p/desk_drawing_25p.mp4",
    "1080p/drone_city_24p.mp4",
    "1080p/jellyfish_30p.mkv",
    "1080p/park_street_30p.mp4",
    "1080p/robot_bag_60p.mp4",
    "action/arm_wrestling_k400_340x256.mp4",
    "action/basketball_426x240.mp4",
    "action/bikes_640x272.mp4",
    "action/cars_overhead_768x432.mp4",
    "action/dog_fetch_720p.mp4",
    "action/juggle_ball_720p.mp4",
    "action/pancake_426x240.mkv",
    "action/people_table_768x432_90s.mp4",
    "action/pool_k400_340x256.mp4",
    "action/robot_sink_960x540.mp4",
    "action/shuttle_vp8_1080x608.webm",
    "action/toys_windowsill_vp8_426x240.webm",
    "action/tractor_vp9_512x288.webm",
    "action/archery_ucf_320x240.avi",
    "codecs/vp9_tos_1920x800.webm",
    "odd/h264_444_cockatoo_720p.mp4",
]
#: Files of the corpus in which PySceneDetect finds cuts.
WITH_CUTS = [
    "action/arm_wrestling_k400_340x256.mp4",
    "action/bikes_640x272.mp4",
    "action/toys_windowsill_vp8_426x240.webm",
    "codecs/h263_phone_176x144.3gp",
    "codecs/theora_400x300.ogv",
    "codecs/vp9_profile2_10bit.webm",
    "codecs/vp9_tos_1920x800.webm",
    "odd/data_streams.mp4",
    "odd/h264_444_cockatoo_720p.mp4",
]


def make_videos(folder: Path, corpus: Path) -> list[Path]:
    """Encodes the concatenations that the folder lacks."""
    from framespool.tools._transcode import _ffmpeg

    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    paths = []
    for name, (width, height, fps, parts, encoder) in KINDS.items():
        command, graph = [_ffmpeg.find(), "-y", "-v", "error"], ""
        for number, part in enumerate(rng.sample(PARTS, parts)):
            seconds, start = rng.uniform(1.2, 4.5), rng.uniform(0, 0.4)
            command += ["-ss", f"{start:.2f}", "-t", f"{seconds:.2f}", "-i", str(corpus / "video" / part)]
            graph += f"[{number}:v:0]fps={fps},scale={width}:{height},setsar=1,format=yuv420p[v{number}];"
        graph += "".join(f"[v{number}]" for number in range(parts)) + f"concat=n={parts}:v=1[out]"
        paths.append(folder / name)
        if not paths[-1].exists():
            half = folder / f"half-{name}"
            subprocess.run([*command, "-filter_complex", graph, "-map", "[out]", *encoder, str(half)], check=True)
            half.rename(paths[-1])
    return paths


def find_cuts(side: str) -> Callable[[str], list[float]]:
    """A function that returns the seconds at which the shots but the first begin."""
    if side == "framespool":
        import framespool as fsp

        def find(path: str) -> list[float]:
            report = fsp.tools.split_shots([path], on_error="raise", index=False)
            return report.dataset.columns["shot_start"][1:]

        fsp.tools.split_shots  # noqa: B018 (imports the module)
        return find
    import scenedetect  # type: ignore[import-not-found]

    def find_peer(path: str) -> list[float]:
        video, manager = scenedetect.open_video(path), scenedetect.SceneManager()
        manager.add_detector(scenedetect.ContentDetector())
        manager.detect_scenes(video)
        return [scene[0].seconds for scene in manager.get_scene_list()][1:]

    return find_peer


def measure(side: str, path: str) -> dict[str, Any]:
    """Cuts, CPU and wall seconds."""
    find = find_cuts(side)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    cuts = find(path)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return {"cuts": cuts, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall}


def ask(python: str, side: str, path: Path) -> dict[str, Any]:
    done = subprocess.run([python, __file__, "--side", side, str(path)], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def is_same(mine: list[float], theirs: list[float], frame: float) -> bool:
    """Whether the cuts are equal within a frame. Times are rounded to milliseconds."""
    near = (abs(a - b) <= frame + 0.002 for a, b in zip(mine, theirs, strict=False))
    return len(mine) == len(theirs) and all(near)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="Python of an environment with scenedetect and opencv-python-headless")
    parser.add_argument("--videos", type=Path, help="folder of the concatenations, which are made if missing")
    parser.add_argument("--corpus", type=Path, default=os.environ.get("FRAMESPOOL_CORPUS"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(*options.side)))
        return
    import framespool as fsp

    corpus = Path(options.corpus)
    paths = [corpus / "video" / name for name in WITH_CUTS] + make_videos(options.videos, corpus)
    rows = []
    print(f"{'file':36} {'cuts':>9} {'same':>5} {'CPU ms':>15} {'ratio':>6} {'wall ratio':>11}")
    for path in paths:
        sides: dict[str, list[dict[str, Any]]] = {"framespool": [], "scenedetect": []}
        for number in range(options.rounds):
            for side in sorted(sides, reverse=number % 2 == 1):
                sides[side].append(ask(sys.executable if side == "framespool" else options.peer, side, path))
        mine, theirs = sides["framespool"], sides["scenedetect"]
        row: dict[str, Any] = {"file": path.name, "cuts": mine[0]["cuts"], "peer_cuts": theirs[0]["cuts"]}
        row["same"] = is_same(row["cuts"], row["peer_cuts"], 1 / fsp.Video(path, index=False).info.average_fps)
        for what in ("cpu", "wall"):
            row[what] = statistics.median(run[what] for run in mine)
            row[f"peer_{what}"] = statistics.median(run[what] for run in theirs)
            row[f"{what}_ratio"] = statistics.median(b[what] / a[what] for a, b in zip(mine, theirs, strict=True))
        rows.append(row)
        print(
            f"{path.name:36} {len(row['cuts']):4}/{len(row['peer_cuts']):4} {'yes' if row['same'] else 'NO':>5} "
            f"{1e3 * row['cpu']:7.0f}/{1e3 * row['peer_cpu']:7.0f} {row['cpu_ratio']:6.2f} {row['wall_ratio']:11.2f}",
            flush=True,
        )
    cpu, wall = (statistics.median(row[name] for row in rows) for name in ("cpu_ratio", "wall_ratio"))
    print(f"same cuts: {sum(row['same'] for row in rows)} of {len(rows)}; median ratio: CPU {cpu:.2f}, wall {wall:.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
