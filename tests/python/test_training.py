"""examples/train_*.py: models learn, and interrupted runs give the same bits; skipped without PyTorch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
#: A small set: 192 clips, 12 steps an epoch for one rank, 6 for each of two.
SMALL = ["--videos", "6", "--epochs", "2", "--device", "cpu"]
CLIPS = 8 * 6 * 4


def run(name, *words, ranks=1, timeout=240):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [sys.executable, *launcher, ROOT / "examples" / name, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def digest(printed):
    return re.search(r"^parameters (\w+)$", printed, re.MULTILINE)[1]


def accuracies(printed):
    return [float(word) for word in re.findall(r"accuracy ([\d.]+) %", printed)]


def trace(folder, ranks):
    """The training samples of each rank, step by step."""
    return [[json.loads(line) for line in (folder / f"{rank}.jsonl").read_text().splitlines()] for rank in range(ranks)]


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """The dataset of the small runs, generated once."""
    pytest.importorskip("imageio_ffmpeg")
    folder = tmp_path_factory.mktemp("small")
    run("train_video.py", *SMALL, "--data", folder, "--stop-after", 1)
    return folder


def test_model_learns_motion_from_clips(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    said = run("train_video.py", "--short", "--data", tmp_path)
    reached = accuracies(said)
    assert reached[0] < 60 and reached[-1] > 85, said  # from single frames: at most 50 %, with eight classes in pairs


def test_a_model_learns_from_images():
    said = run("train_images.py", "--short")
    assert accuracies(said)[-1] > 85, said


def test_an_interrupted_run_ends_in_the_same_bits(videos, tmp_path):
    same = [*SMALL, "--data", videos]
    whole = run("train_video.py", *same, "--trace", tmp_path / "whole")
    again = [*same, "--checkpoint", tmp_path / "run.pt", "--trace", tmp_path / "parts"]
    run("train_video.py", *again, "--stop-after", 7)
    assert "epoch 0, batch 7" in run("train_video.py", *again, "--resume", "--stop-after", 17)
    rest = run("train_video.py", *again, "--resume")
    assert "epoch 1, batch 5" in rest
    assert digest(rest) == digest(whole)
    assert trace(tmp_path / "parts", 1) == trace(tmp_path / "whole", 1)
    assert (
        rest.splitlines()[-2].split(" items/s")[0].rsplit(",", 1)[0]
        == (whole.splitlines()[-2].split(" items/s")[0].rsplit(",", 1)[0])
    ), "the epoch's loss and accuracy too"


def test_two_ranks_share_epochs_and_resume_bit_exactly(videos, tmp_path):
    same = [*SMALL, "--data", videos]
    whole = run("train_video.py", *same, "--trace", tmp_path / "whole", ranks=2)
    both = trace(tmp_path / "whole", 2)
    for epoch in (0, 1):
        own = [[step["ids"] for step in steps if step["epoch"] == epoch] for steps in both]
        assert [len(ids) for ids in own[0]] == [len(ids) for ids in own[1]], "as many batches of the same sizes"
        seen = Counter(clip for ids in (*own[0], *own[1]) for clip in ids)
        assert seen == Counter(range(CLIPS)), "every clip once"
    again = [*same, "--checkpoint", tmp_path / "run.pt", "--trace", tmp_path / "parts"]
    run("train_video.py", *again, "--stop-after", 8, ranks=2)
    rest = run("train_video.py", *again, "--resume", ranks=2)
    assert "epoch 1, batch 2" in rest
    assert digest(rest) == digest(whole)
    assert trace(tmp_path / "parts", 2) == both


def test_two_ranks_resume_as_one_mid_epoch(videos, tmp_path):
    again = [*SMALL, "--data", videos, "--checkpoint", tmp_path / "run.pt"]
    run("train_video.py", *again, "--trace", tmp_path / "two", "--stop-after", 4, ranks=2)
    run("train_video.py", *again, "--trace", tmp_path / "one", "--resume", "--batch-size", 32)
    steps = [*trace(tmp_path / "two", 2)[0], *trace(tmp_path / "two", 2)[1], *trace(tmp_path / "one", 1)[0]]
    for epoch in (0, 1):
        seen = Counter(clip for step in steps if step["epoch"] == epoch for clip in step["ids"])
        assert seen == Counter(range(CLIPS)), epoch
