"""The recipes of examples/recipes: the same samples as the original loaders, and a table of speeds."""

from __future__ import annotations



import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "recipes"
FILES = [
    "derived/base_640x360.mp4",
    "action/street_960x540.mp4",
    "action/street_426x240.mp4",
    "action/phone_176x144.mp4",
    "action/long_384x164_90s.mp4",
]


def run(program: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "FRAMESPOOL_INDEX": "off", **environment},
    )


@pytest.mark.parametrize("reader", ["torchcodec", "decord"])
def test_qwen_vl(videos, reader):
    for package in ("torch", "torchvision", "qwen_vl_utils", reader):
        pytest.importorskip(package)
    files = [videos / name for name in FILES]
    done = run(RECIPES / "qwen_vl" / "compare.py", *files, FORCE_QWENVL_VIDEO_READER=reader)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{len(files)} samples: the same frames, sizes and captions\n")
    # A video that does not exist is an error of the program, not a sample less.
    assert run(RECIPES / "qwen_vl" / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(
        RECIPES / "qwen_vl" / "bench.py", "--rounds", 1, "--workers", 1, *files[2:4], FORCE_QWENVL_VIDEO_READER=reader
    )
    assert table.returncode == 0, table.stderr
    rows = table.stdout.splitlines()[-2:]
    assert rows[0].startswith(f"qwen-vl-utils ({reader})") and rows[1].startswith("framespool")
    assert all(float(row.split()[-3]) > 0 for row in rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", ["qwen_vl", "torchvision_references", "embeddings"])
def test_on_camera_recordings(corpus, recipe):
    for package in ("torch", "torchvision", "torchcodec", "qwen_vl_utils", "av"):
        pytest.importorskip(package)
    names = ("arm_wrestling_k400_340x256", "pool_k400_340x256", "basketball_426x240", "bikes_640x272")
    files = [corpus / "video" / "action" / f"{name}.mp4" for name in names]
    done = run(RECIPES / recipe / "compare.py", *files, FORCE_QWENVL_VIDEO_READER="torchcodec")
    assert done.returncode == 0, done.stderr
    said = {
        "qwen_vl": f"{len(files)} samples: the same frames, sizes and captions\n",
        "torchvision_references": f" of {len(files)} videos: the same frames, sizes and labels\n",
        "embeddings": f" of {len(files)} videos: the same chunks and presentation times\n",
    }
    assert said[recipe] in done.stdout


def test_webdataset(videos):
    for package in ("torch", "torchvision", "torchcodec", "webdataset"):
        pytest.importorskip(package)
    # The last video is shorter than a clip.
    files = [videos / name for name in (*FILES, "derived/tiny_34x26_h264.mp4")]
    done = run(RECIPES / "webdataset" / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{2 * len(files)} samples in order: the same keys, frames, sizes, labels and captions"
    assert lines[1] == f"{2 * len(files)} random clips: each sample once, the same frames, sizes, labels and captions"
    # A video that cannot be decoded is an error of the program, not a sample less.
    assert run(RECIPES / "webdataset" / "compare.py", files[0], videos / "corrupt/broken.mp4").returncode != 0
    table = run(RECIPES / "webdataset" / "bench.py", "--rounds", 1, "--workers", 1, "--shards", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    rows = table.stdout.splitlines()[-2:]
    assert rows[0].startswith("webdataset (torchcodec)") and rows[1].startswith("framespool")
    assert all(float(row.split()[-3]) > 0 for row in rows)


@pytest.mark.timeout(1800)  # three processes import transformers
def test_videomae_training(videos, tmp_path):
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    path = tmp_path / "train.csv"
    path.write_text("".join(f"{videos / name} {label}\n" for label, name in enumerate(FILES[2:4])))

    def train(*words: object) -> list[str]:
        checkpoint = ("--checkpoint", tmp_path / "checkpoint.pt", "--batch-size", 1)
        done = run(RECIPES / "videomae" / "train.py", *checkpoint, *words, path)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    # The same clips, frames, crops, masks and losses, and all parameters at the end. Each epoch has two batches.
    whole = train()
    assert len(whole) == 5 and len({line.partition(":")[2] for line in whole[:-1]}) == 4
    stopped = train("--stop-after", 1)
    assert len(stopped) == 1 and stopped + train("--resume") == whole


def test_map_style(videos):
    for package in ("torch", "torchvision", "decord"):
        pytest.importorskip(package)
    recipe = RECIPES / "map_style"
    # The last video is shorter than a clip.
    files = [videos / name for name in (*FILES[2:4], "derived/tiny_34x26_h264.mp4")]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("9 draws of 3 videos: the same videos and labels in all loaders\ncompat.decord: the")
    assert "requested again" not in done.stderr
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--draws", 1, *files[:2])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "decord", "compat.decord", "VideoDataset")) > 0


def test_two_views(videos):
    for package in ("torch", "torchvision", "torchcodec"):
        pytest.importorskip(package)
    recipe = RECIPES / "two_views"
    files = [videos / name for name in (*FILES[2:4], "derived/tiny_34x26_h264.mp4")]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 videos with the same rows in both views: clips that the original can choose\n")
    assert run(recipe / "compare.py", files[0], videos / "corrupt/broken.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--batch-size", 1, *files[:2])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "torchcodec", "framespool")) > 0


def test_dense_labels(videos):
    for package in ("torch", "torchvision", "torchcodec"):
        pytest.importorskip(package)
    recipe, files = RECIPES / "dense_labels", [videos / FILES[number] for number in (0, 2, 3)]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    windows, *boxes = done.stdout.splitlines()[:-1]
    assert windows == "4 windows: the same frames, padding and labels"
    # The same clips, of which a random crop may show fewer people.
    assert [line.partition(":")[0].split(maxsplit=1)[1] for line in boxes[::2]] == [
        "boxes in three crops",
        "boxes in random crops",
    ]
    assert all(int(line.split()[0]) > 0 for line in boxes[::2])
    assert all(line.startswith("box of the square: within ") for line in boxes[1::2])
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, files[2])
    assert table.returncode == 0, table.stderr
    halves = table.stdout.partition("detection\n")
    for half in (halves[0], halves[2]):
        assert min(speeds(half, "torchcodec", "framespool")) > 0


def test_video_generation(videos, tmp_path):
    for package in ("torch", "torchvision", "torchcodec"):
        pytest.importorskip(package)
    # One that is too short, and clips of all three sizes.
    names = (FILES[0], FILES[2], "action/street_340x256.mp4", FILES[3], "odd/rotate_90_phone.mov")
    recipe, files = RECIPES / "video_generation", [videos / name for name in names]
    done = run(recipe / "compare.py", "--divisor", 4, *files)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "4 clips: the same frames, captions and sizes; 1 videos are too short"
    assert lines[1].startswith("4 random clips: each video once, ")
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--divisor", 4, files[3])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "torchcodec", "framespool")) > 0

    captions = [{"video": str(file), "caption": f"video {number}"} for number, file in enumerate(files)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, captions)))

    def train(cache: str, *words: object) -> list[str]:
        paths = ("--cache", tmp_path / cache, "--checkpoint", tmp_path / f"{cache}.pt")
        done = run(recipe / "train.py", tmp_path / "train.jsonl", "--divisor", 4, *paths, *words, OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    whole, stopped = train("whole"), train("parts", "--stop-after", 2)
    resumed = train("parts", "--resume")
    assert whole[0] == "3 steps per epoch; too short: ['base_640x360.mp4']"
    counts = [line for line in (*whole, *stopped, *resumed) if line.startswith("epoch")]
    first = int(counts[2].split()[2])
    assert counts == [
        "epoch 0: 4 clips decoded, 0 latents from the cache",
        "epoch 1: 0 clips decoded, 4 latents from the cache",
        f"epoch 0: {first} clips decoded, 0 latents from the cache",
        f"epoch 0: {4 - first} clips decoded, 0 latents from the cache",
        "epoch 1: 0 clips decoded, 4 latents from the cache",
    ]
    # The files of latents are named for video, frames and size.
    steps = [[line for line in lines if line.startswith("step")] for lines in (whole, stopped, resumed)]
    assert steps[0] == steps[1] + steps[2] and [len(each) for each in steps] == [6, 2, 4]
    assert whole[-1].startswith("parameters ") and whole[-1] == resumed[-1] != stopped[-1]


def need(*packages: str) -> None:
    """Skips the test without these packages; it does not import them, which takes long."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


#: Imports a framework, and what optimizers import, once; runs a program in a new process for each list of options.
PHASES = """
import importlib, json, os, runpy, sys, torch._dynamo
package, folder, program, phases = sys.argv[1:]
importlib.import_module(package)
sys.path.insert(0, folder)
for options in json.loads(phases):
    child = os.fork()
    if child == 0:
        sys.argv = [program, *options]
        runpy.run_path(f"{folder}/{program}", run_name="__main__")
        sys.exit()
    print(f"exit {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
"""


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("lightning_fit.py", "lightning.pytorch"),
        ("accelerate_fit.py", "accelerate"),
        ("transformers_fit.py", "transformers.trainer"),
    ],
)
def test_trainers_resume_in_another_process(videos, tmp_path, program, package):
    need("torch", package.partition(".")[0])
    for number in range(6):
        for split in ("train", "val")[: 2 if number < 3 else 1]:
            link = tmp_path / split / f"class_{number % 3}" / f"{number}.mp4"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((videos / "action" / "phone_176x144.mp4").resolve())
    # 3 steps per epoch; the runs stop in epoch 1 after the checkpoint of step 4, and at its end, which is step 6.
    workers = "0" if package == "transformers.trainer" else "1"  # of a DataLoader, or threads
    common = [str(tmp_path), "--workers", workers, "--save-every", "2", "--folder"]
    parts = [*common, str(tmp_path / "parts"), "--resume"]
    phases = [
        [*common, str(tmp_path / "whole")],
        [*parts[:-1], "--stop-after", "5"],
        [*parts, "--stop-after", "6"],
        parts,
    ]
    done = subprocess.run(
        [sys.executable, "-c", PHASES, package, RECIPES / "trainers", program, json.dumps(phases)],
        capture_output=True,
        text=True,
        env={**os.environ, "FRAMESPOOL_INDEX": "off", "OMP_NUM_THREADS": "1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("step", "parameters", "exit"))]
    ends = [number for number, line in enumerate(lines) if line.startswith("exit")]
    assert [lines[end] for end in ends] == ["exit 0", "exit 1", "exit 1", "exit 0"], done.stderr[-4000:]
    assert "stopped after step 5" in done.stderr and "stopped after step 6" in done.stderr
    whole, first, second, third = (lines[begin + 1 : end] for begin, end in zip([-1, *ends[:-1]], ends, strict=True))
    # The clips, their frames and the parameters; no clip has the same frames in two epochs.
    assert len(whole) == 10 and len({line.partition(":")[2] for line in whole}) == 10
    assert [first, second, third] == [whole[:5], whole[4:6], whole[6:]]


def test_trainers(videos):
    need("torch", "torchvision", "torchcodec", "lightning", "accelerate", "transformers")
    recipe = RECIPES / "trainers"
    # The last video is shorter than a clip.
    files = [videos / name for name in (*FILES[1:4], "derived/tiny_34x26_h264.mp4")]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "4 clips for validation: the same frames and labels, also in Lightning and Accelerate"
    assert lines[1] == "8 clips for training: frames that the original can choose, labels equal"
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--epochs", 1, *files[2:3])
    assert table.returncode == 0, table.stderr
    for framework in ("Lightning", "Accelerate", "Trainer"):
        rows = "\n".join(line for line in table.stdout.splitlines() if f" in {framework}" in line)
        assert min(speeds(rows, f"torchcodec in {framework}", f"framespool in {framework}")) > 0


def test_debugging_names_the_clip_of_a_nan(videos, encoder, tmp_path):
    pytest.importorskip("torch")
    # Black at its beginning, so that few clips of it are.
    dark, broken, failures = tmp_path / "dark.mp4", videos / "corrupt" / "broken.mp4", tmp_path / "failures.jsonl"
    source = "testsrc2=size=64x48:rate=25,drawbox=color=black:t=fill:enable='lt(n,16)'"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-frames:v", "40", "-c:v", "libx264"]
    subprocess.run([*command, "-pix_fmt", "yuv420p", str(dark)], check=True)
    files = [videos / "action" / "phone_176x144.mp4", broken, dark, videos / "action" / "street_426x240.mp4"]
    program = RECIPES / "debugging" / "find_bad_clip.py"
    done = run(program, "--failures", failures, *files)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    rows = [line for line in said if line.startswith("row")]
    assert len(rows) == 2 and all(f": {dark}, frames [" in row and row.endswith("], label 2") for row in rows)
    frames = json.loads(rows[0].partition("frames ")[2].partition(", label")[0])
    assert frames == list(range(frames[0], frames[0] + 8, 2)) and frames[-1] < 16
    assert sum("RandomResizedCrop" in line for line in said) == sum("ColorJitter" in line for line in said) == 2
    assert sum("mixed with row" in line for line in said) == 2
    assert "the batch again: the same bits" in said and "the clip alone: the same bits" in said
    assert "its pixels are from 0.0 to 0.0" in said
    assert [json.loads(line)["path"] for line in failures.read_text().splitlines()] == [str(broken)]
    assert said[-2].startswith(f"omitted: {broken}: ")


@pytest.mark.parametrize("reader", ["torchcodec", "av"])
def test_embeddings(videos, reader):
    for package in ("torch", "torchvision", "torchcodec", "av"):
        pytest.importorskip(package)
    # With a constant and a variable rate, with edit lists, and of fragments.
    names = ("vfr_60_15_30_640x360.mp4", "delayed_start_640x360.mp4", "fragmented_1080p.mp4")
    files = [*(videos / name for name in FILES), *(videos / "derived" / name for name in names)]
    done = run(RECIPES / "embeddings" / "compare.py", "--reader", reader, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"129 frames of {len(files)} videos: the same chunks and presentation times\n")
    # A video that cannot be decoded is an error of the program, not a video less.
    broken = videos / "corrupt/broken.mp4"
    assert run(RECIPES / "embeddings" / "compare.py", "--reader", reader, files[0], broken).returncode != 0
    table = run(RECIPES / "embeddings" / "bench.py", "--rounds", 1, "--workers", 1, *files[2:5])
    assert table.returncode == 0, table.stderr
    rows = table.stdout.splitlines()[-3:]
    assert [row.split()[0] for row in rows] == ["torchcodec", "av", "framespool"]
    assert all(float(row.split()[-3]) > 0 for row in rows)


def speeds(table: str, *loaders: str) -> list[float]:
    """The samples per second of the last rows of a table, which must be those of the given loaders."""
    rows = table.splitlines()[-len(loaders) :]
    assert all(row.startswith(loader) for row, loader in zip(rows, loaders, strict=True)), table
    return [float(row.split()[-3]) for row in rows]


def test_torchvision_references(videos):
    for package in ("torch", "torchvision", "torchcodec"):
        pytest.importorskip(package)
    recipe = RECIPES / "torchvision_references"
    files = [videos / name for name in FILES]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{5 * len(files)} clips of {len(files)} videos: the same frames, sizes and labels\n")
    assert run(recipe / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    halves = table.stdout.partition("val\n")
    for half in (halves[0], halves[2]):
        assert min(speeds(half, "torchvision", "torchcodec", "framespool")) > 0


def test_videomae(videos):
    for package in ("torch", "decord"):
        pytest.importorskip(package)
    recipe = RECIPES / "videomae"
    files = [videos / name for name in FILES]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    # Two epochs of two batches of two clips: the fifth video of an epoch fills no batch.
    assert done.stdout.startswith("8 clips: frames and crops that the original can choose, two masks of each\n")
    assert run(recipe / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--batch-size", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "decord", "framespool")) > 0


def test_vjepa2(videos):
    for package in ("torch", "decord"):
        pytest.importorskip(package)
    recipe = RECIPES / "vjepa2"
    # In the first three videos a part is shorter than a clip.
    files = [videos / name for name in FILES]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    # Two epochs of two batches of two videos: the fifth video of an epoch fills no batch.
    assert done.stdout.startswith("16 clips in rows of 2: frames that the original can choose, labels equal\n")
    assert run(recipe / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--batch-size", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "decord", "framespool")) > 0


def test_llava_video(videos):
    for package in ("torch", "decord"):
        pytest.importorskip(package)
    recipe = RECIPES / "llava_video"
    # The last video has more frames than the limit at one per second.
    files = [videos / name for name in FILES]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{len(files)} samples: the same frames, prompts and sizes\n")
    assert run(recipe / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "decord", "framespool")) > 0


def test_lerobot(videos, tmp_path):
    for package in ("torch", "torchcodec", "lerobot"):
        pytest.importorskip(package)
    recipe, files = RECIPES / "lerobot", [videos / name for name in FILES[:3]]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "SVT_LOG": "1"}
    done = run(recipe / "compare.py", *files, **offline)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "90 frames of 5 episodes: the same states, actions, padding and tasks"
    assert lines[1] == "90 frames in random order: each once, the same"
    table = run(recipe / "bench.py", "--rounds", 1, "--episodes", 6, "--length", 8, *files, **offline)
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout.rpartition("framespool decoded")[0], "lerobot (torchcodec)", "framespool")) > 0
    assert table.stdout.splitlines()[-1].startswith("framespool decoded 1.00 pictures per frame")
