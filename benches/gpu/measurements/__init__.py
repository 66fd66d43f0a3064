"""The items of bench.py."""

from importlib import import_module

#: In the order in which they run: the others are compared with the ceiling.
MODULES = ("ceiling", "loading", "uploads", "costs", "images", "nvjpeg_calls", "peer_comparison")


def load() -> None:
    """Registers all items."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
