"""The recipes of examples/recipes that train: a stopped training resumes in another process with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from recipe_programs import FILES, RECIPES, need, run, speeds


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
    counts = [line.replace(";", "").split() for line in (*whole, *stopped, *resumed) if line.startswith("epoch")]
    # Epoch, frames decoded, latents computed and found so far.
    found = [(int(words[1][0]), int(words[2]) > 0, int(words[7]), int(words[10])) for words in counts]
    first = found[2][2]
    assert found == [
        (0, True, 4, 0),
        (1, False, 4, 4),
        (0, True, first, 0),
        (0, True, 4 - first, 0),
        (1, False, 4 - first, 4),
    ]
    # Steps name their clips by content keys.
    steps = [[line for line in lines if line.startswith("step")] for lines in (whole, stopped, resumed)]
    assert steps[0] == steps[1] + steps[2] and [len(each) for each in steps] == [6, 2, 4]
    assert whole[-1].startswith("parameters ") and whole[-1] == resumed[-1] != stopped[-1]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("ranks", "stop_after"), [(1, 6), (2, 3)])
def test_kinetics_csv_resumes(videos, tmp_path, ranks, stop_after):
    pytest.importorskip("torch")
    names = ("action/phone_176x144", "action/street_340x256", "action/street_426x240", "derived/tiny_34x26_h264") * 2
    rows = [f'{videos / name}.mp4,"number {n % 3}, of three",train' for n, name in enumerate(names)]
    rows += [f'{videos / name}.mp4,"number {n % 2 + 1}, of three",val' for n, name in enumerate(names[:5])]
    table = tmp_path / "videos.csv"
    table.write_text("\n".join(["path,label name,split", *rows]))

    def train(name, *words):
        """Runs the program, and returns what each rank prints: lines of batches and epochs, and a digest."""
        logs = tmp_path / name
        launcher = ["-m", "torch.distributed.run", "--standalone", "--redirects=1", f"--log-dir={logs}"]
        program = [RECIPES / "kinetics_csv" / "train.py", table, "--checkpoint", tmp_path / "run.pt", *words]
        if ranks > 1:
            program = [*launcher, f"--nproc-per-node={ranks}", *program]
        done = run(*program, OMP_NUM_THREADS="1")
        assert done.returncode == 0, done.stderr[-4000:]
        if ranks == 1:
            return [done.stdout.splitlines()]
        return [next(logs.glob(f"*/attempt_0/{rank}/stdout.log")).read_text().splitlines() for rank in range(ranks)]

    whole = train("whole")
    stopped = train("stopped", "--stop-after", stop_after)
    resumed = train("resumed", "--resume")
    # Clips, frames and losses of each batch, the accuracy, and the parameters.
    assert [before + after for before, after in zip(stopped, resumed, strict=True)] == whole
    batches = 8 // ranks
    assert stopped[0][-1].startswith(f"epoch 1 batch {batches // 2}: "), "stopped in the middle of an epoch"
    for rank in whole:
        assert len(rank) == 2 * (batches + 1) + 1
        # The last batch has videos that only fill it.
        assert rank[batches].startswith("epoch 0: ") and rank[batches].endswith(" of 5 videos right")
    assert len({rank[-1] for rank in whole}) == 1, "ranks have equal parameters"
    for epoch in range(2):
        lines = [line for rank in whole for line in rank if line.startswith(f"epoch {epoch} batch ")]
        clips = [json.loads(line.split("clips ")[1].split(" from")[0]) for line in lines]
        assert sorted(clip for batch in clips for clip in batch) == list(range(16)), "each clip once"


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
