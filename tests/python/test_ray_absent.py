"""framespool.ray without Ray: it can be imported, and functions that need Ray report that."""

from __future__ import annotations

import subprocess
import sys

import framespool as fsp
import pytest

SAMPLING = fsp.samplers.RandomClips(sequence_length=2)


def test_ray_is_imported_on_first_use():
    program = (
        "import sys, framespool as fsp; "
        "assert 'framespool.ray' not in sys.modules; "
        "print(fsp.ray.ClipLoader.__name__, fsp.ray.ImageLoader.__name__); "
        "assert 'ray' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ClipLoader", "ImageLoader"]
    with pytest.raises(AttributeError, match="no attribute 'rey'"):
        fsp.rey  # noqa: B018


def test_without_ray_the_error_says_what_to_install(short_clips, photos, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    for make in (
        lambda: fsp.ray.ClipLoader(short_clips, SAMPLING, batch_size=2),
        lambda: fsp.ray.ImageLoader(photos, batch_size=2),
        lambda: fsp.ray.read_clips(short_clips, SAMPLING),
        lambda: fsp.ray.ClipSource(short_clips, SAMPLING),
    ):
        with pytest.raises(fsp.errors.UnsupportedError, match=r"pip install \"ray"):
            make()


def test_without_ray_there_is_still_the_local_mode(short_clips, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    keywords = {"batch_size": 4, "shuffle": "full", "seed": 3, "transforms": [fsp.transforms.Resize((16, 16))]}
    expected = [batch.frames.tobytes() for batch in fsp.ClipLoader(short_clips, SAMPLING, **keywords)]
    with fsp.ray.ClipLoader(short_clips, SAMPLING, distribute_mode=False, num_workers=7, **keywords) as loader:
        assert [batch.frames.tobytes() for batch in loader] == expected
        assert isinstance(next(iter(loader)).frames, fsp.video.Tensor)
