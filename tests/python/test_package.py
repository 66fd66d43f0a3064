"""The package: fast to import, typed and documented."""

from __future__ import annotations

import re
import subprocess
import sys

import framespool as fsp
import pytest


def test_import_is_light():
    program = """
import sys, framespool
mine = {name for name in sys.modules if name.startswith("framespool")}
assert mine == {"framespool", "framespool._framespool", "framespool.errors"}, mine
assert not {"dataclasses", "inspect"} & set(sys.modules)
assert set(framespool.__all__) <= set(dir(framespool))
framespool.ClipLoader, framespool.ImageLoader, framespool.Video, framespool.samplers, framespool.transforms
heavy = {"torch", "numpy", "jax", "importlib.metadata", "hashlib", "multiprocessing", "logging", "socket"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
print(framespool.__version__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fsp.__version__


def test_names_that_are_imported_on_first_access():
    from framespool import _MODULE_OF, _SUBMODULES

    # The names of the modules, and those that are imported at once, are all public names.
    errors = {name for name in fsp.__all__ if name.endswith(("Error", "Warning"))}
    now = {"Tensor", "__version__", "remote_stats", "errors", *errors}
    assert {*_MODULE_OF, *_SUBMODULES} - {"ray"} == set(fsp.__all__) - now
    with pytest.raises(AttributeError, match="module 'framespool' has no attribute 'Clip'"):
        _ = fsp.Clip


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
