"""Shared by the tests that need a GPU, real or simulated."""

from __future__ import annotations

import os

import framespool as fsp
import pytest


@pytest.fixture
def gpu() -> None:
    """Skips without a GPU; fails if FRAMESPOOL_GPU_TESTS requires one."""
    reason = fsp.gpu.unavailable_reason()
    if reason is not None:
        assert not os.environ.get("FRAMESPOOL_GPU_TESTS"), f"a GPU must be here: {reason}"
        pytest.skip(reason)
