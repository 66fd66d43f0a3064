"""The package: fast to import, typed and documented."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import framespool as fsp
import pytest


def test_import_is_light():
    program = (
        "import sys, framespool; "
        "heavy = {'torch', 'numpy', 'jax', 'importlib.metadata', 'hashlib', 'multiprocessing', 'logging', 'socket'}; "
        "heavy &= set(sys.modules); "
        "assert not heavy, heavy; print(framespool.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fsp.__version__


def test_the_wheel_brings_its_own_ffmpeg():
    from framespool import _framespool

    needed = subprocess.run(["ldd", _framespool.__file__], capture_output=True, text=True, check=True).stdout
    assert "libav" not in needed and "dav1d" not in needed
    assert re.match(r"\d+\.\d+", _framespool.ffmpeg_version)


def test_public_names_are_documented():
    for name in fsp.__all__:
        if name.startswith("__"):
            continue
        assert getattr(fsp, name).__doc__, name


def test_names_that_are_elsewhere_say_where():
    assert len(fsp.__all__) <= 25
    for name, place in [
        ("DecodeError", "errors"),
        ("BatchSampler", "order"),
        ("VideoInfo", "video"),
        ("validate", "tools"),
    ]:
        with pytest.raises(AttributeError, match=rf"it is framespool\.{place}\.{name}"):
            getattr(fsp, name)
        assert getattr(getattr(fsp, place), name)
    for module in (fsp, fsp.tools):
        with pytest.raises(AttributeError, match=r"'analyze_access'; use framespool\.tools\.probe\(dataset\)$"):
            module.analyze_access  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        fsp.nothing  # noqa: B018


def test_columns_of_videos_are_made_from_columns_or_from_an_iterable():
    """Hugging Face's Trainer copies a tuple of a batch with its class and a generator."""
    columns = fsp.video.VideoColumns(1, 2, 3, 4, 5)
    copied = type(columns)(value for value in columns)
    assert copied == columns == pickle.loads(pickle.dumps(columns)) and copied.sizes == 4
    for wrong in ((1, 2), ((1, 2),)):
        with pytest.raises(TypeError, match="5"):
            fsp.video.VideoColumns(*wrong)


def test_a_video_answers_the_names_of_other_libraries(videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    for name, hint in [("get_batch", "frames(indices)"), ("get_frames_played_at", "frames_at(seconds)")]:
        with pytest.raises(AttributeError, match=f"{name}.*use {re.escape(hint)}"):
            getattr(video, name)
    assert not hasattr(video, "nothing")
