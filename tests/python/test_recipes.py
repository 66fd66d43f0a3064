"""The recipes of examples/recipes: the same samples as the original loaders, and a table of speeds."""

from __future__ import annotations

import pytest
from recipe_programs import FILES, RECIPES, run, speeds


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


def test_mixed_samples(videos):
    for package in ("torch", "torchvision", "torchcodec", "qwen_vl_utils", "transformers"):
        pytest.importorskip(package)
    recipe, files = RECIPES / "mixed_samples", [videos / name for name in FILES[:4]]
    done = run(recipe / "compare.py", *files, FORCE_QWENVL_VIDEO_READER="torchcodec")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("12 samples: the same tokens, frames, sizes and seconds between frames\n")
    broken = videos / "corrupt/broken.mp4"
    assert run(recipe / "compare.py", files[0], broken, FORCE_QWENVL_VIDEO_READER="torchcodec").returncode != 0
    table = run(recipe / "bench.py", "--rounds", 1, "--workers", 1, *files[2:4], FORCE_QWENVL_VIDEO_READER="torchcodec")
    assert table.returncode == 0, table.stderr
    assert min(speeds(table.stdout, "qwen-vl-utils (torchcodec)", "framespool")) > 0


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
    assert done.stdout.startswith("4 videos with clips of both views that the original can choose\n")
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
