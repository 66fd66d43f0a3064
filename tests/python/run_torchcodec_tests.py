"""Runs torchcodec's own tests against framespool.compat.torchcodec.

    python tests/python/run_torchcodec_tests.py CHECKOUT [--exact] [--torchcodec] [PYTEST_OPTION...]

CHECKOUT is a checkout of https://github.com/meta-pytorch/torchcodec; the tests need its test/resources, ffprobe, torch,
torchvision and Pillow. A test that uses a name that the facade lacks (encoders, WavDecoder, private operators) is
skipped, with that name as the reason. CUDA tests are deselected.

--exact: frames must equal those of FFmpeg's swscale. By default the tests have tolerances that they have themselves:
    3 levels of 255, as on processors other than x86, and in the tests of output_dtype 3 levels for 90 % of the values,
    as for NVDEC.
--torchcodec: runs the installed torchcodec, for comparison.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import platform
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FACADE = "framespool.compat.torchcodec"
#: Values and names that the tests read from torchcodec's private modules.
PROVIDED = {
    "torchcodec.ffmpeg_major_version": 8,
    "torchcodec._core.get_ffmpeg_library_versions": lambda: {"ffmpeg_version": "8.0"},
}
PRIVATE = {
    "torchcodec._frame": FACADE,
    "torchcodec._core": f"{FACADE}.decoders",
    "torchcodec._core._metadata": f"{FACADE}.decoders",
}
FILES = ("decoders", "samplers", "transform_ops", "metadata", "frame_dataclasses")


class Absent(type):
    """A name that the facade lacks: any use of it in a test skips the test."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        pytest.skip(f"not in the facade: {cls.__name__}")

    __getitem__ = __instancecheck__ = __call__


def absent(module: str, name: str) -> Absent:
    """Returns the placeholder for a name that a module lacks."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type.__call__(Absent, f"{module}.{name}", (), {})


class StandIn(ModuleType):
    """A module of torchcodec with the facade's names."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if full in PROVIDED:
            return PROVIDED[full]
        facade = PRIVATE.get(self.__name__, self.__name__.replace("torchcodec", FACADE, 1))
        try:
            return getattr(importlib.import_module(facade), name)
        except (ImportError, AttributeError):
            return importlib.import_module(full) if full in PRIVATE else absent(self.__name__, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports every module of torchcodec as a :class:`StandIn`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "torchcodec":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselects the tests of CUDA."""
    cuda = [item for item in items if item.get_closest_marker("needs_cuda")]
    config.hook.pytest_deselected(items=cuda)
    items[:] = [item for item in items if item not in cuda]


@pytest.fixture(autouse=True)
def nvdec_tolerance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares the frames of the tests of output_dtype as the same tests do for NVDEC."""
    if "--exact" in sys.argv or not request.node.name.startswith("test_output_dtype_"):
        return
    import torch

    def assert_close(actual: Any, expected: Any, **_: Any) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        levels = 3 if actual.dtype == torch.uint8 else 3 * 257
        assert ((actual.double() - expected.double()).abs() <= levels).double().mean() >= 0.9

    monkeypatch.setattr(torch.testing, "assert_close", assert_close)


def main(checkout: str, *options: str) -> int:
    """Runs the tests and returns pytest's exit status."""
    if "--torchcodec" in options:
        importlib.import_module("torchcodec")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchcodec"]:
            sys.modules[name].__getattr__ = partial(absent, name)  # of another version than the tests
    else:
        sys.meta_path.insert(0, Finder())
    if "--exact" not in options:
        platform.machine = lambda: "aarch64"
    rest = [option for option in options if option not in ("--torchcodec", "--exact")]
    files = [str(Path(checkout) / "test" / f"test_{name}.py") for name in FILES]
    return pytest.main(["-p", "no:cacheprovider", "-rs", *rest, *files], plugins=[sys.modules[__name__]])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
