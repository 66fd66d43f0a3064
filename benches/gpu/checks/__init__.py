"""The items of check.py, in the order in which they run."""

from checks import costs, damage, decoding, facts, handover, loaders, pixels, process, suite  # noqa: F401
