"""The programs of examples/images run as documented and print their batches."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "images"


@pytest.fixture(scope="module")
def photos(pictures: Path) -> Path:
    return pictures / "classes"


def run(name: str, *words: object) -> list[str]:
    done = subprocess.run([sys.executable, EXAMPLES / name, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_loader_gives_labeled_squares_and_epochs(photos):
    first, *batches = run("loader.py", photos, "--batch-size", 4, "--steps", 2)
    files, classes = len(list(photos.glob("*/*.jpg"))), len(list(photos.iterdir()))
    assert first == f"{files} images of {classes} classes, {-(-files // 4)} batches for rank 0 of 1"
    assert len(batches) == 2
    assert all("(4, 3, 640, 640) uint8 on cpu" in line for line in batches)


def test_classification_epochs_end_with_short_batch(photos):
    files = len(list(photos.glob("*/*.jpg")))
    lines = run("classification.py", photos, "--batch-size", 16, "--epochs", 2)
    assert [line.split(":")[0] for line in lines] == [
        "epoch 0, train",
        "epoch 0, test",
        "epoch 1, train",
        "epoch 1, test",
    ]
    whole = f"{files} images in {-(-files // 16)} batches, the last of {files % 16}"
    assert all(line.endswith(whole) for line in lines), lines


def test_resnet50_gives_normalized_nchw_crops(photos):
    (line,) = run("resnet50.py", photos, "--batch-size", 4, "--steps", 2, "--dtype", "float16")
    assert line.startswith("8 images as (4, 3, 224, 224) float16, ")


def test_segmentation_keeps_labels_whole(photos, tmp_path):
    for path in photos.glob("*/*.jpg"):
        with Image.open(path) as image:
            mask = np.zeros((image.height, image.width), np.uint8)
        mask[:, mask.shape[1] // 2 :] = 7
        to = tmp_path / path.relative_to(photos).with_suffix(".png")
        to.parent.mkdir(exist_ok=True)
        Image.fromarray(mask).save(to, compress_level=1)
    lines = run("segmentation.py", photos, tmp_path, "--batch-size", 4, "--steps", 2)
    assert len(lines) == 2
    for line in lines:
        shares = ast.literal_eval(line.split("labels ")[1])
        assert "images (4, 3, 512, 512), masks (4, 512, 512) uint8" in line
        assert {0, 7} <= set(shares) <= {0, 7, 255}, "no label between two others"
