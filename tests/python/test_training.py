"""examples/train_*.py: models learn, and killed runs end in the same bits; skipped without PyTorch or the framework."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(1800)  # some processes, one after another

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Runs a program until a step of its optimizer, which kills the process.
KILLED = """
import itertools, os, runpy, signal, sys
from torch.optim.optimizer import register_optimizer_step_pre_hook

at, *sys.argv = sys.argv[1:]
steps = itertools.count(1)


def kill(*_):
    if next(steps) == int(at):
        os.kill(os.getpid(), signal.SIGKILL)


register_optimizer_step_pre_hook(kill)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: Of the small runs: 192 clips, so 12 batches of an epoch for one rank, and 6 for each of two.
CLIPS = 8 * 6 * 4


def start(*words, ranks=1):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [sys.executable, *launcher, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def run(name, *words, ranks=1):
    done = start(EXAMPLES / name, *words, ranks=ranks)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def kill(at, tmp_path, name, *words, ranks=1):
    """Kills a run, on all of its ranks, in that step of its optimizer."""
    wrapper = tmp_path / "killed.py"
    wrapper.write_text(KILLED)
    done = start(wrapper, at, EXAMPLES / name, *words, ranks=ranks)
    assert done.returncode == (-9 if ranks == 1 else 1), done.stderr[-4000:]
    return done.stdout


def lines(printed, begin):
    return [line for line in printed.splitlines() if line.startswith(begin)]


def accuracies(printed):
    return [float(word) for word in re.findall(r"accuracy ([\d.]+) %", printed)]


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """The videos of the small runs: six of each class for training, and four for validation."""
    pytest.importorskip("imageio_ffmpeg")
    folder = tmp_path_factory.mktemp("motion")
    run("motion_videos.py", folder, "--per-class", 6)
    return ["--videos", folder / "train", "--validation", folder / "val", "--device", "cpu"]


def test_model_learns_motion_from_clips(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    run("motion_videos.py", tmp_path, "--per-class", 20)
    folders = ["--videos", tmp_path / "train", "--validation", tmp_path / "val"]
    said = run("train_video.py", *folders, "--device", "cpu", "--epochs", 9)
    reached = accuracies(said)
    assert reached[0] < 60 and reached[-1] > 85, said  # from single frames: at most 50 %, with eight classes in pairs


def test_a_model_learns_from_images():
    said = run("train_images.py", "--device", "cpu")
    assert accuracies(said)[-1] > 85, said


@pytest.mark.parametrize(
    ("ranks", "accumulate", "kill_at", "resumed"),
    [
        (1, 1, 18, "resumed at step 16: epoch 1, batch 4"),
        (1, 5, 6, "resumed at step 4: epoch 1, batch 5"),  # steps of 5, 5 and 2 batches
        (2, 2, 6, "resumed at step 4: epoch 1, batch 2"),
    ],
)
def test_a_killed_run_ends_in_the_same_bits(videos, tmp_path, ranks, accumulate, kill_at, resumed):
    same = [*videos, "--epochs", 2, "--log-every", 1, "--accumulate", accumulate]
    same += ["--save-every", 4, "--disk-cache", tmp_path / "clips", "--disk-size", "1GiB"]
    whole = run("train_video.py", *same, ranks=ranks)
    again = [*same, "--checkpoint", tmp_path / "run" / "last.pt", "--resume"]
    kill(kill_at, tmp_path, "train_video.py", *again, ranks=ranks)
    rest = run("train_video.py", *again, ranks=ranks)
    assert resumed in rest
    assert len(lines(whole, "parameters")) == 1
    assert lines(rest, "parameters") == lines(whole, "parameters")
    steps = lines(rest, "step")
    assert steps == lines(whole, "step")[-len(steps) :]
    assert lines(rest, "epoch 1: loss") == lines(whole, "epoch 1: loss")


def test_two_ranks_resume_as_one_in_the_middle_of_an_epoch(videos, tmp_path):
    again = [*videos, "--epochs", 2, "--log-every", 1, "--checkpoint", tmp_path / "last.pt", "--save-every", 4]
    kill(6, tmp_path, "train_video.py", *again, ranks=2)
    rest = run("train_video.py", *again, "--resume", "--batch-size", 32)
    assert "resumed at step 4: epoch 0, batch 4" in rest
    assert len(lines(rest, "step")) == 2 * 6 - 4
    # Then with as many ranks as before: the checkpoint is complete.
    assert lines(run("train_video.py", *again, "--resume", ranks=2), "parameters") == lines(rest, "parameters")


def test_validation_counts_each_clip_once_on_any_number_of_ranks(videos, tmp_path):
    again = [*videos, "--epochs", 1, "--dtype", "float32", "--checkpoint", tmp_path / "last.pt"]
    run("train_video.py", *again)
    pattern = r"loss ([\d.]+), accuracy ([\d.]+) % of (\d+) samples"
    # Of 64 clips, three ranks have 22 each.
    found = [re.search(pattern, run("train_video.py", *again, "--evaluate", ranks=ranks)) for ranks in (1, 3)]
    alone, shared = ([float(word) for word in each.groups()] for each in found)
    assert alone[2] == shared[2] == 8 * 4 * 2
    assert alone[1] == shared[1]
    assert alone[0] == pytest.approx(shared[0], abs=2e-4)


def test_every_fifth_video_is_held_out_without_validation_folder(videos):
    said = run("train_video.py", *videos[:2], "--device", "cpu", "--epochs", 1)
    assert f"{38 * 4} clips per epoch" in said and f"of {10 * 2} samples" in said


@pytest.mark.parametrize(
    ("name", "package"), [("lightning", "lightning"), ("accelerate", "accelerate"), ("trainer", "transformers")]
)
def test_a_killed_run_of_a_framework_ends_in_the_same_bits(videos, tmp_path, name, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    same = [*videos, "--epochs", 2, "--save-every", 4, "--accumulate", 2]  # 6 steps of an epoch
    whole = run(f"train_{name}.py", *same, "--folder", tmp_path / "whole")
    again = [*same, "--folder", tmp_path / "parts", "--resume"]
    kill(10, tmp_path, f"train_{name}.py", *again)
    rest = run(f"train_{name}.py", *again)
    assert len(lines(whole, "parameters")) == 1
    for begin in ("accuracy", "parameters"):
        assert lines(rest, begin)[-1:] == lines(whole, begin)[-1:]
    assert lines(rest, "accuracy") != [] and (name == "lightning" or " of 64 clips" in lines(rest, "accuracy")[-1])
