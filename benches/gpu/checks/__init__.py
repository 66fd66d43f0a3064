"""The items of check.py."""

from importlib import import_module

#: In the order in which they run: checks that others depend on, and the most important ones, first.
MODULES = (
    "properties",
    "decoding",
    "pixels",
    "loaders",
    "handover",
    "host_batches",
    "damage",
    "images",
    "process",
    "training",
    "sanitizer",
    "costs",
    "suite",
)


def load() -> None:
    """Registers all items."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
