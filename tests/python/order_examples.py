"""The samplers of examples/orders, for tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ORDERS = Path(__file__).resolve().parents[2] / "examples" / "orders"


def load(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, ORDERS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dali = load("dali")
