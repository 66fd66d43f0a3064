"""The recipes of examples/recipes: the same samples as the original loaders, and a table of speeds."""

from __future__ import annotations

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


def test_kinetics_csv(videos):
    for package in ("torch", "torchvision", "torchcodec", "pandas"):
        pytest.importorskip(package)
    # The last video is shorter than a clip.
    recipe, files = RECIPES / "kinetics_csv", [videos / name for name in (*FILES[:4], "odd/shorter_audio.mp4")]
    done = run(recipe / "compare.py", *files)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "equal classes in both splits; ['arranging flowers'] are not in val"
    assert lines[1] == "20 training clips: frames and crops that the original can choose, labels equal"
    assert lines[2] == "3 videos of val, each once: the same frames, sizes and labels"
    assert run(recipe / "compare.py", files[0], "none.mp4").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, "--videos-per-batch", 1, *files[2:4])
    assert table.returncode == 0, table.stderr
    train, _, val = table.stdout.partition("val\n")
    assert min(speeds(train, "torchcodec", "framespool") + speeds(val, "torchcodec", "framespool")) > 0


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
    assert done.stdout.startswith("8 clips: frames that the original can choose, and two crops of each\n")
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
