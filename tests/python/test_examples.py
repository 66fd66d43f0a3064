"""The examples run as they are written, a few steps each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "examples" / "images"


@pytest.fixture(scope="module")
def photos(corpus, tmp_path_factory) -> Path:
    """Three classes of two photographs each, and masks of their sizes beside them."""
    root = tmp_path_factory.mktemp("data")
    for place, name in enumerate(("badger", "dog", "ship", "peacock")):
        for photo in sorted((corpus / "images" / "classes" / name).iterdir())[:2]:
            (root / "photos" / name).mkdir(parents=True, exist_ok=True)
            (root / "photos" / name / photo.name).symlink_to(photo)
            (root / "masks" / name).mkdir(parents=True, exist_ok=True)
            with Image.open(photo) as image:
                labels = np.full((image.height, image.width), place, dtype=np.uint8)
            Image.fromarray(labels).save(root / "masks" / name / f"{photo.stem}.png")
    return root


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(IMAGES / script), *map(str, arguments), "--batch-size", "2", "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_are_these():
    assert sorted(path.name for path in IMAGES.glob("*.py")) == [
        "classification.py",
        "loader.py",
        "resnet50.py",
        "segmentation.py",
    ]


@pytest.mark.parametrize("script", ["loader.py", "classification.py", "resnet50.py"])
def test_pipelines_of_images(photos, script):
    assert "2" in run(script, photos / "photos")


def test_images_and_masks(photos):
    assert run("segmentation.py", photos / "photos", photos / "masks")
