"""Shared by the tests that need a GPU, real or simulated."""

from __future__ import annotations

import ctypes
import os

import framespool as fsp
import pytest


def mode_is_on(name: str) -> bool:
    """Whether the driver is the simulated one with this mode; see tests/simulated_gpu/src/lib.rs."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return hasattr(driver, "simulated_gpu_behavior") and bool(driver.simulated_gpu_behavior(name.encode()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expects the warning about pictures that the CPU decodes where every third decoder cannot be created."""
    if mode_is_on("failing_create"):
        for item in items:
            item.add_marker(pytest.mark.filterwarnings("ignore:in this epoch the CPU .*no memory left for a decoder"))


@pytest.fixture
def decoders_are_missing() -> bool:
    """Whether every third decoder cannot be created, so that the CPU decodes some ranges."""
    return mode_is_on("failing_create")


@pytest.fixture
def gpu() -> None:
    """Skips without a GPU; fails if FRAMESPOOL_GPU_TESTS requires one."""
    reason = fsp.gpu.unavailable_reason()
    if reason is not None:
        assert not os.environ.get("FRAMESPOOL_GPU_TESTS"), f"a GPU must be here: {reason}"
        pytest.skip(reason)
